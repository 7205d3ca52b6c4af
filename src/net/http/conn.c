// SPDX-License-Identifier: Apache-2.0
/* One connection of the server: moving bytes, and the state machine that decides which. */
#include <sys/ioctl.h>

#include "base/err.h"
#include "net/http/server_impl.h"

#include "base/banned.h"

#define FILL_HEAD (16 * 1024)
#define FILL_BODY (64 * 1024)
#define IN_MAX (HTTP_HEAD_MAX + 2 * FILL_BODY)
#define OUT_MAX (8 * 1024 * 1024) /* of one turn's writes by a stream; far above any high-water mark */
#define SEND_MAX (1024 * 1024)    /* bytes of one connection before the others get their turn */
#define ROUNDS_MAX 64             /* of one connection before the others get their turn */
#define DRAIN_MAX HTTP_IGNORED_BODY_MAX

static void on_io(unsigned ready, void *arg);
static void on_timer(void *arg);

static uint64_t now_ms(const struct conn *c)
{
	return loop_now_ms(c->s->loop);
}

static bool set_send_buffer(const struct conn *c, int bytes)
{
	int half = bytes / 2; /* the kernel doubles it */

	return setsockopt(c->t->fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof(half)) == 0;
}

struct conn *conn_new(struct http_server *s, struct transport *t, struct seat *seat, const struct sockaddr_storage *peer,
		      struct err *e)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)err_no_memory(e);
		return NULL;
	}
	c->s = s;
	c->t = t;
	c->seat = seat;
	c->peer = *peer;
	c->in = BUF_INIT(IN_MAX);
	c->out = BUF_INIT(OUT_MAX);
	c->file = -1;
	c->conduit = CONDUIT_INIT;
	c->is_fresh = true;
	c->head_ms = c->in_ms = c->out_ms = now_ms(c);
	if (timer_init(&c->timer, s->loop, on_timer, c, "http connection timer", e) < 0 ||
	    io_add(&c->io, s->loop, t->fd, IO_IN, on_io, c, "http connection", e) < 0) {
		timer_done(&c->timer);
		free(c);
		return NULL;
	}
	if (s->limits.send_buffer > 0)
		(void)set_send_buffer(c, (int)s->limits.send_buffer); /* else with what there is */
	timer_set(&c->timer, c->head_ms + s->limits.head_ms);
	c->next = s->conns;
	if (c->next)
		c->next->prev = c;
	s->conns = c;
	return c;
}

/* ---- the end of a connection ---- */

static bool body_is_incomplete(const struct conn *c)
{
	return c->reading == READ_BODY || c->reading == READ_DRAIN;
}

/* Tells the handler, once, that nobody waits for its answer any more. */
static void notify_gone(struct conn *c)
{
	struct exchange *x = c->x;
	struct reply *rp = &x->rp;

	if (rp->phase == REPLY_HELD && rp->hangup)
		rp->hangup(rp->arg);
	else if (rp->phase == REPLY_STREAM)
		rp->source->stop(rp->arg);
	else if (rp->phase == REPLY_UPGRADE)
		rp->upgrade->gone(rp->arg);
	else if (x->sink)
		x->sink->stop(x->sink_arg);
}

static void exchange_over(struct conn *c)
{
	const struct http_service *service = c->s->service;
	struct exchange *x = c->x;

	c->x = NULL;
	if (service->finished)
		service->finished(&x->rq, x->rp.status, x->rp.body_bytes);
	exchange_free(c->s, x);
}

void conn_kill(struct conn *c)
{
	struct http_server *s = c->s;

	c->is_killed = true;
	if (c->x) {
		notify_gone(c);
		exchange_over(c);
	}
	defer_cancel(&c->kick);
	timer_done(&c->timer);
	io_del(&c->io);
	if (c->narrow > 0)
		s->wide--;
	transport_close(c->t);
	buf_done(&c->in);
	buf_done(&c->out);
	buf_done(&c->tail);
	closep(&c->file);
	conduit_close(&c->conduit);
	*(c->prev ? &c->prev->next : &s->conns) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	free(c);
}

