// SPDX-License-Identifier: Apache-2.0
/* One round of a pool: who fills it, makes it as full as it should be. Runs on the pool's thread, from the top: it may wait. */
#include <stdio.h>

#include "base/err.h"
#include "client/client_impl.h"
#include "client/pool_impl.h"

#include "base/banned.h"

struct warm {
	struct osb_pool *pool;
	struct osb_call *call;
	struct osb_sandbox *sandbox;
	bool is_over;
};

/* ---- how it goes ---- */

static void note_success(struct osb_pool *p)
{
	p->backoffs = 0;
	p->backoff_until_ms = 0;
	pthread_mutex_lock(&p->mutex);
	p->failures = 0;
	p->is_degraded = false;
	p->last_error[0] = '\0';
	pthread_mutex_unlock(&p->mutex);
}

static void note_failures(struct osb_pool *p, size_t n, const char *why)
{
	uint64_t wait_ms = POOL_BACKOFF_MS << MIN(p->backoffs, 20U);
	bool is_degraded;

	pthread_mutex_lock(&p->mutex);
	p->failures += n;
	(void)snprintf(p->last_error, sizeof(p->last_error), "%s", why); /* a long one is cut */
	p->is_degraded = is_degraded = p->failures >= p->degraded_after;
	pthread_mutex_unlock(&p->mutex);
	if (!is_degraded)
		return;
	p->backoff_until_ms = loop_now_ms(p->client->loop) + MIN(wait_ms, POOL_BACKOFF_MAX_MS);
	p->backoffs++;
}

static bool lock(struct osb_pool *p)
{
	const struct pool_order o = { .kind = POOL_LOCK, .owner = p->owner, .ttl_ms = p->lock_ttl_ms };
	struct pool_answer a;
	struct err e = { 0 };

	if (pool_ask(p, &o, &a, &e) < 0) {
		note_failures(p, 1, e.msg);
		return false;
	}
	return a.number == 1;
}

/* ---- less ---- */

struct reaping {
	struct osb_pool *pool;
	bool is_done;
};

static void on_reaped(const struct pool_answer *a, const struct err *e, void *arg)
{
	struct reaping *r = arg;

	(void)e; /* the next order fails as well, and is told of */
	for (size_t i = 0; a && i < a->n; i++)
		pool_kill(r->pool, a->entries[i].id, NULL);
	r->is_done = true;
}

static void reap(struct osb_pool *p)
{
	struct reaping r = { .pool = p };

	pool_store_order(p->store, &(struct pool_order){ .kind = POOL_REAP, .ttl_ms = p->min_remaining_ms }, on_reaped, &r);
	while (!r.is_done)
		pool_turn(p, -1);
}

static void shrink(struct osb_pool *p, int64_t n)
{
	struct pool_answer a;
	struct err e = { 0 };

	while (n-- > 0 && !p->stops && lock(p)) {
		if (pool_ask(p, &(struct pool_order){ .kind = POOL_TAKE }, &a, &e) < 0 || !*a.id)
			return;
		pool_kill(p, a.id, NULL);
	}
}

/* ---- more ---- */

static void on_warm(struct osb_call *call, void *arg)
{
	(void)call;
	((struct warm *)arg)->is_over = true;
}

static void begin(struct osb_pool *p, struct warm *w)
{
	w->pool = p;
	w->call = osb_call_new(p->client);
	if (!w->call) {
		w->is_over = true;
		return;
	}
	osb_call_on_done(w->call, on_warm, w);
	(void)osb_sandbox_create(p->client, &p->spec, &w->sandbox, w->call);
}

static bool is_any_busy(const struct warm *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!all[i].is_over)
			return true;
	return false;
}

/* One that is being made when the pool stops is taken back: whoever cancels a create does not leave a sandbox behind. */
static void await_all(struct osb_pool *p, struct warm *all, size_t n)
{
	bool is_cancelled = false;

	while (is_any_busy(all, n)) {
		pool_turn(p, -1);
		for (size_t i = 0; p->stops && !is_cancelled && i < n; i++)
			if (!all[i].is_over)
				osb_call_cancel(all[i].call);
		is_cancelled |= p->stops;
	}
}

/* 0 if it may wait in the pool; its time begins when it does. */
static int prepare(struct osb_pool *p, struct warm *w, char *why, size_t size)
{
	const char *id = osb_sandbox_id(w->sandbox);

	if (p->prepare && p->prepare(w->sandbox, p->prepare_arg) < 0) {
		(void)snprintf(why, size, "preparing a sandbox has failed");
		return -1;
	}
	if (p->stops)
		return -1;
	if (osb_sandbox_renew(p->client, id, p->idle_timeout_s, NULL, NULL) == 0)
		return 0;
	(void)snprintf(why, size, "%s", osb_client_error(p->client)->message);
	return -1;
}

/* Into the store, if it is still ours to fill. */
static int put(struct osb_pool *p, const char *id)
{
	struct err e = { 0 };

	if (!lock(p))
		return -1;
	if (pool_ask(p, &(struct pool_order){ .kind = POOL_PUT, .id = id }, NULL, &e) == 0) {
		note_success(p);
		return 0;
	}
	note_failures(p, 1, e.msg);
	(void)pool_ask(p, &(struct pool_order){ .kind = POOL_REMOVE, .id = id }, NULL, &(struct err){ 0 }); /* should it have been taken in */
	return -1;
}

static void settle(struct osb_pool *p, struct warm *w)
{
	char why[256] = "out of memory";

	if (!w->sandbox) {
		if (w->call)
			(void)snprintf(why, sizeof(why), "%s", osb_call_error(w->call)->message);
		if (!p->stops)
			note_failures(p, 1, why);
	} else if (prepare(p, w, why, sizeof(why)) < 0) {
		if (!p->stops)
			note_failures(p, 1, why);
		pool_kill(p, osb_sandbox_id(w->sandbox), NULL);
	} else if (put(p, osb_sandbox_id(w->sandbox)) < 0) {
		pool_kill(p, osb_sandbox_id(w->sandbox), NULL);
	}
	osb_sandbox_free(w->sandbox);
	osb_call_free(w->call);
}

static void grow(struct osb_pool *p, size_t n)
{
	struct warm *all = calloc(n, sizeof(*all));

	if (!all) {
		note_failures(p, 1, "out of memory");
		return;
	}
	for (size_t i = 0; i < n; i++)
		begin(p, &all[i]);
	await_all(p, all, n);
	for (size_t i = 0; i < n; i++)
		settle(p, &all[i]);
	free(all);
}

/* ---- both ---- */

void pool_fill(struct osb_pool *p)
{
	struct pool_answer a;
	struct err e = { 0 };
	int64_t want, n;

	if (!lock(p))
		return;
	reap(p);
	if (p->stops || pool_ask(p, &(struct pool_order){ .kind = POOL_LOOK }, &a, &e) < 0)
		return;
	want = MIN(a.number >= 0 ? a.number : p->first_max_idle, (int64_t)POOL_IDLE_CEILING);
	n = MIN(want > a.count ? want - a.count : a.count - want, (int64_t)p->warmup);
	if (a.count > want)
		shrink(p, n);
	else if (n > 0 && loop_now_ms(p->client->loop) >= p->backoff_until_ms && lock(p) && !p->stops)
		grow(p, (size_t)n);
}
