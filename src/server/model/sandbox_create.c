// SPDX-License-Identifier: Apache-2.0
/* Making a sandbox: record and intent while the runtime makes it, the answer, commit; and the keys that make a repeated
 * request the same one. A box without a record is nobody's, and the next start removes it; one with a record is told only
 * when both are there. */
#include "base/buf.h"
#include "base/civil.h"
#include "base/clock.h"
#include "base/hex.h"
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

/* ---- idempotency keys ---- */

struct key *key_find(struct sandboxes *s, const char hex[SHA256_HEX_LEN + 1])
{
	struct key *k = map_get(&s->keys, str_of(hex));

	return k && k->expires_us > sandboxes_wall_us(s) ? k : NULL;
}

const struct key *key_of_box(const struct box *b)
{
	const struct key *k = b->key[0] ? map_get(&b->pub.set->keys, str_of(b->key)) : NULL;

	return k && strcmp(k->sandbox_id, b->id) == 0 ? k : NULL;
}

int key_add(struct sandboxes *s, const struct key *k, struct err *e)
{
	struct key *copy = malloc(sizeof(*copy)), *old;
	struct box *b = map_get(&s->by_id, str_of(k->sandbox_id));

	if (!copy)
		return err_no_memory(e);
	*copy = *k;
	old = map_del(&s->keys, str_of(k->hex));
	free(old);
	if (!map_put(&s->keys, str_of(copy->hex), copy)) {
		free(copy);
		return err_no_memory(e);
	}
	if (b)
		memcpy(b->key, k->hex, sizeof(b->key));
	return 0;
}

static struct key *key_of(const struct sandboxes *s, const char *sandbox_id)
{
	struct key *k;
	struct str name;

	for (size_t i = 0; (k = map_next(&s->keys, &i, &name));)
		if (strcmp(k->sandbox_id, sandbox_id) == 0)
			return k;
	return NULL;
}

void key_forget_of(struct sandboxes *s, const char *sandbox_id, struct store_tx *tx)
{
	struct key *k = key_of(s, sandbox_id);

	if (!k)
		return;
	if (tx)
		store_tx_forget_key(tx, str_of(k->hex));
	(void)map_del(&s->keys, str_of(k->hex));
	free(k);
}

void key_forget(struct sandboxes *s, const char *sandbox_id)
{
	struct store_tx *tx;

	if (!key_of(s, sandbox_id))
		return;
	tx = store_tx_new();
	key_forget_of(s, sandbox_id, tx);
	/* Should this fail, the key is taken until it ages: a new create needs a new one. */
	(void)store_submit(s->spec.store, tx, NULL, NULL, &(struct err){ 0 });
}

static struct key *find_old(const struct sandboxes *s)
{
	struct key *k;
	struct str name;

	for (size_t i = 0; (k = map_next(&s->keys, &i, &name));)
		if (k->expires_us <= sandboxes_wall_us(s))
			return k;
	return NULL;
}

void keys_sweep(void *arg)
{
	struct sandboxes *s = arg;
	struct store_tx *tx = store_tx_new();
	struct key *k;

	while ((k = find_old(s))) {
		if (tx)
			store_tx_forget_key(tx, str_of(k->hex));
		(void)map_del(&s->keys, str_of(k->hex));
		free(k);
	}
	(void)store_submit(s->spec.store, tx, NULL, NULL, &(struct err){ 0 }); /* the next start reads and drops them */
	timer_in(&s->sweep, SWEEP_MS);
}

void keys_free(struct sandboxes *s)
{
	struct key *k;
	struct str name;

	for (size_t i = 0; (k = map_next(&s->keys, &i, &name));)
		free(k);
	map_done(&s->keys);
}

/* ---- failing ---- */

static void create_over(struct box *b)
{
	b->pub.set->creates--;
	timer_cancel(&b->watchdog);
}

/* Nobody learns of it any more, and nothing is left of it. */
static void drop_failed(struct box *b, const struct fault *f)
{
	struct task *t = b->first;
	struct waiter *waiters = take_ptr(&t->waiters);
	sandbox_fn *fn = take_ptr(&t->fn);
	void *arg = t->arg;

	b->first = t->next; /* whoever waits behind it is told by the drop */
	b->n_tasks--;
	task_free(t);
	box_drop(b);
	if (fn)
		fn(NULL, f, arg);
	while (waiters) {
		struct waiter *w = waiters;

		waiters = w->next;
		w->fn(NULL, f, w->arg);
		free(w);
	}
}