/* ---- output ---- */

size_t conn_pending(const struct conn *c)
{
	return c->out.n - c->out_at + c->tail.n - c->tail_at;
}

static bool conn_has_output(const struct conn *c)
{
	return conn_pending(c) > 0 || c->conduit.held > 0 || c->file_left > 0;
}

static ssize_t send_bytes(struct conn *c)
{
	struct iovec iov[2];
	int n = 0;
	ssize_t sent;
	size_t of_out;

	if (c->out_at < c->out.n)
		iov[n++] = (struct iovec){ c->out.p + c->out_at, c->out.n - c->out_at };
	if (c->tail_at < c->tail.n)
		iov[n++] = (struct iovec){ c->tail.p + c->tail_at, c->tail.n - c->tail_at };
	sent = c->t->ops->send(c->t, iov, n, c->file_left > 0);
	if (sent <= 0)
		return sent;
	of_out = MIN((size_t)sent, c->out.n - c->out_at);
	c->out_at += of_out;
	c->tail_at += (size_t)sent - of_out;
	return sent;
}

static ssize_t send_file(struct conn *c)
{
	ssize_t sent = c->t->ops->send_file(c->t, c->file, &c->file_at, (size_t)MIN(c->file_left, (uint64_t)1 << 20));

	if (sent > 0)
		c->file_left -= (uint64_t)sent;
	if (sent == 0) { /* the file became shorter than what was promised */
		errno = EIO;
		return -1;
	}
	return sent;
}

static ssize_t send_next(struct conn *c)
{
	if (conn_pending(c) > 0)
		return send_bytes(c);
	return c->conduit.held > 0 ? conduit_drain(&c->conduit, c->t->fd) : send_file(c);
}

/* With the usual buffer, whoever sends a file and whoever reads it wake each other for every 150 KiB of it. */
void conn_widen(struct conn *c)
{
	int have = 0;
	socklen_t n = sizeof(have);

	if (c->file_left < HTTP_WIDE || c->narrow > 0 || c->s->wide >= c->s->limits.wide_files ||
	    getsockopt(c->t->fd, SOL_SOCKET, SO_SNDBUF, &have, &n) < 0 || have <= 0 || have >= HTTP_WIDE ||
	    !set_send_buffer(c, HTTP_WIDE))
		return;
	c->narrow = have;
	c->s->wide++;
}

static void narrow(struct conn *c)
{
	if (c->narrow == 0)
		return;
	(void)set_send_buffer(c, c->narrow);
	c->narrow = 0;
	c->s->wide--;
}

static void output_sent(struct conn *c)
{
	narrow(c);
	buf_clear(&c->out);
	c->out_at = 0;
	buf_done(&c->tail);
	c->tail_at = 0;
	closep(&c->file);
	c->file = -1;
}

/* A peer that always leaves a little unread must not make the buffer grow with all that was ever sent. */
static void output_compact(struct conn *c)
{
	if (c->out_at < c->s->limits.high_water / 4)
		return;
	buf_consume(&c->out, c->out_at);
	c->out_at = 0;
}

/* True when anything was sent. */
static bool flush(struct conn *c)
{
	bool progress = false;

	while (conn_has_output(c)) {
		ssize_t n;

		if (c->budget == 0) {
			conn_kick(c);
			return false;
		}
		n = send_next(c);
		if (n <= 0) {
			c->is_dead |= n < 0 && errno != EAGAIN;
			output_compact(c);
			return progress;
		}
		c->budget -= MIN((size_t)n, c->budget);
		c->out_ms = now_ms(c);
		progress = true;
	}
	if (progress)
		output_sent(c);
	return progress;
}

