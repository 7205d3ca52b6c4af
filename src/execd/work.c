// SPDX-License-Identifier: Apache-2.0
#include "execd/work.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "execd/execd.h"
#include "execd/task.h"
#include "net/conduit.h"
#include "sys/fd.h"

#include "base/banned.h"

#define JSON_STEP ((size_t)16 * 1024) /* what a body takes of the budget at a time */
#define PULL_MAX ((size_t)16 * 1024)
#define AGAIN_MS 20

struct work {
	struct workers *ws;
	struct work *all_prev, *all_next;
	struct work *next; /* in line */
	const struct work_spec *spec;
	struct request *rq;
	struct reply *rp; /* NULL: answered, or the peer is gone */
	bool is_waiting, is_running, is_streaming;
	bool is_fed;      /* the whole body has arrived */
	bool is_wide;     /* what arrives is passed to the child */
	uint64_t tried_ms; /* when it could not be started for the first time; 0: not yet */
	struct buf body;  /* JSON; or what an upload's child has not taken yet */
	size_t granted;
	int in, out, go;
	struct io in_io, out_io;
	struct child child;
	struct timer deadline;
	struct work_head head;
	size_t head_n;
	uint64_t left; /* of a sized body */
	bool is_drained, has_succeeded;
};

static void pump(struct workers *ws);

/* ---- life ---- */

static void close_io(struct io *io, int *fd)
{
	io_del(io);
	closep(fd);
	*fd = -1;
}

static void work_free(struct work *w)
{
	struct workers *ws = w->ws;

	close_io(&w->in_io, &w->in);
	close_io(&w->out_io, &w->out);
	closep(&w->go);
	timer_done(&w->deadline);
	child_forget(&w->child);
	budget_give(ws->budget, w->granted);
	buf_done(&w->body);
	*(w->all_prev ? &w->all_prev->all_next : &ws->all) = w->all_next;
	if (w->all_next)
		w->all_next->all_prev = w->all_prev;
	free(w);
}

static void leave_line(struct work *w)
{
	struct work_line *line = &w->ws->lines[w->spec->class];
	struct work *before = NULL;

	for (struct work *at = line->first; at != w; at = at->next)
		before = at;
	*(before ? &before->next : &line->first) = w->next;
	if (line->last == w)
		line->last = before;
	w->next = NULL;
	w->is_waiting = false;
}

/* Its process has ended, or it never got one, and all that it said has been read. */
static void finish(struct work *w)
{
	struct reply *rp = w->rp;
	bool is_whole = w->has_succeeded && (w->left == 0 || w->left == REPLY_UNSIZED);

	w->rp = NULL;
	if (rp && w->is_streaming && is_whole)
		reply_end(rp);
	else if (rp && w->is_streaming)
		reply_abort(rp);
	else if (rp)
		(void)reply_error(rp, 500, CODE_RUNTIME, "the operation was ended before it was done");
	work_free(w);
}

static void finish_if_over(struct work *w)
{
	if (!w->is_running && (w->is_drained || w->out < 0))
		finish(w);
}

/* The peer is gone. */
static void abandon(void *arg)
{
	struct work *w = arg;
	bool is_cut = w->spec->class == WORK_UPLOAD && !w->is_fed;

	w->rp = NULL;
	if (!w->is_running) {
		if (w->is_waiting)
			leave_line(w);
		work_free(w);
		return;
	}
	if (w->spec->class == WORK_READ)
		child_signal(&w->child, SIGKILL);
	close_io(&w->out_io, &w->out);
	if (is_cut) /* the end of the pipe without GO: the child drops what it has */
		close_io(&w->in_io, &w->in);
}

/* ---- the answer ---- */

static void set_deadline(struct work *w, uint64_t ms)
{
	timer_in(&w->deadline, ms + WORK_KILL_MS);
}

/* The child waits for the peer then, which is not counted against it; the server minds the peer. */
static void wait_for_peer(struct work *w)
{
	io_want(&w->out_io, 0);
	timer_cancel(&w->deadline);
}

static void on_proceed(void *arg)
{
	struct work *w = arg;

	io_want(&w->out_io, IO_IN);
	if (w->is_running)
		set_deadline(w, WORK_READ_MS);
}

static const struct reply_source source = { .proceed = on_proceed, .stop = abandon };

static void begin_body(struct work *w)
{
	const char *type = w->head.answer == WORK_JSON ? "application/json; charset=utf-8" : "text/plain; charset=utf-8";
	struct err e = { 0 };

	if (reply_stream(w->rp, w->head.status, type, w->head.length, &source, w, &e) < 0) {
		(void)reply_error(take_ptr(&w->rp), 503, CODE_RUNTIME, "%s", e.msg);
		return;
	}
	w->is_streaming = true;
	w->left = w->head.length;
}

