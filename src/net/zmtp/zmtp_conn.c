// SPDX-License-Identifier: Apache-2.0
#include "net/zmtp/zmtp_conn.h"

#include "base/buf.h"
#include "base/err.h"
#include "net/dial.h"
#include "net/loop.h"
#include "net/transport.h"

#include "base/banned.h"

#define IN_PIECE (8 * 1024)
#define CONTROL_ROOM ((size_t)8 * 1024) /* greetings, READY and PONG go out above what messages may fill */
#define PING_TTL 2 /* bytes in front of what a PING wants back */

enum zmtp_state { ZMTP_DIALING, ZMTP_GREETED_NOT, ZMTP_READY_NOT, ZMTP_READY, ZMTP_OVER };

struct zmtp_conn {
	struct loop *loop;
	enum zmtp_type type;
	enum zmtp_state state;
	const struct zmtp_ops *ops;
	void *arg;
	struct dial *dial;
	struct transport *t;
	struct io io;
	struct timer timer;
	struct deferred later;
	struct zmtp_decoder decoder;
	char *in; /* IN_PIECE bytes, while a part of them waits */
	struct str waiting;
	struct buf out; /* sent up to `sent` */
	size_t sent, send_max;
	bool is_paused, is_running;
};

/* ---- life ---- */

static void detach(struct zmtp_conn *z)
{
	z->state = ZMTP_OVER;
	dial_cancel(take_ptr(&z->dial));
	defer_cancel(&z->later);
	timer_done(&z->timer);
	io_del(&z->io);
	transport_close(take_ptr(&z->t));
}

static void zmtp_free(struct zmtp_conn *z)
{
	buf_done(&z->out);
	free(z->in);
	free(z);
}

void zmtp_cancel(struct zmtp_conn *z)
{
	if (!z || z->state == ZMTP_OVER)
		return;
	detach(z);
	if (!z->is_running) /* else whoever runs it frees it */
		zmtp_free(z);
}

/* It is over; whoever called frees it. */
static void end(struct zmtp_conn *z, const struct err *why)
{
	detach(z);
	z->ops->on_close(why, z->arg);
}

static bool end_with(struct zmtp_conn *z, enum err_code code, const char *what)
{
	struct err e = { 0 };

	(void)err_set(&e, code, "%s", what);
	end(z, &e);
	return false;
}

/* ---- the handshake ---- */

/* The peer must be of a kind that answers ours. */
static bool is_match(enum zmtp_type ours, struct str theirs)
{
	if (ours == ZMTP_SUB)
		return str_is(theirs, "PUB") || str_is(theirs, "XPUB");
	return str_is(theirs, "ROUTER") || str_is(theirs, "REP") || str_is(theirs, "DEALER");
}

static bool take_ready(struct zmtp_conn *z, struct str data)
{
	struct str name, value, type = { "", 0 };

	while (zmtp_property(&data, &name, &value))
		if (str_eq_nocase(name, STR("Socket-Type")))
			type = value;
	if (data.n > 0 || !is_match(z->type, type))
		return end_with(z, ERR_INVALID, "the peer is no socket of the kind that is expected");
	timer_cancel(&z->timer);
	z->state = ZMTP_READY;
	if (z->type == ZMTP_SUB && !zmtp_put_frame(&z->out, STR("\x01"), true)) /* everything */
		return end_with(z, ERR_UNAVAILABLE, "out of memory");
	z->ops->on_ready(z, z->arg);
	return true;
}

static bool take_command(struct zmtp_conn *z, const struct zmtp_event *ev)
{
	if (str_is(ev->name, "ERROR"))
		return end_with(z, ERR_DENIED, "the peer refuses the connection");
	if (z->state == ZMTP_READY_NOT)
		return str_is(ev->name, "READY") ? take_ready(z, ev->data)
						 : end_with(z, ERR_INVALID, "the peer does not say that it is ready");
	if (str_is(ev->name, "PING") && ev->data.n >= PING_TTL &&
	    !zmtp_put_command(&z->out, STR("PONG"), str_skip(ev->data, PING_TTL)))
		return end_with(z, ERR_LIMIT, "the peer does not read its answers");
	return true; /* commands that are not known are to be ignored */
}

/* False: it is over. */
static bool take_event(struct zmtp_conn *z, const struct zmtp_event *ev)
{
	static const struct str types[] = { [ZMTP_DEALER] = STR("DEALER"), [ZMTP_SUB] = STR("SUB") };

	switch (ev->kind) {
	case ZMTP_EVENT_GREETING:
		z->state = ZMTP_READY_NOT;
		return zmtp_put_ready(&z->out, types[z->type]) || end_with(z, ERR_UNAVAILABLE, "out of memory");
	case ZMTP_EVENT_COMMAND:
		return take_command(z, ev);
	case ZMTP_EVENT_BYTES:
		if (z->state != ZMTP_READY)
			return end_with(z, ERR_INVALID, "a message before the handshake");
		z->ops->on_bytes(z, ev, z->arg);
		return true;
	case ZMTP_EVENT_ERROR:
		return end_with(z, ERR_INVALID, ev->what);
	case ZMTP_EVENT_NONE:
		break;
	}
	return true;
}

/* ---- moving ---- */

/* Decodes what waits, until it is used up or something says stop. */
static void take(struct zmtp_conn *z)
{
	struct zmtp_event ev;

	while (z->state != ZMTP_OVER && !z->is_paused && zmtp_decode(&z->decoder, &z->waiting, &ev) != ZMTP_EVENT_NONE)
		if (!take_event(z, &ev))
			return;
	if (z->state != ZMTP_OVER && z->waiting.n == 0) {
		free(z->in);
		z->in = NULL;
	}
}

