// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* wants the four above first */

#include "base/arena.h"
#include "base/err.h"
#include "base/own.h"
#include "execd/spec.h"

#include "base/banned.h"

static void a_spec_is_bound(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	struct err e = { 0 };
	struct spec s;

	(void)state;
	assert_int_equal(spec_parse(STR("{\"id\":\"ab12\",\"entrypoint\":[\"python3\",\"app.py\"],\"env\":{\"A\":\"1\"},"
					"\"cwd\":\"/w\",\"user\":\"app\",\"token\":\"t\"}"),
				    &a, &s, &e), 0);
	assert_string_equal(s.id, "ab12");
	assert_int_equal(s.entrypoint.n, 2);
	assert_string_equal(s.env.items[0].value, "1");
	assert_string_equal(s.user, "app");
	assert_true(!s.stays);
}

static void what_stays_needs_no_process(void **state)
{
	static const struct {
		const char *text;
		bool stays;
	} cases[] = {
		{ "{}", true },
		{ "{\"entrypoint\":null}", true },
		{ "{\"entrypoint\":[]}", true },
		{ "{\"entrypoint\":[\"tail\",\"-f\",\"/dev/null\"]}", true },
		{ "{\"entrypoint\":[\"tail\",\"-f\"]}", false },
		{ "{\"entrypoint\":[\"tail\",\"-f\",\"/dev/null\",\"x\"]}", false },
		{ "{\"entrypoint\":[\"tail\",\"-F\",\"/dev/null\"]}", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
		struct err e = { 0 };
		struct spec s;

		assert_int_equal(spec_parse(str_of(cases[i].text), &a, &s, &e), 0);
		assert_int_equal(s.stays, cases[i].stays);
	}
}

static void a_wrong_spec_is_refused_by_name(void **state)
{
	static const struct {
		const char *text, *named;
	} cases[] = {
		{ "", "spec" },
		{ "[]", "spec" },
		{ "{\"surprise\":1}", "surprise" },
		{ "{\"id\":\"A b\"}", "id" },
		{ "{\"entrypoint\":[\"\"]}", "entrypoint" },
		{ "{\"entrypoint\":\"sh\"}", "entrypoint" },
		{ "{\"env\":{\"A=\":\"1\"}}", "env" },
		{ "{\"env\":{\"\":\"1\"}}", "env" },
		{ "{\"uid\":65536}", "uid" },
		{ "{\"gid\":1}", "gid" },
		{ "{\"uid\":1,\"user\":\"x\"}", "user" },
		{ "{\"cgroups\":1}", "cgroups" },
		{ "{\"token\":\"\"}", "token" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
		struct err e = { 0 };
		struct spec s;

		assert_int_equal(spec_parse(str_of(cases[i].text), &a, &s, &e), -1);
		assert_non_null(strstr(e.msg, cases[i].named));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_spec_is_bound),
		cmocka_unit_test(what_stays_needs_no_process),
		cmocka_unit_test(a_wrong_spec_is_refused_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
