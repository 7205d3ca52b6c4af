// SPDX-License-Identifier: Apache-2.0
/* One call: sending the request, reading the response, and who is told about it.
 *
 * call_run() is the only place that calls back. Nothing below touches a call's client or connection after a callback
 * without looking at the state again: the owner may have cancelled, or freed the client. */
#include <assert.h>

#include "net/http/client_impl.h"

#include "base/banned.h"

#define IN_PIECE (32 * 1024)
#define PULLS_MAX 8 /* times that a source is asked before the loop gets its turn */

enum step {
	STEP_WAIT,
	STEP_AGAIN,
};

/* ---- ends ---- */

/* False: its owner has cancelled the call on hearing that. */
static bool stop_source(struct http_call *call)
{
	if (call->source_is_open) {
		call->source_is_open = false;
		call->source->stop(call->arg);
	}
	return call->state != CALL_OVER;
}

static void call_fail(struct http_call *call, const struct err *e)
{
	struct err copy = *e;

	if (call->conn)
		client_conn_close(call->conn);
	if (!stop_source(call))
		return;
	call_over(call);
	call->ops->on_error(&copy, call->arg);
}

static enum step fail(struct http_call *call, enum err_code code, const char *what)
{
	struct err e = { 0 };

	(void)err_set(&e, code, "%s", what);
	call_fail(call, &e);
	return STEP_WAIT;
}

static bool can_be_repeated(const struct http_call *call)
{
	return call->conn->was_used && !call->is_repeat && !call->any_received &&
	       (!call->any_sent || (call->is_idempotent && !call->source));
}

static void call_repeat(struct http_call *call)
{
	struct err e = { 0 };

	client_conn_close(call->conn);
	call->is_repeat = true;
	call->sent = 0;
	call->is_eof = false;
	call->is_send_broken = false;
	call->scan = (struct http_scan){ 0 };
	if (call_connect(call, &e) < 0)
		call_fail(call, &e);
}

/* The connection ended where it should not have. */
static enum step call_broken(struct http_call *call, int sys)
{
	const struct transport *t = call->conn->t;
	const char *why = t->ops->failure ? t->ops->failure(t) : "";
	struct err e = { 0 };

	if (can_be_repeated(call)) {
		call_repeat(call);
		return STEP_WAIT;
	}
	if (call->state == CALL_BODY)
		(void)err_set(&e, ERR_IO, "the connection ended in the middle of a response");
	else
		(void)err_set(&e, ERR_IO, "the connection ended before a response");
	if (*why)
		(void)err_set(&e, ERR_IO, "%s", why);
	else if (sys != 0) {
		struct err copy = e;

		(void)err_sys(&e, sys, "%s", copy.msg);
	}
	call_fail(call, &e);
	return STEP_WAIT;
}

static enum step call_complete(struct http_call *call)
{
	struct http_conn *c = call->conn;
	bool is_clean = call->keep_alive && call_request_is_sent(call) && call->in.n == 0 && !call->is_eof &&
			!c->t->ops->has_pending(c->t) && call->client->max_idle > 0;

	if (!stop_source(call))
		return STEP_WAIT;
	if (is_clean)
		client_conn_keep(c);
	else
		client_conn_close(c);
	call_over(call);
	call->ops->on_end(call->arg);
	return STEP_WAIT;
}

/* ---- the request ---- */

static void renew_body_timer(struct http_call *call)
{
	if (call->state != CALL_BODY)
		return;
	if (call->is_paused)
		timer_cancel(&call->timer);
	else
		timer_in(&call->timer, call->deadlines.body_ms);
}

void call_attached(struct http_call *call)
{
	call->state = CALL_HEAD;
	call->any_sent = false;
	call->any_received = false;
	call->wants_proceed = true;
	timer_in(&call->timer, call->deadlines.send_ms);
}

static void note_progress(struct http_call *call)
{
	call->any_sent = true;
	call->wants_proceed = true;
	renew_body_timer(call);
	if (call->state == CALL_HEAD)
		timer_in(&call->timer, call_request_is_sent(call) ? call->deadlines.head_ms : call->deadlines.send_ms);
}

static void note_sent(struct http_call *call, size_t n)
{
	call->sent += n;
	if (call->source && call->sent == call->out.n) {
		buf_clear(&call->out);
		call->sent = 0;
	} else if (call->source && call->sent >= call->high_water) {
		buf_consume(&call->out, call->sent);
		call->sent = 0;
	}
	note_progress(call);
}

