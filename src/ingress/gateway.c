// SPDX-License-Identifier: Apache-2.0
#include "ingress/gateway.h"

#include <stdio.h>

#include "access/attempts.h"
#include "access/cookie.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/uuid.h"
#include "ingress/gateway_impl.h"
#include "ingress/intents.h"
#include "ingress/lookup.h"
#include "ingress/trust.h"
#include "net/addr.h"
#include "net/http/client.h"
#include "net/http/forward.h"
#include "net/loop.h"

#include "base/banned.h"

#define ROUTE_SEGMENTS 2 /* of a path: /ID/PORT */
#define LOOK_MS 5000 /* how often long streams are looked at, for the lives that they extend */

/* A request in progress, from its handler to its end. */
struct passing {
	struct passing *prev, *next;
	struct gateway *gateway;
	struct request *rq;
	struct reply *rp; /* NULL: answered, or gone */
	struct route_token route;
	char id[ID_MAX + 1];
	uint64_t began_ms;
	struct lookup_waiter waiter;
	struct led led; /* how it goes */
	struct forward *forward;
	uint64_t moved; /* bytes, when it was last looked at */
	struct str target; /* as the sandbox is to see it */
	char request_id[HTTP_REQUEST_ID_MAX + 1];
};

/* What the access log says of a request; in its arena. */
struct trace {
	struct str id;
	unsigned port;
	bool is_passed_on;
};

static struct gateway *gateway_of(const struct request *rq)
{
	return rq->ctx;
}

static void passing_free(struct passing *p)
{
	*(p->prev ? &p->prev->next : &p->gateway->passing) = p->next;
	if (p->next)
		p->next->prev = p->prev;
	lookup_cancel(&p->waiter);
	if (p->led.way)
		p->gateway->spec.provider->ops->left(p->led.way);
	free(p);
}

