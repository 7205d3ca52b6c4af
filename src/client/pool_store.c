// SPDX-License-Identifier: Apache-2.0
/* Stores in general, and the one in memory. */
#include "client/pool_store.h"

#include "base/clock.h"
#include "base/err.h"

#include "base/banned.h"

#define TTL_DEFAULT_MS (INT64_C(24) * 3600 * 1000)

struct memory_store {
	struct pool_store store;
	struct pool_entry *idle; /* the oldest first */
	size_t n, cap;
	int64_t max_idle, ttl_ms;
	struct pool_entry told[POOL_LIST_MAX];
};

static int64_t now_ms(void)
{
	return clock_wall_us() / 1000;
}

static void drop(struct memory_store *m, size_t i)
{
	memmove(&m->idle[i], &m->idle[i + 1], (m->n - i - 1) * sizeof(*m->idle));
	m->n--;
}

static size_t find(const struct memory_store *m, const char *id)
{
	size_t i = 0;

	while (i < m->n && strcmp(m->idle[i].id, id) != 0)
		i++;
	return i;
}

static void tell(struct memory_store *m, struct pool_answer *a, const struct pool_entry *entry)
{
	if (a->n < POOL_LIST_MAX)
		m->told[a->n++] = *entry;
	a->entries = m->told;
}

static void take(struct memory_store *m, int64_t ttl_ms, struct pool_answer *a)
{
	int64_t now = now_ms();

	while (m->n > 0 && !*a->id && a->n < POOL_LIST_MAX) {
		if (m->idle[0].expires_ms > now + ttl_ms)
			memcpy(a->id, m->idle[0].id, sizeof(a->id));
		else if (m->idle[0].expires_ms > now)
			tell(m, a, &m->idle[0]);
		drop(m, 0);
	}
}

static void reap(struct memory_store *m, int64_t ttl_ms, struct pool_answer *a)
{
	int64_t now = now_ms();

	for (size_t i = 0; i < m->n && a->n < POOL_LIST_MAX;) {
		if (m->idle[i].expires_ms > now + ttl_ms) {
			i++;
			continue;
		}
		if (m->idle[i].expires_ms > now)
			tell(m, a, &m->idle[i]);
		drop(m, i);
	}
}

static int put(struct memory_store *m, const char *id, struct err *e)
{
	size_t i = find(m, id), n = strlen(id);

	if (n > POOL_ID_MAX)
		return err_set(e, ERR_INVALID, "an id of %zu bytes", n);
	if (i < m->n && m->idle[i].expires_ms > now_ms())
		return 0;
	if (i == m->cap) {
		size_t cap = m->cap ? 2 * m->cap : 16;
		struct pool_entry *grown = reallocarray(m->idle, cap, sizeof(*grown));

		if (!grown)
			return err_no_memory(e);
		m->idle = grown;
		m->cap = cap;
	}
	if (i == m->n)
		m->n++;
	memcpy(m->idle[i].id, id, n + 1);
	m->idle[i].expires_ms = now_ms() + m->ttl_ms;
	return 0;
}

static void look(struct memory_store *m, struct pool_answer *a)
{
	a->number = m->max_idle;
	a->count = (int64_t)m->n;
	for (size_t i = 0; i < m->n; i++)
		tell(m, a, &m->idle[i]);
}

static int follow(struct memory_store *m, const struct pool_order *o, struct pool_answer *a, struct err *e)
{
	switch (o->kind) {
	case POOL_SETUP:
		m->ttl_ms = o->ttl_ms;
		m->max_idle = o->number;
		return 0;
	case POOL_RESIZE:
		m->max_idle = o->number;
		return 0;
	case POOL_TAKE:
		take(m, o->ttl_ms, a);
		return 0;
	case POOL_PUT:
		return put(m, o->id, e);
	case POOL_REMOVE:
		if (find(m, o->id) < m->n)
			drop(m, find(m, o->id));
		return 0;
	case POOL_LOCK: /* nobody else has it */
		a->number = 1;
		return 0;
	case POOL_UNLOCK:
		return 0;
	case POOL_REAP:
		reap(m, o->ttl_ms, a);
		return 0;
	case POOL_LOOK:
		look(m, a);
		return 0;
	}
	return err_set(e, ERR_INTERNAL, "no such order");
}

static void memory_order(struct pool_store *s, const struct pool_order *o, pool_answer_fn *fn, void *arg)
{
	struct memory_store *m = container_of(s, struct memory_store, store);
	struct pool_answer a = { 0 };
	struct err e = { 0 };
	int r = follow(m, o, &a, &e);

	fn(r < 0 ? NULL : &a, r < 0 ? &e : NULL, arg);
}

static void memory_free(struct pool_store *s)
{
	struct memory_store *m = container_of(s, struct memory_store, store);

	free(m->idle);
	free(m);
}

static struct pool_store *memory_new(struct err *e)
{
	static const struct pool_store_ops ops = { memory_order, memory_free };
	struct memory_store *m = calloc(1, sizeof(*m));

	if (!m) {
		(void)err_no_memory(e);
		return NULL;
	}
	m->store.ops = &ops;
	m->max_idle = -1;
	m->ttl_ms = TTL_DEFAULT_MS;
	return (struct pool_store *)m; /* of which it is the first member */
}

/* ---- in general ---- */

struct pool_store *pool_store_new(struct loop *l, const struct pool_store_spec *spec, struct err *e)
{
	return spec->redis_url ? pool_store_redis(l, spec, e) : memory_new(e);
}

void pool_store_free(struct pool_store *s)
{
	if (s)
		s->ops->free(s);
}

void pool_store_order(struct pool_store *s, const struct pool_order *o, pool_answer_fn *fn, void *arg)
{
	s->ops->order(s, o, fn, arg);
}
