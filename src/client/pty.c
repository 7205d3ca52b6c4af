// SPDX-License-Identifier: Apache-2.0
/* Terminals: a session of execd's, and the WebSocket to it. */
#include "client/pty.h"

#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "client/client_impl.h"
#include "client/model.h"
#include "client/op.h"
#include "client/sandbox.h"
#include "client/term_frame.h"
#include "net/http/client.h"
#include "net/ws/ws_conn.h"

#include "base/banned.h"

#define INPUT_PIECE ((size_t)32 * 1024)
#define INPUT_HIGH_WATER ((size_t)256 * 1024) /* input that waits for the program */
#define INPUT_STALL_MS 3600000                /* a program may leave its input alone for as long */
#define CLOSE_TAKEN_OVER 4001
#define SESSION_ID_MAX 127
#define HEADERS_MAX (ENDPOINT_HEADERS_MAX + 2)

struct osb_pty {
	struct osb_client *client;
	struct osb_sandbox *sandbox;
	struct osb_pty *prev, *next;
	struct osb_pty_ops ops;
	void *arg;
	struct op *op;       /* that opens it; NULL when it is open */
	struct ws_conn *ws;  /* NULL: closed */
	struct deferred later;
	char id[SESSION_ID_MAX + 1];
	bool is_made;        /* its session is ours, made with it */
	bool is_pipe, is_open, is_paused, has_ended;
	bool is_held; /* open, but not in anybody's hands yet: its end waits for `later` */
	unsigned columns, rows;
	struct osb_error error; /* what the other side said was wrong */
};

/* ---- life ---- */

static struct osb_pty *pty_new(struct osb_sandbox *s)
{
	struct osb_pty *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->client = s->client;
	p->sandbox = s;
	p->next = s->client->ptys;
	if (p->next)
		p->next->prev = p;
	s->client->ptys = p;
	return p;
}

static void pty_destroy(struct osb_pty *p)
{
	if (!p)
		return;
	ws_conn_cancel(p->ws);
	defer_cancel(&p->later);
	*(p->prev ? &p->prev->next : &p->client->ptys) = p->next;
	if (p->next)
		p->next->prev = p->prev;
	free(p);
}

/* What came before comes again before it is open, and who hears that may have enough of it: the operation goes, and it with it. */
void osb_pty_free(struct osb_pty *p)
{
	if (p && p->op)
		op_fail(p->op, OSB_CANCELLED, NULL, "the terminal was freed");
	else
		pty_destroy(p);
}

static void free_result(void *p)
{
	pty_destroy(p);
}

/* One that is being opened ends with its operation, and one that is open may not have been given out yet. */
static bool is_an_operations(const struct osb_client *c, const struct osb_pty *p)
{
	if (p->op || c->own.op.result == p)
		return true;
	for (const struct osb_call *call = c->calls; call; call = call->next)
		if (call->op.result == p)
			return true;
	return false;
}

void ptys_free(struct osb_client *c, const struct osb_sandbox *s)
{
	struct osb_pty *next;

	for (struct osb_pty *p = c->ptys; p; p = next) {
		next = p->next;
		if (!s || (p->sandbox == s && !is_an_operations(c, p)))
			pty_destroy(p);
	}
}

const char *osb_pty_id(const struct osb_pty *p)
{
	return p->id;
}

/* ---- what comes ---- */

/* The last call back: after it P may be gone. */
static void tell_lost(struct osb_pty *p)
{
	p->has_ended = true;
	if (p->ops.on_lost)
		p->ops.on_lost(p, &p->error, p->arg);
}

/* Output, and the end, wait until whoever opened it has it in hands. */
static void on_later(void *arg)
{
	struct osb_pty *p = arg;

	if (is_an_operations(p->client, p)) {
		defer(&p->later, p->client->loop, on_later, p, "terminal");
		return;
	}
	p->is_held = false;
	if (!p->ws)
		tell_lost(p);
	else if (!p->is_paused)
		ws_conn_resume(p->ws);
}

static void on_connected(struct osb_pty *p)
{
	struct op *op = p->op;

	if (!op || p->is_open)
		return;
	p->is_open = true;
	if (!p->is_pipe && p->columns > 0 && p->rows > 0)
		osb_pty_resize(p, p->columns, p->rows);
	ws_conn_pause(p->ws);
	p->op = NULL;
	p->is_held = true;
	op->state = NULL;
	op_result(op, p, free_result);
	op_done(op);
	defer(&p->later, p->client->loop, on_later, p, "terminal");
}

static void on_exit_news(struct osb_pty *p, int exit_code)
{
	p->has_ended = true;
	ws_conn_close(p->ws, WS_CLOSE_NORMAL, STR(""));
	if (!p->is_open)
		op_fail(p->op, OSB_ANSWER, "PTY_ENDED", "it has ended before it was open");
	else if (p->ops.on_exit)
		p->ops.on_exit(p, exit_code, p->arg);
}