/* The store never had it. */
static void drop_unrecorded(struct box *b, const struct fault *f)
{
	key_forget_of(b->pub.set, b->id, NULL);
	box_release_volumes(b, NULL);
	box_volumes_released(b);
	create_over(b);
	drop_failed(b, f);
}

static void roll_back(struct box *b, const struct fault *f)
{
	create_over(b);
	key_forget(b->pub.set, b->id);
	remove_quietly(b, false);
	task_finish(b, f);
}

/* Nobody waits for it any more: what there is of it goes. */
static void give_up(struct box *b)
{
	create_over(b);
	remove_quietly(b, false);
	task_finish(b, NULL);
}

/* ---- the steps, the last one first ---- */

/* The answer comes first: the intent is in the store, and a start that finds it with a sandbox that runs goes on with that
 * one. What is written here need not be waited for. */
static void created(struct box *b)
{
	struct runtime_end end = b->pub.end;
	struct store_tx *tx;

	create_over(b);
	box_arm(b);
	log_info("sandbox created", LOG_S("id", b->id), LOG_S("image", b->pub.row.image));
	box_set_state(b, SANDBOX_RUNNING, "CONTAINER_RUNNING", "Sandbox container started successfully.");
	sandbox_record_send(b);
	task_finish(b, NULL);
	KILL_POINT("server.create.told");
	box_set_state(b, SANDBOX_RUNNING, "CONTAINER_RUNNING", "Sandbox container is running.");
	tx = store_tx_new();
	box_event(b, tx, EVENT_LIFECYCLE, "Started", "Sandbox container started successfully.");
	if (b->pub.has_end)
		box_apply_end(b, &end, tx);
	box_save(b, tx);
	KILL_POINT("server.create.commit_queued");
}

static void on_failure_recorded(const struct err *e, void *arg)
{
	struct box *b = arg;
	struct fault f = b->first->failure;

	if (e) { /* the row is still there: the removal goes on until it is not */
		roll_back(b, &f);
		return;
	}
	box_volumes_released(b);
	create_over(b);
	drop_failed(b, &f);
}

/* Nobody can say whether it was made: its record stays until the runtime has proven that it is gone. */
static bool is_unknown(const struct runtime_failure *failure)
{
	return failure->err.code == ERR_UNAVAILABLE || failure->err.code == ERR_TIMEOUT;
}

static bool is_pull_failure(const struct runtime_failure *failure)
{
	return strcmp(failure->code, RUNTIME_PULL_FAILED) == 0;
}

static void create_failed(struct box *b, const struct runtime_failure *failure)
{
	struct sandboxes *s = b->pub.set;
	struct store_tx *tx = store_tx_new();
	struct fault f, scratch;

	log_error("sandbox could not be created", LOG_S("id", b->id), LOG_S("failure", failure->code), LOG_ERR(&failure->err));
	(void)fault_of_runtime(&f, s->spec.runtime, failure);
	if (b->first->is_told) {
		store_tx_free(tx);
		if (is_unknown(failure))
			orphan_remove(s, b->id);
		pending_fail(b, is_pull_failure(failure) ? "IMAGE_PULL_FAILED" : "PROVISIONING_FAILED", f.message);
		return;
	}
	if (is_unknown(failure)) {
		store_tx_free(tx);
		roll_back(b, &f);
		return;
	}
	b->first->failure = f;
	store_tx_delete(tx, b->id);
	box_release_volumes(b, tx);
	key_forget_of(s, b->id, tx);
	if (box_submit(b, tx, on_failure_recorded, &scratch) < 0)
		roll_back(b, &f);
}

static void on_volumes_kept(const struct err *e, void *arg)
{
	struct box *b = arg;
	struct fault f;

	if (e) {
		(void)fault_of_store(&f, e);
		roll_back(b, &f);
		return;
	}
	KILL_POINT("server.create.volumes_kept");
	box_volumes_kept(b);
	created(b);
}

