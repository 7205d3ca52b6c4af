// SPDX-License-Identifier: Apache-2.0
/* Whoever wants a sandbox from a pool: one that waits, proven well and then committed, or a new one. */
#include "base/log.h"
#include "server/model/pool_impl.h"
#include "server/model/waiters.h"

#include "base/banned.h"

#define TRIES_MAX 3 /* sandboxes that turn out not to be well, before a new one is made: each may take seconds */

struct take {
	struct list_node at;
	struct pools *set;
	struct pool *pool;
	struct arena arena; /* of what the order has that is not the pool's */
	struct sandbox_order order;
	sandbox_fn *fn;
	void *arg;
	struct waiters waiters; /* that came with the same key */
	struct member *member;  /* reserved; or NULL */
	bool is_handing;        /* its hand-out, or a create, has begun: that one tells how it ends */
	unsigned tries;         /* of those that wait */
	struct deferred again;
};

/* ---- life ---- */

static void take_free(struct take *t)
{
	waiters_done(&t->waiters);
	defer_cancel(&t->again);
	arena_done(&t->arena);
	free(t);
}

static void take_end(struct take *t, struct sandbox *sb, const struct fault *f)
{
	struct pool *pool = t->pool;

	list_remove(&t->set->takes, &t->at);
	pool->n_takes--;
	t->fn(f ? NULL : sb, f, t->arg);
	waiters_tell(&t->waiters, sb, f);
	pools_poke(t->set);
	take_free(t);
	pool_unref(pool);
}

static int copy_map(struct arena *a, const struct string_map *from, struct string_map *to)
{
	*to = (struct string_map){ .items = arena_array(a, from->n + 1, sizeof(*to->items)) };
	for (; to->items && to->n < from->n; to->n++) {
		struct string_pair *pair = &to->items[to->n];

		pair->key = arena_dup(a, str_of(from->items[to->n].key));
		pair->value = arena_dup(a, str_of(from->items[to->n].value));
		if (!pair->key || !pair->value)
			return -1;
	}
	return to->items ? 0 : -1;
}

/* What the request brings is copied; what the pool and the runtime have is there as long as they are. */
static int copy_order(struct take *t, const struct sandbox_order *o)
{
	const char **ignored = arena_array(&t->arena, o->n_ignored + 1, sizeof(*ignored));

	t->order = *o;
	t->order.ignored = ignored;
	for (size_t i = 0; ignored && i < o->n_ignored; i++) {
		ignored[i] = arena_dup(&t->arena, str_of(o->ignored[i]));
		if (!ignored[i])
			return -1;
	}
	t->order.key = (struct str){ arena_dup(&t->arena, o->key), o->key.n };
	return ignored && t->order.key.p ? copy_map(&t->arena, &o->metadata, &t->order.metadata) : -1;
}

static struct take *take_new(struct pool *pool, const struct sandbox_order *o, sandbox_fn *fn, void *arg)
{
	struct pools *p = pool->set;
	struct take *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->arena = ARENA_INIT(POOL_ARENA_MAX);
	if (copy_order(t, o) < 0) {
		take_free(t);
		return NULL;
	}
	t->set = p;
	t->pool = pool;
	t->fn = fn;
	t->arg = arg;
	list_prepend(&p->takes, &t->at);
	pool->n_takes++;
	return t;
}

/* ---- a new one ---- */

static int take_cold(struct pool *pool, const struct sandbox_order *o, sandbox_fn *fn, void *arg, struct sandbox **ret,
		     struct fault *f)
{
	struct pools *p = pool->set;
	struct sandbox *sb = NULL;
	int rc;

	if (pool->is_deleted)
		return fault_set(f, 404, code_prefix(p), "POOL_NOT_FOUND", "pool '%s' was deleted", pool->name);
	if ((int64_t)pool_total(pool) >= pool->capacity.pool_max)
		return fault_set(f, 429, code_prefix(p), "POOL_EXHAUSTED", "pool '%s' has its %lld sandboxes, and none of them waits",
				 pool->name, (long long)pool->capacity.pool_max);
	rc = sandboxes_create(sandboxes_of(p), o, fn, arg, &sb, f);
	/* Without memory for this one, its pool does not count it. */
	if (rc == 0 && !sb->member)
		(void)member_new(pool, sb, MEMBER_TAKEN);
	*ret = sb;
	return rc;
}

/* ---- one that waits ---- */

static void take_try(struct take *t);

static void on_again(void *arg)
{
	take_try(arg);
}

