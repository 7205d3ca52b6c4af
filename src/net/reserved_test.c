// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/addr.h"
#include "net/reserved.h"

#include "base/banned.h"

static struct addr address(const char *text)
{
	struct addr a = { 0 };

	if (inet_pton(AF_INET, text, &a.in.sin_addr) == 1)
		a.sa.sa_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &a.in6.sin6_addr) == 1)
		a.sa.sa_family = AF_INET6;
	else
		fail_msg("%s", text);
	return a;
}

static void the_public_internet_begins_where_the_ranges_end(void **state)
{
	static const struct {
		const char *text;
		bool is_reserved;
	} cases[] = {
		{ "0.255.255.255", true }, { "1.0.0.0", false }, { "9.255.255.255", false }, { "10.0.0.0", true },
		{ "10.255.255.255", true }, { "11.0.0.0", false }, { "100.63.255.255", false }, { "100.64.0.0", true },
		{ "100.127.255.255", true }, { "100.128.0.0", false }, { "127.0.0.1", true }, { "128.0.0.0", false },
		{ "169.254.169.254", true }, { "169.255.0.0", false }, { "172.15.255.255", false }, { "172.16.0.0", true },
		{ "172.31.255.255", true }, { "172.32.0.0", false }, { "192.0.0.255", true }, { "192.0.1.0", false },
		{ "192.168.1.1", true }, { "198.17.255.255", false }, { "198.18.0.0", true }, { "198.19.255.255", true },
		{ "198.20.0.0", false }, { "223.255.255.255", false }, { "224.0.0.1", true }, { "255.255.255.255", true },
		{ "168.63.129.16", true }, { "168.63.129.17", false }, { "8.8.8.8", false },
		{ "::", true }, { "::1", true }, { "::7f00:1", true }, { "::ffff:8.8.8.8", true }, { "64:ff9b::a00:1", true },
		{ "64:ff9b:1::", true }, { "64:ff9b:2::", false }, { "2001::1", true }, { "2001:1::", false },
		{ "2002:a00::", true }, { "2003::", false }, { "fbff::", false }, { "fc00::", true }, { "fdff::", true },
		{ "fe7f::", false }, { "fe80::1", true }, { "febf::", true }, { "fec0::", false }, { "ff02::1", true },
		{ "2606:4700::1111", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct addr a = address(cases[i].text);

		if (address_is_reserved(&a.sa) != cases[i].is_reserved)
			fail_msg("%s", cases[i].text);
	}
	assert_true(address_is_reserved(&(struct sockaddr){ .sa_family = AF_UNIX }));
}

static void own_addresses_are_known_whatever_their_port(void **state)
{
	AUTO(own_addresses_done) struct own_addresses own = OWN_ADDRESSES_INIT;
	struct addr lo = address("127.0.0.1"), other = address("8.8.8.8");
	struct err e = { 0 };

	(void)state;
	assert_int_equal(own_addresses_read(&own, &e), 0);
	lo.in.sin_port = htons(80);
	assert_true(own_addresses_have(&own, &lo.sa));
	assert_false(own_addresses_have(&own, &other.sa));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_public_internet_begins_where_the_ranges_end),
		cmocka_unit_test(own_addresses_are_known_whatever_their_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
