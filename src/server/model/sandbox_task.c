// SPDX-License-Identifier: Apache-2.0
/* Changes of one sandbox, one after the other; and those of them that leave it where it is. */
#include "base/clock.h"
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

/* ---- the queue ---- */

void task_done(struct task *t)
{
	while (t->waiters) {
		struct waiter *w = t->waiters;

		t->waiters = w->next;
		free(w);
	}
	for (size_t i = 0; i < t->env.n; i++) /* the copies are ours, and may be secrets */
		secret_wipe((void *)(uintptr_t)t->env.items[i].value, strlen(t->env.items[i].value));
	if (t->username)
		secret_wipe((void *)(uintptr_t)t->username, strlen(t->username));
	if (t->password)
		secret_wipe((void *)(uintptr_t)t->password, strlen(t->password));
	labels_free(t->labels);
	arena_done(&t->arena);
}

void task_free(struct task *t)
{
	if (t)
		task_done(t);
	free(t);
}

static const char *prefix_of(const struct box *b)
{
	return b->pub.set->spec.runtime->code_prefix;
}

static void begin(struct box *b, struct task *t);

static void on_kick(void *arg)
{
	struct box *b = arg;

	if (b->is_busy || !b->first)
		return;
	b->is_busy = true;
	begin(b, b->first);
}

static void task_kick(struct box *b)
{
	defer(&b->kick, b->pub.set->spec.loop, on_kick, b, "sandbox change");
}

/* A removal waits for what has begun and for nothing else; one for lack of time also for a renewal before it. */
static struct task **place_of(struct box *b, const struct task *t)
{
	struct task **at = &b->first;

	if (t->kind == TASK_REMOVE && !t->is_expiry)
		return b->is_busy ? &b->first->next : at;
	while (*at)
		at = &(*at)->next;
	return at;
}

int task_add(struct box *b, const struct task *t, struct fault *f)
{
	struct task *copy, **at;

	if (b->n_tasks >= SANDBOX_TASKS_MAX && t->kind != TASK_REMOVE)
		return fault_set(f, 429, NULL, "TOO_MANY_REQUESTS", "too many changes of this sandbox are waiting");
	copy = malloc(sizeof(*copy));
	if (!copy)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	*copy = *t;
	at = place_of(b, t);
	copy->next = *at;
	*at = copy;
	b->n_tasks++;
	task_kick(b);
	return 0;
}

static void tell(struct task *t, struct sandbox *sb, const struct fault *f)
{
	if (t->fn)
		t->fn(f ? NULL : sb, f, t->arg);
	for (const struct waiter *w = t->waiters; w; w = w->next)
		w->fn(f ? NULL : sb, f, w->arg);
}

void task_finish(struct box *b, const struct fault *f)
{
	struct task *t = b->first;

	b->first = t->next;
	b->n_tasks--;
	b->is_busy = false;
	if (b->first)
		task_kick(b);
	tell(t, &b->pub, f);
	task_free(t);
}

void task_stop_all(struct box *b)
{
	struct fault f;

	(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "the server is stopping");
	for (struct task *t = b->first; t; t = t->next)
		tell(t, NULL, &f);
}

void box_drop(struct box *b)
{
	struct sandboxes *s = b->pub.set;
	struct fault gone;

	(void)fault_set(&gone, 404, prefix_of(b), "SANDBOX_NOT_FOUND", "sandbox '%s' not found", b->id);
	if (s->spec.gone)
		s->spec.gone(&b->pub, s->spec.gone_arg);
	box_unlink(b);
	removed_note(s, b->id);
	for (struct task *t = b->first; t; t = t->next)
		tell(t, NULL, t->kind == TASK_REMOVE ? NULL : &gone);
	box_free(b);
}

int box_submit(struct box *b, struct store_tx *tx, store_done_fn *fn, struct fault *f)
{
	struct err e = { 0 };

	if (store_submit(b->pub.set->spec.store, tx, fn, b, &e) == 0)
		return 0;
	log_error("a change could not be recorded", LOG_S("id", b->id), LOG_ERR(&e));
	return fault_of_store(f, &e);
}

