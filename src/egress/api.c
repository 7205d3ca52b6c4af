// SPDX-License-Identifier: Apache-2.0
#include "egress/api.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/log.h"
#include "egress/change.h"
#include "egress/egress.h"
#include "egress/flow.h"
#include "egress/resolver.h"
#include "egress/sandbox.h"
#include "egress/upstream.h"
#include "net/http/server.h"

#include "base/banned.h"

#define ANSWER_MAX ((size_t)4 * 1024 * 1024)
#define TREE_MAX ((size_t)16 * 1024 * 1024)
#define CONNECTIONS_MAX 1024
#define ENFORCEMENT "dns+nft"
#define NOTHING_REMOVED "no matching targets found"
#define AUTH_HEADER "OPENSANDBOX-EGRESS-AUTH"
#define WAS_RESET "policy reset to default deny-all"

/* ---- answers ---- */

/* Errors are a line of text. */
static int refuse(struct reply *rp, unsigned status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int refuse(struct reply *rp, unsigned status, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* one that repeats a long input is cut */
	va_end(ap);
	return reply_error(rp, status, "", "%s", text);
}

static void write_error(unsigned status, const char *code, const char *message, struct buf *body)
{
	(void)status, (void)code;
	buf_addf(body, "%s\n", message);
}

static void decorate(struct request *rq, struct reply *rp)
{
	(void)rq;
	(void)reply_header(rp, "X-Content-Type-Options", STR("nosniff"));
}

static int finish_json(struct reply *rp, struct buf *b)
{
	buf_add_char(b, '\n');
	return reply_json(rp, 200, b);
}

struct status {
	const struct policy *policy;
	bool is_shown;      /* the policy itself */
	bool has_no_mode;   /* of enforcement: a reset does not say it */
	const char *reason; /* NULL: what of the policy has no effect, if anything */
};

static int reply_status(struct reply *rp, const struct status *st)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ANSWER_MAX);
	AUTO(buf_done) struct buf part = BUF_INIT(ANSWER_MAX);
	struct json_out o = json_out(&b);

	policy_reason(st->policy, &part);
	json_open(&o, '{');
	json_key(&o, "status"), json_cstr(&o, "ok");
	json_key(&o, "mode"), json_cstr(&o, policy_mode(st->policy));
	if (!st->has_no_mode)
		json_key(&o, "enforcementMode"), json_cstr(&o, ENFORCEMENT);
	if (st->reason || part.n > 0)
		json_key(&o, "reason"), json_cstr(&o, st->reason ? st->reason : buf_z(&part));
	if (st->is_shown) {
		buf_clear(&part);
		policy_write(st->policy, &part);
		json_key(&o, "policy"), json_raw(&o, buf_str(&part));
	}
	json_close(&o, '}');
	return finish_json(rp, &b);
}

/* ---- changes ---- */

enum wish { WISH_GET, WISH_PUT, WISH_PATCH, WISH_DELETE };

struct waiter { /* for a change to be in force */
	struct sandbox *sandbox;
	struct reply *rp; /* NULL: whoever asked has gone */
	enum wish wish;
	bool is_reset, is_nothing;
	bool is_early; /* no policy is in force that there could be a wish about */
	bool is_called, is_over; /* within the handler; its answer has been given there */
	struct buf body; /* a copy: it may outlive its request */
};

static void waiter_free(struct waiter *w)
{
	buf_done(&w->body);
	free(w);
}

static void on_hangup(void *arg)
{
	((struct waiter *)arg)->rp = NULL;
}

static unsigned status_of(const struct err *e)
{
	switch (e->code) {
	case ERR_INVALID:
		return 400;
	case ERR_LIMIT:
		return 413;
	case ERR_NOT_FOUND:
		return 404;
	case ERR_CONFLICT:
		return 409;
	case ERR_NONE:
	case ERR_DENIED:
	case ERR_TIMEOUT:
	case ERR_UNAVAILABLE:
	case ERR_IO:
	case ERR_INTERNAL:
		break;
	}
	return 500;
}

static void log_change(const struct sandbox *s, const struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ANSWER_MAX);

	if (e) {
		log_warn("a policy is not in force", LOG_S("opensandbox.event", "egress.update_failed"), LOG_S("sandbox_id", s->id),
			  LOG_ERR(e));
		return;
	}
	if (!log_enabled(LOG_LEVEL_INFO))
		return;
	policy_write(s->policy, &b);
	log_info("a policy is in force", LOG_S("opensandbox.event", "egress.updated"), LOG_S("sandbox_id", s->id),
		 LOG_S("egress.default", s->policy->fallback == POLICY_ALLOW ? "allow" : "deny"), LOG_STR("rules", buf_str(&b)));
}

