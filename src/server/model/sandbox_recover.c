// SPDX-License-Identifier: Apache-2.0
/* After a start: the records, and what the runtime really has. */
#include <stdlib.h>

#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

/* ---- loading ---- */

struct box *box_load(struct sandboxes *s, const struct sandbox_row *row, struct err *e)
{
	struct arena places = ARENA_INIT(BOX_ARENA_MAX);
	struct row_volume volumes[VOLUMES_OF_SANDBOX_MAX];
	struct sandbox_row now = *row;
	struct box *b;

	for (size_t i = 0; i < row->n_volumes && i < ARRAY_LEN(volumes); i++) {
		volumes[i] = row->volumes[i];
		volume_find_place(&volumes[i], s->spec.host_paths, &places);
	}
	now.volumes = volumes;
	b = box_new(s, &now, e);
	arena_done(&places);
	if (!b)
		return NULL;
	b->record_revision = UINT64_MAX; /* nobody knows yet */
	if (box_link(b, e) == 0)
		return b;
	box_free(b);
	return NULL;
}

static int load_sandbox(const struct sandbox_row *row, void *arg, struct err *e)
{
	struct sandboxes *s = arg;
	struct box *b = box_load(s, row, e);

	if (!b)
		return -1;
	volumes_count_user(s->volumes, b->pub.row.volumes, b->pub.row.n_volumes);
	return 0;
}

static int load_volume(const struct volume_row *row, void *arg, struct err *e)
{
	struct sandboxes *s = arg;

	return volumes_load(s->volumes, row, e);
}

static int load_event(const struct store_event *ev, void *arg, struct err *e)
{
	struct sandboxes *s = arg;
	struct box *b = map_get(&s->by_id, str_of(ev->sandbox_id));
	enum event_scope scope;

	if (!b)
		return 0;
	if (!event_scope_parse(str_of(ev->scope), &scope))
		return err_set(e, ERR_INVALID, "sandbox '%s': an event of no known scope", b->id);
	if (box_add_event(b, ev->at_us, scope, event_type_known(str_of(ev->type)), ev->message) < 0)
		return err_no_memory(e);
	return 0;
}

static int load_key(const struct store_key *key, void *arg, struct err *e)
{
	struct sandboxes *s = arg;
	struct key k = { .expires_us = key->expires_us };
	size_t n = strlen(key->sandbox_id);

	if (!id_valid(str_of(key->sandbox_id)) || key->key.n != SHA256_HEX_LEN)
		return err_set(e, ERR_INVALID, "an idempotency key that cannot be");
	memcpy(k.hex, key->key.p, SHA256_HEX_LEN);
	memcpy(k.body, key->body, sizeof(k.body));
	memcpy(k.sandbox_id, key->sandbox_id, n + 1);
	return key_add(s, &k, e);
}

static int load_member(const char *sandbox_id, const char *pool_id, bool is_idle, void *arg, struct err *e)
{
	struct sandboxes *s = arg;
	struct box *b = map_get(&s->by_id, str_of(sandbox_id));

	if (!b || !id_valid(str_of(pool_id)))
		return err_set(e, ERR_INVALID, "sandbox '%.64s': a place in a pool that cannot be", sandbox_id);
	memcpy(b->pool, pool_id, strlen(pool_id) + 1);
	box_set_idle(b, is_idle);
	return 0;
}

/* The boot of the records is that of the last start: sandboxes do not outlive the host they are on. */
static int load_boot(struct sandboxes *s, struct err *e)
{
	struct str now = str_of(s->spec.boot_id);
	char value[STORE_META_MAX];
	size_t n;

	if (store_meta_get(s->spec.store, "boot_id", value, &n, e) < 0)
		return -1;
	s->is_new = n == 0;
	s->is_new_boot = n > 0 && !str_eq((struct str){ value, n }, now);
	return 0;
}

/* What went with the sandboxes' records cannot be read from any copy. */
static void tell_loss(const struct sandboxes *s)
{
	uint64_t n = store_was_behind(s->spec.store);

	if (n > 1) /* one is a kill between two commits */
		log_error("the database had gone back: events and idempotency keys since then are lost", LOG_U("changes", n));
}

int sandboxes_load(struct sandboxes *s, enum store_fault *ret_fault, struct err *e)
{
	static const struct store_reader reader = { .volume = load_volume, .sandbox = load_sandbox, .event = load_event,
						     .key = load_key, .member = load_member };

	tell_loss(s);
	if (store_secret(s->spec.store, s->secret, e) < 0 || load_boot(s, e) < 0)
		return -1;
	return store_load(s->spec.store, &reader, s, ret_fault, e);
}

/* ---- comparing ---- */

