// SPDX-License-Identifier: Apache-2.0
#include "net/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/err.h"

#include "base/banned.h"

struct fixture {
	struct loop *loop;
	uint64_t now_ms;
	char trace[256];
};

static uint64_t fake_now(void *arg)
{
	return ((struct fixture *)arg)->now_ms;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->loop = loop_new(&(struct err){ 0 });
	assert_non_null(f->loop);
	f->now_ms = 5000;
	loop_set_clock(f->loop, fake_now, f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	loop_free(f->loop);
	free(f);
	return 0;
}

static void turn(struct fixture *f)
{
	assert_int_equal(loop_turn(f->loop, 0, &(struct err){ 0 }), 0);
}

static void at(struct fixture *f, uint64_t ms)
{
	f->now_ms = ms;
	turn(f);
}

/* ---- timers ---- */

struct probe {
	struct fixture *f;
	struct timer timer;
	struct deferred deferred;
	struct io io;
	int fd;
	char mark;
	unsigned times;
	struct probe *victim;
};

static void on_timer(void *arg)
{
	struct probe *p = arg;
	size_t n = strlen(p->f->trace);

	p->times++;
	if (n + 1 < sizeof(p->f->trace))
		p->f->trace[n] = p->mark;
	if (p->victim)
		timer_cancel(&p->victim->timer);
}

static void timers_fire_in_order_and_once(void **state)
{
	struct fixture *f = *state;
	struct probe p[100];

	for (size_t i = 0; i < ARRAY_LEN(p); i++) {
		p[i] = (struct probe){ .f = f, .mark = (char)('0' + i * 37 % 10) };
		assert_int_equal(timer_init(&p[i].timer, f->loop, on_timer, &p[i], "probe", &(struct err){ 0 }), 0);
		timer_set(&p[i].timer, 6000 + i * 37 % 10 * 100);
	}
	at(f, 5999);
	assert_string_equal(f->trace, "");
	at(f, 6000);
	assert_string_equal(f->trace, "0000000000");
	at(f, 6950);
	assert_int_equal(strlen(f->trace), 100);
	for (size_t i = 1; i < 100; i++)
		assert_true(f->trace[i] >= f->trace[i - 1]);
	at(f, 100000);
	assert_int_equal(strlen(f->trace), 100);
	for (size_t i = 0; i < ARRAY_LEN(p); i++)
		timer_done(&p[i].timer);
}

static void a_timer_can_be_moved_both_ways_and_cancelled(void **state)
{
	struct fixture *f = *state;
	struct probe p = { .f = f, .mark = 'x' };

	assert_int_equal(timer_init(&p.timer, f->loop, on_timer, &p, "probe", &(struct err){ 0 }), 0);
	timer_set(&p.timer, 6000);
	timer_set(&p.timer, 8000);
	at(f, 7000);
	assert_int_equal(p.times, 0);
	timer_set(&p.timer, 7500);
	at(f, 7500);
	assert_int_equal(p.times, 1);
	timer_in(&p.timer, 100);
	timer_cancel(&p.timer);
	timer_cancel(&p.timer);
	at(f, 9000);
	assert_int_equal(p.times, 1);
	timer_done(&p.timer);
	timer_done(&p.timer);
}

static void a_timer_may_cancel_another_that_is_due(void **state)
{
	struct fixture *f = *state;
	struct probe b = { .f = f, .mark = 'b' };
	struct probe a = { .f = f, .mark = 'a', .victim = &b };

	assert_int_equal(timer_init(&a.timer, f->loop, on_timer, &a, "a", &(struct err){ 0 }), 0);
	assert_int_equal(timer_init(&b.timer, f->loop, on_timer, &b, "b", &(struct err){ 0 }), 0);
	timer_set(&a.timer, 6000);
	timer_set(&b.timer, 6001);
	at(f, 6001);
	assert_string_equal(f->trace, "a");
	timer_done(&a.timer);
	timer_done(&b.timer);
}

static void cancelling_from_the_middle_keeps_the_heap(void **state)
{
	struct fixture *f = *state;
	struct probe p[64];
	uint64_t seed = 1;

	for (size_t i = 0; i < ARRAY_LEN(p); i++) {
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		p[i] = (struct probe){ .f = f, .mark = 'x' };
		assert_int_equal(timer_init(&p[i].timer, f->loop, on_timer, &p[i], "probe", &(struct err){ 0 }), 0);
		timer_set(&p[i].timer, 6000 + (seed >> 33) % 1000);
	}
	for (size_t i = 0; i < ARRAY_LEN(p); i += 3)
		timer_cancel(&p[i].timer);
	for (uint64_t now = 6000; now < 7000; now += 10) {
		at(f, now);
		for (size_t i = 0; i < ARRAY_LEN(p); i++)
			assert_int_equal(p[i].times, i % 3 > 0 && p[i].timer.due_ms <= now);
	}
	for (size_t i = 0; i < ARRAY_LEN(p); i++)
		timer_done(&p[i].timer);
}

/* ---- deferred work ---- */

static void on_deferred(void *arg)
{
	struct probe *p = arg;

	p->times++;
	defer(&p->deferred, p->f->loop, on_deferred, p, "probe");
}

static void deferred_work_that_defers_itself_waits_for_the_next_turn(void **state)
{
	struct fixture *f = *state;
	struct probe p = { .f = f };

	defer(&p.deferred, f->loop, on_deferred, &p, "probe");
	defer(&p.deferred, f->loop, on_deferred, &p, "probe");
	turn(f);
	assert_int_equal(p.times, 1);
	turn(f);
	assert_int_equal(p.times, 2);
	defer_cancel(&p.deferred);
	turn(f);
	assert_int_equal(p.times, 2);
}

/* ---- descriptors ---- */

static void on_readable(unsigned ready, void *arg)
{
	struct probe *p = arg;

	p->times += ready & IO_IN;
	if (p->victim)
		io_del(&p->victim->io);
}

static void a_removed_source_is_not_called_for_what_was_pending(void **state)
{
	struct fixture *f = *state;
	struct probe p[2] = { { .f = f }, { .f = f } };
	int pair[2][2];

	for (int i = 0; i < 2; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair[i]), 0);
		assert_int_equal(write(pair[i][1], "x", 1), 1);
		p[i].victim = &p[1 - i];
		assert_int_equal(io_add(&p[i].io, f->loop, pair[i][0], IO_IN, on_readable, &p[i], "probe",
					&(struct err){ 0 }),
				 0);
	}
	turn(f);
	assert_int_equal(p[0].times + p[1].times, 1);
	io_del(&p[0].io);
	io_del(&p[1].io);
	for (int i = 0; i < 4; i++)
		(void)close(pair[i / 2][i % 2]);
}

