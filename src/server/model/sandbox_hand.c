// SPDX-License-Identifier: Apache-2.0
/* Handing out: a sandbox that waited in a pool becomes somebody's. The commit decides; nobody is told before it. */
#include "base/hex.h"
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

struct hand {
	struct sandbox_row row; /* as it will be */
	struct key key;
	bool has_key;
	struct string_list ignored; /* keys of the request that nobody knew */
};

static void give_back(struct box *b, const struct fault *f)
{
	if (b->first->hand->has_key)
		key_forget_of(b->pub.set, b->id, NULL);
	task_finish(b, f);
}

static void become_owned(struct box *b)
{
	const struct sandbox_row *as = &b->first->hand->row;
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
	b->labels = take_ptr(&b->first->labels);
	r->metadata = b->labels->map;
	box_arm(b);
	sandbox_record_changed(b);
}

static void on_handed(const struct err *e, void *arg)
{
	struct box *b = arg;
	struct fault f;

	if (e) {
		(void)fault_of_store(&f, e);
		give_back(b, &f);
		return;
	}
	KILL_POINT("server.hand.committed");
	become_owned(b);
	if (b->pub.row.state != SANDBOX_RUNNING) { /* it has ended meanwhile: nobody was told that it is theirs */
		(void)fault_set(&f, 409, b->pub.set->spec.runtime->code_prefix, "SANDBOX_NOT_RUNNING", "sandbox '%s' has ended", b->id);
		key_forget(b->pub.set, b->id);
		remove_quietly(b, false);
		task_finish(b, &f);
		return;
	}
	box_set_state(b, SANDBOX_RUNNING, "CONTAINER_RUNNING", "Sandbox container started successfully.");
	b->pub.row.changed_us = b->first->hand->row.changed_us;
	log_info("sandbox handed out", LOG_S("id", b->id));
	task_finish(b, NULL);
	KILL_POINT("server.hand.told");
	box_set_state(b, SANDBOX_RUNNING, "CONTAINER_RUNNING", "Sandbox container is running.");
}

static int check(struct box *b, struct hand *h, struct fault *f)
{
	struct sandboxes *s = b->pub.set;
	struct err e = { 0 };

	if (!b->pub.row.is_idle || b->pub.row.state != SANDBOX_RUNNING || b->pub.has_end)
		return fault_set(f, 409, s->spec.runtime->code_prefix, "SANDBOX_NOT_RUNNING", "sandbox '%s' has ended", b->id);
	if (!h->has_key)
		return 0;
	if (key_find(s, h->key.hex)) {
		h->has_key = false; /* it is not ours to forget */
		return fault_set(f, 409, "SANDBOX", "IDEMPOTENCY_KEY_REUSED", "this Idempotency-Key came with another request before");
	}
	if (key_add(s, &h->key, &e) == 0)
		return 0;
	h->has_key = false;
	return fault_set(f, 503, NULL, "UNAVAILABLE", "%s", e.msg);
}

void hand_begin(struct box *b, struct task *t)
{
	struct hand *h = t->hand;
	struct store_tx *tx;
	struct fault f;

	if (check(b, h, &f) < 0) {
		give_back(b, &f);
		return;
	}
	h->row.metadata = t->labels->map;
	tx = store_tx_new();
	store_tx_hand_out(tx, &h->row);
	if (h->has_key) {
		struct store_key sk = { .key = str_of(h->key.hex), .sandbox_id = b->id, .expires_us = h->key.expires_us };

		memcpy(sk.body, h->key.body, sizeof(sk.body));
		store_tx_key(tx, &sk);
	}
	box_event(b, tx, EVENT_LIFECYCLE, "HandedOut", "Sandbox was taken from its pool.");
	for (size_t i = 0; i < h->ignored.n; i++)
		box_event(b, tx, EVENT_LIFECYCLE, "IgnoredKeys", "The request's '%s' is not known here, ignored.", h->ignored.items[i]);
	if (box_submit(b, tx, on_handed, &f) < 0)
		give_back(b, &f);
	KILL_POINT("server.hand.queued");
}

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

static int make_hand(struct box *b, const struct sandbox_order *o, struct task *t, struct fault *f)
{
	struct hand *h = arena_alloc(&t->arena, sizeof(*h));
	struct sandboxes *s = b->pub.set;
	struct sandbox_row asked;
	struct err e = { 0 };

	t->labels = h ? labels_new(&o->metadata, &e) : NULL;
	if (!t->labels)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	if (create_row(s, o, &asked, f) < 0)
		return -1;
	make_row(b, &asked, &h->row);
	h->row.os = o->os ? arena_dup(&b->arena, str_of(o->os)) : NULL;
	h->row.arch = o->arch ? arena_dup(&b->arena, str_of(o->arch)) : NULL;
	if ((o->os && !h->row.os) || (o->arch && !h->row.arch) || copy_ignored(&t->arena, o, &h->ignored) < 0)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	h->has_key = o->key.n > 0;
	h->key.expires_us = sandboxes_wall_us(s) + SANDBOX_KEY_LIFE_US;
	if (h->has_key)
		sha256_hex(o->key, h->key.hex);
	memcpy(h->key.body, o->body, sizeof(h->key.body));
	memcpy(h->key.sandbox_id, b->id, sizeof(b->id));
	t->hand = h;
	return 0;
}

int sandbox_hand_out(struct sandbox *sb, const struct sandbox_order *order, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct task t = { .kind = TASK_HAND_OUT, .fn = fn, .arg = arg, .arena = ARENA_INIT(BOX_ARENA_MAX) };

	if (make_hand(box_of(sb), order, &t, f) == 0 && task_add(box_of(sb), &t, f) == 0)
		return 0;
	task_done(&t);
	return -1;
}
