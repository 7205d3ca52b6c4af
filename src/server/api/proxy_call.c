// SPDX-License-Identifier: Apache-2.0
/* One request through the proxy: bytes go on as they come, both ways, and whoever is slow slows the other side.
 *
 * It exists from the handler to the last callback of the sandbox's side. The client's side may end earlier: after an
 * answer without a body, rp is NULL and only the end of the call is waited for. */
#include "base/err.h"
#include "base/log.h"
#include "server/api/proxy.h"
#include "server/api/reply.h"

#include "base/banned.h"

struct proxy_call {
	struct proxy_call *prev, *next;
	struct proxy_peer *peer;
	struct proxy_target target; /* of a client of its own */
	struct http_client *client; /* its own, or NULL: the peer's */
	struct http_call *call;
	struct request *rq;
	struct reply *rp; /* NULL: answered */
	bool has_head;    /* the answer has begun */
	bool is_head;     /* nothing follows it: the server says when it is out */
	bool has_upload, is_upload_over;
};

static void call_free(struct proxy_call *x)
{
	*(x->prev ? &x->prev->next : &x->peer->calls) = x->next;
	if (x->next)
		x->next->prev = x->prev;
	x->peer->n--;
	http_call_cancel(x->call); /* a call that is over is not there any more */
	http_client_free(x->client);
	free(x);
}

/* ---- the client's side ---- */

static void on_hangup(void *arg)
{
	call_free(arg);
}

static void on_room(void *arg)
{
	struct proxy_call *x = arg;

	if (x->call)
		http_call_resume(x->call);
}

static int on_upload(struct str piece, void *arg, struct err *e)
{
	struct proxy_call *x = arg;

	(void)e;
	if (x->is_upload_over || !x->call)
		return 0;
	http_call_write(x->call, piece);
	if (http_call_room(x->call) == 0)
		request_pause(x->rq);
	return 0;
}

static int on_upload_end(void *arg, struct err *e)
{
	struct proxy_call *x = arg;

	(void)e;
	if (!x->is_upload_over && x->call)
		http_call_end(x->call);
	x->is_upload_over = true;
	return 0;
}

static void on_upload_stop(void *arg)
{
	call_free(arg);
}

/* ---- the sandbox's side ---- */

static void on_upload_room(struct http_call *call, void *arg)
{
	struct proxy_call *x = arg;

	(void)call;
	if (x->rp)
		request_resume(x->rq);
}

/* The sandbox wants no more of it: the rest is taken and dropped, so that the client gets to read the answer. */
static void on_upload_unwanted(void *arg)
{
	struct proxy_call *x = arg;

	x->is_upload_over = true;
	if (x->rp)
		request_resume(x->rq);
}

static bool has_body(const struct http_head *head)
{
	return head->status != 204 && head->status != 304;
}

/* What the client is told to expect; of an answer to HEAD nothing follows. */
static uint64_t length_of(const struct http_head *head)
{
	struct str text = http_value(head, "Content-Length");
	uint64_t length;

	if (head->framing == HTTP_LENGTH)
		return head->length;
	if (head->framing == HTTP_NO_BODY)
		return str_to_u64(text, 0, HTTP_LENGTH_MAX, &length) ? length : text.n > 0 ? 0 : REPLY_UNSIZED;
	return REPLY_UNSIZED;
}

static void on_head(struct http_call *call, const struct http_head *head, void *arg)
{
	static const struct reply_source source = { .proceed = on_room, .stop = on_hangup };
	struct proxy_call *x = arg;
	struct err e = { 0 };

	(void)call;
	if (proxy_pass_headers(x->rq, x->rp, head, &e) < 0) {
		log_warn("an answer of a sandbox was not passed on", LOG_S("id", x->target.id), LOG_ERR(&e));
		(void)reply_error(x->rp, 502, CODE_UNKNOWN_ERROR, "the headers of the sandbox's answer are too large");
		call_free(x);
		return;
	}
	if (!has_body(head)) {
		(void)reply_empty(take_ptr(&x->rp), head->status);
		x->is_upload_over = true;
		return;
	}
	if (reply_stream(x->rp, head->status, NULL, length_of(head), &source, x, &e) < 0) {
		(void)reply_error(x->rp, 503, "UNAVAILABLE", "too many open streams");
		call_free(x);
		return;
	}
	x->has_head = true;
}

static void on_data(struct http_call *call, struct str piece, void *arg)
{
	struct proxy_call *x = arg;

	if (!x->rp)
		return;
	reply_write(x->rp, piece);
	if (reply_room(x->rp) == 0)
		http_call_pause(call);
}

static void on_end(void *arg)
{
	struct proxy_call *x = arg;

	x->call = NULL;
	if (x->rp && x->is_head)
		return; /* its length is that of a body which is not there; on_hangup ends it */
	if (x->rp)
		reply_end(x->rp);
	call_free(x);
}