/* What a loss of power must not take is written down before anybody is told: without its sandbox, which goes with the power,
 * the next start would take a volume for one of a create that never was. */
static void keep_volumes(struct box *b)
{
	struct store_tx *tx;
	struct fault f;

	if (!box_has_unmade_volumes(b)) {
		created(b);
		return;
	}
	tx = store_tx_new();
	box_keep_volumes(b, tx);
	if (box_submit(b, tx, on_volumes_kept, &f) < 0)
		roll_back(b, &f);
}

/* The store did not take the intent: whatever was made goes without its help. */
static void not_logged(struct box *b)
{
	struct task *t = b->first;
	struct fault f = t->failure;

	if (!t->has_failed || is_unknown(&t->made)) {
		b->is_remove_logged = b->is_unrecorded = true;
		roll_back(b, &f);
		return;
	}
	drop_unrecorded(b, &f);
}

/* It runs, but its record does not say on what. */
static void not_noted(struct box *b)
{
	struct fault f = b->first->failure;

	if (!b->first->is_told) {
		roll_back(b, &f);
		return;
	}
	orphan_remove(b->pub.set, b->id);
	pending_fail(b, "PROVISIONING_FAILED", f.message);
}

/* Once both the store and the runtime have answered. */
void create_join(struct box *b)
{
	struct task *t = b->first;

	if (!t->is_logged || !t->is_made || t->is_recording || t->noting > 0)
		return;
	if (t->is_overdue && t->is_told) {
		orphan_remove(b->pub.set, b->id);
		pending_fail(b, "PROVISIONING_TIMEOUT", "Sandbox was not ready in time.");
		return;
	}
	if (t->is_overdue) {
		give_up(b);
		return;
	}
	timer_cancel(&b->watchdog);
	if (t->is_refused)
		not_logged(b);
	else if (t->has_failed)
		create_failed(b, &t->made);
	else if (t->is_unnoted)
		not_noted(b);
	else
		keep_volumes(b);
}

static void note_made(struct box *b, const struct runtime_failure *failure)
{
	struct task *t = b->first;

	t->is_made = true;
	t->has_failed = failure != NULL;
	if (failure)
		t->made = *failure;
	create_join(b);
}

static void on_created(const struct runtime_failure *failure, void *arg)
{
	KILL_POINT("server.create.made");
	note_made(arg, failure);
}

static void ask_runtime(struct box *b)
{
	struct sandboxes *s = b->pub.set;
	AUTO(buf_done) struct buf record = BUF_INIT(RUNTIME_RECORD_MAX);
	struct runtime_volume volumes[VOLUMES_OF_SANDBOX_MAX];
	char token[SANDBOX_TOKEN_LEN + 1];
	struct runtime_spec spec = {
		.id = b->id, .image = b->pub.row.image, .image_digest = b->pub.row.image_digest,
		.entrypoint = b->pub.row.entrypoint, .env = b->first->env,
		.limits = b->pub.row.limits, .execd_token = token, .base = b->pub.row.base, .volumes = volumes,
		.n_volumes = box_runtime_volumes(b, volumes),
		.os = b->pub.row.os, .arch = b->pub.row.arch, .username = b->first->username, .password = b->first->password,
		.network = b->pub.row.network, .policy = str_of(b->pub.row.policy),
	};

	b->is_record_due = !sandbox_record_write(b, &record); /* out of memory: it is sent when there is some again */
	b->record_revision = b->is_record_due ? UINT64_MAX : b->pub.row.revision;
	spec.record = b->is_record_due ? STR("") : buf_str(&record);
	sandbox_token(&b->pub, "execd", token);
	s->spec.runtime->ops->create(s->spec.runtime, &spec, on_created, b);
	KILL_POINT("server.create.asked");
	secret_wipe(token, sizeof(token));
}

static void on_volume_made(const struct runtime_failure *failure, void *arg);

/* One after the other; then the sandbox itself. */
static void make_volumes(struct box *b)
{
	const struct sandbox_row *r = &b->pub.row;
	struct runtime *rt = b->pub.set->spec.runtime;
	const struct volume *v = volumes_unmade(b->pub.set->volumes, r->volumes, r->n_volumes, &b->first->next_volume);

	if (v)
		rt->ops->volume_make(rt, v->id, v->row.size_bytes, on_volume_made, b);
	else
		ask_runtime(b);
}

