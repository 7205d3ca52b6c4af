// SPDX-License-Identifier: Apache-2.0
/* The driver of operations: admission, the queue, the steps, and whoever waits. */
#include "server/model/op.h"

#include "base/kill_point.h"
#include "base/log.h"

#include "base/banned.h"

static void point(const struct op_type *type, enum op_point at)
{
	KILL_POINT_AT(type->points[at]);
}

/* ---- admission ---- */

struct op *op_admit(struct sandboxes *s, const struct op_queue *q, const struct op_type *type, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct op *op;

	if (q && q->ops.n >= SANDBOX_TASKS_MAX && !type->is_removal) {
		(void)fault_set(f, 429, NULL, "TOO_MANY_REQUESTS", "too many changes of this sandbox are waiting");
		return NULL;
	}
	if (type->admit && type->admit(s, f) < 0)
		return NULL;
	op = calloc(1, type->size);
	if (!op) {
		if (type->release)
			type->release(s);
		(void)fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
		return NULL;
	}
	op->type = type;
	op->set = s;
	op->fn = fn;
	op->arg = arg;
	return op;
}

static void release(struct op *op)
{
	struct sandboxes *s = take_ptr(&op->set);

	if (s && op->type->release)
		op->type->release(s);
}

void op_free(struct op *op)
{
	if (!op)
		return;
	release(op);
	waiters_done(&op->waiters);
	if (op->type->free)
		op->type->free(op);
	free(op);
}

/* ---- the queue ---- */

unsigned op_back_off(unsigned *pause_ms)
{
	unsigned now = *pause_ms;

	*pause_ms = MIN(now * 2, (unsigned)OP_PAUSE_MAX_MS);
	return now;
}

struct op *op_first(const struct op_queue *q)
{
	return LIST_FIRST(&q->ops, struct op, at);
}

struct op *op_current(const struct op_queue *q, const struct op_type *type)
{
	struct op *op = op_first(q);

	return op && q->is_busy && op->type == type ? op : NULL;
}

static void go_on(struct op *op, enum op_check check)
{
	const struct op_type *type = op->type;

	if (op->queue->repeats == type)
		timer_cancel(&op->queue->repeat); /* this is the one */
	if (check == OP_ASK || !type->intent) {
		op_ask(op);
	} else if (type->prepare) {
		op->state = OP_PREPARING;
		type->prepare(op);
	} else {
		op_record(op);
	}
}

static void on_kick(void *arg)
{
	struct op_queue *q = arg;
	struct op *op = op_first(q);
	enum op_check check;
	struct fault f;

	if (q->is_busy || !op)
		return;
	q->is_busy = true;
	check = op->type->check ? op->type->check(op, &f) : OP_RECORD;
	if (check == OP_REFUSE)
		op_finish(op, &f);
	else if (check == OP_NOTHING)
		op_finish(op, NULL);
	else
		go_on(op, check);
}

static void kick(struct op_queue *q)
{
	defer(&q->kick, q->loop, on_kick, q, "operation");
}

/* A removal waits for what has begun and for nothing else. */
static struct list_node *place_of(const struct op_queue *q, struct op *op)
{
	if (!op->type->is_removal || (op->type->waits && op->type->waits(op)))
		return NULL;
	return q->is_busy ? q->ops.first->next : q->ops.first;
}

void op_add(struct op_queue *q, struct op *op)
{
	op->queue = q;
	list_insert(&q->ops, &op->at, place_of(q, op));
	kick(q);
}

static void on_deadline(void *arg)
{
	struct op_queue *q = arg;
	struct op *op = q->is_busy ? op_first(q) : NULL;

	if (op && op->state == OP_RETRYING)
		op_ask(op);
	else if (op && op->type->overdue)
		op->type->overdue(op);
}

static void on_repeat(void *arg)
{
	struct op_queue *q = arg;
	struct fault f;
	struct op *op = op_admit(q->set, q, q->repeats, NULL, NULL, &f);

	if (op)
		op_add(q, op);
	else
		op_repeat(q, q->repeats);
}

void op_repeat(struct op_queue *q, const struct op_type *type)
{
	q->repeats = type;
	timer_in(&q->repeat, op_back_off(&q->pause_ms));
}

int op_queue_init(struct op_queue *q, struct sandbox *sb, struct loop *l, struct store *store, struct err *e)
{
	*q = (struct op_queue){ .loop = l, .store = store, .set = sb->set, .sandbox = sb, .pause_ms = OP_PAUSE_FIRST_MS };
	if (timer_init(&q->deadline, l, on_deadline, q, "operation's deadline", e) < 0)
		return -1;
	return timer_init(&q->repeat, l, on_repeat, q, "operation once more", e);
}

void op_queue_done(struct op_queue *q)
{
	struct op *op;

	while ((op = LIST_TAKE(&q->ops, struct op, at)))
		op_free(op);
	timer_done(&q->deadline);
	timer_done(&q->repeat);
	defer_cancel(&q->kick);
}

void op_queue_end(struct op_queue *q, const struct fault *removed, const struct fault *f)
{
	struct op *op;

	while ((op = op_first(q))) {
		op_leave(op);
		op_end(op, NULL, op->type->is_removal ? removed : f);
	}
}

/* ---- whoever waits ---- */

int op_wait(struct op *op, sandbox_fn *fn, void *arg, struct fault *f)
{
	return waiters_add(&op->waiters, fn, arg, f);
}

void op_tell(struct op *op, struct sandbox *sb, const struct fault *f)
{
	bool is_due = op->fn && !op->is_told;

	op->is_told = true;
	if (is_due)
		op->fn(f ? NULL : sb, f, op->arg);
	waiters_tell(&op->waiters, sb, f);
}