/* ---- pause and resume: the same way in two directions ---- */

struct turn {
	enum task_kind kind;
	enum sandbox_state from, during, to;
	enum sandbox_intent intent;
	const char *refusal, *failure;            /* codes */
	const char *during_reason, *during_says;
	const char *to_reason, *to_says;
	const char *event;
};

static const struct turn turns[] = {
	{ TASK_PAUSE, SANDBOX_RUNNING, SANDBOX_PAUSING, SANDBOX_PAUSED, INTENT_PAUSE, "SANDBOX_NOT_RUNNING",
	  "SANDBOX_PAUSE_FAILED", "CONTAINER_PAUSING", "Sandbox is being paused.", "CONTAINER_PAUSED",
	  "Sandbox container is paused.", "Paused" },
	{ TASK_RESUME, SANDBOX_PAUSED, SANDBOX_RESUMING, SANDBOX_RUNNING, INTENT_RESUME, "SANDBOX_NOT_PAUSED",
	  "SANDBOX_RESUME_FAILED", "CONTAINER_RESUMING", "Sandbox is being resumed.", "CONTAINER_RUNNING",
	  "Sandbox container is running.", "Resumed" },
};

static const struct turn *turn_of(const struct box *b)
{
	return &turns[b->first->kind == TASK_RESUME];
}

static int refuse_turn(struct box *b, struct fault *f)
{
	const struct turn *t = turn_of(b);

	return fault_set(f, 409, prefix_of(b), t->refusal, "sandbox '%s' is %s, not %s", b->id,
			 sandbox_state_name(b->pub.row.state), sandbox_state_name(t->from));
}

/* Back to where it came from, unless it has ended meanwhile. */
static void turn_back(struct box *b)
{
	const struct turn *t = turn_of(b);

	if (b->pub.row.state == t->during)
		box_set_state(b, t->from, t->from == SANDBOX_RUNNING ? "CONTAINER_RUNNING" : "CONTAINER_PAUSED", "%s",
			      t->from == SANDBOX_RUNNING ? "Sandbox container is running." : "Sandbox container is paused.");
}

static void on_turn_committed(const struct err *e, void *arg)
{
	struct box *b = arg;
	struct fault f;

	KILL_POINT("server.switch.committed");
	if (e) {
		b->is_dirty = true; /* it is done all the same; the record follows */
		timer_in(&b->pub.set->flush, 0);
		(void)fault_of_store(&f, e);
		task_finish(b, &f);
		return;
	}
	if (b->pub.row.state != turn_of(b)->to) {
		(void)refuse_turn(b, &f);
		task_finish(b, &f);
		return;
	}
	log_info("sandbox changed", LOG_S("id", b->id), LOG_S("state", sandbox_state_name(b->pub.row.state)));
	task_finish(b, NULL);
	KILL_POINT("server.switch.told");
}

static void on_turn_undone(const struct err *e, void *arg)
{
	struct box *b = arg;

	if (e) {
		b->is_dirty = true;
		timer_in(&b->pub.set->flush, 0);
	}
}

static void turn_failed(struct box *b, const struct runtime_failure *failure)
{
	struct runtime_failure known = *failure;
	struct store_tx *tx = store_tx_new();
	struct fault f, scratch;

	log_error("sandbox could not be paused or resumed", LOG_S("id", b->id), LOG_ERR(&failure->err));
	if (!known.code)
		known.code = turn_of(b)->failure;
	(void)fault_of_runtime(&f, b->pub.set->spec.runtime, &known);
	turn_back(b);
	store_tx_state(tx, &b->pub.row);
	store_tx_intent(tx, b->id, INTENT_NONE);
	if (box_submit(b, tx, on_turn_undone, &scratch) < 0)
		b->is_dirty = true;
	timer_in(&b->pub.set->compare, 0); /* it may have been done all the same */
	task_finish(b, &f);
}

