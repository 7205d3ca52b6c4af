// SPDX-License-Identifier: Apache-2.0
/* WebSockets through the proxy: the sandbox answers the handshake, after that bytes are bytes. */
#include "base/err.h"
#include "base/log.h"
#include "net/relay.h"
#include "net/transport.h"
#include "net/ws/ws_conn.h"
#include "net/ws/ws_handshake.h"
#include "server/http/reply.h"
#include "server/proxy/proxy.h"

#include "base/banned.h"

#define CLOSE_REASON_MAX 123 /* RFC 6455 section 5.5 */

struct tunnel {
	struct list_node at;
	struct plane *plane;
	struct proxy_peer *peer; /* NULL: there is no sandbox */
	struct proxy_target target;
	struct http_client *client;
	struct http_call *call;
	struct request *rq;
	struct reply *rp;         /* NULL: answered */
	struct transport *inside; /* open, while the answer to the client is on its way */
	struct buf early;         /* what came from there already */
	struct relay *relay;
	uint64_t moved; /* bytes, when it was last looked at */
	struct ws_conn *ws; /* one that is opened only to be closed */
};

static void tunnel_free(struct tunnel *t)
{
	list_remove(&t->plane->tunnels, &t->at);
	if (t->peer)
		t->peer->n--;
	http_call_cancel(t->call);
	http_client_free(t->client);
	transport_close(t->inside);
	relay_cancel(t->relay);
	ws_conn_cancel(t->ws);
	buf_done(&t->early);
	free(t);
}

static struct tunnel *tunnel_new(struct request *rq, struct reply *rp, struct sandbox *sb, struct err *e)
{
	struct plane *plane = plane_of(rq);
	struct proxy_peer *peer = sb ? proxy_peer_of(sb, e) : NULL;
	struct tunnel *t = !sb || peer ? calloc(1, sizeof(*t)) : NULL;

	if (!t) {
		(void)err_no_memory(e);
		return NULL;
	}
	*t = (struct tunnel){ .plane = plane, .peer = peer, .rq = rq, .rp = rp, .early = BUF_INIT(RELAY_EARLY_MAX) };
	list_prepend(&plane->tunnels, &t->at);
	if (peer)
		peer->n++;
	return t;
}

void tunnels_drop(struct plane *p, const struct proxy_peer *peer)
{
	LIST_EACH (struct tunnel, t, &p->tunnels, at) {
		if (peer && t->peer != peer)
			continue;
		if (t->rp)
			reply_abort(t->rp);
		tunnel_free(t);
	}
}

void tunnels_mark(struct plane *p)
{
	LIST_EACH (struct tunnel, t, &p->tunnels, at) {
		uint64_t moved = t->relay ? relay_moved(t->relay) : 0;

		if (t->peer && moved != t->moved)
			t->peer->has_moved = true;
		t->moved = moved;
	}
}

/* ---- refusing ---- */

static void on_message(struct ws_conn *ws, bool is_text, struct str data, void *arg)
{
	(void)ws, (void)is_text, (void)data, (void)arg;
}

static void on_close(uint16_t code, struct str reason, void *arg)
{
	struct tunnel *t = arg;

	(void)code, (void)reason;
	t->ws = NULL;
	tunnel_free(t);
}

static int refuse(struct tunnel *t, unsigned code, const char *reason, struct err *e)
{
	static const struct ws_ops ops = { .on_message = on_message, .on_close = on_close };
	struct reply *rp = take_ptr(&t->rp);
	int rc = ws_conn_accept(t->rq, rp, &WS_OPTIONS, &ops, t, &t->ws, e);

	if (rc < 0 || !t->ws) {
		tunnel_free(t);
		return rc;
	}
	ws_conn_close(t->ws, (uint16_t)code, str_first(str_of(reason), CLOSE_REASON_MAX));
	return 0;
}

int tunnel_refuse(struct request *rq, struct reply *rp, unsigned code, const char *reason, struct err *e)
{
	struct tunnel *t = tunnel_new(rq, rp, NULL, e);

	return t ? refuse(t, code, reason, e) : -1;
}

