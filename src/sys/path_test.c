// SPDX-License-Identifier: Apache-2.0
#include "sys/path.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/fd.h"
#include "sys/refuse_test.h"

#include "base/banned.h"

/* TOP/secret is outside; TOP/root is the root, with links that try to get there. */
struct tree {
	char top[64];
	int topfd, root;
};

static const char *const links[][2] = {
	{ "../secret", "up" },
	{ "../../../../../../../etc/passwd", "far" },
	{ "/etc/passwd", "abs" },
	{ "/d/inside", "abs-inside" },
	{ "..", "d/parent" },
	{ "/", "slash" },
	{ "loop", "loop" },
	{ "nowhere", "dangling" },
	{ "/d/new", "to-new" },
	{ "d", "to-d" },
};
static const char *const dirs[] = { "root/d", "root/etc", "root/proc", "root" };
static const char *const files[] = { "secret", "root/etc/passwd", "root/d/inside", "root/d/new" };

static int make_tree(void **state)
{
	static struct tree t;
	struct err e = { 0 };

	(void)snprintf(t.top, sizeof(t.top), "/tmp/path_test.XXXXXX");
	if (!mkdtemp(t.top))
		return -1;
	t.topfd = open(t.top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = ARRAY_LEN(dirs); i-- > 0;)
		if (mkdirat(t.topfd, dirs[i], 0755) < 0)
			return -1;
	t.root = openat(t.topfd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i + 1 < ARRAY_LEN(files); i++) {
		AUTO_FD fd = openat(t.topfd, files[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		if (fd < 0 || fd_write_all(fd, files[i], strlen(files[i]), &e) < 0)
			return -1;
	}
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i][0], t.root, links[i][1]) < 0)
			return -1;
	*state = &t;
	return 0;
}

static int remove_tree(void **state)
{
	struct tree *t = *state;

	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		(void)unlinkat(t->root, links[i][1], 0);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		(void)unlinkat(t->topfd, files[i], 0);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		(void)unlinkat(t->topfd, dirs[i], AT_REMOVEDIR);
	(void)close(t->root);
	(void)close(t->topfd);
	return rmdir(t->top);
}

static void links_and_dots_stay_in_the_root(void **state)
{
	static const struct {
		const char *path, *want; /* content, or NULL with the errno */
		int sys;
	} cases[] = {
		{ "/d/inside", "root/d/inside", 0 },
		{ "d/inside", "root/d/inside", 0 },
		{ "abs-inside", "root/d/inside", 0 },
		{ "to-d/inside", "root/d/inside", 0 },
		{ "abs", "root/etc/passwd", 0 },
		{ "far", "root/etc/passwd", 0 },
		{ "../../../etc/passwd", "root/etc/passwd", 0 },
		{ "d/parent/parent/etc/passwd", NULL, ENOENT },
		{ "d/parent/etc/passwd", "root/etc/passwd", 0 },
		{ "slash/slash/d/../d/inside", "root/d/inside", 0 },
		{ "up", NULL, ENOENT },
		{ "../secret", NULL, ENOENT },
		{ "dangling", NULL, ENOENT },
		{ "loop", NULL, ELOOP },
		{ "d/inside/x", NULL, ENOTDIR },
		{ "", NULL, ENOENT },
	};
	const struct tree *t = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(256);
		struct err e = { 0 };
		AUTO_FD fd = root_open(t->root, cases[i].path, O_RDONLY, 0, &e);

		assert_int_equal(e.sys, cases[i].sys);
		if (!cases[i].want) {
			assert_int_equal(fd, -1);
			continue;
		}
		assert_true(fd >= 0);
		assert_int_equal(fd_read_all(fd, 255, &b, &e), 0);
		assert_string_equal(buf_z(&b), cases[i].want);
	}
}