/* How long it still has: by the clock of this boot if it is from this boot, else by the wall clock. */
static void restore_expiry(struct box *b)
{
	struct sandboxes *s = b->pub.set;
	int64_t left_us = b->pub.row.expires_us - sandboxes_wall_us(s);

	if (b->pub.row.expires_us == 0)
		return;
	if (s->is_new_boot) {
		struct store_tx *tx = store_tx_new();

		b->pub.row.deadline_ms = loop_now_ms(s->spec.loop) + (left_us > 0 ? (uint64_t)left_us / 1000 : 0);
		store_tx_expiry(tx, b->id, b->pub.row.expires_us, b->pub.row.deadline_ms);
		/* Should this fail, the next start of this boot sees an expiry of the last one: too early or too late, but one. */
		(void)store_submit(s->spec.store, tx, NULL, NULL, &(struct err){ 0 });
	}
	box_arm(b);
}

static bool is_over(const struct box *b)
{
	return b->pub.row.state == SANDBOX_TERMINATED || b->pub.row.state == SANDBOX_FAILED;
}

/* Given up without an end that anybody has seen: a runtime that could not take it up may do so later. */
static bool is_lost(const struct box *b)
{
	return b->pub.row.state == SANDBOX_FAILED && strcmp(b->reason, LOST_REASON) == 0;
}

static void adopt(struct box *b, enum sandbox_state state, const char *why)
{
	struct store_tx *tx = store_tx_new();
	bool is_running = state == SANDBOX_RUNNING;

	if (is_lost(b)) {
		log_warn("a sandbox that was given up as lost is there", LOG_S("id", b->id));
		why = "The sandbox was given up as lost, but is there.";
	}
	b->pub.has_end = false;
	box_set_state(b, state, is_running ? "CONTAINER_RUNNING" : "CONTAINER_PAUSED", "%s",
		      is_running ? "Sandbox container is running." : "Sandbox container is paused.");
	box_event(b, tx, EVENT_RUNTIME, "Adopted", "%s", why);
	box_save(b, tx);
}

static void adopt_end(struct box *b, const struct runtime_end *end)
{
	struct store_tx *tx = store_tx_new();

	box_apply_end(b, end, tx);
	box_save(b, tx);
}

static void settle_gone(struct box *b)
{
	struct sandboxes *s = b->pub.set;
	struct store_tx *tx;

	if (is_over(b))
		return;
	if (!s->is_new_boot) {
		adopt_end(b, &(struct runtime_end){ .reason = RUNTIME_END_LOST });
		return;
	}
	tx = store_tx_new();
	b->pub.has_end = true;
	b->pub.end = (struct runtime_end){ .reason = RUNTIME_END_LOST };
	box_set_state(b, SANDBOX_FAILED, "host_restarted", "The host was restarted.");
	box_event(b, tx, EVENT_RUNTIME, "Failed", "The host was restarted.");
	box_save(b, tx);
}

static const char restarted[] = "The server was restarted; the sandbox went on.";
static const char returned[] = "The runtime was restarted; the sandbox went on.";

static void settle_found(struct box *b, const struct runtime_box *found, const char *why)
{
	switch (found->state) {
	case RUNTIME_STARTING:
		remove_quietly(b, false);
		break;
	case RUNTIME_RUNNING:
		adopt(b, SANDBOX_RUNNING, why);
		break;
	case RUNTIME_PAUSED:
		adopt(b, SANDBOX_PAUSED, why);
		break;
	case RUNTIME_ENDED:
		if (is_over(b)) {
			b->pub.has_end = true;
			b->pub.end = found->end;
		} else {
			adopt_end(b, &found->end);
		}
		break;
	}
}

/* Its create counts as done, and with that its volumes as made. Should this not be written, the next start does it. */
static void keep_volumes(struct box *b)
{
	struct store_tx *tx;

	if (!box_has_unmade_volumes(b))
		return;
	tx = store_tx_new();
	box_keep_volumes(b, tx);
	(void)store_submit(b->pub.set->spec.store, tx, NULL, NULL, &(struct err){ 0 });
	box_volumes_kept(b);
}

/* The operation that was cut off, by the intent that it has left; of others there is nothing to be finished or undone. */
static const struct op_type *type_of(enum sandbox_intent intent)
{
	static const struct op_type *const types[] = {
		[INTENT_NONE] = NULL,           [INTENT_CREATE] = &create_type, [INTENT_PAUSE] = &pause_type,
		[INTENT_RESUME] = &resume_type, [INTENT_REMOVE] = &remove_type, [INTENT_ROLLBACK] = &rollback_type,
	};

	return types[intent];
}