static void remember(unsigned ready, void *arg)
{
	*(unsigned *)arg = ready;
}

static void readiness_is_what_was_asked_for(void **state)
{
	struct fixture *f = *state;
	struct io io = { 0 };
	unsigned ready = 0;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(io_add(&io, f->loop, pair[0], 0, remember, &ready, "probe", &(struct err){ 0 }), 0);
	turn(f);
	assert_int_equal(ready, 0);
	io_want(&io, IO_OUT);
	turn(f);
	assert_int_equal(ready, IO_OUT);
	io_want(&io, IO_HUP);
	(void)shutdown(pair[1], SHUT_WR);
	turn(f);
	assert_int_equal(ready, IO_HUP);
	(void)close(pair[1]);
	io_want(&io, 0);
	turn(f);
	assert_int_equal(ready, IO_ERR);
	io_del(&io);
	(void)close(pair[0]);
}

static void watching_a_file_is_an_error(void **state)
{
	struct fixture *f = *state;
	AUTO_FD fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct io io = { 0 };
	struct err e = { 0 };

	assert_int_equal(io_add(&io, f->loop, fd, IO_IN, remember, NULL, "a file", &e), -1);
	assert_string_equal(e.msg, "watch a file: Operation not permitted");
	io_del(&io);
}

/* ---- the rest ---- */

struct slow {
	const char *name;
	uint64_t ms;
};

static void on_slow(const char *name, uint64_t ms, void *arg)
{
	*(struct slow *)arg = (struct slow){ name, ms };
}

static void dawdle(void *arg)
{
	struct timespec ts = { .tv_nsec = 30 * 1000 * 1000 };

	(void)arg;
	(void)nanosleep(&ts, NULL);
}

static void a_callback_that_holds_the_loop_is_named(void **state)
{
	struct fixture *f = *state;
	struct deferred d = { 0 };
	struct slow slow = { 0 };

	loop_set_slow(f->loop, 20, on_slow, &slow);
	defer(&d, f->loop, dawdle, NULL, "dawdler");
	turn(f);
	assert_string_equal(slow.name, "dawdler");
	assert_true(slow.ms > 20);
}

static void stop(void *arg)
{
	loop_stop(arg);
}

static void the_loop_runs_until_it_is_stopped(void **state)
{
	struct loop *l = loop_new(&(struct err){ 0 });
	struct timer t = { 0 };
	uint64_t began;

	(void)state;
	assert_int_equal(timer_init(&t, l, stop, l, "stop", &(struct err){ 0 }), 0);
	began = loop_now_ms(l);
	timer_in(&t, 20);
	assert_int_equal(loop_run(l, &(struct err){ 0 }), 0);
	assert_true(loop_now_ms(l) >= began + 20);
	timer_done(&t);
	loop_free(l);
}

static void nothing(void *arg)
{
	(void)arg;
}

static void another_loop_can_tell_when_it_wants_a_turn(void **state)
{
	struct fixture *f = *state;
	struct deferred d = { 0 };
	struct timer t = { 0 };

	assert_true(loop_fd(f->loop) >= 0);
	assert_int_equal(loop_due_ms(f->loop), -1);
	assert_int_equal(timer_init(&t, f->loop, nothing, NULL, "t", &(struct err){ 0 }), 0);
	f->now_ms += 700; /* nobody turned the loop meanwhile */
	loop_look_at_clock(f->loop);
	timer_in(&t, 100);
	assert_int_equal(loop_due_ms(f->loop), 100);
	f->now_ms += 40;
	assert_int_equal(loop_due_ms(f->loop), 60);
	f->now_ms += 100;
	assert_int_equal(loop_due_ms(f->loop), 0);
	timer_set(&t, f->now_ms + 1000);
	defer(&d, f->loop, nothing, NULL, "d");
	assert_int_equal(loop_due_ms(f->loop), 0);
	defer_cancel(&d);
	timer_done(&t);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(timers_fire_in_order_and_once),
		TEST(a_timer_can_be_moved_both_ways_and_cancelled),
		TEST(a_timer_may_cancel_another_that_is_due),
		TEST(cancelling_from_the_middle_keeps_the_heap),
		TEST(deferred_work_that_defers_itself_waits_for_the_next_turn),
		TEST(a_removed_source_is_not_called_for_what_was_pending),
		TEST(readiness_is_what_was_asked_for),
		TEST(watching_a_file_is_an_error),
		TEST(a_callback_that_holds_the_loop_is_named),
		TEST(another_loop_can_tell_when_it_wants_a_turn),
		cmocka_unit_test(the_loop_runs_until_it_is_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
