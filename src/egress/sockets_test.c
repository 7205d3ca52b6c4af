// SPDX-License-Identifier: Apache-2.0
#include "egress/sockets.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/err.h"
#include "sys/passing.h"

#include "base/banned.h"

#define MARK UINT32_C(0x40c0ffee)

static struct sockets *open_pair(int *ret_keeper)
{
	struct err e = { 0 };
	int fds[2] = { -1, -1 };
	struct sockets *s;

	assert_int_equal(passing_pair(fds, &e), 0);
	s = sockets_new(&fds[0], &e);
	assert_non_null(s);
	*ret_keeper = fds[1];
	return s;
}

/* The keeper, for as long as the other side is there. */
static void *keep(void *arg)
{
	struct err e = { 0 };

	while (sockets_serve(*(int *)arg, MARK, &e) == 0)
		(void)usleep(200);
	return NULL;
}

static void sockets_come_marked_and_more_than_are_made_ahead(void **state)
{
	struct err e = { 0 };
	pthread_t thread;
	int keeper;
	struct sockets *s = open_pair(&keeper);

	(void)state;
	if (geteuid() != 0) {
		(void)fprintf(stderr, "skipped: marks need root\n");
		sockets_free(s);
		(void)close(keeper);
		skip();
	}
	assert_int_equal(pthread_create(&thread, NULL, keep, &keeper), 0);
	for (int i = 0; i < 3 * SOCKETS_AHEAD; i++) {
		int want = i % 2 ? SOCK_STREAM : SOCK_DGRAM, type = 0;
		AUTO_FD fd = sockets_make(s, AF_INET, want, &e);
		socklen_t n = sizeof(type);
		uint32_t mark = 0;

		assert_true(fd >= 0);
		assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n), 0);
		assert_int_equal(type, want);
		n = sizeof(mark);
		assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_MARK, &mark, &n), 0);
		assert_int_equal(mark, MARK);
	}
	assert_int_equal(sockets_make(s, AF_INET6, SOCK_STREAM, &e), -1);
	sockets_free(s);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)close(keeper);
}

static void a_keeper_that_is_slow_or_gone_fails_the_one_that_asks(void **state)
{
	struct err e = { 0 };
	int keeper;
	struct sockets *s = open_pair(&keeper);

	(void)state;
	assert_int_equal(sockets_make(s, AF_INET, SOCK_STREAM, &e), -1);
	assert_int_equal(e.code, ERR_TIMEOUT);
	(void)close(keeper);
	assert_int_equal(sockets_make(s, AF_INET, SOCK_STREAM, &e), -1);
	assert_int_not_equal(e.code, ERR_TIMEOUT); /* nobody is waited for */
	sockets_free(s);
}

static void a_keeper_makes_nothing_else(void **state)
{
	static const struct sockets_message bad[] = {
		{ .type = SOCK_RAW, .n = 1 }, { .type = SOCK_PACKET, .n = 1 }, { .type = SOCK_STREAM, .n = 0 },
		{ .type = SOCK_STREAM, .n = SOCKETS_AHEAD + 1 }, { .type = SOCK_STREAM | SOCK_CLOEXEC, .n = 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = { 0 };
		int fds[2];

		assert_int_equal(passing_pair(fds, &e), 0);
		assert_int_equal(passing_send(fds[0], &bad[i], sizeof(bad[i]), NULL, 0, &e), 1);
		assert_int_equal(sockets_serve(fds[1], MARK, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		(void)close(fds[0]);
		(void)close(fds[1]);
	}
}

static void without_a_keeper_any_socket_does(void **state)
{
	struct err e = { 0 };
	AUTO_FD fd = sockets_make(NULL, AF_INET6, SOCK_DGRAM, &e);

	(void)state;
	assert_true(fd >= 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sockets_come_marked_and_more_than_are_made_ahead),
		cmocka_unit_test(a_keeper_that_is_slow_or_gone_fails_the_one_that_asks),
		cmocka_unit_test(a_keeper_makes_nothing_else),
		cmocka_unit_test(without_a_keeper_any_socket_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