static void settle(struct box *b, const struct runtime_box *found)
{
	const struct op_type *type = type_of(b->pub.row.intent);

	if (!type || !type->recover || !type->recover(&b->pub, found)) {
		keep_volumes(b);
		if (found)
			settle_found(b, found, restarted);
		else
			settle_gone(b);
	}
	b->pub.row.intent = INTENT_NONE;
	restore_expiry(b);
}

/* A database that knows nothing, on a host with sandboxes of which nothing else is known either, is not the one that they were
 * made with: whoever has that may put it back. */
static int check_new(const struct sandboxes *s, struct err *e)
{
	size_t unknown = 0, known = 0;

	for (size_t i = 0; i < s->recovery->n; i++) {
		const struct found *f = &s->recovery->at[i];

		known += f->has_record;
		unknown += !f->has_record && (f->box.state == RUNTIME_RUNNING || f->box.state == RUNTIME_PAUSED);
	}
	if (!s->is_new || unknown == 0 || known > 0)
		return 0;
	return err_set(e, ERR_INVALID, "the database is new, but %zu sandboxes run", unknown);
}

static int compare(struct sandboxes *s, struct err *e)
{
	AUTO(map_done) struct map found = MAP_INIT;

	if (recovery_restore(s, e) < 0)
		return -1;
	for (size_t i = 0; i < s->recovery->n; i++)
		if (!map_put(&found, str_of(s->recovery->at[i].id), &s->recovery->at[i].box))
			return err_no_memory(e);
	for (struct sandbox *sb = s->newest; sb; sb = sb->older) {
		struct box *b = box_of(sb);
		const struct runtime_box *rb = map_get(&found, str_of(b->id));

		if (rb)
			sandbox_record_send(b);
		settle(b, rb);
		KILL_POINT("server.recover.one");
	}
	return 0;
}

static void recovered(struct sandboxes *s, const struct err *e)
{
	s->is_recovering = false;
	s->recovered(e, s->recovered_arg);
}

static void on_records(void *arg)
{
	struct sandboxes *s = arg;
	size_t n = s->recovery->n;
	struct err e = { 0 };
	struct store_tx *tx;

	if (s->recovery->has_failed) {
		timer_in(&s->compare, COMPARE_MS);
		return;
	}
	KILL_POINT("server.recover.read");
	if (check_new(s, &e) < 0 || compare(s, &e) < 0) {
		recovered(s, &e);
		return;
	}
	recovery_free(s);
	tx = store_tx_new(); /* after what became of them: a crash in between does it all again */
	store_tx_meta(tx, "boot_id", str_of(s->spec.boot_id));
	if (store_submit(s->spec.store, tx, NULL, NULL, &e) < 0)
		log_warn("the boot could not be recorded, ignoring", LOG_ERR(&e));
	volumes_recover(s->volumes);
	KILL_POINT("server.recover.all");
	log_info("sandboxes recovered", LOG_U("records", s->by_id.n), LOG_U("found", n), LOG_B("new_boot", s->is_new_boot));
	recovered(s, NULL);
}

static void on_listed(const struct runtime_box *boxes, size_t n, const struct runtime_failure *failure, void *arg)
{
	struct sandboxes *s = arg;
	struct err e = { 0 };

	KILL_POINT("server.recover.listed");
	s->is_comparing = false;
	if (failure && failure->err.code == ERR_UNAVAILABLE) { /* it is being started again, as we are */
		timer_in(&s->compare, COMPARE_MS);
		return;
	}
	if (failure)
		recovered(s, &failure->err);
	else if (recovery_begin(s, boxes, n, on_records, &e) < 0)
		recovered(s, &e);
}

void sandboxes_recover(struct sandboxes *s, recovered_fn *fn, void *arg)
{
	KILL_POINT("server.recover.loaded");
	s->recovered = fn;
	s->recovered_arg = arg;
	s->is_recovering = true;
	sandboxes_compare(s);
}

/* ---- while it runs ---- */

/* Whether FOUND says more of one that is over than is known: never of one whose end was seen. */
static bool is_news(const struct box *b, const struct runtime_box *found)
{
	return is_lost(b) && found && found->state != RUNTIME_STARTING &&
	       !(found->state == RUNTIME_ENDED && found->end.reason == RUNTIME_END_LOST);
}

static void settle_again(struct box *b, const struct runtime_box *found, const char *why)
{
	enum sandbox_state state = b->pub.row.state;

	if (state == SANDBOX_STOPPING || ((b->pub.has_end || is_over(b)) && !is_news(b, found)))
		return;
	sandbox_record_send(b);
	if (!found)
		adopt_end(b, &(struct runtime_end){ .reason = RUNTIME_END_LOST });
	else if (found->state == RUNTIME_ENDED)
		adopt_end(b, &found->end);
	else if (found->state == RUNTIME_RUNNING && state != SANDBOX_RUNNING)
		adopt(b, SANDBOX_RUNNING, why);
	else if (found->state == RUNTIME_PAUSED && state != SANDBOX_PAUSED)
		adopt(b, SANDBOX_PAUSED, why);
}

