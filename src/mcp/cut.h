// SPDX-License-Identifier: Apache-2.0
/* mcp/cut.h - shortens long text and formats JSON, for a model. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define CUT_NOTE_MAX 96 /* bytes of a note */

/* Appends TEXT, or the two ends of it with a note between them that says how much is left out; at most LIMIT
 * bytes and the note, and no character is cut in two. Returns !out->failed. */
bool cut_middle(struct buf *out, struct str text, size_t limit);

/* The two ends of a stream of bytes of any length, of which LIMIT bytes are kept. */
struct cut {
	size_t limit;
	struct buf head, tail; /* the tail has up to twice its half, to be moved rarely */
	uint64_t total;
};
void cut_init(struct cut *c, size_t limit);
void cut_done(struct cut *c);
bool cut_feed(struct cut *c, const char *p, size_t n); /* false: out of memory */
bool cut_is_whole(const struct cut *c);
/* All of it, or both ends; BETWEEN stands between them. If there is something between them, they are taken
 * for text. */
bool cut_finish(const struct cut *c, struct str between, struct buf *out);

/* JSON that is one line, with two blanks for each level. */
bool json_indent(struct buf *out, struct str json);
