// SPDX-License-Identifier: Apache-2.0
/* execd/io/lines.h - output of a program, cut into the texts of events.
 *
 * "\n", "\r" and "\r\n" end a line and are not part of its text; an empty line has the text "\n". A line that
 * must be handed out before its end is known is cut between two characters, and what follows is no new line:
 * "abc", "def". How the bytes arrive makes no difference to the texts, unless a line is cut. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct lines {
	size_t scanned;    /* bytes of the input that hold no line end */
	bool skips_lf;     /* the last line ended with "\r": "\n" belongs to it */
	bool is_continued; /* a part of the line has been handed out */
};

enum lines_mode {
	LINES_WHOLE, /* only lines whose end is there */
	LINES_CUT,   /* there is no room for more: give what there is */
	LINES_LAST,  /* nothing will follow */
};

/* IN is what has not been used up so far; *ret_used bytes of it are after the call, also when there is no
 * text. The text is a view of IN or of a constant. False: more input is needed. */
bool lines_next(struct lines *l, struct str in, enum lines_mode mode, struct str *ret_text, size_t *ret_used);