/* Nothing was answered yet. The first words are what clients know. A sandbox that goes takes its connections along
 * before anybody else hears of it: that is no fault of whoever listened there. */
static void reply_failure(struct proxy_call *x, const struct err *e)
{
	const struct sandbox *sb = sandboxes_find(x->target.plane->sandboxes, str_of(x->target.id));

	if (!sb || !sandbox_can_be_called(sb))
		(void)reply_error(x->rp, 502, CODE_UNKNOWN_ERROR, "Could not connect to the backend sandbox: it is not running");
	else if (e->code == ERR_UNAVAILABLE) /* as the dialer says it */
		(void)reply_error(x->rp, 502, CODE_UNKNOWN_ERROR,
				  "Could not connect to the backend sandbox: does anything listen on port %u?", x->target.port);
	else
		(void)reply_error(x->rp, 500, CODE_UNKNOWN_ERROR, "An internal error occurred in the proxy: %s",
				  e->code == ERR_TIMEOUT ? "the sandbox did not answer in time" :
							   "the sandbox sent no whole HTTP answer");
}

static void on_error(const struct err *e, void *arg)
{
	struct proxy_call *x = arg;

	x->call = NULL;
	log_debug("a request into a sandbox failed", LOG_S("id", x->target.id), LOG_U("port", x->target.port), LOG_ERR(e));
	if (x->rp && x->has_head)
		reply_abort(x->rp);
	else if (x->rp)
		reply_failure(x, e);
	call_free(x);
}

void proxy_call_drop(struct proxy_call *x)
{
	if (x->rp && x->has_head)
		reply_abort(x->rp);
	else if (x->rp)
		(void)reply_error(x->rp, 502, CODE_UNKNOWN_ERROR, "Could not connect to the backend sandbox: it is not running");
	call_free(x);
}

/* ---- starting ---- */

/* The connections to execd are kept: it is ours, and answers often. What else listens in a sandbox gets one each. */
static struct http_client *client_for(struct proxy_call *x, struct err *e)
{
	struct proxy_peer *peer = x->peer;

	if (x->target.port != PORT_EXECD) {
		x->client = proxy_client_new(&x->target, 0, e);
		return x->client;
	}
	if (!peer->execd) {
		peer->execd_target = x->target;
		peer->execd = proxy_client_new(&peer->execd_target, PROXY_IDLE_MAX, e);
	}
	return peer->execd;
}

static struct proxy_call *call_new(struct request *rq, struct reply *rp, struct sandbox *sb, unsigned port, struct err *e)
{
	struct proxy_peer *peer = proxy_peer_of(sb, e);
	struct proxy_call *x = peer ? calloc(1, sizeof(*x)) : NULL;

	if (!x) {
		(void)err_no_memory(e);
		return NULL;
	}
	x->peer = peer;
	x->rq = rq;
	x->rp = rp;
	x->target = (struct proxy_target){ .plane = plane_of(rq), .port = port };
	memcpy(x->target.id, sb->row.id, strlen(sb->row.id) + 1);
	x->next = peer->calls;
	if (x->next)
		x->next->prev = x;
	peer->calls = x;
	peer->n++;
	return x;
}

int proxy_call_start(struct request *rq, struct reply *rp, struct sandbox *sb, unsigned port, struct err *e)
{
	static const struct http_call_ops ops = { .on_head = on_head, .on_data = on_data, .on_end = on_end, .on_error = on_error };
	static const struct http_body_source upload = { .proceed = on_upload_room, .stop = on_upload_unwanted };
	static const struct body_sink sink = { .data = on_upload, .end = on_upload_end, .stop = on_upload_stop };
	struct http_request out;
	struct http_client *client;
	struct proxy_call *x;

	if (proxy_make_request(rq, port, &out, e) < 0)
		return e->code == ERR_LIMIT ? reply_error(rp, 431, "HEADERS_TOO_LARGE", "%s", e->msg) : -1;
	x = call_new(rq, rp, sb, port, e);
	if (!x)
		return -1;
	x->is_head = str_is(rq->head->method, "HEAD");
	x->has_upload = rq->head->framing != HTTP_NO_BODY;
	if (x->has_upload) {
		out.source = &upload;
		out.length = rq->head->framing == HTTP_LENGTH ? rq->head->length : HTTP_UNSIZED;
	}
	client = client_for(x, e);
	x->call = client ? http_call_start(client, &out, &ops, x, e) : NULL;
	if (!x->call) {
		call_free(x);
		return -1;
	}
	if (x->has_upload)
		request_read(rq, &sink, x);
	return reply_hold(rp, on_hangup, x);
}
