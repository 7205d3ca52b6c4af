// SPDX-License-Identifier: Apache-2.0
/* Making a sandbox: record and intent while the runtime makes it, the answer, commit. A box without a record is nobody's, and
 * the next start removes it; one with a record is told only when both are there. */
#include "server/model/op_create.h"

#include "base/buf.h"
#include "base/log.h"

#include "base/banned.h"

/* ---- admission ---- */

static int create_admit(struct sandboxes *s, struct fault *f)
{
	if (s->creates >= s->spec.creates_max)
		return fault_set(f, 429, NULL, "TOO_MANY_REQUESTS", "too many sandboxes are being created");
	if (s->by_id.n >= SANDBOXES_MAX)
		return fault_set(f, 429, "SANDBOX", "LIMIT_REACHED", "this server has %d sandboxes already", SANDBOXES_MAX);
	s->creates++;
	return 0;
}

static void create_release(struct sandboxes *s)
{
	s->creates--;
}

/* ---- the intent: the record itself ---- */

static void record_events(const struct box *b, struct store_tx *tx)
{
	for (const struct sandbox_event *ev = b->pub.oldest_event; ev && tx; ev = ev->next) {
		struct store_event se = { b->id, ev->at_us, event_scope_name(ev->scope), ev->type, ev->message };

		store_tx_event(tx, &se);
	}
}

static void create_intent(struct op *op, struct store_tx *tx)
{
	struct create *c = create_of(op);
	struct box *b = box_of_op(op);
	const struct key *k = key_find_of(b->pub.set, b->id);

	c->begun_ms = loop_now_ms(op->queue->loop);
	c->state = box_has_unmade_volumes(b) ? CREATE_RECORDING : CREATE_MAKING;
	store_tx_insert(tx, &b->pub.row);
	store_tx_intent(tx, b->id, INTENT_CREATE);
	volumes_record(b->pub.set->volumes, b->pub.row.volumes, b->pub.row.n_volumes, false, tx);
	if (k)
		key_record(k, tx);
	record_events(b, tx);
	op_deadline(op, SANDBOX_CREATE_MS);
}

/* Nothing that outlives a sandbox is made before the store knows of it: nobody else would ever miss it. */
static bool create_asks_at_once(struct op *op)
{
	return create_of(op)->state == CREATE_MAKING;
}

/* ---- asking the runtime: volumes one after the other; then the sandbox itself ---- */

static void on_created(const struct runtime_failure *failure, void *arg)
{
	struct create *c = arg;

	if (failure)
		c->failure = *failure;
	op_ran(failure, &c->op);
}

static void make_sandbox(struct create *c)
{
	struct box *b = box_of_op(&c->op);
	struct runtime *rt = box_runtime(b);
	AUTO(buf_done) struct buf record = BUF_INIT(RUNTIME_RECORD_MAX);
	struct runtime_volume volumes[VOLUMES_OF_SANDBOX_MAX];
	char token[SANDBOX_TOKEN_LEN + 1];
	const struct sandbox_row *r = &b->pub.row;
	struct runtime_spec spec = {
		.id = b->id, .image = r->image, .image_digest = r->image_digest, .entrypoint = r->entrypoint, .env = c->env.map,
		.limits = r->limits, .execd_token = token, .base = r->base, .volumes = volumes,
		.n_volumes = box_runtime_volumes(b, volumes), .os = r->os, .arch = r->arch, .username = c->username,
		.password = c->password, .network = r->network, .policy = str_of(r->policy),
	};

	b->is_record_due = !sandbox_record_write(b, &record); /* out of memory: it is sent when there is some again */
	b->record_revision = b->is_record_due ? UINT64_MAX : r->revision;
	spec.record = b->is_record_due ? STR("") : buf_str(&record);
	sandbox_token(&b->pub, "execd", token);
	rt->ops->create(rt, &spec, on_created, c);
	KILL_POINT("server.create.asked");
	secret_wipe(token, sizeof(token));
}