static void try_again(struct take *t)
{
	t->member = NULL;
	t->is_handing = false;
	defer(&t->again, t->set->loop, on_again, t, "pool");
}

static bool is_fit(const struct sandbox *sb)
{
	return sb->row.is_idle && sb->row.state == SANDBOX_RUNNING && !sb->has_end;
}

static void give_back(struct take *t, const struct fault *f)
{
	t->member->take = NULL;
	if (t->pool->is_deleted || !is_fit(t->member->sb))
		member_remove(t->member);
	else
		member_set(t->member, MEMBER_IDLE);
	take_end(t, NULL, f);
}

static void on_cold(struct sandbox *sb, const struct fault *f, void *arg)
{
	take_end(arg, sb, f);
}

static void on_handed(struct sandbox *sb, const struct fault *f, void *arg)
{
	struct take *t = arg;
	struct member *m = t->member;

	if (!f && m) {
		m->take = NULL;
		t->pool->young_ms = 0;
		member_set(m, MEMBER_TAKEN);
		if (t->pool->is_deleted)
			member_free(m);
		take_end(t, sb, NULL);
	} else if (t->set->is_stopping) {
		take_end(t, NULL, f);
	} else if (m && is_fit(m->sb)) {
		give_back(t, f);
	} else {
		if (m) {
			m->take = NULL;
			member_remove(m);
		}
		try_again(t);
	}
}

void take_pinged(struct take *t, bool is_known, bool is_well)
{
	struct fault f;

	if (is_known && !is_well) {
		try_again(t);
		return;
	}
	if (!is_known) {
		(void)fault_set(&f, 503, code_prefix(t->set), "SANDBOX_QUERY_FAILED", "the sandboxes of the pool cannot be asked at the moment");
		give_back(t, &f);
		return;
	}
	KILL_POINT("server.pool.chosen");
	t->is_handing = true;
	if (sandbox_hand_out(t->member->sb, &t->order, on_handed, t, &f) < 0)
		give_back(t, &f);
}

void take_bereaved(struct take *t)
{
	t->member = NULL;
	if (!t->is_handing && !t->set->is_stopping)
		try_again(t);
}

static void take_try(struct take *t)
{
	struct member *m = t->tries++ < TRIES_MAX ? LIST_FIRST(&t->pool->idle, struct member, at) : NULL;
	struct sandbox *sb = NULL;
	struct err e = { 0 };
	struct fault f;
	int rc;

	if (!m) {
		t->is_handing = true;
		rc = take_cold(t->pool, &t->order, on_cold, t, &sb, &f);
		if (rc != 0)
			take_end(t, sb, rc < 0 ? &f : NULL);
		return;
	}
	member_set(m, MEMBER_RESERVED);
	m->take = t;
	t->member = m;
	if (member_ping(m, &e) == 0)
		return;
	(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "out of resources");
	give_back(t, &f);
}

/* ---- asking ---- */

static struct take *find_key(const struct pools *p, struct str key)
{
	LIST_EACH (struct take, t, &p->takes, at)
		if (key.n > 0 && str_eq(t->order.key, key))
			return t;
	return NULL;
}

/* 2: nobody with this key is on the way. */
static int join(struct pools *p, const struct sandbox_order *o, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct take *t = find_key(p, o->key);

	if (!t)
		return 2;
	if (memcmp(t->order.body, o->body, sizeof(o->body)) != 0)
		return fault_set(f, 409, "SANDBOX", "IDEMPOTENCY_KEY_REUSED", "this Idempotency-Key came with another request before");
	return waiters_add(&t->waiters, fn, arg, f);
}

int pool_take(struct pool *pool, const struct sandbox_order *order, sandbox_fn *fn, void *arg, struct sandbox **ret,
	      struct fault *f)
{
	struct pools *p = pool->set;
	struct take *t;
	int rc = join(p, order, fn, arg, f);

	*ret = NULL;
	if (rc == 2)
		rc = sandboxes_replay(sandboxes_of(p), order, fn, arg, ret, f);
	if (rc != 2)
		return rc;
	if (!pool->idle.first)
		return take_cold(pool, order, fn, arg, ret, f);
	t = take_new(pool, order, fn, arg);
	if (!t)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
	try_again(t); /* callbacks come from the loop */
	return 0;
}

void takes_stop(struct pools *p)
{
	struct fault f;

	(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "the server is stopping");
	LIST_EACH (struct take, t, &p->takes, at) {
		if (t->is_handing)
			continue; /* the sandboxes tell it */
		if (t->member)
			t->member->take = NULL;
		take_end(t, NULL, &f);
	}
}
