// SPDX-License-Identifier: Apache-2.0
#include "net/ws/ws_conn.h"

#include "base/err.h"
#include "net/http/client.h"
#include "net/http/server.h"
#include "net/transport.h"
#include "net/ws/ws_conn_impl.h"

#include "base/banned.h"

#define IN_PIECE (16 * 1024)
#define IN_MAX (128 * 1024)
#define CONTROL_ROOM (64 * 1024) /* pongs and the close frame go out above the high-water mark */

static void on_timer(void *arg);
static void on_later(void *arg);

/* ---- life ---- */

struct ws_conn *ws_new(struct loop *l, enum ws_role role, const struct ws_options *options, const struct ws_ops *ops,
		       void *arg, struct err *e)
{
	struct ws_conn *ws = calloc(1, sizeof(*ws));

	if (!ws) {
		(void)err_no_memory(e);
		return NULL;
	}
	ws->loop = l;
	ws->role = role;
	ws->options = *options;
	ws->ops = ops;
	ws->arg = arg;
	ws->code = WS_CLOSE_ABNORMAL;
	ws->in = BUF_INIT(IN_MAX);
	ws->out = BUF_INIT(options->high_water + WS_SEND_MAX + CONTROL_ROOM);
	ws_decoder_init(&ws->decoder, role, options->message_max);
	if (timer_init(&ws->timer, l, on_timer, ws, "websocket timer", e) < 0) {
		free(ws);
		return NULL;
	}
	return ws;
}

static void ws_free(struct ws_conn *ws)
{
	ws_decoder_done(&ws->decoder);
	random_pool_done(&ws->random);
	buf_done(&ws->in);
	buf_done(&ws->out);
	free(ws);
}

/* Lets go of everything on the loop. */
static void ws_detach(struct ws_conn *ws)
{
	ws->state = WS_OVER;
	http_call_cancel(take_ptr(&ws->call));
	if (ws->reply)
		reply_abort(take_ptr(&ws->reply)); /* neither `take` nor `gone` comes after this */
	defer_cancel(&ws->later);
	timer_done(&ws->timer);
	watch_stop(&ws->watch);
	transport_close(take_ptr(&ws->t));
}

void ws_end(struct ws_conn *ws, uint16_t code, struct str reason)
{
	char copy[WS_REASON_MAX];
	size_t n = MIN(reason.n, sizeof(copy));

	if (n > 0)
		memcpy(copy, reason.p, n);
	ws_detach(ws);
	ws->ops->on_close(code, (struct str){ copy, n }, ws->arg);
	if (!ws->is_running) /* else whoever runs it frees it, when no callback looks at it any more */
		ws_free(ws);
}

void ws_conn_cancel(struct ws_conn *ws)
{
	if (!ws || ws->state == WS_OVER)
		return;
	ws_detach(ws);
	if (!ws->is_running)
		ws_free(ws);
}

static void run_later(struct ws_conn *ws)
{
	if (ws->state != WS_OVER)
		defer(&ws->later, ws->loop, on_later, ws, "websocket");
}

/* ---- sending ---- */

/* A client masks every frame with fresh bytes; NULL from a server is just right. Without random bytes the frame cannot
 * be sent, and the buffer fails like one that is full. */
static bool add_frame(struct ws_conn *ws, enum ws_opcode op, struct str data)
{
	uint8_t mask[4];
	struct err scratch;

	if (ws->role == WS_CLIENT && random_pool_take(&ws->random, mask, sizeof(mask), &scratch) < 0)
		return false;
	return ws_encode(&ws->out, op, true, data, ws->role == WS_CLIENT ? mask : NULL);
}

static size_t waiting(const struct ws_conn *ws)
{
	return ws->out.n - ws->sent;
}

/* The write deadline runs from the moment that something waits. */
static void note_queued(struct ws_conn *ws, size_t before)
{
	if (before == 0)
		ws->write_ms = loop_now_ms(ws->loop);
	run_later(ws);
}

static void add_close(struct ws_conn *ws, uint16_t code, struct str reason)
{
	size_t before = waiting(ws);
	uint8_t mask[4];
	struct err scratch;

	if (ws->role == WS_CLIENT && random_pool_take(&ws->random, mask, sizeof(mask), &scratch) < 0)
		return;
	(void)ws_encode_close(&ws->out, code, reason, ws->role == WS_CLIENT ? mask : NULL);
	note_queued(ws, before);
}