static int say(struct reply *rp, unsigned status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int say(struct reply *rp, unsigned status, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int n = snprintf(text, sizeof(text), "OpenSandbox Ingress: ");

	va_start(ap, fmt);
	n += vsnprintf(text + n, sizeof(text) - (size_t)n - 1, fmt, ap); /* a long one is cut */
	va_end(ap);
	n = MIN(n, (int)sizeof(text) - 2);
	text[n++] = '\n';
	(void)reply_header(rp, "X-Content-Type-Options", STR("nosniff"));
	return reply_bytes(rp, status, "text/plain; charset=utf-8", (struct str){ text, (size_t)n });
}

/* ---- on its way ---- */

static int on_headers(const struct request *rq, struct reply *rp, const struct http_head *head, void *arg, struct err *e)
{
	const struct passing *p = arg;
	struct gateway_scope scope = { .target = p->target };

	if (p->gateway->spec.mode == GATEWAY_URI)
		scope.prefix = cookie_prefix(rq->path, ROUTE_SEGMENTS); /* without a signature: the next one is another */
	if (gateway_response_headers(head, &scope, rp, e) < 0)
		return -1;
	(void)reply_header(rp, "X-Request-ID", str_of(p->request_id));
	return 0;
}

static void on_refuse(struct reply *rp, const struct err *e, void *arg)
{
	const struct passing *p = arg;

	log_debug("a request could not be passed on", LOG_S("id", p->id), LOG_U("port", p->route.port), LOG_ERR(e));
	(void)say(rp, e->code == ERR_TIMEOUT ? 504 : 502, "upstream failure");
}

static void on_over(void *arg)
{
	passing_free(arg);
}

/* A WebSocket, whatever the case of its words and whatever else Connection names. */
static bool asks_for_websocket(const struct http_head *h)
{
	return h->has_upgrade && http_list_has(http_value(h, "Upgrade"), "websocket") && h->framing == HTTP_NO_BODY &&
	       str_is(h->method, "GET") && h->minor == 1;
}

/* The target as the sandbox is to see it: byte for byte. */
static struct str target_of(const struct passing *p, bool is_plain)
{
	struct str target = p->rq->head->target, rest = is_plain ? p->route.plain_rest : p->route.rest;
	char *made;

	if (p->gateway->spec.mode != GATEWAY_URI)
		return target.n > 0 && target.p[0] == '/' ? target : STR("/");
	if (rest.n > 0)
		return (struct str){ rest.p, (size_t)(target.p + target.n - rest.p) };
	if (p->rq->path.n == target.n)
		return STR("/");
	made = arena_printf(p->rq->arena, "/%.*s", (int)(target.n - p->rq->path.n), target.p + p->rq->path.n);
	return str_of(made);
}

/* One name for it in our log, the server's and the sandbox's. */
static int name_request(struct passing *p, struct http_header *headers, int n, struct err *e)
{
	struct str given = str_trim(request_header(p->rq, "X-Request-ID"));

	if (http_is_request_id(given)) {
		memcpy(p->request_id, given.p, given.n);
		return n;
	}
	if (uuid_hex32(&p->gateway->random, p->request_id, e) < 0)
		return -1;
	for (int i = 0; i < n; i++)
		if (str_eq_nocase(headers[i].name, STR("X-Request-ID")))
			headers[i--] = headers[--n];
	headers[n++] = (struct http_header){ STR("X-Request-ID"), str_of(p->request_id) };
	return n;
}

static int make_request(struct passing *p, const struct finding *f, bool is_plain, struct http_request *out,
			struct err *e)
{
	struct provider *provider = p->gateway->spec.provider;
	struct http_header *headers = arena_array(p->rq->arena, GATEWAY_HEADERS_MAX, sizeof(*headers));
	struct str target = target_of(p, is_plain);
	int n;

	if (!headers || !target.p)
		return err_no_memory(e);
	p->target = target;
	n = gateway_request_headers(p->rq, p->gateway->spec.trust, headers, e);
	if (n < 0 || (n = name_request(p, headers, n, e)) < 0)
		return -1;
	*out = (struct http_request){ .method = p->rq->head->method, .target = target, .headers = headers, .n_headers = (size_t)n,
				      .upgrade = asks_for_websocket(p->rq->head) ? "websocket" : NULL };
	return provider->ops->lead(provider, f, p->id, p->route.port, p->rq->arena, out, headers, &p->led, e);
}

static void pass_on(struct passing *p, const struct finding *f, bool is_plain)
{
	static const struct forward_ops ops = { .headers = on_headers, .refuse = on_refuse, .over = on_over, .passes = true };
	struct gateway *g = p->gateway;
	struct reply *rp = p->rp;
	struct http_request out = { 0 };
	struct err e = { 0 };
	struct str uri = is_plain ? p->route.plain_rest : p->route.rest;

	((struct trace *)p->rq->user)->is_passed_on = true;
	if (make_request(p, f, is_plain, &out, &e) == 0) {
		intents_note(g->spec.intents, str_of(p->id), p->route.port, uri);
		g->metrics.websockets += out.upgrade != NULL;
		g->metrics.http += out.upgrade == NULL;
		p->forward = forward_start(p->rq, rp, p->led.client, &out, &ops, p, &e);
	}
	if (p->forward)
		return;
	log_debug("a request could not be passed on", LOG_S("id", p->id), LOG_ERR(&e));
	passing_free(p);
	if (e.code == ERR_LIMIT)
		(void)say(rp, 431, "too many headers");
	else
		(void)say(rp, 502, "upstream failure");
}

/* ---- whether it may ---- */

/* Of a path that looks signed, but need not be: whether it belongs to the sandbox. One that we have signed does not. */
static bool is_plain_path(const struct passing *p)
{
	enum route_verdict v;

	if (p->gateway->spec.mode != GATEWAY_URI || !p->route.is_signed)
		return false;
	v = route_check(&p->gateway->keys, &p->route, 0); /* its time is of no interest */
	return v != ROUTE_VALID;
}

static enum access_verdict check(const struct passing *p, const struct finding *f)
{
	const struct http_header *h = http_find(p->rq->head, "OpenSandbox-Secure-Access");
	struct access_request in = { .has_token = h != NULL, .route = &p->route };

	if (h)
		in.token = h->value;
	return access_check(str_of(f->token), &in, &p->gateway->keys, (uint64_t)(clock_wall_us() / US_PER_S));
}

static void end_with(struct passing *p, unsigned status, const char *what, const char *which)
{
	struct reply *rp = p->rp;

	passing_free(p);
	(void)say(rp, status, "%s%s", what, which);
}

static void admit(struct passing *p, const struct finding *f)
{
	struct gateway *g = p->gateway;
	uint64_t now = loop_now_ms(g->spec.loop);
	struct addr client;
	enum access_verdict v;

	if (f->token[0] == '\0') {
		pass_on(p, f, is_plain_path(p));
		return;
	}
	(void)trust_client(g->spec.trust, p->rq->peer, p->rq->head, &client);
	if (attempts_exceeded(g->attempts, str_of(p->id), &client.sa, now)) {
		g->metrics.limited++;
		(void)reply_header(p->rp, "Retry-After", STR("60"));
		end_with(p, 429, "too many wrong tokens or signatures", "");
		return;
	}
	v = check(p, f);
	if (v == ACCESS_OK) {
		pass_on(p, f, false);
		return;
	}
	if (access_is_guess(v))
		attempts_failed(g->attempts, str_of(p->id), &client.sa, now);
	g->metrics.denied++;
	end_with(p, access_status(v), access_text(v), "");
}

/* ---- where it goes ---- */

static void on_finding(const struct finding *f, void *arg)
{
	struct passing *p = arg;
	struct gateway *g = p->gateway;
	char id[ID_MAX + 1];

	g->metrics.resolutions[f->found]++;
	histogram_add(&g->metrics.resolution_ms, loop_now_ms(g->spec.loop) - p->began_ms);
	switch (f->found) {
	case FOUND_READY:
		admit(p, f);
		return;
	case FOUND_NOT_READY:
		end_with(p, 503, "sandbox not ready: ", f->why);
		return;
	case FOUND_NOWHERE:
		memcpy(id, p->id, sizeof(id));
		end_with(p, 404, "sandbox not found: ", id);
		return;
	case FOUND_FAILED:
		if (log_limit_admits(&g->unknown, g->spec.loop))
			log_warn("a sandbox could not be looked up", LOG_S("id", p->id), LOG_S("why", f->why));
		end_with(p, 502, "the sandbox could not be looked up", "");
		return;
	}
}

static void on_hangup(void *arg)
{
	passing_free(arg);
}

static struct passing *passing_new(struct request *rq, struct reply *rp, const struct route_token *route)
{
	struct gateway *g = gateway_of(rq);
	struct passing *p = calloc(1, sizeof(*p));
	struct trace *t = arena_alloc(rq->arena, sizeof(*t));

	if (!p || !t) {
		free(p);
		return NULL;
	}
	*p = (struct passing){ .gateway = g, .rq = rq, .rp = rp, .route = *route, .began_ms = loop_now_ms(g->spec.loop),
			       .waiter = { .fn = on_finding, .arg = p }, .next = g->passing };
	memcpy(p->id, route->id.p, route->id.n);
	if (p->next)
		p->next->prev = p;
	g->passing = p;
	*t = (struct trace){ .id = route->id, .port = route->port };
	rq->user = t;
	return p;
}

static int look_up(struct request *rq, struct reply *rp, const struct route_token *route, struct err *e)
{
	struct gateway *g = gateway_of(rq);
	const struct finding *f;
	struct passing *p;
	int rc;

	if (!id_valid(route->id))
		return say(rp, 404, "sandbox not found: %.*s", (int)MIN(route->id.n, (size_t)ID_MAX), route->id.p);
	p = passing_new(rq, rp, route);
	if (!p)
		return err_no_memory(e);
	rc = lookup_find(g->lookup, route->id, &p->waiter, &f, e);
	if (rc == 0)
		return reply_hold(rp, on_hangup, p);
	if (rc > 0) {
		on_finding(f, p);
		return 0;
	}
	passing_free(p);
	return e->code == ERR_LIMIT ? say(rp, 503, "%s", e->msg) : -1;
}

static int read_route(const struct request *rq, struct route_token *ret, struct err *e)
{
	static const char *const headers[] = { "OpenSandbox-Ingress-To", "OPEN-SANDBOX-INGRESS" };
	struct str value = { 0 };

	if (gateway_of(rq)->spec.mode == GATEWAY_URI)
		return route_read_path(rq->path, ret, e);
	for (size_t i = 0; value.n == 0 && i < ARRAY_LEN(headers); i++)
		value = str_trim(request_header(rq, headers[i]));
	return route_read_label(value.n > 0 ? value : rq->head->host, ret, e);
}

/* Probes call by address and are ours; the same path of a sandbox is the sandbox's. */
static int gateway_any(struct request *rq, struct reply *rp, struct err *e)
{
	struct route_token route;
	struct err bad = { 0 };

	if (read_route(rq, &route, &bad) == 0)
		return look_up(rq, rp, &route, e);
	if (str_is(rq->path, "/status.ok"))
		return reply_bytes(rp, 200, "text/plain; charset=utf-8", STR("OK"));
	return say(rp, 400, "%s", bad.msg);
}

/* ---- afterwards ---- */

/* Neither signatures nor queries are for a log. */
static void on_finished(const struct request *rq, unsigned status, uint64_t body_bytes)
{
	struct gateway *g = gateway_of(rq);
	const struct trace *t = rq->user;
	uint64_t took = loop_now_ms(g->spec.loop) - rq->began_ms;
	char peer[ADDR_HOST_MAX];
	struct route_token route;
	struct addr client;
	struct str path = rq->path;

	g->metrics.requests[MIN(status / 100, 5U)]++;
	histogram_add(&g->metrics.request_ms, took);
	if (!t || !log_enabled(LOG_LEVEL_INFO))
		return;
	if (!t->is_passed_on && !log_limit_admits(status >= 500 ? &g->failed : &g->refused, g->spec.loop))
		return;
	if (route_read_path(path, &route, &(struct err){ 0 }) == 0 && route.is_signed)
		path = str_first(path, path.n - route.plain_rest.n);
	(void)trust_client(g->spec.trust, rq->peer, rq->head, &client);
	log_info("ingress requested", LOG_STR("id", t->id), LOG_U("port", t->port), LOG_S("client", sockaddr_host(&client.sa, peer)),
		 LOG_STR("uri", str_first(path, 512)), LOG_STR("method", rq->head->method), LOG_U("status", status),
		 LOG_U("bytes", body_bytes), LOG_MS("took", took));
}

static void on_failed(const struct request *rq, const struct err *e)
{
	(void)rq;
	log_error("a request failed", LOG_ERR(e));
}

/* Streams that move bytes count like requests. */
static void on_look(void *arg)
{
	struct gateway *g = arg;

	for (struct passing *p = g->passing; p; p = p->next) {
		uint64_t moved = p->forward && p->led.way ? forward_moved(p->forward) : p->moved;

		if (moved != p->moved)
			g->spec.provider->ops->used(p->led.way);
		p->moved = moved;
	}
	timer_in(&g->look, LOOK_MS);
}

/* ---- for operators ---- */

static int health_get(struct request *rq, struct reply *rp, struct err *e)
{
	(void)rq, (void)e;
	return reply_bytes(rp, 200, "text/plain; charset=utf-8", STR("OK"));
}

static int metrics_get(struct request *rq, struct reply *rp, struct err *e)
{
	struct buf text = BUF_INIT(64 * 1024);

	(void)e;
	gateway_metrics_write(gateway_of(rq), &text);
	return reply_buf(rp, 200, "text/plain; version=0.0.4; charset=utf-8", &text);
}

int gateway_init(struct gateway *g, const struct gateway_spec *spec, struct err *e)
{
	static const struct route routes[] = { { "*", "/*", gateway_any, ROUTE_STREAM_IN, HTTP_LENGTH_MAX }, { 0 } };
	static const struct route metrics_routes[] = {
		{ "GET", "/metrics", metrics_get, 0, 0 }, { "GET", "/healthz", health_get, 0, 0 }, { "GET", "/status.ok", health_get, 0, 0 },
		{ 0 },
	};

	*g = (struct gateway){
		.spec = *spec,
		.service = { .routes = routes, .ctx = g, .finished = on_finished, .failed = on_failed },
		.metrics_service = { .routes = metrics_routes, .ctx = g, .failed = on_failed },
		.refused = LOG_LIMIT(LOG_LEVEL_INFO, "requests that were refused"),
		.failed = LOG_LIMIT(LOG_LEVEL_INFO, "requests that failed"),
		.unknown = LOG_LIMIT(LOG_LEVEL_WARN, "sandboxes that could not be looked up"),
	};
	g->lookup = lookup_new(spec->loop, spec->provider, e);
	g->attempts = g->lookup ? attempts_new(e) : NULL;
	if (!g->attempts || timer_init(&g->look, spec->loop, on_look, g, "streams", e) < 0)
		return -1;
	timer_in(&g->look, LOOK_MS);
	return 0;
}

void gateway_done(struct gateway *g)
{
	struct err over = { 0 };

	(void)err_set(&over, ERR_UNAVAILABLE, "the gateway ends");
	while (g->passing) {
		struct passing *p = g->passing;

		forward_cancel(p->forward, &over);
		passing_free(p);
	}
	lookup_free(g->lookup);
	attempts_free(g->attempts);
	route_keys_done(&g->keys);
	timer_done(&g->look);
	log_limit_done(&g->refused);
	log_limit_done(&g->failed);
	log_limit_done(&g->unknown);
	random_pool_done(&g->random);
}