static void fill(struct zmtp_conn *z)
{
	ssize_t n;

	if (z->waiting.n > 0)
		return;
	z->in = malloc(IN_PIECE);
	if (!z->in)
		return; /* what is there stays there */
	n = z->t->ops->recv(z->t, z->in, IN_PIECE);
	if (n > 0)
		z->waiting = (struct str){ z->in, (size_t)n };
	else if (n == 0 || errno != EAGAIN)
		(void)end_with(z, ERR_UNAVAILABLE, "the peer has ended the connection");
}

static void flush(struct zmtp_conn *z)
{
	struct transport *t = z->t;

	while (t && z->sent < z->out.n) {
		struct iovec iov = { z->out.p + z->sent, z->out.n - z->sent };
		ssize_t n = t->ops->send(t, &iov, 1, false);

		if (n < 0 && errno != EAGAIN)
			(void)end_with(z, ERR_UNAVAILABLE, "the peer has ended the connection");
		if (n < 0)
			return;
		z->sent += (size_t)n;
	}
	buf_done(&z->out); /* there may be nothing more for hours */
	z->sent = 0;
}

static void run(struct zmtp_conn *z, unsigned ready)
{
	z->is_running = true;
	if ((ready & (IO_IN | IO_ERR)) && !z->is_paused)
		fill(z);
	if (z->state != ZMTP_OVER && z->waiting.n > 0)
		take(z);
	if (z->state != ZMTP_OVER)
		flush(z);
	z->is_running = false;
	if (z->state == ZMTP_OVER) {
		zmtp_free(z);
		return;
	}
	if (!z->in || z->waiting.n == 0) {
		free(z->in);
		z->in = NULL;
	}
	io_want(&z->io, (z->is_paused ? 0U : (unsigned)IO_IN) | (z->out.n > 0 ? (unsigned)IO_OUT : 0U));
}

static void on_io(unsigned ready, void *arg)
{
	struct zmtp_conn *z = arg;

	if ((ready & IO_ERR) && z->is_paused) { /* it would be reported for ever */
		io_del(&z->io);
		return;
	}
	run(z, ready);
}

static void on_later(void *arg)
{
	struct zmtp_conn *z = arg;
	struct err e = { 0 };

	if (!z->io.loop && io_add(&z->io, z->loop, z->t->fd, 0, on_io, z, "zmtp", &e) < 0) {
		end(z, &e);
		zmtp_free(z);
	} else {
		run(z, 0);
	}
}

static void run_later(struct zmtp_conn *z)
{
	if (z->t && z->state != ZMTP_OVER && !z->is_running)
		defer(&z->later, z->loop, on_later, z, "zmtp");
}

/* ---- the beginning ---- */

static void on_timer(void *arg)
{
	(void)end_with(arg, ERR_TIMEOUT, "the peer does not answer");
	zmtp_free(arg);
}

static void on_dialed(struct transport *t, const struct err *e, void *arg)
{
	struct zmtp_conn *z = arg;

	z->dial = NULL;
	z->t = t;
	if (!t)
		end(z, e);
	else if (!zmtp_put_greeting(&z->out))
		(void)end_with(z, ERR_UNAVAILABLE, "out of memory");
	if (z->state == ZMTP_OVER) {
		zmtp_free(z);
		return;
	}
	z->state = ZMTP_GREETED_NOT;
	timer_in(&z->timer, ZMTP_HANDSHAKE_MS);
	run_later(z);
}

struct zmtp_conn *zmtp_connect(struct loop *l, const struct zmtp_spec *sp, const struct zmtp_ops *ops, void *arg, struct err *e)
{
	struct zmtp_conn *z = calloc(1, sizeof(*z));
	struct dial_spec dial = { .fd = -1, .to = sp->to, .to_len = sp->to_len };

	if (!z) {
		(void)err_no_memory(e);
		return NULL;
	}
	z->loop = l;
	z->type = sp->type;
	z->ops = ops;
	z->arg = arg;
	z->send_max = sp->send_max;
	z->out = BUF_INIT(sp->send_max + CONTROL_ROOM);
	zmtp_decoder_init(&z->decoder, sp->message_max);
	if (timer_init(&z->timer, l, on_timer, z, "zmtp handshake", e) == 0)
		z->dial = dial_start(l, &dial, on_dialed, z, e);
	if (!z->dial)
		zmtp_cancel(take_ptr(&z));
	return z;
}

/* ---- for owners ---- */

bool zmtp_send(struct zmtp_conn *z, const struct str *frames, size_t n)
{
	size_t before = z->out.n, need = 0;

	for (size_t i = 0; i < n; i++)
		if (__builtin_add_overflow(need, frames[i].n + ZMTP_HEAD_MAX, &need))
			return false;
	if (z->state != ZMTP_READY || before - z->sent > z->send_max || need > z->send_max - (before - z->sent))
		return false;
	buf_consume(&z->out, z->sent);
	before -= z->sent;
	z->sent = 0;
	for (size_t i = 0; i < n; i++)
		(void)zmtp_put_frame(&z->out, frames[i], i + 1 == n);
	if (z->out.failed) { /* out of memory: none of it, instead of a part */
		z->out.failed = false;
		z->out.n = before;
		return false;
	}
	run_later(z);
	return true;
}

void zmtp_pause(struct zmtp_conn *z)
{
	z->is_paused = true;
}

void zmtp_resume(struct zmtp_conn *z)
{
	if (!z->is_paused)
		return;
	z->is_paused = false;
	run_later(z);
}