bool ws_conn_send(struct ws_conn *ws, bool is_text, struct str data)
{
	size_t before = waiting(ws);

	if (ws->state != WS_OPEN)
		return false;
	if (data.n > WS_SEND_MAX) {
		ws_conn_close(ws, WS_CLOSE_INTERNAL, STR("message too big to send"));
		return false;
	}
	if (before >= ws->options.high_water) {
		ws->wants_room = true;
		return false;
	}
	if (!add_frame(ws, is_text ? WS_TEXT : WS_BINARY, data)) {
		ws_conn_close(ws, WS_CLOSE_INTERNAL, STR("out of memory"));
		return false;
	}
	note_queued(ws, before);
	return true;
}

size_t ws_conn_room(struct ws_conn *ws)
{
	size_t before = waiting(ws);

	if (ws->state != WS_OPEN)
		return 0;
	ws->wants_room |= before >= ws->options.high_water;
	return before < ws->options.high_water ? ws->options.high_water - before : 0;
}

static void remember_end(struct ws_conn *ws, uint16_t code, struct str reason)
{
	ws->code = code;
	ws->reason_n = MIN(reason.n, sizeof(ws->reason));
	if (ws->reason_n > 0)
		memcpy(ws->reason, reason.p, ws->reason_n);
}

void ws_conn_close(struct ws_conn *ws, uint16_t code, struct str reason)
{
	if (ws->state == WS_OPENING && !ws->closes_early) {
		ws->closes_early = true;
		remember_end(ws, code, reason);
	}
	if (ws->state != WS_OPEN)
		return;
	ws->state = WS_CLOSING;
	ws->close_ms = loop_now_ms(ws->loop);
	ws->is_paused = false; /* the peer's close frame stands behind what was not read */
	remember_end(ws, code, reason);
	add_close(ws, code, reason);
	run_later(ws);
}

/* It was closed before it was open. */
static void close_as_asked(struct ws_conn *ws)
{
	char reason[WS_REASON_MAX];
	size_t n = ws->reason_n;

	memcpy(reason, ws->reason, n);
	ws_conn_close(ws, ws->code, (struct str){ reason, n });
}

/* The peer is told CODE, and nothing that it says is listened to any more. */
static void close_hard(struct ws_conn *ws, uint16_t code, struct str reason)
{
	if (ws->state == WS_OPEN) {
		remember_end(ws, code, reason);
		add_close(ws, code, reason);
	}
	ws->state = WS_LAST;
	ws->close_ms = loop_now_ms(ws->loop);
}

/* False: the connection is dead. */
static bool ws_flush(struct ws_conn *ws)
{
	while (waiting(ws) > 0) {
		struct iovec iov = { ws->out.p + ws->sent, waiting(ws) };
		ssize_t n = ws->t->ops->send(ws->t, &iov, 1, false);

		if (n < 0 && errno == EAGAIN && ws->sent >= ws->options.high_water) {
			/* A reader that always leaves a little must not make it grow with all that was ever sent. */
			buf_consume(&ws->out, ws->sent);
			ws->sent = 0;
			return true;
		}
		if (n < 0)
			return errno == EAGAIN;
		ws->sent += (size_t)n;
		ws->write_ms = loop_now_ms(ws->loop);
	}
	buf_clear(&ws->out);
	ws->sent = 0;
	if (ws->out.cap > ws->options.high_water)
		buf_done(&ws->out); /* a long message came by: its memory is not for keeping */
	return true;
}

/* ---- receiving ---- */

static bool is_listening(const struct ws_conn *ws)
{
	return ws->state == WS_OPEN || ws->state == WS_CLOSING;
}

static bool takes_control(struct ws_conn *ws)
{
	uint64_t now = loop_now_ms(ws->loop);

	if (now - ws->second_ms >= 1000) {
		ws->second_ms = now;
		ws->controls = 0;
	}
	return ++ws->controls <= ws->options.controls_per_s;
}

