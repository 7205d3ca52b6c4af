// SPDX-License-Identifier: Apache-2.0
/* net/http/sse.h - event streams, written into a buf. For output of programs see text_sanitize() in
 * net/utf8.h. */
#pragma once
#include <stdbool.h>

#include "base/str.h"
#include "net/utf8.h"

struct buf;

/* The framing of our execution streams: one line of bare JSON and a blank line, without "data:". JSON must be
 * one physical line (as base/json_out.h writes it); that is asserted. */
bool sse_json_event(struct buf *b, struct str json);

/* No byte of S ends a line for any reader: CR, LF, and (some readers split there) U+0085, U+2028, U+2029. */
bool sse_is_one_line(struct str s);

/* An event of the standard format. Data may have many lines, ended by CR, LF or CRLF; the reader gets them
 * joined by LF. Names and ids lose CR, LF and NUL, which they cannot hold. Ill-formed UTF-8 becomes
 * U+FFFD. */
struct sse_event {
	struct str event; /* empty: none, a "message" */
	struct str id;
	bool has_id;      /* an empty id is a valid one: it resets the reader's */
	struct str data;
};
bool sse_event(struct buf *b, const struct sse_event *ev);
bool sse_comment(struct buf *b, struct str text); /* ignored by readers: keeps a quiet stream alive */
