// SPDX-License-Identifier: Apache-2.0
#include "execd/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "base/uuid.h"
#include "execd/budget.h"
#include "execd/drain.h"
#include "execd/events.h"
#include "execd/init.h"
#include "execd/launch.h"
#include "execd/lines.h"
#include "net/server.h"
#include "net/utf8.h"

#include "base/banned.h"

#define OUT_BATCH ((size_t)4 * 1024)  /* events are collected up to this before they go to the peer */
#define OUT_SLICE ((size_t)16 * 1024) /* and go there in pieces, so that the connection's buffer stays small */
#define PIECE_MIN ((size_t)2 * 1024)  /* text of an event for which there is no grant */
#define EVENT_FRAME 256               /* of an event, around its text */

/* One pipe. Bytes wait in `in`, from `at` on, until they can go out as events. */
struct stream {
	struct command *c;
	enum event_stream kind;
	int fd; /* -1: at its end, or given away */
	struct io io;
	struct buf in;
	size_t at;
	size_t granted;
	struct lines lines;
	bool is_bounded; /* the process has ended: `left` bytes count, what comes after them does not */
	size_t left;
};

struct command {
	struct commands *of;
	struct command *prev, *next;
	struct reply *rp; /* NULL: nobody listens */
	struct child child;
	struct stream streams[2];
	struct buf out; /* events, sent up to out_at */
	size_t out_at, out_granted;
	struct timer ping, timeout;
	struct process_end end;
	uint64_t began_ms;
	uint64_t oom_before;
	bool has_ended;    /* or never began */
	bool has_terminal; /* the last event is in `out` */
	bool is_broken;    /* or would be, if there were memory for it */
	int turn;          /* which stream comes first */
	char id[UUID_HEX_LEN + 1];
	struct err failure; /* why it never began */
};

static void command_pump(struct command *c);

/* ---- the end ---- */

static void stream_release(struct stream *s)
{
	buf_done(&s->in);
	s->at = 0;
	budget_give(s->c->of->budget, s->granted);
	s->granted = 0;
}

/* Whoever else has the pipe may go on writing to it. */
static void stream_give_away(struct stream *s)
{
	io_del(&s->io);
	if (s->fd >= 0)
		drains_take(s->c->of->drains, &s->fd);
}

static void out_release(struct command *c)
{
	buf_done(&c->out);
	c->out.max = COMMAND_OUT_BASE;
	c->out_at = 0;
	budget_give(c->of->budget, c->out_granted);
	c->out_granted = 0;
}

static void command_free(struct command *c)
{
	struct commands *cs = c->of;

	for (int i = 0; i < 2; i++) {
		stream_give_away(&c->streams[i]);
		stream_release(&c->streams[i]);
	}
	out_release(c);
	timer_done(&c->ping);
	timer_done(&c->timeout);
	child_forget(&c->child);
	*(c->prev ? &c->prev->next : &cs->first) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	cs->n--;
	free(c);
}

void commands_done(struct commands *cs)
{
	while (cs->first) {
		if (cs->first->rp)
			reply_abort(cs->first->rp);
		command_free(cs->first);
	}
	random_pool_done(&cs->random);
}

void commands_signal(struct commands *cs, int signo)
{
	for (struct command *c = cs->first; c; c = c->next)
		child_signal(&c->child, signo);
}

/* ---- input ---- */

static size_t stream_capacity(const struct stream *s)
{
	return COMMAND_LINE_BASE + s->granted;
}

/* More room for the input, by the budget's leave. */
static bool stream_widen(struct stream *s, size_t to)
{
	size_t have = stream_capacity(s);

	to = MIN(to, COMMAND_LINE_MAX);
	if (to <= have || !budget_take(s->c->of->budget, to - have))
		return false;
	s->granted += to - have;
	return true;
}

static void stream_compact(struct stream *s)
{
	buf_consume(&s->in, s->at);
	s->at = 0;
	if (s->in.n == 0)
		stream_release(s);
}

/* Nothing more of it counts. */
static void stream_finish(struct stream *s)
{
	s->is_bounded = true;
	s->left = 0;
	stream_give_away(s);
}

static void stream_eof(struct stream *s)
{
	io_del(&s->io);
	closep(&s->fd);
	s->fd = -1;
	stream_finish(s);
}

