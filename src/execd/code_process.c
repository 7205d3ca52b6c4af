// SPDX-License-Identifier: Apache-2.0
#include "execd/code_process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "execd/budget.h"
#include "execd/code_driver.h"
#include "execd/code_frame.h"
#include "execd/code_language.h"
#include "execd/code_warm.h"
#include "execd/drain.h"
#include "execd/launch.h"
#include "sys/passing.h"

#include "base/banned.h"

#define IN_BASE ((size_t)4 * 1024)   /* of messages, without a grant */
#define PIPE_BASE ((size_t)2 * 1024) /* of what a pipe gave and nobody has taken yet */
#define SILENT_MS 1000               /* for a process that has closed its socket to end */
#define WARM_MS 3000                 /* for a fork to say that it is there */
#define TURN_STEPS 128               /* of a few KiB each, before others get their turn */
#define IDLE_STEPS 16                /* what says more than this while nothing runs is heard again after a rest */
#define REST_MS 20
#define ARENA_MAX ((size_t)64 * 1024)

struct code_pipe {
	struct code_driver *of;
	int fd; /* -1: at its end */
	struct io io;
	struct buf in;
	bool is_bounded; /* `left` bytes of it still count */
	size_t left;
};

struct code_driver {
	struct code_context *context;
	const struct code_host *host;
	const struct code_spec *spec;
	const struct code_language *language;
	struct child child;
	int state_fd;
	int control; /* -1: it was closed */
	struct io control_io;
	struct code_pipe pipes[2];
	struct timer limit, rest;
	struct deferred again;

	struct buf in; /* of messages */
	size_t granted;
	size_t left;   /* bytes of a message that is being passed on, or skipped */
	char left_type;
	struct buf out; /* code on its way */
	size_t out_at, out_granted;

	bool is_warm;   /* a fork, whose pid its first message tells */
	bool is_up;     /* it was ready once */
	bool is_running, has_begun, wants_interrupt;
	bool is_finishing; /* the run is over but for what is in the pipes */
	bool is_blocked;   /* there is no room for what comes next */
	bool is_resting;   /* it said much that nobody waits for */
	bool is_dead, is_told;
	int status;        /* of a shell's run */
	uint64_t oom_before;
	char words[256];   /* the last of what it wrote before it was ready */
	size_t n_words;
	struct process_end end;
	struct err why;    /* it is of no use any more; or ERR_NONE */
};

static void pump(struct code_driver *d);

static struct loop *loop_of(const struct code_driver *d)
{
	return d->host->host.loop;
}

static struct budget *budget_of(const struct code_driver *d)
{
	return d->host->host.budget;
}

/* ---- messages ---- */

static void in_release(struct code_driver *d)
{
	budget_give(budget_of(d), d->granted);
	d->granted = 0;
	if (d->in.n == 0)
		buf_done(&d->in);
	d->in.max = IN_BASE;
}

/* Room for a message that must be there as a whole. */
static bool in_widen(struct code_driver *d, size_t size)
{
	size_t have = IN_BASE + d->granted;

	if (size > have && !budget_take_spare(budget_of(d), size - have))
		return false;
	d->granted += size > have ? size - have : 0;
	d->in.max = IN_BASE + d->granted;
	return true;
}

/* Nothing more of it is read. */
static bool damage(struct code_driver *d, const struct err *why)
{
	if (d->why.code == ERR_NONE)
		(void)err_set(&d->why, ERR_INVALID, "its messages make no sense: %s", why->msg);
	child_signal(&d->child, SIGKILL);
	return false;
}

static bool tell_value(struct code_driver *d, char type, struct str payload, struct err *e)
{
	struct code_mime mimes[CODE_MIMES_MAX];
	struct code_result r = { .mimes = mimes };
	struct str name, value;
	int more;

	while ((more = code_frame_item(&payload, &name, &value, e)) > 0 && r.n < ARRAY_LEN(mimes)) {
		if (str_eq(name, STR("count")))
			(void)str_to_u64(value, 0, INT64_MAX, &r.count);
		else
			mimes[r.n++] = (struct code_mime){ name, value };
	}
	if (type == 'D')
		r.count = 0;
	return more < 0 || r.n == 0 || code_result(d->context, &r);
}

