// SPDX-License-Identifier: Apache-2.0
/* The modules of this folder together, in the order in which a sandbox is made: everything in the host's user
 * namespace first, the sandbox's own last. Then, with every capability of that namespace and no syscall
 * filter, an attempt at all that must not work any more. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/caps.h"
#include "sys/keyring.h"
#include "sys/memfd.h"
#include "sys/mounts.h"
#include "sys/namespace.h"
#include "sys/netns.h"
#include "sys/overlay.h"
#include "sys/process.h"
#include "sys/root_test.h"
#include "sys/userns.h"

#include "base/banned.h"

#define BASE 1900019712ULL
#define MASK 0x800405fbULL

struct test_box {
	char top[64];
	int userns, netns, program, out;
	bool runs_program; /* or else the attempts below */
};

/* A mount of its own at NAME in DIRFD. */
static int put_mount(int dirfd, const char *name, const char *fs, unsigned attrs, struct err *e)
{
	struct mount_spec sp = { .fs = fs, .attrs = attrs };
	AUTO_FD dir = -1;
	AUTO_FD fd = -1;

	(void)mkdirat(dirfd, name, 0755);
	dir = openat(dirfd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = mount_make(&sp, e);
	return fd < 0 || mount_move(fd, dir, e) < 0 ? -1 : take_fd(&fd);
}

static int make_dir(int dirfd, const char *name, uint64_t owner)
{
	if (mkdirat(dirfd, name, 0755) < 0 || fchownat(dirfd, name, (uid_t)owner, (gid_t)owner, 0) < 0)
		return -1;
	return openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* What is at SOURCE, read-only, at NAME in DIRFD. */
static int put_view(int dirfd, const char *name, int source_dir, const char *source, struct err *e)
{
	AUTO_FD dir = openat(dirfd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD fd = mount_clone(source_dir, source, true, e);

	if (fd < 0 || mount_restrict(fd, MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV, true, e) < 0)
		return -1;
	return mount_move(fd, dir, e);
}

/* The host's programs and libraries, where /usr has them all. */
static int put_usr(int root, struct err *e)
{
	static const char *const links[][2] = { { "usr/bin", "bin" }, { "usr/lib", "lib" }, { "usr/lib64", "lib64" } };

	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		CHECK(symlinkat(links[i][0], root, links[i][1]) == 0);
	CHECK(mkdirat(root, "usr", 0755) == 0);
	CHECK_OK(put_view(root, "usr", AT_FDCWD, "/usr", e), e);
	return 0;
}

/* An overlay of an id-mapped, empty layer and an upper directory, with /usr, /proc and /sys. */
static int make_root(struct test_box *b, struct err *e)
{
	AUTO_FD top = open(b->top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD staging = put_mount(top, ".", "tmpfs", 0, e);
	AUTO_FD store = make_dir(staging, "store", 0);
	AUTO_FD upper = make_dir(staging, "upper", BASE);
	AUTO_FD work = make_dir(staging, "work", BASE);
	AUTO_FD merged = make_dir(staging, "merged", BASE);
	AUTO_FD lower = mount_clone(store, "", false, e);
	AUTO_FD root = -1;
	enum overlay_way way;

	CHECK(merged >= 0 && lower >= 0);
	CHECK_OK(mount_idmap(lower, b->userns, false, e), e);
	CHECK_OK(mount_move(lower, store, e), e);
	CHECK_OK(overlay_find_way(staging, "merged", &way, e), e);
	root = overlay_make(way, &(struct overlay_spec){ "root", &lower, 1, upper, work, staging, "merged" }, e);
	CHECK_OK(root, e);
	CHECK_OK(mount_move(root, merged, e), e);
	if (put_usr(root, e) != 0)
		return 1;
	CHECK_OK(put_mount(root, "proc", "proc", MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, e), e);
	CHECK_OK(put_mount(root, "sys", "sysfs", MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, e), e);
	CHECK_OK(put_view(root, "proc/sys", root, "proc/sys", e), e);
	CHECK_OK(mount_pivot(root, e), e);
	return 0;
}

static int write_to(const char *path, const char *text)
{
	AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -1 : (int)write(fd, text, strlen(text));
}

/* As root of the sandbox with all capabilities of its user namespace. */
static int attempts(void)
{
	struct stat st;

	CHECK(mount("none", "/", "tmpfs", 0, NULL) < 0 && mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL) < 0);
	CHECK(umount2("/proc", MNT_DETACH) < 0 && umount2("/sys", 0) < 0);
	CHECK(sethostname("mine", 4) < 0 && errno == EPERM);
	CHECK(mknod("/null", S_IFCHR | 0666, makedev(1, 3)) < 0 && errno == EPERM);
	CHECK(unshare(CLONE_NEWUSER) < 0 && unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWNET) < 0);
	CHECK(syscall(SYS_open_tree, AT_FDCWD, "/", 1) < 0 && syscall(SYS_fsopen, "tmpfs", 0) < 0);
	CHECK(write_to("/proc/sys/kernel/hostname", "mine") < 0 && write_to("/proc/sys/net/ipv4/ip_forward", "1") < 0);
	/* With SYS_RESOURCE in the namespace only the read-only mount is in the way of this one. */
	CHECK(write_to("/proc/sys/user/max_user_namespaces", "1") < 0 && errno == EROFS);
	CHECK(access("/etc", F_OK) < 0 && access("/../tmp", F_OK) < 0);
	CHECK(mkdir("/own", 0755) == 0 && chown("/own", 1000, 1000) == 0 && stat("/own", &st) == 0 && st.st_uid == 1000);
	CHECK(getpid() == 1 && getuid() == 0);
	return 0;
}

static int run_program(struct test_box *b, struct err *e)
{
	char name[] = "cat", file[] = "/proc/self/status";
	char *argv[] = { name, file, NULL }, *envp[] = { NULL };

	CHECK_OK(keyring_join_fresh(e), e);
	CHECK_OK(caps_limit(MASK, e), e);
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(dup2(b->out, 1) == 1);
	return memfd_exec(b->program, argv, envp, e) < 0 ? (dprintf(2, "%s\n", e->msg), 1) : 0;
}

/* PID 1 of the new namespaces. */
static int box_main(struct test_box *b)
{
	struct err e = { 0 };

	CHECK_OK(namespace_enter(b->netns, NAMESPACE_NET, &e), &e);
	CHECK(sethostname("box", 3) == 0);
	CHECK_OK(mount_private_all(&e), &e);
	if (make_root(b, &e) != 0)
		return 1;
	CHECK(setsid() > 0);
	CHECK_OK(namespace_enter(b->userns, NAMESPACE_USER, &e), &e);
	CHECK(syscall(SYS_setgroups, 0, NULL) == 0 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0);
	return b->runs_program ? run_program(b, &e) : attempts();
}

static int run_box(struct test_box *b)
{
	const uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
	struct process_end end = { .code = -1 };
	struct err e = { 0 };
	AUTO_FD pidfd = -1;
	pid_t pid = namespace_clone(flags, -1, &pidfd, &e);

	if (pid == 0)
		_exit(box_main(b));
	assert_true(pid > 0);
	assert_int_equal(process_wait(pidfd, 60000, &end, &e), 0);
	return end.by_signal ? -1 : end.code;
}

static int make_box(void **state)
{
	static struct test_box b;

	b = (struct test_box){ .top = "/tmp/order_test.XXXXXX", .userns = -1, .netns = -1, .program = -1,
			       .out = -1 };
	*state = &b;
	return mkdtemp(b.top) ? 0 : -1;
}

static int drop_box(void **state)
{
	struct test_box *b = *state;

	closep(&b->userns);
	closep(&b->netns);
	closep(&b->program);
	closep(&b->out);
	return rmdir(b->top);
}

static void prepare(struct test_box *b)
{
	struct err e = { 0 };

	b->userns = userns_make(-1, BASE, &e);
	b->netns = netns_make(&e);
	assert_string_equal(e.msg, "");
	assert_true(b->userns >= 0 && b->netns >= 0);
}

static void root_with_all_capabilities_of_its_namespace_can_change_no_mount_host_name_or_setting(void **state)
{
	struct test_box *b = *state;

	NEEDS_ROOT(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWNET);
	prepare(b);
	assert_int_equal(run_box(b), 0);
}

static void the_sealed_program_runs_in_the_box_with_exactly_the_capabilities(void **state)
{
	struct test_box *b = *state;
	char text[8192] = "";
	struct err e = { 0 };
	AUTO_FD from = open("/usr/bin/cat", O_RDONLY | O_CLOEXEC);

	NEEDS_ROOT(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWNET);
	if (from < 0 || access("/usr/lib64", F_OK) < 0) {
		print_message("skipped: the programs and libraries of this host are not all in /usr\n");
		skip();
	}
	prepare(b);
	b->program = memfd_sealed_copy(from, "program", 999999, &e);
	b->out = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	assert_true(b->program >= 0 && b->out >= 0);
	b->runs_program = true;
	assert_int_equal(run_box(b), 0);
	assert_true(pread(b->out, text, sizeof(text) - 1, 0) > 0);
	assert_non_null(strstr(text, "CapInh:\t0000000000000000\nCapPrm:\t00000000800405fb\nCapEff:\t00000000800405fb\n"
				     "CapBnd:\t00000000800405fb\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n"));
	assert_non_null(strstr(text, "NSpid:\t1\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			root_with_all_capabilities_of_its_namespace_can_change_no_mount_host_name_or_setting, make_box,
			drop_box),
		cmocka_unit_test_setup_teardown(the_sealed_program_runs_in_the_box_with_exactly_the_capabilities,
						make_box, drop_box),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