static void on_control(struct ws_conn *ws, const struct ws_event *ev)
{
	size_t before = waiting(ws);

	if (!takes_control(ws))
		close_hard(ws, WS_CLOSE_POLICY, STR("too many control frames"));
	else if (ev->kind == WS_EVENT_PING && ws->state == WS_OPEN && add_frame(ws, WS_PONG, ev->data))
		note_queued(ws, before);
}

static void on_peer_close(struct ws_conn *ws, const struct ws_event *ev)
{
	if (ws->state == WS_OPEN) {
		remember_end(ws, ev->code, ev->data);
		add_close(ws, ev->code, (struct str){ "", 0 });
	}
	ws->state = WS_LAST;
	ws->close_ms = loop_now_ms(ws->loop);
}

static void on_event(struct ws_conn *ws, const struct ws_event *ev)
{
	switch (ev->kind) {
	case WS_EVENT_MESSAGE:
		if (ws->state == WS_OPEN)
			ws->ops->on_message(ws, ev->is_text, ev->data, ws->arg);
		break;
	case WS_EVENT_PING:
	case WS_EVENT_PONG:
		on_control(ws, ev);
		break;
	case WS_EVENT_CLOSE:
		on_peer_close(ws, ev);
		break;
	case WS_EVENT_ERROR:
		close_hard(ws, ev->code, str_of(ev->what));
		break;
	case WS_EVENT_NONE:
		break;
	}
}

static bool hold(struct ws_conn *ws, size_t bytes)
{
	size_t need = bytes > WS_MEMORY_FREE ? bytes : 0;

	if (need == ws->held || !ws->ops->on_memory)
		return true;
	if (!ws->ops->on_memory(ws, need, ws->arg))
		return false;
	ws->held = need;
	return true;
}

/* Decodes IN until it is used up, or something says stop; returns what is left. The message's buffer may double. */
static struct str ws_take(struct ws_conn *ws, struct str in)
{
	struct ws_event ev;

	if (is_listening(ws) && !ws->is_paused &&
	    !hold(ws, MAX(ws->decoder.message.cap, 2 * (ws->decoder.message.n + in.n))))
		close_hard(ws, WS_CLOSE_TOO_BIG, STR("no memory for a message of this size"));
	while (is_listening(ws) && !ws->is_paused && ws_decode(&ws->decoder, &in, &ev) != WS_EVENT_NONE)
		on_event(ws, &ev);
	if (is_listening(ws))
		(void)hold(ws, ws->decoder.message.cap);
	return in;
}

static void take_stored(struct ws_conn *ws)
{
	struct str rest = ws_take(ws, buf_str(&ws->in));

	if (ws->state == WS_OVER)
		return;
	if (rest.n == 0)
		buf_done(&ws->in);
	else
		buf_consume(&ws->in, ws->in.n - rest.n);
}

/* False: the connection is dead. */
static bool ws_fill(struct ws_conn *ws)
{
	char piece[IN_PIECE];
	ssize_t n = ws->t->ops->recv(ws->t, piece, sizeof(piece));
	struct str rest;

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	ws->read_ms = loop_now_ms(ws->loop);
	if (ws->state == WS_LAST)
		return true; /* read only so that closing does not reset what we sent last */
	rest = ws_take(ws, (struct str){ piece, (size_t)n });
	return !is_listening(ws) || rest.n == 0 || buf_add_str(&ws->in, rest);
}

/* ---- the machine ---- */

static void ws_run(struct ws_conn *ws, unsigned ready);

static void on_watch(unsigned ready, void *arg)
{
	ws_run(arg, ready);
}

void ws_start(struct ws_conn *ws, struct transport *t, struct str early)
{
	struct err e = { 0 };

	ws->t = t;
	if (!buf_add_str(&ws->in, early))
		(void)err_no_memory(&e);
	else if (watch_start(&ws->watch, ws->loop, t, on_watch, ws, "websocket", &e) == 0) {
		ws->state = WS_OPEN;
		ws->read_ms = ws->ping_ms = loop_now_ms(ws->loop);
		if (ws->closes_early)
			close_as_asked(ws);
		run_later(ws);
		return;
	}
	ws_end(ws, WS_CLOSE_ABNORMAL, str_of(e.msg));
}