static void answer(const struct waiter *w, const struct err *e)
{
	const char *reason = w->is_reset ? WAS_RESET : w->is_nothing ? NOTHING_REMOVED : NULL;

	if (e)
		(void)refuse(w->rp, w->is_early ? 503 : status_of(e), "%s", e->msg);
	else
		(void)reply_status(w->rp, &(struct status){ .policy = w->sandbox->policy, .has_no_mode = w->is_reset, .reason = reason,
							     .is_shown = w->wish == WISH_GET });
}

static void on_changed(const struct err *e, void *arg)
{
	struct waiter *w = arg;

	if (w->wish != WISH_GET && !w->is_nothing && (!e || e->code != ERR_NOT_FOUND))
		log_change(w->sandbox, e);
	if (w->rp)
		answer(w, e);
	w->is_over = true;
	if (!w->is_called)
		waiter_free(w);
}

/* ---- what is wished, when its turn has come ---- */

static int make_patch(struct waiter *w, const struct policy *now, const struct json *v, struct policy **ret, struct err *e)
{
	*ret = v ? policy_patch(now, v, w->sandbox->egress->options.max_rules, e) : NULL;
	if (*ret || e->code == ERR_LIMIT)
		return *ret ? 1 : -1;
	return err_wrap(e, strstr(e->msg, "].") ? "invalid merged policy" : "invalid patch rules");
}

static int make_rest(struct waiter *w, const struct policy *now, const struct json *v, struct policy **ret, struct err *e)
{
	size_t removed = 0;

	*ret = v ? policy_without(now, v, &removed, e) : NULL;
	if (!*ret)
		return err_wrap(e, "invalid delete targets");
	w->is_nothing = removed == 0;
	return w->is_nothing ? 0 : 1;
}

static int make_policy(const struct policy *now, struct policy **ret, void *arg, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
	const struct json_limits limits = { .bytes = API_BODY_MAX };
	struct waiter *w = arg;
	const struct json *v;

	w->is_early = !now;
	if (!now)
		return err_set(e, ERR_UNAVAILABLE, "no policy is in force");
	if (w->wish == WISH_GET)
		return 0;
	if (w->wish == WISH_PUT) {
		*ret = policy_parse(buf_str(&w->body), w->sandbox->egress->options.max_rules, e);
		return *ret ? 1 : e->code == ERR_LIMIT ? -1 : err_wrap(e, "invalid policy");
	}
	v = json_parse(&a, buf_str(&w->body), &limits, NULL, e);
	return w->wish == WISH_PATCH ? make_patch(w, now, v, ret, e) : make_rest(w, now, v, ret, e);
}

static int change(struct sandbox *s, enum wish wish, struct request *rq, struct reply *rp, struct err *e)
{
	struct change_spec spec = { .make = make_policy, .is_new = true, .done = on_changed };
	bool is_blank = str_trim(rq->body).n == 0;
	struct waiter *w;

	if (is_blank && (wish == WISH_PATCH || wish == WISH_DELETE))
		return refuse(rp, 400, "empty body");
	w = calloc(1, sizeof(*w));
	if (!w)
		return err_no_memory(e);
	*w = (struct waiter){ .sandbox = s, .rp = rp, .wish = wish, .is_reset = is_blank && wish == WISH_PUT, .is_called = true, .body = BUF_INIT(API_BODY_MAX) };
	buf_add_str(&w->body, rq->body);
	spec.arg = w;
	if (w->body.failed || change_add(s, &spec, e) < 0) {
		unsigned status = w->body.failed ? 500 : status_of(e);

		waiter_free(w);
		return refuse(rp, status, "%s", status == 500 ? "out of memory" : e->msg);
	}
	if (w->is_over) {
		waiter_free(w);
		return 0;
	}
	w->is_called = false;
	return reply_hold(rp, on_hangup, w);
}

/* ---- routes ---- */

static struct sandbox *find(const struct request *rq)
{
	const struct egress *g = rq->ctx;

	return g->options.is_sidecar ? sandbox_by_address(g, EGRESS_ONLY) : sandbox_by_id(g, rq->params[0]);
}

/* Before the warden has told of all of them, nobody knows. */
static int not_found(const struct request *rq, struct reply *rp)
{
	const struct egress *g = rq->ctx;

	return g->is_synced ? refuse(rp, 404, "sandbox not found") : refuse(rp, 503, "the sandboxes are not known yet");
}

static int not_allowed(struct reply *rp, struct str methods)
{
	(void)reply_header(rp, "Allow", methods);
	return refuse(rp, 405, "method not allowed");
}

