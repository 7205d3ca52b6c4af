// SPDX-License-Identifier: Apache-2.0
#include "execd/code/code_run.h"

#include <stdio.h>

#include "base/own.h"
#include "execd/budget.h"
#include "execd/io/events.h"
#include "net/http/server.h"
#include "net/utf8.h"

#include "base/banned.h"

#define FRAME 512             /* of a result or an error, around what it consists of */
#define NAME_SHORT 128        /* what is left of an error for which there is no room */
#define VALUE_SHORT 1024

/* ---- output ---- */

/* How much of what was collected makes an event: half a character waits for its other half. */
static size_t whole_text(const struct code_run *r, bool is_last)
{
	struct str s = buf_str(&r->text);

	for (size_t k = 1; !is_last && k <= 3 && k <= s.n; k++)
		if (utf8_is_cut(str_skip(s, s.n - k)))
			return s.n - k;
	return s.n;
}

/* Makes events of what was collected. False: the reader, or memory, must be waited for. */
static bool text_out(struct code_run *r, bool is_last)
{
	struct event_stamp stamp;
	size_t n;

	if (r->text.n == 0)
		return outbox_flush(&r->out, r->rp);
	event_stamp(&stamp);
	r->flushed_ms = loop_now_ms(r->host->loop);
	while ((n = whole_text(r, is_last)) > 0) {
		size_t used = outbox_flush(&r->out, r->rp) ? outbox_text(&r->out, r->text_kind, str_first(buf_str(&r->text), n), &stamp) : 0;

		if (used == 0)
			return false;
		buf_consume(&r->text, used);
	}
	return outbox_flush(&r->out, r->rp);
}

static void pump(struct code_run *r);

static void on_flush(void *arg)
{
	pump(arg);
}

static void flush_soon(struct code_run *r)
{
	defer(&r->flush, r->host->loop, on_flush, r, "code output");
}

/* A program that writes line by line is not told line by line. */
static void flush_later(struct code_run *r)
{
	if (loop_now_ms(r->host->loop) - r->flushed_ms >= CODE_RUN_GATHER_MS)
		flush_soon(r);
	else if (r->soon.at == 0)
		timer_set(&r->soon, r->flushed_ms + CODE_RUN_GATHER_MS);
}

static bool is_unheard(const struct code_run *r)
{
	return !r->rp || r->has_ended;
}

size_t code_run_output(struct code_run *r, enum event_stream kind, struct str bytes)
{
	size_t taken = 0;

	if (is_unheard(r))
		return bytes.n;
	if (r->text.n > 0 && kind != r->text_kind && (!text_out(r, true) || r->text.n > 0)) {
		r->is_blocked = true;
		return 0;
	}
	r->text_kind = kind;
	while (taken < bytes.n) {
		size_t n = MIN(CODE_RUN_TEXT - r->text.n, bytes.n - taken);

		if (n == 0 ? !text_out(r, false) : !buf_add(&r->text, bytes.p + taken, n))
			break;
		taken += n;
	}
	r->text.failed = false; /* no memory: it is offered again */
	r->is_blocked = taken < bytes.n;
	if (r->is_blocked)
		flush_soon(r);
	else
		flush_later(r);
	return taken;
}

/* ---- results and errors ---- */

/* Everything that was written before has become events, and the reader has room. */
static bool make_way(struct code_run *r)
{
	if (text_out(r, true) && r->text.n == 0)
		return true;
	r->is_blocked = true;
	flush_soon(r);
	return false;
}

typedef void write_fn(struct buf *b, const void *what);

static void write_result(struct buf *b, const void *what)
{
	event_result(b, what);
}

static void write_error(struct buf *b, const void *what)
{
	event_error(b, what);
}

static bool try_write(struct outbox *o, write_fn *fn, const void *what)
{
	size_t before = o->b.n;

	fn(&o->b, what);
	if (!o->b.failed && o->b.n - before <= EVENT_MAX)
		return true;
	o->b.failed = false;
	o->b.n = before;
	return false;
}

