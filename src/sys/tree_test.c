// SPDX-License-Identifier: Apache-2.0
#include "sys/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

#define DEPTH 3000 /* deeper than any path can be long */

static char folder[] = "/tmp/tree_test.XXXXXX";

static int setup(void **state)
{
	static int dir;

	(void)snprintf(folder, sizeof(folder), "/tmp/tree_test.XXXXXX");
	assert_non_null(mkdtemp(folder));
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	*state = &dir;
	return 0;
}

static int teardown(void **state)
{
	(void)close(*(int *)*state);
	return rmdir(folder); /* fails when something was left */
}

static void make_file(int dir, const char *path)
{
	int fd = openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	(void)close(fd);
}

static void what_is_not_there_is_removed_already(void **state)
{
	assert_int_equal(tree_remove(*(int *)*state, "nothing", &(struct err){ 0 }), 0);
}

static void a_file_or_a_link_is_removed_and_not_followed(void **state)
{
	int dir = *(int *)*state;

	make_file(dir, "file");
	assert_int_equal(symlinkat("file", dir, "link"), 0);
	assert_int_equal(tree_remove(dir, "link", &(struct err){ 0 }), 0);
	assert_int_equal(faccessat(dir, "file", F_OK, 0), 0);
	assert_int_equal(tree_remove(dir, "file", &(struct err){ 0 }), 0);
}

static void links_inside_lead_nowhere(void **state)
{
	int dir = *(int *)*state;

	make_file(dir, "precious");
	assert_int_equal(mkdirat(dir, "top", 0700), 0);
	assert_int_equal(mkdirat(dir, "top/a", 0700), 0);
	assert_int_equal(symlinkat("../..", dir, "top/a/up"), 0);
	assert_int_equal(symlinkat("../precious", dir, "top/link"), 0);
	assert_int_equal(mknodat(dir, "top/a/fifo", S_IFIFO | 0600, 0), 0);
	make_file(dir, "top/.gone-0"); /* a name that we would choose */
	assert_int_equal(mkdirat(dir, "top/a/b", 0), 0);
	assert_int_equal(tree_remove(dir, "top", &(struct err){ 0 }), 0);
	assert_int_equal(faccessat(dir, "precious", F_OK, 0), 0);
	assert_int_equal(unlinkat(dir, "precious", 0), 0);
}

static void a_tree_may_be_deeper_than_a_path_is_long(void **state)
{
	int dir = *(int *)*state;
	int at = dup(dir);

	for (int i = 0; i < DEPTH; i++) {
		int next;

		assert_int_equal(mkdirat(at, "ddddddddddddddddd", 0700), 0);
		make_file(at, "file");
		next = openat(at, "ddddddddddddddddd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(at);
		at = next;
		assert_true(at >= 0);
	}
	(void)close(at);
	assert_int_equal(unlinkat(dir, "file", 0), 0);
	assert_int_equal(tree_remove(dir, "ddddddddddddddddd", &(struct err){ 0 }), 0);
}

static void a_wide_tree_goes_too(void **state)
{
	int dir = *(int *)*state;

	assert_int_equal(mkdirat(dir, "wide", 0700), 0);
	for (int i = 0; i < 300; i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "wide/%d", i);
		assert_int_equal(mkdirat(dir, path, 0700), 0);
		for (int k = 0; k < 5; k++) {
			(void)snprintf(path, sizeof(path), "wide/%d/%d", i, k);
			assert_int_equal(mkdirat(dir, path, 0700), 0);
			(void)snprintf(path, sizeof(path), "wide/%d/%d/file", i, k);
			make_file(dir, path);
		}
	}
	assert_int_equal(tree_remove(dir, "wide", &(struct err){ 0 }), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_not_there_is_removed_already),
		TEST(a_file_or_a_link_is_removed_and_not_followed),
		TEST(links_inside_lead_nowhere),
		TEST(a_tree_may_be_deeper_than_a_path_is_long),
		TEST(a_wide_tree_goes_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
