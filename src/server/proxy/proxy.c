// SPDX-License-Identifier: Apache-2.0
#include "server/proxy/proxy.h"

#include <stdio.h>

#include "access/cookie.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "net/addr.h"
#include "net/http/forward.h"
#include "net/loop.h"
#include "net/transport.h"
#include "net/ws/ws_handshake.h"
#include "server/http/reply.h"
#include "server/proxy/access.h"
#include "server/proxy/proxy_headers.h"

#include "base/banned.h"

#define CONNECT_MS 10000
#define SEND_MS 180000
#define HEAD_MS 180000
#define BODY_MS 3600000

/* On the API's own origin a document from a sandbox gets an origin that is nobody's. */
#define SANDBOX_CSP "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"

const struct guarded_port *guarded_port_find(unsigned port)
{
	static const struct guarded_port ports[] = {
		{ PORT_EXECD, "execd", "X-EXECD-ACCESS-TOKEN" },
		{ PORT_EGRESS, "egress", "OPENSANDBOX-EGRESS-AUTH" },
	};

	for (size_t i = 0; i < ARRAY_LEN(ports); i++)
		if (ports[i].port == port)
			return &ports[i];
	return NULL;
}

/* ---- dialling ---- */

struct dialling {
	struct plane_job job;
	struct http_dial *d; /* NULL: nobody wants it any more */
};

static void dialling_drop(struct plane_job *job)
{
	free(container_of(job, struct dialling, job));
}

static void on_dialled(struct transport *t, const struct runtime_failure *failure, void *arg)
{
	struct dialling *j = arg;
	struct err e = { 0 };

	if (failure) {
		e = failure->err;
		e.code = e.code == ERR_TIMEOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE; /* nobody is there, whatever the reason */
	}
	plane_job_end(&j->job);
	if (j->d)
		http_dial_done(j->d, t, failure ? &e : NULL);
	else
		transport_close(t);
	free(j);
}

static int dial_begin(struct http_dial *d, void *arg, struct err *e)
{
	struct proxy_target *t = arg;
	struct runtime *rt = t->plane->spec.runtime;
	struct dialling *j = malloc(sizeof(*j));

	if (!j)
		return err_no_memory(e);
	j->d = d;
	d->user = j;
	plane_job_begin(t->plane, &j->job, dialling_drop);
	rt->ops->dial(rt, t->id, t->port, on_dialled, j);
	return 0;
}

static void dial_cancel_later(struct http_dial *d, void *arg)
{
	struct dialling *j = d->user;

	(void)arg;
	j->d = NULL;
}

struct http_client *proxy_client_new(struct proxy_target *t, unsigned max_idle, struct err *e)
{
	static const struct http_dialer dialer = { .begin = dial_begin, .cancel = dial_cancel_later };
	struct http_client_options o = {
		.dialer = &dialer, .dialer_arg = t, .max_idle = max_idle, .idle_ms = PROXY_IDLE_MS,
		.probation_ms = t->port == PORT_EXECD ? 0 : PROXY_PROBATION_MS,
		.deadlines = { .connect_ms = CONNECT_MS, .send_ms = SEND_MS, .head_ms = HEAD_MS, .body_ms = BODY_MS },
	};

	return http_client_new(t->plane->spec.loop, &o, e);
}

/* ---- what a sandbox has of it ---- */

struct proxy_peer *proxy_peer_of(struct sandbox *sb, struct err *e)
{
	if (!sb->user)
		sb->user = calloc(1, sizeof(struct proxy_peer));
	if (!sb->user)
		(void)err_no_memory(e);
	return sb->user;
}

static void port_free(struct proxy_port *p)
{
	if (p)
		http_client_free(p->client);
	free(p);
}
DEFINE_AUTO(struct proxy_port *, port_free)

static struct proxy_port *port_new(struct plane *plane, const struct sandbox *sb, unsigned port, struct err *e)
{
	AUTO(port_free) struct proxy_port *p = calloc(1, sizeof(*p));

	if (!p) {
		(void)err_no_memory(e);
		return NULL;
	}
	p->target = (struct proxy_target){ .plane = plane, .port = port };
	memcpy(p->target.id, sb->row.id, strlen(sb->row.id) + 1);
	p->client = proxy_client_new(&p->target, PROXY_IDLE_MAX, e);
	return p->client ? take_ptr(&p) : NULL;
}