/* What is in the list without a record: those whose end was ordered, or that were never ready, go. Of the others, which are
 * listed in LOST, the record was lost. */
struct strangers {
	struct runtime_box *lost;
	size_t n;
};

static void strangers_done(struct strangers *x)
{
	free(x->lost);
}
DEFINE_AUTO_DONE(struct strangers, strangers_done)

static void sort_stranger(struct sandboxes *s, const struct runtime_box *found, struct strangers *ret)
{
	if (found->state == RUNTIME_STARTING || was_removed(s, found->id))
		orphan_remove(s, found->id);
	else if (!is_orphan(s, found->id))
		ret->lost[ret->n++] = *found;
}

/* By id. */
static int find_records(struct sandboxes *s, const struct runtime_box *boxes, size_t n, struct map *found, struct strangers *strangers,
			struct err *e)
{
	strangers->lost = calloc(n + 1, sizeof(strangers->lost[0]));
	if (!strangers->lost)
		return err_no_memory(e);
	for (size_t i = 0; i < n; i++) {
		if (!map_get(&s->by_id, str_of(boxes[i].id)))
			sort_stranger(s, &boxes[i], strangers);
		else if (!map_put(found, str_of(boxes[i].id), (void *)(uintptr_t)&boxes[i]))
			return err_no_memory(e);
	}
	return 0;
}

/* Whoever ended while the records were read was nobody's: the next look sees it. */
static void on_records_again(void *arg)
{
	struct sandboxes *s = arg;
	struct err e = { 0 };

	s->is_comparing = false;
	timer_in(&s->compare, COMPARE_MS);
	if (s->recovery->has_failed)
		return;
	if (recovery_restore(s, &e) < 0)
		log_warn("sandboxes without a record are looked at later", LOG_ERR(&e));
	for (size_t i = 0; i < s->recovery->n; i++) {
		struct box *b = map_get(&s->by_id, str_of(s->recovery->at[i].id));

		if (!b)
			continue;
		sandbox_record_send(b);
		settle_found(b, &s->recovery->at[i].box, returned);
		restore_expiry(b);
		if (s->spec.found)
			s->spec.found(&b->pub, s->spec.gone_arg);
	}
	recovery_free(s);
}

static void settle_all_again(struct sandboxes *s, const struct map *found)
{
	bool is_whole = true;

	for (struct sandbox *sb = s->newest; sb; sb = sb->older) {
		if (op_first(&box_of(sb)->queue))
			is_whole = false;
		else
			settle_again(box_of(sb), map_get(found, str_of(box_of(sb)->id)), returned);
	}
	if (!is_whole)
		timer_in(&s->compare, COMPARE_MS);
}

/* Whoever is being changed learns from that change how it is; whether it is so in the end, the next look shows. */
static void on_listed_again(const struct runtime_box *boxes, size_t n, const struct runtime_failure *failure, void *arg)
{
	AUTO(strangers_done) struct strangers strangers = { 0 };
	AUTO(map_done) struct map found = MAP_INIT;
	struct sandboxes *s = arg;
	struct err e;

	s->is_comparing = false;
	if (failure || find_records(s, boxes, n, &found, &strangers, &e) < 0) {
		timer_in(&s->compare, COMPARE_MS);
		return;
	}
	settle_all_again(s, &found);
	if (strangers.n == 0)
		return;
	if (recovery_begin(s, strangers.lost, strangers.n, on_records_again, &e) < 0)
		timer_in(&s->compare, COMPARE_MS);
	else
		s->is_comparing = true;
}

/* Of one that is being changed a look tells, once that is over. */
void sandboxes_changed(const char *id, enum runtime_state state, void *arg)
{
	struct sandboxes *s = arg;
	struct box *b = map_get(&s->by_id, str_of(id));

	if (b && b->pub.row.state == SANDBOX_PENDING)
		return;
	if (b && op_first(&b->queue))
		timer_in(&s->compare, COMPARE_MS);
	else if (b)
		settle_again(b, &(struct runtime_box){ .id = id, .state = state },
			     "The sandbox was paused or resumed from outside of the server.");
}

void sandboxes_compare(void *arg)
{
	struct sandboxes *s = arg;

	timer_cancel(&s->compare);
	if (s->is_comparing) { /* what that look sees may be too old */
		timer_in(&s->compare, COMPARE_MS);
		return;
	}
	s->is_comparing = true;
	s->spec.runtime->ops->list(s->spec.runtime, s->is_recovering ? on_listed : on_listed_again, s);
}
