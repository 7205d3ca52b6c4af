// SPDX-License-Identifier: Apache-2.0
/* Answers: heads, whole bodies, files, streams and upgrades. Bytes are queued here and sent by the connection. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json_out.h"
#include "net/http/server_impl.h"

#include "base/banned.h"

#define ERROR_BODY_MAX (16 * 1024)
#define CHUNK_HEAD_MAX 20
#define RETRY_AFTER "1" /* seconds, where nobody knows better */

int reply_header(struct reply *rp, const char *name, struct str value)
{
	if (!http_is_token(str_of(name)) || !http_is_field_value(value))
		return -1;
	buf_add_str(&rp->headers, str_of(name));
	buf_add_str(&rp->headers, STR(": "));
	buf_add_str(&rp->headers, value);
	return buf_add_str(&rp->headers, STR("\r\n")) ? 0 : -1;
}

/* ---- heads ---- */

static void out_z(struct conn *c, const char *z)
{
	conn_out(c, str_of(z));
}

static void out_uint(struct conn *c, uint64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v > 0);
	conn_out(c, (struct str){ digits + at, sizeof(digits) - at });
}

static void out_header(struct conn *c, const char *name, const char *value)
{
	out_z(c, name);
	out_z(c, value);
	conn_out(c, STR("\r\n"));
}

static bool has_no_body(unsigned status)
{
	return status < 200 || status == 204 || status == 304;
}

static void out_framing(struct reply *rp, uint64_t length)
{
	struct conn *c = rp->c;
	bool is_old = c->x->head.minor == 0 && c->x->head.size > 0;

	if (has_no_body(rp->status))
		return;
	if (length != REPLY_UNSIZED) {
		conn_out(c, STR("Content-Length: "));
		out_uint(c, length);
		conn_out(c, STR("\r\n"));
		return;
	}
	rp->is_chunked = !is_old;
	c->closes |= is_old; /* HTTP/1.0 knows the end of such a body by the end of the connection */
	if (rp->is_chunked)
		conn_out(c, STR("Transfer-Encoding: chunked\r\n"));
}

static void out_connection(struct reply *rp)
{
	struct conn *c = rp->c;

	c->closes |= c->s->is_draining || !conn_can_skip_body(c);
	if (c->closes)
		conn_out(c, STR("Connection: close\r\n"));
	else if (c->x->head.minor == 0)
		conn_out(c, STR("Connection: keep-alive\r\n"));
}

static void out_status(struct reply *rp, unsigned status)
{
	struct conn *c = rp->c;
	const struct http_service *service = c->s->service;

	assert(rp->status == 0);
	rp->status = status;
	if (service->decorate)
		service->decorate(&c->x->rq, rp);
	if (rp->headers.failed)
		c->is_dead = true; /* better no answer than one without the headers that guard it */
	conn_out(c, STR("HTTP/1.1 "));
	out_uint(c, status);
	conn_out(c, STR(" "));
	out_z(c, http_reason(status));
	conn_out(c, STR("\r\n"));
	conn_out(c, buf_str(&rp->headers));
}

static void out_head(struct reply *rp, unsigned status, const char *type, uint64_t length)
{
	struct conn *c = rp->c;

	rp->drops_body = has_no_body(status) || str_eq(c->x->head.method, STR("HEAD"));
	out_status(rp, status);
	out_header(c, "Date: ", server_date(c->s));
	if (type)
		out_header(c, "Content-Type: ", type);
	out_framing(rp, length);
	out_connection(rp);
	conn_out(c, STR("\r\n"));
}

/* The handler is done with the request: what is left of its body is skipped, or ends the connection. */
static int ended(struct reply *rp)
{
	struct conn *c = rp->c;

	rp->phase = REPLY_ENDED;
	c->x->sink = NULL;
	if (c->reading == READ_BODY) {
		c->closes |= !conn_can_skip_body(c);
		c->reading = c->closes ? READ_DONE : READ_DRAIN;
	}
	conn_kick(c);
	return 0;
}

/* ---- whole answers ---- */

/* A handler answers once; a second answer, or one to a peer that is gone, is dropped. */
static bool may_answer(const struct reply *rp)
{
	return rp->phase == REPLY_OPEN || rp->phase == REPLY_HELD;
}

int reply_bytes(struct reply *rp, unsigned status, const char *type, struct str body)
{
	if (!may_answer(rp))
		return 0;
	out_head(rp, status, type, body.n);
	rp->body_bytes = body.n;
	if (!rp->drops_body)
		conn_out(rp->c, body);
	return ended(rp);
}

int reply_empty(struct reply *rp, unsigned status)
{
	return reply_bytes(rp, status, NULL, (struct str){ 0 });
}

int reply_buf(struct reply *rp, unsigned status, const char *type, struct buf *body)
{
	struct conn *c = rp->c;

	if (!may_answer(rp))
		return 0;
	out_head(rp, status, type, body->n);
	rp->body_bytes = body->n;
	if (!rp->drops_body && body->n > 0) {
		c->tail = *body;
		c->tail_at = 0;
		*body = BUF_INIT(body->max);
	}
	return ended(rp);
}