/* How much to read into S now; 0: it is full. */
static size_t stream_room(struct stream *s)
{
	size_t want;

	stream_compact(s);
	if (s->in.n == 0)
		(void)stream_widen(s, COMMAND_READ);
	else if (s->in.n >= stream_capacity(s))
		(void)stream_widen(s, 2 * stream_capacity(s));
	want = stream_capacity(s) - s->in.n;
	return s->is_bounded ? MIN(want, s->left) : want;
}

/* True when anything came. */
static bool stream_fill(struct stream *s)
{
	size_t room = s->fd >= 0 ? stream_room(s) : 0;
	char *p = NULL;
	ssize_t n;

	if (room == 0)
		return false;
	s->in.max = stream_capacity(s);
	p = buf_reserve(&s->in, room);
	if (!p) { /* no memory: it stays in the pipe until there is some */
		s->in.failed = false;
		return false;
	}
	n = read(s->fd, p, room);
	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			stream_eof(s);
		else if (s->is_bounded) /* somebody who has the pipe as well took what was there */
			s->left = 0;
		if (s->in.n == 0)
			stream_release(s);
		return n == 0;
	}
	buf_commit(&s->in, (size_t)n);
	if (s->is_bounded)
		s->left -= (size_t)n;
	return true;
}

static bool stream_is_over(const struct stream *s)
{
	return s->is_bounded && s->left == 0;
}

/* Nobody listens: what comes is dropped, at full speed while the command runs. */
static void stream_drop(struct stream *s)
{
	struct drains *ds = s->c->of->drains;
	ssize_t n = read(s->fd, ds->scratch, sizeof(ds->scratch));

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		stream_eof(s);
}

static void on_stream(unsigned ready, void *arg)
{
	struct stream *s = arg;

	(void)ready;
	if (!s->c->rp) {
		stream_drop(s);
		return;
	}
	(void)stream_fill(s);
	command_pump(s->c);
}

/* ---- events ---- */

/* Raises the ceiling of the output so that NEED more bytes fit. */
static bool out_widen(struct command *c, size_t need)
{
	size_t to = c->out.n + need, have = COMMAND_OUT_BASE + c->out_granted;

	if (to > have) {
		if (!budget_take(c->of->budget, to - have))
			return false;
		c->out_granted += to - have;
	}
	c->out.max = COMMAND_OUT_BASE + c->out_granted;
	return true;
}

/* Adds the event if it fits into the output. */
static bool out_try(struct command *c, const struct stream *s, struct str text)
{
	size_t before = c->out.n;

	event_text(&c->out, s->kind, text);
	if (!c->out.failed)
		return true;
	c->out.failed = false;
	c->out.n = before;
	return false;
}

/* Returns how many bytes of TEXT an event may have instead, 0 when it was added: most text grows little by being
 * written as JSON, some six times, and an event must not exceed its ceiling. */
static size_t out_event(struct command *c, const struct stream *s, struct str text)
{
	size_t little = text.n + text.n / 8 + EVENT_FRAME, most = 6 * text.n + EVENT_FRAME;

	if (most <= COMMAND_OUT_BASE - c->out.n || out_widen(c, MIN(little, EVENT_MAX))) {
		if (out_try(c, s, text))
			return 0;
		if (out_widen(c, MIN(most, EVENT_MAX)) && out_try(c, s, text))
			return 0;
	}
	return text.n > EVENT_TEXT_MAX && c->out_granted > 0 ? EVENT_TEXT_MAX : PIECE_MIN;
}

/* At most N bytes of TEXT, without half a character at the end. */
static struct str first_piece(struct str text, size_t n)
{
	struct str piece = str_first(text, n);

	for (size_t k = 1; k <= 3 && piece.n < text.n && k < piece.n; k++)
		if (utf8_is_cut(str_skip(piece, piece.n - k)))
			return str_first(piece, piece.n - k);
	return piece;
}

static enum lines_mode stream_mode(const struct stream *s)
{
	if (stream_is_over(s))
		return LINES_LAST;
	return s->in.n - s->at >= stream_capacity(s) && s->at == 0 ? LINES_CUT : LINES_WHOLE;
}

/* Turns the next line of S into an event. False: there is none yet. */
static bool stream_event(struct stream *s)
{
	struct str in = str_skip(buf_str(&s->in), s->at), text;
	struct lines before = s->lines;
	enum lines_mode mode = stream_mode(s);
	size_t used, piece;

	if (mode == LINES_CUT && stream_widen(s, 2 * stream_capacity(s)))
		mode = LINES_WHOLE; /* there is room for more of this line */
	if (!lines_next(&s->lines, in, mode, &text, &used)) {
		s->at += used;
		return false;
	}
	piece = out_event(s->c, s, text);
	if (piece > 0) {
		/* A part of the line; the rest stays where it is. */
		size_t skipped = (size_t)(text.p - in.p);
		struct str part = first_piece(text, piece);

		if (!out_try(s->c, s, part)) {
			part = first_piece(text, PIECE_MIN);
			if (!out_try(s->c, s, part)) {
				s->lines = before; /* for when memory is there again */
				return false;
			}
		}
		s->lines = (struct lines){ .is_continued = true };
		used = skipped + part.n;
	}
	s->at += used;
	return true;
}

