// SPDX-License-Identifier: Apache-2.0
/* The set of pools, and the changes of a pool itself: a transaction, then what follows from it. */
#include "server/model/pool.h"

#include <stdio.h>

#include "base/log.h"
#include "base/sha256.h"
#include "server/model/pool_impl.h"

#include "base/banned.h"

/* ---- one pool ---- */

static void forget_order(struct pool *pool)
{
	for (size_t i = 0; pool->has_order && i < pool->order.env.n; i++) /* the copies are ours, and may be secrets */
		secret_wipe((void *)(uintptr_t)pool->order.env.items[i].value, strlen(pool->order.env.items[i].value));
	pool->has_order = false;
	arena_done(&pool->arena);
}

static void pool_free(struct pool *pool)
{
	if (!pool)
		return;
	forget_order(pool);
	if (pool->template)
		secret_wipe(pool->template, pool->template_n);
	free(pool->template);
	free(pool->name);
	free(pool);
}
DEFINE_AUTO(struct pool *, pool_free)

void pool_unref(struct pool *pool)
{
	if (pool->is_deleted && pool_total(pool) == 0 && pool->n_takes == 0)
		pool_free(pool);
}

static struct pool *pool_new(struct pools *p, const struct store_pool *row, struct err *e)
{
	AUTO(pool_free) struct pool *pool = calloc(1, sizeof(*pool));
	char hex[SHA256_HEX_LEN + 1];

	if (pool) {
		pool->name = strdup(row->name);
		pool->template = strndup(row->template.p, row->template.n);
	}
	if (!pool || !pool->name || !pool->template) {
		(void)err_no_memory(e);
		return NULL;
	}
	pool->set = p;
	pool->template_n = row->template.n;
	(void)snprintf(pool->id, sizeof(pool->id), "%s", row->id);
	sha256_hex(row->template, hex);
	(void)snprintf(pool->revision, sizeof(pool->revision), "%s", hex); /* its beginning tells enough */
	pool->capacity = row->capacity;
	pool->created_us = row->created_us;
	pool->arena = ARENA_INIT(POOL_ARENA_MAX);
	return take_ptr(&pool);
}

struct pool *pools_find_id(const struct pools *p, const char *id)
{
	LIST_EACH (struct pool, pool, &p->pools, at)
		if (strcmp(pool->id, id) == 0)
			return pool;
	return NULL;
}

static struct pool *find_name(const struct pools *p, struct str name)
{
	LIST_EACH (struct pool, pool, &p->pools, at)
		if (str_is(name, pool->name))
			return pool;
	return NULL;
}

/* ---- reading ---- */

struct pool *pools_find(const struct pools *p, struct str name)
{
	struct pool *pool = find_name(p, name);

	return pool && !pool->is_pending ? pool : NULL;
}

struct pool *pools_next(const struct pools *p, const struct pool *after)
{
	struct pool *pool = LIST_ENTRY(after ? after->at.next : p->pools.first, struct pool, at);

	while (pool && pool->is_pending)
		pool = LIST_NEXT(pool, at);
	return pool;
}

void pool_show(const struct pool *pool, struct pool_view *ret)
{
	*ret = (struct pool_view){
		.name = pool->name, .capacity = pool->capacity, .created_us = pool->created_us, .revision = pool->revision,
		.total = pool_total(pool), .allocated = pool->count[MEMBER_TAKEN], .available = pool->count[MEMBER_IDLE],
	};
}

const struct sandbox_order *pool_order(struct pool *pool, struct fault *f)
{
	const struct plane *plane = pool->set->spec.plane;

	if (pool->has_order)
		return &pool->order;
	forget_order(pool); /* what an earlier try has left */
	if (plane->spec.parts->read_template(plane, (struct str){ pool->template, pool->template_n }, &pool->arena, &pool->order, f) < 0)
		return NULL;
	pool->has_order = true;
	pool->order.pool = pool->id;
	pool->order.pool_name = pool->name;
	return &pool->order;
}

/* ---- changes ---- */

