// SPDX-License-Identifier: Apache-2.0
/* Requests through the proxy: net/http/forward.h carries them, this decides what they are called and what is said of failures. */
#include "base/err.h"
#include "base/log.h"
#include "net/http/forward.h"
#include "server/http/reply.h"
#include "server/proxy/proxy.h"

#include "base/banned.h"

struct proxy_call {
	struct list_node at;
	struct proxy_peer *peer;
	struct proxy_target target; /* of a client of its own */
	struct proxy_port *port;    /* whose connections it shares, or NULL: */
	struct http_client *client; /* its own */
	struct forward *forward;
	uint64_t moved;             /* bytes, when it was last looked at */
	bool has_changed_policy;
};

static void call_free(struct proxy_call *x)
{
	list_remove(&x->peer->calls, &x->at);
	x->peer->n--;
	if (x->port)
		x->port->n--;
	http_client_free(x->client);
	free(x);
}

static int on_headers(const struct request *rq, struct reply *rp, const struct http_head *head, void *arg, struct err *e)
{
	struct proxy_call *x = arg;

	x->has_changed_policy = x->target.port == PORT_EGRESS && head->status == 200 && !str_is(rq->head->method, "GET") &&
				!str_is(rq->head->method, "HEAD");
	return proxy_pass_headers(rq, rp, head, e);
}

/* G12b: that many connections wait for the sandbox is no fault of what listens there. */
static void reply_busy(struct reply *rp)
{
	(void)reply_header(rp, "Retry-After", STR("1"));
	(void)reply_error(rp, 503, "UNAVAILABLE", "too many requests wait for the sandbox, try later");
}

/* Nothing was answered yet. The first words are what clients know. A sandbox that goes takes its connections along
 * before anybody else hears of it: that is no fault of whoever listened there. */
static void reply_failure(const struct proxy_call *x, struct reply *rp, const struct err *e)
{
	const struct sandbox *sb = sandboxes_find(x->target.plane->sandboxes, str_of(x->target.id));

	if (x->target.port == PORT_EGRESS)
		(void)reply_error(rp, 503, "EGRESS_UNAVAILABLE", "opensandbox-egress does not answer; what it has let through stays as it is");
	else if (e->code == ERR_NOT_FOUND || !sb || !sandbox_can_be_called(sb))
		(void)reply_error(rp, 502, CODE_UNKNOWN_ERROR, "Could not connect to the backend sandbox: it is not running");
	else if (e->sys == EAGAIN)
		reply_busy(rp);
	else if (e->code == ERR_UNAVAILABLE) /* as the dialer says it */
		(void)reply_error(rp, 502, CODE_UNKNOWN_ERROR,
				  "Could not connect to the backend sandbox: does anything listen on port %u?", x->target.port);
	else
		(void)reply_error(rp, 500, CODE_UNKNOWN_ERROR, "An internal error occurred in the proxy: %s",
				  e->code == ERR_TIMEOUT ? "the sandbox did not answer in time" :
							   "the sandbox sent no whole HTTP answer");
}

static void on_refuse(struct reply *rp, const struct err *e, void *arg)
{
	struct proxy_call *x = arg;

	if (e->code == ERR_LIMIT) {
		log_warn("an answer of a sandbox was not passed on", LOG_S("id", x->target.id), LOG_ERR(e));
		(void)reply_error(rp, 502, CODE_UNKNOWN_ERROR, "the headers of the sandbox's answer are too large");
		return;
	}
	log_debug("a request into a sandbox failed", LOG_S("id", x->target.id), LOG_U("port", x->target.port), LOG_ERR(e));
	reply_failure(x, rp, e);
}

/* The record follows what egress has: it is all that is left once both have gone. */
static void keep_policy(const struct proxy_call *x)
{
	struct sandbox *sb = sandboxes_find(x->target.plane->sandboxes, str_of(x->target.id));
	struct fault f;

	if (sb && sandbox_read_policy(sb, NULL, NULL, &f) < 0)
		log_warn("a policy was not written down", LOG_S("id", x->target.id), LOG_S("failure", f.message));
}

static void on_over(void *arg)
{
	struct proxy_call *x = arg;

	if (x->has_changed_policy)
		keep_policy(x);
	call_free(x);
}

void proxy_calls_drop(struct proxy_peer *peer)
{
	struct err removed = { 0 };

	(void)err_set(&removed, ERR_NOT_FOUND, "the sandbox was removed");
	while (peer->calls.first) {
		struct proxy_call *x = LIST_FIRST(&peer->calls, struct proxy_call, at);

		forward_cancel(x->forward, &removed);
		call_free(x);
	}
}

bool proxy_calls_moved(struct proxy_peer *peer)
{
	bool any = false;

	LIST_EACH (struct proxy_call, x, &peer->calls, at) {
		uint64_t moved = forward_moved(x->forward);

		any = any || moved != x->moved;
		x->moved = moved;
	}
	return any;
}

/* ---- starting ---- */

/* Connections are kept for the ports that were used last; the others get one for each request. */
static struct http_client *client_for(struct proxy_call *x, struct sandbox *sb, struct err *e)
{
	x->port = proxy_port_of(x->target.plane, sb, x->target.port, e);
	if (x->port) {
		x->port->n++;
		return x->port->client;
	}
	if (e->code != ERR_LIMIT)
		return NULL;
	*e = (struct err){ 0 };
	x->client = proxy_client_new(&x->target, 0, e);
	return x->client;
}

static struct proxy_call *call_new(struct request *rq, struct sandbox *sb, unsigned port, struct err *e)
{
	struct proxy_peer *peer = proxy_peer_of(sb, e);
	struct proxy_call *x = peer ? calloc(1, sizeof(*x)) : NULL;

	if (!x) {
		(void)err_no_memory(e);
		return NULL;
	}
	x->peer = peer;
	x->target = (struct proxy_target){ .plane = plane_of(rq), .port = port };
	memcpy(x->target.id, sb->row.id, strlen(sb->row.id) + 1);
	list_prepend(&peer->calls, &x->at);
	peer->n++;
	return x;
}

int proxy_call_start(struct request *rq, struct reply *rp, struct sandbox *sb, unsigned port, const char *upgrade, struct err *e)
{
	static const struct forward_ops ops = { .headers = on_headers, .refuse = on_refuse, .over = on_over, .passes = true,
						.paces = true };
	struct http_request out;
	struct http_client *client;
	struct proxy_call *x;

	if (proxy_make_request(rq, sb->row.id, port, &out, e) < 0)
		return e->code == ERR_LIMIT ? reply_error(rp, 431, "HEADERS_TOO_LARGE", "%s", e->msg) : -1;
	out.upgrade = upgrade;
	x = call_new(rq, sb, port, e);
	if (!x)
		return -1;
	client = client_for(x, sb, e);
	x->forward = client ? forward_start(rq, rp, client, &out, &ops, x, e) : NULL;
	if (x->forward)
		return 0;
	call_free(x);
	return -1;
}
