// SPDX-License-Identifier: Apache-2.0
#include "server/boot/admin.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/decode.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "net/http/client.h"
#include "net/loop.h"
#include "net/transport.h"
#include "server/config/config.h"
#include "server/http/listen.h"

#include "base/banned.h"

#define WAIT_MS 3600000U /* for a server that works */
#define ERROR_MAX ((size_t)64 * 1024)
#define PIECE ((size_t)64 * 1024)

struct running {
	const struct admin_call *call;
	unsigned status;
	struct buf error; /* the body of an answer that is one */
	struct err failure;
	bool is_over;
	bool is_gone; /* the client's part of it */
};

/* ---- the way there ---- */

void admin_close(struct admin *a)
{
	http_client_free(a->client);
	tls_client_free(a->tls.client);
	loop_free(a->loop);
	if (a->key.p)
		secret_wipe(a->key.p, a->key.n);
	buf_done(&a->key);
	buf_done(&a->host);
}

/* A server that listens everywhere listens on loopback. */
static void choose_address(const struct listen_plan *plan, struct addr *ret)
{
	*ret = plan->addrs[0];
	if (ret->sa.sa_family == AF_INET && ret->in.sin_addr.s_addr == htonl(INADDR_ANY))
		ret->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (ret->sa.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&ret->in6.sin6_addr))
		ret->in6.sin6_addr = in6addr_loopback;
}

/* On this machine it is found by its address, which its certificate need not name. */
static int open_tls(struct admin *a, const struct config *c, struct err *e)
{
	bool is_here = a->to.sa.sa_family == AF_INET ? ntohl(a->to.in.sin_addr.s_addr) >> 24 == 127 :
						       IN6_IS_ADDR_LOOPBACK(&a->to.in6.sin6_addr);

	a->tls = (struct tls_target){ .client = tls_client_new(&(struct tls_client_options){ .is_insecure = is_here }, e),
				      .host = c->server.host };
	return a->tls.client ? 0 : -1;
}

int admin_open(struct admin *a, const struct config *c, struct err *e)
{
	static const struct http_deadlines patient = { 5000, WAIT_MS, WAIT_MS, WAIT_MS };
	struct http_client_options o = HTTP_CLIENT_OPTIONS;
	struct transport_maker maker;
	struct listen_plan plan;
	char text[ADDR_TEXT_MAX];

	*a = (struct admin){ .host = BUF_INIT(ADDR_TEXT_MAX), .key = BUF_INIT(2048) };
	if (listen_resolve(c->server.host, (unsigned)c->server.port, &plan, e) < 0 || plan.n == 0)
		return -1;
	choose_address(&plan, &a->to);
	if (c->server.tls_cert && open_tls(a, c, e) < 0)
		return -1;
	buf_addf(&a->host, "%s", sockaddr_format(&a->to.sa, a->to.len, text));
	buf_addf(&a->key, "%s", c->server.api_key ? c->server.api_key : "");
	a->loop = loop_new(e);
	if (!a->loop)
		return -1;
	o.to = &a->to.sa;
	o.to_len = a->to.len;
	o.max_idle = 0;
	o.deadlines = patient;
	if (a->tls.client) {
		maker = tls_client_maker(&a->tls);
		o.maker = &maker;
	}
	a->client = http_client_new(a->loop, &o, e);
	return a->client ? 0 : -1;
}

/* ---- one call ---- */

static void fail(struct running *r, const struct err *e)
{
	if (!r->is_over)
		r->failure = *e;
	r->is_over = true;
}

static void on_head(struct http_call *call, const struct http_head *head, void *arg)
{
	(void)call;
	((struct running *)arg)->status = head->status;
}

static void on_data(struct http_call *call, struct str piece, void *arg)
{
	struct running *r = arg;
	struct err e = { 0 };

	(void)call;
	if (r->is_over)
		return;
	if (r->status >= 300)
		buf_add_str(&r->error, str_first(piece, ERROR_MAX - MIN(r->error.n, ERROR_MAX)));
	else if (r->call->take && r->call->take(piece, r->call->arg, &e) < 0)
		fail(r, &e);
}

