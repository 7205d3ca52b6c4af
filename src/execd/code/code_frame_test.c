// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* wants the four above first */

#include "base/err.h"
#include "base/own.h"
#include "execd/code/code_frame.h"

#include "base/banned.h"

static void heads_are_read_or_waited_for_or_refused(void **state)
{
	static const struct {
		const char *in;
		int want;
		char type;
		size_t length, used;
	} cases[] = {
		{ "", 0, 0, 0, 0 },
		{ "O", 0, 0, 0, 0 },
		{ "O12", 0, 0, 0, 0 },
		{ "O12\nabc", 1, 'O', 12, 4 },
		{ "Z0\n", 1, 'Z', 0, 3 },
		{ "R3145728\n", 1, 'R', 3145728, 9 },
		{ "R3145729\n", -1, 0, 0, 0 },
		{ "R99999999", -1, 0, 0, 0 },
		{ "R-1\n", -1, 0, 0, 0 },
		{ "R\n", -1, 0, 0, 0 },
		{ "R 1\n", -1, 0, 0, 0 },
		{ "r1\n", -1, 0, 0, 0 },
		{ "\n", -1, 0, 0, 0 },
		{ "\xff", -1, 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		struct code_frame f = { 0 };
		size_t used = 0;

		assert_int_equal(code_frame_head(str_of(cases[i].in), &f, &used, &e), cases[i].want);
		assert_int_equal(f.type, cases[i].type);
		assert_int_equal(f.length, cases[i].length);
		assert_int_equal(used, cases[i].used);
		assert_int_equal(e.code, cases[i].want < 0 ? ERR_INVALID : ERR_NONE);
	}
}

static void parts_are_taken_one_by_one(void **state)
{
	struct str in = STR("count 1\n7text/plain 3\na\nbimage/png 0\n"), name, value;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(code_frame_item(&in, &name, &value, &e), 1);
	assert_true(str_is(name, "count") && str_is(value, "7"));
	assert_int_equal(code_frame_item(&in, &name, &value, &e), 1);
	assert_true(str_is(name, "text/plain") && str_is(value, "a\nb"));
	assert_int_equal(code_frame_item(&in, &name, &value, &e), 1);
	assert_true(str_is(name, "image/png") && value.n == 0);
	assert_int_equal(code_frame_item(&in, &name, &value, &e), 0);
}

static void parts_that_lie_are_refused(void **state)
{
	static const char *const cases[] = { "a", "a\n", "a 1\n", "a 5\nbcd", " 1\nx", "a -1\nx", "a 1 1\nx", "a 99999999999999999999\nx" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str in = str_of(cases[i]), name, value;
		struct err e = { 0 };

		assert_int_equal(code_frame_item(&in, &name, &value, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heads_are_read_or_waited_for_or_refused),
		cmocka_unit_test(parts_are_taken_one_by_one),
		cmocka_unit_test(parts_that_lie_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
