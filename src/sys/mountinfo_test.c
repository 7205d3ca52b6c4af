// SPDX-License-Identifier: Apache-2.0
#include "sys/mountinfo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/err.h"

#include "base/banned.h"

static void lines_of_the_kernel_are_read(void **state)
{
	static const struct {
		const char *line, *root, *place, *options, *fs, *source;
	} rows[] = {
		{ "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue", "/mnt1", "/mnt2",
		  "rw,noatime", "ext3", "/dev/root" },
		{ "36 35 98:0 / / rw - tmpfs none rw", "/", "/", "rw", "tmpfs", "none" },
		{ "1 1 0:4294967295 / / rw shared:1 master:2 propagate_from:3 unbindable - a b c", "/", "/", "rw", "a", "b" },
		{ "1 0 0:0 /a\\040b /c\\011d\\012e rw - fuse.x\\043y dev\\134x rw", "/a b", "/c\td\ne", "rw", "fuse.x#y",
		  "dev\\x" },
		{ "1 0 0:0 /a\\134040 /\\134134 rw - t s rw", "/a\\040", "/\\134", "rw", "t", "s" },
		{ "1 0 0:0 /a\\04 /b\\9 rw - t s rw", "/a\\04", "/b\\9", "rw", "t", "s" },
		{ "1 0 0:0 /\\777 /\\400 rw - t \\ rw", "/\\777", "/\\400", "rw", "t", "\\" },
		{ "1 0 0:0 /\\377 /\\08a rw - t s rw", "/\377", "/\\08a", "rw", "t", "s" },
		{ "1 0 0:0 / /gone//deleted rw - t s rw", "/", "/gone//deleted", "rw", "t", "s" },
		{ "1 0 0:0 / /x rw -  - t s rw", "/", "/x", "rw", "", "-" },
		{ "1 0 0:0 / /x rw - t  rw", "/", "/x", "rw", "t", "" },
	};
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mountinfo m;
		struct err e = { 0 };

		assert_int_equal(mountinfo_parse(str_of(rows[i].line), &a, &m, &e), 0);
		assert_string_equal(m.root, rows[i].root);
		assert_string_equal(m.place, rows[i].place);
		assert_string_equal(m.options, rows[i].options);
		assert_string_equal(m.fs, rows[i].fs);
		assert_string_equal(m.source, rows[i].source);
	}
}

/* An escape of a NUL ends the name for us: the kernel never writes one. */
static void numbers_are_read_and_an_escaped_nul_hides_nothing_after_the_line(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	struct mountinfo m;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(mountinfo_parse(STR("4194304 29 259:17 /x\\000y /p rw - t s rw"), &a, &m, &e), 0);
	assert_true(m.id == 4194304 && m.parent == 29 && m.major == 259 && m.minor == 17);
	assert_string_equal(m.root, "/x");
	assert_string_equal(m.place, "/p");
}

static void other_lines_are_refused(void **state)
{
	static const char *const lines[] = {
		"",
		"36",
		"36 35 98:0 / / rw",
		"36 35 98:0 / / rw master:1 ext3 /dev/root rw",
		"36 35 98:0 / / rw - ext3 /dev/root",
		"x 35 98:0 / / rw - t s rw",
		"36 -1 98:0 / / rw - t s rw",
		"36 35 98 / / rw - t s rw",
		"36 35 98:x / / rw - t s rw",
		"36 35 4294967296:0 / / rw - t s rw",
		"36  35 98:0 / / rw - t s rw",
		"99999999999999999999 35 98:0 / / rw - t s rw",
		("1 0 0:0 / / rw 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3"
		 " 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 - t s rw"),
	};
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		struct mountinfo m = { .id = 7 };
		struct err e = { 0 };

		assert_int_equal(mountinfo_parse(str_of(lines[i]), &a, &m, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		assert_int_equal(m.id, 7);
	}
}

static void below_means_whole_components(void **state)
{
	static const struct {
		const char *place, *prefix;
		bool below;
	} rows[] = {
		{ "/a", "/a", true },     { "/a/b", "/a", true }, { "/a/b", "/a/", true }, { "/ab", "/a", false },
		{ "/", "/a", false },     { "/a", "/", true },    { "/", "/", true },      { "/a", "/a/b", false },
		{ "/a//deleted", "/a", true }, { "", "/a", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(mountinfo_is_below(rows[i].place, rows[i].prefix), rows[i].below);
}

static void a_selection_keeps_the_order_and_stops_at_a_bad_line(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	struct mountinfo_list list = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(mountinfo_select(STR("1 0 0:1 / / rw - t s rw\n2 1 0:2 / /s/x rw - t s rw\n"
					      "3 1 0:3 / /other rw - t s rw\n4 2 0:4 / /s/x/y\\040z rw - t s rw\n"),
					  "/s", &a, &list, &e),
			 0);
	assert_int_equal(list.n, 2);
	assert_int_equal(list.rows[0].id, 2);
	assert_string_equal(list.rows[1].place, "/s/x/y z");
	assert_int_equal(mountinfo_select(STR(""), "/", &a, &list, &e), 0);
	assert_int_equal(list.n, 0);
	assert_int_equal(mountinfo_select(STR("\n1 0 0:1 / / rw - t s rw\n"), "/", &a, &list, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
}

static void ceilings_hold(void **state)
{
	static char lines[MOUNTINFO_ROWS_MAX];
	AUTO(arena_done) struct arena tiny = ARENA_INIT(64);
	struct mountinfo_list list;
	struct mountinfo m;
	struct err e = { 0 };

	(void)state;
	memset(lines, '\n', sizeof(lines));
	assert_int_equal(mountinfo_select((struct str){ lines, sizeof(lines) }, "/", &tiny, &list, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	assert_int_equal(mountinfo_select(STR("1 0 0:1 / / rw - t s rw\n"), "/", &tiny, &list, &e), -1);
	assert_int_equal(e.sys, ENOMEM);
	assert_int_equal(mountinfo_parse(STR("1 0 0:1 /long-long-long-long-long-long / rw - t s rw"), &tiny, &m, &e), -1);
	assert_int_equal(e.sys, ENOMEM);
}

static void our_own_table_has_the_root(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(64 << 20);
	struct mountinfo_list list;
	bool found = false;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(mountinfo_list("/", &a, &list, &e), 0);
	for (size_t i = 0; i < list.n; i++)
		found |= str_is(str_of(list.rows[i].place), "/");
	assert_true(found);
	assert_int_equal(mountinfo_list("/no/such/place", &a, &list, &e), 0);
	assert_int_equal(list.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_the_kernel_are_read),
		cmocka_unit_test(numbers_are_read_and_an_escaped_nul_hides_nothing_after_the_line),
		cmocka_unit_test(other_lines_are_refused),
		cmocka_unit_test(below_means_whole_components),
		cmocka_unit_test(a_selection_keeps_the_order_and_stops_at_a_bad_line),
		cmocka_unit_test(ceilings_hold),
		cmocka_unit_test(our_own_table_has_the_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
