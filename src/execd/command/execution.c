// SPDX-License-Identifier: Apache-2.0
#include "execd/command/execution.h"

#include "base/own.h"
#include "execd/budget.h"
#include "execd/io/drain.h"
#include "execd/io/events.h"
#include "net/http/server.h"

#include "base/banned.h"

static void pump(struct execution *x);

/* ---- output ---- */

/* Turns the next line of S into an event. False: there is none yet. */
static bool take_event(struct execution *x, struct stream *s)
{
	struct stream_text t;
	size_t n;

	if (!stream_next(s, &t))
		return false;
	n = outbox_text(&x->out, s->kind, t.text, &x->stamp);
	if (n == t.text.n)
		stream_use(s, &t);
	else if (n > 0) /* a part of the line; the rest stays where it is */
		stream_use_part(s, &t, n);
	else /* for when memory is there again */
		stream_put_back(s, &t);
	return n > 0;
}

static bool take_events(struct execution *x)
{
	bool any = false;

	event_stamp(&x->stamp);
	x->turn = !x->turn; /* the one that came second goes first */
	for (int i = 0; i < 2; i++)
		while (x->out.b.n < OUTBOX_BATCH && take_event(x, &x->streams[x->turn ^ i]))
			any = true;
	return any;
}

/* What was written before the end comes without waiting for the loop. */
static bool fill_bounded(struct execution *x)
{
	bool any = false;

	for (int i = 0; i < 2; i++)
		if (x->streams[i].is_bounded && x->streams[i].left > 0)
			any |= stream_fill(&x->streams[i]);
	return any;
}

static bool is_all_said(const struct execution *x)
{
	return x->has_ended && stream_is_said(&x->streams[0]) && stream_is_said(&x->streams[1]);
}

static uint64_t execution_took_ms(const struct execution *x)
{
	return loop_now_ms(x->host->loop) - x->began_ms;
}

static void add_terminal(struct execution *x)
{
	if (x->failure.code != ERR_NONE)
		event_not_started(&x->out.b, x->failure.msg);
	else
		event_end(&x->out.b, &x->end, execution_took_ms(x), x->is_oom);
	x->has_terminal = true;
	x->is_broken = x->out.b.failed;
}

static void finish(struct execution *x)
{
	struct reply *rp = x->rp;

	x->rp = NULL;
	timer_cancel(&x->ping);
	if (x->is_broken) /* a stream without its last event must not look whole */
		reply_abort(rp);
	else
		reply_end(rp);
	x->done(x->arg);
}

/* One thing that can be done while the peer has room. False: nothing but waiting. */
static bool step(struct execution *x)
{
	if (take_events(x) || fill_bounded(x))
		return true;
	if (x->has_terminal || !is_all_said(x))
		return false;
	add_terminal(x);
	return true;
}

/* Moves what can be moved. X may be gone afterwards. */
static void pump(struct execution *x)
{
	bool is_free = outbox_flush(&x->out, x->rp);

	while (is_free && step(x))
		is_free = outbox_flush(&x->out, x->rp);
	if (is_free && x->has_terminal) {
		finish(x);
		return;
	}
	if (is_free)
		outbox_release(&x->out); /* there may be nothing more for hours */
	for (int i = 0; i < 2; i++) {
		struct stream *s = &x->streams[i];

		if (s->fd >= 0)
			stream_watch(s, x->host->loop, is_free && !stream_is_over(s)); /* a full reader makes the program wait */
	}
}

static void on_proceed(void *arg)
{
	pump(arg);
}

/* Nobody listens: what comes is only kept, at full speed while the program runs. */
static void on_reader_gone(void *arg)
{
	struct execution *x = arg;

	x->rp = NULL;
	timer_cancel(&x->ping);
	outbox_release(&x->out);
	for (int i = 0; i < 2; i++) {
		stream_forget(&x->streams[i]);
		if (x->streams[i].fd >= 0)
			stream_watch(&x->streams[i], x->host->loop, true);
	}
	if (x->has_ended)
		x->done(x->arg);
	else if (x->gone)
		x->gone(x->arg);
}

