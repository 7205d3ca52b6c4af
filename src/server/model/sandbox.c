// SPDX-License-Identifier: Apache-2.0
/* The set: saving, ends, and who stands on what. */
#include "server/model/sandbox.h"

#include "base/clock.h"
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

#define FLUSH_MS 2000

/* ---- saving without anybody waiting for it ---- */

static void on_saved(const struct err *e, void *arg)
{
	struct sandboxes *s = arg;

	if (e) /* somebody's state is not written: the next round finds out whose */
		timer_in(&s->flush, FLUSH_MS);
}

static void save_marked(const struct err *e, void *arg)
{
	struct box *b = arg;

	b->is_saving = false;
	if (e)
		b->is_dirty = true;
	on_saved(e, b->pub.set);
}

static void save(struct box *b, struct store_tx *tx, bool ends_intent)
{
	struct sandboxes *s = b->pub.set;
	struct err e = { 0 };

	if (b->pub.row.state == SANDBOX_STOPPING) { /* its removal writes all that is left to write */
		store_tx_free(tx);
		b->is_dirty = false;
		return;
	}
	if (b->is_saving) { /* what is on its way is old already */
		b->is_dirty = true;
		if (tx)
			(void)store_submit(s->spec.store, tx, NULL, NULL, &e); /* events alone may be lost */
		timer_in(&s->flush, 0);
		return;
	}
	if (!tx)
		tx = store_tx_new();
	store_tx_state(tx, &b->pub.row);
	if (ends_intent)
		store_tx_intent(tx, b->id, INTENT_NONE);
	b->is_dirty = false;
	b->is_saving = true;
	if (store_submit(s->spec.store, tx, save_marked, b, &e) < 0)
		save_marked(&e, b);
}

void box_save(struct box *b, struct store_tx *tx)
{
	save(b, tx, !b->queue.is_busy);
}

void box_save_last(struct box *b, struct store_tx *tx)
{
	save(b, tx, true);
}

void box_lags(struct box *b)
{
	b->is_dirty = true;
	timer_in(&b->pub.set->flush, 0);
}

static void on_flush(void *arg)
{
	struct sandboxes *s = arg;

	for (struct sandbox *sb = s->newest; sb; sb = sb->older) {
		struct box *b = box_of(sb);

		if (b->is_record_due)
			sandbox_record_send(b);
		if (b->is_dirty && !b->is_saving)
			box_save(b, NULL);
		else if (b->is_dirty)
			timer_in(&s->flush, FLUSH_MS);
	}
}

/* ---- ends ---- */

void box_apply_end(struct box *b, const struct runtime_end *end, struct store_tx *tx)
{
	const char *oom = end->oom ? " Memory ran out." : "";

	b->pub.has_end = true;
	b->pub.end = *end;
	switch (end->reason) {
	case RUNTIME_END_EXITED:
		if (end->exit_code == 0)
			box_set_state(b, SANDBOX_TERMINATED, "CONTAINER_EXITED", "Sandbox container exited successfully.");
		else
			box_set_state(b, SANDBOX_FAILED, "CONTAINER_EXITED_ERROR", "Sandbox container exited with code %d.%s",
				      end->exit_code, oom);
		break;
	case RUNTIME_END_INIT:
		box_set_state(b, SANDBOX_FAILED, "CONTAINER_INIT_DIED", "The sandbox's own daemon died.%s", oom);
		break;
	case RUNTIME_END_KILLED:
		box_set_state(b, SANDBOX_FAILED, "CONTAINER_KILLED", "Sandbox was killed from outside.%s", oom);
		break;
	case RUNTIME_END_LOST:
		box_set_state(b, SANDBOX_FAILED, LOST_REASON, "Sandbox is gone and left no trace.");
		break;
	}
	if (end->oom)
		box_event(b, tx, EVENT_CONTAINER, "OutOfMemory", "Memory ran out.");
	box_event(b, tx, EVENT_CONTAINER, b->pub.row.state == SANDBOX_FAILED ? "Failed" : "Exited", "%s", b->message);
	log_info("sandbox ended", LOG_S("id", b->id), LOG_S("reason", b->reason), LOG_D("exit_code", end->exit_code),
		 LOG_B("oom", end->oom));
	if (b->pub.set->spec.ended)
		b->pub.set->spec.ended(&b->pub, b->pub.set->spec.gone_arg);
}

static void on_ended(const char *id, const struct runtime_end *end, void *arg)
{
	struct sandboxes *s = arg;
	struct box *b = map_get(&s->by_id, str_of(id));
	struct store_tx *tx;

	if (!b || b->pub.has_end)
		return;
	/* Between its start and the commit: first things first. While it is removed: it matters only if that fails. */
	if (b->pub.row.state == SANDBOX_PENDING || b->pub.row.state == SANDBOX_STOPPING) {
		b->pub.has_end = true;
		b->pub.end = *end;
		return;
	}
	KILL_POINT("server.end.told");
	tx = store_tx_new();
	box_apply_end(b, end, tx);
	box_save(b, tx);
	KILL_POINT("server.end.queued");
}