static void on_volume_made(const struct runtime_failure *failure, void *arg)
{
	static const struct runtime_failure unwanted = {
		.code = "SANDBOX_START_FAILED", .status = 409,
		.err = { .code = ERR_CONFLICT, .msg = "the sandbox was removed while its volumes were being made" },
	};
	struct box *b = arg;

	KILL_POINT("server.volume.made");
	if (!failure && b->first->is_unwanted)
		failure = &unwanted;
	if (failure || b->first->is_overdue) {
		note_made(b, failure);
		return;
	}
	b->first->next_volume++;
	make_volumes(b);
}

/* Nothing that outlives a sandbox is made before the store knows of it: nobody else would ever miss it. */
static void on_logged(const struct err *e, void *arg)
{
	struct box *b = arg;
	struct task *t = b->first;

	KILL_POINT("server.create.intent_committed");
	t->is_logged = true;
	t->is_refused = e != NULL;
	if (e)
		(void)fault_of_store(&t->failure, e);
	if (t->makes_volumes && !e && !t->is_overdue) {
		make_volumes(b);
		return;
	}
	if (t->makes_volumes)
		t->is_made = t->has_failed = true; /* the runtime was not asked for anything */
	create_join(b);
}

void create_begin(struct box *b, struct task *t)
{
	struct sandboxes *s = b->pub.set;
	struct store_tx *tx = store_tx_new();
	struct key *k = key_of(s, b->id);
	struct fault f;

	t->begun_ms = loop_now_ms(s->spec.loop);
	t->makes_volumes = box_has_unmade_volumes(b);
	store_tx_insert(tx, &b->pub.row);
	store_tx_intent(tx, b->id, INTENT_CREATE);
	volumes_record(s->volumes, b->pub.row.volumes, b->pub.row.n_volumes, false, tx);
	if (k) {
		struct store_key sk = { .key = str_of(k->hex), .sandbox_id = b->id, .expires_us = k->expires_us };

		memcpy(sk.body, k->body, sizeof(sk.body));
		store_tx_key(tx, &sk);
	}
	for (const struct sandbox_event *ev = b->pub.oldest_event; ev && tx; ev = ev->next) {
		struct store_event se = { b->id, ev->at_us, event_scope_name(ev->scope), ev->type, ev->message };

		store_tx_event(tx, &se);
	}
	timer_in(&b->watchdog, SANDBOX_CREATE_MS);
	if (box_submit(b, tx, on_logged, &f) == 0) {
		KILL_POINT("server.create.intent_queued");
		if (!t->makes_volumes)
			ask_runtime(b);
		return;
	}
	drop_unrecorded(b, &f);
}

void create_cancel(struct box *b)
{
	struct runtime *rt = b->pub.set->spec.runtime;

	if (!b->is_busy || b->first->kind != TASK_CREATE || b->first->is_made)
		return;
	b->first->is_unwanted = true; /* the runtime may not know of it yet */
	if (rt->ops->cancel)
		rt->ops->cancel(rt, b->id);
}

/* The runtime owes its completion still, and nothing else may be asked of it for this id before. */
void create_overdue(void *arg)
{
	struct box *b = arg;
	struct task *t = b->first;
	struct fault f;

	if (t->kind == TASK_ROLLBACK) { /* no create of its own, but the same timer */
		rollback_go_on(b);
		return;
	}
	if (t->is_pulling && !t->is_told) {
		pending_tell(b);
		return;
	}
	t->is_overdue = true;
	log_error("a create takes too long, giving it up", LOG_S("id", b->id));
	create_cancel(b);
	if (!t->is_told)
		key_forget(b->pub.set, b->id);
	(void)fault_set(&f, 504, b->pub.set->spec.runtime->code_prefix, "SANDBOX_START_FAILED",
			"the sandbox was not ready in time");
	box_set_state(b, SANDBOX_FAILED, "PROVISIONING_TIMEOUT", "Sandbox was not ready in time.");
	box_save(b, NULL);
	if (t->fn)
		take_ptr(&t->fn)(NULL, &f, t->arg);
	while (t->waiters) {
		struct waiter *w = t->waiters;

		t->waiters = w->next;
		w->fn(NULL, &f, w->arg);
		free(w);
	}
}

