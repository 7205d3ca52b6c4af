// SPDX-License-Identifier: Apache-2.0
/* A snapshot of what a sandbox has now. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

struct snap {
	struct op op;
	char *reference;
};

static enum op_check snapshot_check(struct op *op, struct fault *f)
{
	const struct sandbox_row *r = &box_of_op(op)->pub.row;

	if (r->state == SANDBOX_RUNNING || r->state == SANDBOX_PAUSED)
		return OP_ASK;
	(void)fault_set(f, 409, "SNAPSHOT", "INVALID_SOURCE_STATE", "sandbox '%s' is %s, neither Running nor Paused", r->id,
			sandbox_state_name(r->state));
	return OP_REFUSE;
}

static void on_snapped(const struct runtime_snapshot *made, const struct runtime_failure *failure, void *arg)
{
	struct op *op = arg;

	if (!failure)
		box_of_op(op)->pub.made = *made;
	op_ran(failure, op);
}

static void snapshot_ask(struct op *op)
{
	struct runtime *rt = box_runtime(box_of_op(op));

	rt->ops->snapshot(rt, box_of_op(op)->id, container_of(op, struct snap, op)->reference, on_snapped, op);
}

static void snapshot_failed(struct op *op, const struct runtime_failure *failure)
{
	struct box *b = box_of_op(op);
	struct fault f;

	log_error("a snapshot could not be taken", LOG_S("id", b->id), LOG_ERR(&failure->err));
	(void)fault_of_runtime(&f, box_runtime(b), failure);
	if (failure->err.code == ERR_TIMEOUT)
		f.status = 504;
	op_finish(op, &f);
}

static void snapshot_done(struct op *op, const struct fault *unsaved)
{
	struct box *b = box_of_op(op);
	struct store_tx *tx = store_tx_new();

	(void)unsaved; /* nothing was committed */
	box_event(b, tx, EVENT_LIFECYCLE, "Snapshot", "A snapshot was taken: written back in %llu us, stood still for %llu us.",
		  (unsigned long long)b->pub.made.flush_us, (unsigned long long)b->pub.made.frozen_us);
	(void)store_submit(b->pub.set->spec.store, tx, NULL, NULL, &(struct err){ 0 }); /* an event alone may be lost */
	op_succeed(op);
}

static void snapshot_free(struct op *op)
{
	free(container_of(op, struct snap, op)->reference);
}

static const struct op_type snapshot_type = {
	.name = "snapshot", .size = sizeof(struct snap),
	.check = snapshot_check,
	.ask = snapshot_ask,
	.failed = snapshot_failed,
	.done = snapshot_done,
	.free = snapshot_free,
	.points = {
		[OP_AT_ASKED] = KILL_POINT_NAME("server.snapshot.asked"),
		[OP_AT_ANSWERED] = KILL_POINT_NAME("server.snapshot.made"),
	},
};

int sandbox_snapshot(struct sandbox *sb, const char *reference, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct op_queue *q = &box_of(sb)->queue;
	struct op *op = op_admit(sb->set, q, &snapshot_type, fn, arg, f);
	struct snap *s = op ? container_of(op, struct snap, op) : NULL;

	if (!s)
		return -1;
	s->reference = strdup(reference);
	if (!s->reference) {
		op_free(op);
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	}
	op_add(q, op);
	return 0;
}
