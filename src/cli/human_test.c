// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/own.h"
#include "cli/human.h"

#include "base/banned.h"

static void bytes_are_shown_with_a_unit_that_fits(void **state)
{
	static const struct {
		uint64_t n;
		const char *want;
	} cases[] = {
		{ 0, "0 B" }, { 1, "1 B" }, { 1023, "1023 B" }, { 1024, "1.0 KiB" }, { 1536, "1.5 KiB" },
		{ 1024 * 1024 - 1, "1.0 MiB" }, { 100 * 1024 * 1024, "100 MiB" }, { UINT64_C(5) << 30, "5.0 GiB" },
		{ UINT64_MAX, "16.0 EiB" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_string_equal(BYTES(cases[i].n), cases[i].want);
}

static void spans_have_their_two_largest_units(void **state)
{
	static const struct {
		uint64_t s;
		const char *want;
	} cases[] = {
		{ 0, "0s" }, { 59, "59s" }, { 60, "1m" }, { 61, "1m1s" }, { 3600, "1h" }, { 3661, "1h1m" }, { 3601, "1h" },
		{ 90000, "1d1h" }, { 86400 * 400, "400d" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_string_equal(SPAN(cases[i].s), cases[i].want);
}

static void cells_are_as_wide_as_asked_whatever_is_in_them(void **state)
{
	static const struct {
		const char *in;
		unsigned columns;
		const char *want;
	} cases[] = {
		{ "abc", 5, "abc  " },   { "abcde", 5, "abcde" },       { "abcdef", 5, "abcd~" },
		{ "", 3, "   " },        { "\xc3\xa4\xc3\xb6\xc3\xbc", 2, "\xc3\xa4~" },
		{ "\x1b[2J", 8, "\\u001b[~" }, { "\x1b[2J", 5, "~    " }, { "a\\b", 3, "a\\b" }, { "x", 0, "" },
		{ "\xff", 4, "\\xff" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(64);

		human_cell(&b, str_of(cases[i].in), cases[i].columns);
		assert_string_equal(buf_z(&b), cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_shown_with_a_unit_that_fits),
		cmocka_unit_test(spans_have_their_two_largest_units),
		cmocka_unit_test(cells_are_as_wide_as_asked_whatever_is_in_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
