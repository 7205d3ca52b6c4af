// SPDX-License-Identifier: Apache-2.0
/* Removing a sandbox: mark, let the runtime prove that it is gone, forget. What fails is tried again until it works. */
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

struct removal {
	struct op op;
	bool is_expiry;          /* a renewal makes it void */
	enum sandbox_state was;  /* before, with its reason, message and time */
	char was_reason[ROW_REASON_MAX + 1], was_message[ROW_MESSAGE_MAX + 1];
	int64_t was_changed_us;
};

static struct removal *removal_of(struct op *op)
{
	return container_of(op, struct removal, op);
}

/* One for lack of time comes behind a renewal that was asked for before it. */
static bool remove_waits(struct op *op)
{
	return removal_of(op)->is_expiry;
}

static enum op_check remove_check(struct op *op, struct fault *f)
{
	struct box *b = box_of_op(op);

	(void)f;
	if (removal_of(op)->is_expiry && b->pub.row.deadline_ms > loop_now_ms(op->queue->loop)) {
		box_arm(b); /* it was renewed meanwhile */
		return OP_NOTHING;
	}
	timer_cancel(&b->expiry);
	return b->is_remove_logged ? OP_ASK : OP_RECORD;
}

static void remove_intent(struct op *op, struct store_tx *tx)
{
	struct removal *r = removal_of(op);
	struct box *b = box_of_op(op);

	r->was = b->pub.row.state;
	r->was_changed_us = b->pub.row.changed_us;
	memcpy(r->was_reason, b->reason, sizeof(r->was_reason));
	memcpy(r->was_message, b->message, sizeof(r->was_message));
	box_set_state(b, SANDBOX_STOPPING, r->is_expiry ? "CONTAINER_EXPIRED" : "CONTAINER_STOPPING", "Sandbox is being removed.");
	box_event(b, tx, EVENT_LIFECYCLE, r->is_expiry ? "Expired" : "Removing", "Sandbox is being removed.");
	store_tx_state(tx, &b->pub.row);
	store_tx_intent(tx, b->id, INTENT_REMOVE);
}

/* The sandbox is as it was. What nobody asked for in person is tried again. */
static void remove_undo(struct op *op, const struct fault *f)
{
	const struct removal *r = removal_of(op);
	struct box *b = box_of_op(op);
	bool is_over = r->was == SANDBOX_TERMINATED || r->was == SANDBOX_FAILED;

	box_set_state(b, r->was, r->was_reason, "%s", r->was_message);
	b->pub.row.changed_us = r->was_changed_us;
	if (b->pub.has_end && !is_over) {
		box_apply_end(b, &b->pub.end, NULL);
		box_save(b, NULL);
	}
	if (r->is_expiry)
		timer_in(&b->expiry, OP_PAUSE_FIRST_MS);
	else if (!op->fn)
		op_repeat(op->queue, op->type);
	else
		box_arm(b);
	op_finish(op, f);
}

static void remove_recorded(struct op *op)
{
	box_of_op(op)->is_remove_logged = true;
	op_ask(op);
}

static void remove_ask(struct op *op)
{
	struct runtime *rt = box_runtime(box_of_op(op));

	rt->ops->remove(rt, box_of_op(op)->id, op_ran, op);
}

/* Everybody who asked for this is told; the next try comes by itself. */
static void remove_failed(struct op *op, const struct runtime_failure *failure)
{
	struct runtime_failure known = *failure;
	struct box *b = box_of_op(op);
	struct fault f;

	if (!known.code)
		known.code = "SANDBOX_DELETE_FAILED";
	log_error("sandbox could not be removed, trying again", LOG_S("id", b->id), LOG_MS("in", op->queue->pause_ms),
		  LOG_ERR(&failure->err));
	(void)fault_of_runtime(&f, box_runtime(b), &known);
	box_event(b, NULL, EVENT_RUNTIME, "RemoveFailed", "%s", f.message);
	op_repeat(op->queue, op->type);
	op_finish_alike(op, &f);
}

/* Its volumes first: once the store has forgotten the sandbox, it cannot know that they were to go with it. What is not
 * written here, they write themselves when they go. */
static void release_volumes(struct box *b)
{
	struct store_tx *tx;

	if (b->pub.row.n_volumes == 0)
		return;
	tx = store_tx_new();
	box_release_volumes(b, tx);
	(void)store_submit(b->pub.set->spec.store, tx, NULL, NULL, &(struct err){ 0 });
	box_volumes_released(b);
}

static void remove_done(struct op *op, const struct fault *unsaved)
{
	struct box *b = box_of_op(op);

	(void)unsaved; /* nothing was committed */
	release_volumes(b);
	if (!b->is_unrecorded) /* the store knows that it is to go: nobody waits until it has forgotten it */
		orphan_forget(b->pub.set, b->id);
	KILL_POINT("server.remove.delete_queued");
	log_info("sandbox removed", LOG_S("id", b->id));
	box_drop(b);
	KILL_POINT("server.remove.told");
}

static bool remove_recover(struct sandbox *sb, const struct runtime_box *found)
{
	struct box *b = box_of(sb);

	(void)found;
	b->is_remove_logged = true;
	remove_quietly(b, false);
	return true;
}

const struct op_type remove_type = {
	.name = "remove", .size = sizeof(struct removal), .is_removal = true,
	.waits = remove_waits,
	.check = remove_check,
	.intent = remove_intent,
	.undo = remove_undo,
	.recorded = remove_recorded,
	.ask = remove_ask,
	.failed = remove_failed,
	.done = remove_done,
	.recover = remove_recover,
	.points = {
		[OP_AT_INTENT_QUEUED] = KILL_POINT_NAME("server.remove.mark_queued"),
		[OP_AT_INTENT_COMMITTED] = KILL_POINT_NAME("server.remove.marked"),
		[OP_AT_ASKED] = KILL_POINT_NAME("server.remove.asked"),
		[OP_AT_ANSWERED] = KILL_POINT_NAME("server.remove.gone"),
	},
};

/* ---- asking ---- */

static int add(struct box *b, bool is_expiry, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct op *op = op_admit(b->pub.set, &b->queue, &remove_type, fn, arg, f);

	if (!op)
		return -1;
	removal_of(op)->is_expiry = is_expiry;
	op_add(&b->queue, op);
	return 0;
}

int sandbox_remove(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f)
{
	if (add(box_of(sb), false, fn, arg, f) < 0)
		return -1;
	create_cancel(box_of(sb));
	return 0;
}

void remove_quietly(struct box *b, bool is_expiry)
{
	struct fault f;

	if (add(b, is_expiry, NULL, NULL, &f) < 0)
		op_repeat(&b->queue, &remove_type); /* no memory for it now */
}

void sandbox_discard(struct sandbox *sb)
{
	remove_quietly(box_of(sb), false);
}

void on_expiry(void *arg)
{
	KILL_POINT("server.expiry.due");
	remove_quietly(arg, true);
}
