// SPDX-License-Identifier: Apache-2.0
#include "sys/userns.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/fd.h"
#include "sys/inode_test.h"
#include "sys/namespace.h"
#include "sys/root_test.h"

#include "base/banned.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define BASE 1900019712ULL

static void only_aligned_ranges_between_accounts_and_2_31_are_taken(void **state)
{
	static const struct {
		uint64_t base;
		bool good;
	} rows[] = {
		{ 0, false },          { 65536, false },       { 983040, false },     { 1000000, false },
		{ 1048576, true },     { 1048577, false },     { 1900019712, true },  { 2147418112, true },
		{ 2147483648, false }, { 4294901760, false },  { 1ULL << 32, false }, { UINT64_MAX, false },
		{ (1ULL << 32) + 1048576, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = { 0 };

		assert_int_equal(userns_check_base(rows[i].base, &e), rows[i].good ? 0 : -1);
		assert_int_equal(e.code, rows[i].good ? ERR_NONE : ERR_INVALID);
	}
	assert_int_equal(userns_make(-1, 0, &(struct err){ 0 }), -1);
}

static bool has_text(const char *path, const char *want)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1024);
	struct err e;

	return fd_read_file(AT_FDCWD, path, 1024, &b, &e) == 0 && str_is(str_trim(buf_str(&b)), want);
}

/* N4: with every capability of the namespace and no filter, as long as the settings are left alone. */
static int try_everything(void *arg)
{
	static const int flags[] = { CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET,
				     CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_NEWTIME };
	struct err e = { 0 };

	CHECK_OK(namespace_enter(*(int *)arg, NAMESPACE_USER, &e), &e);
	CHECK(syscall(SYS_setgroups, 0, NULL) == 0 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0);
	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		CHECK(unshare(flags[i]) < 0 && (errno == ENOSPC || errno == EPERM));
	CHECK(unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0);
	CHECK(has_text("/proc/sys/user/max_user_namespaces", "0") && has_text("/proc/sys/user/max_time_namespaces", "0"));
	CHECK(has_text("/proc/self/setgroups", "allow"));
	CHECK(setresuid(65536, 65536, 65536) < 0 && errno == EINVAL);
	CHECK(setresgid(5, 5, 5) == 0 && setresuid(65535, 65535, 65535) == 0);
	CHECK(unshare(CLONE_NEWUSER) < 0 && (errno == ENOSPC || errno == EPERM));
	return 0;
}

/* The map as the host sees it, of a process that has joined. */
static int see_map(void *arg)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1024);
	struct str rest, first, base, count;
	struct err e = { 0 };

	CHECK_OK(namespace_enter(*(int *)arg, NAMESPACE_USER, &e), &e);
	CHECK_OK(fd_read_file(AT_FDCWD, "/proc/self/gid_map", 1024, &b, &e), &e);
	rest = buf_str(&b);
	CHECK(str_take_word(&rest, &first, 16) && str_is(first, "0") && str_take_word(&rest, &base, 16));
	CHECK(str_is(base, "0") || str_is(base, "1900019712")); /* relative to who reads */
	CHECK(str_take_word(&rest, &count, 16) && str_is(count, "65536") && !str_take_word(&rest, &count, 16));
	return 0;
}

static void nobody_in_it_makes_a_namespace_of_any_kind(void **state)
{
	AUTO(buf_done) struct buf before = BUF_INIT(64);
	AUTO(buf_done) struct buf after = BUF_INIT(64);
	AUTO_FD fd = -1;
	struct err e = { 0 };

	(void)state;
	NEEDS_ROOT(CLONE_NEWUSER);
	(void)fd_read_file(AT_FDCWD, "/proc/sys/user/max_user_namespaces", 64, &before, &e);
	fd = userns_make(-1, BASE, &e);
	assert_string_equal(e.msg, "");
	assert_true(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* its child is gone and collected */
	assert_int_equal(in_child(try_everything, &fd), 0);
	assert_int_equal(in_child(see_map, &fd), 0);
	(void)fd_read_file(AT_FDCWD, "/proc/sys/user/max_user_namespaces", 64, &after, &e);
	assert_string_equal(buf_z(&before), buf_z(&after));
}

static void each_call_makes_another_one(void **state)
{
	AUTO_FD one = -1;
	AUTO_FD two = -1;
	AUTO_FD own = -1;
	struct err e = { 0 };
	uint64_t a, b, c;

	(void)state;
	NEEDS_ROOT(CLONE_NEWUSER);
	one = userns_make(-1, BASE, &e);
	two = userns_make(-1, BASE + USERNS_IDS, &e);
	own = namespace_of_self(NAMESPACE_USER, &e);
	a = inode_of(one);
	b = inode_of(two);
	c = inode_of(own);
	assert_true(a != b && b != c && a != c);
}

/* Limits of the kernel per user are counted for the owner as well. */
static void each_belongs_to_its_own_first_id(void **state)
{
	(void)state;
	NEEDS_ROOT(CLONE_NEWUSER);
	for (uint64_t base = BASE; base < BASE + 2 * USERNS_IDS; base += USERNS_IDS) {
		struct err e = { 0 };
		AUTO_FD fd = userns_make(-1, base, &e);
		uid_t owner = 0;

		assert_true(fd >= 0);
		assert_int_equal(ioctl(fd, NS_GET_OWNER_UID, &owner), 0);
		assert_int_equal(owner, base);
	}
}

/* The child of a failing attempt is collected, too. */
static int make_without_rights(void *arg)
{
	struct err e = { 0 };

	(void)arg;
	CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
	CHECK(userns_make(-1, BASE, &e) < 0 && e.code != ERR_NONE && strstr(e.msg, "make a user namespace: "));
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	return 0;
}

static int make_without_clone3(void *arg)
{
	struct err e = { 0 };

	(void)arg;
	CHECK(refuse_syscall(SYS_clone3) == 0);
	CHECK(userns_make(-1, BASE, &e) < 0 && e.code == ERR_UNAVAILABLE);
	return 0;
}

static void failures_leave_no_process(void **state)
{
	(void)state;
	NEEDS_ROOT(CLONE_NEWUSER);
	assert_int_equal(in_child(make_without_rights, NULL), 0);
	assert_int_equal(in_child(make_without_clone3, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_aligned_ranges_between_accounts_and_2_31_are_taken),
		cmocka_unit_test(nobody_in_it_makes_a_namespace_of_any_kind),
		cmocka_unit_test(each_call_makes_another_one),
		cmocka_unit_test(each_belongs_to_its_own_first_id),
		cmocka_unit_test(failures_leave_no_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