static void on_ping(void *arg)
{
	struct execution *x = arg;

	timer_in(&x->ping, EXECUTION_PING_MS);
	if (x->out.b.n > 0 || x->has_terminal) /* a reader who is behind has enough to read */
		return;
	event_ping(&x->out.b);
	if (x->out.b.failed)
		outbox_release(&x->out); /* the next one, then */
	pump(x);
}

static void on_stream(struct execution *x, struct stream *s)
{
	if (!x->rp) {
		stream_drop(s);
		if (x->lingers && x->streams[0].fd < 0 && x->streams[1].fd < 0)
			x->done(x->arg);
		return;
	}
	(void)stream_fill(s);
	pump(x);
}

static void on_stdout(unsigned ready, void *arg)
{
	struct execution *x = arg;

	(void)ready;
	on_stream(x, &x->streams[0]);
}

static void on_stderr(unsigned ready, void *arg)
{
	struct execution *x = arg;

	(void)ready;
	on_stream(x, &x->streams[1]);
}

/* ---- begin and end ---- */

int execution_begin_unheard(struct execution *x, const struct execution_host *host, struct tail_file *tail,
			    struct err *e)
{
	*x = (struct execution){ .host = host, .out = OUTBOX_INIT(host->budget), .began_ms = loop_now_ms(host->loop) };
	for (int i = 0; i < 2; i++)
		x->streams[i] = (struct stream){ .kind = i == 0 ? EVENT_STDOUT : EVENT_STDERR, .budget = host->budget,
						 .drains = host->drains, .tail = tail, .fd = -1,
							 .is_bounded = true };
	return timer_init(&x->ping, host->loop, on_ping, x, "execution ping", e);
}

int execution_begin(struct execution *x, const struct execution_host *host, struct str id,
		    struct tail_file *tail, struct reply *rp,
		    struct err *e)
{
	static const struct reply_source source = { .proceed = on_proceed, .stop = on_reader_gone };

	if (execution_begin_unheard(x, host, tail, e) < 0)
		return -1;
	event_init(&x->out.b, id);
	event_ping(&x->out.b);
	if (x->out.b.failed ? err_no_memory(e) < 0 : reply_event_stream(rp, &source, x, e) < 0)
		return -1;
	x->rp = rp;
	timer_in(&x->ping, EXECUTION_PING_MS);
	return 0;
}

int execution_pipe(struct execution *x, int which, int fd, struct err *e)
{
	struct stream *s = &x->streams[which];

	s->is_bounded = false;
	return stream_open(s, x->host->loop, fd, which == 0 ? on_stdout : on_stderr, x, e);
}

/* What was in the pipes when it ended is kept also when nobody listens. */
static void collect_unheard(struct execution *x)
{
	for (int i = 0; i < 2; i++)
		while (x->streams[i].left > 0 && stream_fill(&x->streams[i]))
			stream_forget(&x->streams[i]);
}

static void over(struct execution *x)
{
	x->has_ended = true;
	if (x->rp) {
		pump(x);
		return;
	}
	collect_unheard(x);
	x->done(x->arg);
}

void execution_end(struct execution *x, const struct process_end *end, bool is_oom)
{
	x->end = *end;
	x->is_oom = is_oom;
	for (int i = 0; i < 2; i++)
		stream_bound(&x->streams[i]);
	over(x);
}

void execution_fail_later(struct execution *x, const struct err *why)
{
	x->failure = *why;
	for (int i = 0; i < 2; i++)
		stream_finish(&x->streams[i]);
	x->has_ended = true;
}

void execution_fail(struct execution *x, const struct err *why)
{
	execution_fail_later(x, why);
	over(x);
}

void execution_done(struct execution *x)
{
	if (!x->host)
		return;
	if (x->rp)
		reply_abort(x->rp);
	x->rp = NULL;
	for (int i = 0; i < 2; i++)
		stream_done(&x->streams[i]);
	outbox_release(&x->out);
	timer_done(&x->ping);
}