/* A peer that takes no more may have said why: what it sent is read, and decides. */
static void send_failed(struct http_call *call)
{
	call->is_send_broken = true;
	if (!can_be_repeated(call))
		(void)stop_source(call); /* who goes on looks at the state */
}

/* What was passed, once all before it is out. */
static void flush_conduit(struct http_call *call)
{
	ssize_t n;

	if (call->conduit.held == 0 || call->sent < call->out.n || call->is_send_broken)
		return;
	n = conduit_drain(&call->conduit, call->conn->t->fd);
	if (n < 0 && errno != EAGAIN)
		send_failed(call);
	if (n > 0)
		note_progress(call);
}

static void call_flush(struct http_call *call)
{
	while (call->sent < call->out.n && !call->is_send_broken) {
		struct transport *t = call->conn->t;
		struct iovec iov = { call->out.p + call->sent, call->out.n - call->sent };
		ssize_t n = t->ops->send(t, &iov, 1, false);

		if (n < 0 && errno != EAGAIN)
			send_failed(call);
		if (n <= 0)
			return;
		note_sent(call, (size_t)n);
	}
	flush_conduit(call);
}

static bool is_connected(const struct http_call *call)
{
	return call->state == CALL_HEAD || call->state == CALL_BODY;
}

static void step_send(struct http_call *call)
{
	for (int i = 0; i < PULLS_MAX && is_connected(call); i++) {
		call_flush(call);
		if (!is_connected(call) || !call->wants_proceed || !call->source_is_open || http_call_room(call) == 0)
			return;
		call->wants_proceed = false;
		call->source->proceed(call, call->arg);
	}
}

size_t http_call_room(const struct http_call *call)
{
	size_t waiting = call->out.n - call->sent;

	if (!call->source_is_open || call->conduit.held > 0 || waiting >= call->high_water)
		return 0;
	return call->high_water - waiting;
}

static void fail_later(struct http_call *call, enum err_code code, const char *what)
{
	if (call->failure.code == ERR_NONE)
		(void)err_set(&call->failure, code, "%s", what);
	call_run_later(call);
}

void http_call_write(struct http_call *call, struct str bytes)
{
	if (!call->source_is_open || bytes.n == 0)
		return;
	assert(call->conduit.held == 0); /* or these would come first */
	if (call->is_chunked)
		buf_addf(&call->out, "%zx\r\n", bytes.n);
	else if (bytes.n > call->source_left) {
		fail_later(call, ERR_INTERNAL, "a request body is longer than announced");
		return;
	} else
		call->source_left -= bytes.n;
	buf_add_str(&call->out, bytes);
	if (call->is_chunked)
		buf_add(&call->out, "\r\n", 2);
	if (call->out.failed)
		fail_later(call, ERR_LIMIT, "a request body outran its connection");
	if (call->state == CALL_HEAD)
		timer_in(&call->timer, call->deadlines.send_ms);
	call_run_later(call);
}

/* Most of it goes out at once. What does not, and a peer that takes no more, is for the next run. */
static ssize_t pass(struct http_call *call, int fd, uint64_t n)
{
	ssize_t got = conduit_fill(&call->conduit, fd, n);

	if (got < 0 && errno == EINVAL)
		errno = ENOTSUP;
	if (got <= 0)
		return got;
	call->source_left -= (uint64_t)got;
	if (call->sent == call->out.n && conduit_drain(&call->conduit, call->conn->t->fd) > 0)
		note_progress(call);
	if (call->conduit.held > 0)
		call_run_later(call);
	return got;
}

ssize_t http_call_pass(struct http_call *call, int fd, uint64_t n)
{
	if (!is_connected(call) || call->is_send_broken || http_call_room(call) == 0) {
		errno = EBUSY;
		return -1;
	}
	if (call->is_chunked || n > call->source_left || !call->conn->t->is_plain ||
	    conduit_open(&call->conduit, CONDUIT_WIDE) < 0) {
		errno = ENOTSUP;
		return -1;
	}
	return pass(call, fd, n);
}

void http_call_end(struct http_call *call)
{
	if (!call->source_is_open)
		return;
	if (call->is_chunked)
		buf_add(&call->out, "0\r\n\r\n", 5);
	call->source_is_open = false;
	if (!call->is_chunked && call->source_left > 0)
		fail_later(call, ERR_INTERNAL, "a request body is shorter than announced");
	else if (call->out.failed)
		fail_later(call, ERR_LIMIT, "a request body outran its connection");
	if (call->state == CALL_HEAD && call_request_is_sent(call))
		timer_in(&call->timer, call->deadlines.head_ms);
	call_run_later(call);
}