/* The head is complete. */
static void answer(struct work *w)
{
	struct work_head *h = &w->head;

	h->code[sizeof(h->code) - 1] = h->message[sizeof(h->message) - 1] = '\0';
	if (h->answer == WORK_EMPTY)
		(void)reply_empty(take_ptr(&w->rp), h->status);
	else if (h->answer == WORK_ERROR)
		(void)reply_error(take_ptr(&w->rp), h->status, h->code, "%s", h->message);
	else
		begin_body(w);
}

static void pass_on(struct work *w, struct str bytes)
{
	if (w->left != REPLY_UNSIZED && bytes.n > w->left) {
		reply_abort(take_ptr(&w->rp)); /* more than was promised: a defect of ours */
		return;
	}
	if (w->left != REPLY_UNSIZED)
		w->left -= bytes.n;
	reply_write(w->rp, bytes);
	if (reply_room(w->rp) == 0)
		wait_for_peer(w);
}

/* Reads a piece: of the head, of a body, or of what nobody wants. False when there was nothing. */
static bool pull(struct work *w)
{
	bool is_head = w->head_n < sizeof(w->head);
	char piece[PULL_MAX], *to = is_head ? (char *)&w->head + w->head_n : piece;
	size_t room = is_head ? sizeof(w->head) - w->head_n : w->is_streaming && w->rp ? reply_room(w->rp) : PULL_MAX;
	ssize_t n = read(w->out, to, MIN(room, PULL_MAX));

	if (n < 0)
		return false;
	if (n == 0) {
		w->is_drained = true;
		close_io(&w->out_io, &w->out);
		return false;
	}
	if (is_head) {
		w->head_n += (size_t)n;
		if (w->head_n == sizeof(w->head) && w->rp)
			answer(w);
	} else if (w->is_streaming && w->rp) {
		pass_on(w, (struct str){ piece, (size_t)n });
	}
	return true;
}

static void on_out(unsigned ready, void *arg)
{
	struct work *w = arg;

	(void)ready;
	if (w->is_streaming && w->rp && reply_room(w->rp) == 0) {
		wait_for_peer(w);
		return;
	}
	(void)pull(w);
	if (w->is_drained)
		finish_if_over(w);
}

/* ---- the process ---- */

static void stop_running(struct work *w)
{
	struct workers *ws = w->ws;

	w->is_running = false;
	ws->lines[w->spec->class].running--;
	timer_cancel(&w->deadline);
	close_io(&w->in_io, &w->in);
	finish_if_over(w);
	pump(ws);
}

static void on_ended(const struct process_end *end, void *arg)
{
	struct work *w = arg;

	w->has_succeeded = !end->by_signal && end->code == 0;
	stop_running(w);
}

static void on_failed(const struct err *why, void *arg)
{
	struct work *w = arg;

	log_warn("a worker could not start", LOG_ERR(why));
	if (w->rp)
		(void)reply_error(take_ptr(&w->rp), 503, CODE_RUNTIME, "no process for this request: %s", why->msg);
	close_io(&w->out_io, &w->out);
	stop_running(w);
}

static void on_deadline(void *arg)
{
	struct work *w = arg;

	log_warn("a worker took too long", LOG_S("route", w->rq && w->rp ? w->rq->route->path : "abandoned"));
	child_signal(&w->child, SIGKILL);
}

static const struct child_ops ops = { .failed = on_failed, .ended = on_ended };

/* Of a smaller size than usual: what is in the pipe to a child counts as ours. */
static int make_pipe(int *rd, int *wr, int *nonblocking, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "create a pipe");
	*rd = ends[0];
	*wr = ends[1];
	(void)fcntl(*wr, F_SETPIPE_SZ, WORK_PIPE);
	return fd_set_nonblock(*nonblocking, true, e);
}

static void on_in(unsigned ready, void *arg);

/* What the child is made from; its own side of the pipes is closed here when it has them. */
static int start(struct work *w, struct err *e)
{
	AUTO_FD in = -1;
	AUTO_FD out = -1;
	static char *argv[] = { NULL };
	struct spawn_spec sp = SPAWN_INIT("", argv);
	struct task_start ts = { w->ws->config, w->rq, buf_str(&w->body), w->spec };
	struct spawn_fd go;
	bool has_body = w->spec->class == WORK_UPLOAD;

	if (make_pipe(&w->out, &out, &w->out, e) < 0)
		return -1;
	if (has_body) {
		w->go = event_open(e);
		if (w->go < 0 || make_pipe(&in, &w->in, &w->in, e) < 0)
			return -1;
		go = (struct spawn_fd){ w->go, WORK_GO_FD };
		sp.fds = &go;
		sp.n_fds = 1;
	}
	sp.in = in;
	sp.out = out;
	sp.err = STDERR_FILENO;
	sp.new_session = true;
	sp.death_signal = SIGKILL;
	sp.setup = task_run;
	sp.setup_arg = &ts;
	if (io_add(&w->out_io, w->ws->loop, w->out, IO_IN, on_out, w, "worker output", e) < 0 ||
	    (has_body && io_add(&w->in_io, w->ws->loop, w->in, 0, on_in, w, "worker input", e) < 0))
		return -1;
	return child_start(&w->child, w->ws->init, &sp, &ops, w, e);
}

