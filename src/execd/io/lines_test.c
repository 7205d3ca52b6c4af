// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* wants the four above first */

#include "base/buf.h"
#include "execd/io/lines.h"

#include "base/banned.h"

/* All texts of IN, each in brackets, fed STEP bytes at a time. */
static void split(struct str in, size_t step, struct buf *out)
{
	AUTO(buf_done) struct buf held = BUF_INIT(1 << 16);
	struct lines l = { 0 };
	struct str text;
	size_t used;

	for (bool is_last = false; !is_last;) {
		struct str piece = str_first(in, step);

		in = str_skip(in, step);
		is_last = in.n == 0;
		buf_add_str(&held, piece);
		while (lines_next(&l, buf_str(&held), is_last ? LINES_LAST : LINES_WHOLE, &text, &used)) {
			buf_addf(out, "[%.*s]", STR_ARG(text));
			buf_consume(&held, used);
		}
		buf_consume(&held, used);
	}
	assert_int_equal(held.n, 0);
}

static void lines_end_with_lf_cr_or_both_however_they_arrive(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "", "" },
		{ "a\n", "[a]" },
		{ "a", "[a]" },
		{ "a\n\nb\n\n\nc\n", "[a][\n][b][\n][\n][c]" },
		{ "a\rb\r\nc", "[a][b][c]" },
		{ "\r\n\r\n", "[\n][\n]" },
		{ "\n\r", "[\n][\n]" },
		{ "a\r\r\n\nb", "[a][\n][\n][b]" },
		{ "10%\r20%\r", "[10%][20%]" },
		{ "\r", "[\n]" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (size_t step = 1; step < 6; step++) {
			AUTO(buf_done) struct buf got = BUF_INIT(1024);

			split(str_of(cases[i].in), step, &got);
			assert_string_equal(buf_z(&got), cases[i].want);
		}
	}
}

static void a_cut_line_goes_on_and_its_end_is_no_empty_line(void **state)
{
	struct lines l = { 0 };
	struct str text;
	size_t used;

	(void)state;
	assert_false(lines_next(&l, STR("abc"), LINES_WHOLE, &text, &used));
	assert_int_equal(used, 0);
	assert_true(lines_next(&l, STR("abc"), LINES_CUT, &text, &used));
	assert_true(str_eq(text, STR("abc")) && used == 3);
	assert_true(lines_next(&l, STR("\nx\n"), LINES_WHOLE, &text, &used));
	assert_true(str_eq(text, STR("x")));
	assert_int_equal(used, 3);
	assert_true(lines_next(&l, STR("\n"), LINES_WHOLE, &text, &used));
	assert_true(str_eq(text, STR("\n")));
}

static void a_cut_line_that_ends_with_the_output_gives_nothing_more(void **state)
{
	struct lines l = { 0 };
	struct str text;
	size_t used;

	(void)state;
	assert_true(lines_next(&l, STR("abc"), LINES_CUT, &text, &used));
	assert_false(lines_next(&l, STR(""), LINES_LAST, &text, &used));
	assert_false(lines_next(&l, STR("\r"), LINES_LAST, &text, &used));
	assert_int_equal(used, 1);
	assert_true(l.skips_lf);
}

static void a_cut_does_not_part_a_character(void **state)
{
	struct lines l = { 0 };
	struct str text;
	size_t used;

	(void)state;
	assert_true(lines_next(&l, STR("ab\xe2\x82"), LINES_CUT, &text, &used));
	assert_true(str_eq(text, STR("ab")) && used == 2);
	assert_true(lines_next(&l, STR("\xe2\x82\xac"), LINES_CUT, &text, &used));
	assert_int_equal(used, 3);
	assert_true(lines_next(&l, STR("\xe2"), LINES_CUT, &text, &used)); /* or it would wait for ever */
	assert_int_equal(used, 1);
	assert_true(lines_next(&l, STR("a\xff\xff\xff\xff"), LINES_CUT, &text, &used));
	assert_int_equal(used, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_end_with_lf_cr_or_both_however_they_arrive),
		cmocka_unit_test(a_cut_line_goes_on_and_its_end_is_no_empty_line),
		cmocka_unit_test(a_cut_line_that_ends_with_the_output_gives_nothing_more),
		cmocka_unit_test(a_cut_does_not_part_a_character),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
