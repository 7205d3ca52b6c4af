// SPDX-License-Identifier: Apache-2.0
#include "warden/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/own.h"
#include "sys/namespace.h"
#include "sys/process.h"

#include "base/banned.h"

/* Holds everything that the warden holds, and ends with it: a new warden must not meet the old one's hands. */
static _Noreturn void child(const struct worker *w, pid_t parent, int report)
{
	struct err e = { 0 };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
	if (w->pool->nice > 0 && w->pool->waiting <= WORKERS_PATIENT)
		(void)setpriority(PRIO_PROCESS, 0, w->pool->nice);
	if (w->fn(w->arg, &e) == 0)
		e = (struct err){ 0 };
	(void)!write(report, &e, sizeof(e)); /* fewer than PIPE_BUF bytes: all or nothing */
	_exit(0);
}

static void start_next(struct workers *pool);

/* The child's word: 0, or -1 and its error. */
static int read_report(int fd, struct err *e)
{
	struct err told;

	if (read(fd, &told, sizeof(told)) != (ssize_t)sizeof(told))
		return err_set(e, ERR_INTERNAL, "a worker ended without a result");
	if (told.code == ERR_NONE)
		return 0;
	told.msg[sizeof(told.msg) - 1] = '\0';
	*e = told;
	return -1;
}

static void close_worker(struct worker *w)
{
	io_del(&w->io);
	closep(&w->pidfd);
	closep(&w->report);
	closep(&w->gift);
	w->pidfd = w->report = w->gift = -1;
	w->pool = NULL;
}

static void finish(struct worker *w, const struct err *failure)
{
	struct workers *pool = w->pool;

	close_worker(w);
	pool->running--;
	w->done(failure, w->arg);
	start_next(pool);
}

static void on_end(unsigned ready, void *arg)
{
	struct worker *w = arg;
	struct process_end end;
	struct err e = { 0 };
	int r = read_report(w->report, &e);

	(void)ready;
	(void)process_wait(w->pidfd, 0, &end, &(struct err){ 0 }); /* its word counts, not its exit status */
	finish(w, r < 0 ? &e : NULL);
}

static void on_failed(void *arg)
{
	struct worker *w = arg;

	finish(w, &w->why);
}

static int run(struct worker *w, struct err *e)
{
	AUTO_FD wr = -1;
	int ends[2];
	pid_t parent = getpid(), pid;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, errno, "make a pipe");
	w->report = ends[0];
	wr = ends[1];
	pid = namespace_clone(0, -1, &w->pidfd, e);
	if (pid == 0)
		child(w, parent, wr);
	if (pid < 0)
		return err_wrap(e, "start a worker");
	closep(&w->gift);
	w->gift = -1;
	if (io_add(&w->io, w->pool->loop, w->pidfd, IO_IN, on_end, w, "worker", e) == 0)
		return 0;
	(void)process_kill_and_wait(w->pidfd, -1, &(struct process_end){ 0 }, &(struct err){ 0 });
	return -1;
}

static void start_next(struct workers *pool)
{
	while (pool->first && pool->running < pool->max) {
		struct worker *w = pool->first;

		pool->first = w->next;
		if (!pool->first)
			pool->last = NULL;
		w->next = NULL;
		pool->waiting--;
		pool->running++;
		if (run(w, &w->why) < 0)
			defer(&w->failed, pool->loop, on_failed, w, "worker that never ran");
	}
}

void worker_start(struct worker *w, struct workers *pool, worker_fn *fn, worker_done_fn *done, void *arg, int gift)
{
	*w = WORKER_INIT;
	w->pool = pool;
	w->fn = fn;
	w->done = done;
	w->arg = arg;
	w->gift = gift;
	if (pool->last)
		pool->last->next = w;
	else
		pool->first = w;
	pool->last = w;
	pool->waiting++;
	start_next(pool);
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

void worker_forget(struct worker *w)
{
	if (!w->pool)
		return;
	defer_cancel(&w->failed);
	if (!unqueue(w->pool, w))
		w->pool->running--;
	close_worker(w);
}
