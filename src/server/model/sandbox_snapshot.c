// SPDX-License-Identifier: Apache-2.0
/* What a sandbox has as a layer, and a sandbox put back on such a layer. */
#include <stdio.h>

#include "access/policy.h"
#include "base/buf.h"
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

#define ROLLING_BACK "CONTAINER_ROLLING_BACK"
#define ROLLING_BACK_SAYS "Sandbox is being rolled back to a snapshot."
#define TRIES 5 /* of a rollback, while the runtime is away */

/* ---- a layer of what it has ---- */

static void on_snapped(const struct runtime_snapshot *made, const struct runtime_failure *failure, void *arg)
{
	struct box *b = arg;
	struct store_tx *tx;
	struct fault f;

	KILL_POINT("server.snapshot.made");
	if (failure) {
		log_error("a snapshot could not be taken", LOG_S("id", b->id), LOG_ERR(&failure->err));
		(void)fault_of_runtime(&f, b->pub.set->spec.runtime, failure);
		if (failure->err.code == ERR_TIMEOUT)
			f.status = 504;
		task_finish(b, &f);
		return;
	}
	b->pub.made = *made;
	tx = store_tx_new();
	box_event(b, tx, EVENT_LIFECYCLE, "Snapshot", "A snapshot was taken: written back in %llu us, stood still for %llu us.",
		  (unsigned long long)made->flush_us, (unsigned long long)made->frozen_us);
	(void)store_submit(b->pub.set->spec.store, tx, NULL, NULL, &(struct err){ 0 }); /* an event alone may be lost */
	task_finish(b, NULL);
}

void snapshot_begin(struct box *b, struct task *t)
{
	struct runtime *rt = b->pub.set->spec.runtime;
	struct fault f;

	if (b->pub.row.state != SANDBOX_RUNNING && b->pub.row.state != SANDBOX_PAUSED) {
		(void)fault_set(&f, 409, "SNAPSHOT", "INVALID_SOURCE_STATE", "sandbox '%s' is %s, neither Running nor Paused", b->id,
				sandbox_state_name(b->pub.row.state));
		task_finish(b, &f);
		return;
	}
	rt->ops->snapshot(rt, b->id, t->base, on_snapped, b);
	KILL_POINT("server.snapshot.asked");
}

int sandbox_snapshot(struct sandbox *sb, const char *reference, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct task t = { .kind = TASK_SNAPSHOT, .fn = fn, .arg = arg, .arena = ARENA_INIT(BOX_ARENA_MAX) };

	t.base = arena_dup(&t.arena, str_of(reference));
	if (t.base && task_add(box_of(sb), &t, f) == 0)
		return 0;
	if (!t.base)
		(void)fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	task_done(&t);
	return -1;
}

/* ---- what it may reach ---- */

/* Nobody keeps one for what has ended long ago: then the record has the last that is known. */
static bool policy_is_unknown(const struct box *b, const struct runtime_failure *failure, struct fault *f)
{
	if (!failure || failure->err.code == ERR_NOT_FOUND)
		return false;
	log_warn("a policy cannot be read", LOG_S("id", b->id), LOG_ERR(&failure->err));
	(void)fault_of_runtime(f, b->pub.set->spec.runtime, failure);
	return true;
}

/* Whether TEXT says anything that its network does not say. */
static bool is_own_policy(const struct box *b, struct str text)
{
	AUTO(policy_free) struct policy *p = NULL;

	if (b->pub.row.network == RUNTIME_NET_POLICY)
		return true;
	p = policy_parse(text, POLICY_RULES_MAX, &(struct err){ 0 });
	return !p || strcmp(policy_mode(p), "allow_all") != 0;
}

