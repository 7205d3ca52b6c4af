// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/own.h"
#include "cli/progress.h"

#include "base/banned.h"

#define MIB (UINT64_C(1) << 20)

static void the_line_says_how_far_it_is_and_fits(void **state)
{
	static const struct {
		const char *what, *note;
		uint64_t done, total, ms;
		unsigned columns;
		const char *want;
	} cases[] = {
		{ "a.bin", "", 50 * MIB, 100 * MIB, 1000, 80,
		  "a.bin  ############............   50%  50.0 MiB of 100 MiB  50.0 MiB/s  1s left" },
		{ "a.bin", "", 50 * MIB, 100 * MIB, 1000, 50, "a.bin   50%  50.0 MiB of 100 MiB  50.0 MiB/s" },
		{ "a.bin", "", 100 * MIB, 100 * MIB, 2000, 100,
		  "a.bin  ########################################  100%  100 MiB of 100 MiB  50.0 MiB/s" },
		{ "a.bin", "", 3 * MIB, PROGRESS_UNKNOWN, 1000, 80, "a.bin  3.0 MiB  3.0 MiB/s" },
		{ "a.bin", "", 0, 0, 0, 60, "a.bin  ##################################  100%  0 B of 0 B" },
		{ "a.bin", "resolving", 0, PROGRESS_UNKNOWN, 0, 80, "a.bin  resolving" },
		{ "\x1b[31mred", "", 0, 10, 0, 60, "\\u001b[~  ..............................    0%  0 B of 10 B" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(512);
		struct progress p = { .what = str_of(cases[i].what), .note = str_of(cases[i].note), .done = cases[i].done,
				      .total = cases[i].total };

		progress_line(&p, cases[i].ms, cases[i].columns, &b);
		assert_string_equal(buf_z(&b), cases[i].want);
	}
}

static void no_line_is_wider_than_its_terminal(void **state)
{
	(void)state;
	for (unsigned columns = 1; columns < 200; columns++) {
		AUTO(buf_done) struct buf b = BUF_INIT(512);
		struct progress p = { .what = STR("a-name-that-is-long-enough-to-be-cut.tar"), .done = 700 * MIB, .total = 900 * MIB };

		progress_line(&p, 60000, columns, &b);
		assert_true(b.n <= columns);
	}
}

static void nothing_is_drawn_where_there_is_no_terminal(void **state)
{
	struct progress p;
	int ends[2];
	char c;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	progress_init(&p, ends[1], false, STR("x"), 10);
	p.start_ms = 0;
	progress_set(&p, 5);
	progress_say(&p, STR("note"));
	progress_clear(&p);
	(void)close(ends[1]);
	assert_int_equal(read(ends[0], &c, 1), 0);
	(void)close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_line_says_how_far_it_is_and_fits),
		cmocka_unit_test(no_line_is_wider_than_its_terminal),
		cmocka_unit_test(nothing_is_drawn_where_there_is_no_terminal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
