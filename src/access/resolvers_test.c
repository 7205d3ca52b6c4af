// SPDX-License-Identifier: Apache-2.0
#include "access/resolvers.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/str.h"

#include "base/banned.h"

static uint32_t address_of(const char *text)
{
	struct in_addr a = { 0 };

	assert_int_equal(inet_pton(AF_INET, text, &a), 1);
	return a.s_addr;
}

static void names_are_theirs_with_all_below(void **state)
{
	(void)state;
	assert_true(resolver_is_name("dns.google"));
	assert_true(resolver_is_name("mozilla.cloudflare-dns.com"));
	assert_true(resolver_is_name("use-application-dns.net"));
	assert_false(resolver_is_name("google"));
	assert_false(resolver_is_name("xdns.google"));
	assert_false(resolver_is_name("dns.google.test"));
	assert_false(resolver_is_name(""));
}

static void addresses_are_theirs(void **state)
{
	static const struct {
		const char *text;
		bool want;
	} cases[] = {
		{ "8.8.8.8", true }, { "8.8.8.9", false }, { "1.1.1.2", true }, { "1.1.1.3", true }, { "1.1.1.4", false }, { "45.90.28.77", true },
		{ "198.51.100.10", false }, { "0.0.0.0", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(resolver_is_address(address_of(cases[i].text)), cases[i].want);
}

/* A network with bits beyond its prefix would make a table that nft refuses, or one that is not what is said here. */
static void every_network_is_one(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(16384);
	struct str rest, item, address, prefix;
	uint64_t bits;
	char text[32];

	(void)state;
	resolver_networks_write(&b);
	assert_false(b.failed);
	for (rest = buf_str(&b); rest.n > 0;) {
		(void)str_cut(rest, ',', &item, &rest);
		assert_true(str_cut(str_trim(item), '/', &address, &prefix));
		assert_true(str_to_u64(prefix, 8, 32, &bits) && address.n < sizeof(text));
		memcpy(text, address.p, address.n);
		text[address.n] = '\0';
		assert_int_equal(bits == 32 ? 0 : ntohl(address_of(text)) & (UINT32_MAX >> bits), 0);
		assert_true(resolver_is_address(address_of(text)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_theirs_with_all_below),
		cmocka_unit_test(addresses_are_theirs),
		cmocka_unit_test(every_network_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