static void make_next(struct create *c);

static void on_volume_made(const struct runtime_failure *failure, void *arg)
{
	static const struct runtime_failure unwanted = {
		.code = "SANDBOX_START_FAILED", .status = 409,
		.err = { .code = ERR_CONFLICT, .msg = "the sandbox was removed while its volumes were being made" },
	};
	struct create *c = arg;

	KILL_POINT("server.volume.made");
	if (!failure && c->is_unwanted)
		failure = &unwanted;
	if (failure || c->state != CREATE_MAKING_VOLUMES) {
		on_created(failure, c);
		return;
	}
	c->next_volume++;
	make_next(c);
}

static void make_next(struct create *c)
{
	struct box *b = box_of_op(&c->op);
	const struct sandbox_row *r = &b->pub.row;
	struct runtime *rt = box_runtime(b);
	const struct volume *v = volumes_unmade(b->pub.set->volumes, r->volumes, r->n_volumes, &c->next_volume);

	if (v) {
		rt->ops->volume_make(rt, v->id, v->row.size_bytes, on_volume_made, c);
		return;
	}
	c->state = CREATE_MAKING;
	make_sandbox(c);
}

static void create_ask(struct op *op)
{
	struct create *c = create_of(op);

	if (c->state == CREATE_MAKING)
		make_sandbox(c);
	else
		make_next(c);
}

/* ---- it failed ---- */

/* Nobody learns of it any more, and nothing is left of it. */
static void drop_failed(struct create *c, const struct fault *f)
{
	struct box *b = box_of_op(&c->op);

	op_leave(&c->op); /* whoever waits behind it is told by the drop */
	box_drop(b);
	op_end(&c->op, NULL, f);
}

static void roll_back(struct create *c, const struct fault *f)
{
	struct box *b = box_of_op(&c->op);

	key_forget(b->pub.set, b->id);
	remove_quietly(b, false);
	op_finish(&c->op, f);
}

/* Nobody can say whether it was made: its record stays until the runtime has proven that it is gone. */
static bool is_unknown(const struct runtime_failure *failure)
{
	return failure->err.code == ERR_UNAVAILABLE || failure->err.code == ERR_TIMEOUT;
}

/* The store did not take the intent: whatever was made goes without its help. */
static void not_recorded(struct create *c)
{
	struct box *b = box_of_op(&c->op);

	if (c->op.answered == OP_YES || is_unknown(&c->failure)) {
		b->is_remove_logged = b->is_unrecorded = true;
		roll_back(c, &c->op.fault);
		return;
	}
	key_forget_of(b->pub.set, b->id, NULL);
	box_release_volumes(b, NULL);
	box_volumes_released(b);
	drop_failed(c, &c->op.fault);
}

static void on_forgotten(const struct err *e, void *arg)
{
	struct create *c = arg;

	if (e) { /* the row is still there: the removal goes on until it is not */
		roll_back(c, &c->told);
		return;
	}
	box_volumes_released(box_of_op(&c->op));
	drop_failed(c, &c->told);
}

static void forget(struct create *c)
{
	struct box *b = box_of_op(&c->op);
	struct store_tx *tx = store_tx_new();
	struct fault scratch;

	c->state = CREATE_FORGETTING;
	store_tx_delete(tx, b->id);
	box_release_volumes(b, tx);
	key_forget_of(b->pub.set, b->id, tx);
	if (op_store(&c->op, tx, on_forgotten, &scratch) < 0)
		roll_back(c, &c->told);
}

static const char *reason_of(const struct runtime_failure *failure)
{
	return strcmp(failure->code, RUNTIME_PULL_FAILED) == 0 ? "IMAGE_PULL_FAILED" : "PROVISIONING_FAILED";
}