/* ---- asking ---- */

static int wait_for(struct box *b, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct waiter *w = malloc(sizeof(*w));

	if (!w)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	*w = (struct waiter){ b->first->waiters, fn, arg };
	b->first->waiters = w;
	return 0;
}

/* 2: there is no such key yet. */
static int replay(struct sandboxes *s, const struct sandbox_order *o, const char *hex, sandbox_fn *fn, void *arg,
		  struct sandbox **ret, struct fault *f)
{
	struct key *k = key_find(s, hex);
	struct sandbox *sb;

	if (!k)
		return s->keys.n < SANDBOX_KEYS_MAX ? 2 : fault_set(f, 429, NULL, "TOO_MANY_REQUESTS",
								    "too many idempotency keys are in use");
	if (memcmp(k->body, o->body, sizeof(k->body)) != 0)
		return fault_set(f, 409, "SANDBOX", "IDEMPOTENCY_KEY_REUSED",
				 "this Idempotency-Key came with another request before");
	sb = sandboxes_find(s, str_of(k->sandbox_id));
	if (!sb || sb->row.state == SANDBOX_STOPPING)
		return fault_set(f, 409, "SANDBOX", "IDEMPOTENCY_KEY_REUSED",
				 "the sandbox that was made with this Idempotency-Key has been deleted");
	*ret = sb;
	return sb->row.state == SANDBOX_PENDING && !box_of(sb)->first->is_told ? wait_for(box_of(sb), fn, arg, f) : 1;
}

int create_row(struct sandboxes *s, const struct sandbox_order *o, struct sandbox_row *r, struct fault *f)
{
	int64_t now = sandboxes_wall_us(s), expires = 0;

	if (o->timeout_s > 0 &&
	    (__builtin_mul_overflow(o->timeout_s, US_PER_S, &expires) || __builtin_add_overflow(expires, now, &expires) ||
	     expires / US_PER_S > CIVIL_MAX_S))
		return fault_set(f, 400, "SANDBOX", "INVALID_PARAMETER", "timeout: too large for a date");
	*r = (struct sandbox_row){
		.image = o->image, .image_digest = o->image_digest, .snapshot = o->snapshot, .base = o->base,
		.entrypoint = o->entrypoint, .os = o->os, .arch = o->arch, .limits = o->limits,
		.renew_s = o->renew_s, .is_secure = o->is_secure, .metadata = o->metadata, .created_us = now, .changed_us = now,
		.expires_us = expires, .state = SANDBOX_PENDING, .reason = "CONTAINER_STARTING",
		.message = "Sandbox container is starting.", .pool = o->pool, .is_idle = o->is_idle,
		.network = o->network, .policy = o->network == RUNTIME_NET_POLICY ? o->policy : NULL,
	};
	r->n_ports = o->n_ports;
	memcpy(r->ports, o->ports, sizeof(r->ports));
	if (expires != 0)
		r->deadline_ms = loop_now_ms(s->spec.loop) + (uint64_t)o->timeout_s * 1000;
	return 0;
}

/* The environment, for the runtime, and its names, for the record. */
int task_copy_env(struct task *t, const struct string_map *env, struct string_list *names)
{
	t->env.items = arena_array(&t->arena, env->n + 1, sizeof(*t->env.items));
	names->items = arena_array(&t->arena, env->n + 1, sizeof(*names->items));
	for (size_t i = 0; t->env.items && names->items && i < env->n; i++) {
		t->env.items[i].key = arena_dup(&t->arena, str_of(env->items[i].key));
		t->env.items[i].value = arena_dup(&t->arena, str_of(env->items[i].value));
		if (!t->env.items[i].key || !t->env.items[i].value)
			return -1;
		names->items[i] = t->env.items[i].key;
		t->env.n = ++names->n;
	}
	return t->env.items && names->items ? 0 : -1;
}