static void on_end(void *arg)
{
	struct running *r = arg;

	r->is_over = r->is_gone = true;
}

static void on_error(const struct err *e, void *arg)
{
	struct running *r = arg;

	fail(r, e);
	r->is_gone = true;
}

static void on_proceed(struct http_call *call, void *arg)
{
	struct running *r = arg;
	char piece[PIECE];
	struct err e = { 0 };

	while (!r->is_over && http_call_room(call) > 0) {
		long n = r->call->read(piece, sizeof(piece), r->call->arg, &e);

		if (n < 0) {
			fail(r, &e);
			return;
		}
		if (n == 0) {
			http_call_end(call);
			return;
		}
		http_call_write(call, (struct str){ piece, (size_t)n });
	}
}

static void no_stop(void *arg)
{
	(void)arg;
}

struct error_body {
	const char *message;
};

static int explain(struct running *r, struct err *e)
{
	static const struct field fields[] = { FIELD(struct error_body, message, FIELD_STRING, "message"), { 0 } };
	static const enum err_code codes[] = { [400 - 400] = ERR_INVALID, [401 - 400] = ERR_DENIED, [403 - 400] = ERR_DENIED,
					       [404 - 400] = ERR_NOT_FOUND };
	AUTO(arena_done) struct arena a = ARENA_INIT(4 * ERROR_MAX);
	struct decode d = { .arena = &a };
	struct error_body body = { .message = "" };
	struct json *root = json_parse(&a, buf_str(&r->error), NULL, NULL, &(struct err){ 0 });
	enum err_code code = r->status - 400 < ARRAY_LEN(codes) ? codes[r->status - 400] : ERR_UNAVAILABLE;

	if (root)
		(void)decode(&d, root, fields, &body, &(struct err){ 0 }); /* else the status must do */
	if (body.message[0])
		return err_set(e, code, "%.400s", body.message);
	return err_set(e, code, "the server answers with status %u", r->status);
}

static int turn(struct admin *a, struct running *r, struct err *e)
{
	while (!r->is_over)
		if (loop_turn(a->loop, -1, e) < 0)
			return -1;
	if (r->failure.code == ERR_NONE)
		return r->status < 300 ? 0 : explain(r, e);
	*e = r->failure;
	if (e->sys == ECONNREFUSED)
		return err_set(e, ERR_UNAVAILABLE, "no server runs at %s", buf_z(&a->host));
	return -1;
}

int admin_run(struct admin *a, const struct admin_call *call, struct err *e)
{
	static const struct http_call_ops ops = { .on_head = on_head, .on_data = on_data, .on_end = on_end, .on_error = on_error };
	static const struct http_body_source source = { .proceed = on_proceed, .stop = no_stop };
	struct running r = { .call = call, .error = BUF_INIT(ERROR_MAX) };
	struct http_header headers[] = { { STR("OPEN-SANDBOX-API-KEY"), buf_str(&a->key) }, { STR("Content-Type"), { 0 } } };
	struct http_request rq = { .method = str_of(call->method), .target = str_of(call->target), .host = buf_str(&a->host),
				   .headers = headers, .n_headers = 1, .body = call->body };
	struct http_call *running;
	int rc;

	if (call->type)
		headers[rq.n_headers++].value = str_of(call->type);
	if (a->key.n == 0) {
		rq.headers = headers + 1;
		rq.n_headers--;
	}
	if (call->read) {
		rq.source = &source;
		rq.length = call->length;
	}
	running = http_call_start(a->client, &rq, &ops, &r, e);
	if (!running)
		return -1;
	rc = turn(a, &r, e);
	if (!r.is_gone)
		http_call_cancel(running);
	buf_done(&r.error);
	return rc;
}
