// SPDX-License-Identifier: Apache-2.0
#include "sys/namespace.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/fd.h"
#include "sys/inode_test.h"
#include "sys/mountinfo.h"
#include "sys/process.h"
#include "sys/root_test.h"

#include "base/banned.h"

#define ALL \
	(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWUSER)

/* A child that waits for its end, in new namespaces. */
static int start(uint64_t flags, int cgroup, int *ret_pidfd)
{
	struct err e = { 0 };
	pid_t pid = namespace_clone(flags, cgroup, ret_pidfd, &e);

	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	return pid;
}

static void stop(int pidfd)
{
	struct process_end end;
	struct err e = { 0 };

	assert_int_equal(process_kill_and_wait(pidfd, 10000, &end, &e), 0);
}

static bool is_ours(int fd, enum namespace_kind kind)
{
	AUTO_FD own = -1;
	struct err e = { 0 };

	own = namespace_of_self(kind, &e);
	assert_true(own >= 0 && inode_of(fd) != 0);
	return inode_of(fd) == inode_of(own);
}

static void every_namespace_asked_for_is_new_and_no_other(void **state)
{
	AUTO_FD pidfd = -1;
	struct err e = { 0 };

	(void)state;
	NEEDS_ROOT(ALL);
	assert_true(start(ALL, -1, &pidfd) > 0);
	assert_true(fcntl(pidfd, F_GETFD) & FD_CLOEXEC);
	for (enum namespace_kind k = 0; k < NAMESPACE_KINDS; k++) {
		AUTO_FD fd = namespace_of_process(pidfd, k, &e);

		assert_true(fd >= 0);
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		assert_int_equal(is_ours(fd, k), k == NAMESPACE_TIME);
	}
	stop(pidfd);
}

/* Runs in a child whose ioctl() is gone: the way before Linux 6.11. */
static int take_by_number(void *arg)
{
	int pidfd = *(int *)arg;
	struct err e = { 0 };
	AUTO_FD fd = -1;
	AUTO_FD self = -1;

	CHECK(refuse_syscall(SYS_ioctl) == 0);
	fd = namespace_of_process(pidfd, NAMESPACE_UTS, &e);
	CHECK_OK(fd, &e);
	self = namespace_of_self(NAMESPACE_UTS, &e);
	CHECK_OK(self, &e);
	CHECK(inode_of(fd) != inode_of(self));
	CHECK(namespace_of_process(0, NAMESPACE_UTS, &e) < 0); /* not a pidfd */
	CHECK(namespace_of_process(9999, NAMESPACE_UTS, &e) < 0 && e.code == ERR_NOT_FOUND);
	return 0;
}

static int take_from_nobody(void *arg)
{
	struct err e = { 0 };

	CHECK(refuse_syscall(SYS_ioctl) == 0);
	CHECK(namespace_of_process(*(int *)arg, NAMESPACE_NET, &e) < 0 && e.code == ERR_NOT_FOUND);
	return 0;
}