int reply_json(struct reply *rp, unsigned status, struct buf *json)
{
	if (json->failed)
		return reply_error(rp, 500, "INTERNAL_ERROR", "the answer does not fit");
	return reply_buf(rp, status, "application/json", json);
}

static void write_error(unsigned status, const char *code, const char *message, struct buf *body)
{
	struct json_out o = json_out(body);

	(void)status;
	json_open(&o, '{');
	json_key(&o, "code"), json_cstr(&o, code);
	json_key(&o, "message"), json_cstr(&o, message);
	json_close(&o, '}');
}

/* Who is told to come back later is told when (G12b), by the handler or here. */
static void say_when(struct reply *rp, unsigned status)
{
	static const char name[] = "Retry-After";

	if ((status == 429 || status == 503) && (rp->headers.n == 0 || !memmem(rp->headers.p, rp->headers.n, name, sizeof(name) - 1)))
		(void)reply_header(rp, name, STR(RETRY_AFTER));
}

typedef void error_writer(unsigned status, const char *code, const char *message, struct buf *body);

static int reply_written(struct reply *rp, unsigned status, const char *code, const char *message, error_writer *writer)
{
	AUTO(buf_done) struct buf body = BUF_INIT(ERROR_BODY_MAX);
	const struct http_service *service = rp->c->s->service;

	say_when(rp, status);
	(writer ? writer : write_error)(status, code, message, &body);
	return reply_bytes(rp, status, service->error_type ? service->error_type : "application/json", buf_str(&body));
}

int reply_error(struct reply *rp, unsigned status, const char *code, const char *fmt, ...)
{
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap); /* a message that repeats a long input is cut */
	va_end(ap);
	return reply_written(rp, status, code, message, rp->c->s->service->write_error);
}

void reply_unrouted(struct reply *rp, unsigned status, const char *code, const char *message)
{
	const struct http_service *s = rp->c->s->service;

	(void)reply_written(rp, status, code, message, s->write_unrouted ? s->write_unrouted : s->write_error);
}

int reply_file(struct reply *rp, unsigned status, const char *type, int *fd, uint64_t offset, uint64_t length)
{
	struct conn *c = rp->c;

	if (!may_answer(rp))
		return 0;
	out_head(rp, status, type, length);
	rp->body_bytes = length;
	if (!rp->drops_body && length > 0) {
		c->file = take_fd(fd);
		c->file_at = (off_t)offset;
		c->file_left = length;
		conn_widen(c);
	}
	return ended(rp);
}

int reply_hold(struct reply *rp, void (*hangup)(void *arg), void *arg)
{
	assert(rp->phase == REPLY_OPEN || rp->phase == REPLY_HELD);
	rp->phase = REPLY_HELD;
	rp->hangup = hangup;
	rp->arg = arg;
	return 0;
}

/* ---- streams ---- */

static int count_stream(struct reply *rp, struct err *e)
{
	struct http_server *s = rp->c->s;

	if (s->counts.streams >= s->limits.streams)
		return err_set(e, ERR_UNAVAILABLE, "too many open streams");
	s->counts.streams++;
	rp->is_counted_stream = true;
	return 0;
}

int reply_stream(struct reply *rp, unsigned status, const char *type, uint64_t length,
		 const struct reply_source *source, void *arg, struct err *e)
{
	assert(may_answer(rp));
	if (count_stream(rp, e) < 0)
		return -1;
	conn_continue(rp->c); /* after the head it would be too late */
	out_head(rp, status, type, length);
	rp->left = length;
	rp->phase = REPLY_STREAM;
	rp->source = source;
	rp->arg = arg;
	rp->wants_proceed = true;
	conn_kick(rp->c);
	return 0;
}

int reply_event_stream(struct reply *rp, const struct reply_source *source, void *arg, struct err *e)
{
	(void)reply_header(rp, "Cache-Control", STR("no-cache"));
	(void)reply_header(rp, "X-Accel-Buffering", STR("no")); /* proxies in front of us must not collect it */
	return reply_stream(rp, 200, "text/event-stream", REPLY_UNSIZED, source, arg, e);
}

size_t reply_room(const struct reply *rp)
{
	size_t pending = conn_pending(rp->c), high = rp->c->s->limits.high_water;

	return rp->phase == REPLY_STREAM && !rp->c->is_dead && rp->c->conduit.held == 0 && pending < high ? high - pending : 0;
}

ssize_t reply_pass(struct reply *rp, int fd, uint64_t n)
{
	struct conn *c = rp->c;
	ssize_t got;

	if (rp->phase != REPLY_STREAM || rp->left == REPLY_UNSIZED || n > rp->left || rp->drops_body || !c->t->is_plain ||
	    conduit_open(&c->conduit, CONDUIT_WIDE) < 0) {
		errno = ENOTSUP;
		return -1;
	}
	if (reply_room(rp) == 0) {
		errno = EBUSY;
		return -1;
	}
	got = conn_pass(c, fd, n);
	if (got < 0 && errno == EINVAL)
		errno = ENOTSUP;
	if (got > 0) {
		rp->body_bytes += (uint64_t)got;
		rp->left -= (uint64_t)got;
		rp->wants_proceed |= c->conduit.held > 0;
	}
	return got;
}