/* With room for what it probably takes, or else for the most that it can. */
static bool write_wide(struct outbox *o, write_fn *fn, const void *what, size_t bytes)
{
	return (outbox_widen(o, MIN(bytes + bytes / 8 + FRAME, EVENT_MAX)) && try_write(o, fn, what)) ||
	       (outbox_widen(o, MIN(6 * bytes + FRAME, EVENT_MAX)) && try_write(o, fn, what));
}

/* Without its largest value; what that was is said. */
static void leave_out(struct code_run *r, struct code_mime *mimes, size_t *n)
{
	struct event_stamp stamp;
	size_t at = 0;
	char note[192];
	int len;

	for (size_t i = 1; i < *n; i++)
		if (mimes[i].value.n > mimes[at].value.n)
			at = i;
	len = snprintf(note, sizeof(note), "[a result of type '%.*s' with %zu bytes was left out: it is too large]\n",
		       STR_ARG(str_first(mimes[at].type, 64)), mimes[at].value.n);
	event_stamp(&stamp);
	(void)outbox_text(&r->out, EVENT_STDERR, (struct str){ note, (size_t)len }, &stamp);
	mimes[at] = mimes[--*n];
}

static size_t result_bytes(const struct code_mime *mimes, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += mimes[i].type.n + mimes[i].value.n + 8 +
		       (str_eq(mimes[i].type, STR("text/plain")) ? mimes[i].value.n : 0);
	return sum;
}

bool code_run_result(struct code_run *r, const struct code_result *res)
{
	struct code_mime mimes[CODE_MIMES_MAX];
	struct code_result some = { mimes, MIN(res->n, (size_t)CODE_MIMES_MAX), res->count };

	if (is_unheard(r))
		return true;
	if (!make_way(r))
		return false;
	for (size_t i = 0; i < some.n; i++)
		mimes[i] = res->mimes[i];
	while (some.n > 0) {
		size_t bytes = result_bytes(mimes, some.n);

		if (bytes <= CODE_RESULT_MAX && write_wide(&r->out, write_result, &some, bytes))
			break;
		leave_out(r, mimes, &some.n);
	}
	flush_soon(r);
	return true;
}

/* An error is the end of a run's story and gets through without a grant, in short if need be. */
static void put_error(struct code_run *r, const struct code_error *er)
{
	struct code_error small = *er;
	size_t bytes = er->name.n + er->value.n;

	for (size_t i = 0; i < er->n_trace; i++)
		bytes += er->trace[i].n + 4;
	r->has_error = true;
	if (bytes <= CODE_ERROR_MAX && write_wide(&r->out, write_error, er, bytes))
		return;
	small.name = str_first(er->name, NAME_SHORT);
	small.value = str_first(er->value, VALUE_SHORT);
	small.n_trace = 0;
	r->is_broken = !try_write(&r->out, write_error, &small);
}

bool code_run_error(struct code_run *r, const struct code_error *er)
{
	struct code_error bounded = *er;

	if (is_unheard(r) || r->has_error)
		return true;
	if (!make_way(r))
		return false;
	bounded.n_trace = MIN(er->n_trace, (size_t)CODE_TRACE_MAX);
	put_error(r, &bounded);
	flush_soon(r);
	return true;
}

/* ---- the stream ---- */

static void finish(struct code_run *r)
{
	struct reply *rp = r->rp;

	r->rp = NULL;
	timer_cancel(&r->ping);
	timer_cancel(&r->soon);
	if (r->is_broken) /* a stream without its last event must not look whole */
		reply_abort(rp);
	else
		reply_end(rp);
	r->done(r->arg);
}

static void add_terminal(struct code_run *r)
{
	const struct str trace[] = { str_of(r->why), str_of(r->more) };

	if (!r->has_error && r->why[0])
		put_error(r, &(struct code_error){ STR(CODE_DIED_NAME), trace[0], trace, r->more[0] ? 2 : 1 });
	else if (!r->has_error)
		event_complete(&r->out.b, loop_now_ms(r->host->loop) - r->began_ms);
	r->is_broken |= r->out.b.failed;
	r->has_terminal = true;
}