void op_leave(struct op *op)
{
	struct op_queue *q = op->queue;

	op->state = OP_ENDED;
	list_remove(&q->ops, &op->at);
	q->is_busy = false;
	timer_cancel(&q->deadline);
	release(op);
	if (q->ops.first)
		kick(q);
}

void op_end(struct op *op, struct sandbox *sb, const struct fault *f)
{
	op_tell(op, sb, f);
	op_free(op);
}

void op_finish(struct op *op, const struct fault *f)
{
	op_leave(op);
	op_end(op, op->queue->sandbox, f);
}

void op_finish_alike(struct op *op, const struct fault *f)
{
	struct op *next;

	while ((next = LIST_NEXT(op, at)) && next->type == op->type) {
		list_remove(&op->queue->ops, &next->at);
		op_end(next, NULL, f);
	}
	op_finish(op, f);
}

void op_succeed(struct op *op)
{
	const struct op_type *type = op->type;

	op_leave(op);
	op_tell(op, op->queue->sandbox, NULL);
	point(type, OP_AT_TOLD);
	if (type->told)
		type->told(op);
	op_free(op);
}

/* ---- the steps ---- */

void op_deadline(struct op *op, uint64_t ms)
{
	timer_in(&op->queue->deadline, ms);
}

void op_no_deadline(struct op *op)
{
	timer_cancel(&op->queue->deadline);
}

/* Whether OP is the one in progress and waits for this. An answer that nobody waits for is a fault of whoever gave it. */
static bool expects(const struct op *op, bool is_awaited, const char *what)
{
	if (is_awaited && op->queue->is_busy && op_first(op->queue) == op)
		return true;
	log_error("an answer that no operation waits for, ignoring", LOG_S("operation", op->type->name), LOG_S("answer", what));
	return false;
}

int op_store(struct op *op, struct store_tx *tx, store_done_fn *fn, struct fault *f)
{
	struct err e = { 0 };

	if (store_submit(op->queue->store, tx, fn, op, &e) == 0)
		return 0;
	log_error("a change could not be recorded", LOG_S("id", op->queue->sandbox->row.id), LOG_S("operation", op->type->name), LOG_ERR(&e));
	return fault_of_store(f, &e);
}

static void stored(struct op *op, enum op_answer answer)
{
	const struct op_type *type = op->type;

	op->stored = answer;
	if (type->join)
		type->join(op);
	else if (answer == OP_YES && type->recorded)
		type->recorded(op);
	else if (answer == OP_YES)
		op_ask(op);
	else if (type->undo)
		type->undo(op, &op->fault);
	else
		op_finish(op, &op->fault);
}

static void on_recorded(const struct err *e, void *arg)
{
	struct op *op = arg;

	if (!expects(op, op->stored == OP_AWAITED, "intent"))
		return;
	if (e)
		(void)fault_of_store(&op->fault, e);
	else
		point(op->type, OP_AT_INTENT_COMMITTED);
	stored(op, e ? OP_NO : OP_YES);
}

void op_record(struct op *op)
{
	const struct op_type *type = op->type;
	struct store_tx *tx = store_tx_new();

	op->state = OP_RECORDING;
	op->stored = OP_AWAITED;
	type->intent(op, tx);
	if (op_store(op, tx, on_recorded, &op->fault) < 0) {
		stored(op, OP_NO);
		return;
	}
	point(type, OP_AT_INTENT_QUEUED);
	if (type->asks_at_once && type->asks_at_once(op))
		op_ask(op);
}

void op_ask(struct op *op)
{
	const struct op_type *type = op->type;

	op->state = OP_ASKING;
	op->answered = OP_AWAITED;
	type->ask(op);
	point(type, OP_AT_ASKED);
}

/* The runtime was away: what came of the call nobody knows, and it can be asked once more. */
static bool try_again(struct op *op, const struct runtime_failure *failure)
{
	bool is_away = failure->err.code == ERR_UNAVAILABLE || failure->err.code == ERR_TIMEOUT;

	if (!is_away || op->tried >= op->type->tries)
		return false;
	op->tried++;
	log_warn("the runtime is asked again", LOG_S("id", op->queue->sandbox->row.id), LOG_S("operation", op->type->name),
		 LOG_ERR(&failure->err));
	op->state = OP_RETRYING;
	op->answered = OP_NOT_ASKED;
	op_deadline(op, OP_PAUSE_FIRST_MS);
	return true;
}

static void on_committed(const struct err *e, void *arg)
{
	struct op *op = arg;
	struct fault f;

	if (!expects(op, op->state == OP_COMMITTING, "commit"))
		return;
	point(op->type, OP_AT_COMMITTED);
	if (e)
		(void)fault_of_store(&f, e);
	op->type->done(op, e ? &f : NULL);
}

static void commit(struct op *op)
{
	struct store_tx *tx = store_tx_new();
	struct fault f;

	op->state = OP_COMMITTING;
	op->type->commit(op, tx);
	if (op_store(op, tx, on_committed, &f) < 0)
		op->type->done(op, &f);
}

void op_ran(const struct runtime_failure *failure, void *arg)
{
	struct op *op = arg;

	if (!expects(op, op->answered == OP_AWAITED, "runtime"))
		return;
	point(op->type, OP_AT_ANSWERED);
	if (failure && try_again(op, failure))
		return;
	op->answered = failure ? OP_NO : OP_YES;
	if (op->type->join)
		op->type->join(op);
	else if (failure)
		op->type->failed(op, failure);
	else if (op->type->commit)
		commit(op);
	else
		op->type->done(op, NULL);
}