static void write_chunk(struct reply *rp, struct str bytes)
{
	char head[CHUNK_HEAD_MAX];
	int n = snprintf(head, sizeof(head), "%zx\r\n", bytes.n);

	conn_out(rp->c, (struct str){ head, (size_t)n });
	conn_out(rp->c, bytes);
	conn_out(rp->c, STR("\r\n"));
}

void reply_write(struct reply *rp, struct str bytes)
{
	if (rp->phase != REPLY_STREAM || rp->c->is_dead || bytes.n == 0)
		return;
	assert(rp->c->conduit.held == 0); /* or these would come first */
	rp->body_bytes += bytes.n;
	if (rp->left != REPLY_UNSIZED) {
		assert(bytes.n <= rp->left);
		rp->left -= bytes.n;
	}
	if (rp->is_chunked && !rp->drops_body)
		write_chunk(rp, bytes);
	else if (!rp->drops_body)
		conn_out(rp->c, bytes);
	rp->wants_proceed |= reply_room(rp) == 0;
	conn_kick(rp->c);
}

void reply_end_quietly(struct reply *rp)
{
	(void)ended(rp);
}

void reply_end(struct reply *rp)
{
	if (rp->phase != REPLY_STREAM)
		return;
	if (rp->left != REPLY_UNSIZED && rp->left > 0) {
		reply_abort(rp); /* fewer bytes than were promised */
		return;
	}
	if (rp->is_chunked && !rp->drops_body)
		conn_out(rp->c, STR("0\r\n\r\n"));
	(void)ended(rp);
}

void reply_abort(struct reply *rp)
{
	rp->phase = REPLY_ENDED;
	rp->c->x->sink = NULL;
	rp->c->is_dead = true;
	conn_kick(rp->c);
}

int reply_upgrade(struct reply *rp, const char *protocol, const struct upgrade *up, void *arg, struct err *e)
{
	struct conn *c = rp->c;

	assert(may_answer(rp));
	if (!c->x->head.has_upgrade || c->x->head.framing != HTTP_NO_BODY)
		return err_set(e, ERR_INVALID, "the request does not ask for an upgrade");
	if (count_stream(rp, e) < 0)
		return -1;
	out_status(rp, 101);
	out_header(c, "Upgrade: ", protocol);
	conn_out(c, STR("Connection: Upgrade\r\n\r\n"));
	rp->phase = REPLY_UPGRADE;
	rp->upgrade = up;
	rp->arg = arg;
	conn_kick(c);
	return 0;
}

/* ---- streamed requests ---- */

static struct exchange *exchange_of(const struct request *rq)
{
	return container_of((struct request *)(uintptr_t)rq, struct exchange, rq);
}

struct loop *request_loop(const struct request *rq)
{
	return exchange_of(rq)->rp.c->s->loop;
}

void request_read(struct request *rq, const struct body_sink *sink, void *arg)
{
	struct exchange *x = exchange_of(rq);
	struct conn *c = x->rp.c;

	x->sink = sink;
	x->sink_arg = arg;
	c->is_paused = false;
	if (c->reading == READ_DONE)
		c->reading = READ_BODY; /* a request without a body ends in the next round */
	conn_kick(c);
}

void request_pause(struct request *rq)
{
	struct conn *c = exchange_of(rq)->rp.c;

	if (!c->is_paused)
		c->paused_ms = loop_now_ms(c->s->loop);
	c->is_paused = true;
}

void request_resume(struct request *rq)
{
	struct conn *c = exchange_of(rq)->rp.c;
	uint64_t waited_ms;

	if (!c->is_paused)
		return;
	c->is_paused = false;
	waited_ms = loop_now_ms(c->s->loop) - c->paused_ms; /* was our doing and is not counted against the peer */
	c->in_ms += waited_ms;
	c->window_ms += waited_ms;
	conn_kick(c);
}

static uint64_t pace_add(struct http_pace *p, uint64_t now, size_t n)
{
	if (now - p->began_ms >= HTTP_PACE_MS)
		*p = (struct http_pace){ .began_ms = now };
	return p->bytes += n;
}

unsigned request_pace(struct request *rq, struct http_pace *own, size_t n)
{
	struct http_server *s = exchange_of(rq)->rp.c->s;
	uint64_t now = loop_now_ms(s->loop);
	bool is_much = pace_add(&s->pace, now, n) > HTTP_PACE_BYTES;

	if (pace_add(own, now, n) <= HTTP_PACE_LITTLE || !is_much || s->counts.busy <= 1)
		return 0;
	return (unsigned)(s->pace.began_ms + HTTP_PACE_MS - now);
}
