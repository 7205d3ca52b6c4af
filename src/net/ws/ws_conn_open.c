// SPDX-License-Identifier: Apache-2.0
/* The opening of WebSockets: the answer to a request, and the request to a server. */
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "net/http/client.h"
#include "net/http/server.h"
#include "net/transport.h"
#include "net/ws/ws_conn_impl.h"

#include "base/banned.h"

/* ---- server ---- */

/* The values of all headers of that name, joined as one list (RFC 9110 section 5.3). */
static struct str joined(const struct request *rq, const char *name)
{
	const struct http_head *h = rq->head;
	struct str all = { "", 0 };

	for (size_t i = 0; i < h->n_headers; i++) {
		const struct http_header *f = &h->headers[i];

		if (!str_eq_nocase(f->name, str_of(name)))
			continue;
		if (all.n > 0) {
			char *p = arena_printf(rq->arena, "%.*s, %.*s", STR_ARG(all), STR_ARG(f->value));

			all = p ? str_of(p) : f->value;
		} else {
			all = f->value;
		}
	}
	return all;
}

static bool can_upgrade(const struct http_head *h)
{
	return str_is(h->method, "GET") && h->minor == 1 && h->framing == HTTP_NO_BODY;
}

static int refuse(struct reply *rp, enum ws_handshake why)
{
	if (why == WS_HANDSHAKE_BAD)
		return reply_error(rp, 400, "BAD_HANDSHAKE", "a WebSocket handshake that does not follow RFC 6455");
	if (why == WS_HANDSHAKE_VERSION) {
		(void)reply_header(rp, "Sec-WebSocket-Version", STR("13"));
		return reply_error(rp, 426, "UPGRADE_REQUIRED", "only version 13 of WebSocket is spoken here");
	}
	(void)reply_header(rp, "Upgrade", STR("websocket"));
	return reply_error(rp, 426, "UPGRADE_REQUIRED", "this is a WebSocket endpoint");
}

static void on_take(struct transport *t, struct str early, void *arg)
{
	struct ws_conn *ws = arg;

	ws->reply = NULL;
	ws_start(ws, t, early);
}

static void on_gone(void *arg)
{
	struct ws_conn *ws = arg;

	ws->reply = NULL;
	ws_end(ws, WS_CLOSE_ABNORMAL, STR("the peer went away"));
}

static int choose_protocol(struct ws_conn *ws, const struct request *rq, struct reply *rp)
{
	struct str chosen;

	if (!ws->options.protocols ||
	    !ws_protocol_choose(joined(rq, "Sec-WebSocket-Protocol"), ws->options.protocols, &chosen) ||
	    chosen.n > WS_PROTOCOL_MAX)
		return 0;
	memcpy(ws->protocol, chosen.p, chosen.n);
	return reply_header(rp, "Sec-WebSocket-Protocol", chosen);
}

int ws_conn_accept(struct request *rq, struct reply *rp, const struct ws_options *options, const struct ws_ops *ops,
		   void *arg, struct ws_conn **ret_ws, struct err *e)
{
	static const struct upgrade up = { .take = on_take, .gone = on_gone };
	struct ws_request values = {
		.connection = joined(rq, "Connection"),
		.upgrade = joined(rq, "Upgrade"),
		.version = joined(rq, "Sec-WebSocket-Version"),
		.key = joined(rq, "Sec-WebSocket-Key"),
	};
	enum ws_handshake verdict = ws_handshake_check(&values);
	AUTO(ws_conn_cancel) struct ws_conn *ws = NULL;
	char accept[WS_ACCEPT_LEN + 1];

	*ret_ws = NULL;
	if (verdict == WS_HANDSHAKE_OK && !can_upgrade(rq->head))
		verdict = WS_HANDSHAKE_BAD;
	if (verdict != WS_HANDSHAKE_OK)
		return refuse(rp, verdict);
	ws = ws_new(request_loop(rq), WS_SERVER, options, ops, arg, e);
	if (!ws)
		return -1;
	ws_accept(values.key, accept);
	if (reply_header(rp, "Sec-WebSocket-Accept", str_of(accept)) < 0 || choose_protocol(ws, rq, rp) < 0)
		return err_set(e, ERR_INTERNAL, "a handshake that cannot be written");
	if (reply_upgrade(rp, "websocket", &up, ws, e) < 0)
		return -1;
	ws->reply = rp; /* not before: ours to abort only while it is on its way */
	*ret_ws = take_ptr(&ws);
	return 0;
}

/* ---- client ---- */