static int on_policy(struct request *rq, struct reply *rp, struct err *e)
{
	struct sandbox *s = find(rq);
	struct str method = rq->head->method;

	if (!s)
		return not_found(rq, rp);
	if ((str_is(method, "GET") || str_is(method, "HEAD")) && s->policy)
		return reply_status(rp, &(struct status){ .policy = s->policy, .is_shown = true });
	if (str_is(method, "GET") || str_is(method, "HEAD"))
		return change(s, WISH_GET, rq, rp, e); /* when the one that is on its way has come */
	if (str_is(method, "POST") || str_is(method, "PUT"))
		return change(s, WISH_PUT, rq, rp, e);
	if (str_is(method, "PATCH"))
		return change(s, WISH_PATCH, rq, rp, e);
	if (str_is(method, "DELETE"))
		return change(s, WISH_DELETE, rq, rp, e);
	return not_allowed(rp, STR("GET, POST, PUT, PATCH, DELETE"));
}

static const char *illness(const struct egress *g)
{
	if (!link_is_up(g->link))
		return "the warden is not connected";
	return resolver_is_listening(g->resolver) ? NULL : "the resolver does not listen";
}

static int on_health(struct request *rq, struct reply *rp, struct err *e)
{
	const char *why = illness(rq->ctx);

	(void)e;
	return why ? refuse(rp, 503, "%s", why) : reply_bytes(rp, 200, "text/plain; charset=utf-8", STR("ok"));
}

static int on_sandbox_health(struct request *rq, struct reply *rp, struct err *e)
{
	const struct sandbox *s = find(rq);

	if (!s)
		return not_found(rq, rp);
	return s->policy ? on_health(rq, rp, e) : refuse(rp, 503, "no policy is in force yet");
}

static void write_counts(const struct sandbox_counts *c, struct json_out *o)
{
	json_open(o, '{');
	json_key(o, "dnsQueries"), json_uint(o, c->queries);
	json_key(o, "dnsAllowed"), json_uint(o, c->allowed);
	json_key(o, "dnsDenied"), json_uint(o, c->denied);
	json_key(o, "dnsThrottled"), json_uint(o, c->throttled);
	json_key(o, "dnsFailed"), json_uint(o, c->failed);
	json_key(o, "flows"), json_uint(o, c->flows);
	json_key(o, "flowsDenied"), json_uint(o, c->flows_denied);
	json_key(o, "flowsCut"), json_uint(o, c->flows_cut);
	json_key(o, "relaySentBytes"), json_uint(o, c->sent_bytes);
	json_key(o, "relayReceivedBytes"), json_uint(o, c->received_bytes);
	json_close(o, '}');
}

static int on_activity(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ANSWER_MAX);
	struct json_out o = json_out(&b);
	const struct sandbox *s = find(rq);
	char text[INET_ADDRSTRLEN];

	(void)e;
	if (!s)
		return not_found(rq, rp);
	json_open(&o, '{');
	json_key(&o, "sandboxId"), json_cstr(&o, s->id);
	json_key(&o, "address"), json_cstr(&o, inet_ntop(AF_INET, &s->address, text, sizeof(text)));
	json_key(&o, "mode"), json_cstr(&o, s->policy ? policy_mode(s->policy) : "deny_all");
	json_key(&o, "counters"), write_counts(&s->counts, &o);
	json_key(&o, "openFlows"), json_uint(&o, s->n_flows);
	json_key(&o, "learned"), json_uint(&o, s->learned.pairs.n);
	json_key(&o, "forgotten"), json_uint(&o, s->activity.forgotten);
	json_key(&o, "recent"), activity_write(&s->activity, &o);
	json_close(&o, '}');
	return finish_json(rp, &b);
}

static void write_upstream(const struct egress *g, struct json_out *o)
{
	struct upstream_counts c = upstream_counts(g->upstream);

	json_open(o, '{');
	json_key(o, "asked"), json_uint(o, c.asked);
	json_key(o, "answered"), json_uint(o, c.answered);
	json_key(o, "failed"), json_uint(o, c.failed);
	json_key(o, "overTcp"), json_uint(o, c.over_tcp);
	json_key(o, "waiting"), json_uint(o, c.waiting);
	json_key(o, "totalMicroseconds"), json_uint(o, c.total_us);
	json_key(o, "resolvers"), json_uint(o, c.known);
	json_key(o, "resolversHealthy"), json_uint(o, c.healthy);
	json_close(o, '}');
}

