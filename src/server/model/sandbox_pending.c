// SPDX-License-Identifier: Apache-2.0
/* Creates whose image has to be fetched first. Clients give up after 30 s: whoever waits is told before that that the sandbox
 * is Pending, and from then on it is theirs: should it fail, that is its state, and no restart forgets it. */
#include "base/clock.h"
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

#define EVENT_EVERY_MS 5000
#define RETRY_MS 200
#define INTERRUPTED "The server was restarted while the image was being pulled."

bool pending_was_told(const struct box *b)
{
	return b->pub.row.intent == INTENT_CREATE && b->pub.row.state == SANDBOX_PENDING &&
	       strcmp(b->pub.row.reason, PENDING_REASON) == 0;
}

/* ---- telling ---- */

static void tell(struct box *b, struct task *t)
{
	sandbox_fn *fn = take_ptr(&t->fn);
	struct waiter *waiters = take_ptr(&t->waiters);

	t->is_told = true;
	if (fn)
		fn(&b->pub, NULL, t->arg);
	while (waiters) {
		struct waiter *w = waiters;

		waiters = w->next;
		w->fn(&b->pub, NULL, w->arg);
		free(w);
	}
}

static void on_recorded(const struct err *e, void *arg)
{
	struct box *b = arg;
	struct task *t = b->first;

	t->is_recording = false;
	if (e) {
		timer_in(&b->watchdog, RETRY_MS);
	} else {
		timer_in(&b->watchdog, SANDBOX_CREATE_MS);
		log_info("a create takes long, going on in the background", LOG_S("id", b->id));
		box_volumes_kept(b);
		KILL_POINT("server.pending.recorded");
		tell(b, t);
		KILL_POINT("server.pending.told");
	}
	create_join(b);
}

void pending_tell(struct box *b)
{
	struct task *t = b->first;
	struct store_tx *tx;
	struct fault f;

	if (!t->is_logged || t->is_refused) {
		timer_in(&b->watchdog, RETRY_MS);
		return;
	}
	tx = store_tx_new();
	store_tx_state(tx, &b->pub.row);
	box_keep_volumes(b, tx); /* all are made before the image is asked for, and what was told stays */
	if (box_submit(b, tx, on_recorded, &f) < 0)
		timer_in(&b->watchdog, RETRY_MS);
	else
		t->is_recording = true;
}

/* ---- progress ---- */

static void write_progress(struct box *b, const struct runtime_progress *p)
{
	if (p->total == 0)
		box_set_state(b, SANDBOX_PENDING, PENDING_REASON, "The image is being pulled: %s.", p->phase);
	else
		box_set_state(b, SANDBOX_PENDING, PENDING_REASON,
			      "The image is being pulled: %s, %u%% (%llu of %llu bytes), %u of %u layers.", p->phase,
			      (unsigned)((double)MIN(p->bytes, p->total) * 100 / (double)p->total), (unsigned long long)p->bytes,
			      (unsigned long long)p->total, p->layers_done, p->layers);
}

static void note_progress(struct box *b, struct task *t)
{
	struct store_tx *tx = t->is_logged && !t->is_refused ? store_tx_new() : NULL;
	uint64_t now = loop_now_ms(b->pub.set->spec.loop);

	t->progress_ms = now;
	box_event(b, tx, EVENT_RUNTIME, "Pulling", "%s", b->message);
	if (tx)
		(void)store_submit(b->pub.set->spec.store, tx, NULL, NULL, &(struct err){ 0 }); /* the next one comes soon */
}

void on_create_progress(const char *id, const struct runtime_progress *p, void *arg)
{
	const struct sandboxes *s = arg;
	struct box *b = map_get(&s->by_id, str_of(id));
	struct task *t = b ? b->first : NULL;
	uint64_t now = loop_now_ms(s->spec.loop);

	if (!t || t->kind != TASK_CREATE || !b->is_busy || t->is_made || t->is_overdue)
		return;
	write_progress(b, p);
	if (t->progress_ms == 0 || now - t->progress_ms >= EVENT_EVERY_MS)
		note_progress(b, t);
	if (!t->is_pulling)
		timer_in(&b->watchdog, SANDBOX_ANSWER_MS - MIN(now - t->begun_ms, (uint64_t)SANDBOX_ANSWER_MS));
	else if (t->is_told)
		timer_in(&b->watchdog, SANDBOX_CREATE_MS);
	t->is_pulling = true;
}

/* ---- which image it is ---- */

static void on_noted(const struct err *e, void *arg)
{
	struct box *b = arg;
	struct task *t = b->first;

	KILL_POINT("server.image.noted");
	t->noting--;
	t->is_unnoted |= e != NULL;
	if (e)
		(void)fault_of_store(&t->failure, e);
	create_join(b);
}

/* Names move. What it stands on is in its record before anybody is told of it, or who restores a snapshot of it after a restart
 * would find something else. */
void on_create_resolved(const char *id, const char *digest, void *arg)
{
	const struct sandboxes *s = arg;
	struct box *b = map_get(&s->by_id, str_of(id));
	struct task *t = b && b->is_busy ? b->first : NULL;
	struct store_tx *tx;

	if (!t || (t->kind != TASK_CREATE && t->kind != TASK_ROLLBACK) ||
	    (b->pub.row.image_digest && strcmp(b->pub.row.image_digest, digest) == 0))
		return;
	box_set_digest(b, digest);
	b->pub.row.revision++;
	tx = store_tx_new();
	store_tx_spec(tx, &b->pub.row);
	if (t->kind == TASK_ROLLBACK) /* a record of before, which has gone by the name until now */
		(void)store_submit(s->spec.store, tx, NULL, NULL, &(struct err){ 0 });
	else if (box_submit(b, tx, on_noted, &t->failure) < 0)
		t->is_unnoted = true;
	else
		t->noting++;
}

/* ---- failing ---- */

void pending_fail(struct box *b, const char *reason, const char *message)
{
	struct store_tx *tx = store_tx_new();

	b->pub.set->creates--;
	timer_cancel(&b->watchdog);
	box_set_state(b, SANDBOX_FAILED, reason, "%s", message);
	box_event(b, tx, EVENT_LIFECYCLE, "Failed", "%s", message);
	box_arm(b);
	task_finish(b, NULL);
	box_save(b, tx);
}

void pending_interrupted(struct box *b)
{
	struct store_tx *tx = store_tx_new();

	box_set_state(b, SANDBOX_FAILED, "PROVISIONING_INTERRUPTED", "%s", INTERRUPTED);
	box_event(b, tx, EVENT_RUNTIME, "Failed", "%s", INTERRUPTED);
	box_save(b, tx);
}