/* The place of PORT, a free one, or that of the port that can best be done without; execd is asked too often for that. */
static struct proxy_port **place_of(struct proxy_peer *peer, unsigned port)
{
	struct proxy_port **best = NULL;

	for (size_t i = 0; i < PROXY_PORTS_MAX; i++) {
		struct proxy_port **at = &peer->ports[i];

		if (*at && (*at)->target.port == port)
			return at;
		if (*at && ((*at)->n > 0 || (*at)->target.port == PORT_EXECD))
			continue;
		if (!best || (*best && (!*at || (*at)->used_ms < (*best)->used_ms)))
			best = at;
	}
	return best;
}

struct proxy_port *proxy_port_of(struct plane *plane, struct sandbox *sb, unsigned port, struct err *e)
{
	struct proxy_peer *peer = proxy_peer_of(sb, e);
	struct proxy_port **at = peer ? place_of(peer, port) : NULL;
	struct proxy_port *made;

	if (!at) {
		if (peer)
			(void)err_set(e, ERR_LIMIT, "too many ports at once");
		return NULL;
	}
	if (!*at || (*at)->target.port != port) {
		made = port_new(plane, sb, port, e);
		if (!made)
			return NULL;
		port_free(*at);
		*at = made;
	}
	(*at)->used_ms = loop_now_ms(plane->spec.loop);
	return *at;
}

void proxy_look_at_streams(struct plane *plane)
{
	tunnels_mark(plane);
	for (struct sandbox *sb = sandboxes_newest(plane->sandboxes); sb; sb = sb->older) {
		struct proxy_peer *peer = sb->user;

		if (!peer || peer->n == 0 || sb->row.renew_s == 0)
			continue;
		if (proxy_calls_moved(peer) || peer->has_moved)
			sandbox_touch(sb, plane->spec.renew_interval_s);
		peer->has_moved = false;
	}
}

void proxy_gone(struct plane *plane, struct sandbox *sb)
{
	struct proxy_peer *peer = sb->user;

	if (!peer)
		return;
	proxy_calls_drop(peer);
	tunnels_drop(plane, peer);
	for (size_t i = 0; i < PROXY_PORTS_MAX; i++)
		port_free(peer->ports[i]);
	free(peer);
	sb->user = NULL;
}

/* ---- the request for the sandbox ---- */

static struct str peer_text(const struct request *rq)
{
	char text[ADDR_HOST_MAX];

	return str_of(arena_dup(rq->arena, str_of(sockaddr_host(rq->peer, text))));
}

/* Behind the port of egress there is one for all sandboxes. */
static struct str target_of(const struct request *rq, const char *id, unsigned port)
{
	struct str target = forward_target(rq);
	const char *whole;

	if (port != PORT_EGRESS || !plane_of(rq)->spec.runtime->shares_egress || !target.p)
		return target;
	whole = arena_printf(rq->arena, "/sandboxes/%s%.*s", id, (int)target.n, target.p);
	return whole ? str_of(whole) : (struct str){ 0 };
}

int proxy_make_request(struct request *rq, const char *id, unsigned port, struct http_request *ret, struct err *e)
{
	const struct guarded_port *g = guarded_port_find(port);
	struct proxy_request_rules rules = {
		.own_token = g ? g->header : NULL, .host = rq->head->host, .peer = peer_text(rq), .is_secure = rq->is_secure,
		.is_gateway = service_is_gateway(rq),
	};
	struct http_header *headers = arena_array(rq->arena, PROXY_HEADERS_MAX, sizeof(*headers));
	char *host = arena_printf(rq->arena, "localhost:%u", port);
	struct str target = target_of(rq, id, port);
	int n;

	if (!headers || !host || !target.p)
		return err_no_memory(e);
	n = proxy_request_headers(rq->head, &rules, headers, e);
	if (n < 0)
		return -1;
	*ret = (struct http_request){
		.method = rq->head->method, .target = target, .host = str_of(host), .headers = headers,
		.n_headers = (size_t)n,
	};
	return 0;
}

/* ---- its answer ---- */