static int on_metrics(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ANSWER_MAX);
	struct json_out o = json_out(&b);
	const struct egress *g = rq->ctx;

	(void)e;
	json_open(&o, '{');
	json_key(&o, "sandboxes"), json_uint(&o, g->by_id.n);
	json_key(&o, "wardenConnected"), json_bool(&o, link_is_up(g->link));
	json_key(&o, "dnsQueries"), json_uint(&o, g->counts.queries);
	json_key(&o, "dnsDenied"), json_uint(&o, g->counts.denied);
	json_key(&o, "dnsThrottled"), json_uint(&o, g->counts.throttled);
	json_key(&o, "dnsFailed"), json_uint(&o, g->counts.failed);
	json_key(&o, "learned"), json_uint(&o, g->counts.learned);
	json_key(&o, "forgotten"), json_uint(&o, g->counts.forgotten);
	json_key(&o, "rulesApplied"), json_uint(&o, g->counts.rules);
	json_key(&o, "flows"), json_uint(&o, g->counts.flows);
	json_key(&o, "flowsDenied"), json_uint(&o, g->counts.flows_denied);
	json_key(&o, "flowsCut"), json_uint(&o, g->counts.flows_cut);
	json_key(&o, "openFlows"), json_uint(&o, flows_now(g->flows));
	json_key(&o, "strangers"), json_uint(&o, g->counts.strangers);
	json_key(&o, "webhookSent"), json_uint(&o, g->counts.webhook_sent);
	json_key(&o, "webhookLost"), json_uint(&o, g->counts.webhook_lost);
	json_key(&o, "upstream"), write_upstream(g, &o);
	json_close(&o, '}');
	return finish_json(rp, &b);
}

/* For the audit log of who asks. */
static int on_denials(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ANSWER_MAX);
	struct json_out o = json_out(&b);
	const struct egress *g = rq->ctx;
	uint64_t after = g->denials.kept;

	(void)e;
	if (!str_eq(rq->params[0], STR("new")) && !str_to_u64(rq->params[0], 0, UINT64_MAX, &after))
		return refuse(rp, 400, "not a number");
	denials_write(&g->denials, after, &o);
	return finish_json(rp, &b);
}

static int on_kept(struct request *rq, struct reply *rp, struct err *e)
{
	struct egress *g = rq->ctx;
	uint64_t number;

	(void)e;
	if (!str_to_u64(rq->params[0], 0, UINT64_MAX, &number))
		return refuse(rp, 400, "not a number");
	denials_keep(&g->denials, number);
	return reply_empty(rp, 204);
}

static int on_nothing(struct request *rq, struct reply *rp, struct err *e)
{
	(void)rq, (void)e;
	return refuse(rp, 404, "404 page not found");
}

static const struct route routes[] = {
	{ "*", "/sandboxes/:id/policy", on_policy, 0, API_BODY_MAX },
	{ "*", "/sandboxes/:id/healthz", on_sandbox_health, 0, 0 },
	{ "GET", "/sandboxes/:id/activity", on_activity, 0, 0 },
	{ "*", "/healthz", on_health, 0, 0 },
	{ "GET", "/metrics", on_metrics, 0, 0 },
	{ "GET", "/denials/:after", on_denials, 0, 0 },
	{ "PUT", "/denials/:after", on_kept, 0, 0 },
	{ "*", "/*", on_nothing, 0, 0 },
	{ 0 },
};

/* What a sidecar serves to everybody who has its token, at its own port. */
static const struct route sidecar_routes[] = {
	{ "*", "/policy", on_policy, 0, API_BODY_MAX },
	{ "*", "/healthz", on_sandbox_health, 0, 0 },
	{ "GET", "/activity", on_activity, 0, 0 },
	{ "GET", "/metrics", on_metrics, 0, 0 },
	{ "*", "/*", on_nothing, 0, 0 },
	{ 0 },
};

/* Whoever is in the sandbox can reach this port, too: without a token nobody changes anything. */
static int admit(struct request *rq, struct reply *rp, struct err *e)
{
	const struct egress *g = rq->ctx;
	const char *token = g->options.token;
	bool is_change = !str_is(rq->head->method, "GET") && !str_is(rq->head->method, "HEAD");

	(void)e;
	if (str_is(rq->path, "/healthz"))
		return 0;
	if (token && token[0])
		return secret_eq(request_header(rq, AUTH_HEADER), str_of(token)) ? 0 : refuse(rp, 401, "unauthorized");
	return is_change ? refuse(rp, 403, "a policy is changed with a token alone, and none was configured") : 0;
}

/* ---- life ---- */

int api_start(struct egress *g, int *fd, struct err *e)
{
	struct http_limits limits = HTTP_LIMITS;
	struct http_service *service = &g->service;

	*service = (struct http_service){ .routes = routes, .ctx = g, .decorate = decorate, .write_error = write_error,
					  .error_type = "text/plain; charset=utf-8" };
	if (g->options.is_sidecar)
		service->routes = sidecar_routes, service->admit = admit;
	limits.connections = limits.per_address = CONNECTIONS_MAX;
	g->api = http_server_new(g->loop, service, &limits, e);
	return g->api ? http_server_listen(g->api, fd, NULL, e) : -1;
}

void api_stop(struct egress *g)
{
	if (g->api)
		http_server_free(take_ptr(&g->api));
}