static void older_kernels_are_asked_through_proc(void **state)
{
	AUTO_FD pidfd = -1;
	struct err e = { 0 };

	(void)state;
	NEEDS_ROOT(CLONE_NEWUTS);
	assert_true(start(CLONE_NEWUTS, -1, &pidfd) > 0);
	assert_int_equal(in_child(take_by_number, &pidfd), 0);
	stop(pidfd);
	assert_int_equal(namespace_of_process(pidfd, NAMESPACE_UTS, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
	assert_int_equal(in_child(take_from_nobody, &pidfd), 0);
}

static int join(void *arg)
{
	int fd = *(int *)arg;
	struct err e = { 0 };

	CHECK(namespace_enter(fd, NAMESPACE_NET, &e) < 0 && e.code == ERR_INVALID);
	CHECK_OK(namespace_enter(fd, NAMESPACE_UTS, &e), &e);
	CHECK(sethostname("joined", 6) == 0);
	return 0;
}

static void a_namespace_outlives_its_process_while_it_is_held(void **state)
{
	AUTO_FD pidfd = -1;
	AUTO_FD fd = -1;
	char before[65] = "", after[65] = "";
	struct err e = { 0 };

	(void)state;
	NEEDS_ROOT(CLONE_NEWUTS);
	assert_int_equal(gethostname(before, sizeof(before)), 0);
	assert_true(start(CLONE_NEWUTS, -1, &pidfd) > 0);
	fd = namespace_of_process(pidfd, NAMESPACE_UTS, &e);
	stop(pidfd);
	assert_int_equal(in_child(join, &fd), 0);
	assert_int_equal(gethostname(after, sizeof(after)), 0);
	assert_string_equal(before, after);
}

static void what_is_no_namespace_is_refused(void **state)
{
	AUTO_FD null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct err e = { 0 };
	int pidfd;

	(void)state;
	assert_int_equal(namespace_enter(null, NAMESPACE_NET, &e), -1);
	assert_int_equal(namespace_clone(CLONE_FS | CLONE_NEWNS, -1, &pidfd, &e), -1); /* contradicts itself */
	assert_int_equal(e.code, ERR_INVALID);
}

/* ---- cgroups ------------------------------------------------------------------------------------------- */

/* A new directory in the cgroup v2 tree, or false. */
static bool make_cgroup(char *path, size_t cap)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(64 << 20);
	struct mountinfo_list list;
	struct err e;

	if (mountinfo_list("/sys/fs/cgroup", &a, &list, &e) < 0)
		return false;
	for (size_t i = 0; i < list.n; i++) {
		if (!str_is(str_of(list.rows[i].fs), "cgroup2"))
			continue;
		(void)snprintf(path, cap, "%s/namespace_test.%d", list.rows[i].place, (int)getpid());
		return mkdir(path, 0755) == 0;
	}
	return false;
}

static void a_child_is_born_in_its_cgroup(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(65536);
	AUTO_FD pidfd = -1;
	AUTO_FD dir = -1;
	char path[256], file[64];
	struct err e = { 0 };
	int pid;

	(void)state;
	NEEDS_ROOT(CLONE_NEWUTS);
	if (!make_cgroup(path, sizeof(path))) {
		print_message("skipped: no cgroup v2 tree to write in\n");
		skip();
	}
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	pid = start(CLONE_NEWUTS, dir, &pidfd);
	if (pid > 0) {
		(void)snprintf(file, sizeof(file), "/proc/%d/cgroup", pid);
		(void)fd_read_file(AT_FDCWD, file, 65536, &b, &e);
		stop(pidfd);
	}
	for (int i = 0; i < 100 && rmdir(path) < 0 && errno == EBUSY; i++)
		(void)usleep(10000);
	assert_true(access(path, F_OK) < 0);
	assert_true(pid > 0);
	assert_non_null(strstr(buf_z(&b), strrchr(path, '/')));
}

static void a_host_gets_its_name_from_outside(void **state)
{
	char before[65] = "", name[65] = "", after[65] = "";
	struct err e = { 0 };
	int pidfd = -1;

	(void)state;
	NEEDS_ROOT(CLONE_NEWUTS);
	(void)gethostname(before, sizeof(before) - 1);
	assert_true(start(CLONE_NEWUTS, -1, &pidfd) > 0);
	assert_int_equal(namespace_set_hostname(pidfd, "a-name", &e), 0);
	{
		AUTO_FD home = namespace_of_self(NAMESPACE_UTS, &e), there = namespace_of_process(pidfd, NAMESPACE_UTS, &e);

		assert_int_equal(namespace_enter(there, NAMESPACE_UTS, &e), 0);
		(void)gethostname(name, sizeof(name) - 1);
		namespace_come_back(home, NAMESPACE_UTS);
	}
	assert_string_equal(name, "a-name");
	(void)gethostname(after, sizeof(after) - 1);
	assert_string_equal(after, before);
	stop(pidfd);
	assert_int_equal(namespace_set_hostname(pidfd, "late", &e), -1); /* it has ended */
	(void)close(pidfd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_namespace_asked_for_is_new_and_no_other),
		cmocka_unit_test(older_kernels_are_asked_through_proc),
		cmocka_unit_test(a_namespace_outlives_its_process_while_it_is_held),
		cmocka_unit_test(what_is_no_namespace_is_refused),
		cmocka_unit_test(a_child_is_born_in_its_cgroup),
		cmocka_unit_test(a_host_gets_its_name_from_outside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
