// SPDX-License-Identifier: Apache-2.0
/* warden/worker.h - blocking work in a child process: freezing, killing, removing.
 *
 * The child is a copy of this process and ends with it. If it alone is killed, the work has failed with
 * ERR_UNAVAILABLE, and its owner undoes its effects. At most `max` children of a pool run at a time, others
 * wait. Short tasks share a child when several wait, because a fork costs more than the task. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/loop.h"

struct batch;
struct worker;

struct workers {
	struct loop *loop;
	struct worker *first, *last; /* waiting */
	struct batch *batches; /* running */
	unsigned waiting, running, max;
	unsigned quick; /* children among `running` whose work is quick */
	int nice; /* of the children, as long as no more than WORKERS_PATIENT wait */
	struct deferred later;
};

#define WORKERS_PATIENT 128
#define WORKERS_BATCH_MAX 8

/* Runs in the child, whose memory is its own: only the result comes back. */
typedef int worker_fn(void *arg, struct err *e);
/* Runs in the loop. FAILURE is NULL when all went well. The worker may be started again from here. */
typedef void worker_done_fn(const struct err *failure, void *arg);

struct worker {
	struct workers *pool; /* NULL: idle */
	struct worker *next;
	worker_fn *fn;
	worker_done_fn *done;
	void *arg;
	bool is_quick;
	struct batch *batch; /* that it runs in; NULL: waits, or could not be started */
	int gift; /* until the child has it */
	struct deferred failed; /* it could not be started */
	struct err why;
};

#define WORKER_INIT ((struct worker){ .gift = -1 })

static inline bool worker_is_busy(const struct worker *w)
{
	return w->pool;
}

/* The worker must stay in its place until it is done. GIFT, if not -1, is closed here once the child has
 * it. */
void worker_start(struct worker *w, struct workers *pool, worker_fn *fn, worker_done_fn *done, void *arg,
		  int gift);
/* For background work: it may run after others, and its end may be reported after theirs. */
void worker_start_quick(struct worker *w, struct workers *pool, worker_fn *fn, worker_done_fn *done,
			void *arg, int gift);
int worker_pidfd(const struct worker *w); /* of its child, borrowed; -1: it has none (yet) */
/* Start of the oldest running child, in time of day; the current time if there is none. Older leftovers are
 * in nobody's use. */
int64_t workers_begun_us(const struct workers *pool);
/* No callback comes any more; the child continues until this process ends. */
void worker_forget(struct worker *w);
