// SPDX-License-Identifier: Apache-2.0
/* Changes of what is recorded alone: the expiry and the metadata. */
#include "base/clock.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

static int not_found(const struct box *b, struct fault *f)
{
	return fault_set(f, 404, box_runtime(b)->code_prefix, "SANDBOX_NOT_FOUND", "sandbox '%s' not found", b->id);
}

/* ---- renewal ---- */

struct renewal {
	struct op op;
	int64_t expires_us;
	uint64_t deadline_ms;
};

static struct renewal *renewal_of(struct op *op)
{
	return container_of(op, struct renewal, op);
}

static int refuse_renewal(const struct box *b, int64_t expires_us, struct fault *f)
{
	const char *prefix = box_runtime(b)->code_prefix;

	if (b->pub.row.state == SANDBOX_STOPPING)
		return not_found(b, f);
	if (expires_us <= sandboxes_wall_us(b->pub.set))
		return fault_set(f, 400, prefix, "INVALID_EXPIRATION", "expiresAt must be in the future");
	if (b->pub.row.expires_us == 0)
		return fault_set(f, 409, prefix, "INVALID_EXPIRATION", "sandbox '%s' has no expiry: it lives until it is deleted",
				 b->id);
	return 0;
}

static enum op_check renew_check(struct op *op, struct fault *f)
{
	return refuse_renewal(box_of_op(op), renewal_of(op)->expires_us, f) < 0 ? OP_REFUSE : OP_RECORD;
}

static void renew_intent(struct op *op, struct store_tx *tx)
{
	struct renewal *r = renewal_of(op);
	struct box *b = box_of_op(op);

	r->deadline_ms = loop_now_ms(op->queue->loop) + (uint64_t)(r->expires_us - sandboxes_wall_us(b->pub.set)) / 1000;
	store_tx_expiry(tx, b->id, r->expires_us, r->deadline_ms);
	if (op->fn) /* renewals by access would fill the diary */
		box_event(b, tx, EVENT_LIFECYCLE, "Renewed", "Sandbox has a new expiry.");
}

static void renew_recorded(struct op *op)
{
	const struct renewal *r = renewal_of(op);
	struct box *b = box_of_op(op);

	b->pub.row.expires_us = r->expires_us;
	b->pub.row.deadline_ms = r->deadline_ms;
	box_arm(b);
	sandbox_record_done(op);
}

static const struct op_type renew_type = {
	.name = "renew", .size = sizeof(struct renewal),
	.check = renew_check,
	.intent = renew_intent,
	.recorded = renew_recorded,
	.points = {
		[OP_AT_INTENT_QUEUED] = KILL_POINT_NAME("server.renew.queued"),
		[OP_AT_INTENT_COMMITTED] = KILL_POINT_NAME("server.renew.committed"),
	},
};

int sandbox_renew(struct sandbox *sb, int64_t expires_us, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct op_queue *q = &box_of(sb)->queue;
	struct op *op = op_admit(sb->set, q, &renew_type, fn, arg, f);

	if (!op)
		return -1;
	renewal_of(op)->expires_us = expires_us;
	op_add(q, op);
	return 0;
}

void sandbox_touch(struct sandbox *sb, int64_t interval_s)
{
	struct box *b = box_of(sb);
	uint64_t now = loop_now_ms(sb->set->spec.loop);
	int64_t expires = sandboxes_wall_us(sb->set) + sb->row.renew_s * US_PER_S;
	struct fault f;

	if (sb->row.renew_s == 0 || sb->row.expires_us == 0 || sb->row.state != SANDBOX_RUNNING ||
	    expires <= sb->row.expires_us)
		return;
	if (b->touched_ms != 0 && now - b->touched_ms < (uint64_t)interval_s * 1000)
		return;
	if (sandbox_renew(sb, expires, NULL, NULL, &f) == 0)
		b->touched_ms = now;
}

/* ---- metadata ---- */

struct patch {
	struct op op;
	struct arena arena; /* of the changes */
	struct label_change *changes;
	size_t n_changes;
	struct labels *labels; /* as they will be */
};

static struct patch *patch_of(struct op *op)
{
	return container_of(op, struct patch, op);
}

static enum op_check patch_check(struct op *op, struct fault *f)
{
	struct patch *p = patch_of(op);
	struct box *b = box_of_op(op);
	struct err e = { 0 };

	if (b->pub.row.state == SANDBOX_STOPPING) {
		(void)not_found(b, f);
		return OP_REFUSE;
	}
	p->labels = labels_patch(b->labels, p->changes, p->n_changes, &e);
	if (p->labels)
		return OP_RECORD;
	if (e.code == ERR_LIMIT)
		(void)fault_set(f, 400, "SANDBOX", "INVALID_METADATA_LABEL", "%s", e.msg);
	else
		(void)fault_set(f, 503, NULL, "UNAVAILABLE", "%s", e.msg);
	return OP_REFUSE;
}

static void patch_intent(struct op *op, struct store_tx *tx)
{
	struct box *b = box_of_op(op);

	store_tx_metadata(tx, b->id, &patch_of(op)->labels->map);
	box_event(b, tx, EVENT_LIFECYCLE, "MetadataChanged", "Metadata was changed.");
}

static void patch_recorded(struct op *op)
{
	struct box *b = box_of_op(op);

	labels_free(b->labels);
	b->labels = take_ptr(&patch_of(op)->labels);
	b->pub.row.metadata = b->labels->map;
	sandbox_record_done(op);
}

static void patch_free(struct op *op)
{
	labels_free(patch_of(op)->labels);
	arena_done(&patch_of(op)->arena);
}

static const struct op_type patch_type = {
	.name = "patch", .size = sizeof(struct patch),
	.check = patch_check,
	.intent = patch_intent,
	.recorded = patch_recorded,
	.free = patch_free,
	.points = {
		[OP_AT_INTENT_QUEUED] = KILL_POINT_NAME("server.patch.queued"),
		[OP_AT_INTENT_COMMITTED] = KILL_POINT_NAME("server.patch.committed"),
	},
};

static int copy_changes(struct patch *p, const struct label_change *changes, size_t n)
{
	p->changes = arena_array(&p->arena, n + 1, sizeof(*p->changes));
	for (size_t i = 0; p->changes && i < n; i++) {
		p->changes[i].key = arena_dup(&p->arena, str_of(changes[i].key));
		p->changes[i].value = changes[i].value ? arena_dup(&p->arena, str_of(changes[i].value)) : NULL;
		if (!p->changes[i].key || (changes[i].value && !p->changes[i].value))
			return -1;
		p->n_changes++;
	}
	return p->changes ? 0 : -1;
}

int sandbox_patch(struct sandbox *sb, const struct label_change *changes, size_t n, sandbox_fn *fn, void *arg,
		  struct fault *f)
{
	struct op_queue *q = &box_of(sb)->queue;
	struct op *op = op_admit(sb->set, q, &patch_type, fn, arg, f);

	if (!op)
		return -1;
	patch_of(op)->arena = ARENA_INIT(BOX_ARENA_MAX);
	if (copy_changes(patch_of(op), changes, n) < 0) {
		op_free(op);
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	}
	op_add(q, op);
	return 0;
}
