// SPDX-License-Identifier: Apache-2.0
/* Pause and resume: the same way in two directions. */
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

struct turn {
	enum sandbox_state from, during, to;
	enum sandbox_intent intent;
	const char *refusal, *failure;            /* codes */
	const char *during_reason, *during_says;
	const char *to_reason, *to_says;
	const char *event;
};

static const struct turn turns[] = {
	{ SANDBOX_RUNNING, SANDBOX_PAUSING, SANDBOX_PAUSED, INTENT_PAUSE, "SANDBOX_NOT_RUNNING",
	  "SANDBOX_PAUSE_FAILED", "CONTAINER_PAUSING", "Sandbox is being paused.", "CONTAINER_PAUSED",
	  "Sandbox container is paused.", "Paused" },
	{ SANDBOX_PAUSED, SANDBOX_RESUMING, SANDBOX_RUNNING, INTENT_RESUME, "SANDBOX_NOT_PAUSED",
	  "SANDBOX_RESUME_FAILED", "CONTAINER_RESUMING", "Sandbox is being resumed.", "CONTAINER_RUNNING",
	  "Sandbox container is running.", "Resumed" },
};

static const struct turn *turn_of(const struct op *op)
{
	return &turns[op->type == &resume_type];
}

static int refuse(const struct op *op, struct fault *f)
{
	const struct box *b = box_of_op(op);
	const struct turn *t = turn_of(op);

	return fault_set(f, 409, box_runtime(b)->code_prefix, t->refusal, "sandbox '%s' is %s, not %s", b->id,
			 sandbox_state_name(b->pub.row.state), sandbox_state_name(t->from));
}

static enum op_check switch_check(struct op *op, struct fault *f)
{
	if (box_of_op(op)->pub.row.state == turn_of(op)->from)
		return OP_RECORD;
	(void)refuse(op, f);
	return OP_REFUSE;
}

static void switch_intent(struct op *op, struct store_tx *tx)
{
	const struct turn *t = turn_of(op);
	struct box *b = box_of_op(op);

	box_set_state(b, t->during, t->during_reason, "%s", t->during_says);
	store_tx_state(tx, &b->pub.row);
	store_tx_intent(tx, b->id, t->intent);
}

/* Back to where it came from, unless it has ended meanwhile. */
static void turn_back(const struct op *op)
{
	const struct turn *t = turn_of(op);
	struct box *b = box_of_op(op);

	if (b->pub.row.state == t->during)
		box_set_state(b, t->from, t->from == SANDBOX_RUNNING ? "CONTAINER_RUNNING" : "CONTAINER_PAUSED", "%s",
			      t->from == SANDBOX_RUNNING ? "Sandbox container is running." : "Sandbox container is paused.");
}

static void switch_undo(struct op *op, const struct fault *f)
{
	turn_back(op);
	op_finish(op, f);
}

static void switch_ask(struct op *op)
{
	struct runtime *rt = box_runtime(box_of_op(op));

	(op->type == &pause_type ? rt->ops->pause : rt->ops->resume)(rt, box_of_op(op)->id, op_ran, op);
}

static void on_turned_back(const struct err *e, void *arg)
{
	if (e)
		box_lags(arg);
}

static void switch_failed(struct op *op, const struct runtime_failure *failure)
{
	struct runtime_failure known = *failure;
	struct box *b = box_of_op(op);
	struct store_tx *tx = store_tx_new();
	struct err e;
	struct fault f;

	log_error("sandbox could not be paused or resumed", LOG_S("id", b->id), LOG_ERR(&failure->err));
	if (!known.code)
		known.code = turn_of(op)->failure;
	(void)fault_of_runtime(&f, box_runtime(b), &known);
	turn_back(op);
	store_tx_state(tx, &b->pub.row);
	store_tx_intent(tx, b->id, INTENT_NONE);
	if (store_submit(b->pub.set->spec.store, tx, on_turned_back, b, &e) < 0)
		b->is_dirty = true;
	timer_in(&b->pub.set->compare, 0); /* it may have been done all the same */
	op_finish(op, &f);
}

static void switch_commit(struct op *op, struct store_tx *tx)
{
	const struct turn *t = turn_of(op);
	struct box *b = box_of_op(op);

	if (b->pub.row.state == t->during) {
		box_set_state(b, t->to, t->to_reason, "%s", t->to_says);
		box_event(b, tx, EVENT_LIFECYCLE, t->event, "%s", t->to_says);
	}
	store_tx_state(tx, &b->pub.row);
	store_tx_intent(tx, b->id, INTENT_NONE);
}

static void switch_done(struct op *op, const struct fault *unsaved)
{
	struct box *b = box_of_op(op);
	struct fault f;

	if (unsaved) {
		box_lags(b); /* it is done all the same; the record follows */
		op_finish(op, unsaved);
	} else if (b->pub.row.state != turn_of(op)->to) {
		(void)refuse(op, &f);
		op_finish(op, &f);
	} else {
		log_info("sandbox changed", LOG_S("id", b->id), LOG_S("state", sandbox_state_name(b->pub.row.state)));
		op_succeed(op);
	}
}

#define SWITCH_STEPS \
	.size = sizeof(struct op), .check = switch_check, .intent = switch_intent, .undo = switch_undo, .ask = switch_ask, \
	.failed = switch_failed, .commit = switch_commit, .done = switch_done, \
	.points = { \
		[OP_AT_INTENT_COMMITTED] = KILL_POINT_NAME("server.switch.intent_committed"), \
		[OP_AT_ASKED] = KILL_POINT_NAME("server.switch.asked"), \
		[OP_AT_ANSWERED] = KILL_POINT_NAME("server.switch.done"), \
		[OP_AT_COMMITTED] = KILL_POINT_NAME("server.switch.committed"), \
		[OP_AT_TOLD] = KILL_POINT_NAME("server.switch.told"), \
	}

const struct op_type pause_type = { .name = "pause", SWITCH_STEPS };
const struct op_type resume_type = { .name = "resume", SWITCH_STEPS };

static int add(struct sandbox *sb, const struct op_type *type, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct op_queue *q = &box_of(sb)->queue;
	struct op *op = op_admit(sb->set, q, type, fn, arg, f);

	if (!op)
		return -1;
	op_add(q, op);
	return 0;
}

int sandbox_pause(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f)
{
	return add(sb, &pause_type, fn, arg, f);
}

int sandbox_resume(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f)
{
	return add(sb, &resume_type, fn, arg, f);
}
