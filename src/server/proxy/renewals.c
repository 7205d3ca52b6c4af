// SPDX-License-Identifier: Apache-2.0
#include "server/proxy/renewals.h"

#include "access/renew_intent.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "net/loop.h"
#include "net/redis.h"
#include "net/tls.h"
#include "net/transport.h"
#include "server/config/config.h"
#include "server/model/plane.h"

#include "base/banned.h"

#define WAIT_S 5        /* of one BRPOP */
#define REPLY_MS 10000  /* for its reply */
#define AGAIN_MS 1000

/* One that waits at the queue; each has a connection of its own. */
struct consumer {
	struct renewals *all;
	struct redis *redis;
	struct timer again;
};

struct renewals {
	struct plane *plane;
	const char *queue;
	struct redis_dsn dsn;
	struct tls_client *tls;
	struct tls_target target;
	bool is_broken; /* it has been said that Redis is away */
	size_t n;
	struct consumer consumers[];
};

static void wait_at_queue(struct consumer *c);

static void renew(struct renewals *r, struct str text)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(4 * RENEW_INTENT_MAX);
	int64_t now = sandboxes_wall_us(r->plane->sandboxes);
	struct renew_intent in;
	struct sandbox *sb;
	struct err e = { 0 };

	if (renew_intent_read(text, &a, &in, &e) < 0) {
		log_debug("a renewal that cannot be read, ignoring", LOG_ERR(&e));
		return;
	}
	if (now - in.observed_us > RENEW_INTENT_AGE_S * US_PER_S)
		return;
	sb = sandboxes_find(r->plane->sandboxes, in.id);
	if (sb)
		sandbox_touch(sb, r->plane->spec.renew_interval_s);
}

static void on_popped(const struct redis_reply *reply, const struct err *e, void *arg)
{
	struct consumer *c = arg;
	struct renewals *r = c->all;

	if (e) {
		if (!r->is_broken)
			log_warn("the queue of renewals cannot be read, trying again", LOG_ERR(e));
		r->is_broken = true;
		timer_in(&c->again, AGAIN_MS);
		return;
	}
	if (r->is_broken)
		log_info("the queue of renewals can be read again");
	r->is_broken = false;
	if (reply->kind == REDIS_ARRAY && reply->n == 2)
		renew(r, reply->items[1]);
	wait_at_queue(c);
}

static void wait_at_queue(struct consumer *c)
{
	struct str words[] = { STR("BRPOP"), str_of(c->all->queue), STR("5") };
	struct err e = { 0 };

	_Static_assert(WAIT_S == 5, "as in words[]");
	if (redis_send(c->redis, words, ARRAY_LEN(words), REPLY_MS, on_popped, c, &e) < 0)
		timer_in(&c->again, AGAIN_MS);
}

static void on_again(void *arg)
{
	wait_at_queue(arg);
}

void renewals_free(struct renewals *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++) {
		redis_free(r->consumers[i].redis);
		timer_done(&r->consumers[i].again);
	}
	tls_client_free(r->tls);
	secret_wipe(&r->dsn, sizeof(r->dsn));
	free(r);
}

static int consumer_start(struct renewals *r, struct consumer *c, struct err *e)
{
	struct transport_maker maker = { 0 };

	c->all = r;
	if (r->dsn.is_tls)
		maker = tls_client_maker(&r->target);
	c->redis = redis_new(r->plane->spec.loop, &r->dsn, r->dsn.is_tls ? &maker : NULL, e);
	if (!c->redis || timer_init(&c->again, r->plane->spec.loop, on_again, c, "renewals", e) < 0)
		return -1;
	wait_at_queue(c);
	return 0;
}

struct renewals *renewals_new(struct plane *p, const struct config_renew_intent *config, struct err *e)
{
	size_t n = (size_t)config->redis.consumer_concurrency;
	AUTO(renewals_free) struct renewals *r = calloc(1, sizeof(*r) + n * sizeof(r->consumers[0]));
	struct err away = { 0 };

	if (!r) {
		(void)err_no_memory(e);
		return NULL;
	}
	r->plane = p;
	r->queue = config->redis.queue_key;
	if (redis_dsn_parse(str_of(config->redis.dsn), &r->dsn, e) < 0) {
		(void)err_wrap(e, "renew_intent.redis.dsn");
		return NULL;
	}
	if (redis_dsn_resolve(&r->dsn, &away) < 0) /* requests through our own proxy renew all the same */
		log_error("the queue of renewals is not read", LOG_ERR(&away));
	if (r->dsn.is_tls) {
		r->tls = tls_client_new(&(struct tls_client_options){ 0 }, e);
		r->target = (struct tls_target){ r->tls, r->dsn.host };
		if (!r->tls)
			return NULL;
	}
	for (; r->n < n; r->n++)
		if (consumer_start(r, &r->consumers[r->n], e) < 0) {
			r->n++; /* what there is of it goes, too */
			return NULL;
		}
	return take_ptr(&r);
}