static void on_message(struct ws_conn *ws, bool is_text, struct str data, void *arg)
{
	struct osb_pty *p = arg;
	struct term_news news;

	(void)ws;
	if (p->has_ended)
		return;
	term_news_parse(is_text, data, &news);
	switch (news.kind) {
	case TERM_OUTPUT:
	case TERM_REPLAY:
		if (news.data.n > 0 && p->ops.on_output)
			p->ops.on_output(p, news.is_stderr, news.data.p, news.data.n, p->arg);
		break;
	case TERM_CONNECTED:
		on_connected(p);
		break;
	case TERM_EXIT:
		on_exit_news(p, news.exit_code);
		break;
	case TERM_ERROR:
		error_set(&p->error, OSB_ANSWER, news.code, "%s", news.message); /* if it is the end, the connection's end says so */
		break;
	case TERM_NOTHING:
		break;
	}
}

static void on_drained(struct ws_conn *ws, void *arg)
{
	struct osb_pty *p = arg;

	(void)ws;
	if (!p->has_ended && p->is_open && p->ops.on_drained)
		p->ops.on_drained(p, p->arg);
}

/* A session that is there refuses those who come when it has a client. A proxy on the way tells of that in its own words. */
static bool is_refusal(uint16_t code, struct str reason)
{
	return code == WS_CLOSE_POLICY || str_is(reason, "the server answered with status 409");
}

static void on_close(uint16_t code, struct str reason, void *arg)
{
	struct osb_pty *p = arg;

	p->ws = NULL;
	if (p->has_ended)
		return;
	if (!p->is_open && is_refusal(code, reason)) {
		error_set(&p->error, OSB_ANSWER, "ALREADY_CONNECTED", "another client has the terminal");
		p->error.http_status = 409;
	} else if (code == CLOSE_TAKEN_OVER)
		error_set(&p->error, OSB_ANSWER, "TAKEN_OVER", "another client has taken the terminal over");
	else if (code == WS_CLOSE_ABNORMAL || p->error.kind == OSB_OK)
		error_set(&p->error, OSB_NETWORK, NULL, "the connection to the terminal has ended%s%.*s", reason.n > 0 ? ": " : "", STR_ARG(reason));
	if (!p->is_open)
		op_fail_as(p->op, &p->error);
	else if (!p->is_held) /* else: later */
		tell_lost(p);
}

/* ---- opening ---- */

static const struct ws_ops ws_ops = { .on_message = on_message, .on_drained = on_drained, .on_close = on_close };

/* The operation has ended without it. */
static void on_end(struct op *op)
{
	pty_destroy(op->state);
	op->state = NULL;
}

static void on_deleted(struct op *op, const struct op_answer *a)
{
	(void)a;
	op_undone(op);
}

/* A session that nobody knows of must not stay. */
static bool undo(struct op *op)
{
	struct osb_pty *p = op->state;
	char path[256];

	if (!p || !p->is_made || op->sandbox->is_closing)
		return false;
	ws_conn_cancel(take_ptr(&p->ws));
	(void)snprintf(path, sizeof(path), "/pty/%.128s", p->id);
	op_send(op, &(struct ask){ .to = &op->sandbox->execd, .method = "DELETE", .path = path, .takes_failure = true, .on_answer = on_deleted });
	return true;
}

static void attach(struct op *op, const char *path)
{
	struct osb_pty *p = op->state;
	const struct endpoint *to = &op->sandbox->execd;
	AUTO(buf_done) struct buf target = BUF_INIT(HTTP_LINE_MAX);
	struct http_header headers[HEADERS_MAX];
	struct ws_options options = WS_OPTIONS;
	struct ws_target where = { .host = remote_authority(to->remote), .headers = headers };
	struct err e = { 0 };

	if (op_is_over(op))
		return;
	for (; where.n_headers < to->n_headers && where.n_headers < ENDPOINT_HEADERS_MAX; where.n_headers++)
		headers[where.n_headers] = to->headers[where.n_headers];
	headers[where.n_headers++] = (struct http_header){ STR("User-Agent"), str_of(op->client->user_agent) };
	buf_addf(&target, "%s%s", to->prefix, path);
	where.target = buf_str(&target);
	options.high_water = INPUT_HIGH_WATER;
	options.write_ms = INPUT_STALL_MS;
	p->ws = target.failed ? NULL : ws_conn_connect(remote_http(to->remote), op->client->loop, &where, &options, &ws_ops, p, &e);
	if (target.failed)
		op_no_memory(op);
	else if (!p->ws)
		op_fail_err(op, &e);
}

static const char *ws_path(struct op *op, bool has_pipes, int64_t since, bool takes_over)
{
	const struct osb_pty *p = op->state;
	const char *path = op_text(op, "/pty/%s/ws", op_segment(op, p->id, "session's id"));

	path = op_query(op, path, "pty", has_pipes ? "0" : NULL);
	path = op_query(op, path, "since", since > 0 ? op_text(op, "%lld", (long long)since) : NULL);
	return op_query(op, path, "takeover", takes_over ? "1" : NULL);
}

