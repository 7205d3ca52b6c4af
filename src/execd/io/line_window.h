// SPDX-License-Identifier: Apache-2.0
/* execd/io/line_window.h - a range of lines of a text that arrives in pieces, joined by LF.
 *
 * Lines end with LF; CRs before it, or before the end of the text, are not part of them. There is no LF after
 * the last. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct buf;

struct line_window {
	uint64_t skip;  /* lines before the first */
	uint64_t left;  /* lines from there on; UINT64_MAX: all */
	bool has_line;  /* one has been given out, or begun */
	bool is_inside; /* the line at hand has begun */
	uint64_t held;  /* CRs at its end, so far */
};

#define LINE_WINDOW_STEP ((size_t)64 * 1024)

/* Takes from *in until it is empty, or some LINE_WINDOW_STEP bytes were appended to OUT: then call again.
 * True when there is nothing more to come. */
bool line_window_take(struct line_window *w, struct str *in, struct buf *out);