/* The record has it as well, from now on. Should the store not take it, egress has it still. */
static void keep_policy(struct box *b, struct str text)
{
	const struct sandbox_row *r = &b->pub.row;
	struct box_stack stack = { r->snapshot, r->base, RUNTIME_NET_POLICY, NULL };
	struct arena a = ARENA_INIT(BOX_ARENA_MAX);
	struct store_tx *tx;

	stack.policy = arena_dup(&a, text);
	if (stack.policy && (!r->policy || strcmp(r->policy, stack.policy) != 0) && box_set_stack(b, &stack, &(struct err){ 0 }) == 0) {
		tx = store_tx_new();
		store_tx_spec(tx, r);
		(void)store_submit(b->pub.set->spec.store, tx, NULL, NULL, &(struct err){ 0 });
		sandbox_record_changed(b);
	}
	arena_done(&a);
}

static void on_policy(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg)
{
	struct box *b = arg;
	struct fault f;

	(void)is_cut;
	if (policy_is_unknown(b, failure, &f)) {
		task_finish(b, &f);
		return;
	}
	b->pub.policy_now = failure || !is_own_policy(b, text) ? (struct str){ 0 } : text;
	if (b->pub.policy_now.n > 0)
		keep_policy(b, text);
	task_finish(b, NULL);
}

void policy_begin(struct box *b)
{
	struct runtime *rt = b->pub.set->spec.runtime;

	b->pub.policy_now = (struct str){ 0 };
	if (b->pub.row.network != RUNTIME_NET_NONE && rt->ops->policy)
		rt->ops->policy(rt, b->id, on_policy, b);
	else
		task_finish(b, NULL);
}

int sandbox_read_policy(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f)
{
	return task_add(box_of(sb), &(struct task){ .kind = TASK_POLICY, .fn = fn, .arg = arg }, f);
}

/* ---- back on one: the intent with the new stack, removed, made, committed ---- */

static void rollback_failed(struct box *b, const struct fault *f)
{
	struct store_tx *tx = store_tx_new();

	box_set_state(b, SANDBOX_FAILED, "ROLLBACK_FAILED", "Sandbox could not be rolled back: %s.", f->message);
	box_event(b, tx, EVENT_LIFECYCLE, "Failed", "%s", b->message);
	b->is_busy = false; /* so that the intent goes with what is saved */
	box_save(b, tx);
	b->is_busy = true;
	task_finish(b, f);
}

/* The runtime was away: what came of the call nobody knows, and both can be asked for once more. */
static bool try_again(struct box *b, const struct runtime_failure *failure)
{
	bool is_away = failure->err.code == ERR_UNAVAILABLE || failure->err.code == ERR_TIMEOUT;

	if (!is_away || b->first->n_tries++ >= TRIES)
		return false;
	log_warn("a rollback is tried again", LOG_S("id", b->id), LOG_ERR(&failure->err));
	timer_in(&b->watchdog, RETRY_FIRST_MS);
	return true;
}

static void on_back(const struct err *e, void *arg)
{
	struct box *b = arg;
	struct runtime_end end = b->pub.end;
	struct store_tx *tx;

	if (e) { /* it runs all the same; the record follows */
		b->is_dirty = true;
		timer_in(&b->pub.set->flush, 0);
	}
	KILL_POINT("server.rollback.committed");
	log_info("sandbox rolled back", LOG_S("id", b->id), LOG_S("snapshot", b->pub.row.snapshot));
	task_finish(b, NULL);
	KILL_POINT("server.rollback.told");
	if (!b->pub.has_end)
		return;
	tx = store_tx_new();
	box_apply_end(b, &end, tx);
	box_save(b, tx);
}

static void on_made(const struct runtime_failure *failure, void *arg)
{
	struct box *b = arg;
	struct store_tx *tx;
	struct fault f;

	KILL_POINT("server.rollback.made");
	if (failure && try_again(b, failure))
		return;
	if (failure) {
		log_error("sandbox could not be rolled back", LOG_S("id", b->id), LOG_ERR(&failure->err));
		(void)fault_of_runtime(&f, b->pub.set->spec.runtime, failure);
		rollback_failed(b, &f);
		return;
	}
	tx = store_tx_new();
	box_set_state(b, SANDBOX_RUNNING, "CONTAINER_RUNNING", "Sandbox container is running.");
	sandbox_record_send(b);
	box_event(b, tx, EVENT_LIFECYCLE, "RolledBack", "Sandbox was rolled back to snapshot '%s'.", b->pub.row.snapshot);
	store_tx_state(tx, &b->pub.row);
	store_tx_intent(tx, b->id, INTENT_NONE);
	if (box_submit(b, tx, on_back, &f) < 0)
		on_back(&(struct err){ .code = ERR_UNAVAILABLE }, b);
}

