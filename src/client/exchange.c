// SPDX-License-Identifier: Apache-2.0
/* One request of an operation, and its answer. */
#include "client/exchange.h"

#include <assert.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "base/uuid.h"
#include "client/client_impl.h"
#include "client/model.h"
#include "net/http/client.h"

#include "base/banned.h"

#define ERROR_BODY_MAX ((size_t)256 * 1024) /* of an answer that is no success */
#define TREE_MAX ((size_t)256 * 1024 * 1024)
#define HEADERS_MAX (ENDPOINT_HEADERS_MAX * 2 + 16)
#define FOREVER_MS 0x7fffffffU

struct exchange {
	struct op *op;
	struct exchange *next;
	struct ask ask; /* strings of it are not looked at after the request has begun */
	struct http_call *call;
	struct timer timer;
	unsigned status;
	bool is_stream;
	char request_id[sizeof(((struct osb_error *)0)->request_id)];
	bool is_delivering; /* its on_answer runs, and may look at it */
	struct buf body;
	char *piece; /* what READ gives goes through here */
};

#define PIECE_MAX HTTP_CLIENT_HIGH_WATER

/* ---- ends ---- */

static void exchange_stop(struct exchange *x)
{
	http_call_cancel(take_ptr(&x->call));
	timer_done(&x->timer);
}

void exchanges_stop(struct op *op, bool spares_kept)
{
	for (struct exchange *x = op->exchanges; x; x = x->next)
		if (x->call && !(spares_kept && x->ask.is_kept))
			exchange_stop(x);
}

void op_stop_asking(struct op *op)
{
	exchanges_stop(op, false);
}

static void exchange_free(struct exchange *x)
{
	timer_done(&x->timer);
	buf_done(&x->body);
	free(x->piece);
	free(x);
}

void exchanges_free(struct op *op)
{
	while (op->exchanges) {
		struct exchange *x = op->exchanges;

		exchange_stop(x);
		op->exchanges = x->next;
		exchange_free(x);
	}
}

static void fill_error(const struct exchange *x, struct osb_error *e)
{
	e->http_status = (int)x->status;
	memcpy(e->request_id, x->request_id, sizeof(e->request_id));
}

static void exchange_failed(struct exchange *x, struct osb_error *e)
{
	const struct op_answer a = { .status = x->status, .body = buf_str(&x->body), .error = e, .tag = x->ask.tag };
	struct op *op = x->op;

	exchange_stop(x);
	fill_error(x, e);
	x->is_delivering = true;
	if (x->ask.takes_failure && x->ask.on_answer)
		x->ask.on_answer(op, &a);
	else
		op_fail_as(op, e);
	x->is_delivering = false;
}

static void exchange_fail(struct exchange *x, enum osb_kind kind, const char *code, const char *what)
{
	struct osb_error e = { 0 };

	error_set(&e, kind, code, "%s", what);
	exchange_failed(x, &e);
}

static void exchange_answered(struct exchange *x)
{
	const struct op_answer a = { .status = x->status, .body = buf_str(&x->body), .tag = x->ask.tag };
	struct osb_error e = { 0 };

	x->call = NULL;
	if (x->status < 200 || x->status > 299) {
		error_from_answer(&e, x->status, buf_str(&x->body));
		exchange_failed(x, &e);
		return;
	}
	timer_done(&x->timer);
	x->is_delivering = true;
	if (x->ask.on_answer)
		x->ask.on_answer(x->op, &a);
	else
		op_answered(x->op, &a, x->ask.model);
	x->is_delivering = false;
}

/* ---- what the HTTP client says ---- */

