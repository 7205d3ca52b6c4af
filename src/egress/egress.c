// SPDX-License-Identifier: Apache-2.0
#include "egress/egress.h"

#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "egress/api.h"
#include "egress/cache.h"
#include "egress/flow.h"
#include "egress/resolv.h"
#include "egress/resolver.h"
#include "egress/sandbox.h"
#include "egress/sockets.h"
#include "egress/upstream.h"
#include "egress/webhook.h"

#include "base/banned.h"

#define TICK_MS 5000
#define RELOAD_TICKS 2 /* the operator's lists: within 60 s, and a look costs little */
#define OWN_TICKS 6    /* the addresses of this host, and its resolvers */

/* ---- what the warden tells ---- */

static void drop_held(struct egress *g)
{
	for (size_t i = 0; i < EGRESS_FDS; i++) {
		closep(&g->held[i]);
		g->held[i] = -1;
	}
}

/* The sockets of an earlier HELLO are read on until these are: they know no other sandboxes. */
static void on_hello(struct egress *g, int *fds)
{
	drop_held(g);
	for (size_t i = 0; i < EGRESS_FDS; i++)
		g->held[i] = take_fd(&fds[i]);
	g->is_told_all = false;
	sandboxes_begin(g);
}

void egress_listen(struct egress *g)
{
	struct err e = { 0 };

	if (!g->is_told_all || g->n_awaited > 0 || g->held[0] < 0 || !link_is_up(g->link))
		return;
	if (resolver_listen(g->resolver, &g->held[0], &g->held[1], &e) < 0 || flows_listen(g->flows, &g->held[2], &e) < 0)
		log_error("cannot listen for sandboxes", LOG_ERR(&e));
	drop_held(g);
}

static void on_told(const struct egress_message *m, int *fds, size_t n_fds, void *arg)
{
	struct egress *g = arg;

	switch ((enum egress_call)m->call) {
	case EGRESS_HELLO:
		on_hello(g, fds);
		break;
	case EGRESS_BIND:
		sandbox_bind(g, m, n_fds > 0 ? &fds[0] : NULL);
		break;
	case EGRESS_SYNCED:
		sandboxes_synced(g);
		g->is_told_all = true;
		egress_listen(g);
		break;
	case EGRESS_UNBIND:
		sandbox_unbind(g, m->id);
		break;
	case EGRESS_DONE:
	case EGRESS_BOUND:
	case EGRESS_RULES:
	case EGRESS_LEARN:
	case EGRESS_FORGET:
	case EGRESS_CUT:
		break; /* not for us: the link has refused them */
	}
}

/* ---- what is looked at now and then ---- */

static void read_own(struct egress *g)
{
	struct own_addresses own = OWN_ADDRESSES_INIT;
	struct err e = { 0 };

	if (own_addresses_read(&own, &e) < 0) {
		log_warn("cannot read the addresses of this host, those of before count", LOG_ERR(&e));
		return;
	}
	own_addresses_done(&g->own);
	g->own = own;
}

static void read_resolv_conf(struct egress *g)
{
	struct addr now[UPSTREAMS_MAX] = { 0 };
	struct err e = { 0 };
	size_t n = 0;

	if (resolv_read(now, UPSTREAMS_MAX, &n, &e) < 0 || n == 0)
		return; /* it is being written: those of before count */
	if (upstream_set(g->upstream, now, n))
		log_info("other resolvers are asked from now on", LOG_U("resolvers", n));
}

static void open_lists(struct egress *g)
{
	egress_mark_open(g, g->operator_rules.deny.rules);
	egress_mark_open(g, g->operator_rules.allow.rules);
}

void egress_reload(struct egress *g)
{
	if (!operator_rules_reload(&g->operator_rules))
		return;
	open_lists(g);
	sandboxes_again(g);
}

