// SPDX-License-Identifier: Apache-2.0
/* Asking for a sandbox: the same request finds what it has made before; a new one claims all that the create needs. */
#include "base/civil.h"
#include "base/clock.h"
#include "server/model/op_create.h"

#include "base/banned.h"

static bool is_told_as_pending(struct op *op)
{
	return op->type == &create_type && create_of(op)->state == CREATE_PENDING;
}

/* 2: there is no such key yet. */
static int replay(struct sandboxes *s, const struct sandbox_order *o, const char *hex, sandbox_fn *fn, void *arg,
		  struct sandbox **ret, struct fault *f)
{
	struct key *k = key_find(s, hex);
	struct sandbox *sb;
	struct op *op;

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
	op = sb->row.state == SANDBOX_PENDING ? op_first(&box_of(sb)->queue) : NULL;
	return op && !is_told_as_pending(op) ? op_wait(op, fn, arg, f) : 1;
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

int environment_copy(struct environment *env, struct arena *a, const struct string_map *from)
{
	env->map.items = arena_array(a, from->n + 1, sizeof(*env->map.items));
	env->names.items = arena_array(a, from->n + 1, sizeof(*env->names.items));
	for (size_t i = 0; env->map.items && env->names.items && i < from->n; i++) {
		env->map.items[i].key = arena_dup(a, str_of(from->items[i].key));
		env->map.items[i].value = arena_dup(a, str_of(from->items[i].value));
		if (!env->map.items[i].key || !env->map.items[i].value)
			return -1;
		env->names.items[i] = env->map.items[i].key;
		env->map.n = ++env->names.n;
	}
	return env->map.items && env->names.items ? 0 : -1;
}

void environment_wipe(struct environment *env)
{
	for (size_t i = 0; i < env->map.n; i++) /* the copies are ours */
		secret_wipe((void *)(uintptr_t)env->map.items[i].value, strlen(env->map.items[i].value));
}

static int copy_auth(struct create *c, const struct sandbox_order *o)
{
	if (!o->username || !o->password)
		return 0;
	c->username = arena_dup(&c->arena, str_of(o->username));
	c->password = arena_dup(&c->arena, str_of(o->password));
	return c->username && c->password ? 0 : -1;
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

static struct box *make_box(struct sandboxes *s, const struct sandbox_order *o, struct sandbox_row *row, struct create *c)
{
	char id[UUID_LEN + 1];
	struct box *b = NULL;
	struct err e = { 0 };

	if (environment_copy(&c->env, &c->arena, &o->env) < 0 || copy_auth(c, o) < 0 || uuid_text(&s->random, id, &e) < 0)
		return NULL;
	row->id = id;
	row->env_names = c->env.names;
	b = box_new(s, row, &e);
	row->id = NULL; /* the box has its own */
	if (b && box_link(b, &e) == 0)
		return b;
	box_free(b);
	return NULL;
}

/* What the order claims is the box's from here on, or nobody's. */
static struct box *claim_box(struct sandboxes *s, const struct sandbox_order *o, const char *hex, struct create *c, struct fault *f)
{
	struct sandbox_row row = { 0 };
	struct box *b;

	if (create_row(s, o, &row, f) < 0 || order_claim_volumes(s, o, &c->arena, &row, f) < 0)
		return NULL;
	b = make_box(s, o, &row, c);
	if (b) {
		first_events(b, o);
		if (add_key(s, o, hex, b->id, &(struct err){ 0 }) == 0)
			return b;
		box_unlink(b);
	}
	row_unclaim_volumes(s, &row);
	box_free(b);
	(void)fault_set(f, 503, NULL, "UNAVAILABLE", "out of resources");
	return NULL;
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
	struct box *b;
	struct op *op;
	int r = 2;

	if (order->key.n > 0) {
		sha256_hex(order->key, hex);
		r = replay(s, order, hex, fn, arg, ret, f);
	}
	if (r != 2)
		return r;
	op = op_admit(s, NULL, &create_type, fn, arg, f);
	if (!op)
		return -1;
	create_of(op)->arena = ARENA_INIT(BOX_ARENA_MAX);
	b = claim_box(s, order, hex, create_of(op), f);
	if (!b) {
		op_free(op);
		return -1;
	}
	op_add(&b->queue, op);
	*ret = &b->pub;
	return 0;
}