/* ---- the response ---- */

static struct str call_input(const struct http_call *call)
{
	return str_skip(buf_str(&call->in), call->in_at);
}

static void consume(struct http_call *call, size_t n)
{
	call->in_at += n;
	if (call->in_at == call->in.n) {
		buf_clear(&call->in);
		call->in_at = 0;
	}
}

static bool is_held_back(const struct http_call *call)
{
	return call->is_paused && call->state == CALL_BODY;
}

static enum step call_upgraded(struct http_call *call, const struct http_head *h)
{
	struct http_conn *c = call->conn;
	struct transport *t;

	if (!call->upgrade || !h->has_upgrade || !call_request_is_sent(call))
		return fail(call, ERR_IO, "an upgrade that was not asked for");
	t = take_ptr(&c->t);
	client_conn_close(c);
	call_over(call);
	call->ops->on_upgrade(t, h, str_skip(call_input(call), h->size), call->arg);
	return STEP_WAIT;
}

static enum step begin_body(struct http_call *call, const struct http_head *h)
{
	call->state = CALL_BODY;
	call->keep_alive = h->keep_alive;
	call->framing = h->framing;
	call->left = h->length;
	if (h->framing == HTTP_LENGTH && h->length > call->max_body)
		return fail(call, ERR_LIMIT, "a response body above its ceiling");
	renew_body_timer(call);
	if (call->ops->on_head)
		call->ops->on_head(call, h, call->arg);
	if (call->state == CALL_OVER)
		return STEP_WAIT;
	consume(call, h->size);
	return STEP_AGAIN;
}

static enum step step_head(struct http_call *call)
{
	struct http_head h;
	struct http_fault f;
	int r = http_response_head(&call->scan, call_input(call), call->is_head, &h, &f);

	if (r < 0) {
		struct err e = { 0 };

		(void)err_set(&e, ERR_IO, "bad response: %s", f.why);
		call_fail(call, &e);
		return STEP_WAIT;
	}
	if (r == 0)
		return call->is_eof ? call_broken(call, 0) : STEP_WAIT;
	call->scan = (struct http_scan){ 0 };
	if (h.status == 101)
		return call_upgraded(call, &h);
	if (h.status >= 200)
		return begin_body(call, &h);
	if (++call->informational > HTTP_INFORMATIONAL_MAX)
		return fail(call, ERR_LIMIT, "too many informational responses");
	consume(call, h.size);
	return STEP_AGAIN;
}

/* Gives a piece of the body to the owner, and uses up CONSUMED bytes of the input for it. */
static enum step give(struct http_call *call, struct str piece, size_t consumed)
{
	if (piece.n > call->max_body - call->received)
		return fail(call, ERR_LIMIT, "a response body above its ceiling");
	call->received += piece.n;
	if (call->ops->on_data && piece.n > 0)
		call->ops->on_data(call, piece, call->arg);
	if (call->state == CALL_OVER)
		return STEP_WAIT;
	consume(call, consumed);
	return STEP_AGAIN;
}

static enum step step_chunked(struct http_call *call)
{
	struct str in = call_input(call), piece = { 0 };
	size_t before = in.n;
	const char *why = NULL;
	struct err e = { 0 };

	switch (http_chunk_next(&call->chunked, &in, &piece, &why)) {
	case HTTP_CHUNK_DATA:
		return give(call, piece, before - in.n);
	case HTTP_CHUNK_END:
		consume(call, before - in.n);
		return call_complete(call);
	case HTTP_CHUNK_MORE:
		consume(call, before);
		return call->is_eof ? call_broken(call, 0) : STEP_WAIT;
	case HTTP_CHUNK_BAD:
		break;
	}
	(void)err_set(&e, ERR_IO, "bad response: %s", why);
	call_fail(call, &e);
	return STEP_WAIT;
}

static enum step step_length(struct http_call *call)
{
	struct str in = call_input(call);
	struct str piece = str_first(in, (size_t)MIN(call->left, (uint64_t)in.n));

	if (call->left == 0)
		return call_complete(call);
	if (piece.n == 0)
		return call->is_eof ? call_broken(call, 0) : STEP_WAIT;
	call->left -= piece.n;
	return give(call, piece, piece.n);
}

static enum step step_body(struct http_call *call)
{
	switch (call->framing) {
	case HTTP_NO_BODY:
		return call_complete(call);
	case HTTP_LENGTH:
		return step_length(call);
	case HTTP_CHUNKED:
		return step_chunked(call);
	case HTTP_UNTIL_CLOSE:
		if (call->in.n > 0)
			return give(call, call_input(call), call_input(call).n);
		return call->is_eof ? call_complete(call) : STEP_WAIT;
	}
	return STEP_WAIT;
}

