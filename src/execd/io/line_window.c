// SPDX-License-Identifier: Apache-2.0
#include "execd/io/line_window.h"

#include "base/buf.h"

#include "base/banned.h"

/* Up to and with the next LF, or all of it. */
static struct str take_segment(struct str *in, bool *ret_ends)
{
	const char *lf = memchr(in->p, '\n', in->n);
	struct str segment = lf ? str_first(*in, (size_t)(lf - in->p)) : *in;

	*ret_ends = lf != NULL;
	*in = str_skip(*in, segment.n + *ret_ends);
	return segment;
}

static void skip_lines(struct line_window *w, struct str *in)
{
	bool ends;

	while (w->skip > 0 && in->n > 0) {
		(void)take_segment(in, &ends);
		w->skip -= ends;
	}
}

/* CRs turned out to be inside the line. False: there are more of them. */
static bool give_held(struct line_window *w, struct buf *out)
{
	char cr[256];
	size_t given = 0;

	memset(cr, '\r', sizeof(cr));
	while (w->held > 0 && given < LINE_WINDOW_STEP) {
		size_t n = (size_t)MIN(w->held, (uint64_t)sizeof(cr));

		buf_add(out, cr, n);
		w->held -= n;
		given += n;
	}
	return w->held == 0;
}

static size_t trailing_crs(struct str s)
{
	size_t n = 0;

	while (n < s.n && s.p[s.n - 1 - n] == '\r')
		n++;
	return n;
}

/* One segment of a line that is wanted. False: not taken yet. */
static bool give_segment(struct line_window *w, struct str *in, struct buf *out)
{
	struct str rest = *in;
	bool ends;
	struct str segment = take_segment(&rest, &ends);
	size_t crs = trailing_crs(segment);

	if (!w->is_inside && w->has_line)
		buf_add_char(out, '\n');
	w->is_inside = w->has_line = true;
	if (segment.n > crs && !give_held(w, out))
		return false;
	buf_add_str(out, str_first(segment, segment.n - crs));
	w->held += crs;
	if (ends) {
		w->held = 0;
		w->is_inside = false;
		w->left -= w->left != UINT64_MAX;
	}
	*in = rest;
	return true;
}

bool line_window_take(struct line_window *w, struct str *in, struct buf *out)
{
	size_t before = out->n;

	skip_lines(w, in);
	while (w->left > 0 && in->n > 0 && !out->failed && out->n - before < LINE_WINDOW_STEP)
		if (!give_segment(w, in, out))
			break;
	return w->left == 0;
}
