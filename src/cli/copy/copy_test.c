// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "cli/copy/copy.h"

#include "base/banned.h"

static void operands_are_local_or_of_a_sandbox(void **state)
{
	static const struct {
		const char *in;
		enum copy_side side;
		const char *sandbox, *path;
		bool wants_dir, wants_contents;
	} cases[] = {
		{ "a.txt", COPY_LOCAL, "", "a.txt", false, false },
		{ "dir/", COPY_LOCAL, "", "dir/", true, false },
		{ "dir/.", COPY_LOCAL, "", "dir/.", false, true },
		{ ".", COPY_LOCAL, "", ".", false, true },
		{ "./a:b", COPY_LOCAL, "", "./a:b", false, false },
		{ "/tmp/a:b", COPY_LOCAL, "", "/tmp/a:b", false, false },
		{ ":x", COPY_LOCAL, "", ":x", false, false },
		{ "-", COPY_STREAM, "", "-", false, false },
		{ "ab12:/etc/passwd", COPY_REMOTE, "ab12", "/etc/passwd", false, false },
		{ "ab12:", COPY_REMOTE, "ab12", "", false, false },
		{ "ab12:rel:x/", COPY_REMOTE, "ab12", "rel:x/", true, false },
		{ "ab12:/src/.", COPY_REMOTE, "ab12", "/src/.", false, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct copy_place p;
		struct err e = { 0 };

		assert_int_equal(copy_place_parse(cases[i].in, &p, &e), 0);
		assert_int_equal(p.side, cases[i].side);
		assert_true(str_is(p.sandbox, cases[i].sandbox));
		assert_string_equal(p.path, cases[i].path);
		assert_int_equal(p.wants_dir, cases[i].wants_dir);
		assert_int_equal(p.wants_contents, cases[i].wants_contents);
	}
}

static void an_empty_operand_is_refused(void **state)
{
	struct copy_place p;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(copy_place_parse("", &p, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
}

static void base_names_are_single_components(void **state)
{
	static const char *const cases[][2] = {
		{ "a", "a" }, { "/a/b", "b" }, { "/a/b//", "b" }, { "/", "" }, { "..", "" }, { "a/..", "" }, { ".", "" }, { "a/.x", ".x" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_true(str_is(copy_base_name(cases[i][0]), cases[i][1]));
}

static void only_what_is_below_the_folder_is_taken(void **state)
{
	static const struct {
		const char *top, *listed, *want; /* NULL: refused */
	} cases[] = {
		{ "/data", "/data/a", "a" },
		{ "/data", "/data/a/b.txt", "a/b.txt" },
		{ "/", "/etc", "etc" },
		{ "/data", "/data", NULL },
		{ "/data", "/database/x", NULL },
		{ "/data", "/etc/passwd", NULL },
		{ "/data", "/data/../etc/passwd", NULL },
		{ "/data", "/data/a/../../x", NULL },
		{ "/data", "/data/./a", NULL },
		{ "/data", "/data//a", NULL },
		{ "/data", "/data/a/", NULL },
		{ "/data", "/data/", NULL },
		{ "/data", "data/a", NULL },
		{ "/data", "", NULL },
		{ "/", "/", NULL },
		{ "/", "/..", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str got = STR("untouched");
		struct err e = { 0 };
		int r = copy_below(str_of(cases[i].top), str_of(cases[i].listed), &got, &e);

		assert_int_equal(r, cases[i].want ? 0 : -1);
		if (cases[i].want)
			assert_true(str_is(got, cases[i].want));
		else
			assert_true(e.code == ERR_DENIED || e.code == ERR_INVALID);
	}
}

static void the_list_takes_no_path_that_could_leave(void **state)
{
	static const char *const bad[] = { "/a", "../a", "a/..", "a/../../b", ".", "..", "a//b", "a/" };
	AUTO(copy_list_done) struct copy_list l = COPY_LIST_INIT;
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(copy_list_add(&l, COPY_FILE, str_of(bad[i]), 1, 0644, &e), -1);
	assert_int_equal(copy_list_add(&l, COPY_FILE, (struct str){ "a\0b", 3 }, 1, 0644, &e), -1);
	assert_int_equal(l.n, 0);
	assert_int_equal(copy_list_add(&l, COPY_DIR, STR(""), 5, 0755, &e), 0);
	assert_int_equal(copy_list_add(&l, COPY_FILE, STR("a/...b"), 7, 04644, &e), 0);
	assert_int_equal(l.n, 2);
	assert_int_equal(l.bytes, 7);
	assert_int_equal(l.items[1].mode, 0644); /* setuid stays behind */
}

static void the_list_has_a_depth(void **state)
{
	AUTO(copy_list_done) struct copy_list l = COPY_LIST_INIT;
	AUTO(buf_done) struct buf deep = BUF_INIT(4096);
	struct err e = { 0 };

	(void)state;
	for (int i = 0; i < COPY_DEPTH_MAX; i++)
		buf_addf(&deep, "%sd", i ? "/" : "");
	assert_int_equal(copy_list_add(&l, COPY_DIR, buf_str(&deep), 0, 0755, &e), 0);
	buf_addf(&deep, "/d");
	assert_int_equal(copy_list_add(&l, COPY_DIR, buf_str(&deep), 0, 0755, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

static void sizes_that_a_sandbox_made_up_do_not_wrap(void **state)
{
	AUTO(copy_list_done) struct copy_list l = COPY_LIST_INIT;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(copy_list_add(&l, COPY_FILE, STR("a"), UINT64_MAX - 1, 0644, &e), 0);
	assert_int_equal(copy_list_add(&l, COPY_FILE, STR("b"), 100, 0644, &e), 0);
	assert_true(l.bytes == UINT64_MAX);
}

static void links_stay_or_are_known_to_leave(void **state)
{
	static const struct {
		const char *path, *target;
		bool stays;
	} cases[] = {
		{ "l", "a", true },          { "l", "./a/b", true },      { "l", "..", false },        { "l", "../x", false },
		{ "d/l", "../x", true },     { "d/l", "../../x", false }, { "d/e/l", "../../x", true }, { "l", "/etc/passwd", false },
		{ "l", "", false },          { "l", "a/../b", false },    { "d/l", "./../x", true },   { "d/l", "a/..", false },
		{ "l", "...", true },        { "l", "a//b", true },       { "l", ".", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(copy_link_stays(str_of(cases[i].path), str_of(cases[i].target)), cases[i].stays);
}

static void modes_are_read_as_the_wire_writes_them(void **state)
{
	static const struct {
		int digits;
		unsigned want;
	} cases[] = { { 755, 0755 }, { 644, 0644 }, { 4755, 0755 }, { 7, 07 }, { 0, 0600 }, { -1, 0600 }, { 888, 0600 }, { 99999, 0600 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(copy_mode(cases[i].digits, 0600), cases[i].want);
	assert_int_equal(copy_digits(0750), 750);
	assert_int_equal(copy_digits(0100644), 644);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operands_are_local_or_of_a_sandbox),
		cmocka_unit_test(an_empty_operand_is_refused),
		cmocka_unit_test(base_names_are_single_components),
		cmocka_unit_test(only_what_is_below_the_folder_is_taken),
		cmocka_unit_test(the_list_takes_no_path_that_could_leave),
		cmocka_unit_test(the_list_has_a_depth),
		cmocka_unit_test(sizes_that_a_sandbox_made_up_do_not_wrap),
		cmocka_unit_test(links_stay_or_are_known_to_leave),
		cmocka_unit_test(modes_are_read_as_the_wire_writes_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
