// SPDX-License-Identifier: Apache-2.0
#include "net/relay.h"

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/conduit.h"
#include "net/loop.h"
#include "net/transport.h"
#include "net/watch.h"

#include "base/banned.h"

struct side {
	struct transport *t;
	struct watch watch;
	struct relay *relay;
};

/* The bytes from side[i] to side[!i]. They wait in one place only: held or pipe is empty. */
struct direction {
	struct buf held; /* what did not leave at once: held.p[at..held.n); without memory when that is nothing */
	size_t at;
	struct conduit pipe;
	bool no_pipe; /* tried in vain */
	bool is_ended; /* the source has no more */
	bool is_over;  /* nothing moves any more: the end was passed on, or the destination is broken */
	uint64_t moved;
};

struct relay {
	struct loop *loop;
	struct side side[2];
	struct direction dir[2];
	struct timer idle;
	size_t pipe; /* bytes */
	unsigned idle_ms, linger_ms;
	struct deferred start;
	relay_fn *done;
	void *arg;
	struct relay_result result;
	bool has_first; /* result.by is set */
	bool is_half;   /* one direction has ended */
};

/* ---- life ---- */

static void relay_free(struct relay *r)
{
	defer_cancel(&r->start);
	timer_done(&r->idle);
	for (int i = 0; i < 2; i++) {
		watch_stop(&r->side[i].watch);
		transport_close(r->side[i].t);
		buf_done(&r->dir[i].held);
		conduit_close(&r->dir[i].pipe);
	}
	free(r);
}

uint64_t relay_moved(const struct relay *r)
{
	return r->dir[0].moved + r->dir[1].moved;
}

void relay_cancel(struct relay *r)
{
	if (r)
		relay_free(r);
}

static void relay_finish(struct relay *r)
{
	struct relay_result result = r->result;
	relay_fn *done = r->done;
	void *arg = r->arg;

	result.from_a = r->dir[RELAY_A].moved;
	result.from_b = r->dir[RELAY_B].moved;
	relay_free(r);
	if (done)
		done(&result, arg);
}

static void relay_note(struct relay *r, int side, enum relay_end end, int sys)
{
	if (!r->has_first)
		r->result.by = (enum relay_side)side;
	if (end == RELAY_FAILED && r->result.end == RELAY_ENDED) {
		r->result.end = end;
		r->result.by = (enum relay_side)side;
		r->result.sys = sys;
	}
	r->has_first = true;
}

/* A side that cannot be read is dead: nothing can be written to it either. */
static void source_failed(struct relay *r, int i, int sys)
{
	r->dir[i].is_ended = true;
	r->dir[!i].is_over = true;
	relay_note(r, i, RELAY_FAILED, sys);
}

/* A side that cannot be written may still have sent its last words: those are read. */
static void sink_failed(struct relay *r, int i, int sys)
{
	struct direction *d = &r->dir[i];

	d->is_over = true;
	buf_done(&d->held);
	d->at = 0;
	conduit_close(&d->pipe);
	relay_note(r, !i, RELAY_FAILED, sys);
}

static void source_ended(struct relay *r, int i)
{
	r->dir[i].is_ended = true;
	relay_note(r, i, RELAY_ENDED, 0);
}

/* ---- copying ---- */

/* Sends P to the other side: bytes taken, which may be 0, or -1 and the direction is over. */
static ssize_t push(struct relay *r, int i, const char *p, size_t n)
{
	struct transport *to = r->side[!i].t;
	struct iovec iov = { (void *)(uintptr_t)p, n };
	ssize_t sent = to->ops->send(to, &iov, 1, false);

	if (sent < 0 && errno == EAGAIN)
		return 0;
	if (sent < 0) {
		sink_failed(r, i, errno);
		return -1;
	}
	r->dir[i].moved += (size_t)sent;
	return sent;
}

/* True if something moved. */
static bool flush_held(struct relay *r, int i)
{
	struct direction *d = &r->dir[i];
	ssize_t sent = push(r, i, d->held.p + d->at, d->held.n - d->at);

	if (sent > 0)
		d->at += (size_t)sent;
	if (d->at == d->held.n) {
		buf_done(&d->held);
		d->at = 0;
	}
	return sent > 0;
}

static bool copy_piece(struct relay *r, int i)
{
	struct transport *from = r->side[i].t;
	char piece[RELAY_PIECE];
	ssize_t got = from->ops->recv(from, piece, sizeof(piece)), sent;

	if (got < 0 && errno != EAGAIN)
		source_failed(r, i, errno);
	if (got == 0)
		source_ended(r, i);
	if (got <= 0)
		return false;
	sent = push(r, i, piece, (size_t)got);
	if (sent >= 0 && sent < got && !buf_add(&r->dir[i].held, piece + sent, (size_t)(got - sent)))
		sink_failed(r, i, ENOMEM);
	return true;
}

/* ---- splicing ---- */

static bool uses_pipe(struct relay *r, int i)
{
	struct direction *d = &r->dir[i];

	if (conduit_is_open(&d->pipe))
		return true;
	if (d->no_pipe || d->moved < RELAY_SPLICE_AFTER)
		return false;
	d->no_pipe = !r->side[0].t->is_plain || !r->side[1].t->is_plain || r->side[i].t->is_filtered ||
		     conduit_open(&d->pipe, r->pipe) < 0;
	return !d->no_pipe;
}

