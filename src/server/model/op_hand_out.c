// SPDX-License-Identifier: Apache-2.0
/* Handing out: a sandbox that waited in a pool becomes somebody's. The commit decides; nobody is told before it. */
#include "base/hex.h"
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

struct hand {
	struct op op;
	struct arena arena;
	struct labels *labels;  /* that it will have */
	struct sandbox_row row; /* as it will be */
	struct key key;
	bool has_key;
	struct string_list ignored; /* keys of the request that nobody knew */
};

static struct hand *hand_of(struct op *op)
{
	return container_of(op, struct hand, op);
}

static int check(const struct box *b, struct hand *h, struct fault *f)
{
	struct sandboxes *s = b->pub.set;
	struct err e = { 0 };

	if (!b->pub.row.is_idle || b->pub.row.state != SANDBOX_RUNNING || b->pub.has_end)
		return fault_set(f, 409, box_runtime(b)->code_prefix, "SANDBOX_NOT_RUNNING", "sandbox '%s' has ended", b->id);
	if (h->has_key && key_find(s, h->key.hex))
		return fault_set(f, 409, "SANDBOX", "IDEMPOTENCY_KEY_REUSED", "this Idempotency-Key came with another request before");
	if (h->has_key && key_add(s, &h->key, &e) < 0)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "%s", e.msg);
	return 0;
}

static enum op_check hand_check(struct op *op, struct fault *f)
{
	return check(box_of_op(op), hand_of(op), f) < 0 ? OP_REFUSE : OP_RECORD;
}

static void hand_intent(struct op *op, struct store_tx *tx)
{
	struct hand *h = hand_of(op);
	struct box *b = box_of_op(op);

	h->row.metadata = h->labels->map;
	store_tx_hand_out(tx, &h->row);
	if (h->has_key)
		key_record(&h->key, tx);
	box_event(b, tx, EVENT_LIFECYCLE, "HandedOut", "Sandbox was taken from its pool.");
	for (size_t i = 0; i < h->ignored.n; i++)
		box_event(b, tx, EVENT_LIFECYCLE, "IgnoredKeys", "The request's '%s' is not known here, ignored.", h->ignored.items[i]);
}

static void hand_undo(struct op *op, const struct fault *f)
{
	struct box *b = box_of_op(op);

	if (hand_of(op)->has_key)
		key_forget_of(b->pub.set, b->id, NULL);
	op_finish(op, f);
}

static void become_owned(struct box *b, struct hand *h)
{
	const struct sandbox_row *as = &h->row;
	struct sandbox_row *r = &b->pub.row;

	box_move(b, as->created_us);
	box_set_idle(b, false);
	r->os = as->os;
	r->arch = as->arch;
	r->renew_s = as->renew_s;
	r->is_secure = as->is_secure;
	r->expires_us = as->expires_us;
	r->deadline_ms = as->deadline_ms;
	labels_free(b->labels);
	b->labels = take_ptr(&h->labels);
	r->metadata = b->labels->map;
	box_arm(b);
	sandbox_record_changed(b);
}

static void hand_recorded(struct op *op)
{
	struct box *b = box_of_op(op);
	struct fault f;

	become_owned(b, hand_of(op));
	if (b->pub.row.state != SANDBOX_RUNNING) { /* it has ended meanwhile: nobody was told that it is theirs */
		(void)fault_set(&f, 409, box_runtime(b)->code_prefix, "SANDBOX_NOT_RUNNING", "sandbox '%s' has ended", b->id);
		key_forget(b->pub.set, b->id);
		remove_quietly(b, false);
		op_finish(op, &f);
		return;
	}
	box_set_state(b, SANDBOX_RUNNING, "CONTAINER_RUNNING", "Sandbox container started successfully.");
	b->pub.row.changed_us = hand_of(op)->row.changed_us;
	log_info("sandbox handed out", LOG_S("id", b->id));
	op_succeed(op);
}

