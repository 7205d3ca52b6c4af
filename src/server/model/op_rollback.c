// SPDX-License-Identifier: Apache-2.0
/* A sandbox put back on a snapshot: the intent with the new stack, removed, made, committed. */
#include <stdio.h>

#include "base/buf.h"
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

#define ROLLING_BACK "CONTAINER_ROLLING_BACK"
#define ROLLING_BACK_SAYS "Sandbox is being rolled back to a snapshot."
#define TRIES 5 /* while the runtime is away */

struct rollback {
	struct op op;
	struct arena arena; /* of the next three */
	struct environment env;
	const char *base; /* the reference of the snapshot; NULL: its image alone */
	const char *policy; /* as it is now; NULL: as the row has it */
	char snapshot[ID_MAX + 1];
	bool is_again; /* an earlier server has begun it: the row has all that it needs */
};

static struct rollback *rollback_of(struct op *op)
{
	return container_of(op, struct rollback, op);
}

static int no_memory(struct fault *f)
{
	return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
}

/* ---- whether it can be ---- */

static void set_failed(struct box *b, const struct fault *f)
{
	struct store_tx *tx = store_tx_new();

	box_set_state(b, SANDBOX_FAILED, "ROLLBACK_FAILED", "Sandbox could not be rolled back: %s.", f->message);
	box_event(b, tx, EVENT_LIFECYCLE, "Failed", "%s", b->message);
	box_save_last(b, tx);
}

static bool can_be_rolled_back(const struct box *b)
{
	enum sandbox_state s = b->pub.row.state;

	return s == SANDBOX_RUNNING || s == SANDBOX_PAUSED || s == SANDBOX_TERMINATED || s == SANDBOX_FAILED;
}

static enum op_check rollback_check(struct op *op, struct fault *f)
{
	struct rollback *r = rollback_of(op);
	struct box *b = box_of_op(op);

	if (!r->is_again && !can_be_rolled_back(b)) {
		(void)fault_set(f, 409, box_runtime(b)->code_prefix, "SANDBOX_NOT_RUNNING", "sandbox '%s' is %s", b->id,
				sandbox_state_name(b->pub.row.state));
		return OP_REFUSE;
	}
	if (box_check_volumes(b, f) == 0)
		return OP_RECORD;
	if (r->is_again)
		set_failed(b, f);
	return OP_REFUSE;
}

/* ---- its policy goes with the old one, so it is kept before that begins ---- */

static void on_policy(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg)
{
	struct rollback *r = arg;
	struct box *b = box_of_op(&r->op);
	struct fault f;

	(void)is_cut;
	if (policy_is_unknown(b, failure, &f)) {
		op_finish(&r->op, &f);
		return;
	}
	if (!failure && policy_is_own(b, text)) {
		r->policy = arena_dup(&r->arena, text);
		if (!r->policy) {
			(void)no_memory(&f);
			op_finish(&r->op, &f);
			return;
		}
	}
	op_record(&r->op);
}

static void rollback_prepare(struct op *op)
{
	struct box *b = box_of_op(op);
	struct runtime *rt = box_runtime(b);

	if (!rollback_of(op)->is_again && b->pub.row.network != RUNTIME_NET_NONE && rt->ops->policy)
		rt->ops->policy(rt, b->id, on_policy, rollback_of(op));
	else
		op_record(op);
}

/* ---- the intent: its new stack ---- */

/* What it will stand on. A policy that was given to it since it was made is its own from now on. */
static struct box_stack stack_of(const struct rollback *r)
{
	const struct sandbox_row *now = &r->op.queue->sandbox->row;

	if (r->is_again)
		return (struct box_stack){ now->snapshot, now->base, now->network, now->policy };
	return (struct box_stack){ r->snapshot, r->base, r->policy ? RUNTIME_NET_POLICY : now->network,
				   r->policy ? r->policy : now->policy };
}