static bool tell_error(struct code_driver *d, struct str payload, struct err *e)
{
	struct str trace[CODE_TRACE_MAX], name, value;
	struct code_error er = { .name = STR("Error"), .trace = trace };
	int more;

	while ((more = code_frame_item(&payload, &name, &value, e)) > 0) {
		if (str_eq(name, STR("name")))
			er.name = value;
		else if (str_eq(name, STR("value")))
			er.value = value;
		else if (er.n_trace < ARRAY_LEN(trace))
			trace[er.n_trace++] = value;
	}
	return more < 0 || code_error(d->context, &er);
}

static void on_up(struct code_driver *d)
{
	if (d->is_up)
		return;
	d->is_up = true;
	timer_cancel(&d->limit);
	code_ready(d->context);
	if (d->language->can_be_warm && !d->is_warm)
		code_warm_want(d->host->warm, d->spec);
}

/* What is in the pipes now is all that counts. */
static void bound_pipes(struct code_driver *d)
{
	for (int i = 0; i < 2; i++) {
		struct code_pipe *p = &d->pipes[i];
		int there = 0;

		if (p->fd >= 0 && ioctl(p->fd, FIONREAD, &there) < 0)
			there = 0;
		p->is_bounded = true;
		p->left = (size_t)there;
	}
}

static void finish_run(struct code_driver *d, int status)
{
	if (!d->is_running)
		return;
	d->is_finishing = true;
	d->status = status;
	bound_pipes(d);
}

/* A whole message. False: there is no room for what it says. E is set when it makes no sense. */
static bool take_message(struct code_driver *d, char type, struct str payload, struct err *e)
{
	uint64_t status;

	switch (type) {
	case 'H':
		on_up(d);
		return true;
	case 'B':
		d->has_begun = true;
		if (d->wants_interrupt)
			child_signal(&d->child, SIGINT);
		d->wants_interrupt = false;
		return true;
	case 'R':
	case 'D':
		return tell_value(d, type, payload, e);
	case 'X':
		return tell_error(d, payload, e);
	case 'Z':
		finish_run(d, 0);
		return true;
	case 'S':
		if (str_to_u64(payload, 0, 255, &status))
			finish_run(d, (int)status);
		return true;
	case 'N':
		(void)err_set(&d->why, ERR_NOT_FOUND, "%.*s", STR_ARG(str_first(payload, 256)));
		return true;
	default:
		(void)err_set(e, ERR_INVALID, "there is no message '%c'", type);
		return true;
	}
}

static bool is_stream(char type)
{
	return type == 'O' || type == 'E';
}

/* The next piece of a message that is not collected. */
static bool take_piece(struct code_driver *d)
{
	struct str piece = str_first(buf_str(&d->in), d->left);
	size_t n = piece.n;

	if (is_stream(d->left_type))
		n = code_output(d->context, d->left_type == 'E' ? EVENT_STDERR : EVENT_STDOUT, piece);
	buf_consume(&d->in, n);
	d->left -= n;
	d->is_blocked = n < piece.n;
	return n > 0;
}

static void skip(struct code_driver *d, const struct code_frame *f)
{
	char note[96];
	int n = snprintf(note, sizeof(note), "[a result of %zu bytes was left out: there is no memory for it]\n", f->length);

	if (f->type == 'R' || f->type == 'D')
		(void)code_output(d->context, EVENT_STDERR, (struct str){ note, (size_t)n });
	d->left_type = 0;
	d->left = f->length;
}

/* One message, or a piece of one. False: more bytes are needed, or there is no room, or it is over. */
static bool take_next(struct code_driver *d)
{
	struct err e = { 0 };
	struct code_frame f;
	size_t used;
	int r;

	if (d->in.n == 0 || d->is_finishing || d->is_blocked || d->why.code == ERR_INVALID)
		return false;
	if (d->left > 0)
		return take_piece(d);
	r = code_frame_head(buf_str(&d->in), &f, &used, &e);
	if (r <= 0)
		return r < 0 && damage(d, &e);
	if (is_stream(f.type)) {
		buf_consume(&d->in, used);
		d->left_type = f.type;
		d->left = f.length;
		return true;
	}
	if (d->in.n < used + f.length) {
		if (in_widen(d, used + f.length))
			return false;
		buf_consume(&d->in, used);
		skip(d, &f);
		return true;
	}
	if (!take_message(d, f.type, str_first(str_skip(buf_str(&d->in), used), f.length), &e)) {
		d->is_blocked = true;
		return false;
	}
	buf_consume(&d->in, used + f.length);
	in_release(d);
	return e.code == ERR_NONE || damage(d, &e);
}