static void hand_told(struct op *op)
{
	box_set_state(box_of_op(op), SANDBOX_RUNNING, "CONTAINER_RUNNING", "Sandbox container is running.");
}

static void hand_free(struct op *op)
{
	labels_free(hand_of(op)->labels);
	arena_done(&hand_of(op)->arena);
}

static const struct op_type hand_type = {
	.name = "hand out", .size = sizeof(struct hand),
	.check = hand_check,
	.intent = hand_intent,
	.undo = hand_undo,
	.recorded = hand_recorded,
	.told = hand_told,
	.free = hand_free,
	.points = {
		[OP_AT_INTENT_QUEUED] = KILL_POINT_NAME("server.hand.queued"),
		[OP_AT_INTENT_COMMITTED] = KILL_POINT_NAME("server.hand.committed"),
		[OP_AT_TOLD] = KILL_POINT_NAME("server.hand.told"),
	},
};

/* ---- asking ---- */

static int copy_ignored(struct arena *a, const struct sandbox_order *o, struct string_list *ret)
{
	ret->items = arena_array(a, o->n_ignored + 1, sizeof(*ret->items));
	for (; ret->items && ret->n < o->n_ignored; ret->n++) {
		ret->items[ret->n] = arena_dup(a, str_of(o->ignored[ret->n]));
		if (!ret->items[ret->n])
			return -1;
	}
	return ret->items ? 0 : -1;
}

/* What is the box's own stays: it runs as it was made. */
static void make_row(const struct box *b, const struct sandbox_row *asked, struct sandbox_row *r)
{
	*r = b->pub.row;
	r->is_idle = false;
	r->renew_s = asked->renew_s;
	r->is_secure = asked->is_secure;
	r->created_us = asked->created_us;
	r->changed_us = asked->changed_us;
	r->expires_us = asked->expires_us;
	r->deadline_ms = asked->deadline_ms;
	r->state = SANDBOX_RUNNING;
	r->reason = "CONTAINER_RUNNING";
	r->message = "Sandbox container is running.";
}

static int no_memory(struct fault *f)
{
	return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
}

static void set_key(struct hand *h, const struct box *b, const struct sandbox_order *o)
{
	h->has_key = o->key.n > 0;
	h->key.expires_us = sandboxes_wall_us(b->pub.set) + SANDBOX_KEY_LIFE_US;
	if (h->has_key)
		sha256_hex(o->key, h->key.hex);
	memcpy(h->key.body, o->body, sizeof(h->key.body));
	memcpy(h->key.sandbox_id, b->id, sizeof(b->id));
}

static int fill(struct hand *h, struct box *b, const struct sandbox_order *o, struct fault *f)
{
	struct sandbox_row asked;
	struct err e = { 0 };

	h->arena = ARENA_INIT(BOX_ARENA_MAX);
	h->labels = labels_new(&o->metadata, &e);
	if (!h->labels)
		return no_memory(f);
	if (create_row(b->pub.set, o, &asked, f) < 0)
		return -1;
	make_row(b, &asked, &h->row);
	h->row.os = o->os ? arena_dup(&b->arena, str_of(o->os)) : NULL;
	h->row.arch = o->arch ? arena_dup(&b->arena, str_of(o->arch)) : NULL;
	if ((o->os && !h->row.os) || (o->arch && !h->row.arch) || copy_ignored(&h->arena, o, &h->ignored) < 0)
		return no_memory(f);
	set_key(h, b, o);
	return 0;
}

int sandbox_hand_out(struct sandbox *sb, const struct sandbox_order *order, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct op_queue *q = &box_of(sb)->queue;
	struct op *op = op_admit(sb->set, q, &hand_type, fn, arg, f);

	if (!op)
		return -1;
	if (fill(hand_of(op), box_of(sb), order, f) < 0) {
		op_free(op);
		return -1;
	}
	op_add(q, op);
	return 0;
}