static void rollback_intent(struct op *op, struct store_tx *tx)
{
	const struct box_stack stack = stack_of(rollback_of(op));
	struct sandbox_row next = box_of_op(op)->pub.row;

	next.snapshot = stack.snapshot;
	next.base = stack.base;
	next.network = stack.network;
	next.policy = stack.policy;
	next.state = SANDBOX_PENDING;
	next.reason = ROLLING_BACK;
	next.message = ROLLING_BACK_SAYS;
	store_tx_state(tx, &next);
	store_tx_spec(tx, &next);
	store_tx_intent(tx, next.id, INTENT_ROLLBACK);
}

static void fail(struct op *op, const struct fault *f)
{
	set_failed(box_of_op(op), f);
	op_finish(op, f);
}

/* Until now it was as it was, also for those who ask. */
static void rollback_recorded(struct op *op)
{
	const struct box_stack stack = stack_of(rollback_of(op));
	struct box *b = box_of_op(op);
	struct sandboxes *s = b->pub.set;
	struct fault f;

	if (!rollback_of(op)->is_again && box_set_stack(b, &stack, &(struct err){ 0 }) < 0) {
		(void)no_memory(&f);
		fail(op, &f);
		return;
	}
	b->pub.row.revision++;
	box_set_state(b, SANDBOX_PENDING, ROLLING_BACK, "%s", ROLLING_BACK_SAYS);
	if (s->spec.gone)
		s->spec.gone(&b->pub, s->spec.gone_arg); /* connections into the old one */
	op_ask(op);
}

/* ---- the runtime: away with the old one, then the new one ---- */

static void on_made(const struct runtime_failure *failure, void *arg)
{
	KILL_POINT("server.rollback.made");
	op_ran(failure, arg);
}

static int make(struct op *op, struct fault *f)
{
	struct box *b = box_of_op(op);
	struct runtime *rt = box_runtime(b);
	AUTO(buf_done) struct buf record = BUF_INIT(RUNTIME_RECORD_MAX);
	struct runtime_volume volumes[VOLUMES_OF_SANDBOX_MAX];
	char token[SANDBOX_TOKEN_LEN + 1];
	const struct sandbox_row *r = &b->pub.row;
	struct runtime_spec spec = {
		.id = b->id, .image = r->image, .image_digest = r->image_digest, .entrypoint = r->entrypoint,
		.env = rollback_of(op)->env.map, .limits = r->limits, .execd_token = token, .base = r->base, .volumes = volumes,
		.n_volumes = box_runtime_volumes(b, volumes), .network = r->network, .policy = str_of(r->policy),
	};

	if (!sandbox_record_write(b, &record))
		return no_memory(f);
	spec.record = buf_str(&record);
	b->record_revision = r->revision;
	sandbox_token(&b->pub, "execd", token);
	rt->ops->create(rt, &spec, on_made, op);
	secret_wipe(token, sizeof(token));
	return 0;
}

/* What the old one told about its end is past. */
static void on_gone(const struct runtime_failure *failure, void *arg)
{
	struct op *op = arg;
	struct fault f;

	KILL_POINT("server.rollback.gone");
	if (failure) {
		op_ran(failure, op);
		return;
	}
	box_of_op(op)->pub.has_end = false;
	if (make(op, &f) < 0)
		fail(op, &f);
}

static void rollback_ask(struct op *op)
{
	struct runtime *rt = box_runtime(box_of_op(op));

	rt->ops->remove(rt, box_of_op(op)->id, on_gone, op);
}

static void rollback_failed(struct op *op, const struct runtime_failure *failure)
{
	struct box *b = box_of_op(op);
	struct fault f;

	log_error("sandbox could not be rolled back", LOG_S("id", b->id), LOG_ERR(&failure->err));
	(void)fault_of_runtime(&f, box_runtime(b), failure);
	fail(op, &f);
}

/* ---- it runs again ---- */