void box_drop(struct box *b)
{
	struct sandboxes *s = b->pub.set;
	struct fault gone;

	(void)fault_set(&gone, 404, s->spec.runtime->code_prefix, "SANDBOX_NOT_FOUND", "sandbox '%s' not found", b->id);
	if (s->spec.gone)
		s->spec.gone(&b->pub, s->spec.gone_arg);
	box_unlink(b);
	removed_note(s, b->id);
	op_queue_end(&b->queue, NULL, &gone);
	box_free(b);
}

/* ---- the set ---- */

static int64_t real_wall_us(void *arg)
{
	(void)arg;
	return clock_wall_us();
}

struct sandbox *sandboxes_find_any(const struct sandboxes *s, struct str id)
{
	struct box *b = id_valid(id) ? map_get(&s->by_id, id) : NULL;

	return b ? &b->pub : NULL;
}

struct sandbox *sandboxes_find(const struct sandboxes *s, struct str id)
{
	struct sandbox *sb = sandboxes_find_any(s, id);

	return sb && !sb->row.is_idle ? sb : NULL;
}

struct sandbox *sandboxes_newest(const struct sandboxes *s)
{
	return s->newest;
}

size_t sandboxes_count_owned(const struct sandboxes *s)
{
	return s->by_id.n - s->n_idle;
}

unsigned sandboxes_creating(const struct sandboxes *s)
{
	return s->creates;
}

struct volumes *sandboxes_volumes(const struct sandboxes *s)
{
	return s->volumes;
}

int64_t sandboxes_wall_us(const struct sandboxes *s)
{
	return s->spec.wall_us(s->spec.wall_arg);
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
		LIST_EACH (struct op, op, &box_of(sb)->queue.ops, at)
			if (op->type == &rollback_type)
				rollback_each_reference(op, fn, arg);
	}
}

/* ---- its life ---- */

void sandboxes_free(struct sandboxes *s)
{
	struct sandbox *sb;
	struct fault stops;

	if (!s)
		return;
	(void)fault_set(&stops, 503, NULL, "UNAVAILABLE", "the server is stopping");
	while ((sb = s->newest)) {
		if (s->spec.gone)
			s->spec.gone(sb, s->spec.gone_arg);
		box_unlink(box_of(sb));
		op_queue_end(&box_of(sb)->queue, &stops, &stops);
		box_free(box_of(sb));
	}
	orphans_free(s);
	sandbox_records_free(s);
	recovery_free(s);
	volumes_free(s->volumes);
	keys_free(s);
	map_done(&s->by_id);
	timer_done(&s->flush);
	timer_done(&s->sweep);
	timer_done(&s->compare);
	random_pool_done(&s->random);
	secret_wipe(s->secret, sizeof(s->secret));
	free(s);
}

static void on_denied(const struct runtime_denial *d, void *arg)
{
	const struct sandboxes *s = arg;

	if (s->spec.denied)
		s->spec.denied(d, s->spec.gone_arg);
}

struct sandboxes *sandboxes_new(const struct sandboxes_spec *spec, enum store_fault *ret_fault, struct err *e)
{
	static const struct runtime_events events = { .ended = on_ended, .denied = on_denied, .returned = sandboxes_compare, .changed = sandboxes_changed,
						      .resolved = on_create_resolved, .progress = on_create_progress };
	AUTO(sandboxes_free) struct sandboxes *s = calloc(1, sizeof(*s));
	struct volumes_spec volumes = { .loop = spec->loop, .runtime = spec->runtime, .store = spec->store,
					.wall_us = spec->wall_us ? spec->wall_us : real_wall_us, .wall_arg = spec->wall_arg };

	*ret_fault = STORE_FAILED;
	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	s->spec = *spec;
	if (!s->spec.wall_us)
		s->spec.wall_us = real_wall_us;
	volumes.random = &s->random;
	s->volumes = volumes_new(&volumes, e);
	if (!s->volumes)
		return NULL;
	if (timer_init(&s->flush, spec->loop, on_flush, s, "sandbox states", e) < 0 ||
	    timer_init(&s->sweep, spec->loop, keys_sweep, s, "idempotency keys", e) < 0 ||
	    timer_init(&s->compare, spec->loop, sandboxes_compare, s, "comparing with the runtime", e) < 0 ||
	    sandboxes_load(s, ret_fault, e) < 0 || store_start(spec->store, spec->loop, e) < 0)
		return NULL;
	timer_in(&s->sweep, SWEEP_MS);
	spec->runtime->events = &events;
	spec->runtime->events_arg = s;
	return take_ptr(&s);
}
