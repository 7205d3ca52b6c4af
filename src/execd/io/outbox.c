// SPDX-License-Identifier: Apache-2.0
#include "execd/io/outbox.h"

#include "base/own.h"
#include "execd/budget.h"
#include "net/http/server.h"
#include "net/utf8.h"

#include "base/banned.h"

#define SLICE ((size_t)16 * 1024)    /* of what goes to the reader at once, so that the connection's buffer stays small */
#define PIECE_MIN ((size_t)2 * 1024) /* text of an event for which there is no grant */
#define EVENT_FRAME 256              /* of an event, around its text */

void outbox_release(struct outbox *o)
{
	buf_done(&o->b);
	o->b.max = OUTBOX_BASE;
	o->at = 0;
	budget_give(o->budget, o->granted);
	o->granted = 0;
}

bool outbox_widen(struct outbox *o, size_t need)
{
	size_t to = o->b.n + need, have = OUTBOX_BASE + o->granted;

	if (to > have) {
		if (!budget_take_spare(o->budget, to - have))
			return false;
		o->granted += to - have;
	}
	o->b.max = OUTBOX_BASE + o->granted;
	return true;
}

/* The memory of events that needed no grant is for the next ones; what was granted is not kept for a moment. */
static void reuse(struct outbox *o)
{
	if (o->granted > 0)
		outbox_release(o);
	buf_clear(&o->b);
	o->at = 0;
}

bool outbox_flush(struct outbox *o, struct reply *rp)
{
	while (o->at < o->b.n && reply_room(rp) > 0) {
		struct str left = str_skip(buf_str(&o->b), o->at);
		struct str slice = str_first(left, SLICE);

		reply_write(rp, slice);
		o->at += slice.n;
	}
	if (o->at < o->b.n)
		return false;
	reuse(o);
	return true;
}

/* ---- texts ---- */

/* Adds the event if it fits. */
static bool try(struct outbox *o, enum event_stream kind, struct str text, const struct event_stamp *stamp)
{
	size_t before = o->b.n;

	event_text(&o->b, kind, text, stamp);
	if (!o->b.failed)
		return true;
	o->b.failed = false;
	o->b.n = before;
	return false;
}

/* Returns how many bytes of TEXT an event may have instead, 0 when it was added: most text grows little by being
 * written as JSON, some six times, and an event must not exceed its ceiling. */
static size_t add_whole(struct outbox *o, enum event_stream kind, struct str text, const struct event_stamp *stamp)
{
	size_t little = text.n + text.n / 8 + EVENT_FRAME, most = 6 * text.n + EVENT_FRAME;

	if ((o->b.n <= OUTBOX_BASE && most <= OUTBOX_BASE - o->b.n) || outbox_widen(o, MIN(little, EVENT_MAX))) {
		if (try(o, kind, text, stamp))
			return 0;
		if (outbox_widen(o, MIN(most, EVENT_MAX)) && try(o, kind, text, stamp))
			return 0;
	}
	return text.n > EVENT_TEXT_MAX && o->granted > 0 ? EVENT_TEXT_MAX : PIECE_MIN;
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

size_t outbox_text(struct outbox *o, enum event_stream kind, struct str text, const struct event_stamp *stamp)
{
	size_t piece = add_whole(o, kind, text, stamp);
	struct str part;

	if (piece == 0)
		return text.n;
	part = first_piece(text, piece);
	if (try(o, kind, part, stamp))
		return part.n;
	part = first_piece(text, PIECE_MIN);
	return try(o, kind, part, stamp) ? part.n : 0;
}
