// SPDX-License-Identifier: Apache-2.0
/* The client of a terminal: what it is sent, and what it says. */
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "execd/budget.h"
#include "execd/io/drain.h"
#include "execd/io/events.h"
#include "execd/pty/pty_impl.h"
#include "net/http/server.h"
#include "net/ws/ws_conn.h"

#include "base/banned.h"

#define CLOSE_TAKEN_OVER 4001
#define HIGH_WATER ((size_t)16 * 1024)
#define ORDER_ARENA_MAX ((size_t)256 * 1024)

/* ---- coming and going ---- */

static bool hold(struct pty_client *c, size_t bytes)
{
	struct budget *b = c->ptys->host.budget;

	if (bytes > c->held && !budget_take(b, bytes - c->held))
		return false;
	if (bytes < c->held)
		budget_give(b, c->held - bytes);
	c->held = bytes;
	return true;
}

static void forget_typed(struct pty_client *c)
{
	c->typed = (struct str){ 0 };
	budget_give(c->ptys->host.budget, c->copy.cap);
	buf_done(&c->copy);
}

/* The session goes on without it. */
static void leave(struct pty_client *c)
{
	struct pty *p = c->of;

	forget_typed(c);
	c->of = NULL;
	if (!p)
		return;
	if (!c->is_open)
		p->n_opening--;
	if (p->client != c)
		return;
	p->client = NULL;
	pty_detached(p);
}

static void client_free(struct pty_client *c)
{
	leave(c);
	(void)hold(c, 0);
	budget_give(c->ptys->host.budget, PTY_CLIENT_MEMORY);
	*(c->prev ? &c->prev->next : &c->ptys->clients) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	free(c);
}

void client_drop(struct pty_client *c)
{
	ws_conn_cancel(c->ws);
	client_free(c);
}

static void client_send_away(struct pty_client *c, uint16_t code, struct str reason)
{
	leave(c);
	ws_conn_close(c->ws, code, reason);
}

/* ---- what it is sent ---- */

static void say(const struct pty_client *c, const struct buf *text)
{
	if (!text->failed)
		(void)ws_conn_send(c->ws, true, buf_str(text)); /* one that does not read gets no answers */
}

bool client_has_room(const struct pty_client *c)
{
	return ws_conn_room(c->ws) > 0;
}

void client_send(const struct pty_client *c, struct str message)
{
	(void)ws_conn_send(c->ws, false, message); /* there was room; without memory it closes itself */
}

void client_say_exit(struct pty_client *c, const struct process_end *end)
{
	AUTO(buf_done) struct buf text = BUF_INIT(PTY_NEWS_MAX);

	pty_say_exit(&text, exit_code_of(end));
	say(c, &text);
	client_send_away(c, WS_CLOSE_NORMAL, STR("process exited"));
}

static void say_error(const struct pty_client *c, const char *code, const char *why)
{
	AUTO(buf_done) struct buf text = BUF_INIT(PTY_NEWS_MAX);

	pty_say_error(&text, code, why);
	say(c, &text);
}

void client_say_failed(struct pty_client *c, const char *code, const char *why)
{
	say_error(c, code, why);
	client_send_away(c, WS_CLOSE_INTERNAL, str_of(code));
}

static void replay_piece(struct pty_client *c)
{
	struct pty *p = c->of;
	char *room = c->ptys->host.drains->scratch;
	uint64_t at = MAX(c->at, p->ring.start);
	size_t n = tail_file_read(&p->ring, at, room + PTY_REPLAY_HEAD, PTY_PIECE);

	if (n == 0) /* the disk had no room for it: only the offset is told */
		at = p->ring.end;
	pty_replay_head(at, room);
	client_send(c, (struct str){ room, PTY_REPLAY_HEAD + n });
	c->at = at + n;
}

static void greet(struct pty_client *c)
{
	AUTO(buf_done) struct buf text = BUF_INIT(PTY_NEWS_MAX);

	pty_say_connected(&text, c->of->id, c->of->is_pipe ? "pipe" : "pty");
	say(c, &text);
	c->is_greeted = true;
}

void client_catch_up(struct pty_client *c)
{
	struct pty *p = c->of;

	while (!c->is_live && client_has_room(c)) {
		if (c->at < p->ring.end) {
			replay_piece(c);
			continue;
		}
		if (!c->is_greeted)
			greet(c);
		c->is_live = true;
		p->allowance = 0;
	}
}

/* ---- what it says ---- */

static void on_writable(unsigned ready, void *arg)
{
	struct pty *p = arg;

	(void)ready;
	if (p->client)
		client_feed(p->client);
	else
		io_del(&p->in_io);
}

/* Until the shell takes more, nothing more is read from the client. */
static void wait_for_shell(struct pty_client *c)
{
	struct pty *p = c->of;
	struct err e = { 0 };

	ws_conn_pause(c->ws);
	if (p->state == PTY_STARTING || p->in_io.loop)
		return;
	if (io_add(&p->in_io, p->of->host.loop, p->in, IO_OUT, on_writable, p, "pty input", &e) < 0)
		client_say_failed(c, PTY_STDIN_FAILED, e.msg);
}

static void end_input(struct pty *p)
{
	io_del(&p->in_io);
	closep(&p->in);
	p->in = -1;
}

