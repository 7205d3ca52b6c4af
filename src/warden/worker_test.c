// SPDX-License-Identifier: Apache-2.0
#include "warden/worker.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

#define COUNT 5
#define TURNS_MAX 1000

struct job {
	struct worker worker;
	struct job *other; /* to be forgotten when this one is told */
	volatile pid_t *pid; /* where its child leaves its number */
	bool fails, dies;
	int told; /* how often */
	struct err failure;
};

struct test {
	struct loop *loop;
	struct workers pool;
	struct job jobs[COUNT];
	volatile pid_t *pids;
};

static int work(void *arg, struct err *e)
{
	struct job *j = arg;

	*j->pid = getpid();
	if (j->dies)
		(void)raise(SIGKILL);
	return j->fails ? err_set(e, ERR_LIMIT, "no more") : 0;
}

static void done(const struct err *failure, void *arg)
{
	struct job *j = arg;

	j->told++;
	if (failure)
		j->failure = *failure;
	if (j->other)
		worker_forget(&j->other->worker);
}

static void start(struct test *t, unsigned max)
{
	struct err e = { 0 };

	*t = (struct test){ .loop = loop_new(&e) };
	assert_non_null(t->loop);
	t->pool = (struct workers){ .loop = t->loop, .max = max };
	t->pids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(t->pids, MAP_FAILED);
	for (size_t i = 0; i < COUNT; i++)
		t->jobs[i] = (struct job){ .worker = WORKER_INIT, .pid = &t->pids[i] };
}

/* Until all are idle. */
static void finish(struct test *t)
{
	struct err e = { 0 };
	bool is_busy = true;

	for (int i = 0; is_busy && i < TURNS_MAX; i++) {
		assert_int_equal(loop_turn(t->loop, 1000, &e), 0);
		is_busy = false;
		for (size_t k = 0; k < COUNT; k++)
			is_busy |= worker_is_busy(&t->jobs[k].worker);
	}
	assert_false(is_busy);
	assert_int_equal(t->pool.running, 0);
	assert_int_equal(t->pool.quick, 0);
	assert_int_equal(t->pool.waiting, 0);
	loop_free(t->loop);
	(void)munmap((void *)(uintptr_t)t->pids, 4096);
}

static void those_that_are_quick_share_a_child(void **state)
{
	pid_t first;
	struct test t;

	(void)state;
	start(&t, 3);
	t.jobs[1].fails = true;
	for (size_t i = 0; i < COUNT; i++)
		worker_start_quick(&t.jobs[i].worker, &t.pool, work, done, &t.jobs[i], -1);
	assert_int_equal(t.pool.running, 0); /* until the turn is over */
	while (t.jobs[COUNT - 1].told == 0)
		assert_int_equal(loop_turn(t.loop, 1000, &(struct err){ 0 }), 0);
	first = t.pids[0];
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(t.pids[i], first);
		assert_int_equal(t.jobs[i].told, 1);
		assert_int_equal(t.jobs[i].failure.code, i == 1 ? ERR_LIMIT : ERR_NONE);
	}
	assert_string_equal(t.jobs[1].failure.msg, "no more");
	finish(&t);
}

static void the_others_have_one_each(void **state)
{
	pid_t pids[COUNT];
	struct test t;

	(void)state;
	start(&t, 2);
	for (size_t i = 0; i < COUNT; i++)
		worker_start(&t.jobs[i].worker, &t.pool, work, done, &t.jobs[i], -1);
	assert_int_equal(t.pool.running, 2);
	assert_true(worker_pidfd(&t.jobs[1].worker) >= 0 && worker_pidfd(&t.jobs[2].worker) < 0);
	while (t.jobs[COUNT - 1].told == 0)
		assert_int_equal(loop_turn(t.loop, 1000, &(struct err){ 0 }), 0);
	for (size_t i = 0; i < COUNT; i++) {
		pids[i] = t.pids[i];
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(pids[i], pids[k]);
	}
	finish(&t);
}

static void whoever_is_behind_one_that_dies_is_told(void **state)
{
	struct test t;

	(void)state;
	start(&t, 1);
	t.jobs[2].dies = true;
	for (size_t i = 0; i < COUNT; i++)
		worker_start_quick(&t.jobs[i].worker, &t.pool, work, done, &t.jobs[i], -1);
	while (t.jobs[COUNT - 1].told == 0)
		assert_int_equal(loop_turn(t.loop, 1000, &(struct err){ 0 }), 0);
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(t.jobs[i].failure.code, i < 2 ? ERR_NONE : ERR_UNAVAILABLE);
	finish(&t);
}

static void one_that_was_forgotten_is_not_told(void **state)
{
	struct test t;

	(void)state;
	start(&t, 1);
	for (size_t i = 0; i < 3; i++) {
		t.jobs[i].other = &t.jobs[i + 1]; /* which is told next, if it is */
		worker_start_quick(&t.jobs[i].worker, &t.pool, work, done, &t.jobs[i], -1);
	}
	worker_start(&t.jobs[4].worker, &t.pool, work, done, &t.jobs[4], -1);
	worker_forget(&t.jobs[4].worker); /* while it waits */
	while (t.jobs[2].told == 0)
		assert_int_equal(loop_turn(t.loop, 1000, &(struct err){ 0 }), 0);
	assert_int_equal(t.jobs[0].told, 1);
	assert_int_equal(t.jobs[1].told, 0);
	assert_int_equal(t.jobs[4].told, 0);
	finish(&t);
}

static void all_of_a_child_may_be_forgotten(void **state)
{
	struct test t;

	(void)state;
	start(&t, 1);
	worker_start_quick(&t.jobs[0].worker, &t.pool, work, done, &t.jobs[0], -1);
	worker_forget(&t.jobs[0].worker); /* before there is a child */
	worker_start(&t.jobs[1].worker, &t.pool, work, done, &t.jobs[1], -1);
	worker_forget(&t.jobs[1].worker);
	assert_int_equal(t.jobs[0].told + t.jobs[1].told, 0);
	loop_free(t.loop);
	(void)munmap((void *)(uintptr_t)t.pids, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_are_quick_share_a_child),
		cmocka_unit_test(the_others_have_one_each),
		cmocka_unit_test(whoever_is_behind_one_that_dies_is_told),
		cmocka_unit_test(one_that_was_forgotten_is_not_told),
		cmocka_unit_test(all_of_a_child_may_be_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
