// SPDX-License-Identifier: Apache-2.0
#include "warden/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/own.h"
#include "sys/namespace.h"
#include "sys/process.h"

#include "base/banned.h"

/* One child and whom it works for, one after the other. */
struct batch {
	struct batch *next; /* of the pool */
	struct workers *pool;
	uint64_t since_ms;
	int64_t since_wall_us;
	struct worker *members[WORKERS_BATCH_MAX]; /* NULL: forgotten */
	size_t n;
	bool is_quick;
	bool is_over; /* its members are being told */
	int pidfd, report;
	struct io io;
};

/* ---- in the child ---- */

/* Holds everything that the warden holds, and ends with it: a new warden must not meet the old one's hands. */
static _Noreturn void child(const struct batch *b, pid_t parent, int report)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
	if (b->pool->nice > 0 && b->pool->waiting <= WORKERS_PATIENT)
		(void)setpriority(PRIO_PROCESS, 0, b->pool->nice);
	for (size_t i = 0; i < b->n; i++) {
		const struct worker *w = b->members[i];
		struct err e = { 0 };

		if (w->fn(w->arg, &e) == 0)
			e = (struct err){ 0 };
		(void)!write(report, &e, sizeof(e)); /* fewer than PIPE_BUF bytes: all or nothing, and the pipe has room for all */
	}
	_exit(0);
}

/* ---- in the warden ---- */

static void start_next(struct workers *pool);

/* The child's next word: 0, or -1 and its error. */
static int read_report(int fd, struct err *e)
{
	struct err told;

	if (read(fd, &told, sizeof(told)) != (ssize_t)sizeof(told))
		return err_set(e, ERR_UNAVAILABLE, "a worker was killed before it was done");
	if (told.code == ERR_NONE)
		return 0;
	told.msg[sizeof(told.msg) - 1] = '\0';
	*e = told;
	return -1;
}

static void become_idle(struct worker *w)
{
	closep(&w->gift);
	w->gift = -1;
	w->pool = NULL;
	w->batch = NULL;
}

static void batch_free(struct batch *b)
{
	struct batch **at = &b->pool->batches;

	for (; *at && *at != b; at = &(*at)->next)
		;
	if (*at)
		*at = b->next;
	io_del(&b->io);
	closep(&b->pidfd);
	closep(&b->report);
	b->pool->running--;
	b->pool->quick -= b->is_quick;
	free(b);
}

static void finish(struct worker *w, const struct err *failure)
{
	become_idle(w);
	w->done(failure, w->arg);
}

/* Whoever is told may forget another one of the batch. */
static void on_end(unsigned ready, void *arg)
{
	struct batch *b = arg;
	struct workers *pool = b->pool;
	struct process_end end;

	(void)ready;
	(void)process_wait(b->pidfd, 0, &end, &(struct err){ 0 }); /* its word counts, not its exit status */
	b->is_over = true;
	for (size_t i = 0; i < b->n; i++) {
		struct worker *w = b->members[i];
		struct err e = { 0 };
		int r = read_report(b->report, &e);

		b->members[i] = NULL;
		if (w)
			finish(w, r < 0 ? &e : NULL);
	}
	batch_free(b);
	start_next(pool);
}

static void on_failed(void *arg)
{
	struct worker *w = arg;
	struct workers *pool = w->pool;

	pool->running--;
	finish(w, &w->why);
	start_next(pool);
}

static int run(struct batch *b, struct err *e)
{
	AUTO_FD wr = -1;
	int ends[2];
	pid_t parent = getpid(), pid;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, errno, "make a pipe");
	b->report = ends[0];
	wr = ends[1];
	pid = namespace_clone(0, -1, &b->pidfd, e);
	if (pid == 0)
		child(b, parent, wr);
	if (pid < 0)
		return err_wrap(e, "start a worker");
	if (io_add(&b->io, b->pool->loop, b->pidfd, IO_IN, on_end, b, "worker", e) == 0)
		return 0;
	(void)process_kill_and_wait(b->pidfd, -1, &(struct process_end){ 0 }, &(struct err){ 0 });
	return -1;
}

static struct worker *take_first(struct workers *pool)
{
	struct worker *w = pool->first;

	pool->first = w->next;
	if (!pool->first)
		pool->last = NULL;
	w->next = NULL;
	pool->waiting--;
	return w;
}

