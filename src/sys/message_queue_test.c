// SPDX-License-Identifier: Apache-2.0
#include "sys/message_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "sys/passing.h"

#include "base/banned.h"

#define MANY 2000

struct pair {
	int fds[2];
	struct message_queue q;
	struct err e;
};

static int setup(void **state)
{
	static struct pair p;

	p = (struct pair){ .fds = { -1, -1 } };
	assert_int_equal(passing_pair(p.fds, &p.e), 0);
	*state = &p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	message_queue_done(&p->q);
	closep(&p->fds[0]);
	closep(&p->fds[1]);
	return 0;
}

/* More than the socket has room for, numbered. */
static void send_many(struct pair *p)
{
	char bytes[512] = "";

	for (uint32_t i = 0; i < MANY; i++) {
		memcpy(bytes, &i, sizeof(i));
		assert_int_equal(message_queue_send(&p->q, p->fds[0], bytes, sizeof(bytes), NULL, 0, &p->e), 0);
	}
	assert_false(message_queue_is_empty(&p->q));
}

static void what_there_is_room_for_leaves_at_once(void **state)
{
	struct pair *p = *state;
	char got[16];
	AUTO(passed_done) struct passed m = PASSED_INIT;

	assert_int_equal(message_queue_send(&p->q, p->fds[0], "hello", 5, NULL, 0, &p->e), 0);
	assert_true(message_queue_is_empty(&p->q));
	assert_int_equal(passing_recv(p->fds[1], got, sizeof(got), 0, &m, &p->e), PASSING_MESSAGE);
	assert_memory_equal(got, "hello", 5);
}

static void the_rest_leaves_in_its_order(void **state)
{
	struct pair *p = *state;
	uint32_t got[128], n = 0;

	send_many(p);
	assert_int_equal(p->q.bytes, p->q.messages.n * 512);
	while (n < MANY) {
		AUTO(passed_done) struct passed m = PASSED_INIT;

		assert_int_equal(passing_recv(p->fds[1], got, sizeof(got), 0, &m, &p->e), PASSING_MESSAGE);
		assert_int_equal(got[0], n++);
		assert_int_equal(message_queue_flush(&p->q, p->fds[0], &p->e), 0);
	}
	assert_true(message_queue_is_empty(&p->q));
	assert_int_equal(p->q.bytes, 0);
}

static void descriptors_wait_as_copies(void **state)
{
	struct pair *p = *state;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char got[512];

	send_many(p);
	assert_int_equal(message_queue_send(&p->q, p->fds[0], "fd", 2, &fd, 1, &p->e), 0);
	closep(&fd);
	for (;;) {
		AUTO(passed_done) struct passed m = PASSED_INIT;

		assert_int_equal(passing_recv(p->fds[1], got, sizeof(got), 1, &m, &p->e), PASSING_MESSAGE);
		assert_int_equal(message_queue_flush(&p->q, p->fds[0], &p->e), 0);
		if (m.n != 2)
			continue;
		assert_int_equal(m.n_fds, 1);
		assert_true(fcntl(m.fds[0], F_GETFD) & FD_CLOEXEC);
		return;
	}
}

static void a_broken_socket_is_told(void **state)
{
	struct pair *p = *state;
	size_t before;

	send_many(p);
	before = p->q.messages.n;
	closep(&p->fds[1]);
	p->fds[1] = -1;
	assert_int_equal(message_queue_flush(&p->q, p->fds[0], &p->e), -1);
	assert_int_equal(p->q.messages.n, before - 1);
	message_queue_done(&p->q);
	assert_int_equal(message_queue_send(&p->q, p->fds[0], "x", 1, NULL, 0, &p->e), -1);
	assert_true(message_queue_is_empty(&p->q));
}

static void a_descriptor_that_is_none_leaves_nothing_behind(void **state)
{
	struct pair *p = *state;
	int fds[PASSING_FDS_MAX + 1] = { p->fds[0], -1 };

	assert_int_equal(message_queue_add(&p->q, "x", 1, fds, 2, &p->e), -1);
	assert_int_equal(message_queue_add(&p->q, "x", 1, fds, PASSING_FDS_MAX + 1, &p->e), -1);
	assert_int_equal(p->e.code, ERR_LIMIT);
	assert_true(message_queue_is_empty(&p->q));
	assert_int_equal(p->q.bytes, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_there_is_room_for_leaves_at_once),
		TEST(the_rest_leaves_in_its_order),
		TEST(descriptors_wait_as_copies),
		TEST(a_broken_socket_is_told),
		TEST(a_descriptor_that_is_none_leaves_nothing_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