static void on_head(struct http_call *call, const struct http_head *head, void *arg)
{
	struct exchange *x = arg;
	struct str id = http_value(head, "X-Request-ID");
	bool is_good = head->status >= 200 && head->status <= 299;

	(void)call;
	x->status = head->status;
	if (id.n > 0)
		(void)snprintf(x->request_id, sizeof(x->request_id), "%.*s", (int)MIN(id.n, sizeof(x->request_id)), id.p);
	x->is_stream = is_good && x->ask.on_data;
	x->body.max = is_good ? (x->ask.max ? x->ask.max : OP_ANSWER_MAX) : ERROR_BODY_MAX;
	if (x->is_stream)
		timer_cancel(&x->timer);
	if (is_good && x->ask.on_head)
		x->ask.on_head(x->op, head);
}

static void on_data(struct http_call *call, struct str piece, void *arg)
{
	struct exchange *x = arg;

	(void)call;
	if (x->is_stream) {
		x->ask.on_data(x->op, piece);
		return;
	}
	if (buf_add_str(&x->body, piece))
		return;
	if (x->body.n + piece.n <= x->body.max)
		exchange_fail(x, OSB_MEMORY, NULL, "out of memory");
	else
		exchange_fail(x, OSB_NETWORK, "UNEXPECTED_RESPONSE", "the answer is larger than anything that is expected here");
}

static void on_end(void *arg)
{
	exchange_answered(arg);
}

static void on_error(const struct err *why, void *arg)
{
	struct exchange *x = arg;
	struct osb_error e = { 0 };

	x->call = NULL;
	error_from_err(&e, why);
	exchange_failed(x, &e);
}

static void on_timeout(void *arg)
{
	struct exchange *x = arg;

	exchange_fail(x, OSB_TIMEOUT, NULL, "there was no answer in time");
}

static const struct http_call_ops call_ops = { .on_head = on_head, .on_data = on_data, .on_end = on_end, .on_error = on_error };

/* ---- bodies that are streams ---- */

static void source_proceed(struct http_call *call, void *arg)
{
	struct exchange *x = arg;
	size_t room;

	while ((room = http_call_room(call)) > 0) {
		size_t max = MIN(room, (size_t)PIECE_MAX);
		long n = x->ask.read(x->piece, max, x->ask.read_arg);

		if (!x->call) /* the user has freed the call meanwhile, or the sandbox */
			return;
		if (n < 0 || (size_t)n > max) {
			op_fail(x->op, OSB_LOCAL, NULL, "reading what was to be sent has failed");
			return;
		}
		if (n == 0) {
			http_call_end(call);
			return;
		}
		http_call_write(call, (struct str){ x->piece, (size_t)n });
	}
}

/* The peer has answered already, or the call has failed: one of its other functions says so. */
static void source_stop(void *arg)
{
	(void)arg;
}

/* ---- requests ---- */

struct headers {
	struct http_header items[HEADERS_MAX];
	size_t n;
};

static void add(struct headers *h, const char *name, const char *value)
{
	if (value && h->n < HEADERS_MAX)
		h->items[h->n++] = (struct http_header){ str_of(name), str_of(value) };
}

static void add_all(struct headers *h, const struct http_header *items, size_t n)
{
	for (size_t i = 0; i < n && h->n < HEADERS_MAX; i++)
		h->items[h->n++] = items[i];
}

static int make_request_id(struct exchange *x, struct err *e)
{
	struct random_pool *random = &x->op->client->random;
	const struct osb_call *call = container_of(x->op, struct osb_call, op);

	if (!*call->request_id)
		return uuid_hex32(random, x->request_id, e);
	memcpy(x->request_id, call->request_id, sizeof(x->request_id));
	return 0;
}