static void rollback_commit(struct op *op, struct store_tx *tx)
{
	struct box *b = box_of_op(op);

	box_set_state(b, SANDBOX_RUNNING, "CONTAINER_RUNNING", "Sandbox container is running.");
	sandbox_record_send(b);
	box_event(b, tx, EVENT_LIFECYCLE, "RolledBack", "Sandbox was rolled back to snapshot '%s'.", b->pub.row.snapshot);
	store_tx_state(tx, &b->pub.row);
	store_tx_intent(tx, b->id, INTENT_NONE);
}

static void rollback_done(struct op *op, const struct fault *unsaved)
{
	struct box *b = box_of_op(op);

	if (unsaved)
		box_lags(b); /* it runs all the same; the record follows */
	log_info("sandbox rolled back", LOG_S("id", b->id), LOG_S("snapshot", b->pub.row.snapshot));
	op_succeed(op);
}

/* It may have ended again meanwhile. */
static void rollback_told(struct op *op)
{
	struct box *b = box_of_op(op);
	struct runtime_end end = b->pub.end;
	struct store_tx *tx;

	if (!b->pub.has_end)
		return;
	tx = store_tx_new();
	box_apply_end(b, &end, tx);
	box_save(b, tx);
}

/* ---- after a crash ---- */

static bool rollback_recover(struct sandbox *sb, const struct runtime_box *found)
{
	struct box *b = box_of(sb);
	struct op *op;
	struct fault f;

	(void)found; /* it is made anew in any case */
	box_event(b, NULL, EVENT_LIFECYCLE, "RolledBack", "A rollback was cut off and is done again, without environment.");
	op = op_admit(sb->set, &b->queue, &rollback_type, NULL, NULL, &f);
	if (!op) {
		log_error("a rollback that was cut off stays so", LOG_S("id", b->id), LOG_S("failure", f.message));
		return true;
	}
	rollback_of(op)->is_again = true;
	op_add(&b->queue, op);
	return true;
}

static void rollback_free(struct op *op)
{
	environment_wipe(&rollback_of(op)->env);
	arena_done(&rollback_of(op)->arena);
}

const struct op_type rollback_type = {
	.name = "rollback", .size = sizeof(struct rollback), .tries = TRIES,
	.check = rollback_check,
	.prepare = rollback_prepare,
	.intent = rollback_intent,
	.recorded = rollback_recorded,
	.ask = rollback_ask,
	.failed = rollback_failed,
	.commit = rollback_commit,
	.done = rollback_done,
	.told = rollback_told,
	.recover = rollback_recover,
	.free = rollback_free,
	.points = {
		[OP_AT_INTENT_QUEUED] = KILL_POINT_NAME("server.rollback.queued"),
		[OP_AT_INTENT_COMMITTED] = KILL_POINT_NAME("server.rollback.noted"),
		[OP_AT_COMMITTED] = KILL_POINT_NAME("server.rollback.committed"),
		[OP_AT_TOLD] = KILL_POINT_NAME("server.rollback.told"),
	},
};

/* ---- asking ---- */

int sandbox_rollback(struct sandbox *sb, const char *snapshot, const char *reference, const struct string_map *env,
		     sandbox_fn *fn, void *arg, struct fault *f)
{
	struct op_queue *q = &box_of(sb)->queue;
	struct op *op = op_admit(sb->set, q, &rollback_type, fn, arg, f);
	struct rollback *r = op ? rollback_of(op) : NULL;

	if (!r)
		return -1;
	r->arena = ARENA_INIT(BOX_ARENA_MAX);
	(void)snprintf(r->snapshot, sizeof(r->snapshot), "%s", snapshot); /* an id */
	r->base = reference ? arena_dup(&r->arena, str_of(reference)) : NULL;
	if ((reference && !r->base) || environment_copy(&r->env, &r->arena, env) < 0) {
		op_free(op);
		return no_memory(f);
	}
	op_add(q, op);
	return 0;
}

void rollback_each_reference(struct op *op, runtime_reference_fn *fn, void *arg)
{
	const struct rollback *r = rollback_of(op);

	if (r->base)
		fn(r->base, arg);
}
