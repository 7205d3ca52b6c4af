// SPDX-License-Identifier: Apache-2.0
#include "sys/mounts.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/fd.h"
#include "sys/mountinfo.h"
#include "sys/namespace.h"
#include "sys/root_test.h"
#include "sys/userns.h"

#include "base/banned.h"

#define BASE 1900019712ULL /* 28992 * 65536 */

struct place {
	char top[64];
};

static int make_place(void **state)
{
	static struct place p;

	(void)snprintf(p.top, sizeof(p.top), "/tmp/mounts_test.XXXXXX");
	*state = &p;
	return mkdtemp(p.top) ? 0 : -1;
}

static int remove_place(void **state)
{
	struct place *p = *state;

	return rmdir(p->top); /* which fails while anything is left in or on it */
}

/* A child of its own with a mount namespace that ends with it. */
struct task {
	int (*fn)(struct place *p, struct err *e);
	struct place *place;
};

static int run_task(void *arg)
{
	struct task *t = arg;
	struct err e = { 0 };

	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK_OK(mount_private_all(&e), &e);
	return t->fn(t->place, &e);
}

static void in_own_mounts(void **state, int (*fn)(struct place *, struct err *))
{
	struct task t = { fn, *state };
	int r;

	NEEDS_ROOT(CLONE_NEWNS);
	r = in_child(run_task, &t);
	if (r == CHILD_CANNOT)
		skip();
	assert_int_equal(r, 0);
}

static int dir_at(int dirfd, const char *name)
{
	(void)mkdirat(dirfd, name, 0755);
	return openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int put_file(int dirfd, const char *name, const char *text)
{
	AUTO_FD fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	return fd < 0 ? -1 : (int)write(fd, text, strlen(text));
}

static bool has_text(int dirfd, const char *name, const char *text)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1024);
	struct err e;

	return fd_read_file(dirfd, name, 1024, &b, &e) == 0 && str_is(buf_str(&b), text);
}

/* An empty tmpfs at TOP; its root. */
static int stage(const char *top, unsigned attrs, struct err *e)
{
	struct mount_option options[] = { MOUNT_TEXT("mode", "755"), MOUNT_TEXT("size", "4m") };
	struct mount_spec sp = { "tmpfs", "stage", options, ARRAY_LEN(options), attrs };
	AUTO_FD fd = mount_make(&sp, e);
	AUTO_FD target = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || mount_move(fd, target, e) < 0)
		return -1;
	return open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* ---- one mount ----------------------------------------------------------------------------------------- */

