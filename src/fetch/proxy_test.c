// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "fetch/http.h"
#include "fetch/proxy.h"

#include "base/banned.h"

static void entries_mean_hosts_and_domains(void **state)
{
	static const struct {
		const char *entry, *host;
		bool want;
	} rows[] = {
		{ "*", "anything", true },           { "a.example", "a.example", true },    { "A.Example", "a.example", true },
		{ "a.example", "b.a.example", false }, { ".example", "a.example", true },    { "*.example", "b.a.example", true },
		{ ".example", "example", false },     { ".example", "notexample", false },   { "127.0.0.1", "127.0.0.1", true },
		{ "[::1]", "[::1]", true },           { "", "a", false },                    { ".", "a.", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (proxy_entry_has(rows[i].entry, rows[i].host) != rows[i].want)
			fail_msg("'%s' and '%s'", rows[i].entry, rows[i].host);
}

static int check(const struct order *o, const char *url)
{
	struct target t;
	struct err e = { 0 };

	assert_int_equal(target_parse(NULL, url, &t, &e), 0);
	assert_true(proxy_is_for(o, &t));
	return proxy_check(o, &t, NULL, &e) == 0 ? 0 : (int)e.code;
}

static void addresses_that_are_written_out_are_judged(void **state)
{
	static const struct {
		const char *url;
		int want;
	} rows[] = {
		{ "https://registry.example/v2/", 0 },  { "https://8.8.8.8/v2/", 0 },         { "https://[2606:4700::1]/v2/", 0 },
		{ "https://127.0.0.1/v2/", ERR_DENIED }, { "https://10.1.2.3/", ERR_DENIED },  { "https://169.254.169.254/", ERR_DENIED },
		{ "https://[::1]/v2/", ERR_DENIED },    { "https://[fe80::1]/", ERR_DENIED }, { "https://localhost/", ERR_DENIED },
		{ "https://x.LocalHost/", ERR_DENIED }, { "https://0x7f.1/", ERR_DENIED },    { "https://192.168.0.1:5000/", 0 },
	};
	struct registry_rule rules[] = { { .host = "192.168.0.1:5000", .is_private = true } };
	struct order o = { .proxy = "http://proxy:3128", .registries = { rules, 1 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (check(&o, rows[i].url) != rows[i].want)
			fail_msg("%s", rows[i].url);
}

static void what_is_said_of_docker_is_said_of_all_its_names(void **state)
{
	struct registry_rule rules[] = { { .host = "docker.io", .is_insecure = true }, { .host = "ghcr.io" } };
	struct order o = { .registries = { rules, 2 } };
	struct target t;

	(void)state;
	assert_int_equal(target_parse(NULL, "https://registry-1.docker.io/v2/", &t, &(struct err){ 0 }), 0);
	assert_ptr_equal(target_rule(&o, &t), &rules[0]);
	assert_ptr_equal(order_rule(&o, STR("docker.io")), &rules[0]);
	rules[0].host = "index.docker.io";
	assert_ptr_equal(order_rule(&o, STR("docker.io")), &rules[0]);
	assert_null(order_rule(&o, STR("auth.docker.io")));
	assert_ptr_equal(order_rule(&o, STR("ghcr.io")), &rules[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_mean_hosts_and_domains),
		cmocka_unit_test(addresses_that_are_written_out_are_judged),
		cmocka_unit_test(what_is_said_of_docker_is_said_of_all_its_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