static void undo_start(struct work *w)
{
	close_io(&w->in_io, &w->in);
	close_io(&w->out_io, &w->out);
	closep(&w->go);
	w->go = -1;
}

static void started(struct work *w)
{
	leave_line(w);
	w->is_running = true;
	w->ws->lines[w->spec->class].running++;
	if (w->spec->class == WORK_UPLOAD) {
		request_resume(w->rq);
		return;
	}
	set_deadline(w, w->spec->class == WORK_READ ? WORK_READ_MS : WORK_CHANGE_MS);
	buf_done(&w->body); /* the child has its copy */
	budget_give(w->ws->budget, w->granted);
	w->granted = 0;
}

/* Only what runs holds a part of the budget for its feed. */
static int take_feed(struct work *w, struct err *e)
{
	if (w->spec->class != WORK_UPLOAD || w->granted > 0)
		return 0;
	if (!budget_take(w->ws->budget, WORK_FEED))
		return err_sys(e, ENOMEM, "no room for another upload");
	w->granted = WORK_FEED;
	return 0;
}

static bool may_try_again(struct work *w, int sys)
{
	uint64_t now = loop_now_ms(w->ws->loop);

	if (w->tried_ms == 0)
		w->tried_ms = now;
	return (sys == EAGAIN || sys == EMFILE || sys == ENFILE || sys == ENOMEM) && now < w->tried_ms + WORK_START_MS;
}

/* 1: started, 0: later, -1. */
static int try_start(struct work *w, struct err *e)
{
	if (take_feed(w, e) == 0 && start(w, e) == 0) {
		started(w);
		return 1;
	}
	undo_start(w);
	return may_try_again(w, e->sys) ? 0 : -1;
}

static void pump_line(struct workers *ws, struct work_line *line, unsigned max)
{
	while (line->first && line->running < max) {
		struct work *w = line->first;
		struct err e = { 0 };
		int r = try_start(w, &e);

		if (r == 0) {
			timer_in(&ws->again, AGAIN_MS);
			return;
		}
		if (r < 0) {
			log_warn("no worker for a request", LOG_ERR(&e));
			leave_line(w);
			(void)reply_error(take_ptr(&w->rp), 503, CODE_RUNTIME, "no process for this request");
			work_free(w);
		}
	}
}

static void pump(struct workers *ws)
{
	static const unsigned max[] = {
		[WORK_READ] = WORK_READS_MAX,
		[WORK_CHANGE] = WORK_CHANGES_MAX,
		[WORK_UPLOAD] = WORK_UPLOADS_MAX,
	};

	for (size_t i = 0; i < WORK_CLASSES; i++)
		pump_line(ws, &ws->lines[i], max[i]);
}

static void on_again(void *arg)
{
	pump(arg);
}

static void join_line(struct work *w)
{
	struct work_line *line = &w->ws->lines[w->spec->class];

	w->is_waiting = true;
	*(line->last ? &line->last->next : &line->first) = w;
	line->last = w;
	pump(w->ws);
}

/* ---- a body of JSON ---- */

static int on_json(struct str piece, void *arg, struct err *e)
{
	struct work *w = arg;
	size_t need = 2 * (w->body.n + piece.n), more; /* the buffer may double when it grows */

	more = need > w->granted ? (need - w->granted + JSON_STEP - 1) / JSON_STEP * JSON_STEP : 0;
	if (!budget_take(w->ws->budget, more))
		more = 0;
	w->granted += more;
	if (w->granted >= need && buf_add_str(&w->body, piece))
		return 0;
	work_free(w);
	return err_set(e, ERR_UNAVAILABLE, "no room for the body");
}

static int on_json_end(void *arg, struct err *e)
{
	struct work *w = arg;

	(void)e;
	(void)reply_hold(w->rp, abandon, w);
	join_line(w);
	return 0;
}

static const struct body_sink json_sink = { .data = on_json, .end = on_json_end, .stop = abandon };

/* ---- a body of files ---- */

static void end_feed(struct work *w)
{
	event_raise(w->go);
	close_io(&w->in_io, &w->in);
	set_deadline(w, WORK_CHANGE_MS);
}

