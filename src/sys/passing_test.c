// SPDX-License-Identifier: Apache-2.0
#include "sys/passing.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <cmocka.h>

#include "base/err.h"
#include "sys/refuse_test.h"

#include "base/banned.h"

static unsigned count_open(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void messages_keep_their_edges(void **state)
{
	AUTO(passed_done) struct passed p = PASSED_INIT;
	struct err e = { 0 };
	char got[16];
	int s[2];

	(void)state;
	assert_int_equal(passing_pair(s, &e), 0);
	assert_int_equal(fcntl(s[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(passing_recv(s[1], got, sizeof(got), 0, &p, &e), PASSING_NONE);
	assert_int_equal(passing_send(s[0], "one", 3, NULL, 0, &e), 1);
	assert_int_equal(passing_send(s[0], "four", 4, NULL, 0, &e), 1);
	assert_int_equal(passing_recv(s[1], got, sizeof(got), 0, &p, &e), PASSING_MESSAGE);
	assert_int_equal(p.n, 3);
	assert_memory_equal(got, "one", 3);
	assert_false(p.has_sender);
	assert_int_equal(passing_recv(s[1], got, 4, 0, &p, &e), PASSING_MESSAGE);
	assert_int_equal(p.n, 4);
	(void)close(s[0]);
	assert_int_equal(passing_recv(s[1], got, sizeof(got), 0, &p, &e), PASSING_END);
	assert_int_equal(passing_send(s[1], "x", 1, NULL, 0, &e), -1); /* and no SIGPIPE */
	assert_int_equal(e.sys, EPIPE);
	(void)close(s[1]);
	assert_int_equal(passing_recv(s[1], got, sizeof(got), 0, &p, &e), -1);
	assert_int_equal(e.sys, EBADF);
}

static void descriptors_arrive_as_copies(void **state)
{
	AUTO(passed_done) struct passed p = PASSED_INIT;
	struct err e = { 0 };
	int s[2], ends[2], kept;
	char got[16];

	(void)state;
	assert_int_equal(passing_pair(s, &e), 0);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(passing_send(s[0], "m", 1, ends, 2, &e), 1);
	(void)close(ends[0]);
	(void)close(ends[1]);
	assert_int_equal(passing_recv(s[1], got, sizeof(got), 2, &p, &e), PASSING_MESSAGE);
	assert_int_equal(p.n_fds, 2);
	assert_int_equal(fcntl(p.fds[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(p.fds[1], "x", 1), 1);
	kept = take_fd(&p.fds[0]);
	passed_done(&p);
	assert_int_equal(read(kept, got, sizeof(got)), 1); /* the end follows: the write end is closed */
	assert_int_equal(read(kept, got, sizeof(got)), 0);
	(void)close(kept);
	(void)close(s[0]);
	(void)close(s[1]);
}

static void truncated_messages_are_lost_with_what_they_carried(void **state)
{
	AUTO(passed_done) struct passed p = PASSED_INIT;
	unsigned before = count_open();
	struct err e = { 0 };
	int s[2], three[] = { 0, 0, 0 };
	char got[16];

	(void)state;
	assert_int_equal(passing_pair(s, &e), 0);
	assert_int_equal(passing_send(s[0], "12345", 5, three, 3, &e), 1);
	assert_int_equal(passing_send(s[0], "next", 4, NULL, 0, &e), 1);
	assert_int_equal(passing_recv(s[1], got, 4, 3, &p, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	assert_string_equal(e.msg, "receive a message: more than 4 bytes");
	assert_int_equal(p.n_fds, 0);
	assert_int_equal(count_open(), before + 2);
	assert_int_equal(passing_recv(s[1], got, 4, 3, &p, &e), PASSING_MESSAGE);
	assert_memory_equal(got, "next", 4);
	(void)close(s[0]);
	(void)close(s[1]);
}

/* As a peer that does not use our sender could: any number of descriptors. */
static void send_many(int fd, size_t n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 64)];
	} control = { .bytes = { 0 } };
	char byte = 'm';
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes };
	struct cmsghdr *c = &control.align;

	msg.msg_controllen = (__typeof__(msg.msg_controllen))CMSG_SPACE(sizeof(int) * n_fds);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	/* All zeros: standard input, many times. */
	c->cmsg_len = (__typeof__(c->cmsg_len))CMSG_LEN(sizeof(int) * n_fds);
	assert_int_equal(sendmsg(fd, &msg, MSG_DONTWAIT), 1);
}

static void too_many_descriptors_are_refused_and_closed(void **state)
{
	static const size_t counts[] = { 3, 16, PASSING_FDS_MAX + 1, PASSING_FDS_MAX + 4, PASSING_FDS_MAX + 8, 64 };
	unsigned before = count_open();
	struct err e = { 0 };
	char got[4];
	int s[2];

	(void)state;
	assert_int_equal(passing_pair(s, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(counts) * 2; i++) {
		AUTO(passed_done) struct passed p = PASSED_INIT;
		size_t n = counts[i % ARRAY_LEN(counts)], max = n == 3 ? 2 : n == 16 ? 15 : PASSING_FDS_MAX;

		if (i == ARRAY_LEN(counts)) /* once more, with the sender in the control bytes, too */
			assert_int_equal(passing_want_sender(s[1], &e), 0);
		send_many(s[0], n);
		assert_int_equal(passing_recv(s[1], got, sizeof(got), max, &p, &e), -1);
		assert_int_equal(e.code, ERR_LIMIT);
		assert_int_equal(e.sys, 0);
		assert_non_null(strstr(e.msg, ": more than "));
		assert_int_equal(count_open(), before + 2);
		send_many(s[0], max);
		assert_int_equal(passing_recv(s[1], got, sizeof(got), max, &p, &e), PASSING_MESSAGE);
		assert_int_equal(p.n_fds, max);
		assert_int_equal(count_open(), before + 2 + max);
	}
	(void)close(s[0]);
	(void)close(s[1]);
}

static int receive_without_free_numbers(void *arg)
{
	struct passed p = PASSED_INIT;
	struct rlimit few;
	const int *s = arg;
	struct err e = { 0 };
	char got[4];

	if (getrlimit(RLIMIT_NOFILE, &few) < 0)
		return 1;
	few.rlim_cur = (rlim_t)dup(0) + 2; /* this one and one more */
	if (setrlimit(RLIMIT_NOFILE, &few) < 0)
		return 1;
	send_many(s[0], 3);
	if (passing_recv(s[1], got, sizeof(got), 4, &p, &e) != -1 || p.n_fds != 0)
		return 2;
	if (e.code != ERR_LIMIT || e.sys != EMFILE || strstr(e.msg, "more than"))
		return 3;
	send_many(s[0], 1); /* the one that came was closed again: there is room for it */
	return passing_recv(s[1], got, sizeof(got), 4, &p, &e) == PASSING_MESSAGE && p.n_fds == 1 ? 0 : 4;
}

static void a_lack_of_numbers_is_told_from_too_many_descriptors(void **state)
{
	struct err e = { 0 };
	int s[2];

	(void)state;
	assert_int_equal(passing_pair(s, &e), 0);
	assert_int_equal(in_child(receive_without_free_numbers, s), 0);
	assert_int_equal(passing_want_sender(s[1], &e), 0);
	assert_int_equal(in_child(receive_without_free_numbers, s), 0);
	(void)close(s[0]);
	(void)close(s[1]);
}

static void our_own_sender_keeps_the_rules(void **state)
{
	struct err e = { 0 };
	int s[2], fds[PASSING_FDS_MAX + 1] = { 0 }, gone[] = { 250 };
	char big[1024] = { 0 };
	int r = 1;

	(void)state;
	assert_int_equal(passing_pair(s, &e), 0);
	assert_int_equal(passing_send(s[0], "m", 1, fds, ARRAY_LEN(fds), &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
	assert_int_equal(passing_send(s[0], "m", 0, NULL, 0, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
	assert_int_equal(passing_send(s[0], "m", 1, gone, 1, &e), -1);
	assert_int_equal(e.sys, EBADF);
	for (int i = 0; i < 100000 && r == 1; i++)
		r = passing_send(s[0], big, sizeof(big), NULL, 0, &e);
	assert_int_equal(r, 0); /* no room at the moment */
	(void)close(s[0]);
	(void)close(s[1]);
}

static int say_hello(void *arg)
{
	const int *fd = arg;
	struct err e = { 0 };

	return passing_send(*fd, "hello", 5, NULL, 0, &e) == 1 ? 0 : 1;
}

static void the_sender_is_named_by_the_kernel(void **state)
{
	AUTO(passed_done) struct passed p = PASSED_INIT;
	struct err e = { 0 };
	char got[16];
	int s[2];

	(void)state;
	assert_int_equal(passing_pair(s, &e), 0);
	assert_int_equal(passing_want_sender(s[1], &e), 0);
	assert_int_equal(passing_send(s[0], "m", 1, &s[0], 1, &e), 1);
	assert_int_equal(passing_recv(s[1], got, sizeof(got), 1, &p, &e), PASSING_MESSAGE);
	assert_true(p.has_sender && p.sender.pid == getpid() && p.sender.uid == getuid() && p.sender.gid == getgid());
	assert_int_equal(p.n_fds, 1);
	passed_done(&p);
	assert_int_equal(in_child(say_hello, &s[0]), 0);
	assert_int_equal(passing_recv(s[1], got, sizeof(got), 0, &p, &e), PASSING_MESSAGE);
	assert_true(p.has_sender && p.sender.pid > 0 && p.sender.pid != getpid());
	(void)close(s[0]);
	(void)close(s[1]);
	assert_int_equal(passing_want_sender(s[0], &e), -1);
	assert_int_equal(e.sys, EBADF);
}

static void a_listening_socket_is_reached_by_path(void **state)
{
	AUTO(passed_done) struct passed p = PASSED_INIT;
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	AUTO_FD server = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	AUTO_FD client = -1;
	AUTO_FD peer = -1;
	struct err e = { 0 };
	char long_path[200], got[8];

	(void)state;
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/passing_test.%d", (int)getpid());
	assert_int_equal(passing_connect(at.sun_path, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
	assert_int_equal(bind(server, (const struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(server, 1), 0);
	client = passing_connect(at.sun_path, &e);
	assert_int_equal(unlink(at.sun_path), 0);
	assert_true(client >= 0);
	peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(passing_send(client, "hi", 2, NULL, 0, &e), 1);
	assert_int_equal(passing_recv(peer, got, sizeof(got), 0, &p, &e), PASSING_MESSAGE);
	assert_memory_equal(got, "hi", 2);
	memset(long_path, 'x', sizeof(long_path));
	long_path[sizeof(long_path) - 1] = '\0';
	assert_int_equal(passing_connect(long_path, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_keep_their_edges),
		cmocka_unit_test(descriptors_arrive_as_copies),
		cmocka_unit_test(truncated_messages_are_lost_with_what_they_carried),
		cmocka_unit_test(too_many_descriptors_are_refused_and_closed),
		cmocka_unit_test(a_lack_of_numbers_is_told_from_too_many_descriptors),
		cmocka_unit_test(our_own_sender_keeps_the_rules),
		cmocka_unit_test(the_sender_is_named_by_the_kernel),
		cmocka_unit_test(a_listening_socket_is_reached_by_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