/* What is passed goes out at once, if nothing stands before it: most of it never waits, and nobody has to be woken for it. */
ssize_t conn_pass(struct conn *c, int from, uint64_t n)
{
	ssize_t got = conduit_fill(&c->conduit, from, n);

	if (got <= 0)
		return got;
	if (conn_pending(c) == 0) {
		if (conduit_drain(&c->conduit, c->t->fd) < 0 && errno != EAGAIN)
			c->is_dead = true;
		c->out_ms = now_ms(c);
	}
	if (c->conduit.held > 0 || c->is_dead)
		conn_kick(c);
	return got;
}

/* ---- input ---- */

static void on_eof(struct conn *c)
{
	c->peer_closed = true;
	c->closes = true;
	if (c->reading == READ_DRAIN)
		c->reading = READ_DONE;
	else if (c->reading != READ_DONE)
		c->is_dead = true;
}

static void note_input(struct conn *c, size_t n)
{
	c->in_ms = now_ms(c);
	c->window_bytes += n;
}

/* The rest of a body of known length may go from the descriptor to its taker without passing through here. */
static bool can_pass(const struct conn *c)
{
	const struct exchange *x = c->x;

	return c->reading == READ_BODY && x->sink && x->sink->pass && !c->copies_body && !c->is_paused &&
	       x->head.framing == HTTP_LENGTH && c->in.n == 0 && c->body_left > 0 && c->t->is_plain;
}

/* False if it has to be copied after all. */
static bool pass_body(struct conn *c)
{
	ssize_t n = c->x->sink->pass(c->t->fd, c->body_left, c->x->sink_arg);

	if (n > 0) {
		c->body_left -= (uint64_t)n;
		c->body_seen += (uint64_t)n;
		note_input(c, (size_t)n);
	} else if (n == 0) {
		on_eof(c);
	} else if (errno == ENOTSUP) {
		c->copies_body = true;
		return false;
	} else if (errno != EAGAIN) {
		c->is_dead = true;
	}
	return true;
}

static void fill(struct conn *c)
{
	size_t room = c->reading == READ_HEAD ? FILL_HEAD : FILL_BODY;
	char *p;
	ssize_t n;

	if (can_pass(c) && pass_body(c))
		return;
	if (!c->in.p && c->s->spare_in.p) {
		c->in = c->s->spare_in;
		c->in.max = IN_MAX;
		c->s->spare_in = (struct buf){ 0 };
	}
	p = buf_reserve(&c->in, room);
	n = p ? c->t->ops->recv(c->t, p, room) : -1;
	if (n > 0) {
		if (c->reading == READ_HEAD && c->in.n == 0)
			c->head_ms = now_ms(c);
		buf_commit(&c->in, (size_t)n);
		note_input(c, (size_t)n);
	} else if (n == 0) {
		on_eof(c);
	} else if (!p || errno != EAGAIN) {
		c->is_dead = true;
	}
}

/* The head's bytes stay with the exchange; what came after them is the connection's again. */
static void detach_head(struct conn *c)
{
	struct exchange *x = c->x;
	struct str rest = str_skip(buf_str(&c->in), x->head.size);
	struct buf next = BUF_INIT(IN_MAX);

	if (rest.n > 0 && !buf_add_str(&next, rest))
		c->is_dead = true;
	x->head_bytes = c->in;
	c->in = next;
}

static void expect_body(struct conn *c)
{
	const struct http_head *h = &c->x->head;

	c->reading = h->framing == HTTP_NO_BODY ? READ_DONE : READ_BODY;
	c->chunked = (struct http_chunked){ 0 };
	c->body_left = h->length;
	c->body_seen = 0;
	c->owes_continue = h->expects_continue;
	c->is_paused = false;
	c->copies_body = false;
	c->window_ms = now_ms(c);
	c->window_bytes = c->in.n;
}

static bool refuse_head(struct conn *c, const struct http_fault *f)
{
	memset(&c->x->head, 0, offsetof(struct http_head, headers));
	c->reading = READ_DONE;
	exchange_refuse(c->x, f->status, f->why);
	return true;
}