/* What the old one told about its end is past. */
static void on_gone(const struct runtime_failure *failure, void *arg)
{
	struct box *b = arg;
	struct runtime *rt = b->pub.set->spec.runtime;
	AUTO(buf_done) struct buf record = BUF_INIT(RUNTIME_RECORD_MAX);
	struct runtime_volume volumes[VOLUMES_OF_SANDBOX_MAX];
	char token[SANDBOX_TOKEN_LEN + 1];
	struct runtime_spec spec = {
		.id = b->id, .image = b->pub.row.image, .image_digest = b->pub.row.image_digest, .entrypoint = b->pub.row.entrypoint, .env = b->first->env,
		.limits = b->pub.row.limits, .execd_token = token, .base = b->pub.row.base, .volumes = volumes,
		.n_volumes = box_runtime_volumes(b, volumes),
		.network = b->pub.row.network, .policy = str_of(b->pub.row.policy),
	};
	struct fault f;

	KILL_POINT("server.rollback.gone");
	if (failure && try_again(b, failure))
		return;
	if (failure) {
		(void)fault_of_runtime(&f, rt, failure);
		rollback_failed(b, &f);
		return;
	}
	b->pub.has_end = false;
	if (!sandbox_record_write(b, &record)) {
		(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "out of memory");
		rollback_failed(b, &f);
		return;
	}
	spec.record = buf_str(&record);
	b->record_revision = b->pub.row.revision;
	sandbox_token(&b->pub, "execd", token);
	rt->ops->create(rt, &spec, on_made, b);
	secret_wipe(token, sizeof(token));
}

void rollback_go_on(struct box *b)
{
	struct runtime *rt = b->pub.set->spec.runtime;

	rt->ops->remove(rt, b->id, on_gone, b);
}

/* A policy that was given to it since is its own from now on. */
static enum runtime_network network_of(const struct box *b, const struct task *t)
{
	return t->policy ? RUNTIME_NET_POLICY : b->pub.row.network;
}

static const char *policy_of(const struct box *b, const struct task *t)
{
	return t->policy ? t->policy : b->pub.row.policy;
}

/* Until now it is as it was, also for those who ask. */
static void on_noted(const struct err *e, void *arg)
{
	struct box *b = arg;
	const struct task *t = b->first;
	const struct box_stack stack = { t->snapshot, t->base, network_of(b, t), policy_of(b, t) };
	struct err scratch;
	struct fault f;

	if (e) {
		(void)fault_of_store(&f, e);
		task_finish(b, &f);
		return;
	}
	KILL_POINT("server.rollback.noted");
	if (!t->is_again && box_set_stack(b, &stack, &scratch) < 0) {
		(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "out of memory");
		rollback_failed(b, &f);
		return;
	}
	b->pub.row.revision++;
	box_set_state(b, SANDBOX_PENDING, ROLLING_BACK, "%s", ROLLING_BACK_SAYS);
	if (b->pub.set->spec.gone)
		b->pub.set->spec.gone(&b->pub, b->pub.set->spec.gone_arg); /* connections into the old one */
	rollback_go_on(b);
}

static bool can_be_rolled_back(const struct box *b)
{
	enum sandbox_state s = b->pub.row.state;

	return s == SANDBOX_RUNNING || s == SANDBOX_PAUSED || s == SANDBOX_TERMINATED || s == SANDBOX_FAILED;
}

