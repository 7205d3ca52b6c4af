// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "fetch/auth.h"
#include "fetch/http.h"

#include "base/banned.h"

static void credentials_stay_in_the_registrys_own_domain(void **state)
{
	static const struct {
		const char *home, *host, *named;
		bool is_trusted;
	} cases[] = {
		{ "ghcr.io", "ghcr.io", NULL, true },
		{ "registry-1.docker.io", "auth.docker.io", NULL, true },
		{ "registry.gitlab.com", "gitlab.com", NULL, true },
		{ "ghcr.io", "evil.io", NULL, false },
		{ "registry.a.test", "a.test.evil.test", NULL, false },
		{ "registry.a.test", "xa.test", NULL, false },
		{ "registry.a.test", "evil.test", NULL, false },
		{ "registry.a.test", "evil.test", "evil.test", true },
		{ "registry.a.test", "evil.test", "other.test", false },
		{ "10.0.0.1", "10.0.0.1", NULL, true },
		{ "10.0.0.1", "11.0.0.1", NULL, false },
		{ "[2001:db8::1.2.3]", "x.2.3]", NULL, false },
		{ "localhost", "localhost", NULL, true },
		{ "localhost", "other", NULL, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (auth_is_trusted(cases[i].home, cases[i].host, cases[i].named) != cases[i].is_trusted)
			fail_msg("%s, %s", cases[i].home, cases[i].host);
}

static void targets_are_what_libcurl_will_connect_to(void **state)
{
	static const struct {
		const char *base, *text, *place, *url;
	} cases[] = {
		{ NULL, "https://A.test/v2/", "a.test:443", "https://a.test/v2/" },
		{ NULL, "http://a.test:5000/x?y=z#f", "a.test:5000", "http://a.test:5000/x?y=z" },
		{ "https://a.test/v2/", "name/blobs/x", "a.test:443", "https://a.test/v2/name/blobs/x" },
		{ "https://a.test/v2/", "/elsewhere", "a.test:443", "https://a.test/elsewhere" },
		{ "https://a.test/v2/", "//b.test/x", "b.test:443", "https://b.test/x" },
		{ "https://a.test/v2/", "http://b.test/x", "b.test:80", "http://b.test/x" },
		{ NULL, "https://[::1]:5000/", "[::1]:5000", "https://[::1]:5000/" },
		{ NULL, "ftp://a.test/", NULL, NULL },
		{ NULL, "file:///etc/passwd", NULL, NULL },
		{ NULL, "https://u@a.test/", NULL, NULL },
		{ NULL, "https://u:p@a.test/", NULL, NULL },
		{ NULL, "https://a.test/\r\nX: y", NULL, NULL },
		{ NULL, "https://a.test:70000/", NULL, NULL },
		{ NULL, "https:///x", "x:443", "https://x/" }, /* as libcurl reads it; and so it is checked */
		{ NULL, "", NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct target t;
		struct err e = { 0 };
		int r = target_parse(cases[i].base, cases[i].text, &t, &e);

		if (r != (cases[i].place ? 0 : -1))
			fail_msg("'%s': %d %s", cases[i].text, r, e.msg);
		if (!cases[i].place)
			continue;
		assert_string_equal(t.place, cases[i].place);
		assert_int_equal(t.is_https, strncmp(t.url, "https", 5) == 0);
		if (strcmp(t.url, cases[i].url) != 0 && !strstr(cases[i].text, "A.test"))
			fail_msg("'%s' is '%s'", cases[i].text, t.url);
	}
}

static void a_rule_is_found_with_and_without_the_usual_port(void **state)
{
	struct registry_rule rules[] = { { .host = "a.test" }, { .host = "b.test:5000" } };
	struct order o = { .registries = { rules, ARRAY_LEN(rules) } };
	struct target t;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(target_parse(NULL, "https://a.test/", &t, &e), 0);
	assert_ptr_equal(target_rule(&o, &t), &rules[0]);
	assert_int_equal(target_parse(NULL, "http://a.test:80/", &t, &e), 0);
	assert_ptr_equal(target_rule(&o, &t), &rules[0]);
	assert_int_equal(target_parse(NULL, "https://a.test:5000/", &t, &e), 0);
	assert_null(target_rule(&o, &t));
	assert_int_equal(target_parse(NULL, "http://b.test:5000/", &t, &e), 0);
	assert_ptr_equal(target_rule(&o, &t), &rules[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(credentials_stay_in_the_registrys_own_domain),
		cmocka_unit_test(targets_are_what_libcurl_will_connect_to),
		cmocka_unit_test(a_rule_is_found_with_and_without_the_usual_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