static void refuse_later(struct tunnel *t, unsigned code, const char *reason)
{
	struct reply *rp = t->rp;
	struct err e = { 0 };

	if (refuse(t, code, reason, &e) < 0)
		(void)reply_error(rp, 502, CODE_UNKNOWN_ERROR, "%s", reason);
}

/* ---- opening ---- */

static void on_hangup(void *arg)
{
	struct tunnel *t = arg;

	t->rp = NULL;
	tunnel_free(t);
}

static void on_over(const struct relay_result *result, void *arg)
{
	struct tunnel *t = arg;

	(void)result;
	t->relay = NULL;
	tunnel_free(t);
}

static void on_take(struct transport *outside, struct str early, void *arg)
{
	struct tunnel *t = arg;
	struct relay_spec spec = {
		.a = outside, .b = t->inside, .early_a = early, .early_b = buf_str(&t->early), .done = on_over, .arg = t,
	};
	struct err e = { 0 };

	t->rp = NULL;
	t->relay = relay_start(t->plane->spec.loop, &spec, &e);
	if (!t->relay) {
		log_warn("a WebSocket could not be relayed", LOG_S("id", t->target.id), LOG_ERR(&e));
		transport_close(outside);
		tunnel_free(t);
		return;
	}
	t->inside = NULL;
	buf_done(&t->early);
}

static void on_upgrade(struct transport *inside, const struct http_head *head, struct str early, void *arg)
{
	static const struct upgrade up = { .take = on_take, .gone = on_hangup };
	struct tunnel *t = arg;
	struct str key = request_header(t->rq, "Sec-WebSocket-Key");
	struct err e = { 0 };

	t->call = NULL;
	t->inside = inside;
	if (!ws_accept_matches(key, http_value(head, "Sec-WebSocket-Accept")) || !buf_add_str(&t->early, early)) {
		refuse_later(t, 1011, "the sandbox's answer is not that of a WebSocket");
		return;
	}
	if (proxy_pass_headers(t->rq, t->rp, head, &e) < 0) {
		refuse_later(t, 1011, "the headers of the sandbox's answer are too large");
		return;
	}
	if (reply_upgrade(t->rp, "websocket", &up, t, &e) < 0) {
		(void)reply_error(take_ptr(&t->rp), 503, "UNAVAILABLE", "too many open streams");
		tunnel_free(t);
	}
}

/* An answer that is not 101: the sandbox has no WebSocket there. */
static void on_head(struct http_call *call, const struct http_head *head, void *arg)
{
	struct tunnel *t = arg;

	(void)head;
	http_call_cancel(call);
	t->call = NULL;
	refuse_later(t, WS_CLOSE_POLICY, "the sandbox refused the WebSocket");
}

static void on_end(void *arg)
{
	(void)arg; /* on_head has cancelled the call before it could end */
}

static void on_error(const struct err *e, void *arg)
{
	struct tunnel *t = arg;

	t->call = NULL;
	log_debug("a WebSocket into a sandbox failed", LOG_S("id", t->target.id), LOG_U("port", t->target.port), LOG_ERR(e));
	refuse_later(t, 1011, "Could not connect to the backend sandbox");
}

int tunnel_start(struct request *rq, struct reply *rp, struct sandbox *sb, unsigned port, struct err *e)
{
	static const struct http_call_ops ops = {
		.on_head = on_head, .on_end = on_end, .on_error = on_error, .on_upgrade = on_upgrade,
	};
	struct http_request out;
	struct tunnel *t;

	if (proxy_make_request(rq, sb->row.id, port, &out, e) < 0)
		return e->code == ERR_LIMIT ? reply_error(rp, 431, "HEADERS_TOO_LARGE", "%s", e->msg) : -1;
	out.upgrade = "websocket";
	t = tunnel_new(rq, rp, sb, e);
	if (!t)
		return -1;
	t->target = (struct proxy_target){ .plane = t->plane, .port = port };
	memcpy(t->target.id, sb->row.id, strlen(sb->row.id) + 1);
	t->client = proxy_client_new(&t->target, 0, e);
	t->call = t->client ? http_call_start(t->client, &out, &ops, t, e) : NULL;
	if (!t->call) {
		t->rp = NULL;
		tunnel_free(t);
		return -1;
	}
	return reply_hold(rp, on_hangup, t);
}
