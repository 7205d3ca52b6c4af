// SPDX-License-Identifier: Apache-2.0
/* server/model/op.h - one engine for everything that changes a sandbox.
 *
 * An operation is an object of its kind that begins with a struct op; its struct op_type says what its steps are. The engine
 * admits it, queues it behind the others of its sandbox, drives it through its steps, and tells whoever waits for it:
 *
 *     op_admit() ─ op_add() ─▶ check ─▶ prepare ─▶ intent ─▶ recorded ─▶ ask ─▶ commit ─▶ done ─▶ told
 *                              refuses             │ store    │          │ runtime │ store
 *                                                  └─ undo    │          └─ failed (after the retries)
 *     a start that finds the intent ───────────▶ recover      └─ op_succeed(), where the store is all there is to ask
 *
 * A step that is NULL is left out. Steps that end in an answer (of the store, of the runtime) return first; the answer leads
 * on. An operation ends with op_succeed() or op_finish(), and with nothing else: whoever calls one of them must not touch it
 * afterwards. The engine knows nothing of sandboxes but that operations have one. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "net/loop.h"
#include "server/model/sandbox.h"
#include "server/model/waiters.h"
#include "server/store/store.h"

struct op;
struct op_queue;

enum op_state {
	OP_QUEUED,     /* or not even that */
	OP_PREPARING,  /* prepare() waits for an answer */
	OP_RECORDING,  /* the store has the intent, and nothing else was asked for */
	OP_ASKING,     /* the runtime is doing it */
	OP_RETRYING,   /* the runtime is asked once more when the pause is over */
	OP_COMMITTING, /* the store has the result */
	OP_COPYING,    /* the runtime has the new copy of the record */
	OP_ENDED,
};

enum op_answer { OP_NOT_ASKED, OP_AWAITED, OP_YES, OP_NO };

enum op_check {
	OP_RECORD,  /* go on with the intent */
	OP_ASK,     /* the store has the intent already, or has none: go on with the runtime */
	OP_REFUSE,  /* with the fault */
	OP_NOTHING, /* there is nothing to do (any more) */
};

enum op_point { OP_AT_INTENT_QUEUED, OP_AT_INTENT_COMMITTED, OP_AT_ASKED, OP_AT_ANSWERED, OP_AT_COMMITTED, OP_AT_TOLD, OP_POINTS };

struct op_type {
	const char *name;
	size_t size; /* of the object */
	bool is_removal; /* overtakes all that wait, and is not refused when too many do */
	unsigned tries;  /* more of them, while the runtime is away */
	const char *points[OP_POINTS]; /* KILL_POINT_NAME() */

	int (*admit)(struct sandboxes *s, struct fault *f); /* 0: takes a share of what is limited; -1: F */
	void (*release)(struct sandboxes *s);               /* gives it back */
	bool (*waits)(struct op *op);                 /* a removal: for those before it, like anything else */

	enum op_check (*check)(struct op *op, struct fault *f);
	void (*prepare)(struct op *op); /* leads to op_record() */
	void (*intent)(struct op *op, struct store_tx *tx); /* TX may be NULL: then it fails later */
	bool (*asks_at_once)(struct op *op);          /* the runtime need not wait for the store: JOIN has both answers */
	void (*undo)(struct op *op, const struct fault *f); /* what intent() has changed, as the store refuses it; ends the operation */
	void (*recorded)(struct op *op);                    /* leads to op_ask(), or ends it */
	void (*ask)(struct op *op);                         /* leads to op_ran() */
	void (*failed)(struct op *op, const struct runtime_failure *failure); /* ends it */
	void (*commit)(struct op *op, struct store_tx *tx);
	void (*done)(struct op *op, const struct fault *unsaved); /* ends it. UNSAVED: the store did not take what commit() says */
	void (*join)(struct op *op);    /* in place of undo() to done(), after each of the two answers */
	void (*told)(struct op *op);    /* everybody was; it is in no queue any more */
	void (*overdue)(struct op *op); /* op_deadline() */
	void (*free)(struct op *op);    /* what the object holds */
	/* At a start, with the record's intent; FOUND: what the runtime has, or NULL. False: it counts as done, and the record follows
	 * what was found. */
	bool (*recover)(struct sandbox *sb, const struct runtime_box *found);
};