static bool step_head(struct conn *c)
{
	struct http_fault f = { 0 };
	int r = http_scan(&c->scan, buf_str(&c->in), &f);

	if (r == 0)
		return false;
	c->x = exchange_new(c, &(struct err){ 0 });
	if (!c->x) {
		c->is_dead = true;
		return false;
	}
	c->is_fresh = false;
	c->closes |= c->s->is_draining;
	if (r > 0)
		r = http_request_head(&c->scan, buf_str(&c->in), &c->x->head, &f);
	if (r < 0)
		return refuse_head(c, &f);
	detach_head(c);
	c->closes |= !c->x->head.keep_alive;
	expect_body(c);
	exchange_dispatch(c->x);
	return true;
}

/* ---- bodies ---- */

static void take_piece(struct conn *c, struct str piece)
{
	struct exchange *x = c->x;
	struct err e = { 0 };

	c->body_seen += piece.n;
	if (c->body_seen > x->max_body) {
		exchange_refuse(x, 413, "the body is larger than this route takes");
	} else if (x->sink) {
		if (x->sink->data(piece, x->sink_arg, &e) < 0) {
			x->sink = NULL;
			exchange_fail(x, &e);
		}
	} else if (x->rq.route->max_body > 0) {
		x->body.max = x->max_body;
		if (!buf_add_str(&x->body, piece)) {
			(void)err_no_memory(&e);
			exchange_fail(x, &e);
		}
	}
}

static void body_complete(struct conn *c)
{
	struct exchange *x = c->x;
	const struct body_sink *sink = x->sink;
	struct err e = { 0 };

	c->reading = READ_DONE;
	if (!(x->rq.route->flags & ROUTE_STREAM_IN)) {
		exchange_handle(x);
		return;
	}
	x->sink = NULL;
	if (sink->end(x->sink_arg, &e) < 0)
		exchange_fail(x, &e);
	else if (x->rp.phase == REPLY_OPEN)
		exchange_unanswered(x);
}

/* One piece of the body out of IN. MORE when IN has none. */
static enum http_chunk next_piece(struct conn *c, struct str *in, struct str *ret_piece, const char **ret_why)
{
	if (c->x->head.framing == HTTP_CHUNKED)
		return http_chunk_next(&c->chunked, in, ret_piece, ret_why);
	if (c->body_left == 0)
		return HTTP_CHUNK_END;
	if (in->n == 0)
		return HTTP_CHUNK_MORE;
	*ret_piece = str_first(*in, (size_t)MIN(c->body_left, (uint64_t)in->n));
	*in = str_skip(*in, ret_piece->n);
	c->body_left -= ret_piece->n;
	return HTTP_CHUNK_DATA;
}

static bool wants_body(const struct conn *c)
{
	const struct route *route = c->x->rq.route;

	if (c->reading != READ_BODY || !route)
		return c->reading == READ_DRAIN;
	return !c->is_paused && (c->x->sink || !(route->flags & ROUTE_STREAM_IN));
}

static bool step_body(struct conn *c)
{
	struct str in = buf_str(&c->in);
	struct str piece;
	const char *why = NULL;
	enum http_chunk r = HTTP_CHUNK_MORE;

	while (wants_body(c)) {
		r = next_piece(c, &in, &piece, &why);
		if (r != HTTP_CHUNK_DATA)
			break;
		if (c->reading == READ_BODY)
			take_piece(c, piece);
	}
	buf_consume(&c->in, c->in.n - in.n);
	if (!wants_body(c))
		return false;
	if (r == HTTP_CHUNK_BAD) {
		exchange_refuse(c->x, 400, why);
		c->reading = READ_DONE;
	} else if (r == HTTP_CHUNK_END && c->reading == READ_DRAIN) {
		c->reading = READ_DONE;
	} else if (r == HTTP_CHUNK_END) {
		body_complete(c);
	} else {
		conn_continue(c);
	}
	return r != HTTP_CHUNK_MORE;
}

void conn_continue(struct conn *c)
{
	if (c->owes_continue && c->reading == READ_BODY)
		conn_out(c, STR("HTTP/1.1 100 Continue\r\n\r\n"));
	c->owes_continue = false;
}

