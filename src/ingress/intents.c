// SPDX-License-Identifier: Apache-2.0
#include "ingress/intents.h"

#include <stdio.h>

#include "access/renew_intent.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/uuid.h"
#include "net/loop.h"
#include "net/redis.h"
#include "net/tls.h"
#include "net/transport.h"

#include "base/banned.h"

#define REPLY_MS 5000
#define URI_MAX 2048
#define SWEEP_MIN_MS 10000

struct told {
	struct intents *of;
	char id[ID_MAX + 1];
	uint64_t at_ms; /* when Redis has last taken it; 0: never */
	bool is_busy;   /* it is on its way */
};

struct intents {
	struct intents_spec spec;
	struct redis_dsn dsn;
	struct tls_client *tls;
	struct tls_target target;
	struct redis *redis;
	struct map told;
	struct timer sweep;
	struct intents_counts counts;
	bool is_broken; /* and it has been said so */
	char last[24];  /* of what stays in a capped list: its index */
};

/* ---- who was told of ---- */

static uint64_t sweep_ms(const struct intents *n)
{
	return MAX(2 * n->spec.interval_ms, (uint64_t)SWEEP_MIN_MS);
}

static void forget(struct intents *n, struct told *t)
{
	(void)map_del(&n->told, str_of(t->id));
	free(t);
}

/* One at a time, so that the map is not changed while it is walked. */
static struct told *find_old(const struct intents *n)
{
	uint64_t now = loop_now_ms(n->spec.loop);
	struct told *t;
	struct str key;

	for (size_t i = 0; (t = map_next(&n->told, &i, &key));)
		if (!t->is_busy && now - t->at_ms >= n->spec.interval_ms)
			return t;
	return NULL;
}

static void on_sweep(void *arg)
{
	struct intents *n = arg;
	struct told *t;

	while ((t = find_old(n)))
		forget(n, t);
	timer_in(&n->sweep, sweep_ms(n));
}

static struct told *told_of(struct intents *n, struct str id)
{
	struct told *t = map_get(&n->told, id);

	if (t || n->told.n >= INTENTS_SANDBOXES_MAX)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->of = n;
	memcpy(t->id, id.p, MIN(id.n, (size_t)ID_MAX));
	if (map_put(&n->told, str_of(t->id), t))
		return t;
	free(t);
	return NULL;
}

/* ---- sending ---- */

static void note_failure(struct intents *n, const struct err *e)
{
	n->counts.failed++;
	if (!n->is_broken)
		log_warn("cannot send renewals to Redis", LOG_ERR(e));
	n->is_broken = true;
}

static void on_pushed(const struct redis_reply *reply, const struct err *e, void *arg)
{
	struct told *t = arg;
	struct intents *n = t->of;

	(void)reply;
	t->is_busy = false;
	if (e) {
		note_failure(n, e);
		return;
	}
	if (n->is_broken)
		log_info("renewals are sent to Redis again");
	n->is_broken = false;
	n->counts.sent++;
	t->at_ms = loop_now_ms(n->spec.loop);
}

static void on_trimmed(const struct redis_reply *reply, const struct err *e, void *arg)
{
	(void)reply, (void)e, (void)arg; /* the next one trims again */
}

static void push(struct intents *n, struct told *t, struct str text)
{
	struct str words[] = { STR("LPUSH"), str_of(n->spec.queue), text };
	struct str trim[] = { STR("LTRIM"), str_of(n->spec.queue), STR("0"), str_of(n->last) };
	struct err e = { 0 };

	if (redis_send(n->redis, words, ARRAY_LEN(words), REPLY_MS, on_pushed, t, &e) < 0) {
		n->counts.dropped++;
		note_failure(n, &e);
		return;
	}
	t->is_busy = true;
	if (n->spec.queue_max > 0)
		(void)redis_send(n->redis, trim, ARRAY_LEN(trim), REPLY_MS, on_trimmed, n, &e);
}

void intents_note(struct intents *n, struct str id, unsigned port, struct str uri)
{
	AUTO(buf_done) struct buf text = BUF_INIT(RENEW_INTENT_MAX);
	struct renew_intent in = { id, clock_wall_us(), port, str_first(uri, URI_MAX) };
	struct told *t = n ? told_of(n, id) : NULL;

	if (!n)
		return;
	if (!t) {
		n->counts.dropped++;
		return;
	}
	if (t->is_busy || (t->at_ms != 0 && loop_now_ms(n->spec.loop) - t->at_ms < n->spec.interval_ms))
		return;
	if (renew_intent_write(&in, &text))
		push(n, t, buf_str(&text));
}

/* ---- life ---- */

struct intents_counts intents_counts(const struct intents *n)
{
	return n ? n->counts : (struct intents_counts){ 0 };
}

void intents_free(struct intents *n)
{
	struct told *t;
	struct str key;

	if (!n)
		return;
	redis_free(n->redis);
	for (size_t i = 0; (t = map_next(&n->told, &i, &key));)
		free(t);
	map_done(&n->told);
	timer_done(&n->sweep);
	tls_client_free(n->tls);
	secret_wipe(&n->dsn, sizeof(n->dsn));
	free(n);
}

static int intents_init(struct intents *n, struct err *e)
{
	struct transport_maker maker = { 0 };

	if (redis_dsn_parse(str_of(n->spec.dsn), &n->dsn, e) < 0 || redis_dsn_resolve(&n->dsn, e) < 0)
		return -1;
	if (n->dsn.is_tls) {
		n->tls = tls_client_new(&(struct tls_client_options){ 0 }, e);
		if (!n->tls)
			return -1;
		n->target = (struct tls_target){ n->tls, n->dsn.host };
		maker = tls_client_maker(&n->target);
	}
	n->redis = redis_new(n->spec.loop, &n->dsn, n->dsn.is_tls ? &maker : NULL, e);
	if (!n->redis || timer_init(&n->sweep, n->spec.loop, on_sweep, n, "renewals told", e) < 0)
		return -1;
	timer_in(&n->sweep, sweep_ms(n));
	return 0;
}

struct intents *intents_new(const struct intents_spec *spec, struct err *e)
{
	AUTO(intents_free) struct intents *n = calloc(1, sizeof(*n));

	if (!n) {
		(void)err_no_memory(e);
		return NULL;
	}
	n->spec = *spec;
	(void)snprintf(n->last, sizeof(n->last), "%llu", (unsigned long long)(spec->queue_max > 0 ? spec->queue_max - 1 : 0));
	return intents_init(n, e) < 0 ? NULL : take_ptr(&n);
}
