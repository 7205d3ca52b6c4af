// SPDX-License-Identifier: Apache-2.0
#include "mcp/stdio.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "mcp/call.h"
#include "mcp/engine.h"
#include "mcp/rpc.h"
#include "mcp/session.h"
#include "net/loop.h"

#include "base/banned.h"

#define READ_SIZE 4096 /* few questions at a time, whose answers may be a thousand times as long */
#define WRITE_SIZE PIPE_BUF /* what a descriptor that is ready takes without blocking */
#define HIGH_WATER (1024 * 1024) /* bytes that wait for the reader: nothing more is read, and progress is left out */
#define OUT_MAX ((size_t)1024 * 1024 * 1024)

struct stdio {
	struct out out; /* first: what the session knows of it */
	struct engine *engine;
	struct session *session;
	int in_fd, out_fd;
	struct io in, to;
	struct deferred again; /* for files, which are always ready */
	struct rpc_lines lines;
	struct buf waiting;
	size_t sent; /* of what waits: moved to the front rarely, because there may be much behind it */
	bool has_ended, is_broken, is_file_in, is_file_out;
	bool is_told; /* of the end, once */
	void (*ended)(void *arg);
	void *arg;
	struct deferred end;
};

static struct str unsent(const struct stdio *s)
{
	return str_skip(buf_str(&s->waiting), s->sent);
}

static void tell_end(void *arg)
{
	struct stdio *s = arg;

	s->ended(s->arg);
}

/* The answer to everything that was asked is written, and there will be no more questions. */
static void check_end(struct stdio *s)
{
	if (s->is_told || !(s->is_broken || (s->has_ended && s->out.pending == 0 && unsent(s).n == 0)))
		return;
	s->is_told = true;
	defer(&s->end, s->engine->loop, tell_end, s, "mcp end");
}

/* ---- writing ---- */

static void read_again(void *arg);

static void want(struct stdio *s)
{
	bool can_read = unsent(s).n <= HIGH_WATER && !s->has_ended;

	if (s->in.loop)
		io_want(&s->in, can_read ? IO_IN : 0);
	if (s->is_file_in && can_read)
		defer(&s->again, s->engine->loop, read_again, s, "mcp input");
	if (s->to.loop)
		io_want(&s->to, unsent(s).n > 0 ? IO_OUT : 0);
}

static void break_out(struct stdio *s)
{
	s->is_broken = true;
	buf_done(&s->waiting);
	s->sent = 0;
	io_del(&s->to);
	check_end(s);
}

/* At most MAX bytes. False: broken. */
static bool write_some(struct stdio *s, size_t max)
{
	ssize_t n;

	if (unsent(s).n == 0)
		return true;
	do
		n = write(s->out_fd, unsent(s).p, MIN(unsent(s).n, max));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN;
	s->sent += (size_t)n;
	if (s->sent > s->waiting.n / 2) {
		buf_consume(&s->waiting, s->sent);
		s->sent = 0;
	}
	return true;
}

static void on_writable(unsigned ready, void *arg)
{
	struct stdio *s = arg;

	if ((ready & IO_ERR) || !write_some(s, WRITE_SIZE)) {
		break_out(s);
		return;
	}
	want(s);
	check_end(s);
}

static void send_line(struct out *o, struct str message)
{
	struct stdio *s = (struct stdio *)o;

	if (s->is_broken)
		return;
	(void)buf_add_str(&s->waiting, message);
	if (!buf_add_char(&s->waiting, '\n')) {
		break_out(s);
		return;
	}
	while (s->is_file_out && unsent(s).n > 0)
		if (!write_some(s, SIZE_MAX)) {
			break_out(s);
			return;
		}
	want(s);
}

static bool has_room(const struct out *o)
{
	const struct stdio *s = (const struct stdio *)o;

	return !s->is_broken && unsent(s).n < HIGH_WATER;
}

static void finished(struct out *o)
{
	check_end((struct stdio *)o);
}

/* ---- reading ---- */

static void on_line(struct str line, bool is_too_long, void *arg)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(CALL_ARENA_MAX);
	const struct json_limits limits = { .depth = RPC_DEPTH_MAX };
	struct stdio *s = arg;
	struct err e = { 0 };
	const struct json *v;

	if (is_too_long) {
		mcp_session_refuse(&s->out, STR("the message is too long"));
		return;
	}
	v = json_parse(&a, line, &limits, NULL, &e);
	if (v)
		mcp_session_receive(s->session, v, &s->out);
	else
		mcp_session_refuse(&s->out, str_of(e.msg));
}

static void end_of_input(struct stdio *s)
{
	rpc_lines_end(&s->lines, on_line, s);
	s->has_ended = true;
	io_del(&s->in);
	check_end(s);
}

static void on_readable(unsigned ready, void *arg)
{
	struct stdio *s = arg;
	char piece[READ_SIZE];
	ssize_t n;

	(void)ready;
	n = read(s->in_fd, piece, sizeof(piece));
	if (n > 0)
		rpc_lines_feed(&s->lines, (struct str){ piece, (size_t)n }, on_line, s);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		end_of_input(s);
	want(s);
}

static void read_again(void *arg)
{
	on_readable(IO_IN, arg);
}

/* ---- life ---- */

/* Files cannot be waited for, and need not be. */
static int watch(struct stdio *s, struct io *io, int fd, io_fn *fn, bool *is_file, struct err *e)
{
	if (io_add(io, s->engine->loop, fd, 0, fn, s, "mcp stdio", e) == 0)
		return 0;
	*is_file = e->sys == EPERM;
	return *is_file ? 0 : -1;
}

struct stdio *stdio_new(struct engine *en, int in, int out, void (*ended)(void *arg), void *arg, struct err *e)
{
	AUTO(stdio_free) struct stdio *s = calloc(1, sizeof(*s));

	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	s->out = (struct out){
		.send = send_line, .has_room = has_room, .finished = finished, .max = CALL_RESULT_MAX, .left = SIZE_MAX,
	};
	s->engine = en;
	s->in_fd = in;
	s->out_fd = out;
	s->ended = ended;
	s->arg = arg;
	s->lines.held = BUF_INIT(en->limits.message);
	s->waiting = BUF_INIT(OUT_MAX);
	s->session = mcp_session_new(en, e);
	if (!s->session || watch(s, &s->in, in, on_readable, &s->is_file_in, e) < 0 ||
	    watch(s, &s->to, out, on_writable, &s->is_file_out, e) < 0)
		return NULL;
	want(s);
	return take_ptr(&s);
}

void stdio_free(struct stdio *s)
{
	if (!s)
		return;
	mcp_session_free(s->session);
	defer_cancel(&s->again);
	defer_cancel(&s->end);
	io_del(&s->in);
	io_del(&s->to);
	buf_done(&s->lines.held);
	buf_done(&s->waiting);
	free(s);
}