void client_feed(struct pty_client *c)
{
	struct pty *p = c->of;

	while (c->typed.n > 0 && p->state == PTY_UP) {
		ssize_t n = p->in >= 0 ? write(p->in, c->typed.p, c->typed.n) : -1;

		if (n >= 0) {
			c->typed = str_skip(c->typed, (size_t)n);
		} else if (p->is_pipe && (p->in < 0 || errno == EPIPE)) {
			if (p->in >= 0)
				say_error(c, PTY_STDIN_FAILED, "the program takes no more input"); /* but goes on */
			end_input(p);
			c->typed.n = 0;
		} else if (p->in < 0 || (errno != EAGAIN && errno != EINTR)) {
			client_say_failed(c, PTY_STDIN_FAILED, "the shell takes no more input");
			return;
		} else if (errno == EAGAIN) {
			break;
		}
	}
	if (c->typed.n > 0 && (p->state == PTY_UP || p->state == PTY_STARTING)) {
		wait_for_shell(c);
		return;
	}
	forget_typed(c);
	io_del(&p->in_io);
	ws_conn_resume(c->ws);
}

/* What was decoded lives no longer than this call. */
static void type_text(struct pty_client *c, struct str data)
{
	c->copy = BUF_INIT(PTY_TEXT_MAX);
	if (!buf_add_str(&c->copy, data) || !budget_take(c->ptys->host.budget, c->copy.cap)) {
		buf_done(&c->copy);
		say_error(c, PTY_INVALID_FRAME, "no memory for that much input");
		return;
	}
	c->typed = buf_str(&c->copy);
	client_feed(c);
}

static void follow(struct pty_client *c, struct str text)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(ORDER_ARENA_MAX);
	struct pty_order o;

	pty_order_parse(text, &a, &o);
	switch (o.kind) {
	case PTY_ORDER_RESIZE:
		pty_shell_resize(c->of, o.cols, o.rows);
		break;
	case PTY_ORDER_SIGNAL:
		pty_shell_signal(c->of, o.signo);
		break;
	case PTY_ORDER_STDIN:
		type_text(c, o.data);
		break;
	case PTY_ORDER_STDIN_END:
		if (c->of->is_pipe)
			end_input(c->of); /* nothing waits for it: until then no more is read from the client */
		break;
	case PTY_ORDER_PING:
		(void)ws_conn_send(c->ws, true, PTY_PONG);
		break;
	case PTY_ORDER_UNKNOWN:
		say_error(c, PTY_INVALID_FRAME, "unknown message type");
		break;
	case PTY_ORDER_NONE:
		break;
	}
}

static void on_message(struct ws_conn *ws, bool is_text, struct str data, void *arg)
{
	struct pty_client *c = arg;

	(void)ws;
	if (!c->of)
		return;
	if (is_text && data.n > PTY_TEXT_MAX) {
		say_error(c, PTY_INVALID_FRAME, "message too long");
	} else if (is_text) {
		follow(c, data);
	} else if (data.n > 1 && data.p[0] == PTY_STDIN) {
		c->typed = str_skip(data, 1);
		client_feed(c);
	}
}

/* ---- opening ---- */

static void on_open(struct ws_conn *ws, struct str protocol, void *arg)
{
	struct pty_client *c = arg;
	struct pty *p = c->of;
	struct err e = { 0 };

	(void)ws;
	(void)protocol;
	c->is_open = true;
	if (!p || p->is_deleted) {
		if (p)
			p->n_opening--;
		c->of = NULL;
		client_say_failed(c, PTY_GONE, "the session was deleted");
		return;
	}
	p->n_opening--;
	if (p->client)
		client_send_away(p->client, CLOSE_TAKEN_OVER, STR("TAKEN_OVER"));
	p->client = c;
	c->at = MIN(c->how.since, p->ring.end);
	if (p->state != PTY_IDLE) {
		pty_pump(p);
		return;
	}
	if (p->of->is_stopping)
		(void)err_set(&e, ERR_UNAVAILABLE, "the sandbox is stopping");
	else if (pty_shell_start(p, &e) == 0)
		return;
	client_say_failed(c, PTY_START_FAILED, e.msg);
}

static void on_drained(struct ws_conn *ws, void *arg)
{
	struct pty_client *c = arg;

	(void)ws;
	if (c->of && c->of->client == c)
		pty_pump(c->of);
}

static void on_close(uint16_t code, struct str reason, void *arg)
{
	log_debug("the client of a terminal is gone", LOG_U("code", code), LOG_STR("reason", reason));
	client_free(arg);
}

static bool on_memory(struct ws_conn *ws, size_t bytes, void *arg)
{
	(void)ws;
	return hold(arg, bytes);
}

int pty_attach(struct pty *p, const struct pty_attach *how, struct request *rq, struct reply *rp, struct err *e)
{
	static const struct ws_ops ops = { on_open, on_message, on_drained, on_close, on_memory };
	struct ws_options options = WS_OPTIONS;
	struct ptys *ps = p->of;
	struct pty_client *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return err_no_memory(e);
	if (!budget_take(ps->host.budget, PTY_CLIENT_MEMORY)) {
		free(c);
		return err_set(e, ERR_UNAVAILABLE, "no room for another client of a terminal");
	}
	*c = (struct pty_client){ .ptys = ps, .of = p, .next = ps->clients, .how = *how };
	if (c->next)
		c->next->prev = c;
	ps->clients = c;
	p->n_opening++;
	options.high_water = HIGH_WATER;
	if (how->is_pipe)
		options.write_ms = options.deadline_ms = options.close_ms = PTY_PIPE_STALL_MS;
	r = ws_conn_accept(rq, rp, &options, &ops, c, &c->ws, e);
	if (!c->ws)
		client_free(c);
	return r;
}