static void not_made(struct create *c)
{
	struct box *b = box_of_op(&c->op);

	log_error("sandbox could not be created", LOG_S("id", b->id), LOG_S("failure", c->failure.code), LOG_ERR(&c->failure.err));
	(void)fault_of_runtime(&c->told, box_runtime(b), &c->failure);
	if (c->state == CREATE_PENDING) {
		if (is_unknown(&c->failure))
			orphan_remove(b->pub.set, b->id);
		pending_fail(c, reason_of(&c->failure), c->told.message);
	} else if (is_unknown(&c->failure)) {
		roll_back(c, &c->told);
	} else {
		forget(c);
	}
}

/* It runs, but its record does not say on what. */
static void not_noted(struct create *c)
{
	if (c->state != CREATE_PENDING) {
		roll_back(c, &c->op.fault);
		return;
	}
	orphan_remove(c->op.queue->set, c->op.queue->sandbox->row.id);
	pending_fail(c, "PROVISIONING_FAILED", c->op.fault.message);
}

/* ---- it runs ---- */

/* The answer comes first: the intent is in the store, and a start that finds it with a sandbox that runs goes on with that
 * one. What create_told() writes need not be waited for. */
static void it_runs(struct create *c)
{
	struct box *b = box_of_op(&c->op);

	c->state = CREATE_OVER;
	box_arm(b);
	log_info("sandbox created", LOG_S("id", b->id), LOG_S("image", b->pub.row.image));
	box_set_state(b, SANDBOX_RUNNING, "CONTAINER_RUNNING", "Sandbox container started successfully.");
	sandbox_record_send(b);
	op_succeed(&c->op);
}

static void create_told(struct op *op)
{
	struct box *b = box_of_op(op);
	struct runtime_end end = b->pub.end;
	struct store_tx *tx;

	box_set_state(b, SANDBOX_RUNNING, "CONTAINER_RUNNING", "Sandbox container is running.");
	tx = store_tx_new();
	box_event(b, tx, EVENT_LIFECYCLE, "Started", "Sandbox container started successfully.");
	if (b->pub.has_end)
		box_apply_end(b, &end, tx);
	box_save(b, tx);
	KILL_POINT("server.create.commit_queued");
}

static void on_volumes_kept(const struct err *e, void *arg)
{
	struct create *c = arg;
	struct fault f;

	if (e) {
		(void)fault_of_store(&f, e);
		roll_back(c, &f);
		return;
	}
	KILL_POINT("server.create.volumes_kept");
	box_volumes_kept(box_of_op(&c->op));
	it_runs(c);
}

/* What a loss of power must not take is written down before anybody is told: without its sandbox, which goes with the power,
 * the next start would take a volume for one of a create that never was. */
static void keep_volumes(struct create *c)
{
	struct box *b = box_of_op(&c->op);
	struct store_tx *tx;
	struct fault f;

	if (!box_has_unmade_volumes(b)) {
		it_runs(c);
		return;
	}
	c->state = CREATE_KEEPING_VOLUMES;
	tx = store_tx_new();
	box_keep_volumes(b, tx);
	if (op_store(&c->op, tx, on_volumes_kept, &f) < 0)
		roll_back(c, &f);
}

/* ---- the answers ---- */

/* It was given up before they came: what there is of it goes. */
static void end_overdue(struct create *c)
{
	struct box *b = box_of_op(&c->op);

	if (c->state == CREATE_OVERDUE_PENDING) {
		orphan_remove(b->pub.set, b->id);
		pending_fail(c, "PROVISIONING_TIMEOUT", "Sandbox was not ready in time.");
		return;
	}
	remove_quietly(b, false); /* nobody waits for it any more */
	op_finish(&c->op, NULL);
}

static void settle(struct create *c)
{
	op_no_deadline(&c->op);
	if (c->state == CREATE_OVERDUE || c->state == CREATE_OVERDUE_PENDING)
		end_overdue(c);
	else if (c->op.stored == OP_NO)
		not_recorded(c);
	else if (c->op.answered == OP_NO)
		not_made(c);
	else if (c->is_unnoted)
		not_noted(c);
	else
		keep_volumes(c);
}