static int tmpfs_task(struct place *p, struct err *e)
{
	struct mount_option options[] = { MOUNT_TEXT("mode", "710"), MOUNT_TEXT("size", "64k") };
	struct mount_spec sp = { "tmpfs", NULL, options, 2, MOUNT_NOSUID | MOUNT_NOEXEC };
	AUTO_FD target = open(p->top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD fd = mount_make(&sp, e);
	struct statvfs vfs;
	struct stat st;

	CHECK_OK(fd, e);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK(put_file(fd, "early", "x") == 1);
	CHECK(faccessat(target, "early", F_OK, 0) < 0);
	CHECK_OK(mount_move(fd, target, e), e);
	CHECK(stat(p->top, &st) == 0 && (st.st_mode & 07777) == 0710);
	CHECK(statvfs(p->top, &vfs) == 0 && vfs.f_blocks * vfs.f_frsize == 65536);
	CHECK((vfs.f_flag & (ST_NOSUID | ST_NOEXEC | ST_NODEV | ST_RDONLY)) == (ST_NOSUID | ST_NOEXEC));
	CHECK(has_text(fd, "early", "x"));
	CHECK_OK(mount_restrict(fd, MOUNT_RO | MOUNT_NODEV, false, e), e);
	CHECK(put_file(fd, "late", "x") < 0 && errno == EROFS);
	CHECK(statvfs(p->top, &vfs) == 0 && (vfs.f_flag & ST_NOEXEC));
	CHECK_OK(mount_detach(p->top, e), e);
	CHECK(stat(p->top, &st) == 0 && (st.st_mode & 07777) == 0700);
	return 0;
}

static void a_mount_is_invisible_until_it_is_moved_to_its_place(void **state)
{
	in_own_mounts(state, tmpfs_task);
}

/* A copy of a restricted mount is as restricted, and goes where there is something of its kind. */
static int copies_task(struct place *p, struct err *e)
{
	AUTO_FD top = stage(p->top, 0, e);
	AUTO_FD folder = -1, again = -1;
	struct statvfs vfs;

	CHECK(mkdirat(top, "folder", 0700) == 0 && mkdirat(top, "target", 0700) == 0 && put_file(top, "file", "x") == 1);
	CHECK(symlinkat("target", top, "link") == 0);
	folder = mount_clone(top, "folder", false, e);
	CHECK_OK(mount_restrict(folder, MOUNT_RO | MOUNT_NODEV, false, e), e);
	CHECK(mount_move_to(folder, top, "missing", e) == 0 && mount_move_to(folder, top, "missing/too", e) == 0);
	CHECK(mount_move_to(folder, top, "file", e) < 0 && mount_move_to(folder, top, "link", e) < 0);
	CHECK(mount_move_to(folder, top, "folder", e) == 1);
	again = mount_clone(top, "folder", false, e);
	CHECK(mount_move_to(again, top, "target", e) == 1);
	CHECK(fstatvfs(again, &vfs) == 0 && (vfs.f_flag & (ST_RDONLY | ST_NODEV)) == (ST_RDONLY | ST_NODEV));
	CHECK(mkdirat(top, "target/x", 0700) < 0 && errno == EROFS);
	return mount_detach(p->top, e);
}

static void a_copy_of_a_mount_is_moved_by_path(void **state)
{
	in_own_mounts(state, copies_task);
}

static int kinds_task(struct place *p, struct err *e)
{
	static const char *const kinds[] = { "proc", "sysfs", "devpts", "mqueue", "tmpfs" };
	AUTO_FD target = open(p->top, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct mount_spec sp = { .fs = kinds[i], .attrs = MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC };
		AUTO_FD fd = mount_make(&sp, e);

		CHECK_OK(fd, e);
		CHECK_OK(mount_move(fd, target, e), e);
		CHECK_OK(mount_detach(p->top, e), e);
	}
	return 0;
}

static void file_systems_of_a_sandbox_can_be_made(void **state)
{
	in_own_mounts(state, kinds_task);
}

static int refusals_task(struct place *p, struct err *e)
{
	char longest[MOUNT_OPTION_MAX + 2];
	struct mount_option nonsense = MOUNT_TEXT("non\033sense", "1");
	struct mount_option size = MOUNT_TEXT("size", "much");
	struct mount_option lengthy = MOUNT_TEXT("size", longest);
	struct mount_option flag = MOUNT_FLAG("nonsense");
	struct mount_option dir = MOUNT_DIR("nonsense", 0);
	struct mount_option no_dir = MOUNT_DIR("upperdir", 9999);

	(void)p;
	memset(longest, '1', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	CHECK(mount_make(&(struct mount_spec){ .fs = "tmpfs", .options = &nonsense, .n_options = 1 }, e) < 0);
	CHECK(e->code == ERR_INVALID && strstr(e->msg, "Unknown parameter 'non?sense'"));
	CHECK(mount_make(&(struct mount_spec){ .fs = "tmpfs", .options = &size, .n_options = 1 }, e) < 0);
	CHECK(strstr(e->msg, "mount 'tmpfs': option 'size': ") && strstr(e->msg, "Bad value for 'size'"));
	CHECK(mount_make(&(struct mount_spec){ .fs = "tmpfs", .options = &lengthy, .n_options = 1 }, e) < 0);
	CHECK(e->code == ERR_LIMIT);
	CHECK(mount_make(&(struct mount_spec){ .fs = "tmpfs", .options = &flag, .n_options = 1 }, e) < 0);
	CHECK(strstr(e->msg, "Unknown parameter"));
	CHECK(mount_make(&(struct mount_spec){ .fs = "tmpfs", .options = &dir, .n_options = 1 }, e) < 0);
	CHECK(mount_make(&(struct mount_spec){ .fs = "overlay", .options = &no_dir, .n_options = 1 }, e) < 0);
	CHECK(e->sys == EBADF);
	CHECK(mount_make(&(struct mount_spec){ .fs = "overlay" }, e) < 0);
	CHECK(strstr(e->msg, "mount 'overlay'"));
	CHECK(mount_make(&(struct mount_spec){ .fs = "no-such-fs" }, e) < 0 && e->sys == ENODEV);
	CHECK(mount_move(-1, -1, e) < 0 && mount_restrict(-1, MOUNT_RO, false, e) < 0 && mount_pivot(-1, e) < 0);
	CHECK(mount_idmap(0, -1, false, e) < 0 && e->code == ERR_INVALID);
	CHECK(mount_idmap(-1, 0, false, e) < 0);
	CHECK(mount_clone(AT_FDCWD, "/nowhere", true, e) < 0 && e->code == ERR_NOT_FOUND);
	CHECK(mount_open(AT_FDCWD, "/nowhere", e) < 0 && e->code == ERR_NOT_FOUND);
	return 0;
}

static void a_refusal_has_the_words_of_the_file_system_made_harmless(void **state)
{
	in_own_mounts(state, refusals_task);
}

/* ---- trees --------------------------------------------------------------------------------------------- */

static int trees_task(struct place *p, struct err *e)
{
	AUTO_FD top = stage(p->top, 0, e);
	AUTO_FD from = dir_at(top, "from");
	AUTO_FD sub = dir_at(from, "sub");
	AUTO_FD to = dir_at(top, "to");
	struct mount_spec sp = { .fs = "tmpfs" };
	AUTO_FD inner = mount_make(&sp, e);
	AUTO_FD clone = -1;
	AUTO_FD moved = -1;

	CHECK(to >= 0 && sub >= 0);
	CHECK_OK(mount_move(inner, sub, e), e);
	CHECK(put_file(inner, "deep", "d") == 1);
	clone = mount_clone(from, "", true, e);
	CHECK_OK(clone, e);
	CHECK_OK(mount_restrict(clone, MOUNT_RO | MOUNT_NOSUID, true, e), e);
	CHECK_OK(mount_move(clone, to, e), e);
	CHECK(has_text(clone, "sub/deep", "d"));
	CHECK(put_file(clone, "sub/deep", "changed") < 0 && errno == EROFS);
	CHECK(put_file(clone, "new", "x") < 0 && errno == EROFS);
	CHECK(put_file(inner, "deep", "changed") == 7);
	/* An attached mount goes elsewhere, with its content. */
	moved = mount_open(clone, "sub", e);
	CHECK_OK(moved, e);
	CHECK_OK(mount_move(moved, sub, e), e);
	CHECK(faccessat(clone, "sub/deep", F_OK, 0) < 0);
	/* Symlinks at the end are what they are. */
	CHECK(symlinkat("from", top, "link") == 0);
	CHECK(fchdir(top) == 0 && mount_detach("link", e) < 0 && e->code == ERR_INVALID);
	CHECK(mount_detach("from", e) < 0 && e->code == ERR_INVALID);
	CHECK(chdir("/") == 0);
	return 0;
}

static void a_tree_of_mounts_is_cloned_restricted_and_moved(void **state)
{
	in_own_mounts(state, trees_task);
}

/* ---- the root ------------------------------------------------------------------------------------------ */

static int pivot_task(struct place *p, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	struct mount_spec proc = { .fs = "proc", .attrs = MOUNT_NOSUID };
	struct mountinfo_list list;
	struct stat root, up;
	AUTO_FD top = stage(p->top, MOUNT_NOSUID, e);
	AUTO_FD procdir = dir_at(top, "proc");
	AUTO_FD fd = mount_make(&proc, e);
	char cwd[64];

	CHECK(put_file(top, "here", "x") == 1);
	CHECK(mount_pivot(procdir, e) < 0 && e->code == ERR_INVALID); /* not the root of a mount */
	CHECK(chdir("/") == 0);
	CHECK_OK(mount_move(fd, procdir, e), e);
	CHECK_OK(mount_pivot(top, e), e);
	CHECK(access("/here", F_OK) == 0 && access("/etc", F_OK) < 0 && access("/tmp", F_OK) < 0);
	CHECK(getcwd(cwd, sizeof(cwd)) && strcmp(cwd, "/") == 0);
	CHECK(stat("/", &root) == 0 && stat("/../..", &up) == 0 && root.st_ino == up.st_ino && root.st_dev == up.st_dev);
	CHECK_OK(mountinfo_list("/", &a, &list, e), e);
	CHECK(list.n == 2 && strcmp(list.rows[0].place, "/") == 0 && strcmp(list.rows[0].source, "stage") == 0);
	CHECK(strcmp(list.rows[1].place, "/proc") == 0 && strcmp(list.rows[1].fs, "proc") == 0);
	return 0;
}

static void nothing_of_the_old_root_is_reachable_after_the_pivot(void **state)
{
	in_own_mounts(state, pivot_task);
}

static bool has_shared_mounts(void)
{
	AUTO(buf_done) struct buf b = BUF_INIT(MOUNTINFO_BYTES_MAX);
	struct err e;

	return fd_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_BYTES_MAX, &b, &e) < 0 ||
	       strstr(buf_z(&b), " shared:");
}

static int private_task(struct place *p, struct err *e)
{
	AUTO_FD top = stage(p->top, 0, e);
	AUTO_FD sub = dir_at(top, "sub");

	CHECK(sub >= 0 && mount(p->top, p->top, NULL, MS_BIND, NULL) == 0);
	CHECK(mount(NULL, p->top, NULL, MS_SHARED, NULL) == 0 && has_shared_mounts());
	CHECK_OK(mount_private_all(e), e);
	CHECK(!has_shared_mounts());
	CHECK(refuse_syscall(SYS_mount_setattr) == 0 && refuse_syscall(SYS_fsopen) == 0);
	CHECK(mount_private_all(e) < 0 && e->code == ERR_UNAVAILABLE);
	CHECK(mount_make(&(struct mount_spec){ .fs = "tmpfs" }, e) < 0 && e->code == ERR_UNAVAILABLE);
	return 0;
}

static void all_mounts_become_private_and_kernels_without_the_calls_are_named(void **state)
{
	in_own_mounts(state, private_task);
}

static int slave_child(void *arg)
{
	const struct place *p = arg;
	struct err e = { 0 };
	struct stat st;

	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK_OK(mount_slave_all(&e), &e);
	CHECK(!has_shared_mounts());
	CHECK(mount("tmpfs", p->top, "tmpfs", 0, "mode=123") == 0 && stat(p->top, &st) == 0 && (st.st_mode & 0777) == 0123);
	return 0;
}

static int slave_task(struct place *p, struct err *e)
{
	struct stat st;

	(void)e;
	CHECK(mount(p->top, p->top, NULL, MS_BIND, NULL) == 0 && mount(NULL, p->top, NULL, MS_SHARED, NULL) == 0);
	CHECK(in_child(slave_child, p) == 0);
	CHECK(stat(p->top, &st) == 0 && (st.st_mode & 0777) != 0123);
	return 0;
}

static void what_a_slave_mounts_is_not_seen_outside(void **state)
{
	in_own_mounts(state, slave_task);
}

/* Everything above happened in namespaces that are gone. */
static void no_mount_of_these_tests_is_left(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(64 << 20);
	struct mountinfo_list list;
	struct err e;

	(void)state;
	assert_int_equal(mountinfo_list("/", &a, &list, &e), 0);
	for (size_t i = 0; i < list.n; i++)
		assert_null(strstr(list.rows[i].place, "mounts_test."));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_mount_is_invisible_until_it_is_moved_to_its_place, make_place, remove_place),
		cmocka_unit_test_setup_teardown(a_copy_of_a_mount_is_moved_by_path, make_place, remove_place),
		cmocka_unit_test_setup_teardown(file_systems_of_a_sandbox_can_be_made, make_place, remove_place),
		cmocka_unit_test_setup_teardown(a_refusal_has_the_words_of_the_file_system_made_harmless, make_place,
						remove_place),
		cmocka_unit_test_setup_teardown(a_tree_of_mounts_is_cloned_restricted_and_moved, make_place, remove_place),
		cmocka_unit_test_setup_teardown(nothing_of_the_old_root_is_reachable_after_the_pivot, make_place,
						remove_place),
		cmocka_unit_test_setup_teardown(all_mounts_become_private_and_kernels_without_the_calls_are_named,
						make_place, remove_place),
		cmocka_unit_test_setup_teardown(what_a_slave_mounts_is_not_seen_outside, make_place, remove_place),
		cmocka_unit_test(no_mount_of_these_tests_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