static void on_turned(const struct runtime_failure *failure, void *arg)
{
	struct box *b = arg;
	const struct turn *t = turn_of(b);
	struct store_tx *tx;
	struct fault f;

	KILL_POINT("server.switch.done");
	if (failure) {
		turn_failed(b, failure);
		return;
	}
	tx = store_tx_new();
	if (b->pub.row.state == t->during) {
		box_set_state(b, t->to, t->to_reason, "%s", t->to_says);
		box_event(b, tx, EVENT_LIFECYCLE, t->event, "%s", t->to_says);
	}
	store_tx_state(tx, &b->pub.row);
	store_tx_intent(tx, b->id, INTENT_NONE);
	if (box_submit(b, tx, on_turn_committed, &f) < 0) {
		b->is_dirty = true;
		timer_in(&b->pub.set->flush, 0);
		task_finish(b, &f);
	}
}

static void on_turn_logged(const struct err *e, void *arg)
{
	struct box *b = arg;
	struct runtime *rt = b->pub.set->spec.runtime;
	struct fault f;

	if (e) {
		(void)fault_of_store(&f, e);
		turn_back(b);
		task_finish(b, &f);
		return;
	}
	KILL_POINT("server.switch.intent_committed");
	(b->first->kind == TASK_PAUSE ? rt->ops->pause : rt->ops->resume)(rt, b->id, on_turned, b);
	KILL_POINT("server.switch.asked");
}

static void turn_begin(struct box *b)
{
	const struct turn *t = turn_of(b);
	struct store_tx *tx;
	struct fault f;

	if (b->pub.row.state != t->from) {
		(void)refuse_turn(b, &f);
		task_finish(b, &f);
		return;
	}
	tx = store_tx_new();
	box_set_state(b, t->during, t->during_reason, "%s", t->during_says);
	store_tx_state(tx, &b->pub.row);
	store_tx_intent(tx, b->id, t->intent);
	if (box_submit(b, tx, on_turn_logged, &f) < 0) {
		turn_back(b);
		task_finish(b, &f);
	}
}

int sandbox_pause(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f)
{
	return task_add(box_of(sb), &(struct task){ .kind = TASK_PAUSE, .fn = fn, .arg = arg }, f);
}

int sandbox_resume(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f)
{
	return task_add(box_of(sb), &(struct task){ .kind = TASK_RESUME, .fn = fn, .arg = arg }, f);
}

/* ---- renewal ---- */

static void on_renewed(const struct err *e, void *arg)
{
	struct box *b = arg;
	struct fault f;

	if (e) {
		(void)fault_of_store(&f, e);
		task_finish(b, &f);
		return;
	}
	KILL_POINT("server.renew.committed");
	b->pub.row.expires_us = b->first->expires_us;
	b->pub.row.deadline_ms = b->first->deadline_ms;
	box_arm(b);
	sandbox_record_finish(b);
}

static int renew_refused(const struct box *b, const struct task *t, struct fault *f)
{
	if (b->pub.row.state == SANDBOX_STOPPING)
		return fault_set(f, 404, prefix_of(b), "SANDBOX_NOT_FOUND", "sandbox '%s' not found", b->id);
	if (t->expires_us <= sandboxes_wall_us(b->pub.set))
		return fault_set(f, 400, prefix_of(b), "INVALID_EXPIRATION", "expiresAt must be in the future");
	if (b->pub.row.expires_us == 0)
		return fault_set(f, 409, prefix_of(b), "INVALID_EXPIRATION",
				 "sandbox '%s' has no expiry: it lives until it is deleted", b->id);
	return 0;
}

static void renew_begin(struct box *b, struct task *t)
{
	struct sandboxes *s = b->pub.set;
	struct store_tx *tx;
	struct fault f;

	if (renew_refused(b, t, &f) < 0) {
		task_finish(b, &f);
		return;
	}
	t->deadline_ms = loop_now_ms(s->spec.loop) + (uint64_t)(t->expires_us - sandboxes_wall_us(s)) / 1000;
	tx = store_tx_new();
	store_tx_expiry(tx, b->id, t->expires_us, t->deadline_ms);
	if (t->fn) /* renewals by access would fill the diary */
		box_event(b, tx, EVENT_LIFECYCLE, "Renewed", "Sandbox has a new expiry.");
	if (box_submit(b, tx, on_renewed, &f) < 0)
		task_finish(b, &f);
	KILL_POINT("server.renew.queued");
}