/* The store and the runtime have both answered, and nothing that was asked of the store since is still to come. */
void create_join(struct op *op)
{
	struct create *c = create_of(op);
	bool is_awaited = op->stored == OP_AWAITED || op->answered == OP_AWAITED || c->notes > 0;

	if (c->state == CREATE_RECORDING && op->stored == OP_YES) {
		c->state = CREATE_MAKING_VOLUMES;
		op_ask(op);
		return;
	}
	if (!is_awaited && c->state != CREATE_TELLING_PENDING && c->state < CREATE_FORGETTING)
		settle(c);
}

/* ---- giving up ---- */

void create_cancel(struct box *b)
{
	struct op *op = op_current(&b->queue, &create_type);
	struct runtime *rt = box_runtime(b);

	if (!op || op->answered == OP_YES || op->answered == OP_NO)
		return;
	create_of(op)->is_unwanted = true; /* the runtime may not know of it yet */
	if (rt->ops->cancel)
		rt->ops->cancel(rt, b->id);
}

/* The runtime owes its completion still, and nothing else may be asked of it for this id before. */
static void create_overdue(struct op *op)
{
	struct create *c = create_of(op);
	struct box *b = box_of_op(op);
	bool is_told = c->state == CREATE_PENDING;
	struct fault f;

	if (c->progress_ms != 0 && !is_told) {
		pending_tell(c);
		return;
	}
	log_error("a create takes too long, giving it up", LOG_S("id", b->id));
	create_cancel(b);
	c->state = is_told ? CREATE_OVERDUE_PENDING : CREATE_OVERDUE;
	if (!is_told)
		key_forget(b->pub.set, b->id);
	(void)fault_set(&f, 504, box_runtime(b)->code_prefix, "SANDBOX_START_FAILED", "the sandbox was not ready in time");
	box_set_state(b, SANDBOX_FAILED, "PROVISIONING_TIMEOUT", "Sandbox was not ready in time.");
	box_save(b, NULL);
	op_tell(op, NULL, &f);
}

/* ---- after a crash ---- */

/* Once the sandbox ran, somebody may have been told. */
static bool create_recover(struct sandbox *sb, const struct runtime_box *found)
{
	struct box *b = box_of(sb);

	if (found && found->state != RUNTIME_STARTING)
		return false;
	if (pending_was_told(b)) {
		if (found)
			orphan_remove(b->pub.set, b->id);
		pending_interrupted(b);
	} else {
		key_forget(b->pub.set, b->id);
		remove_quietly(b, false);
	}
	return true;
}

static void create_free(struct op *op)
{
	struct create *c = create_of(op);

	environment_wipe(&c->env);
	if (c->username)
		secret_wipe((void *)(uintptr_t)c->username, strlen(c->username));
	if (c->password)
		secret_wipe((void *)(uintptr_t)c->password, strlen(c->password));
	arena_done(&c->arena);
}

const struct op_type create_type = {
	.name = "create", .size = sizeof(struct create),
	.admit = create_admit,
	.release = create_release,
	.intent = create_intent,
	.asks_at_once = create_asks_at_once,
	.ask = create_ask,
	.join = create_join,
	.told = create_told,
	.overdue = create_overdue,
	.recover = create_recover,
	.free = create_free,
	.points = {
		[OP_AT_INTENT_QUEUED] = KILL_POINT_NAME("server.create.intent_queued"),
		[OP_AT_INTENT_COMMITTED] = KILL_POINT_NAME("server.create.intent_committed"),
		[OP_AT_ANSWERED] = KILL_POINT_NAME("server.create.made"),
		[OP_AT_TOLD] = KILL_POINT_NAME("server.create.told"),
	},
};
