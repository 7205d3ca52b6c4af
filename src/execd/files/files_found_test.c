// SPDX-License-Identifier: Apache-2.0
#include "execd/files/files_found.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/err.h"

#include "base/banned.h"

static const char *const paths[] = { "/a", "/a/b", "/a/b/c.txt", "/a/bc", "/a/\xff\xfe", "/z", "/" };

static struct stat stat_of(size_t i)
{
	return (struct stat){ .st_mode = S_IFREG | 0640, .st_uid = (uid_t)i, .st_gid = 7, .st_size = (off_t)1 << (40 + i),
			      .st_mtim = { .tv_sec = 100 + (time_t)i, .tv_nsec = 5 }, .st_ctim = { .tv_sec = -1, .tv_nsec = 6 } };
}

static void what_was_found_comes_back_in_order(void **state)
{
	AUTO(found_done) struct found f = found_init();
	struct err e = { 0 };
	struct str path;
	struct stat st;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		st = stat_of(i);
		assert_int_equal(found_add(&f, str_of(paths[i]), &st, &e), 0);
	}
	for (int turn = 0; turn < 2; turn++) {
		found_rewind(&f);
		for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
			struct stat want = stat_of(i);

			assert_true(found_next(&f, &path, &st));
			assert_true(str_is(path, paths[i]));
			assert_memory_equal(&st, &want, sizeof(st));
		}
		assert_false(found_next(&f, &path, &st));
	}
}

static void nothing_is_an_end(void **state)
{
	AUTO(found_done) struct found f = found_init();
	struct str path;
	struct stat st;

	(void)state;
	found_rewind(&f);
	assert_false(found_next(&f, &path, &st));
}

/* The bound of the header: a path of many levels is not kept for each of its files. */
static void a_long_path_is_kept_once(void **state)
{
	AUTO(found_done) struct found f = found_init();
	struct stat st = { 0 };
	struct err e = { 0 };
	char path[4000];

	(void)state;
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	for (int i = 0; i < 1000; i++) {
		(void)snprintf(path + sizeof(path) - 10, 10, "/%08d", i);
		assert_int_equal(found_add(&f, str_of(path), &st, &e), 0);
	}
	assert_true(f.bytes.n < 4000 + 1000 * 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_found_comes_back_in_order),
		cmocka_unit_test(nothing_is_an_end),
		cmocka_unit_test(a_long_path_is_kept_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