static void on_tick(void *arg)
{
	struct egress *g = arg;
	struct sandbox *s;
	struct str key;

	g->ticks++;
	if (g->ticks % RELOAD_TICKS == 0)
		egress_reload(g);
	if (g->ticks % OWN_TICKS == 0)
		read_own(g);
	if (g->ticks % OWN_TICKS == 0 && g->options.follows_resolv_conf)
		read_resolv_conf(g);
	for (size_t i = 0; (s = map_next(&g->by_id, &i, &key));)
		learned_sweep(&s->learned, loop_now_ms(g->loop));
	timer_in(&g->tick, TICK_MS);
}

/* ---- addresses ---- */

void egress_mark_open(const struct egress *g, struct policy *p)
{
	for (size_t i = 0; i < g->options.n_opened; i++)
		policy_open(p, &g->options.opened[i]);
}

bool egress_is_public(const struct egress *g, uint32_t address)
{
	const struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { address } };
	const struct policy opened = { .rules = (struct policy_rule *)(uintptr_t)g->options.opened, .n = g->options.n_opened };

	if (own_addresses_have(&g->own, (const struct sockaddr *)&in))
		return false;
	return !address_is_reserved((const struct sockaddr *)&in) || policy_match_address(&opened, (const struct sockaddr *)&in);
}

/* ---- life ---- */

static int start(struct egress *g, struct err *e)
{
	const struct egress_options *o = &g->options;

	if (operator_rules_open(&g->operator_rules, o->rules_dir, e) < 0 || own_addresses_read(&g->own,
											       e) < 0)
		return -1;
	open_lists(g);
	if (o->sockets_fd >= 0 && !(g->sockets = sockets_new(&g->options.sockets_fd, e)))
		return -1;
	g->upstream = upstream_new(g->loop, o->upstreams, o->n_upstreams, &g->random, g->sockets, e);
	g->cache = cache_new(e);
	g->resolver = resolver_new(g, e);
	g->flows = flows_new(g, e);
	if (!g->upstream || !g->cache || !g->resolver || !g->flows)
		return -1;
	if (o->webhook && !(g->webhook = webhook_new(g, o->webhook, e)))
		return -1;
	g->link = o->warden ? link_new(g->loop, o->warden, on_told, g, e) : link_new_fd(g->loop, &g->options.warden_fd, on_told, g, e);
	if (!g->link || timer_init(&g->tick, g->loop, on_tick, g, "tick", e) < 0)
		return -1;
	timer_in(&g->tick, TICK_MS);
	return g->options.pulse < 0 ? 0 : pulse_start(&g->pulse, g->loop, &g->options.pulse, e);
}

struct egress *egress_new(struct loop *l, const struct egress_options *options, struct err *e)
{
	struct egress *g = calloc(1, sizeof(*g));
	int api = options->api;

	if (!g) {
		(void)err_no_memory(e);
		return NULL;
	}
	g->loop = l;
	g->pulse = PULSE_INIT;
	for (size_t i = 0; i < EGRESS_FDS; i++)
		g->held[i] = -1;
	denials_init(&g->denials);
	g->options = *options;
	g->options.state.dir = -1; /* until it is taken */
	for (size_t i = 0; i < g->options.n_opened; i++)
		g->options.opened[i].is_reserved = false;
	if (start(g, e) < 0 || api_start(g, &api, e) < 0) {
		egress_free(g);
		return NULL;
	}
	g->options.state.dir = options->state.dir;
	return g;
}

void egress_free(struct egress *g)
{
	if (!g)
		return;
	timer_done(&g->tick);
	pulse_done(&g->pulse);
	if (g->link)
		sandboxes_drop(g); /* whoever waits for a change is told */
	drop_held(g);
	api_stop(g);
	webhook_free(g->webhook);
	link_free(g->link);
	flows_free(g->flows);
	resolver_free(g->resolver);
	cache_free(g->cache);
	upstream_free(g->upstream);
	sockets_free(g->sockets);
	operator_rules_done(&g->operator_rules);
	own_addresses_done(&g->own);
	random_pool_done(&g->random);
	closep(&g->options.state.dir);
	closep(&g->options.pulse);
	closep(&g->options.warden_fd);
	closep(&g->options.sockets_fd);
	denials_done(&g->denials);
	free(g);
}
