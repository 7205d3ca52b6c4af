// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/volume_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <string.h>

#include "base/arena.h"
#include "base/own.h"
#include "box/wire.h"

#include "base/banned.h"

/* What is let through here the warden would take as well, and the other way round. */
static void what_is_valid_is_valid_for_the_warden(void **state)
{
	static char name255[256], name256[257], path1023[1024], path1024[1025];
	const char *const paths[] = { "", "a", "a/b", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "...", name255, name256, path1023, path1024 };
	const char *const mounts[] = { "/", "", "a", "/a", "/a/b", "/a/", "/proc", "/proc/1", "/process", "/sys/x", "/dev", "/devel", "//a", "/a/.." };

	(void)state;
	memset(name255, 'x', 255);
	memset(name256, 'x', 256);
	memset(path1023, 'x', 1023);
	memset(path1024, 'x', 1024);
	for (size_t i = 200; i < 1000; i += 200)
		path1023[i] = path1024[i] = '/';
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		assert_int_equal(volume_path_valid(paths[i]), wire_path_valid(paths[i]));
	for (size_t i = 0; i < ARRAY_LEN(mounts); i++)
		assert_int_equal(volume_mount_path_valid(mounts[i]), wire_mount_path_valid(mounts[i]));
	assert_true(volume_path_valid(path1023) && !volume_path_valid(path1024) && volume_path_valid(name255) && !volume_path_valid(name256));
}

static void the_deepest_listed_folder_counts(void **state)
{
	static const char *folders[] = { "/srv/data", "/srv//data/deep/", "/mnt" };
	static const struct string_list listed = { folders, ARRAY_LEN(folders) };
	static const struct {
		const char *path;
		int folder;
		const char *rest;
	} cases[] = {
		{ "/srv/data", 0, "" },      { "/srv/data/deep", 1, "" }, { "/srv/data/deep/er/x", 1, "er/x" },
		{ "/srv/data/deeper", 0, "deeper" }, { "/srv/dat", -1, "" },  { "/srv/database", -1, "" }, { "/mnt/x", 2, "x" }, { "", -1, "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(65536);
		const char *rest = NULL;

		assert_int_equal(volume_path_find(&listed, cases[i].path, &a, &rest), cases[i].folder);
		if (cases[i].folder >= 0)
			assert_string_equal(rest, cases[i].rest);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_valid_is_valid_for_the_warden), cmocka_unit_test(the_deepest_listed_folder_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