static void what_is_opened_is_safe_to_hold(void **state)
{
	const struct tree *t = *state;
	struct err e = { 0 };
	AUTO_FD fd = root_open(t->root, "d/inside", O_RDONLY, 0, &e);
	AUTO_FD path = root_open(t->root, "up", O_PATH | O_NOFOLLOW, 0, &e);
	struct stat st;

	assert_true(fd >= 0 && path >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(fcntl(path, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(root_open(t->root, "up", O_RDONLY | O_NOFOLLOW, 0, &e), -1);
	assert_int_equal(e.sys, ELOOP);
}

static void files_are_made_where_the_link_leads_inside(void **state)
{
	const struct tree *t = *state;
	struct err e = { 0 };
	AUTO_FD fd = root_open(t->root, "to-new", O_WRONLY | O_CREAT, 0100640, &e);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstatat(t->root, "d/new", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISREG(st.st_mode));
}

static void magic_links_are_refused(void **state)
{
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	static const char *const magic[] = {
		"proc/self/fd/0", "proc/self/exe", "proc/self/root/etc", "proc/self/cwd",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(magic); i++) {
		struct err e = { 0 };

		assert_int_equal(root_open(root, magic[i], O_RDONLY, 0, &e), -1);
		assert_int_equal(e.sys, ELOOP);
		assert_int_equal(e.code, ERR_INVALID);
	}
}

static void beneath_means_no_links_and_no_way_up(void **state)
{
	static const struct {
		const char *path;
		int sys;
	} cases[] = {
		{ "d/inside", 0 },        { "d/../d/inside", 0 }, { "/d/inside", EXDEV },    { "../secret", EXDEV },
		{ "d/../../secret", EXDEV }, { "to-d/inside", ELOOP }, { "abs-inside", ELOOP }, { "absent", ENOENT },
	};
	const struct tree *t = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		AUTO_FD fd = root_open_beneath(t->root, cases[i].path, O_RDONLY, 0, &e);

		assert_int_equal(e.sys, cases[i].sys);
		assert_int_equal(fd >= 0, cases[i].sys == 0);
		if (cases[i].sys == EXDEV)
			assert_int_equal(e.code, ERR_DENIED);
	}
}

static bool is_dir(int root, const char *path)
{
	struct stat st;

	return fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static void directories_are_made_in_the_root_only(void **state)
{
	const struct tree *t = *state;
	struct err e = { 0 };

	assert_int_equal(root_mkdirs(t->root, "/d/a//b/./c/", 0755, &e), 0);
	assert_true(is_dir(t->root, "d/a/b/c"));
	assert_int_equal(root_mkdirs(t->root, "d/a/b/c", 0755, &e), 0);
	assert_int_equal(root_mkdirs(t->root, "../../x/../../y", 0755, &e), 0);
	assert_true(is_dir(t->root, "x") && is_dir(t->root, "y"));
	assert_int_equal(root_mkdirs(t->root, "to-d/z", 0700, &e), 0);
	assert_true(is_dir(t->root, "d/z"));
	assert_int_equal(root_mkdirs(t->root, "/", 0700, &e), 0);
	assert_int_equal(root_mkdirs(t->root, "up/z", 0700, &e), -1);
	assert_int_equal(e.sys, ENOENT);
	assert_int_equal(root_mkdirs(t->root, "dangling/z", 0700, &e), -1);
	assert_int_equal(e.sys, ENOENT);
	assert_int_equal(root_mkdirs(t->root, "loop/z", 0700, &e), -1);
	assert_int_equal(e.sys, ELOOP);
	assert_int_equal(root_mkdirs(t->root, "d/inside/z", 0700, &e), -1);
	assert_int_equal(e.sys, ENOTDIR);
	assert_string_equal(e.msg, "open '/d/inside' in its root: Not a directory");
	assert_int_equal(root_mkdirs(t->root, "slash/to-d/parent/d/y", 0700, &e), 0);
	assert_true(is_dir(t->root, "d/y"));
	assert_int_equal(unlinkat(t->root, "d/y", AT_REMOVEDIR), 0);
	assert_int_equal(root_mkdirs(t->root, "", 0700, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
	assert_int_equal(root_mkdirs(-1, "a", 0700, &e), -1);
	assert_int_equal(e.sys, EBADF);
	assert_false(is_dir(t->topfd, "x") || is_dir(t->topfd, "y") || is_dir(t->topfd, "secret"));
	for (size_t i = 0; i < 6; i++) {
		static const char *const made[] = { "d/a/b/c", "d/a/b", "d/a", "x", "y", "d/z" };

		assert_int_equal(unlinkat(t->root, made[i], AT_REMOVEDIR), 0);
	}
}

/* Takes the nested directories apart from the top, since the way down to the last is long. */
static size_t remove_nested(int root)
{
	size_t n = 0;

	for (; is_dir(root, "n"); n++) {
		(void)renameat(root, "n/n", root, "rest");
		assert_int_equal(unlinkat(root, "n", AT_REMOVEDIR), 0);
		(void)renameat(root, "rest", root, "n");
	}
	return n;
}

/* Resolving each prefix from the root again would be some two million steps. The second time nothing is made, so
 * that it is not the file system that is measured. */
static void a_deep_path_takes_little_time(void **state)
{
	const struct tree *t = *state;
	char path[PATH_BYTES_MAX + 1];
	struct err e = { 0 };
	clock_t start;

	for (size_t i = 0; i < PATH_BYTES_MAX; i += 2)
		memcpy(path + i, "n/", 2);
	path[PATH_BYTES_MAX] = '\0';
	assert_int_equal(root_mkdirs(t->root, path, 0700, &e), 0);
	start = clock();
	assert_int_equal(root_mkdirs(t->root, path, 0700, &e), 0);
	assert_true(clock() - start < CLOCKS_PER_SEC / 20);
	assert_int_equal(remove_nested(t->root), (PATH_BYTES_MAX + 1) / 2);
}

static void symlinks_and_dots_on_one_path_have_a_ceiling(void **state)
{
	const struct tree *t = *state;
	AUTO(buf_done) struct buf b = BUF_INIT(PATH_BYTES_MAX);
	struct err e = { 0 };

	for (int i = 0; i < ROOT_TURNS_MAX / 2; i++)
		(void)buf_addf(&b, i < 8 ? "slash/d/../" : "d/../d/../");
	(void)buf_addf(&b, "q");
	assert_int_equal(root_mkdirs(t->root, buf_z(&b), 0700, &e), 0);
	assert_int_equal(unlinkat(t->root, "q", AT_REMOVEDIR), 0);
	(void)buf_addf(&b, "/../q");
	assert_int_equal(root_mkdirs(t->root, buf_z(&b), 0700, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
	assert_true(str_starts(str_of(e.msg), STR("more than 64 symlinks and '..' on the way to '/slash/d/../")));
	assert_int_equal(unlinkat(t->root, "q", AT_REMOVEDIR), 0);
}

static void a_directory_that_cannot_be_made_is_an_error(void **state)
{
	AUTO_FD proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(root_mkdirs(proc, "sys/new-directory", 0700, &e), -1); /* nobody makes those, root neither */
	assert_true(str_starts(str_of(e.msg), STR("make directory '/sys/new-directory': ")));
}

static int open_without_openat2(void *arg)
{
	const struct tree *t = arg;
	struct err e[3] = { 0 };

	if (refuse_syscall(SYS_openat2) < 0)
		return 1;
	if (root_open(t->root, "d/inside", O_RDONLY, 0, &e[0]) >= 0 ||
	    root_open_beneath(t->root, "d/inside", O_RDONLY, 0, &e[1]) >= 0 ||
	    root_mkdirs(t->root, "q", 0700, &e[2]) == 0)
		return 2;
	for (int i = 0; i < 3; i++)
		if (e[i].code != ERR_UNAVAILABLE || e[i].sys != ENOSYS ||
		    !strstr(e[i].msg, "the kernel lacks openat2"))
			return 3;
	return 0;
}

static void without_openat2_it_refuses_by_name(void **state)
{
	struct tree *t = *state;

	assert_int_equal(in_child(open_without_openat2, t), 0);
	assert_false(is_dir(t->root, "q"));
}

static void request_paths_have_ceilings(void **state)
{
	static char path[PATH_BYTES_MAX + 2], component[PATH_COMPONENT_MAX + 3];
	struct err e = { 0 };

	(void)state;
	memset(path, '/', sizeof(path));
	assert_int_equal(path_check((struct str){ path, PATH_BYTES_MAX }, &e), 0);
	assert_int_equal(path_check((struct str){ path, PATH_BYTES_MAX + 1 }, &e), -1);
	assert_string_equal(e.msg, "path is longer than 4095 bytes");
	memset(component, 'x', sizeof(component));
	component[0] = '/';
	assert_int_equal(path_check((struct str){ component, PATH_COMPONENT_MAX + 1 }, &e), 0);
	assert_int_equal(path_check((struct str){ component, PATH_COMPONENT_MAX + 2 }, &e), -1);
	assert_string_equal(e.msg, "path has a component longer than 255 bytes");
	assert_int_equal(path_check((struct str){ "/a\0b", 4 }, &e), -1);
	assert_string_equal(e.msg, "path has a NUL byte");
	assert_int_equal(path_check(STR(""), &e), -1);
	assert_int_equal(path_check(STR("relative/../x"), &e), 0);
	assert_int_equal(e.code, ERR_INVALID);
}

static void paths_are_cleaned_by_their_text(void **state)
{
	static const char *const cases[][2] = {
		{ "/", "/" },           { "//", "/" },           { "/.", "/" },        { "/..", "/" },
		{ "/a", "/a" },         { "/a/", "/a" },         { "//a///b//", "/a/b" }, { "/a/./b/.", "/a/b" },
		{ "/a/../b", "/b" },    { "/a/b/../../..", "/" }, { "/../../a", "/a" }, { "/a/...", "/a/..." },
		{ "/a/..b/.c", "/a/..b/.c" }, { "/a/b/..", "/a" },
	};
	AUTO(buf_done) struct buf small = BUF_INIT(4);
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(64);

		buf_addf(&b, "/base:"); /* what is there stays, whatever ".." follows */
		assert_int_equal(path_clean(str_of(cases[i][0]), &b, &e), 0);
		assert_string_equal(buf_z(&b) + 6, cases[i][1]);
		assert_int_equal(strlen(buf_z(&b)), b.n);
	}
	assert_int_equal(path_clean(STR("a/b"), &small, &e), -1);
	assert_string_equal(e.msg, "path 'a/b' is not absolute");
	assert_int_equal(path_clean(STR(""), &small, &e), -1);
	assert_int_equal(path_clean(STR("/abcd/../x"), &small, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(links_and_dots_stay_in_the_root, make_tree, remove_tree),
		cmocka_unit_test_setup_teardown(what_is_opened_is_safe_to_hold, make_tree, remove_tree),
		cmocka_unit_test_setup_teardown(files_are_made_where_the_link_leads_inside, make_tree, remove_tree),
		cmocka_unit_test(magic_links_are_refused),
		cmocka_unit_test_setup_teardown(beneath_means_no_links_and_no_way_up, make_tree, remove_tree),
		cmocka_unit_test_setup_teardown(directories_are_made_in_the_root_only, make_tree, remove_tree),
		cmocka_unit_test_setup_teardown(a_deep_path_takes_little_time, make_tree, remove_tree),
		cmocka_unit_test_setup_teardown(symlinks_and_dots_on_one_path_have_a_ceiling, make_tree, remove_tree),
		cmocka_unit_test(a_directory_that_cannot_be_made_is_an_error),
		cmocka_unit_test_setup_teardown(without_openat2_it_refuses_by_name, make_tree, remove_tree),
		cmocka_unit_test(request_paths_have_ceilings),
		cmocka_unit_test(paths_are_cleaned_by_their_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
