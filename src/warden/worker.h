// SPDX-License-Identifier: Apache-2.0
/* warden/worker.h - what may block, in a child of its own: freezing, killing, removing.
 *
 * The child is a copy of this process and ends with it. At most `max` of a pool run at a time, others wait for their turn. */
#pragma once
#include <stdbool.h>

#include "base/err.h"
#include "net/loop.h"

struct worker;

struct workers {
	struct loop *loop;
	struct worker *first, *last; /* waiting */
	unsigned waiting, running, max;
	int nice; /* of the children, as long as no more than WORKERS_PATIENT wait */
};

#define WORKERS_PATIENT 128

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
	int pidfd, report;
	int gift; /* until the child has it */
	struct io io;
	struct deferred failed; /* it could not be started */
	struct err why;
};

#define WORKER_INIT ((struct worker){ .pidfd = -1, .report = -1, .gift = -1 })

static inline bool worker_is_busy(const struct worker *w)
{
	return w->pool;
}

/* The worker must stay in its place until it is done. GIFT, if not -1, is closed here once the child has it. */
void worker_start(struct worker *w, struct workers *pool, worker_fn *fn, worker_done_fn *done, void *arg, int gift);
/* Nobody is told any more; the child goes on until this process ends. */
void worker_forget(struct worker *w);
