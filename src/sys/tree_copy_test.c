// SPDX-License-Identifier: Apache-2.0
#include "sys/tree_copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/tree.h"

#include "base/banned.h"

struct fixture {
	char folder[64];
	int dir, from, to;
};

static int setup(void **state)
{
	static struct fixture f;

	(void)snprintf(f.folder, sizeof(f.folder), "/tmp/tree_copy_test.XXXXXX");
	assert_non_null(mkdtemp(f.folder));
	f.dir = open(f.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(f.dir, "from", 0755) | mkdirat(f.dir, "from/tree", 0755) | mkdirat(f.dir, "to", 0755), 0);
	f.from = openat(f.dir, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f.to = openat(f.dir, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct err e;

	assert_int_equal(tree_remove(f->dir, "from", &e), 0);
	assert_int_equal(tree_remove(f->dir, "to", &e), 0);
	(void)close(f->from);
	(void)close(f->to);
	(void)close(f->dir);
	return rmdir(f->folder);
}

static void write_file(const struct fixture *f, const char *path, const char *text, mode_t mode)
{
	AUTO_FD fd = openat(f->from, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
}

static void copy(const struct fixture *f)
{
	struct err e = { 0 };

	if (tree_copy(f->from, f->to, "tree", &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(faccessat(f->to, ".links", F_OK, 0), -1);
}

static struct stat look(int dir, const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st;
}

static void modes_times_links_and_content_are_kept(void **state)
{
	const struct timespec times[2] = { { 1000, 5 }, { 2000, 6 } };
	struct fixture *f = *state;
	char text[16] = "", target[16] = "";
	struct stat st;
	AUTO_FD fd = -1;

	write_file(f, "tree/file", "content", 04751);
	assert_int_equal(symlinkat("nowhere", f->from, "tree/link"), 0);
	assert_int_equal(mkdirat(f->from, "tree/sub", 0700) | mkfifoat(f->from, "tree/sub/pipe", 0640), 0);
	assert_int_equal(utimensat(f->from, "tree/file", times, 0) | utimensat(f->from, "tree/sub", times, 0), 0);
	copy(f);
	st = look(f->to, "tree/file");
	assert_int_equal(st.st_mode & 07777, 04751);
	assert_int_equal(st.st_mtim.tv_sec, 2000);
	assert_int_equal(st.st_mtim.tv_nsec, 6);
	assert_int_equal(look(f->to, "tree/sub").st_mtim.tv_sec, 2000);
	assert_true(S_ISFIFO(look(f->to, "tree/sub/pipe").st_mode));
	assert_int_equal(readlinkat(f->to, "tree/link", target, sizeof(target) - 1), 7);
	assert_string_equal(target, "nowhere");
	fd = openat(f->to, "tree/file", O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text) - 1), 7);
	assert_string_equal(text, "content");
}

static void names_of_one_file_stay_names_of_one_file(void **state)
{
	struct fixture *f = *state;

	write_file(f, "tree/a", "x", 0644);
	assert_int_equal(mkdirat(f->from, "tree/d", 0755), 0);
	assert_int_equal(linkat(f->from, "tree/a", f->from, "tree/d/b", 0), 0);
	copy(f);
	assert_int_equal(look(f->to, "tree/a").st_ino, look(f->to, "tree/d/b").st_ino);
	assert_int_equal(look(f->to, "tree/a").st_nlink, 2);
	assert_int_not_equal(look(f->to, "tree/a").st_ino, look(f->from, "tree/a").st_ino);
}

static void holes_stay_holes(void **state)
{
	struct fixture *f = *state;
	AUTO_FD fd = openat(f->from, "tree/sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;

	assert_int_equal(pwrite(fd, "end", 3, (off_t)1 << 36), 3);
	copy(f);
	st = look(f->to, "tree/sparse");
	assert_int_equal(st.st_size, ((off_t)1 << 36) + 3);
	assert_true(st.st_blocks < 4096);
}

static void what_only_root_can_make_is_kept_and_devices_are_not(void **state)
{
	struct fixture *f = *state;
	char value[8];
	char path[128];

	if (geteuid() != 0)
		skip();
	write_file(f, "tree/owned", "", 0600);
	assert_int_equal(fchownat(f->from, "tree/owned", 1234, 5678, 0), 0);
	assert_int_equal(mknodat(f->from, "tree/gone", S_IFCHR, 0), 0);
	if (mknodat(f->from, "tree/null", S_IFCHR | 0666, makedev(1, 3)) < 0)
		print_message("no device can be made here\n");
	(void)snprintf(path, sizeof(path), "%s/from/tree", f->folder);
	assert_int_equal(setxattr(path, "trusted.overlay.opaque", "y", 1, 0), 0);
	copy(f);
	assert_int_equal(look(f->to, "tree/owned").st_uid, 1234);
	assert_int_equal(look(f->to, "tree/owned").st_gid, 5678);
	assert_true(S_ISCHR(look(f->to, "tree/gone").st_mode));
	assert_int_equal(faccessat(f->to, "tree/null", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	(void)snprintf(path, sizeof(path), "%s/to/tree", f->folder);
	assert_int_equal(getxattr(path, "trusted.overlay.opaque", value, sizeof(value)), 1);
}

static void what_is_too_deep_is_refused_by_name(void **state)
{
	struct fixture *f = *state;
	int dir = openat(f->from, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC), next;
	struct err e = { 0 };

	for (int i = 0; i < TREE_COPY_DEPTH_MAX; i++, dir = next) {
		assert_int_equal(mkdirat(dir, "d", 0700), 0);
		next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(dir);
	}
	(void)close(dir);
	assert_int_equal(tree_copy(f->from, f->to, "tree", &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	assert_non_null(strstr(e.msg, "256"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(modes_times_links_and_content_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(names_of_one_file_stay_names_of_one_file, setup, teardown),
		cmocka_unit_test_setup_teardown(holes_stay_holes, setup, teardown),
		cmocka_unit_test_setup_teardown(what_only_root_can_make_is_kept_and_devices_are_not, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_too_deep_is_refused_by_name, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
