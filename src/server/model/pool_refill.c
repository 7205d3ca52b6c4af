// SPDX-License-Identifier: Apache-2.0
/* From what there is to what there should be: one step at a time, and never in a client's way for long. */
#include <stdio.h>

#include "base/log.h"
#include "server/model/pool_impl.h"

#include "base/banned.h"

#define REFILLS_MAX 4 /* at once, in all pools; each has one */
#define QUIET_MS 20   /* without a client's create before a refill begins */
#define LATE_MS 250   /* then one begins all the same */
#define LOOK_MS 500   /* between two looks at one whose image takes long */
#define RETRY_FIRST_MS 1000
#define RETRY_MAX_MS 30000

/* Who waits to hear how a refill ends: the sandbox, and with it its member, may be gone by then. */
struct refill {
	struct pools *set;
	char id[ID_MAX + 1], pool_id[UUID_LEN + 1];
};

void pools_poke(struct pools *p)
{
	if (!p->is_stopping)
		timer_in(&p->tick, 0);
}

void pools_give_way(struct pools *p)
{
	p->asked_ms = loop_now_ms(p->loop);
}

/* ---- less ---- */

static size_t over(size_t n, int64_t limit)
{
	return n > (size_t)limit ? n - (size_t)limit : 0;
}

/* Those that leave do not count: they go anyway. */
static size_t living(const struct pool *pool)
{
	return pool_total(pool) - pool->count[MEMBER_LEAVING];
}

static size_t surplus(const struct pool *pool)
{
	size_t n = MIN(over(pool->count[MEMBER_IDLE], pool->capacity.buffer_max), over(living(pool), pool->capacity.pool_min));

	return MIN(MAX(n, over(living(pool), pool->capacity.pool_max)), pool->count[MEMBER_IDLE]);
}

static void shrink(struct pool *pool)
{
	for (size_t n = surplus(pool); n > 0; n--)
		member_remove(LIST_LAST(&pool->idle, struct member, at));
}

void pool_drain(struct pool *pool)
{
	while (pool->idle.first)
		member_remove(LIST_FIRST(&pool->idle, struct member, at));
	LIST_EACH (struct member, m, &pool->others, at) {
		if (m->state == MEMBER_MAKING)
			member_remove(m);
		else if (m->state == MEMBER_TAKEN)
			member_free(m);
	}
}

/* ---- more ---- */

static bool wants_more(struct pool *pool)
{
	const struct pool_capacity *c = &pool->capacity;
	int64_t supply = (int64_t)(pool->count[MEMBER_IDLE] + pool->count[MEMBER_MAKING]);

	if (supply < c->buffer_min)
		pool->is_filling = true;
	if (supply >= (c->buffer_min + c->buffer_max + 1) / 2)
		pool->is_filling = false;
	if (pool->is_pending || pool->count[MEMBER_MAKING] > 0 || (int64_t)pool_total(pool) >= c->pool_max)
		return false;
	return pool->is_filling || (int64_t)living(pool) < c->pool_min;
}

static void rest(struct pool *pool, unsigned *ms)
{
	*ms = *ms == 0 ? RETRY_FIRST_MS : MIN(*ms * 2, (unsigned)RETRY_MAX_MS);
	pool->not_before_ms = loop_now_ms(pool->set->loop) + *ms;
}

void pool_died_young(struct pool *pool)
{
	rest(pool, &pool->young_ms);
}

/* A server or a runtime that has no time or is away will be back: that says nothing about the template. */
static void back_off(struct pool *pool, const struct fault *f)
{
	if (f->status == 503 || f->status == 429)
		pool->retry_ms = 0;
	rest(pool, &pool->retry_ms);
}

static void become_idle(struct member *m)
{
	struct pools *p = m->pool->set;

	m->is_late = false;
	m->made_ms = loop_now_ms(p->loop);
	m->pool->retry_ms = 0;
	member_set(m, MEMBER_IDLE);
	(void)member_ping(m, &(struct err){ 0 }); /* it has a connection then, for whoever takes it */
	timer_in(&p->check, 0);
}