/* The first that waits, and with it those behind it that are quick, too. */
static void fill(struct batch *b)
{
	struct workers *pool = b->pool;

	do
		b->members[b->n++] = take_first(pool);
	while (b->n < WORKERS_BATCH_MAX && b->members[0]->is_quick && pool->first && pool->first->is_quick);
	b->is_quick = b->members[0]->is_quick;
	pool->running++;
	pool->quick += b->is_quick;
}

static void fail_later(struct worker *w, const struct err *why)
{
	w->why = *why;
	w->pool->running++;
	defer(&w->failed, w->pool->loop, on_failed, w, "worker that never ran");
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak" /* the analyser loses sight of who is in the batch */
static void start_batch(struct workers *pool)
{
	struct batch *b = calloc(1, sizeof(*b));
	struct err e = { 0 };
	int r;

	if (!b) {
		(void)err_no_memory(&e);
		fail_later(take_first(pool), &e);
		return;
	}
	*b = (struct batch){ .next = pool->batches, .pool = pool, .since_ms = clock_mono_ms(), .since_wall_us = clock_wall_us(),
			     .pidfd = -1, .report = -1 };
	pool->batches = b;
	fill(b);
	r = run(b, &e);
	for (size_t i = 0; i < b->n; i++) {
		struct worker *w = b->members[i];

		closep(&w->gift); /* the child has it, or nobody */
		w->gift = -1;
		w->batch = r < 0 ? NULL : b;
		if (r < 0)
			fail_later(w, &e);
	}
	if (r < 0)
		batch_free(b);
}
#pragma GCC diagnostic pop

/* Those that are quick wait for others of their kind rather than have a second child, unless there is enough for it to do. */
static bool is_worth_a_child(const struct workers *pool)
{
	return pool->first && pool->running < pool->max &&
	       (!pool->first->is_quick || pool->quick == 0 || pool->waiting >= WORKERS_BATCH_MAX);
}

static void start_next(struct workers *pool)
{
	while (is_worth_a_child(pool))
		start_batch(pool);
}

static void on_later(void *arg)
{
	start_next(arg);
}

static void enqueue(struct worker *w, struct workers *pool, const struct worker *what)
{
	*w = *what;
	w->pool = pool;
	if (pool->last)
		pool->last->next = w;
	else
		pool->first = w;
	pool->last = w;
	pool->waiting++;
	if (!w->is_quick)
		start_next(pool);
	else
		defer(&pool->later, pool->loop, on_later, pool, "workers that are quick"); /* more of them may come in this turn */
}

void worker_start(struct worker *w, struct workers *pool, worker_fn *fn, worker_done_fn *done, void *arg, int gift)
{
	enqueue(w, pool, &(struct worker){ .fn = fn, .done = done, .arg = arg, .gift = gift });
}

void worker_start_quick(struct worker *w, struct workers *pool, worker_fn *fn, worker_done_fn *done, void *arg, int gift)
{
	enqueue(w, pool, &(struct worker){ .fn = fn, .done = done, .arg = arg, .gift = gift, .is_quick = true });
}

static bool unqueue(struct workers *pool, struct worker *w)
{
	struct worker **at = &pool->first, *prev = NULL;

	for (; *at && *at != w; prev = *at, at = &(*at)->next)
		;
	if (!*at)
		return false;
	*at = w->next;
	if (pool->last == w)
		pool->last = prev;
	pool->waiting--;
	return true;
}

/* By either clock: the one that files are dated by may be set meanwhile. */
int64_t workers_begun_us(const struct workers *pool)
{
	const int64_t now = clock_wall_us();
	const uint64_t now_ms = clock_mono_ms();
	int64_t begun = now;

	for (const struct batch *b = pool->batches; b; b = b->next) {
		begun = MIN(begun, b->since_wall_us);
		begun = MIN(begun, now - (int64_t)(now_ms - b->since_ms + 1) * 1000);
	}
	return begun;
}

int worker_pidfd(const struct worker *w)
{
	return w->batch ? w->batch->pidfd : -1;
}

static void leave(struct batch *b, const struct worker *w)
{
	size_t left = 0;

	for (size_t i = 0; i < b->n; i++) {
		if (b->members[i] == w)
			b->members[i] = NULL;
		left += b->members[i] != NULL;
	}
	if (left == 0 && !b->is_over)
		batch_free(b);
}

void worker_forget(struct worker *w)
{
	if (!w->pool)
		return;
	defer_cancel(&w->failed);
	if (w->batch)
		leave(w->batch, w);
	else if (!unqueue(w->pool, w))
		w->pool->running--; /* it never ran, and nobody is told so */
	if (!w->pool->first)
		defer_cancel(&w->pool->later);
	become_idle(w);
}
