// SPDX-License-Identifier: Apache-2.0
#include "net/test_wire.h"

#include "net/watch.h"

#include "base/banned.h"

/* A transport that says what the test wants it to say. */
struct fake {
	struct transport base;
	bool has_pending, reads_by_writing;
};

struct seen {
	struct wire w;
	struct watch watch;
	struct fake t;
	int far, calls;
	unsigned ready, want_next;
	bool stops;
};

static bool fake_pending(const struct transport *t)
{
	return ((const struct fake *)(const void *)t)->has_pending;
}

static unsigned fake_interest(const struct transport *t, unsigned want)
{
	return ((const struct fake *)(const void *)t)->reads_by_writing && (want & IO_IN) ? (want & ~1U) | IO_OUT : want;
}

static unsigned fake_readiness(const struct transport *t, unsigned ready)
{
	return ((const struct fake *)(const void *)t)->reads_by_writing && (ready & IO_OUT) ? ready | IO_IN : ready;
}

static const struct transport_ops fake_ops = {
	.interest = fake_interest, .readiness = fake_readiness, .has_pending = fake_pending,
};

static void on_ready(unsigned ready, void *arg)
{
	struct seen *s = arg;

	s->calls++;
	s->ready = ready;
	if (s->stops)
		watch_stop(&s->watch);
	else
		watch_want(&s->watch, s->want_next);
}

static void seen_open(struct seen *s)
{
	struct err e = { 0 };
	int fd[2];

	*s = (struct seen){ .t.base.ops = &fake_ops };
	wire_open(&s->w);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
	s->t.base.fd = fd[0];
	s->far = fd[1];
	assert_int_equal(watch_start(&s->watch, s->w.loop, &s->t.base, on_ready, s, "test", &e), 0);
}

static void seen_close(struct seen *s)
{
	watch_stop(&s->watch);
	watch_stop(&s->watch);
	closep(&s->t.base.fd);
	closep(&s->far);
	wire_close(&s->w);
}

static int calls_in_a_turn(struct seen *s)
{
	s->calls = 0;
	assert_int_equal(loop_turn(s->w.loop, 0, &(struct err){ 0 }), 0);
	return s->calls;
}

static void only_what_is_wanted_is_told(void **state)
{
	struct seen s;

	(void)state;
	seen_open(&s);
	assert_int_equal(calls_in_a_turn(&s), 0);
	watch_want(&s.watch, IO_IN);
	assert_int_equal(calls_in_a_turn(&s), 0);
	assert_int_equal(send(s.far, "x", 1, 0), 1);
	s.want_next = IO_OUT;
	assert_int_equal(calls_in_a_turn(&s), 1);
	assert_int_equal(s.ready, IO_IN);
	s.stops = true;
	assert_int_equal(calls_in_a_turn(&s), 1);
	assert_int_equal(s.ready, IO_OUT);
	assert_int_equal(calls_in_a_turn(&s), 0);
	seen_close(&s);
}

static void a_dead_descriptor_is_quiet_until_something_is_wanted(void **state)
{
	struct seen s;
	int n;

	(void)state;
	seen_open(&s);
	(void)close(take_fd(&s.far));
	assert_int_equal(calls_in_a_turn(&s), 0);
	assert_null(s.watch.io.loop); /* out of the loop: otherwise it would wake up for ever */
	watch_want(&s.watch, 0);
	assert_null(s.watch.io.loop);
	watch_want(&s.watch, IO_IN | IO_OUT);
	assert_int_equal(calls_in_a_turn(&s), 1);
	assert_int_equal(s.ready, IO_IN | IO_OUT | IO_ERR);
	assert_int_equal(calls_in_a_turn(&s), 0);

	/* When the loop cannot take it back, its owner is called all the same. */
	watch_want(&s.watch, 0);
	n = dup(s.t.base.fd);
	assert_int_equal(calls_in_a_turn(&s), 0);
	(void)close(s.t.base.fd); /* a closed number stands for any failure to add it */
	watch_want(&s.watch, IO_IN);
	s.t.base.fd = n;
	assert_int_equal(calls_in_a_turn(&s), 1);
	assert_int_equal(s.ready, IO_IN);
	seen_close(&s);
}

static void bytes_inside_of_the_transport_are_told_without_the_descriptor(void **state)
{
	struct seen s;

	(void)state;
	seen_open(&s);
	s.t.has_pending = true;
	watch_want(&s.watch, IO_OUT);
	s.want_next = 0;
	assert_int_equal(calls_in_a_turn(&s), 1);
	assert_int_equal(s.ready, IO_OUT);
	watch_want(&s.watch, IO_IN);
	watch_want(&s.watch, 0); /* changed its mind before the turn ended */
	assert_int_equal(calls_in_a_turn(&s), 0);
	watch_want(&s.watch, IO_IN);
	assert_int_equal(calls_in_a_turn(&s), 1);
	assert_int_equal(s.ready, IO_IN);
	seen_close(&s);
}

static void reading_may_have_to_wait_for_room_to_write(void **state)
{
	struct seen s;

	(void)state;
	seen_open(&s);
	s.t.reads_by_writing = true;
	watch_want(&s.watch, IO_IN);
	assert_int_equal(calls_in_a_turn(&s), 1);
	assert_int_equal(s.ready, IO_IN);
	seen_close(&s);
}

static void a_descriptor_that_cannot_be_watched_is_an_error(void **state)
{
	struct fake t = { .base = { .ops = &fake_ops, .fd = -1 } };
	struct watch watch;
	struct err e = { 0 };
	struct wire w;

	(void)state;
	wire_open(&w);
	assert_int_equal(watch_start(&watch, w.loop, &t.base, on_ready, NULL, "test", &e), -1);
	assert_int_equal(e.sys, EBADF);
	watch_stop(&watch);
	wire_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_wanted_is_told),
		cmocka_unit_test(a_dead_descriptor_is_quiet_until_something_is_wanted),
		cmocka_unit_test(bytes_inside_of_the_transport_are_told_without_the_descriptor),
		cmocka_unit_test(reading_may_have_to_wait_for_room_to_write),
		cmocka_unit_test(a_descriptor_that_cannot_be_watched_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