static struct pool_change *change_new(struct pools *p, const char *id, pool_fn *fn, void *arg, struct fault *f)
{
	struct pool_change *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
		return NULL;
	}
	c->set = p;
	c->fn = fn;
	c->arg = arg;
	(void)snprintf(c->id, sizeof(c->id), "%s", id);
	list_prepend(&p->changes, &c->at);
	return c;
}

static void change_end(struct pool_change *c, struct pool *pool, const struct fault *f)
{
	list_remove(&c->set->changes, &c->at);
	c->fn(f ? NULL : pool, f, c->arg);
	free(c);
}

/* Takes TX. On failure C is gone, and nobody was told. */
static int change_submit(struct pool_change *c, struct store_tx *tx, store_done_fn *fn, struct fault *f)
{
	struct err e = { 0 };

	if (store_submit(c->set->store, tx, fn, c, &e) == 0)
		return 0;
	log_error("a change of a pool could not be recorded", LOG_ERR(&e));
	list_remove(&c->set->changes, &c->at);
	free(c);
	return fault_of_store(f, &e);
}

/* The pool of a change that is committed; NULL: the change has ended. */
static struct pool *changed(struct pool_change *c, const struct err *e)
{
	struct pool *pool = pools_find_id(c->set, c->id);
	struct fault f;

	if (e) {
		(void)fault_of_store(&f, e);
	} else if (!pool) {
		(void)fault_set(&f, 404, code_prefix(c->set), "POOL_NOT_FOUND", "the pool was deleted meanwhile");
	} else {
		return pool;
	}
	change_end(c, NULL, &f);
	return NULL;
}

static void on_created(const struct err *e, void *arg)
{
	struct pool_change *c = arg;
	struct pools *p = c->set;
	struct pool *pool = pools_find_id(p, c->id);

	KILL_POINT("server.pool.created");
	if (e && pool) {
		list_remove(&pool->set->pools, &pool->at);
		pool_free(pool);
	}
	pool = changed(c, e);
	if (!pool)
		return;
	pool->is_pending = false;
	log_info("pool created", LOG_S("name", pool->name));
	pools_poke(p);
	change_end(c, pool, NULL);
}

static int refuse(const struct pools *p, const struct pool_order *o, struct fault *f)
{
	if (find_name(p, str_of(o->name)))
		return fault_set(f, 409, code_prefix(p), "POOL_ALREADY_EXISTS", "there is a pool '%s' already", o->name);
	if (p->pools.n >= POOLS_MAX)
		return fault_set(f, 429, code_prefix(p), "POOL_LIMIT_REACHED", "this server has %d pools already", POOLS_MAX);
	return 0;
}

int pools_create(struct pools *p, const struct pool_order *order, pool_fn *fn, void *arg, struct fault *f)
{
	char id[UUID_LEN + 1];
	struct store_pool row = { .id = id, .name = order->name, .template = order->template, .capacity = order->capacity,
				  .created_us = sandboxes_wall_us(sandboxes_of(p)) };
	struct pool_change *c;
	struct err e = { 0 };
	struct pool *pool;
	struct store_tx *tx;

	if (refuse(p, order, f) < 0)
		return -1;
	pool = uuid_text(&p->random, id, &e) == 0 ? pool_new(p, &row, &e) : NULL;
	if (!pool)
		return fault_set(f, 503, NULL, "UNAVAILABLE", "out of resources");
	pool->is_pending = true;
	list_append(&pool->set->pools, &pool->at);
	tx = store_tx_new();
	store_tx_pool(tx, &row);
	c = change_new(p, id, fn, arg, f);
	if (c && change_submit(c, tx, on_created, f) == 0) {
		KILL_POINT("server.pool.create_queued");
		return 0;
	}
	if (!c)
		store_tx_free(tx);
	list_remove(&pool->set->pools, &pool->at);
	pool_free(pool);
	return -1;
}

static void on_resized(const struct err *e, void *arg)
{
	struct pool_change *c = arg;
	struct pool *pool = changed(c, e);

	if (!pool)
		return;
	KILL_POINT("server.pool.resized");
	pool->capacity = c->capacity;
	pool->not_before_ms = 0;
	pools_poke(pool->set);
	change_end(c, pool, NULL);
}

