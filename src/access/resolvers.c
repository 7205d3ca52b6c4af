// SPDX-License-Identifier: Apache-2.0
#include "access/resolvers.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"

#include "base/banned.h"

/* The last one is what browsers ask for to find out whether they should leave names to the system. */
static const char *const names[] = {
	"dns.google", "dns.google.com", "dns64.dns.google", "google-public-dns-a.google.com", "google-public-dns-b.google.com",
	"cloudflare-dns.com", "one.one.one.one", "1dot1dot1dot1.cloudflare-dns.com", "cloudflare-gateway.com",
	"dns.quad9.net", "dns9.quad9.net", "dns10.quad9.net", "dns11.quad9.net", "dns-nosec.quad9.net",
	"doh.opendns.com", "doh.familyshield.opendns.com", "doh.umbrella.com", "dns.umbrella.com",
	"dns.adguard.com", "dns.adguard-dns.com", "dns-family.adguard.com", "dns-unfiltered.adguard.com", "d.adguard-dns.com",
	"doh.cleanbrowsing.org", "dns.nextdns.io", "anycast.dns.nextdns.io", "doh.dns.sb", "dns.sb", "doh.sb",
	"dns.alidns.com", "doh.pub", "dns.pub", "doh.360.cn", "dns.twnic.tw", "doh.mullvad.net", "dns.mullvad.net",
	"freedns.controld.com", "dns.controld.com", "common.dot.dns.yandex.net", "dns.yandex.net", "dns0.eu", "zero.dns0.eu", "kids.dns0.eu",
	"doh.libredns.gr", "doh.applied-privacy.net", "doh.ffmuc.net", "dns.digitale-gesellschaft.ch", "doh.xfinity.com", "doh.cox.net",
	"dns.switch.ch", "odvr.nic.cz", "doh.dns.apple.com", "doh.tiar.app", "jp.tiar.app", "dns.njal.la", "ordns.he.net",
	"basic.rethinkdns.com", "max.rethinkdns.com", "sky.rethinkdns.com", "dns.wikimedia.org", "wikimedia-dns.org", "blitz.ahadns.com",
	"use-application-dns.net",
};

struct network {
	const char *address;
	unsigned prefix;
};

static const struct network networks[] = {
	{ "8.8.8.8", 32 }, { "8.8.4.4", 32 },
	{ "1.1.1.1", 32 }, { "1.1.1.2", 31 }, { "1.0.0.1", 32 }, { "1.0.0.2", 31 }, { "104.16.248.249", 32 }, { "104.16.249.249", 32 },
	{ "162.159.61.3", 32 }, { "162.159.61.4", 32 }, { "172.64.41.3", 32 }, { "172.64.41.4", 32 }, { "162.159.36.1", 32 },
	{ "162.159.46.1", 32 },
	{ "9.9.9.9", 32 }, { "9.9.9.10", 31 }, { "149.112.112.9", 32 }, { "149.112.112.10", 31 }, { "149.112.112.112", 32 },
	{ "208.67.222.222", 32 }, { "208.67.220.220", 32 }, { "208.67.222.123", 32 }, { "208.67.220.123", 32 }, { "146.112.41.2", 31 },
	{ "94.140.14.14", 31 }, { "94.140.15.15", 32 }, { "94.140.15.16", 32 }, { "94.140.14.140", 31 },
	{ "185.228.168.9", 32 }, { "185.228.168.10", 32 }, { "185.228.168.168", 32 }, { "185.228.169.9", 32 }, { "185.228.169.11", 32 },
	{ "185.228.169.168", 32 },
	{ "45.90.28.0", 24 }, { "45.90.30.0", 24 }, { "185.222.222.222", 32 }, { "45.11.45.11", 32 },
	{ "223.5.5.5", 32 }, { "223.6.6.6", 32 }, { "119.29.29.29", 32 }, { "1.12.12.12", 32 }, { "120.53.53.53", 32 },
	{ "101.101.101.101", 32 }, { "76.76.2.0", 24 }, { "76.76.10.0", 24 }, { "194.242.2.0", 28 }, { "77.88.8.1", 32 }, { "77.88.8.2", 31 },
	{ "77.88.8.7", 32 }, { "77.88.8.8", 32 }, { "77.88.8.88", 32 }, { "193.110.81.0", 32 }, { "185.253.5.0", 32 },
	{ "116.202.176.26", 32 }, { "146.255.56.98", 32 }, { "185.95.218.42", 31 }, { "193.17.47.1", 32 }, { "185.43.135.1", 32 },
	{ "74.82.42.42", 32 }, { "185.71.138.138", 32 },
};

static bool is_below(const char *name, const char *of)
{
	size_t n = strlen(name), k = strlen(of);

	return n >= k && strcmp(name + n - k, of) == 0 && (n == k || name[n - k - 1] == '.');
}

bool resolver_is_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (is_below(name, names[i]))
			return true;
	return false;
}

bool resolver_is_address(uint32_t address)
{
	for (size_t i = 0; i < ARRAY_LEN(networks); i++) {
		struct in_addr a = { 0 };

		if (inet_pton(AF_INET, networks[i].address, &a) == 1 && (ntohl(a.s_addr ^ address) >> (32 - networks[i].prefix)) == 0)
			return true;
	}
	return false;
}

void resolver_networks_write(struct buf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(networks); i++)
		buf_addf(out, "%s%s/%u", i ? ", " : "", networks[i].address, networks[i].prefix);
}
