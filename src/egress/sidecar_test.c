// SPDX-License-Identifier: Apache-2.0
#include "egress/sidecar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

static struct {
	const char *name, *value;
} vars[4];

static const char *get(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(vars); i++)
		if (vars[i].name && strcmp(vars[i].name, name) == 0)
			return vars[i].value;
	return strcmp(name, "OPENSANDBOX_EGRESS_DNS_UPSTREAM") == 0 ? "192.0.2.53" : NULL;
}

static struct sidecar s;

static int read_one(const char *name, const char *value, struct err *e)
{
	memset(vars, 0, sizeof(vars));
	vars[0].name = name;
	vars[0].value = value;
	*e = (struct err){ 0 };
	return sidecar_read(&s, get, e);
}

static void nothing_said_denies_everything(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(read_one("X", "", &e), 0);
	assert_string_equal(s.policy, "");
	assert_string_equal(s.id, "sandbox");
	assert_null(s.egress.token);
	assert_int_equal(ntohs(s.api.in.sin_port), SIDECAR_PORT);
	assert_int_equal(s.egress.max_rules, POLICY_RULES_MAX);
	assert_int_equal(s.egress.n_upstreams, 1);
	assert_true(s.egress.is_sidecar);
}

static void modes_are_one_of_two_or_refused(void **state)
{
	static const struct {
		const char *value;
		int want;
	} cases[] = {
		{ "dns", 0 }, { "dns+nft", 0 }, { "NFT+dns", 0 }, { " dns + nft ", 0 }, { "nft", -1 }, { "dns+", 0 }, { "dns,nft", -1 },
		{ "dnsnft", -1 }, { "+", -1 }, { "none", -1 }, { "dns+nft+x", -1 },
	};
	struct err e;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(read_one("OPENSANDBOX_EGRESS_MODE", cases[i].value, &e), cases[i].want);
		if (cases[i].want < 0)
			assert_non_null(strstr(e.msg, "OPENSANDBOX_EGRESS_MODE"));
	}
}

static void addresses_of_the_api(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(read_one("OPENSANDBOX_EGRESS_HTTP_ADDR", ":19000", &e), 0);
	assert_int_equal(ntohs(s.api.in.sin_port), 19000);
	assert_int_equal(s.api.in.sin_addr.s_addr, 0);
	assert_int_equal(read_one("OPENSANDBOX_EGRESS_HTTP_ADDR", "[::1]:80", &e), 0);
	assert_int_equal(s.api.sa.sa_family, AF_INET6);
	assert_int_equal(read_one("OPENSANDBOX_EGRESS_HTTP_ADDR", "unix:/x", &e), -1);
	assert_int_equal(read_one("OPENSANDBOX_EGRESS_HTTP_ADDR", "host", &e), -1);
}

static void numbers_that_are_none_are_the_default(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(read_one("OPENSANDBOX_EGRESS_MAX_RULES", " 7 ", &e), 0);
	assert_int_equal(s.egress.max_rules, 7);
	for (const char *const *v = (const char *const[]){ "0", "-1", "x", "99999", NULL }; *v; v++) {
		assert_int_equal(read_one("OPENSANDBOX_EGRESS_MAX_RULES", *v, &e), 0);
		assert_int_equal(s.egress.max_rules, POLICY_RULES_MAX);
	}
}

static void lists_have_items_and_ends(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(read_one("OPENSANDBOX_EGRESS_DNS_UPSTREAM", "192.0.2.1, 192.0.2.2:5353,, [2001:db8::1], 192.0.2.1", &e), 0);
	assert_int_equal(s.egress.n_upstreams, 2); /* each once, and IPv4 alone */
	assert_int_equal(ntohs(s.egress.upstreams[1].in.sin_port), 5353);
	assert_int_equal(read_one("OPENSANDBOX_EGRESS_DNS_UPSTREAM", "192.0.2.1,resolver", &e), -1);
	assert_int_equal(read_one("OPENSANDBOX_EGRESS_DOH_BLOCKLIST", "192.0.2.0/24, x, 2001:db8::/32, 198.51.100.1", &e), 0);
	assert_int_equal(s.n_resolvers, 2);
	assert_int_equal(read_one("OPENSANDBOX_EGRESS_ALLOW_PRIVATE", "10.1.0.0/16", &e), 0);
	assert_int_equal(s.egress.n_opened, 1);
	assert_int_equal(read_one("OPENSANDBOX_EGRESS_ALLOW_PRIVATE", "a.test", &e), -1);
}

static void the_table_has_what_was_said(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(256 * 1024);
	struct err e;

	(void)state;
	assert_int_equal(read_one("OPENSANDBOX_EGRESS_DOH_BLOCKLIST", "192.0.2.7", &e), 0);
	sidecar_table(&s, 0x40c0ffee, &b);
	assert_false(b.failed);
	assert_non_null(strstr(buf_z(&b), "resolvers { 192.0.2.7/32 }"));
	assert_non_null(strstr(buf_z(&b), "upstreams { 192.0.2.53 . 53 }"));
	assert_non_null(strstr(buf_z(&b), "meta mark 0x40c0ffee goto own"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_said_denies_everything),
		cmocka_unit_test(modes_are_one_of_two_or_refused),
		cmocka_unit_test(addresses_of_the_api),
		cmocka_unit_test(numbers_that_are_none_are_the_default),
		cmocka_unit_test(lists_have_items_and_ends),
		cmocka_unit_test(the_table_has_what_was_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