bool conn_can_skip_body(const struct conn *c)
{
	return !body_is_incomplete(c) || c->x->head.framing == HTTP_NO_BODY ||
	       (!c->owes_continue && c->x->head.framing == HTTP_LENGTH && c->body_left <= DRAIN_MAX);
}

/* ---- the state machine ---- */

static bool step_read(struct conn *c)
{
	switch (c->reading) {
	case READ_HEAD:
		return c->in.n > 0 && step_head(c);
	case READ_BODY:
	case READ_DRAIN:
		return step_body(c);
	case READ_LINGER:
		buf_clear(&c->in);
		return false;
	case READ_DONE:
		break;
	}
	return false;
}

static bool next_request(struct conn *c)
{
	exchange_over(c);
	conduit_close(&c->conduit);
	if (c->closes || c->s->is_draining) {
		c->t->ops->shut(c->t);
		c->reading = READ_LINGER;
		c->out_ms = now_ms(c);
		c->is_dead = c->peer_closed;
		return false;
	}
	c->reading = READ_HEAD;
	c->scan = (struct http_scan){ 0 };
	c->head_ms = c->in_ms = now_ms(c);
	if (c->out.cap > FILL_HEAD)
		buf_done(&c->out);
	return true;
}

static bool hand_over(struct conn *c)
{
	const struct upgrade *up = c->x->rp.upgrade;
	void *arg = c->x->rp.arg;
	struct transport *t = c->t;

	io_del(&c->io);
	c->t = NULL;
	c->seat->is_stream = true;
	c->x->rp.is_counted_stream = false; /* the seat counts it from here on */
	c->x->rp.phase = REPLY_ENDED;
	c->x->sink = NULL;
	c->is_dead = true;
	up->take(t, buf_str(&c->in), arg);
	return false;
}

/* HEAD, or a status without a body: the answer is complete and its producer not needed. */
static bool end_at_head(struct conn *c)
{
	struct reply *rp = &c->x->rp;

	rp->source->stop(rp->arg);
	reply_end_quietly(rp);
	return true;
}

static bool step_write(struct conn *c)
{
	bool progress = flush(c);
	struct reply *rp = c->x ? &c->x->rp : NULL;

	if (c->is_dead || !rp)
		return progress;
	if (rp->phase == REPLY_STREAM && rp->drops_body)
		return end_at_head(c);
	if (rp->phase == REPLY_STREAM && rp->wants_proceed && c->conduit.held == 0 &&
	    conn_pending(c) <= c->s->limits.high_water / 2) {
		rp->wants_proceed = false;
		rp->source->proceed(rp->arg);
		return true;
	}
	if (conn_has_output(c))
		return false;
	if (rp->phase == REPLY_UPGRADE)
		return hand_over(c);
	if (rp->phase == REPLY_ENDED && c->reading == READ_DONE)
		return next_request(c);
	return progress;
}

/* What to wait for follows from the state, here and nowhere else. */
static unsigned interest(const struct conn *c)
{
	unsigned want = conn_has_output(c) ? IO_OUT : 0;

	if (c->reading == READ_HEAD || c->reading == READ_LINGER || (body_is_incomplete(c) && wants_body(c)))
		want |= IO_IN;
	if (!(want & IO_IN) && !c->peer_closed)
		want |= IO_HUP;
	return c->t->ops->interest(c->t, want);
}

static uint64_t body_deadline(const struct conn *c)
{
	return MIN(c->in_ms + c->s->limits.body_idle_ms, c->window_ms + c->s->limits.body_window_ms);
}

static uint64_t deadline(const struct conn *c)
{
	const struct http_limits *l = &c->s->limits;
	uint64_t due;

	if (c->reading == READ_LINGER)
		return c->out_ms + l->linger_ms;
	if (!c->x)
		return c->in.n > 0 || c->is_fresh ? c->head_ms + l->head_ms : c->in_ms + l->keep_alive_ms;
	due = conn_has_output(c) ? c->out_ms + l->reader_ms : MAX(c->in_ms, c->out_ms) + l->silent_ms;
	if (body_is_incomplete(c) && wants_body(c) && c->x->rp.phase != REPLY_STREAM)
		due = MIN(due, body_deadline(c));
	return due;
}