static int copy_auth(struct task *t, const struct sandbox_order *o)
{
	if (!o->username || !o->password)
		return 0;
	t->username = arena_dup(&t->arena, str_of(o->username));
	t->password = arena_dup(&t->arena, str_of(o->password));
	return t->username && t->password ? 0 : -1;
}

static void first_events(struct box *b, const struct sandbox_order *o)
{
	box_event(b, NULL, EVENT_LIFECYCLE, "Created", "Sandbox was asked for with image '%s'.", o->image);
	for (size_t i = 0; i < o->n_ignored; i++)
		box_event(b, NULL, EVENT_LIFECYCLE, "IgnoredKeys", "The request's '%s' is not known here, ignored.",
			  o->ignored[i]);
}

static int add_key(struct sandboxes *s, const struct sandbox_order *o, const char *hex, const char *id, struct err *e)
{
	struct key k = { .expires_us = sandboxes_wall_us(s) + SANDBOX_KEY_LIFE_US };

	if (o->key.n == 0)
		return 0;
	memcpy(k.hex, hex, sizeof(k.hex));
	memcpy(k.body, o->body, sizeof(k.body));
	memcpy(k.sandbox_id, id, strlen(id) + 1);
	return key_add(s, &k, e);
}

static struct box *make_box(struct sandboxes *s, const struct sandbox_order *o, struct sandbox_row *row, struct task *t)
{
	char id[UUID_LEN + 1];
	struct box *b = NULL;
	struct err e = { 0 };

	row->id = id;
	if (task_copy_env(t, &o->env, &row->env_names) == 0 && copy_auth(t, o) == 0 && uuid_text(&s->random, id, &e) == 0)
		b = box_new(s, row, &e);
	row->id = NULL; /* the box has its own */
	if (b && box_link(b, &e) == 0)
		return b;
	box_free(b);
	return NULL;
}

static int start(struct sandboxes *s, const struct sandbox_order *o, const char *hex, sandbox_fn *fn, void *arg,
		 struct sandbox **ret, struct fault *f)
{
	struct task t = { .kind = TASK_CREATE, .fn = fn, .arg = arg, .arena = ARENA_INIT(BOX_ARENA_MAX) };
	struct sandbox_row row = { 0 };
	struct box *b;
	struct err e = { 0 };

	if (create_row(s, o, &row, f) < 0)
		return -1;
	if (order_claim_volumes(s, o, &t.arena, &row, f) < 0) {
		task_done(&t);
		return -1;
	}
	b = make_box(s, o, &row, &t);
	if (b) {
		first_events(b, o);
		if (add_key(s, o, hex, b->id, &e) == 0 && task_add(b, &t, f) == 0) {
			s->creates++;
			*ret = &b->pub;
			return 0;
		}
		key_forget_of(s, b->id, NULL);
		box_unlink(b);
	}
	row_unclaim_volumes(s, &row);
	box_free(b);
	task_done(&t);
	return fault_set(f, 503, NULL, "UNAVAILABLE", "out of resources");
}

int sandboxes_replay(struct sandboxes *s, const struct sandbox_order *order, sandbox_fn *fn, void *arg,
		     struct sandbox **ret, struct fault *f)
{
	char hex[SHA256_HEX_LEN + 1];

	if (order->key.n == 0)
		return 2;
	sha256_hex(order->key, hex);
	return replay(s, order, hex, fn, arg, ret, f);
}

int sandboxes_create(struct sandboxes *s, const struct sandbox_order *order, sandbox_fn *fn, void *arg,
		     struct sandbox **ret, struct fault *f)
{
	char hex[SHA256_HEX_LEN + 1] = "";
	int r = 2;

	if (order->key.n > 0) {
		sha256_hex(order->key, hex);
		r = replay(s, order, hex, fn, arg, ret, f);
	}
	if (r != 2)
		return r;
	if (s->creates >= s->spec.creates_max)
		return fault_set(f, 429, NULL, "TOO_MANY_REQUESTS", "too many sandboxes are being created");
	if (s->by_id.n >= SANDBOXES_MAX)
		return fault_set(f, 429, "SANDBOX", "LIMIT_REACHED", "this server has %d sandboxes already", SANDBOXES_MAX);
	return start(s, order, hex, fn, arg, ret, f);
}