/* Moves what can be moved. R may be gone afterwards. */
static void pump(struct code_run *r)
{
	if (!r->rp) {
		if (r->has_ended)
			r->done(r->arg);
		return;
	}
	if (!text_out(r, r->has_ended))
		return;
	if (r->has_ended && !r->has_terminal) {
		add_terminal(r);
		if (!outbox_flush(&r->out, r->rp))
			return;
	}
	if (r->has_terminal) {
		finish(r);
		return;
	}
	outbox_release(&r->out); /* there may be nothing more for hours */
	if (r->text.n == 0)
		buf_done(&r->text);
	if (r->is_blocked) {
		r->is_blocked = false;
		r->proceed(r->arg);
	}
}

static void on_reader_gone(void *arg)
{
	struct code_run *r = arg;

	r->rp = NULL;
	timer_cancel(&r->ping);
	timer_cancel(&r->soon);
	outbox_release(&r->out);
	buf_done(&r->text);
	if (r->has_ended)
		r->done(r->arg);
	else if (r->is_blocked && r->proceed) {
		r->is_blocked = false;
		r->proceed(r->arg);
	}
}

static void on_ping(void *arg)
{
	struct code_run *r = arg;

	timer_in(&r->ping, EXECUTION_PING_MS);
	if (r->out.b.n == 0 && !r->has_terminal) { /* a reader who is behind has enough to read */
		event_ping(&r->out.b);
		if (r->out.b.failed)
			outbox_release(&r->out); /* the next one, then */
	}
	pump(r);
}

void code_run_end(struct code_run *r)
{
	r->has_ended = true;
	flush_soon(r);
}

void code_run_fail(struct code_run *r, const char *why, const char *more)
{
	if (!r->has_ended) {
		(void)snprintf(r->why, sizeof(r->why), "%s", why);
		(void)snprintf(r->more, sizeof(r->more), "%s", more ? more : "");
	}
	code_run_end(r);
}

/* ---- begin and end ---- */

void code_run_forget_code(struct code_run *r)
{
	buf_done(&r->code);
	budget_give(r->host->budget, r->granted);
	r->granted = 0;
}

void code_run_free(struct code_run *r)
{
	if (r->rp)
		reply_abort(r->rp);
	r->rp = NULL;
	defer_cancel(&r->flush);
	code_run_forget_code(r);
	buf_done(&r->text);
	outbox_release(&r->out);
	timer_done(&r->ping);
	timer_done(&r->soon);
	r->host->budget->runs--;
	free(r);
}
DEFINE_AUTO(struct code_run *, code_run_free)

static void on_proceed(void *arg)
{
	pump(arg);
}

static int begin(struct code_run *r, struct str id, struct str code, struct reply *rp, struct err *e)
{
	static const struct reply_source source = { .proceed = on_proceed, .stop = on_reader_gone };

	if (!budget_take(r->host->budget, code.n + 1))
		return err_set(e, ERR_UNAVAILABLE, "no room for the code");
	r->granted = code.n + 1;
	if (!buf_add_str(&r->code, code) || timer_init(&r->ping, r->host->loop, on_ping, r, "code ping", e) < 0 ||
	    timer_init(&r->soon, r->host->loop, on_flush, r, "code output", e) < 0)
		return err_no_memory(e);
	event_init(&r->out.b, id);
	event_ping(&r->out.b);
	if (r->out.b.failed)
		return err_no_memory(e);
	if (reply_event_stream(rp, &source, r, e) < 0)
		return -1;
	r->rp = rp;
	timer_in(&r->ping, EXECUTION_PING_MS);
	return 0;
}

struct code_run *code_run_new(const struct execution_host *host, struct str id, struct str code, struct reply *rp, struct err *e)
{
	AUTO(code_run_free) struct code_run *r = calloc(1, sizeof(*r));

	if (!r) {
		(void)err_no_memory(e);
		return NULL;
	}
	host->budget->runs++;
	*r = (struct code_run){ .host = host, .out = OUTBOX_INIT(host->budget), .text = BUF_INIT(CODE_RUN_TEXT),
				.code = BUF_INIT(CODE_TEXT_MAX + 1), .began_ms = loop_now_ms(host->loop) };
	return begin(r, id, code, rp, e) < 0 ? NULL : take_ptr(&r);
}