/* ---- output ---- */

/* True when all of it has gone to the peer's connection. */
static bool out_flush(struct command *c)
{
	while (c->out_at < c->out.n && reply_room(c->rp) > 0) {
		struct str left = str_skip(buf_str(&c->out), c->out_at);
		struct str slice = str_first(left, OUT_SLICE);

		reply_write(c->rp, slice);
		c->out_at += slice.n;
	}
	if (c->out_at < c->out.n)
		return false;
	out_release(c);
	return true;
}

static bool take_events(struct command *c)
{
	bool any = false;

	c->turn = !c->turn; /* the one that came second goes first */
	for (int i = 0; i < 2; i++)
		while (c->out.n < OUT_BATCH && stream_event(&c->streams[c->turn ^ i]))
			any = true;
	return any;
}

/* What the process had written when it ended comes without waiting for the loop. */
static bool fill_bounded(struct command *c)
{
	bool any = false;

	for (int i = 0; i < 2; i++)
		if (c->streams[i].is_bounded && c->streams[i].left > 0)
			any |= stream_fill(&c->streams[i]);
	return any;
}

static bool is_all_said(const struct command *c)
{
	for (int i = 0; i < 2; i++)
		if (!stream_is_over(&c->streams[i]) || c->streams[i].at < c->streams[i].in.n)
			return false;
	return c->has_ended;
}

static void add_terminal(struct command *c)
{
	uint64_t took_ms = loop_now_ms(c->of->loop) - c->began_ms;
	bool is_oom = c->end.by_signal && c->end.code == SIGKILL && leaf_oom_kills(c->of->leaf) > c->oom_before;

	if (c->failure.code != ERR_NONE)
		event_not_started(&c->out, c->failure.msg);
	else
		event_end(&c->out, &c->end, took_ms, is_oom);
	c->has_terminal = true;
	c->is_broken = c->out.failed;
}

static void command_finish(struct command *c)
{
	if (c->is_broken) /* a stream without its last event must not look whole */
		reply_abort(c->rp);
	else
		reply_end(c->rp);
	command_free(c);
}

/* One thing that can be done while the peer has room. False: nothing but waiting. */
static bool command_step(struct command *c)
{
	if (take_events(c) || fill_bounded(c))
		return true;
	if (c->has_terminal || !is_all_said(c))
		return false;
	add_terminal(c);
	return true;
}

/* Moves what can be moved. C may be gone afterwards. */
static void command_pump(struct command *c)
{
	bool is_free = out_flush(c);

	while (is_free && command_step(c))
		is_free = out_flush(c);
	if (is_free && c->has_terminal) {
		command_finish(c);
		return;
	}
	for (int i = 0; i < 2; i++) {
		struct stream *s = &c->streams[i];

		if (s->fd >= 0 && stream_is_over(s))
			stream_give_away(s);
		if (s->fd >= 0)
			io_want(&s->io, is_free ? IO_IN : 0); /* a full reader makes the command wait */
	}
}

static void on_proceed(void *arg)
{
	command_pump(arg);
}

static void on_reader_gone(void *arg)
{
	struct command *c = arg;

	c->rp = NULL;
	timer_cancel(&c->ping);
	out_release(c);
	if (c->has_ended) {
		command_free(c);
		return;
	}
	for (int i = 0; i < 2; i++) {
		stream_release(&c->streams[i]);
		if (c->streams[i].fd >= 0)
			io_want(&c->streams[i].io, IO_IN);
	}
}

static void on_ping(void *arg)
{
	struct command *c = arg;

	timer_in(&c->ping, COMMAND_PING_MS);
	if (c->out.n > 0 || c->has_terminal) /* a reader who is behind has enough to read */
		return;
	event_ping(&c->out);
	if (c->out.failed)
		out_release(c); /* the next one, then */
	command_pump(c);
}

/* ---- the process ---- */

static void command_over(struct command *c)
{
	c->has_ended = true;
	timer_cancel(&c->timeout);
	if (c->rp)
		command_pump(c);
	else
		command_free(c);
}