/* ---- what comes in ---- */

static void start_cold(struct code_driver *d);

static void control_ended(struct code_driver *d)
{
	if (d->is_warm && !d->is_up && !d->child.init && !d->is_dead) {
		start_cold(d);
		return;
	}
	io_del(&d->control_io);
	closep(&d->control);
	d->control = -1;
	if (!d->is_dead)
		timer_in(&d->limit, SILENT_MS);
}

static void on_dead(struct code_driver *d, const struct process_end *end);
static const struct child_ops child_ops;

/* The first message of a fork comes with its pid, which the kernel vouches for. */
static ssize_t read_first(struct code_driver *d, char *p, size_t n)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct err e = { 0 };
	int r = passing_recv(d->control, p, n, 0, &got, &e);

	if (r != PASSING_MESSAGE) {
		errno = EAGAIN;
		return r == PASSING_END ? 0 : -1;
	}
	if (!got.has_sender || got.sender.pid <= 1 || child_adopt(&d->child, d->host->init, got.sender.pid, &child_ops, d, &e) < 0)
		return 0;
	return (ssize_t)got.n;
}

static bool fill_control(struct code_driver *d)
{
	size_t want = d->in.max - d->in.n;
	char *p = d->control >= 0 && want > 0 && !d->is_blocked && !d->is_finishing ? buf_reserve(&d->in, want) : NULL;
	ssize_t n;

	d->in.failed = false;
	if (!p)
		return false;
	n = d->is_warm && !d->child.init && !d->is_up ? read_first(d, p, want) : recv(d->control, p, want, MSG_DONTWAIT);
	if (n > 0) {
		buf_commit(&d->in, (size_t)n);
		return true;
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		control_ended(d);
	if (d->in.n == 0)
		in_release(d);
	return false;
}

/* An interpreter that does not come to life says why. */
static void keep_words(struct code_driver *d, struct str text)
{
	struct str last = str_skip(text, text.n > sizeof(d->words) / 2 ? text.n - sizeof(d->words) / 2 : 0);

	if (d->n_words + last.n > sizeof(d->words)) {
		memmove(d->words, d->words + d->n_words - sizeof(d->words) / 2, sizeof(d->words) / 2);
		d->n_words = sizeof(d->words) / 2;
	}
	memcpy(d->words + d->n_words, last.p, last.n);
	d->n_words += last.n;
}

static bool take_pipe(struct code_driver *d, struct code_pipe *p)
{
	enum event_stream kind = p == &d->pipes[1] ? EVENT_STDERR : EVENT_STDOUT;
	size_t n = p->in.n > 0 ? code_output(d->context, kind, buf_str(&p->in)) : 0;

	if (!d->is_up && n > 0)
		keep_words(d, buf_str(&p->in));
	d->is_blocked = n < p->in.n;
	buf_consume(&p->in, n);
	if (p->in.n == 0)
		buf_done(&p->in);
	return n > 0;
}

static void pipe_ended(struct code_pipe *p)
{
	io_del(&p->io);
	closep(&p->fd);
	p->fd = -1;
	p->left = 0;
}

static bool fill_pipe(struct code_pipe *p)
{
	size_t want = p->is_bounded ? MIN(p->left, PIPE_BASE) : PIPE_BASE;
	char *at = p->fd >= 0 && p->in.n == 0 && want > 0 ? buf_reserve(&p->in, want) : NULL;
	ssize_t n;

	p->in.failed = false;
	if (!at)
		return false;
	n = read(p->fd, at, want);
	if (n > 0) {
		buf_commit(&p->in, (size_t)n);
		p->left -= p->is_bounded ? (size_t)n : 0;
		return true;
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		pipe_ended(p);
	else if (p->is_bounded)
		p->left = 0;
	if (p->in.n == 0)
		buf_done(&p->in);
	return false;
}

static bool step_pipes(struct code_driver *d)
{
	bool any = false;

	for (int i = 0; i < 2 && !d->is_blocked; i++) {
		any |= fill_pipe(&d->pipes[i]);
		any |= take_pipe(d, &d->pipes[i]);
	}
	return any;
}

/* ---- the ends: of a run, of the process ---- */

static bool pipes_are_said(const struct code_driver *d)
{
	for (int i = 0; i < 2; i++)
		if (d->pipes[i].in.n > 0 || (d->pipes[i].fd >= 0 && (!d->pipes[i].is_bounded || d->pipes[i].left > 0)))
			return false;
	return true;
}

/* A shell's run that did not end well is an error of that number. False: no room for it. */
static bool tell_status(struct code_driver *d, const struct process_end *end)
{
	struct end_text trace;
	struct str line = str_of(end_text(end, &trace));
	char number[16];
	struct code_error er = { .name = STR("CommandExecError"), .trace = &line, .n_trace = 1 };
	int n = snprintf(number, sizeof(number), "%d", exit_code_of(end));

	er.value = (struct str){ number, (size_t)n };
	return exit_code_of(end) == 0 || code_error(d->context, &er);
}

static void over(struct code_driver *d)
{
	d->is_running = d->is_finishing = d->has_begun = d->wants_interrupt = false;
	d->pipes[0].is_bounded = d->pipes[1].is_bounded = d->is_dead;
	code_done(d->context);
}

static bool end_run(struct code_driver *d)
{
	if (!d->is_finishing || !pipes_are_said(d))
		return false;
	if (!tell_status(d, &(struct process_end){ .code = d->status })) {
		d->is_blocked = true;
		return false;
	}
	over(d);
	return true;
}

static void let_go(struct code_driver *d)
{
	io_del(&d->control_io);
	closep(&d->control);
	d->control = -1;
	buf_done(&d->in);
	in_release(d);
	buf_done(&d->out);
	budget_give(budget_of(d), d->out_granted);
	d->out_granted = d->out_at = d->left = 0;
	for (int i = 0; i < 2; i++) {
		io_del(&d->pipes[i].io);
		if (d->pipes[i].fd >= 0)
			drains_take(d->host->host.drains, &d->pipes[i].fd);
		d->pipes[i].fd = -1;
		buf_done(&d->pipes[i].in);
	}
}

/* A shell's next run gets a new one that begins where the last run had ended. */
static bool end_shell(struct code_driver *d)
{
	if (d->is_running && !tell_status(d, &d->end)) {
		d->is_blocked = true;
		return false;
	}
	let_go(d);
	d->is_dead = false;
	if (d->is_running)
		over(d);
	return true;
}

/* All that it has said has been told: now that it is gone. */
static bool end_process(struct code_driver *d)
{
	struct end_text text;

	if (!d->is_dead || d->is_told || d->is_blocked || d->is_finishing || d->control >= 0 || !pipes_are_said(d))
		return false;
	if (d->language->keeps_state && d->is_up && d->why.code == ERR_NONE)
		return end_shell(d);
	d->is_told = true;
	if (d->why.code == ERR_NONE && is_killed(&d->end) && leaf_oom_kills(d->host->leaf) > d->oom_before)
		(void)err_set(&d->why, ERR_LIMIT, "%s", end_text(&d->end, &text));
	else if (d->why.code == ERR_NONE && !d->is_up && d->n_words > 0)
		(void)err_set(&d->why, ERR_UNAVAILABLE, "%s: %.*s", end_text(&d->end, &text),
			      STR_ARG(str_trim((struct str){ d->words, d->n_words })));
	else if (d->why.code == ERR_NONE)
		(void)err_set(&d->why, ERR_UNAVAILABLE, "%s", end_text(&d->end, &text));
	code_died(d->context, &d->why);
	return false;
}

/* ---- the loop ---- */

static void on_control(unsigned ready, void *arg)
{
	(void)ready;
	pump(arg);
}

static void on_pipe(unsigned ready, void *arg)
{
	struct code_pipe *p = arg;

	(void)ready;
	pump(p->of);
}

static void on_again(void *arg)
{
	pump(arg);
}

/* Not by asking for nothing: that the other side is gone is told all the time, whether anybody wants to know or not. */
static void watch(struct code_driver *d, struct io *io, int fd, unsigned want, io_fn *fn, void *arg)
{
	struct err e = { 0 };

	if (fd < 0 || want == 0)
		io_del(io);
	else if (io->loop)
		io_want(io, want);
	else if (io_add(io, loop_of(d), fd, want, fn, arg, "code", &e) < 0)
		log_warn("a context is not heard for a while, ignoring", LOG_ERR(&e));
}

static void watch_all(struct code_driver *d)
{
	bool listens = !d->is_blocked && !d->is_finishing && !d->is_resting;

	watch(d, &d->control_io, d->control, (listens ? IO_IN : 0) | (d->out.n > d->out_at ? IO_OUT : 0), on_control, d);
	for (int i = 0; i < 2; i++)
		watch(d, &d->pipes[i].io, d->pipes[i].fd, listens ? IO_IN : 0, on_pipe, &d->pipes[i]);
}

static void send_code(struct code_driver *d)
{
	while (d->control >= 0 && d->out_at < d->out.n) {
		ssize_t n = send(d->control, d->out.p + d->out_at, d->out.n - d->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n <= 0)
			break; /* its end is told when it is read from */
		d->out_at += (size_t)n;
	}
	if (d->out_at < d->out.n && d->control >= 0)
		return;
	buf_done(&d->out);
	d->out_at = 0;
	budget_give(budget_of(d), d->out_granted);
	d->out_granted = 0;
}

/* Messages first; of the pipes only what is left when there are none. */
static bool step(struct code_driver *d)
{
	return take_next(d) || fill_control(d) || step_pipes(d) || end_run(d) || end_process(d);
}

/* What a context says between runs is dropped, at a pace that costs next to no time of ours. */
static void rest(struct code_driver *d)
{
	d->is_resting = true;
	timer_in(&d->rest, REST_MS);
}

static void on_rested(void *arg)
{
	struct code_driver *d = arg;

	d->is_resting = false;
	pump(d);
}

static void pump(struct code_driver *d)
{
	unsigned steps = 0, max = d->is_running || d->is_dead || !d->is_up ? TURN_STEPS : IDLE_STEPS;

	send_code(d);
	while (steps < max && step(d))
		steps++;
	if (steps == max && max == IDLE_STEPS)
		rest(d);
	else if (steps == max)
		defer(&d->again, loop_of(d), on_again, d, "code");
	if (d->is_dead && d->control >= 0 && !d->is_blocked && steps < max) {
		control_ended(d); /* somebody else may hold its other side: nothing of that counts */
		buf_done(&d->in);
		defer(&d->again, loop_of(d), on_again, d, "code");
	}
	watch_all(d);
}

/* ---- the process ---- */

/* A run that was over but for its pipes still ends as such; one that was not is told how it ended, after what it had said. */
static void on_dead(struct code_driver *d, const struct process_end *end)
{
	bool was_over = d->is_finishing;

	if (d->child.pid > 1)
		(void)kill(-d->child.pid, SIGKILL); /* what it ran in its group; just collected, the number is still its own */
	timer_cancel(&d->limit);
	d->is_dead = true;
	d->end = *end;
	if (!was_over)
		bound_pipes(d);
	pump(d);
}

static void on_ended(const struct process_end *end, void *arg)
{
	on_dead(arg, end);
}

static void on_failed(const struct err *why, void *arg)
{
	struct code_driver *d = arg;

	d->why = *why;
	on_dead(d, &(struct process_end){ .code = 127 });
}

static const struct child_ops child_ops = { .failed = on_failed, .ended = on_ended };

static void on_limit(void *arg)
{
	struct code_driver *d = arg;

	if (d->child.init && kill(d->child.pid, SIGKILL) == 0) { /* it has closed its socket: nothing can be said to it any more */
		timer_in(&d->limit, SILENT_MS);
		return;
	}
	if (d->is_warm && !d->is_up && !d->child.init) {
		start_cold(d);
		return;
	}
	child_forget(&d->child); /* it ended before we knew of it */
	on_dead(d, &(struct process_end){ .by_signal = true, .code = SIGKILL });
}

static int start_child(struct code_driver *d, struct err *e)
{
	const struct code_start st = { d->language, d->spec, d->state_fd, &child_ops, d };
	struct code_ends ends;

	if (code_start(&d->child, d->host, &st, &ends, e) < 0)
		return -1;
	d->control = ends.control;
	d->pipes[0].fd = ends.out[0];
	d->pipes[1].fd = ends.out[1];
	d->pipes[0].is_bounded = d->pipes[1].is_bounded = false;
	watch_all(d);
	return 0;
}

/* By a fork of a process that is there already. False: there is none, or it cannot. */
static bool start_warm(struct code_driver *d)
{
	struct code_ends ends;

	if (!d->language->can_be_warm || !code_warm_order(d->host->warm, d->spec, &ends))
		return false;
	d->is_warm = true;
	d->control = ends.control;
	d->pipes[0].fd = ends.out[0];
	d->pipes[1].fd = ends.out[1];
	timer_in(&d->limit, WARM_MS);
	watch_all(d);
	return true;
}

/* A fork that never said that it is there. */
static void start_cold(struct code_driver *d)
{
	struct err e = { 0 };

	code_warm_drop(d->host->warm);
	let_go(d);
	timer_cancel(&d->limit);
	d->is_warm = false;
	if (start_child(d, &e) < 0) {
		d->why = e;
		d->is_dead = true;
		defer(&d->again, loop_of(d), on_again, d, "code");
	}
}

/* ---- as a driver ---- */

static int process_offers(const struct code_host *host, const struct code_spec *sp, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(ARENA_MAX);
	const struct code_language *l = code_language_of(sp->language);

	(void)host;
	(void)e;
	return l && !sp->kernel && code_language_program(l, sp, &a);
}

static void process_end(struct code_driver *d)
{
	child_signal(&d->child, SIGKILL);
	child_forget(&d->child);
	let_go(d);
	closep(&d->state_fd);
	defer_cancel(&d->again);
	timer_done(&d->limit);
	timer_done(&d->rest);
	free(d);
}
DEFINE_AUTO(struct code_driver *, process_end)

static struct code_driver *process_start(struct code_context *c, const struct code_host *host, const struct code_spec *sp, struct err *e)
{
	AUTO(process_end) struct code_driver *d = calloc(1, sizeof(*d));

	if (!d) {
		(void)err_no_memory(e);
		return NULL;
	}
	*d = (struct code_driver){ .context = c, .host = host, .spec = sp, .language = code_language_of(sp->language), .state_fd = -1,
				   .control = -1, .in = BUF_INIT(IN_BASE), .out = BUF_INIT(CODE_TEXT_MAX + 16),
				   .oom_before = leaf_oom_kills(host->leaf) };
	for (int i = 0; i < 2; i++)
		d->pipes[i] = (struct code_pipe){ .of = d, .fd = -1, .in = BUF_INIT(PIPE_BASE) };
	if (timer_init(&d->limit, loop_of(d), on_limit, d, "code process", e) < 0 ||
	    timer_init(&d->rest, loop_of(d), on_rested, d, "code process", e) < 0)
		return NULL;
	if (d->language->keeps_state) {
		d->state_fd = memfd_create("state", MFD_CLOEXEC);
		if (d->state_fd < 0) {
			(void)err_sys(e, errno, "create a file in memory");
			return NULL;
		}
	}
	return start_warm(d) || start_child(d, e) == 0 ? take_ptr(&d) : NULL;
}

static int process_run(struct code_driver *d, struct str code, struct err *e)
{
	if (d->is_running || d->out.n > 0)
		return err_set(e, ERR_INTERNAL, "the process is busy");
	if (!budget_take(budget_of(d), code.n + 17))
		return err_set(e, ERR_UNAVAILABLE, "no room for the code");
	d->out_granted = code.n + 17;
	buf_addf(&d->out, "R%zu\n", code.n);
	buf_add_str(&d->out, code);
	if (d->out.failed || (d->language->keeps_state && !d->child.init && start_child(d, e) < 0)) {
		bool is_full = d->out.failed;

		buf_done(&d->out);
		budget_give(budget_of(d), d->out_granted);
		d->out_granted = 0;
		return is_full ? err_no_memory(e) : -1;
	}
	d->is_running = true;
	d->is_resting = false;
	timer_cancel(&d->rest);
	d->oom_before = leaf_oom_kills(d->host->leaf);
	send_code(d);
	watch_all(d);
	return 0;
}

static void process_interrupt(struct code_driver *d)
{
	if (d->has_begun && !d->is_finishing)
		child_signal(&d->child, SIGINT);
	else if (d->is_running && !d->is_finishing)
		d->wants_interrupt = true;
}

static void process_proceed(struct code_driver *d)
{
	d->is_blocked = false;
	pump(d);
}

const struct code_driver_type code_process = {
	.name = "process",
	.offers = process_offers,
	.start = process_start,
	.run = process_run,
	.interrupt = process_interrupt,
	.proceed = process_proceed,
	.end = process_end,
};