/* The child takes no more: it has answered, or has died. What still comes is of no use. */
static void drop_feed(struct work *w)
{
	close_io(&w->in_io, &w->in);
	buf_clear(&w->body);
}

/* True when all that there is has been taken. */
static bool feed(struct work *w, struct str *bytes)
{
	while (bytes->n > 0 && w->in >= 0) {
		ssize_t n = write(w->in, bytes->p, bytes->n);

		if (n < 0 && errno == EAGAIN)
			return false;
		if (n < 0)
			drop_feed(w);
		else
			*bytes = str_skip(*bytes, (size_t)n);
	}
	return true;
}

static void on_in(unsigned ready, void *arg)
{
	struct work *w = arg;
	struct str rest = buf_str(&w->body);

	(void)ready;
	if (!feed(w, &rest)) {
		buf_consume(&w->body, w->body.n - rest.n);
		return;
	}
	buf_clear(&w->body);
	if (w->in < 0)
		return;
	io_want(&w->in_io, 0);
	if (w->is_fed)
		end_feed(w);
	else if (w->rp)
		request_resume(w->rq);
}

static int on_files(struct str piece, void *arg, struct err *e)
{
	struct work *w = arg;

	if (feed(w, &piece))
		return 0;
	if (!buf_add_str(&w->body, piece)) {
		w->rp = NULL; /* the error is the answer */
		abandon(w);
		return err_no_memory(e);
	}
	io_want(&w->in_io, IO_OUT);
	request_pause(w->rq);
	return 0;
}

static bool is_full(int pipe)
{
	struct pollfd p = { .fd = pipe, .events = POLLOUT };

	return poll(&p, 1, 0) == 0;
}

/* Pages go from the socket to the child's pipe as they are. They were never ours, so that more of them may be on the way. */
static ssize_t on_files_pass(int fd, uint64_t left, void *arg)
{
	struct work *w = arg;
	ssize_t n = -1;

	if (w->in >= 0 && w->body.n == 0)
		n = splice_now(fd, w->in, (size_t)MIN(left, (uint64_t)WORK_WIDE_PIPE));
	else
		errno = ENOTSUP;
	if (n > 0 && !w->is_wide) {
		(void)fcntl(w->in, F_SETPIPE_SZ, WORK_WIDE_PIPE);
		w->is_wide = true;
	}
	if (n >= 0)
		return n;
	if (errno == EAGAIN && is_full(w->in)) {
		io_want(&w->in_io, IO_OUT);
		request_pause(w->rq);
		errno = EAGAIN;
	} else if (errno != EAGAIN) { /* a child that takes no more, above all: the rest is dropped by on_files() */
		errno = ENOTSUP;
	}
	return -1;
}

static int on_files_end(void *arg, struct err *e)
{
	struct work *w = arg;

	(void)e;
	w->is_fed = true;
	(void)reply_hold(w->rp, abandon, w);
	if (w->body.n == 0 && w->in >= 0)
		end_feed(w);
	return 0;
}

static const struct body_sink files_sink = {
	.data = on_files, .end = on_files_end, .stop = abandon, .pass = on_files_pass,
};

/* ---- requests ---- */

static struct work *work_new(struct workers *ws, const struct work_spec *spec, struct request *rq, struct reply *rp,
			     struct err *e)
{
	struct work *w = calloc(1, sizeof(*w));

	if (!w || timer_init(&w->deadline, ws->loop, on_deadline, w, "worker deadline", e) < 0) {
		free(w);
		(void)err_no_memory(e);
		return NULL;
	}
	w->ws = ws;
	w->spec = spec;
	w->rq = rq;
	w->rp = rp;
	w->body = BUF_INIT(spec->has_json ? (size_t)WORK_JSON_MAX : 2 * WORK_FEED);
	w->in = w->out = w->go = -1;
	w->all_next = ws->all;
	if (w->all_next)
		w->all_next->all_prev = w;
	ws->all = w;
	return w;
}

int work_begin(struct workers *ws, const struct work_spec *spec, struct request *rq, struct reply *rp, struct err *e)
{
	struct work *w = work_new(ws, spec, rq, rp, e);

	if (!w)
		return -1;
	if (spec->has_json) {
		request_read(rq, &json_sink, w);
	} else if (spec->class == WORK_UPLOAD) {
		request_read(rq, &files_sink, w);
		request_pause(rq);
		join_line(w);
	} else {
		(void)reply_hold(rp, abandon, w);
		join_line(w);
	}
	return 0;
}

int workers_init(struct workers *ws, struct err *e)
{
	return timer_init(&ws->again, ws->loop, on_again, ws, "workers", e);
}

void workers_done(struct workers *ws)
{
	while (ws->all) {
		child_signal(&ws->all->child, SIGKILL);
		work_free(ws->all);
	}
	timer_done(&ws->again);
}