static void step_parse(struct http_call *call)
{
	enum step s = STEP_AGAIN;

	while (s == STEP_AGAIN && is_connected(call) && !is_held_back(call))
		s = call->state == CALL_HEAD ? step_head(call) : step_body(call);
}

/* The rest of a body of known length may go from the descriptor to its owner without passing through here. */
static bool can_pass(const struct http_call *call)
{
	return call->ops->on_pass && !call->copies_body && call->state == CALL_BODY && call->framing == HTTP_LENGTH &&
	       call_input(call).n == 0 && call->left > 0 && call->conn->t->is_plain;
}

static void note_received(struct http_call *call)
{
	call->any_received = true;
	renew_body_timer(call);
}

/* 1: done, 0: it has to be copied after all, -1: that was the end of the call. */
static int pass_body(struct http_call *call)
{
	ssize_t n = call->ops->on_pass(call, call->conn->t->fd, call->left, call->arg);

	if (n > 0) {
		call->left -= (uint64_t)n;
		call->received += (uint64_t)n;
		note_received(call);
	} else if (n == 0) {
		call->is_eof = true;
	} else if (errno == ENOTSUP) {
		call->copies_body = true;
		return 0;
	} else if (errno != EAGAIN) {
		(void)call_broken(call, errno);
		return -1;
	}
	return 1;
}

/* False if that was the end of the call. */
static bool call_fill(struct http_call *call)
{
	struct transport *t = call->conn->t;
	size_t want;
	char *at;
	ssize_t n;
	int passed = can_pass(call) ? pass_body(call) : 0;

	if (passed != 0)
		return passed > 0;
	buf_consume(&call->in, call->in_at);
	call->in_at = 0;
	want = MIN((size_t)IN_PIECE, call->in.max - call->in.n);
	if (want == 0) {
		(void)fail(call, ERR_LIMIT, "the head of a response is too large");
		return false;
	}
	at = buf_reserve(&call->in, want);
	n = at ? t->ops->recv(t, at, want) : -1;
	if (!at) {
		struct err e = { 0 };

		(void)err_no_memory(&e);
		call_fail(call, &e);
		return false;
	}
	if (n < 0 && errno == EAGAIN)
		return true;
	if (n < 0) {
		(void)call_broken(call, errno);
		return false;
	}
	if (n == 0) {
		call->is_eof = true;
		return true;
	}
	buf_commit(&call->in, (size_t)n);
	note_received(call);
	return true;
}

/* ---- the machine ---- */

static unsigned call_interest(const struct http_call *call)
{
	unsigned want = 0;

	if (!is_held_back(call) && !call->is_eof)
		want |= IO_IN;
	if ((call->sent < call->out.n || call->conduit.held > 0) && !call->is_send_broken)
		want |= IO_OUT;
	return want;
}

static void call_advance(struct http_call *call, unsigned ready)
{
	struct err e = call->failure;

	if (e.code != ERR_NONE) {
		call_fail(call, &e);
		return;
	}
	if (call->dialed && call_adopt(call, &e) < 0) {
		call_fail(call, &e);
		return;
	}
	if ((ready & IO_IN) && is_connected(call) && !is_held_back(call) && !call_fill(call))
		return;
	if (is_connected(call))
		step_send(call);
	if (is_connected(call))
		step_parse(call);
}

void call_run(struct http_call *call, unsigned ready)
{
	assert(!call->is_running);
	call->is_running = true;
	call_advance(call, ready);
	call->is_running = false;
	if (call->state == CALL_OVER)
		call_free(call);
	else if (is_connected(call))
		watch_want(&call->conn->watch, call_interest(call));
}

void call_on_timer(void *arg)
{
	struct http_call *call = arg;
	const char *what = "no connection in time";

	if (call->state == CALL_HEAD)
		what = call_request_is_sent(call) ? "no response in time" : "the request was not taken in time";
	else if (call->state == CALL_BODY)
		what = "the response stopped";
	if (call->failure.code == ERR_NONE)
		(void)err_set(&call->failure, ERR_TIMEOUT, "%s", what);
	call_run(call, 0);
}

void http_call_pause(struct http_call *call)
{
	call->is_paused = true;
	renew_body_timer(call);
}

void http_call_resume(struct http_call *call)
{
	if (!call->is_paused)
		return;
	call->is_paused = false;
	renew_body_timer(call);
	call_run_later(call);
}
