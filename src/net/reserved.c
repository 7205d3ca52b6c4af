// SPDX-License-Identifier: Apache-2.0
#include "net/reserved.h"

#include <ifaddrs.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

#include "base/banned.h"

#define OWN_MAX 65536

struct range {
	unsigned char bytes[16];
	unsigned bits;
};

static const struct range v4[] = {
	{ { 0 }, 8 },             { { 10 }, 8 },           { { 100, 64 }, 10 },  { { 127 }, 8 },
	{ { 169, 254 }, 16 },     { { 172, 16 }, 12 },     { { 192, 0, 0 }, 24 }, { { 192, 168 }, 16 },
	{ { 198, 18 }, 15 },      { { 224 }, 4 },          { { 240 }, 4 },       { { 168, 63, 129, 16 }, 32 },
};

/* ::/96 has the unspecified address, loopback, and the forgotten form of an IPv4 address. */
static const struct range v6[] = {
	{ { 0 }, 96 },
	{ { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff }, 96 },
	{ { 0, 0x64, 0xff, 0x9b }, 96 },
	{ { 0, 0x64, 0xff, 0x9b, 0, 1 }, 48 },
	{ { 0x20, 1 }, 32 },
	{ { 0x20, 2 }, 16 },
	{ { 0xfc }, 7 },
	{ { 0xfe, 0x80 }, 10 },
	{ { 0xff }, 8 },
};

static bool is_in(const unsigned char *address, const struct range *r)
{
	unsigned whole = r->bits / 8, rest = r->bits % 8;
	unsigned mask = (0xff00U >> rest) & 0xff;

	if (memcmp(address, r->bytes, whole) != 0)
		return false;
	return rest == 0 || (address[whole] & mask) == (r->bytes[whole] & mask);
}

/* Whether one of the ranges has all addresses that share the first BITS with this one. */
static bool is_in_any(const unsigned char *address, unsigned bits, const struct range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bits >= ranges[i].bits && is_in(address, &ranges[i]))
			return true;
	return false;
}

/* The bytes of an address, wherever they lie; NULL: no IP. */
static const unsigned char *bytes_of(const struct sockaddr *sa, size_t *ret_n)
{
	if (sa->sa_family == AF_INET) {
		*ret_n = 4;
		return (const unsigned char *)&((const struct sockaddr_in *)(const void *)sa)->sin_addr;
	}
	if (sa->sa_family == AF_INET6) {
		*ret_n = 16;
		return (const unsigned char *)&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
	}
	return NULL;
}

bool network_is_reserved(const struct sockaddr *sa, unsigned bits)
{
	size_t n = 0;
	const unsigned char *bytes = bytes_of(sa, &n);

	if (!bytes)
		return true;
	return n == 4 ? is_in_any(bytes, bits, v4, ARRAY_LEN(v4)) : is_in_any(bytes, bits, v6, ARRAY_LEN(v6));
}

bool address_is_reserved(const struct sockaddr *sa)
{
	return network_is_reserved(sa, UINT_MAX);
}

void own_addresses_done(struct own_addresses *own)
{
	free(own->items);
	*own = OWN_ADDRESSES_INIT;
}

int own_addresses_read(struct own_addresses *ret, struct err *e)
{
	struct own_addresses own = OWN_ADDRESSES_INIT;
	struct ifaddrs *all = NULL;
	size_t n = 0;

	if (getifaddrs(&all) < 0)
		return err_sys(e, errno, "list the addresses of this host");
	for (const struct ifaddrs *a = all; a && n < OWN_MAX; a = a->ifa_next)
		n++;
	own.items = calloc(n + 1, sizeof(*own.items));
	for (const struct ifaddrs *a = all; own.items && a && own.n < n; a = a->ifa_next) {
		bool is_v6 = a->ifa_addr && a->ifa_addr->sa_family == AF_INET6;

		if (a->ifa_addr && (is_v6 || a->ifa_addr->sa_family == AF_INET))
			memcpy(&own.items[own.n++], a->ifa_addr, is_v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
	}
	freeifaddrs(all);
	if (!own.items)
		return err_no_memory(e);
	*ret = own;
	return 0;
}

bool own_addresses_have(const struct own_addresses *own, const struct sockaddr *sa)
{
	size_t n = 0, m = 0;
	const unsigned char *wanted = bytes_of(sa, &n);

	for (size_t i = 0; wanted && i < own->n; i++) {
		const unsigned char *ours = bytes_of((const struct sockaddr *)&own->items[i], &m);

		if (ours && n == m && memcmp(ours, wanted, n) == 0)
			return true;
	}
	return false;
}
