// SPDX-License-Identifier: Apache-2.0
#include "execd/io/line_window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/buf.h"

#include "base/banned.h"

static void run(struct line_window w, struct str text, size_t piece, struct buf *out)
{
	bool is_done = false;

	for (; text.n > 0 && !is_done; text = str_skip(text, piece)) {
		struct str in = str_first(text, piece);

		while (in.n > 0 && !is_done)
			is_done = line_window_take(&w, &in, out);
	}
}

static void lines_are_the_same_however_they_come(void **state)
{
	static const struct {
		uint64_t skip, left;
		const char *text, *want;
	} cases[] = {
		{ 0, UINT64_MAX, "", "" },
		{ 0, UINT64_MAX, "a", "a" },
		{ 0, UINT64_MAX, "a\n", "a" },
		{ 0, UINT64_MAX, "a\nb\n", "a\nb" },
		{ 0, UINT64_MAX, "\n\n\n", "\n\n" },
		{ 0, UINT64_MAX, "a\r\nb\r\r\n\r\nc\r", "a\nb\n\nc" },
		{ 0, UINT64_MAX, "a\rb\r\rc\n", "a\rb\r\rc" },
		{ 0, UINT64_MAX, "\r\rx", "\r\rx" },
		{ 1, 2, "line1\nline2\nline3\nline4\n", "line2\nline3" },
		{ 1, 1, "a\nb", "b" },
		{ 2, 1, "a\nb\n", "" },
		{ 1, 1, "a", "" },
		{ 0, 1, "\nb", "" },
		{ 0, 2, "\nb", "\nb" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (size_t piece = 1; piece < 30; piece++) {
			AUTO(buf_done) struct buf out = BUF_INIT(1000);
			struct line_window w = { .skip = cases[i].skip, .left = cases[i].left };

			run(w, str_of(cases[i].text), piece, &out);
			assert_string_equal(buf_z(&out), cases[i].want);
		}
	}
}

static void carriage_returns_without_end_come_in_steps(void **state)
{
	AUTO(buf_done) struct buf out = BUF_INIT((size_t)1 << 20);
	struct line_window w = { .left = UINT64_MAX, .held = 200000, .is_inside = true, .has_line = true };
	struct str in = STR("x\n");
	size_t total = 0;

	(void)state;
	while (in.n > 0) {
		(void)line_window_take(&w, &in, &out);
		assert_true(out.n <= LINE_WINDOW_STEP + 256);
		total += out.n;
		buf_clear(&out);
	}
	assert_int_equal(total, 200001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_the_same_however_they_come),
		cmocka_unit_test(carriage_returns_without_end_come_in_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