struct op {
	struct list_node at; /* in its queue */
	const struct op_type *type;
	struct sandboxes *set;
	struct op_queue *queue;
	sandbox_fn *fn; /* of whoever asked for it; NULL: nobody */
	void *arg;
	bool is_told;   /* they were */
	struct waiters waiters; /* and whoever came later */
	enum op_state state;
	enum op_answer stored, answered; /* of the store about the intent; of the runtime */
	struct fault fault; /* of the store, when it refused the intent */
	unsigned tried;
};

/* The operations of one sandbox: one after the other, in the order in which they were asked for. */
struct op_queue {
	struct loop *loop;
	struct store *store;
	struct sandboxes *set;
	struct sandbox *sandbox;
	struct list ops;
	bool is_busy; /* the first has begun */
	struct deferred kick;
	struct timer deadline; /* of the first */
	struct timer repeat;
	const struct op_type *repeats; /* when that comes */
	unsigned pause_ms;
};

#define OP_PAUSE_FIRST_MS 1000
#define OP_PAUSE_MAX_MS 30000
unsigned op_back_off(unsigned *pause_ms); /* how long to wait before the next try, which doubles */

int op_queue_init(struct op_queue *q, struct sandbox *sb, struct loop *l, struct store *store, struct err *e);
void op_queue_done(struct op_queue *q); /* whoever still waits is not told */
/* All are told and gone: removals with REMOVED, the others with F. NULL: it was done, and the sandbox is gone with it. */
void op_queue_end(struct op_queue *q, const struct fault *removed, const struct fault *f);
struct op *op_first(const struct op_queue *q);
/* The first one, if it is of this type and has begun. */
struct op *op_current(const struct op_queue *q, const struct op_type *type);

/* ---- asking ---- */

/* The one place where operations come in: what is limited (how many wait, how many creates are in progress) is counted here
 * and is free again once the operation has ended. Q NULL: the sandbox is still to be made. FN may be NULL.
 * NULL: F; else it is to go to op_add() or op_free(). */
struct op *op_admit(struct sandboxes *s, const struct op_queue *q, const struct op_type *type, sandbox_fn *fn, void *arg, struct fault *f);
void op_free(struct op *op); /* NULL is fine */
DEFINE_AUTO(struct op *, op_free)
void op_add(struct op_queue *q, struct op *op);
int op_wait(struct op *op, sandbox_fn *fn, void *arg, struct fault *f); /* FN is told, too */
void op_repeat(struct op_queue *q, const struct op_type *type); /* another one, for nobody, after a pause that doubles each time */

/* ---- for steps ---- */

void op_record(struct op *op);
void op_ask(struct op *op);
void op_ran(const struct runtime_failure *failure, void *op); /* a runtime_done_fn */
void op_deadline(struct op *op, uint64_t ms); /* from now */
void op_no_deadline(struct op *op);
/* Takes TX. FN is called with OP, which may not have ended by then. */
int op_store(struct op *op, struct store_tx *tx, store_done_fn *fn, struct fault *f);

void op_tell(struct op *op, struct sandbox *sb, const struct fault *f); /* those who wait so far; it goes on */
void op_succeed(struct op *op);                          /* it was done */
void op_finish(struct op *op, const struct fault *f); /* it was not. NULL: or nobody is to know */
void op_finish_alike(struct op *op, const struct fault *f); /* and with it those of its type that come next */
void op_leave(struct op *op);                         /* takes it out of its queue, whose next one begins; */
void op_end(struct op *op, struct sandbox *sb, const struct fault *f); /* and tells. Of one that has left */
