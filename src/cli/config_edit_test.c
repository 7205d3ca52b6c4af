// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/toml.h"
#include "cli/config_edit.h"

#include "base/banned.h"

static void values_are_set_and_all_else_stays(void **state)
{
	static const struct {
		const char *text, *section, *field, *value, *want;
	} cases[] = {
		{ "", "a", "b", "x", "[a]\nb = \"x\"\n" },
		{ "[a]\n# b = 1\nc = 2\n", "a", "b", "7", "[a]\nb = 7\nc = 2\n" },
		{ "[a]\nb = 1 # why\n[c]\nb = 2\n", "c", "b", "3", "[a]\nb = 1 # why\n[c]\nb = 3\n" },
		{ "[a]\nx = 1\n\n[c]\ny = 2\n", "a", "b", "TRUE", "[a]\nx = 1\nb = true\n\n[c]\ny = 2\n" },
		{ "[a]\nx = 1", "a", "b", "no", "[a]\nx = 1\nb = \"no\"\n" },
		{ "[a]\n", "c", "d", "1.5", "[a]\n\n[c]\nd = 1.5\n" },
		{ "[[a]]\nb = 1\n", "a2", "b", "\"q\\", "[[a]]\nb = 1\n\n[a2]\nb = \"\\\"q\\\\\"\n" },
		{ "[connection]\n#api_key=\"x\"\n", "connection", "api_key", "12345", "[connection]\napi_key = \"12345\"\n" },
		{ "[connection]\n", "connection", "request_timeout", "60", "[connection]\nrequest_timeout = 60\n" },
		{ "[a]\n", "a", "b", "0755", "[a]\nb = \"0755\"\n" },
		{ "[a]\n", "a", "b", "-3", "[a]\nb = -3\n" },
		{ "[a]\nbb = 1\n", "a", "b", "2", "[a]\nbb = 1\nb = 2\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(4096);

		config_edit(str_of(cases[i].text), str_of(cases[i].section), str_of(cases[i].field), str_of(cases[i].value), &b);
		assert_string_equal(buf_z(&b), cases[i].want);
	}
}

static void the_template_is_toml_and_takes_every_key(void **state)
{
	static const char *const keys[][2] = { { "connection", "api_key" }, { "connection", "domain" }, { "output", "color" },
					       { "defaults", "image" }, { "defaults", "timeout" } };
	AUTO(buf_done) struct buf text = BUF_INIT(4096);

	(void)state;
	buf_addf(&text, "%s", config_template);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(4096);

		config_edit(buf_str(&text), str_of(keys[i][0]), str_of(keys[i][1]), STR("true"), &b);
		buf_clear(&text);
		buf_add_str(&text, buf_str(&b));
	}
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(64 * 1024);
		struct err e = { 0 };
		const struct json *root = toml_parse(&a, buf_str(&text), NULL, NULL, &e);

		assert_non_null(root);
		assert_non_null(json_get(json_get(root, keys[i][0]), keys[i][1]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_set_and_all_else_stays),
		cmocka_unit_test(the_template_is_toml_and_takes_every_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
