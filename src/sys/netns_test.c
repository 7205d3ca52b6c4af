// SPDX-License-Identifier: Apache-2.0
#include "sys/netns.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
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

#define BASE "1900019712"
#define LAST "1900085247"

static uint64_t current(void)
{
	struct err e = { 0 };
	AUTO_FD fd = namespace_of_self(NAMESPACE_NET, &e);

	assert_true(fd >= 0);
	return inode_of(fd);
}

static int see_inside(void *arg, struct err *e)
{
	*(uint64_t *)arg = current();
	return err_set(e, ERR_CONFLICT, "as asked");
}

static void a_new_one_is_entered_and_left_within_a_call(void **state)
{
	AUTO_FD fd = -1;
	struct err e = { 0 };
	uint64_t before, inside = 0, want = 0;

	(void)state;
	NEEDS_ROOT(CLONE_NEWNET);
	before = current();
	fd = netns_make(&e);
	assert_true(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	assert_true(current() == before);
	want = inode_of(fd);
	assert_int_equal(netns_call(fd, see_inside, &inside, &e), -1);
	assert_string_equal(e.msg, "as asked");
	assert_true(inside == want && want != before && current() == before);
}

/* A port below 1024 as an ordinary user, by a socket that was born inside. */
static int bind_port_80(void *arg)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(80) };
	struct err e = { 0 };
	int fd;

	fd = netns_socket(*(int *)arg, AF_INET, SOCK_STREAM, 0, &e);
	CHECK_OK(fd, &e);
	CHECK(setresuid(65534, 65534, 65534) == 0);
	return bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 ? 0 : CHILD_CANNOT;
}

static int read_setting(void *arg, struct err *e)
{
	struct buf *b = arg;

	buf_clear(b);
	return fd_read_file(AT_FDCWD, "/proc/sys/net/ipv4/ping_group_range", 64, b, e);
}

static void settings_hold_inside_alone(void **state)
{
	static const struct netns_setting settings[] = {
		{ "ipv4/ip_unprivileged_port_start", "0" },
		{ "ipv4/ping_group_range", BASE " " LAST },
		{ "ipv6/conf/all/disable_ipv6", "1" },
	};
	AUTO(buf_done) struct buf before = BUF_INIT(64);
	AUTO(buf_done) struct buf b = BUF_INIT(64);
	AUTO_FD fd = -1;
	struct err e = { 0 };

	(void)state;
	NEEDS_ROOT(CLONE_NEWNET);
	fd = netns_make(&e);
	assert_int_equal(in_child(bind_port_80, &fd), CHILD_CANNOT); /* not yet */
	assert_int_equal(netns_call(-1, read_setting, &before, &e), 0);
	assert_int_equal(netns_set(fd, -1, settings, access("/proc/net/if_inet6", F_OK) == 0 ? 3 : 2, &e), 0);
	assert_int_equal(netns_call(fd, read_setting, &b, &e), 0);
	assert_string_equal(buf_z(&b), BASE "\t" LAST "\n");
	assert_int_equal(netns_call(-1, read_setting, &b, &e), 0);
	assert_string_equal(buf_z(&b), buf_z(&before));
	assert_int_equal(in_child(bind_port_80, &fd), 0);
}

static void settings_that_are_refused_are_named(void **state)
{
	char longest[NETNS_SETTING_MAX + 2];
	const struct netns_setting rows[] = {
		{ "ipv4/no_such", "1" },
		{ "../kernel/hostname", "x" },
		{ "/etc/hostname", "x" },
		{ "ipv4/ip_unprivileged_port_start", "-1" },
		{ "ipv4/ip_unprivileged_port_start", longest },
	};
	AUTO_FD fd = -1;
	struct err e = { 0 };
	uint64_t before;

	(void)state;
	NEEDS_ROOT(CLONE_NEWNET);
	memset(longest, '1', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	before = current();
	fd = netns_make(&e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(netns_set(fd, -1, &rows[i], 1, &e), -1);
		assert_non_null(strstr(e.msg, rows[i].path));
	}
	assert_int_equal(netns_socket(fd, 9999, SOCK_STREAM, 0, &e), -1);
	assert_int_equal(netns_socket(0, AF_INET, SOCK_STREAM, 0, &e), -1); /* not a namespace */
	assert_true(current() == before);
}

static int make_refused(void *arg)
{
	struct err e = { 0 };

	(void)arg;
	CHECK(refuse_syscall(SYS_unshare) == 0);
	CHECK(netns_make(&e) < 0 && e.code == ERR_UNAVAILABLE);
	return 0;
}

static void a_refusal_to_make_one_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(in_child(make_refused, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_one_is_entered_and_left_within_a_call),
		cmocka_unit_test(settings_hold_inside_alone),
		cmocka_unit_test(settings_that_are_refused_are_named),
		cmocka_unit_test(a_refusal_to_make_one_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