static int exchange_start(struct exchange *x, const struct endpoint *to, struct str body, struct err *e)
{
	static const struct http_body_source source = { .proceed = source_proceed, .stop = source_stop };
	const struct ask *ask = &x->ask;
	struct osb_client *c = x->op->client;
	unsigned limit = ask->timeout_ms == OP_NO_TIMEOUT ? FOREVER_MS : ask->timeout_ms ? ask->timeout_ms : c->request_timeout_ms;
	const struct http_deadlines deadlines = { MIN(limit, c->request_timeout_ms), limit, limit, ask->on_data ? FOREVER_MS : limit };
	AUTO(buf_done) struct buf target = BUF_INIT(HTTP_LINE_MAX);
	struct headers h = { .n = 0 };
	struct http_request rq = { .method = str_of(ask->method), .host = remote_authority(to->remote), .body = body,
				   .deadlines = &deadlines };

	buf_addf(&target, "%s%s", to->prefix, ask->path);
	if (target.failed)
		return target.n < HTTP_LINE_MAX / 2 ? err_no_memory(e) : err_set(e, ERR_INVALID, "a path that is too long");
	add_all(&h, to->headers, to->n_headers);
	if (to != &c->server && to != &c->root && c->use_server_proxy && to->remote == c->server.remote) /* what the way there needs; never the key */
		add_all(&h, c->server.headers + c->has_key, c->server.n_headers - c->has_key);
	add(&h, "User-Agent", c->user_agent);
	add(&h, "X-Request-ID", x->request_id);
	add(&h, "Accept", ask->accept ? ask->accept : "application/json");
	if (body.n > 0 || ask->read)
		add(&h, "Content-Type", ask->content_type ? ask->content_type : "application/json");
	add_all(&h, ask->headers, ask->n_headers);
	rq.target = buf_str(&target);
	rq.headers = h.items;
	rq.n_headers = h.n;
	rq.source = ask->read ? &source : NULL;
	rq.length = ask->length;
	x->call = http_call_start(remote_http(to->remote), &rq, &call_ops, x, e);
	if (!x->call)
		return -1;
	if (!ask->read && limit != FOREVER_MS)
		timer_in(&x->timer, limit);
	return 0;
}

/* Those that have ended: an operation that asks again and again must not grow. One that fails has functions on the stack that
 * still look at theirs. */
static void drop_spent(struct op *op)
{
	struct exchange **at = &op->exchanges;

	while (*at && op->state_now == OP_RUNNING) {
		struct exchange *x = *at;

		if (x->call || x->is_delivering) {
			at = &x->next;
			continue;
		}
		*at = x->next;
		exchange_free(x);
	}
}

static struct exchange *exchange_new(struct op *op, bool has_source, struct err *e)
{
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x) {
		(void)err_no_memory(e);
		return NULL;
	}
	x->piece = has_source ? malloc(PIECE_MAX) : NULL;
	if ((has_source && !x->piece) || timer_init(&x->timer, op->client->loop, on_timeout, x, "request", e) < 0) {
		exchange_free(x);
		(void)err_no_memory(e);
		return NULL;
	}
	x->op = op;
	x->next = op->exchanges;
	op->exchanges = x;
	x->body = BUF_INIT(OP_ANSWER_MAX);
	return x;
}

/* What could not even begin: a request that nobody could send is its caller's mistake. */
static void not_begun(struct exchange *x, const struct err *why)
{
	struct osb_error e = { 0 };

	error_from_err(&e, why);
	if (why->code == ERR_INVALID || why->code == ERR_LIMIT)
		error_set(&e, OSB_INVALID, NULL, "%s", why->msg);
	exchange_failed(x, &e);
}

void op_send(struct op *op, const struct ask *ask)
{
	const struct endpoint *to = ask->to ? ask->to : &op->client->server;
	struct exchange *x;
	struct err e = { 0 };
	struct str body = ask->bytes.n > 0 ? ask->bytes : buf_str(&op->body);

	if (op_is_over(op) && op->state_now != OP_UNDOING)
		return;
	if (op->body.failed) {
		op_fail_buf(op, &op->body, "a request");
		return;
	}
	drop_spent(op);
	x = exchange_new(op, ask->read, &e);
	if (!x) {
		op_fail_err(op, &e);
		return;
	}
	x->ask = *ask;
	if (make_request_id(x, &e) < 0 || exchange_start(x, to, ask->read ? (struct str){ 0 } : body, &e) < 0)
		not_begun(x, &e);
	buf_clear(&op->body);
}
