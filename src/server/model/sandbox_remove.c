// SPDX-License-Identifier: Apache-2.0
/* Removing a sandbox: mark, let the runtime prove that it is gone, forget. What fails is tried again until it works. */
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

static void retry_later(struct box *b)
{
	timer_in(&b->retry, b->retry_ms);
	b->retry_ms = MIN(b->retry_ms * 2, (unsigned)RETRY_MAX_MS);
}

/* Everybody who asked for this is told; the next try comes by itself. */
static void remove_failed(struct box *b, const struct fault *f)
{
	retry_later(b);
	while (b->first->next && b->first->next->kind == TASK_REMOVE) {
		struct task *t = b->first->next;

		b->first->next = t->next;
		b->n_tasks--;
		if (t->fn)
			t->fn(NULL, f, t->arg);
		task_free(t);
	}
	task_finish(b, f);
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

static void orphan_forget(struct sandboxes *s, const char *id);

static void finish(struct box *b)
{
	release_volumes(b);
	if (!b->is_unrecorded) /* the store knows that it is to go: nobody waits until it has forgotten it */
		orphan_forget(b->pub.set, b->id);
	KILL_POINT("server.remove.delete_queued");
	log_info("sandbox removed", LOG_S("id", b->id));
	box_drop(b);
	KILL_POINT("server.remove.told");
}

static void on_removed(const struct runtime_failure *failure, void *arg)
{
	struct box *b = arg;
	struct runtime_failure known;
	struct fault f;

	KILL_POINT("server.remove.gone");
	if (!failure) {
		finish(b);
		return;
	}
	known = *failure;
	if (!known.code)
		known.code = "SANDBOX_DELETE_FAILED";
	log_error("sandbox could not be removed, trying again", LOG_S("id", b->id), LOG_MS("in", b->retry_ms),
		  LOG_ERR(&failure->err));
	(void)fault_of_runtime(&f, b->pub.set->spec.runtime, &known);
	box_event(b, NULL, EVENT_RUNTIME, "RemoveFailed", "%s", f.message);
	remove_failed(b, &f);
}

static void call_runtime(struct box *b)
{
	struct runtime *rt = b->pub.set->spec.runtime;

	rt->ops->remove(rt, b->id, on_removed, b);
	KILL_POINT("server.remove.asked");
}

/* The store does not take it: the sandbox is as it was. What nobody asked for in person is tried again. */
static void mark_failed(struct box *b, const struct fault *f)
{
	struct task *t = b->first;
	bool is_over = t->was == SANDBOX_TERMINATED || t->was == SANDBOX_FAILED;

	box_set_state(b, t->was, t->was_reason, "%s", t->was_message);
	b->pub.row.changed_us = t->was_changed_us;
	if (b->pub.has_end && !is_over) {
		box_apply_end(b, &b->pub.end, NULL);
		box_save(b, NULL);
	}
	if (t->is_expiry)
		timer_in(&b->expiry, RETRY_FIRST_MS);
	else if (!t->fn)
		retry_later(b);
	else
		box_arm(b);
	task_finish(b, f);
}

static void on_marked(const struct err *e, void *arg)
{
	struct box *b = arg;
	struct fault f;

	if (e) {
		(void)fault_of_store(&f, e);
		mark_failed(b, &f);
		return;
	}
	KILL_POINT("server.remove.marked");
	b->is_remove_logged = true;
	call_runtime(b);
}

void remove_begin(struct box *b, struct task *t)
{
	struct store_tx *tx;
	struct fault f;

	if (t->is_expiry && b->pub.row.deadline_ms > loop_now_ms(b->pub.set->spec.loop)) {
		box_arm(b); /* it was renewed meanwhile */
		task_finish(b, NULL);
		return;
	}
	timer_cancel(&b->retry);
	timer_cancel(&b->expiry);
	if (b->is_remove_logged) {
		call_runtime(b);
		return;
	}
	tx = store_tx_new();
	t->was = b->pub.row.state;
	t->was_changed_us = b->pub.row.changed_us;
	memcpy(t->was_reason, b->reason, sizeof(t->was_reason));
	memcpy(t->was_message, b->message, sizeof(t->was_message));
	box_set_state(b, SANDBOX_STOPPING, t->is_expiry ? "CONTAINER_EXPIRED" : "CONTAINER_STOPPING",
		      "Sandbox is being removed.");
	box_event(b, tx, EVENT_LIFECYCLE, t->is_expiry ? "Expired" : "Removing", "Sandbox is being removed.");
	store_tx_state(tx, &b->pub.row);
	store_tx_intent(tx, b->id, INTENT_REMOVE);
	if (box_submit(b, tx, on_marked, &f) < 0)
		mark_failed(b, &f);
	KILL_POINT("server.remove.mark_queued");
}

int sandbox_remove(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f)
{
	if (task_add(box_of(sb), &(struct task){ .kind = TASK_REMOVE, .fn = fn, .arg = arg }, f) < 0)
		return -1;
	create_cancel(box_of(sb));
	return 0;
}

void remove_quietly(struct box *b, bool is_expiry)
{
	struct fault f;

	if (task_add(b, &(struct task){ .kind = TASK_REMOVE, .is_expiry = is_expiry }, &f) < 0)
		retry_later(b); /* no memory for it now */
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

void on_retry(void *arg)
{
	remove_quietly(arg, false);
}

/* ---- what nobody has a record of, or only the store ---- */

static void orphan_free(struct orphan *o)
{
	timer_done(&o->retry);
	free(o);
}

static void orphan_unlink(struct orphan *o)
{
	struct orphan **at = &o->set->orphans;

	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
}

static void orphan_retry(struct orphan *o)
{
	timer_in(&o->retry, o->retry_ms);
	o->retry_ms = MIN(o->retry_ms * 2, (unsigned)RETRY_MAX_MS);
}

static void orphan_end(struct orphan *o)
{
	orphan_unlink(o);
	orphan_free(o);
}

static void on_orphan_forgotten(const struct err *e, void *arg)
{
	struct orphan *o = arg;

	KILL_POINT("server.remove.forgotten");
	if (!e) {
		orphan_end(o);
		return;
	}
	log_warn("a sandbox that is gone is not forgotten yet, trying again", LOG_S("id", o->id), LOG_ERR(e));
	orphan_retry(o);
}

/* O: NULL when there is no memory for another try; then the next start does it. */
static void submit_delete(struct sandboxes *s, const char *id, struct orphan *o)
{
	struct store_tx *tx = store_tx_new();
	struct err e;

	store_tx_delete(tx, id);
	if (store_submit(s->spec.store, tx, o ? on_orphan_forgotten : NULL, o, &e) < 0 && o)
		orphan_retry(o);
}

static void on_orphan_removed(const struct runtime_failure *failure, void *arg)
{
	struct orphan *o = arg;

	if (failure) {
		log_error("a sandbox without a record could not be removed, trying again", LOG_S("id", o->id),
			  LOG_ERR(&failure->err));
		orphan_retry(o);
	} else if (o->has_record) {
		submit_delete(o->set, o->id, o);
	} else {
		log_info("a sandbox without a record was removed", LOG_S("id", o->id));
		orphan_end(o);
	}
}

static void on_orphan_due(void *arg)
{
	struct orphan *o = arg;
	struct runtime *rt = o->set->spec.runtime;

	rt->ops->remove(rt, o->id, on_orphan_removed, o);
}

bool is_orphan(const struct sandboxes *s, const char *id)
{
	const struct orphan *o = s->orphans;

	while (o && strcmp(o->id, id) != 0)
		o = o->next;
	return o;
}

static struct orphan *orphan_new(struct sandboxes *s, const char *id)
{
	struct orphan *o = calloc(1, sizeof(*o));
	struct err e;

	if (!o || !id_valid(str_of(id)) || timer_init(&o->retry, s->spec.loop, on_orphan_due, o, "orphan", &e) < 0) {
		free(o);
		return NULL;
	}
	o->set = s;
	o->retry_ms = RETRY_FIRST_MS;
	memcpy(o->id, id, strlen(id) + 1);
	o->next = s->orphans;
	s->orphans = o;
	return o;
}

void orphan_remove(struct sandboxes *s, const char *id)
{
	struct orphan *o = is_orphan(s, id) ? NULL : orphan_new(s, id);

	if (o)
		timer_in(&o->retry, 0);
	else if (!is_orphan(s, id))
		log_error("a sandbox without a record stays", LOG_S("id", id));
}

void removed_note(struct sandboxes *s, const char *id)
{
	memcpy(s->removed.ids[s->removed.n++ % REMOVED_MAX], id, strlen(id) + 1);
}

bool was_removed(const struct sandboxes *s, const char *id)
{
	for (size_t i = 0; i < s->removed.n && i < REMOVED_MAX; i++)
		if (strcmp(s->removed.ids[i], id) == 0)
			return true;
	return false;
}

/* Gone already, but for its record. */
static void orphan_forget(struct sandboxes *s, const char *id)
{
	struct orphan *o = orphan_new(s, id);

	if (o)
		o->has_record = true;
	submit_delete(s, id, o);
}

void orphans_free(struct sandboxes *s)
{
	while (s->orphans) {
		struct orphan *o = s->orphans;

		s->orphans = o->next;
		orphan_free(o);
	}
}