int pool_resize(struct pool *pool, const struct pool_capacity *capacity, pool_fn *fn, void *arg, struct fault *f)
{
	struct pool_change *c = change_new(pool->set, pool->id, fn, arg, f);
	struct store_tx *tx;

	if (!c)
		return -1;
	c->capacity = *capacity;
	tx = store_tx_new();
	store_tx_pool_capacity(tx, pool->id, capacity);
	return change_submit(c, tx, on_resized, f);
}

static void on_deleted(const struct err *e, void *arg)
{
	struct pool_change *c = arg;
	struct pool *pool = changed(c, e);

	if (!pool)
		return;
	KILL_POINT("server.pool.deleted");
	log_info("pool deleted", LOG_S("name", pool->name), LOG_U("idle", pool->count[MEMBER_IDLE]));
	list_remove(&pool->set->pools, &pool->at);
	pool->is_deleted = true;
	pool_drain(pool);
	pool_unref(pool);
	change_end(c, NULL, NULL);
}

int pool_delete(struct pool *pool, pool_fn *fn, void *arg, struct fault *f)
{
	struct pool_change *c = change_new(pool->set, pool->id, fn, arg, f);
	struct store_tx *tx;

	if (!c)
		return -1;
	tx = store_tx_new();
	store_tx_pool_delete(tx, pool->id);
	if (change_submit(c, tx, on_deleted, f) < 0)
		return -1;
	KILL_POINT("server.pool.delete_queued");
	return 0;
}

/* ---- the set ---- */

static int load_pool(const struct store_pool *row, void *arg, struct err *e)
{
	struct pool *pool = pool_new(arg, row, e);

	if (!pool)
		return -1;
	list_append(&pool->set->pools, &pool->at);
	return 0;
}

void pools_stop(struct pools *p)
{
	struct fault f;

	if (!p)
		return;
	p->is_stopping = true;
	timer_cancel(&p->tick);
	timer_cancel(&p->check);
	takes_stop(p);
	(void)fault_set(&f, 503, NULL, "UNAVAILABLE", "the server is stopping");
	while (p->changes.first)
		change_end(LIST_FIRST(&p->changes, struct pool_change, at), NULL, &f);
}

void pools_free(struct pools *p)
{
	struct pool *pool;

	if (!p)
		return;
	while ((pool = LIST_TAKE(&p->pools, struct pool, at)))
		pool_free(pool);
	timer_done(&p->tick);
	timer_done(&p->check);
	random_pool_done(&p->random);
	free(p);
}

struct pools *pools_new(const struct pools_spec *spec, enum store_fault *ret_fault, struct err *e)
{
	AUTO(pools_free) struct pools *p = calloc(1, sizeof(*p));

	*ret_fault = STORE_FAILED;
	if (!p) {
		(void)err_no_memory(e);
		return NULL;
	}
	p->spec = *spec;
	p->loop = spec->plane->spec.loop;
	p->store = spec->plane->store;
	if (timer_init(&p->tick, p->loop, pools_tick, p, "pools", e) < 0 ||
	    timer_init(&p->check, p->loop, pools_check, p, "idle sandboxes", e) < 0 ||
	    store_load_pools(p->store, load_pool, p, ret_fault, e) < 0)
		return NULL;
	return take_ptr(&p);
}

/* ---- after a start ---- */

static void take_in(struct pools *p, struct sandbox *sb)
{
	struct pool *pool = sb->row.pool[0] ? pools_find_id(p, sb->row.pool) : NULL;
	struct member *m = pool ? member_new(pool, sb, sb->row.is_idle ? MEMBER_IDLE : MEMBER_TAKEN) : NULL;

	if (!sb->row.is_idle || (m && sb->row.state == SANDBOX_RUNNING && !sb->has_end))
		return;
	if (m)
		member_remove(m);
	else
		sandbox_discard(sb); /* its pool was deleted, or there is no memory for it */
}

void pools_found(struct pools *p, struct sandbox *sb)
{
	take_in(p, sb);
	pools_poke(p);
}

void pools_recovered(struct pools *p)
{
	for (struct sandbox *sb = sandboxes_newest(sandboxes_of(p)), *older; sb; sb = older) {
		older = sb->older;
		take_in(p, sb);
	}
	pools_poke(p);
	timer_in(&p->check, 0);
}