/* Looks after those whose image takes long. */
static bool has_late(struct pool *pool)
{
	bool is_there = false;

	LIST_EACH (struct member, m, &pool->others, at) {
		if (m->state != MEMBER_MAKING || !m->is_late)
			continue;
		is_there |= m->sb->row.state == SANDBOX_PENDING;
		if (m->sb->row.state == SANDBOX_RUNNING)
			become_idle(m);
		else if (m->sb->row.state != SANDBOX_PENDING) {
			rest(pool, &pool->retry_ms);
			member_remove(m);
		}
	}
	return is_there;
}

static void on_made(struct sandbox *sb, const struct fault *f, void *arg)
{
	struct refill *r = arg;
	struct pools *p = r->set;
	struct sandbox *made = sb ? sb : sandboxes_find_any(sandboxes_of(p), str_of(r->id));
	struct member *m = made ? made->member : NULL;
	struct pool *pool = pools_find_id(p, r->pool_id);

	if (pool && f)
		back_off(pool, f);
	if (m && m->state == MEMBER_MAKING && f) {
		member_set(m, MEMBER_LEAVING); /* the sandboxes remove what there is of it */
	} else if (m && m->state == MEMBER_MAKING && made->row.state == SANDBOX_PENDING) {
		m->is_late = true;
	} else if (m && m->state == MEMBER_MAKING) {
		become_idle(m);
	}
	if (f)
		log_warn("a sandbox for a pool could not be made, trying again", LOG_S("code", f->code), LOG_S("why", f->message));
	free(r);
	pools_poke(p);
}

static int make_one(struct pool *pool, struct fault *f)
{
	const struct sandbox_order *template = pool_order(pool, f);
	struct refill *r = calloc(1, sizeof(*r));
	struct sandbox_order order;
	struct sandbox *sb = NULL;

	if (!template || !r) {
		free(r);
		return template ? fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory") : -1;
	}
	order = *template;
	order.is_idle = true;
	r->set = pool->set;
	memcpy(r->pool_id, pool->id, sizeof(r->pool_id));
	if (sandboxes_create(sandboxes_of(pool->set), &order, on_made, r, &sb, f) < 0) {
		free(r);
		return -1;
	}
	(void)snprintf(r->id, sizeof(r->id), "%s", sb->row.id);
	if (member_new(pool, sb, MEMBER_MAKING))
		return 0;
	sandbox_discard(sb);
	return fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
}

/* ---- when ---- */

static uint64_t way_to_give(struct pools *p)
{
	uint64_t now = loop_now_ms(p->loop);
	bool is_quiet = !p->takes.first && sandboxes_creating(sandboxes_of(p)) <= p->n_making &&
			(p->asked_ms == 0 || now - p->asked_ms >= QUIET_MS);

	if (is_quiet || (p->waiting_ms != 0 && now - p->waiting_ms >= LATE_MS)) {
		p->waiting_ms = 0;
		return 0;
	}
	if (p->waiting_ms == 0)
		p->waiting_ms = now;
	return QUIET_MS;
}

static void sooner(uint64_t *wait_ms, uint64_t ms)
{
	if (*wait_ms == 0 || ms < *wait_ms)
		*wait_ms = ms;
}

static void refill(struct pool *pool, uint64_t *wait_ms)
{
	struct pools *p = pool->set;
	uint64_t now = loop_now_ms(p->loop), way;
	struct fault f;

	if (!wants_more(pool) || p->n_making >= REFILLS_MAX) /* the end of one of those brings us back */
		return;
	if (pool->not_before_ms > now) {
		sooner(wait_ms, pool->not_before_ms - now);
		return;
	}
	way = way_to_give(p);
	if (way > 0) {
		sooner(wait_ms, way);
		return;
	}
	if (make_one(pool, &f) == 0)
		return;
	back_off(pool, &f);
	sooner(wait_ms, pool->retry_ms);
	log_warn("a pool cannot be refilled, trying again", LOG_S("pool", pool->name), LOG_S("code", f.code), LOG_S("why", f.message));
}

void pools_tick(void *arg)
{
	struct pools *p = arg;
	uint64_t wait_ms = 0;

	LIST_EACH (struct pool, pool, &p->pools, at) {
		shrink(pool);
		if (has_late(pool))
			sooner(&wait_ms, LOOK_MS);
		refill(pool, &wait_ms);
	}
	if (wait_ms > 0)
		timer_in(&p->tick, wait_ms);
}
