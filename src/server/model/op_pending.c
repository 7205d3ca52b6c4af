// SPDX-License-Identifier: Apache-2.0
/* Creates whose image has to be fetched first. Clients give up after 30 s: whoever waits is told before that that the sandbox
 * is Pending, and from then on it is theirs: should it fail, that is its state, and no restart forgets it. */
#include "base/clock.h"
#include "base/log.h"
#include "server/model/op_create.h"

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

static void on_pending_recorded(const struct err *e, void *arg)
{
	struct create *c = arg;
	struct box *b = box_of_op(&c->op);

	if (e) {
		c->state = CREATE_MAKING;
		op_deadline(&c->op, RETRY_MS);
	} else {
		c->state = CREATE_PENDING;
		op_deadline(&c->op, SANDBOX_CREATE_MS);
		log_info("a create takes long, going on in the background", LOG_S("id", b->id));
		box_volumes_kept(b);
		KILL_POINT("server.pending.recorded");
		op_tell(&c->op, &b->pub, NULL);
		KILL_POINT("server.pending.told");
	}
	create_join(&c->op);
}

void pending_tell(struct create *c)
{
	struct box *b = box_of_op(&c->op);
	struct store_tx *tx;
	struct fault f;

	if (c->op.stored != OP_YES) {
		op_deadline(&c->op, RETRY_MS);
		return;
	}
	tx = store_tx_new();
	store_tx_state(tx, &b->pub.row);
	box_keep_volumes(b, tx); /* all are made before the image is asked for, and what was told stays */
	if (op_store(&c->op, tx, on_pending_recorded, &f) < 0)
		op_deadline(&c->op, RETRY_MS);
	else
		c->state = CREATE_TELLING_PENDING;
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

static void note_progress(struct create *c)
{
	struct box *b = box_of_op(&c->op);
	struct store_tx *tx = c->op.stored == OP_YES ? store_tx_new() : NULL;

	c->progress_ms = loop_now_ms(c->op.queue->loop);
	box_event(b, tx, EVENT_RUNTIME, "Pulling", "%s", b->message);
	if (tx)
		(void)store_submit(b->pub.set->spec.store, tx, NULL, NULL, &(struct err){ 0 }); /* the next one comes soon */
}

/* The first of all means that it may take long; callers are told so in time. Then each is a sign of life. */
static void move_deadline(struct create *c, bool is_first)
{
	uint64_t waited_ms = loop_now_ms(c->op.queue->loop) - c->begun_ms;

	if (is_first)
		op_deadline(&c->op, SANDBOX_ANSWER_MS - MIN(waited_ms, (uint64_t)SANDBOX_ANSWER_MS));
	else if (c->state == CREATE_PENDING)
		op_deadline(&c->op, SANDBOX_CREATE_MS);
}

void on_create_progress(const char *id, const struct runtime_progress *p, void *arg)
{
	const struct sandboxes *s = arg;
	struct box *b = map_get(&s->by_id, str_of(id));
	struct op *op = b ? op_current(&b->queue, &create_type) : NULL;
	struct create *c;
	bool is_first;

	if (!op || op->answered != OP_AWAITED || create_of(op)->state > CREATE_PENDING)
		return;
	c = create_of(op);
	is_first = c->progress_ms == 0;
	write_progress(b, p);
	if (is_first || loop_now_ms(s->spec.loop) - c->progress_ms >= EVENT_EVERY_MS)
		note_progress(c);
	move_deadline(c, is_first);
}

/* ---- which image it is ---- */

static void on_noted(const struct err *e, void *arg)
{
	struct create *c = arg;

	KILL_POINT("server.image.noted");
	c->notes--;
	c->is_unnoted |= e != NULL;
	if (e)
		(void)fault_of_store(&c->op.fault, e);
	create_join(&c->op);
}

static void note_digest(struct create *c, struct store_tx *tx)
{
	if (op_store(&c->op, tx, on_noted, &c->op.fault) < 0)
		c->is_unnoted = true;
	else
		c->notes++;
}

/* Names move. What it stands on is in its record before anybody is told of it, or who restores a snapshot of it after a restart
 * would find something else. */
void on_create_resolved(const char *id, const char *digest, void *arg)
{
	const struct sandboxes *s = arg;
	struct box *b = map_get(&s->by_id, str_of(id));
	struct op *create = b ? op_current(&b->queue, &create_type) : NULL;
	struct store_tx *tx;

	if (!create && !(b && op_current(&b->queue, &rollback_type)))
		return;
	if (b->pub.row.image_digest && strcmp(b->pub.row.image_digest, digest) == 0)
		return;
	box_set_digest(b, digest);
	b->pub.row.revision++;
	tx = store_tx_new();
	store_tx_spec(tx, &b->pub.row);
	if (create)
		note_digest(create_of(create), tx);
	else /* a record of before, which has gone by the name until now */
		(void)store_submit(s->spec.store, tx, NULL, NULL, &(struct err){ 0 });
}

/* ---- failing ---- */

void pending_fail(struct create *c, const char *reason, const char *message)
{
	struct box *b = box_of_op(&c->op);
	struct store_tx *tx = store_tx_new();

	box_set_state(b, SANDBOX_FAILED, reason, "%s", message);
	box_event(b, tx, EVENT_LIFECYCLE, "Failed", "%s", message);
	box_arm(b);
	op_finish(&c->op, NULL);
	box_save(b, tx);
}

void pending_interrupted(struct box *b)
{
	struct store_tx *tx = store_tx_new();

	box_set_state(b, SANDBOX_FAILED, "PROVISIONING_INTERRUPTED", "%s", INTERRUPTED);
	box_event(b, tx, EVENT_RUNTIME, "Failed", "%s", INTERRUPTED);
	box_save(b, tx);
}
