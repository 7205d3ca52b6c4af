// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/own.h"
#include "cli/top_page.h"

#include "base/banned.h"

#define MIB (UINT64_C(1) << 20)

static void make_rows(struct top_row rows[3])
{
	rows[0] = (struct top_row){ STR("aaaaaaaa-1111-4222-8333-444444444444"), STR("Running"), STR("python:3.12"), true, 12.34, 120 * MIB,
				    512 * MIB, 200 };
	rows[1] = (struct top_row){ STR("bbbbbbbb-1111-4222-8333-444444444444"), STR("Paused"), STR("host"), .age_s = 10 };
	rows[2] = (struct top_row){ STR("c"), STR("Running"), STR("a\x1b[2Jb"), true, 99, 10 * MIB, 2048 * MIB, -1 };
}

static void the_table_is_one_that_people_can_read(void **state)
{
	static const char want[] =
		"3 sandboxes, 2 running   cpu 111.3%   memory 130 MiB                            q quit  c cpu  m memory  a age\n"
		"\n"
		"ID                                    STATE          CPU                MEMORY      AGE  IMAGE\n"
		"aaaaaaaa-1111-4222-8333-444444444444  Running      12.3%     120 MiB / 512 MiB    3m20s  python:3.12\n"
		"bbbbbbbb-1111-4222-8333-444444444444  Paused           -                     -      10s  host\n"
		"c                                     Running      99.0%    10.0 MiB / 2.0 GiB        -  a\\u001b[2Jb\n";
	AUTO(buf_done) struct buf out = BUF_INIT(65536);
	struct top_view v = { .columns = 110, .rows = 24, .is_plain = true, .is_live = true, .n_all = 3 };
	struct top_row rows[3];

	(void)state;
	make_rows(rows);
	top_page(rows, 3, &v, &out);
	assert_string_equal(buf_z(&out), want);
}

static void orders_are_as_asked(void **state)
{
	struct top_row rows[3];

	(void)state;
	make_rows(rows);
	top_sort(rows, 3, TOP_BY_CPU);
	assert_true(str_is(rows[0].id, "c") && rows[1].age_s == 200);
	top_sort(rows, 3, TOP_BY_MEMORY);
	assert_true(rows[0].age_s == 200 && str_is(rows[1].id, "c"));
	top_sort(rows, 3, TOP_BY_AGE);
	assert_true(str_is(rows[0].id, "c") && rows[1].age_s == 10 && rows[2].age_s == 200);
	top_sort(rows, 0, TOP_BY_AGE);
}

static void no_screen_is_too_small(void **state)
{
	struct top_row rows[3];

	(void)state;
	make_rows(rows);
	for (unsigned columns = 1; columns < 160; columns++) {
		for (unsigned lines = 1; lines < 8; lines++) {
			AUTO(buf_done) struct buf out = BUF_INIT(65536);
			struct top_view v = { .columns = columns, .rows = lines, .is_plain = true, .is_live = true, .n_all = 3,
					      .trouble = STR("the server does not answer") };
			struct str rest, line;
			unsigned n = 0;

			top_page(rows, 3, &v, &out);
			for (rest = buf_str(&out); rest.n > 0; n++) {
				assert_true(str_cut(rest, '\n', &line, &rest));
				assert_true(line.n <= columns);
			}
			assert_true(n <= (lines > 3 ? lines : 3));
		}
	}
}

static void what_does_not_fit_is_counted(void **state)
{
	AUTO(buf_done) struct buf out = BUF_INIT(65536);
	struct top_view v = { .columns = 100, .rows = 5, .is_plain = true, .is_live = true, .n_all = 40 };
	struct top_row rows[3];

	(void)state;
	make_rows(rows);
	top_page(rows, 3, &v, &out);
	assert_non_null(strstr(buf_z(&out), "\n... and 39 more\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_is_one_that_people_can_read),
		cmocka_unit_test(orders_are_as_asked),
		cmocka_unit_test(no_screen_is_too_small),
		cmocka_unit_test(what_does_not_fit_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