static bool flush_pipe(struct relay *r, int i)
{
	struct direction *d = &r->dir[i];
	ssize_t moved = conduit_drain(&d->pipe, r->side[!i].t->fd);

	if (moved < 0 && errno != EAGAIN)
		sink_failed(r, i, errno);
	if (moved <= 0)
		return false;
	d->moved += (size_t)moved;
	return true;
}

/* The pipe is empty, so that EAGAIN can only mean the source. */
static bool splice_piece(struct relay *r, int i)
{
	struct direction *d = &r->dir[i];
	ssize_t got = conduit_fill(&d->pipe, r->side[i].t->fd, r->pipe);

	if (got < 0 && errno == EINVAL) { /* a kind of descriptor that cannot be spliced */
		conduit_close(&d->pipe);
		d->no_pipe = true;
		return copy_piece(r, i);
	}
	if (got < 0 && errno != EAGAIN)
		source_failed(r, i, errno);
	if (got == 0)
		source_ended(r, i);
	if (got <= 0)
		return false;
	(void)flush_pipe(r, i);
	return true;
}

/* ---- the machine ---- */

static bool is_full(const struct direction *d)
{
	return d->held.n > 0 || d->pipe.held > 0;
}

/* True if something moved. */
static bool move_direction(struct relay *r, int i, bool can_read)
{
	struct direction *d = &r->dir[i];
	bool moved = false;

	if (d->is_over)
		return false;
	if (d->held.n > 0)
		moved = flush_held(r, i);
	else if (d->pipe.held > 0)
		moved = flush_pipe(r, i);
	if (can_read && !d->is_over && !d->is_ended && !is_full(d))
		moved |= uses_pipe(r, i) ? splice_piece(r, i) : copy_piece(r, i);
	if (!d->is_over && d->is_ended && !is_full(d)) {
		struct transport *to = r->side[!i].t;

		to->ops->shut(to);
		d->is_over = true;
	}
	return moved;
}

static unsigned side_interest(const struct relay *r, int i)
{
	const struct direction *out = &r->dir[i], *in = &r->dir[!i];
	unsigned want = 0;

	if (!out->is_over && !out->is_ended && !is_full(out))
		want |= IO_IN;
	if (!in->is_over && is_full(in))
		want |= IO_OUT;
	return want;
}

static void relay_run(struct relay *r, unsigned readable)
{
	bool moved = false, is_half;

	for (int i = 0; i < 2; i++)
		moved |= move_direction(r, i, readable & (1U << i));
	if (r->dir[0].is_over && r->dir[1].is_over) {
		relay_finish(r);
		return;
	}
	is_half = r->dir[0].is_ended || r->dir[1].is_ended || r->dir[0].is_over || r->dir[1].is_over;
	if (moved || is_half != r->is_half)
		timer_in(&r->idle, is_half ? r->linger_ms : r->idle_ms);
	r->is_half = is_half;
	for (int i = 0; i < 2; i++)
		watch_want(&r->side[i].watch, side_interest(r, i));
}

static void on_side(unsigned ready, void *arg)
{
	struct side *s = arg;
	struct relay *r = s->relay;
	unsigned bit = 1U << (s == &r->side[RELAY_B]);

	relay_run(r, ready & IO_IN ? bit : 0);
}

static void on_start(void *arg)
{
	relay_run(arg, 1 | 2);
}

static void on_idle(void *arg)
{
	struct relay *r = arg;

	if (r->result.end == RELAY_ENDED)
		r->result.end = RELAY_TIMEOUT;
	relay_finish(r);
}

/* ---- starting ---- */

static int take_early(struct direction *d, struct str early, struct err *e)
{
	if (early.n > RELAY_EARLY_MAX)
		return err_set(e, ERR_LIMIT, "%zu early bytes for a relay, more than %d", early.n, RELAY_EARLY_MAX);
	if (early.n > 0 && !buf_add_str(&d->held, early))
		return err_no_memory(e);
	return 0;
}

static int watch_side(struct relay *r, int i, struct transport *t, struct err *e)
{
	r->side[i].relay = r;
	if (watch_start(&r->side[i].watch, r->loop, t, on_side, &r->side[i], "relay", e) < 0)
		return -1;
	return 0;
}

struct relay *relay_start(struct loop *l, const struct relay_spec *spec, struct err *e)
{
	AUTO(relay_cancel) struct relay *r = calloc(1, sizeof(*r));

	if (!r) {
		(void)err_no_memory(e);
		return NULL;
	}
	r->loop = l;
	r->done = spec->done;
	r->arg = spec->arg;
	r->pipe = spec->pipe ? spec->pipe : CONDUIT_NARROW;
	r->idle_ms = spec->idle_ms ? spec->idle_ms : RELAY_IDLE_MS;
	r->linger_ms = spec->linger_ms ? spec->linger_ms : RELAY_LINGER_MS;
	for (int i = 0; i < 2; i++)
		r->dir[i] = (struct direction){ .held = BUF_INIT(RELAY_EARLY_MAX), .pipe = CONDUIT_INIT };
	if (timer_init(&r->idle, l, on_idle, r, "relay idle", e) < 0 ||
	    take_early(&r->dir[RELAY_A], spec->early_a, e) < 0 || take_early(&r->dir[RELAY_B], spec->early_b, e) < 0 ||
	    watch_side(r, RELAY_A, spec->a, e) < 0 || watch_side(r, RELAY_B, spec->b, e) < 0)
		return NULL;
	r->side[RELAY_A].t = spec->a; /* theirs until nothing can fail any more */
	r->side[RELAY_B].t = spec->b;
	timer_in(&r->idle, r->idle_ms);
	defer(&r->start, l, on_start, r, "relay");
	return take_ptr(&r);
}
