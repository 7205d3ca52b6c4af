// SPDX-License-Identifier: Apache-2.0
/* The set, its members and their diaries. */
#include "server/model/sandbox.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

#define FLUSH_MS 2000
#define EVENT_MESSAGE_MAX 400

/* ---- events ---- */

static const char *const scopes[] = {
	[EVENT_LIFECYCLE] = "lifecycle", [EVENT_CONTAINER] = "container", [EVENT_RUNTIME] = "runtime",
};

const char *event_scope_name(enum event_scope s)
{
	return scopes[s];
}

bool event_scope_parse(struct str name, enum event_scope *ret)
{
	for (unsigned i = 0; i < EVENT_SCOPES; i++) {
		if (str_is(name, scopes[i])) {
			*ret = (enum event_scope)i;
			return true;
		}
	}
	return false;
}

const char *event_type_known(struct str type)
{
	static const char *const types[] = {
		"Created", "Started", "Paused", "Resumed", "Renewed", "MetadataChanged", "Removing", "Expired",
		"Exited",  "Failed",  "OutOfMemory", "Adopted", "Recovered", "IgnoredKeys", "RemoveFailed", "Snapshot", "RolledBack",
		"Pulling", "HandedOut",
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (str_is(type, types[i]))
			return types[i];
	return "Event";
}

int box_add_event(struct box *b, int64_t at_us, enum event_scope scope, const char *type, const char *message)
{
	size_t n = strlen(message);
	struct sandbox_event *ev = malloc(sizeof(*ev) + n + 1);

	if (!ev)
		return -1;
	*ev = (struct sandbox_event){ .at_us = at_us, .scope = scope, .type = type };
	memcpy(ev->message, message, n + 1);
	*(b->newest_event ? &b->newest_event->next : &b->pub.oldest_event) = ev;
	b->newest_event = ev;
	if (++b->pub.n_events <= STORE_EVENTS_MAX)
		return 0;
	ev = b->pub.oldest_event;
	b->pub.oldest_event = ev->next;
	b->pub.n_events--;
	free(ev);
	return 0;
}

void box_prepend_events(struct box *b, struct box *from)
{
	if (!from->pub.oldest_event)
		return;
	from->newest_event->next = b->pub.oldest_event;
	if (!b->newest_event)
		b->newest_event = from->newest_event;
	b->pub.oldest_event = take_ptr(&from->pub.oldest_event);
	b->pub.n_events += from->pub.n_events;
	from->newest_event = NULL;
	from->pub.n_events = 0;
}

void box_event(struct box *b, struct store_tx *tx, enum event_scope scope, const char *type, const char *fmt, ...)
{
	struct store_event ev = { .sandbox_id = b->id, .at_us = sandboxes_wall_us(b->pub.set), .scope = scopes[scope] };
	char message[EVENT_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	type = event_type_known(str_of(type));
	(void)box_add_event(b, ev.at_us, scope, type, message); /* out of memory: a line of the diary is missing */
	ev.type = type;
	ev.message = message;
	if (tx)
		store_tx_event(tx, &ev);
}

/* ---- one sandbox ---- */

static int copy_list(struct arena *a, const struct string_list *from, struct string_list *to, struct err *e)
{
	to->items = arena_array(a, from->n + 1, sizeof(*to->items));
	for (to->n = 0; to->items && to->n < from->n; to->n++) {
		to->items[to->n] = arena_dup(a, str_of(from->items[to->n]));
		if (!to->items[to->n])
			return err_no_memory(e);
	}
	return to->items ? 0 : err_no_memory(e);
}

int box_set_stack(struct box *b, const struct box_stack *st, struct err *e)
{
	struct arena stack = ARENA_INIT(BOX_ARENA_MAX);
	const char *base = st->base ? arena_dup(&stack, str_of(st->base)) : NULL;
	const char *name = st->snapshot ? arena_dup(&stack, str_of(st->snapshot)) : NULL;
	const char *policy = st->policy ? arena_dup(&stack, str_of(st->policy)) : NULL;

	if ((st->snapshot && !name) || (st->policy && !policy) || (st->base && !base)) {
		arena_done(&stack);
		return err_no_memory(e);
	}
	arena_done(&b->stack);
	b->stack = stack;
	b->pub.row.snapshot = name;
	b->pub.row.base = base;
	b->pub.row.network = st->network;
	b->pub.row.policy = policy;
	return 0;
}

void box_set_digest(struct box *b, const char *digest)
{
	(void)snprintf(b->digest, sizeof(b->digest), "%s", digest); /* digests are that long */
	b->pub.row.image_digest = b->digest;
}

static int copy_row(struct box *b, const struct sandbox_row *row, struct err *e)
{
	struct sandbox_row *r = &b->pub.row;
	const struct box_stack stack = { row->snapshot, row->base, row->network, row->policy };

	*r = *row;
	(void)snprintf(b->id, sizeof(b->id), "%s", row->id);
	(void)snprintf(b->reason, sizeof(b->reason), "%s", row->reason);
	(void)snprintf(b->message, sizeof(b->message), "%s", row->message);
	(void)snprintf(b->pool, sizeof(b->pool), "%s", row->pool ? row->pool : "");
	r->id = b->id;
	r->pool = b->pool;
	r->reason = b->reason;
	r->message = b->message;
	r->image = arena_dup(&b->arena, str_of(row->image));
	if (row->image_digest)
		box_set_digest(b, row->image_digest);
	r->os = row->os ? arena_dup(&b->arena, str_of(row->os)) : NULL;
	r->arch = row->arch ? arena_dup(&b->arena, str_of(row->arch)) : NULL;
	if (!r->image || (row->os && !r->os) || (row->arch && !r->arch))
		return err_no_memory(e);
	if (box_set_stack(b, &stack, e) < 0 || copy_list(&b->arena, &row->entrypoint, &r->entrypoint, e) < 0 ||
	    copy_list(&b->arena, &row->env_names, &r->env_names, e) < 0 ||
	    row_volumes_copy(&b->arena, row->volumes, row->n_volumes, &r->volumes, e) < 0)
		return -1;
	b->labels = labels_new(&row->metadata, e);
	if (!b->labels)
		return -1;
	r->metadata = b->labels->map;
	return 0;
}

void box_free(struct box *b)
{
	if (!b)
		return;
	while (b->first) {
		struct task *t = b->first;

		b->first = t->next;
		task_free(t);
	}
	while (b->pub.oldest_event) {
		struct sandbox_event *ev = b->pub.oldest_event;

		b->pub.oldest_event = ev->next;
		free(ev);
	}
	timer_done(&b->expiry);
	timer_done(&b->retry);
	timer_done(&b->watchdog);
	defer_cancel(&b->kick);
	labels_free(b->labels);
	arena_done(&b->stack);
	arena_done(&b->arena);
	free(b);
}
DEFINE_AUTO(struct box *, box_free)

struct box *box_new(struct sandboxes *s, const struct sandbox_row *row, struct err *e)
{
	AUTO(box_free) struct box *b = calloc(1, sizeof(*b));
	struct loop *l = s->spec.loop;

	if (!b) {
		(void)err_no_memory(e);
		return NULL;
	}
	b->pub.set = s;
	b->arena = ARENA_INIT(BOX_ARENA_MAX);
	b->retry_ms = RETRY_FIRST_MS;
	if (copy_row(b, row, e) < 0 || timer_init(&b->expiry, l, on_expiry, b, "sandbox expiry", e) < 0 ||
	    timer_init(&b->retry, l, on_retry, b, "sandbox removal", e) < 0 ||
	    timer_init(&b->watchdog, l, create_overdue, b, "sandbox create", e) < 0)
		return NULL;
	return take_ptr(&b);
}

/* Into the list by creation time; almost always as the newest. */
static void list_in(struct box *b)
{
	struct sandboxes *s = b->pub.set;
	struct sandbox *sb = &b->pub, *older = s->newest;

	while (older && older->row.created_us > sb->row.created_us)
		older = older->older;
	sb->older = older;
	sb->newer = older ? older->newer : s->oldest;
	*(sb->older ? &sb->older->newer : &s->oldest) = sb;
	*(sb->newer ? &sb->newer->older : &s->newest) = sb;
}

static void list_out(struct box *b)
{
	struct sandboxes *s = b->pub.set;
	struct sandbox *sb = &b->pub;

	*(sb->older ? &sb->older->newer : &s->oldest) = sb->newer;
	*(sb->newer ? &sb->newer->older : &s->newest) = sb->older;
	sb->older = sb->newer = NULL;
}

int box_link(struct box *b, struct err *e)
{
	if (!map_put(&b->pub.set->by_id, str_of(b->id), b))
		return err_no_memory(e);
	b->pub.set->n_idle += b->pub.row.is_idle;
	list_in(b);
	return 0;
}

void box_unlink(struct box *b)
{
	(void)map_del(&b->pub.set->by_id, str_of(b->id));
	b->pub.set->n_idle -= b->pub.row.is_idle;
	list_out(b);
}

void box_set_idle(struct box *b, bool is_idle)
{
	b->pub.set->n_idle -= b->pub.row.is_idle;
	b->pub.set->n_idle += is_idle;
	b->pub.row.is_idle = is_idle;
}

void box_move(struct box *b, int64_t created_us)
{
	list_out(b);
	b->pub.row.created_us = created_us;
	list_in(b);
}

void box_arm(struct box *b)
{
	if (b->pub.row.expires_us != 0)
		timer_set(&b->expiry, b->pub.row.deadline_ms);
	else
		timer_cancel(&b->expiry);
}

void box_set_state(struct box *b, enum sandbox_state state, const char *reason, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(b->message, sizeof(b->message), fmt, ap);
	va_end(ap);
	(void)snprintf(b->reason, sizeof(b->reason), "%s", reason);
	if (b->pub.row.state != state)
		b->pub.row.changed_us = sandboxes_wall_us(b->pub.set);
	b->pub.row.state = state;
}

bool sandbox_can_be_called(const struct sandbox *sb)
{
	return sb->row.state == SANDBOX_RUNNING;
}

void sandbox_token(const struct sandbox *sb, const char *purpose, char out[SANDBOX_TOKEN_LEN + 1])
{
	struct str secret = { (const char *)sb->set->secret, sizeof(sb->set->secret) };
	struct hmac_sha256 h;
	unsigned char mac[SHA256_SIZE];

	hmac_sha256_init(&h, secret);
	hmac_sha256_add(&h, purpose, strlen(purpose) + 1); /* with its NUL: one pair has one spelling */
	hmac_sha256_add(&h, sb->row.id, strlen(sb->row.id));
	hmac_sha256_end(&h, mac);
	hex_encode(out, mac, sizeof(mac));
	secret_wipe(mac, sizeof(mac));
}

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

void box_save(struct box *b, struct store_tx *tx)
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
	if (!b->is_busy)
		store_tx_intent(tx, b->id, INTENT_NONE);
	b->is_dirty = false;
	b->is_saving = true;
	if (store_submit(s->spec.store, tx, save_marked, b, &e) < 0)
		save_marked(&e, b);
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
		box_set_state(b, SANDBOX_FAILED, "CONTAINER_LOST", "Sandbox is gone and left no trace.");
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

size_t sandboxes_count(const struct sandboxes *s)
{
	return s->by_id.n;
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

void sandboxes_free(struct sandboxes *s)
{
	struct sandbox *sb;

	if (!s)
		return;
	while ((sb = s->newest)) {
		if (s->spec.gone)
			s->spec.gone(sb, s->spec.gone_arg);
		box_unlink(box_of(sb));
		task_stop_all(box_of(sb));
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
