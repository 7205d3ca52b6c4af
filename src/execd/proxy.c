// SPDX-License-Identifier: Apache-2.0
#include "execd/proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "execd/execd.h"
#include "execd/proxy_headers.h"
#include "net/http/client.h"
#include "net/http/forward.h"

#include "base/banned.h"

#define CODE_BAD_GATEWAY "BAD_GATEWAY"
#define CONNECT_MS 10000
#define SEND_MS 180000
#define HEAD_MS 180000
#define BODY_MS 3600000
#define IN_MAX ((size_t)16 * 1024)
#define HIGH_WATER ((size_t)16 * 1024)

struct proxied {
	struct proxy *of;
	struct proxied *prev, *next;
	struct http_client *client;
	struct forward *forward;
	unsigned port;
	size_t granted;
	bool is_tunnel;
};

static void proxied_free(struct proxied *x)
{
	struct proxy *p = x->of;

	*(x->prev ? &x->prev->next : &p->first) = x->next;
	if (x->next)
		x->next->prev = x->prev;
	p->n--;
	budget_give(p->budget, x->granted);
	http_client_free(x->client);
	free(x);
}

static void proxied_drop(struct proxied *x)
{
	struct err why = { 0 };

	(void)err_set(&why, ERR_UNAVAILABLE, "the sandbox is stopping");
	forward_cancel(x->forward, &why);
	proxied_free(x);
}

void proxy_stop_tunnels(struct proxy *p)
{
	struct proxied *next;

	for (struct proxied *x = p->first; x; x = next) {
		next = x->next;
		if (x->is_tunnel)
			proxied_drop(x);
	}
}

void proxy_done(struct proxy *p)
{
	while (p->first)
		proxied_drop(p->first);
}

/* ---- the answer ---- */

static int on_headers(const struct request *rq, struct reply *rp, const struct http_head *head, void *arg, struct err *e)
{
	size_t bytes = 0;

	(void)arg;
	for (size_t i = 0; i < head->n_headers; i++)
		bytes += head->headers[i].name.n + head->headers[i].value.n + 4;
	if (bytes > PROXIED_HEADER_BYTES_MAX)
		return err_set(e, ERR_LIMIT, "an answer with %zu bytes of headers", bytes);
	for (size_t i = 0; i < head->n_headers; i++) {
		const struct http_header *h = &head->headers[i];
		char name[256];

		if (h->name.n >= sizeof(name) || !proxied_response_header_passes(head, h->name, rq->id.n > 0))
			continue;
		memcpy(name, h->name.p, h->name.n);
		name[h->name.n] = '\0';
		(void)reply_header(rp, name, h->value); /* what cannot stand in a header is left out */
	}
	return 0;
}

static void on_refuse(struct reply *rp, const struct err *e, void *arg)
{
	const struct proxied *x = arg;

	log_debug("a proxied request failed", LOG_U("port", x->port), LOG_ERR(e));
	(void)reply_error(rp, 502, CODE_BAD_GATEWAY, "Bad Gateway: port %u: %s", x->port, e->msg);
}

static void on_tunnel(void *arg)
{
	struct proxied *x = arg;

	x->is_tunnel = true;
	budget_give(x->of->budget, x->granted - PROXIED_TUNNEL_MEMORY);
	x->granted = PROXIED_TUNNEL_MEMORY;
}

static void on_over(void *arg)
{
	proxied_free(arg);
}

/* ---- the request ---- */

static struct str peer_text(const struct request *rq)
{
	const struct sockaddr *peer = rq->peer;
	char text[INET6_ADDRSTRLEN] = "";
	const void *p = peer;

	if (peer->sa_family == AF_INET)
		(void)inet_ntop(AF_INET, &((const struct sockaddr_in *)p)->sin_addr, text, sizeof(text));
	return str_of(arena_strndup(rq->arena, text, strlen(text)));
}

/* One that only looks like a handshake goes on as the ordinary request that it is then. */
static bool asks_for_websocket(const struct http_head *h)
{
	return h->has_upgrade && http_list_has(http_value(h, "Upgrade"), "websocket") && h->framing == HTTP_NO_BODY &&
	       str_is(h->method, "GET") && h->minor == 1;
}

static int make_request(struct request *rq, struct http_request *ret, struct err *e)
{
	struct http_header *headers = arena_array(rq->arena, PROXIED_HEADERS_MAX, sizeof(*headers));
	struct str peer = peer_text(rq), target = forward_target(rq);
	int n;

	if (!headers || !peer.p || !target.p)
		return err_no_memory(e);
	n = proxied_request_headers(rq->head, peer, rq->arena, headers, e);
	if (n < 0)
		return -1;
	*ret = (struct http_request){
		.method = rq->head->method, .target = target, .host = rq->head->host, .headers = headers,
		.n_headers = (size_t)n, .upgrade = asks_for_websocket(rq->head) ? "websocket" : NULL,
	};
	return 0;
}

static struct http_client *client_for(const struct proxy *p, unsigned port, struct err *e)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct http_client_options o = {
		.to = (struct sockaddr *)&to, .to_len = sizeof(to), .in_max = IN_MAX, .high_water = HIGH_WATER,
		.deadlines = { .connect_ms = CONNECT_MS, .send_ms = SEND_MS, .head_ms = HEAD_MS, .body_ms = BODY_MS },
	};

	return http_client_new(p->loop, &o, e);
}

static struct proxied *proxied_new(struct proxy *p, unsigned port, struct err *e)
{
	struct proxied *x;

	if (p->n >= PROXIED_MAX || !budget_take(p->budget, PROXIED_MEMORY + PROXIED_RESERVE)) {
		(void)err_set(e, ERR_LIMIT, "%u proxied requests in progress", p->n);
		return NULL;
	}
	budget_give(p->budget, PROXIED_RESERVE);
	x = calloc(1, sizeof(*x));
	if (!x) {
		budget_give(p->budget, PROXIED_MEMORY);
		(void)err_no_memory(e);
		return NULL;
	}
	*x = (struct proxied){ .of = p, .next = p->first, .port = port, .granted = PROXIED_MEMORY };
	if (x->next)
		x->next->prev = x;
	p->first = x;
	p->n++;
	return x;
}

int proxied_any(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct forward_ops ops = { .headers = on_headers, .refuse = on_refuse, .tunnel = on_tunnel, .over = on_over };
	struct proxy *p = &execd_of(rq)->proxy;
	struct http_request out;
	struct proxied *x;
	uint64_t port;

	if (!str_to_u64(rq->params[0], 1, UINT16_MAX, &port))
		return reply_error(rp, 400, CODE_INVALID_BODY, "the port must be a number from 1 to 65535");
	if (port == p->own_port || port == EXECD_PORT)
		return reply_error(rp, 400, CODE_INVALID_BODY, "port %u is this service itself", (unsigned)port);
	if (make_request(rq, &out, e) < 0)
		return e->code == ERR_LIMIT ? reply_error(rp, 431, "HEADERS_TOO_LARGE", "%s", e->msg) : -1;
	x = proxied_new(p, (unsigned)port, e);
	if (!x)
		return e->code == ERR_LIMIT ? reply_too_many(rp, "proxied requests") : -1;
	x->client = client_for(p, x->port, e);
	x->forward = x->client ? forward_start(rq, rp, x->client, &out, &ops, x, e) : NULL;
	if (x->forward)
		return 0;
	proxied_free(x);
	return -1;
}

int proxied_no_port(struct request *rq, struct reply *rp, struct err *e)
{
	(void)rq;
	(void)e;
	return reply_error(rp, 400, CODE_INVALID_BODY, "port is required: /proxy/{port}/...");
}