int sandbox_renew(struct sandbox *sb, int64_t expires_us, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct task t = { .kind = TASK_RENEW, .fn = fn, .arg = arg, .expires_us = expires_us };

	return task_add(box_of(sb), &t, f);
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

static void on_patched(const struct err *e, void *arg)
{
	struct box *b = arg;
	struct fault f;

	if (e) {
		(void)fault_of_store(&f, e);
		task_finish(b, &f);
		return;
	}
	KILL_POINT("server.patch.committed");
	labels_free(b->labels);
	b->labels = take_ptr(&b->first->labels);
	b->pub.row.metadata = b->labels->map;
	sandbox_record_finish(b);
}

static void patch_begin(struct box *b, struct task *t)
{
	struct store_tx *tx;
	struct err e = { 0 };
	struct fault f;

	if (b->pub.row.state == SANDBOX_STOPPING) {
		(void)fault_set(&f, 404, prefix_of(b), "SANDBOX_NOT_FOUND", "sandbox '%s' not found", b->id);
		task_finish(b, &f);
		return;
	}
	t->labels = labels_patch(b->labels, t->changes, t->n_changes, &e);
	if (!t->labels) {
		if (e.code == ERR_LIMIT)
			(void)fault_set(&f, 400, "SANDBOX", "INVALID_METADATA_LABEL", "%s", e.msg);
		else
			(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "%s", e.msg);
		task_finish(b, &f);
		return;
	}
	tx = store_tx_new();
	store_tx_metadata(tx, b->id, &t->labels->map);
	box_event(b, tx, EVENT_LIFECYCLE, "MetadataChanged", "Metadata was changed.");
	if (box_submit(b, tx, on_patched, &f) < 0)
		task_finish(b, &f);
	KILL_POINT("server.patch.queued");
}

static int copy_changes(struct task *t, const struct label_change *changes, size_t n)
{
	t->changes = arena_array(&t->arena, n + 1, sizeof(*t->changes));
	for (size_t i = 0; t->changes && i < n; i++) {
		t->changes[i].key = arena_dup(&t->arena, str_of(changes[i].key));
		t->changes[i].value = changes[i].value ? arena_dup(&t->arena, str_of(changes[i].value)) : NULL;
		if (!t->changes[i].key || (changes[i].value && !t->changes[i].value))
			return -1;
		t->n_changes++;
	}
	return t->changes ? 0 : -1;
}

int sandbox_patch(struct sandbox *sb, const struct label_change *changes, size_t n, sandbox_fn *fn, void *arg,
		  struct fault *f)
{
	struct task t = { .kind = TASK_PATCH, .fn = fn, .arg = arg, .arena = ARENA_INIT(BOX_ARENA_MAX) };

	if (copy_changes(&t, changes, n) < 0) {
		arena_done(&t.arena);
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	}
	if (task_add(box_of(sb), &t, f) == 0)
		return 0;
	arena_done(&t.arena);
	return -1;
}

/* ---- all kinds ---- */

static void begin(struct box *b, struct task *t)
{
	switch (t->kind) {
	case TASK_CREATE:
		create_begin(b, t);
		break;
	case TASK_PAUSE:
	case TASK_RESUME:
		turn_begin(b);
		break;
	case TASK_RENEW:
		renew_begin(b, t);
		break;
	case TASK_PATCH:
		patch_begin(b, t);
		break;
	case TASK_SNAPSHOT:
		snapshot_begin(b, t);
		break;
	case TASK_ROLLBACK:
		rollback_begin(b, t);
		break;
	case TASK_REMOVE:
		remove_begin(b, t);
		break;
	case TASK_HAND_OUT:
		hand_begin(b, t);
		break;
	case TASK_POLICY:
		policy_begin(b);
		break;
	}
}