static void on_ended(const struct process_end *end, void *arg)
{
	struct command *c = arg;

	c->end = *end;
	for (int i = 0; i < 2; i++) {
		struct stream *s = &c->streams[i];
		int there = 0;

		if (s->fd >= 0 && ioctl(s->fd, FIONREAD, &there) < 0)
			there = 0;
		if (!s->is_bounded)
			s->left = (size_t)there;
		s->is_bounded = true;
	}
	log_debug("command ended", LOG_S("id", c->id), LOG_D("exit_code", exit_code_of(end)));
	command_over(c);
}

static void on_failed(const struct err *why, void *arg)
{
	struct command *c = arg;

	c->failure = *why;
	for (int i = 0; i < 2; i++)
		stream_finish(&c->streams[i]);
	log_info("a command could not be started", LOG_S("id", c->id), LOG_ERR(why));
	command_over(c);
}

static void on_timeout(void *arg)
{
	struct command *c = arg;

	child_signal(&c->child, SIGKILL);
}

static const struct child_ops child_ops = { .failed = on_failed, .ended = on_ended };

/* ---- the start ---- */

static int stream_open(struct stream *s, struct command *c, enum event_stream kind, int *ret_write, struct err *e)
{
	int ends[2];

	s->c = c;
	s->kind = kind;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "create a pipe");
	s->fd = ends[0];
	*ret_write = ends[1];
	if (fcntl(s->fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, errno, "make a pipe non-blocking");
	return io_add(&s->io, c->of->loop, s->fd, IO_IN, on_stream, s, "command output", e);
}

static int command_spawn(struct command *c, const struct command_spec *cmd, struct err *e)
{
	AUTO_FD out = -1;
	AUTO_FD err = -1;
	struct spawn_spec sp = SPAWN_INIT(cmd->path, cmd->argv);
	struct launch launch = { .leaf = c->of->leaf, .as = cmd->as, .cwd_fd = cmd->cwd_fd };

	if (stream_open(&c->streams[0], c, EVENT_STDOUT, &out, e) < 0 ||
	    stream_open(&c->streams[1], c, EVENT_STDERR, &err, e) < 0)
		return -1;
	sp.envp = cmd->envp;
	sp.out = out;
	sp.err = err;
	sp.new_session = true;
	sp.setup = launch_setup;
	sp.setup_arg = &launch;
	return child_start(&c->child, c->of->init, &sp, &child_ops, c, e);
}

static struct command *command_new(struct commands *cs, struct err *e)
{
	struct command *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)err_no_memory(e);
		return NULL;
	}
	c->of = cs;
	c->out = BUF_INIT(COMMAND_OUT_BASE);
	c->began_ms = loop_now_ms(cs->loop);
	c->oom_before = leaf_oom_kills(cs->leaf);
	for (int i = 0; i < 2; i++)
		c->streams[i] = (struct stream){ .c = c, .fd = -1 };
	c->next = cs->first;
	if (c->next)
		c->next->prev = c;
	cs->first = c;
	cs->n++;
	if (timer_init(&c->ping, cs->loop, on_ping, c, "command ping", e) < 0 ||
	    timer_init(&c->timeout, cs->loop, on_timeout, c, "command timeout", e) < 0 ||
	    uuid_hex32(&cs->random, c->id, e) < 0) {
		command_free(c);
		return NULL;
	}
	return c;
}

int command_run(struct commands *cs, const struct command_spec *sp, struct reply *rp, struct err *e)
{
	static const struct reply_source source = { .proceed = on_proceed, .stop = on_reader_gone };
	struct command *c;

	if (cs->n >= cs->max)
		return err_set(e, ERR_LIMIT, "%u commands are running", cs->n);
	c = command_new(cs, e);
	if (!c)
		return -1;
	event_init(&c->out, str_of(c->id));
	event_ping(&c->out);
	if (c->out.failed ? err_no_memory(e) < 0 : reply_event_stream(rp, &source, c, e) < 0) {
		command_free(c);
		return -1;
	}
	c->rp = rp;
	timer_in(&c->ping, COMMAND_PING_MS);
	if (sp->timeout_ms > 0)
		timer_in(&c->timeout, sp->timeout_ms);
	if (command_spawn(c, sp, &c->failure) < 0) {
		for (int i = 0; i < 2; i++)
			stream_finish(&c->streams[i]);
		c->has_ended = true; /* the stream says so when it proceeds */
	}
	return 0;
}