/* "/sandboxes/ID/proxy/PORT", with or without a version before it; or "/ID/PORT" of a signed route. */
static struct str cookie_place(const struct request *rq)
{
	bool has_version = str_starts(rq->path, STR("/v1/"));
	struct str path = str_skip(rq->path, has_version ? 3 : 0);
	size_t n = str_starts(path, STR("/sandboxes/")) ? 4 : 2;

	return cookie_prefix(rq->path, n + has_version);
}

/* Towards a gateway they stay as they are: it knows the path that the client sees. */
static void pass_cookie(const struct request *rq, struct reply *rp, struct str value)
{
	AUTO(buf_done) struct buf b = BUF_INIT(2 * PROXY_HEADER_BYTES_MAX);
	struct str target = forward_target(rq);

	if (service_is_gateway(rq))
		(void)reply_header(rp, "Set-Cookie", value);
	else if (cookie_confine(value, cookie_place(rq), target.p ? target : STR("/"), &b))
		(void)reply_header(rp, "Set-Cookie", buf_str(&b));
}

int proxy_pass_headers(const struct request *rq, struct reply *rp, const struct http_head *head, struct err *e)
{
	const struct service *s = service_of(rq);
	bool with_cors = s->spec.auth.has_key && !service_is_gateway(rq) && http_find(rq->head, "Origin");
	size_t bytes = 0;

	for (size_t i = 0; i < head->n_headers; i++)
		bytes += head->headers[i].name.n + head->headers[i].value.n + 4;
	if (bytes > PROXY_HEADER_BYTES_MAX)
		return err_set(e, ERR_LIMIT, "an answer with %zu bytes of headers", bytes);
	for (size_t i = 0; i < head->n_headers; i++) {
		const struct http_header *h = &head->headers[i];
		char name[256];

		if (h->name.n >= sizeof(name) || !proxy_response_header_passes(head, h->name, with_cors))
			continue;
		if (str_eq_nocase(h->name, STR("Set-Cookie"))) {
			pass_cookie(rq, rp, h->value);
			continue;
		}
		memcpy(name, h->name.p, h->name.n);
		name[h->name.n] = '\0';
		(void)reply_header(rp, name, h->value); /* what cannot stand in a header is left out */
	}
	if (!s->spec.is_proxy_origin)
		(void)reply_header(rp, "Content-Security-Policy", STR(SANDBOX_CSP));
	return 0;
}

/* ---- deciding ---- */

static bool token_fits(const struct request *rq, const struct sandbox *sb, const struct guarded_port *g)
{
	char token[SANDBOX_TOKEN_LEN + 1];
	unsigned n = 0;
	bool ok = false;

	sandbox_token(sb, g->purpose, token);
	for (size_t i = 0; i < rq->head->n_headers; i++) {
		const struct http_header *h = &rq->head->headers[i];

		if (!str_eq_nocase(h->name, str_of(g->header)))
			continue;
		n++;
		ok = secret_eq(h->value, str_of(token));
	}
	secret_wipe(token, sizeof(token));
	return n == 1 && ok;
}

/* Its token is good for this sandbox alone, so nothing of the path may lead to another one's, however it is read. */
static bool stays_below(struct str path)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_/";

	for (size_t i = 0; i < path.n && path.p[i] != '?'; i++)
		if (!memchr(plain, path.p[i], sizeof(plain) - 1))
			return false;
	return true;
}

/* How a request names where it goes. */
struct way_in {
	struct str id;
	unsigned port;
	const struct route_token *route; /* NULL: not signed */
};

/* What stands against sending it on. */
static int refused(const struct request *rq, const struct sandbox *sb, const struct way_in *in, struct fault *f)
{
	unsigned port = in->port;
	const char *prefix = plane_of(rq)->spec.runtime->code_prefix;
	const struct guarded_port *g = guarded_port_find(port);
	const struct proxy_peer *peer = sb->user;

	if (access_admit(rq, sb, in->route, f) < 0)
		return -1;
	if (g && !token_fits(rq, sb, g))
		return fault_set(f, 401, NULL, "INVALID_ACCESS_TOKEN",
				 "the header %s is missing or wrong; the sandbox's endpoint for port %u has it", g->header, port);
	if (port == PORT_EGRESS && !stays_below(rq->rest))
		return fault_set(f, 404, NULL, "NOT_FOUND", "there is nothing of this name on port %u", port);
	if (port != PORT_EGRESS && !sandbox_can_be_called(sb)) /* what it may reach is told and changed at any time */
		return fault_set(f, 409, prefix, "SANDBOX_NOT_RUNNING", "sandbox '%s' is %s, not Running", sb->row.id,
				 sandbox_state_name(sb->row.state));
	if (peer && peer->n >= PROXY_STREAMS_MAX)
		return fault_set(f, 429, NULL, "TOO_MANY_REQUESTS", "too many requests in progress for this sandbox");
	return 0;
}