static unsigned ws_interest(const struct ws_conn *ws)
{
	return (ws->is_paused ? 0U : (unsigned)IO_IN) | (waiting(ws) > 0 ? (unsigned)IO_OUT : 0U);
}

static uint64_t next_deadline(const struct ws_conn *ws)
{
	uint64_t due = UINT64_MAX;

	if (ws->state == WS_OPEN)
		due = ws->ping_ms + ws->options.ping_ms;
	else
		due = ws->close_ms + ws->options.close_ms;
	if (ws->state == WS_OPEN && !ws->is_paused)
		due = MIN(due, ws->read_ms + ws->options.deadline_ms);
	if (waiting(ws) > 0)
		due = MIN(due, ws->write_ms + ws->options.write_ms);
	return due;
}

/* Everything has been said: our side ends, and the peer is given time to end its own. */
static void ws_last(struct ws_conn *ws)
{
	if (waiting(ws) > 0 || ws->is_shut)
		return;
	ws->t->ops->shut(ws->t);
	ws->is_shut = true;
}

static void announce(struct ws_conn *ws)
{
	if (ws->is_announced)
		return;
	ws->is_announced = true;
	if (ws->ops->on_open)
		ws->ops->on_open(ws, str_of(ws->protocol), ws->arg);
}

static void tell_room(struct ws_conn *ws)
{
	if (ws->state != WS_OPEN || !ws->wants_room || waiting(ws) > ws->options.high_water / 2)
		return;
	ws->wants_room = false;
	if (ws->ops->on_drained)
		ws->ops->on_drained(ws, ws->arg);
}

/* False: the connection is dead. */
static bool ws_advance(struct ws_conn *ws, unsigned ready)
{
	announce(ws);
	if (is_listening(ws) && ws->in.n > 0)
		take_stored(ws);
	if (ws->state != WS_OVER && (ready & IO_IN) && !ws->is_paused && !ws_fill(ws))
		return false;
	if (ws->state != WS_OVER && !ws_flush(ws))
		return false;
	tell_room(ws);
	if (ws->state == WS_LAST)
		ws_last(ws);
	return true;
}

static void ws_run(struct ws_conn *ws, unsigned ready)
{
	bool is_alive;

	ws->is_running = true;
	is_alive = ws_advance(ws, ready);
	if (!is_alive && ws->state != WS_OVER) {
		struct str reason = { ws->reason, ws->reason_n };

		ws_end(ws, ws->state == WS_OPEN ? WS_CLOSE_ABNORMAL : ws->code, reason);
	}
	ws->is_running = false;
	if (ws->state == WS_OVER) {
		ws_free(ws);
		return;
	}
	watch_want(&ws->watch, ws_interest(ws));
	timer_set(&ws->timer, next_deadline(ws));
}

static void on_later(void *arg)
{
	ws_run(arg, 0);
}

static void on_timer(void *arg)
{
	struct ws_conn *ws = arg;
	uint64_t now = loop_now_ms(ws->loop);
	size_t before = waiting(ws);

	if (before > 0 && now >= ws->write_ms + ws->options.write_ms) {
		ws_end(ws, WS_CLOSE_ABNORMAL, STR("the peer does not read"));
		return;
	}
	if (ws->state != WS_OPEN && now >= ws->close_ms + ws->options.close_ms) {
		ws_end(ws, ws->code, (struct str){ ws->reason, ws->reason_n });
		return;
	}
	if (ws->state == WS_OPEN && !ws->is_paused && now >= ws->read_ms + ws->options.deadline_ms) {
		ws_end(ws, WS_CLOSE_ABNORMAL, STR("the peer is silent"));
		return;
	}
	if (ws->state == WS_OPEN && now >= ws->ping_ms + ws->options.ping_ms) {
		ws->ping_ms = now;
		if (add_frame(ws, WS_PING, (struct str){ "", 0 }))
			note_queued(ws, before);
	}
	ws_run(ws, 0);
}

void ws_conn_pause(struct ws_conn *ws)
{
	if (ws->state == WS_OPEN)
		ws->is_paused = true;
}

void ws_conn_resume(struct ws_conn *ws)
{
	if (!ws->is_paused)
		return;
	ws->is_paused = false;
	ws->read_ms = loop_now_ms(ws->loop);
	run_later(ws);
}