static bool set_id(struct osb_pty *p, struct str id)
{
	if (id.n == 0 || id.n > SESSION_ID_MAX)
		return false;
	memcpy(p->id, id.p, id.n);
	p->id[id.n] = '\0';
	return true;
}

static void on_made(struct op *op, const struct op_answer *a)
{
	struct osb_pty *p = op->state;
	const struct json *v = op_json(op, a);
	struct str id = v ? json_text(v, "session_id") : STR("");

	if (op_is_over(op))
		return;
	if (!set_id(p, id)) {
		op_fail(op, OSB_NETWORK, "UNEXPECTED_RESPONSE", "the answer has no session_id");
		return;
	}
	p->is_made = true;
	attach(op, ws_path(op, p->is_pipe, 0, false));
}

static void make_session(struct op *op, const struct osb_pty_options *o)
{
	struct json_out *body = op_body(op);

	json_open(body, '{');
	body_string(body, "cwd", o->working_directory);
	body_string(body, "command", o->command);
	json_close(body, '}');
	op_send(op, &(struct ask){ .to = &op->sandbox->execd, .method = "POST", .path = "/pty", .on_answer = on_made });
}

static void on_found(struct op *op, const struct op_answer *a)
{
	attach(op, a->tag);
}

/* Of a WebSocket that is refused one hears no more than that: whether the session is there is asked before. */
static void join_session(struct op *op, const struct osb_pty_options *o)
{
	struct osb_pty *p = op->state;
	const char *path;

	if (!op_need(op, set_id(p, str_of(o->session_id)), "the session's id is none"))
		return;
	path = ws_path(op, o->pipes, o->since, o->takeover);
	op_send(op, &(struct ask){ .to = &op->sandbox->execd, .method = "GET", .on_answer = on_found, .tag = op_copy(op, path),
				   .path = op_text(op, "/pty/%s", op_segment(op, o->session_id, "session's id")) });
}

int osb_pty_open(struct osb_sandbox *s, const struct osb_pty_options *options, const struct osb_pty_ops *ops, void *arg,
		 struct osb_pty **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "open terminal", ret);
	struct osb_pty_options o;
	struct osb_pty *p;

	if (!op)
		return -1;
	struct_take(&o, sizeof(o), options, options ? options->size : 0, sizeof(o));
	p = op_is_over(op) ? NULL : pty_new(s);
	if (!p) {
		op_no_memory(op);
		return op_run(op);
	}
	p->op = op;
	p->ops = ops ? *ops : (struct osb_pty_ops){ 0 };
	p->arg = arg;
	p->is_pipe = o.pipes;
	p->columns = o.columns;
	p->rows = o.rows;
	op->state = p;
	op->on_end = on_end;
	op->undo = undo;
	if (!o.session_id) {
		make_session(op, &o);
		return op_run(op);
	}
	join_session(op, &o);
	return op_run(op);
}

int osb_pty_delete(struct osb_sandbox *s, const char *session_id, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "delete terminal", NULL);

	if (!op)
		return -1;
	op_send(op, &(struct ask){ .to = &s->execd, .method = "DELETE",
				   .path = op_text(op, "/pty/%s", op_segment(op, session_id, "session's id")) });
	return op_run(op);
}

/* ---- what goes ---- */

size_t osb_pty_write(struct osb_pty *p, const char *data, size_t n)
{
	char piece[1 + INPUT_PIECE];
	size_t done = 0;

	piece[0] = TERM_STDIN;
	while (done < n && p->ws) {
		size_t size = MIN(n - done, INPUT_PIECE);

		memcpy(piece + 1, data + done, size);
		if (!ws_conn_send(p->ws, false, (struct str){ piece, 1 + size }))
			break;
		done += size;
	}
	return done;
}

int osb_pty_end_input(struct osb_pty *p)
{
	if (!p->is_pipe || !p->ws)
		return 0; /* of a terminal there is none, and of a program that is gone neither */
	return ws_conn_send(p->ws, true, TERM_STDIN_END) ? 0 : -1;
}

static void give_order(struct osb_pty *p, const struct buf *order)
{
	if (p->ws && !order->failed)
		(void)ws_conn_send(p->ws, true, buf_str(order)); /* behind so much input nobody would look at it */
}

void osb_pty_resize(struct osb_pty *p, unsigned columns, unsigned rows)
{
	AUTO(buf_done) struct buf order = BUF_INIT(TERM_ORDER_MAX);

	term_order_resize(&order, columns, rows);
	give_order(p, &order);
}

void osb_pty_signal(struct osb_pty *p, const char *name)
{
	AUTO(buf_done) struct buf order = BUF_INIT(TERM_ORDER_MAX);

	if (term_order_signal(&order, name))
		give_order(p, &order);
}

void osb_pty_pause(struct osb_pty *p)
{
	p->is_paused = true;
	if (p->ws)
		ws_conn_pause(p->ws);
}

void osb_pty_resume(struct osb_pty *p)
{
	p->is_paused = false;
	if (p->ws)
		ws_conn_resume(p->ws);
}