/* A WebSocket handshake, a request that only looks like one, or neither. */
static enum ws_handshake handshake_of(const struct request *rq)
{
	struct ws_request values = {
		.connection = rq->head->has_upgrade ? STR("Upgrade") : STR(""), .upgrade = request_header(rq, "Upgrade"),
		.version = request_header(rq, "Sec-WebSocket-Version"), .key = request_header(rq, "Sec-WebSocket-Key"),
	};

	if (!http_list_has(values.upgrade, "websocket"))
		return WS_HANDSHAKE_NONE;
	if (!rq->head->has_upgrade || rq->head->framing != HTTP_NO_BODY || !str_is(rq->head->method, "GET") ||
	    rq->head->minor == 0)
		return WS_HANDSHAKE_BAD;
	return ws_handshake_check(&values);
}

/* Only who was let in extends its life. */
static void touch(const struct request *rq, struct sandbox *sb)
{
	const struct plane_spec *s = &plane_of(rq)->spec;

	if (s->renews_on_access)
		sandbox_touch(sb, s->renew_interval_s);
}

static int start_tunnel(struct request *rq, struct reply *rp, struct sandbox *sb, const struct way_in *in, struct err *e)
{
	struct fault f;

	if (!sb) {
		(void)fault_set(&f, 404, NULL, "", "sandbox not found");
		return tunnel_refuse(rq, rp, 1011, f.message, e);
	}
	if (in->port == PORT_EGRESS)
		return reply_error(rp, 400, CODE_UNKNOWN_ERROR, "there are no WebSockets on port %u", in->port);
	if (refused(rq, sb, in, &f) < 0)
		return f.status == 409 ? tunnel_refuse(rq, rp, 1011, f.message, e) : reply_fault(rp, &f);
	touch(rq, sb);
	return tunnel_start(rq, rp, sb, in->port, e);
}

static int start(struct request *rq, struct reply *rp, const struct way_in *in, struct err *e)
{
	struct plane *plane = plane_of(rq);
	enum ws_handshake hs = handshake_of(rq);
	struct sandbox *sb;
	struct fault f;

	if (hs != WS_HANDSHAKE_NONE && hs != WS_HANDSHAKE_OK)
		return reply_error(rp, 400, CODE_UNKNOWN_ERROR, "Websocket upgrade is not supported yet in this form");
	sb = sandboxes_find(plane->sandboxes, in->id);
	if (hs == WS_HANDSHAKE_OK && !service_is_gateway(rq))
		return start_tunnel(rq, rp, sb, in, e);
	if (!sb)
		return reply_no_sandbox(rq, rp);
	if (refused(rq, sb, in, &f) < 0)
		return reply_fault(rp, &f);
	touch(rq, sb);
	if (in->port == PORT_EGRESS && sb->row.network == RUNTIME_NET_NONE)
		return egress_of_none(rq, rp, e);
	return proxy_call_start(rq, rp, sb, in->port, hs == WS_HANDSHAKE_OK ? "websocket" : NULL, e);
}

int proxy_any(struct request *rq, struct reply *rp, struct err *e)
{
	struct way_in in = { .id = rq->params[0] };
	int rc = request_port(rq, rp, &in.port, e);

	return rc == 0 ? start(rq, rp, &in, e) : rc < 0 ? -1 : 0;
}

int proxy_signed(struct request *rq, struct reply *rp, struct err *e)
{
	struct route_token route;
	struct way_in in = { .route = &route };

	if (route_read_path(rq->path, &route, &(struct err){ 0 }) < 0 || !route.is_signed)
		return reply_error(rp, 404, CODE_UNKNOWN_ERROR, "Not Found");
	in.id = route.id;
	in.port = route.port;
	if (id_valid(route.id))
		service_note(rq, arena_dup(rq->arena, route.id));
	return start(rq, rp, &in, e);
}