static void conn_run(struct conn *c)
{
	bool again = true;

	c->budget = SEND_MAX;
	for (int rounds = 0; again && !c->is_dead; rounds++) {
		again = step_read(c);
		again |= !c->is_dead && step_write(c);
		if (rounds == ROUNDS_MAX) {
			conn_kick(c);
			break;
		}
	}
	if (c->is_dead) {
		conn_kill(c);
		return;
	}
	if (c->in.n == 0 && !c->x)
		buf_done(&c->in);
	io_want(&c->io, interest(c));
	timer_set(&c->timer, deadline(c));
	if (c->io.want & IO_IN && c->t->ops->has_pending(c->t))
		conn_kick(c);
}

static void on_kick(void *arg)
{
	struct conn *c = arg;

	if (c->io.want & IO_IN && c->t->ops->has_pending(c->t))
		fill(c);
	conn_run(c);
}

void conn_kick(struct conn *c)
{
	if (!c->is_killed)
		defer(&c->kick, c->s->loop, on_kick, c, "http connection");
}

void conn_out(struct conn *c, struct str bytes)
{
	if (!conn_has_output(c))
		c->out_ms = now_ms(c);
	if (!buf_add_str(&c->out, bytes))
		c->is_dead = true;
}

/* The peer ended its side while we do not read. What it sent before that is still in the socket and may be all that
 * was missing of a body; otherwise an answer in the making has lost its reader. */
static void on_hup(struct conn *c)
{
	int unread = 0;

	c->peer_closed = true;
	c->closes = true;
	if (!c->x || c->x->rp.phase == REPLY_ENDED)
		return;
	if (body_is_incomplete(c) && (c->in.n > 0 || (ioctl(c->t->fd, FIONREAD, &unread) == 0 && unread > 0)))
		return;
	c->is_dead = true;
}

static void on_io(unsigned ready, void *arg)
{
	struct conn *c = arg;

	if (ready & IO_ERR && !(ready & (IO_IN | IO_OUT)))
		c->is_dead = true;
	ready = c->t->ops->readiness(c->t, ready);
	if (ready & IO_IN)
		fill(c);
	if (ready & IO_HUP && c->io.want & IO_HUP)
		on_hup(c);
	conn_run(c);
}

/* ---- time ---- */

static void on_slow_body(struct conn *c, uint64_t now)
{
	const struct http_limits *l = &c->s->limits;

	if (now >= c->in_ms + l->body_idle_ms) {
		exchange_refuse(c->x, 408, "the body stopped arriving");
		c->reading = READ_DONE;
	} else if (c->window_bytes < l->body_window_bytes) {
		c->is_dead = true;
	} else {
		c->window_ms = now;
		c->window_bytes = 0;
	}
}

static void on_slow_head(struct conn *c)
{
	struct http_fault f = { 408, "the request did not arrive in time" };

	c->x = c->in.n > 0 ? exchange_new(c, &(struct err){ 0 }) : NULL;
	if (c->x)
		(void)refuse_head(c, &f);
	else
		c->is_dead = true;
}

static void on_timer(void *arg)
{
	struct conn *c = arg;
	uint64_t now = now_ms(c);

	if (deadline(c) <= now) {
		if (!c->x && c->reading == READ_HEAD)
			on_slow_head(c);
		else if (c->reading == READ_LINGER || (conn_has_output(c) && now >= c->out_ms + c->s->limits.reader_ms))
			c->is_dead = true;
		else if (body_is_incomplete(c) && wants_body(c) && c->x->rp.phase != REPLY_STREAM)
			on_slow_body(c, now);
		else
			c->is_dead = true;
	}
	conn_run(c);
}