static void note(struct box *b)
{
	struct task *t = b->first;
	struct sandbox_row next = b->pub.row;
	struct store_tx *tx;
	struct fault f;

	if (!t->is_again) {
		next.snapshot = t->snapshot;
		next.base = t->base;
		next.network = network_of(b, t);
		next.policy = policy_of(b, t);
	}
	next.state = SANDBOX_PENDING;
	next.reason = ROLLING_BACK;
	next.message = ROLLING_BACK_SAYS;
	tx = store_tx_new();
	store_tx_state(tx, &next);
	store_tx_spec(tx, &next);
	store_tx_intent(tx, b->id, INTENT_ROLLBACK);
	if (box_submit(b, tx, on_noted, &f) < 0)
		task_finish(b, &f);
	KILL_POINT("server.rollback.queued");
}

/* Its policy goes with the old one, so it is kept before that begins. */
static void on_policy_to_keep(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg)
{
	struct box *b = arg;
	struct task *t = b->first;
	struct fault f;

	(void)is_cut;
	if (policy_is_unknown(b, failure, &f)) {
		task_finish(b, &f);
		return;
	}
	if (!failure && is_own_policy(b, text)) {
		t->policy = arena_dup(&t->arena, text);
		if (!t->policy) {
			(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "out of memory");
			task_finish(b, &f);
			return;
		}
	}
	note(b);
}

void rollback_begin(struct box *b, struct task *t)
{
	struct runtime *rt = b->pub.set->spec.runtime;
	struct fault f;

	if (!t->is_again && !can_be_rolled_back(b)) {
		(void)fault_set(&f, 409, b->pub.set->spec.runtime->code_prefix, "SANDBOX_NOT_RUNNING", "sandbox '%s' is %s", b->id,
				sandbox_state_name(b->pub.row.state));
		task_finish(b, &f);
		return;
	}
	if (box_check_volumes(b, &f) < 0) {
		if (t->is_again)
			rollback_failed(b, &f);
		else
			task_finish(b, &f);
		return;
	}
	if (!t->is_again && b->pub.row.network != RUNTIME_NET_NONE && rt->ops->policy)
		rt->ops->policy(rt, b->id, on_policy_to_keep, b);
	else
		note(b);
}

void rollback_again(struct box *b)
{
	struct fault f;

	box_event(b, NULL, EVENT_LIFECYCLE, "RolledBack", "A rollback was cut off and is done again, without environment.");
	if (task_add(b, &(struct task){ .kind = TASK_ROLLBACK, .is_again = true }, &f) < 0)
		log_error("a rollback that was cut off stays so", LOG_S("id", b->id), LOG_S("failure", f.message));
}

int sandbox_rollback(struct sandbox *sb, const char *snapshot, const char *reference, const struct string_map *env,
		     sandbox_fn *fn, void *arg, struct fault *f)
{
	struct task t = { .kind = TASK_ROLLBACK, .fn = fn, .arg = arg, .arena = ARENA_INIT(BOX_ARENA_MAX) };

	(void)snprintf(t.snapshot, sizeof(t.snapshot), "%s", snapshot); /* an id */
	t.base = reference ? arena_dup(&t.arena, str_of(reference)) : NULL;
	if ((reference && !t.base) || task_copy_env(&t, env, &t.env_names) < 0) {
		task_done(&t);
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	}
	if (task_add(box_of(sb), &t, f) == 0)
		return 0;
	task_done(&t);
	return -1;
}

/* ---- who stands on what ---- */

bool sandboxes_have_snapshot(const struct sandboxes *s, const char *id)
{
	for (const struct sandbox *sb = s->newest; sb; sb = sb->older)
		if (sb->row.snapshot && strcmp(sb->row.snapshot, id) == 0)
			return true;
	return false;
}

bool sandboxes_have_image(const struct sandboxes *s, const char *digest)
{
	for (const struct sandbox *sb = s->newest; sb; sb = sb->older)
		if (sb->row.image_digest && strcmp(sb->row.image_digest, digest) == 0)
			return true;
	return false;
}

void sandboxes_each_reference(const struct sandboxes *s, runtime_reference_fn *fn, void *arg)
{
	for (struct sandbox *sb = s->newest; sb; sb = sb->older) {
		if (sb->row.base)
			fn(sb->row.base, arg);
		for (const struct task *t = box_of(sb)->first; t; t = t->next)
			if (t->base)
				fn(t->base, arg);
	}
}