static void on_answer(struct http_call *call, const struct http_head *head, void *arg)
{
	struct ws_conn *ws = arg;
	char text[64];

	(void)call;
	(void)snprintf(text, sizeof(text), "the server answered with status %u", head->status);
	ws_end(ws, WS_CLOSE_ABNORMAL, str_of(text)); /* cancels the call */
}

static void on_call_end(void *arg)
{
	(void)arg; /* never: its head ended the call */
}

static void on_call_error(const struct err *e, void *arg)
{
	struct ws_conn *ws = arg;

	ws->call = NULL;
	ws_end(ws, WS_CLOSE_ABNORMAL, str_of(e->msg));
}

static bool is_offered(const struct ws_conn *ws, struct str protocol)
{
	const char *const *p = ws->options.protocols;

	while (p && *p && !str_is(protocol, *p))
		p++;
	return p && *p && protocol.n <= WS_PROTOCOL_MAX;
}

/* NULL, or what is wrong with the server's answer (RFC 6455 section 4.1). */
static const char *check_answer(struct ws_conn *ws, const struct http_head *h)
{
	struct str protocol = http_value(h, "Sec-WebSocket-Protocol");

	if (!str_eq_nocase(http_value(h, "Upgrade"), STR("websocket")))
		return "the server upgraded to something else";
	if (!ws_accept_matches(str_of(ws->key), http_value(h, "Sec-WebSocket-Accept")))
		return "the server's answer belongs to another request";
	if (http_find(h, "Sec-WebSocket-Extensions"))
		return "the server insists on an extension";
	if (protocol.n > 0 && !is_offered(ws, protocol))
		return "the server chose a protocol that was not offered";
	if (protocol.n > 0)
		memcpy(ws->protocol, protocol.p, protocol.n);
	return NULL;
}

static void on_upgraded(struct transport *t, const struct http_head *head, struct str early, void *arg)
{
	struct ws_conn *ws = arg;
	const char *wrong = check_answer(ws, head);

	ws->call = NULL;
	if (!wrong) {
		ws_start(ws, t, early);
		return;
	}
	transport_close(t);
	ws_end(ws, WS_CLOSE_ABNORMAL, str_of(wrong));
}

static int offer_protocols(const struct ws_conn *ws, struct buf *list, struct err *e)
{
	for (const char *const *p = ws->options.protocols; p && *p; p++)
		buf_addf(list, "%s%s", list->n > 0 ? ", " : "", *p);
	return list->failed ? err_set(e, ERR_LIMIT, "too many WebSocket protocols to offer") : 0;
}

static int send_request(struct ws_conn *ws, struct http_client *client, const struct ws_target *target, struct err *e)
{
	static const struct http_call_ops ops = {
		.on_head = on_answer,
		.on_end = on_call_end,
		.on_error = on_call_error,
		.on_upgrade = on_upgraded,
	};
	AUTO(buf_done) struct buf list = BUF_INIT(1024);
	struct http_header headers[HTTP_HEADERS_MAX];
	struct http_request rq = {
		.method = STR("GET"), .target = target->target, .host = target->host,
		.upgrade = "websocket", .headers = headers, .n_headers = target->n_headers,
	};

	if (target->n_headers > HTTP_HEADERS_MAX - 3)
		return err_set(e, ERR_LIMIT, "%zu headers in a request", target->n_headers);
	if (offer_protocols(ws, &list, e) < 0)
		return -1;
	if (target->n_headers > 0)
		memcpy(headers, target->headers, target->n_headers * sizeof(headers[0]));
	headers[rq.n_headers++] = (struct http_header){ STR("Sec-WebSocket-Version"), STR("13") };
	headers[rq.n_headers++] = (struct http_header){ STR("Sec-WebSocket-Key"), str_of(ws->key) };
	if (list.n > 0)
		headers[rq.n_headers++] = (struct http_header){ STR("Sec-WebSocket-Protocol"), buf_str(&list) };
	ws->call = http_call_start(client, &rq, &ops, ws, e);
	return ws->call ? 0 : -1;
}

struct ws_conn *ws_conn_connect(struct http_client *client, struct loop *l, const struct ws_target *target,
				const struct ws_options *options, const struct ws_ops *ops, void *arg, struct err *e)
{
	AUTO(ws_conn_cancel) struct ws_conn *ws = ws_new(l, WS_CLIENT, options, ops, arg, e);
	uint8_t bytes[16];

	if (!ws || random_bytes(bytes, sizeof(bytes), e) < 0)
		return NULL;
	ws_key_make(bytes, ws->key);
	if (send_request(ws, client, target, e) < 0)
		return NULL;
	return take_ptr(&ws);
}
