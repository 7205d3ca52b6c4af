// SPDX-License-Identifier: Apache-2.0
/* client/stream_reader.h - the payloads of an event stream, whose bytes come in pieces of any size.
 *
 * A payload is a line of text, or what follows "data:" in one: our streams have bare JSON, others write it as
 * the standard says. Lines end with LF, CR or CRLF. Empty lines, comments and the other fields of the
 * standard are skipped. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/str.h"

struct err;

#define STREAM_LINE_MAX ((size_t)64 * 1024 * 1024) /* a picture in a result is one line */

struct stream_reader {
	struct buf held; /* a line that is not complete */
	bool after_cr;   /* an LF next would be of the same end */
};
#define STREAM_READER_INIT ((struct stream_reader){ .held = BUF_INIT(STREAM_LINE_MAX) })

void stream_reader_done(struct stream_reader *r);
DEFINE_AUTO_DONE(struct stream_reader, stream_reader_done)

/* False stops it there. PAYLOAD is valid during the call. */
typedef bool stream_payload_fn(struct str payload, void *arg);

/* -1: a line beyond the ceiling (ERR_LIMIT), or no memory. Stopped by FN: 0, and the rest of PIECE is
 * forgotten. */
int stream_reader_feed(struct stream_reader *r, struct str piece, stream_payload_fn *fn, void *arg,
		       struct err *e);
/* a last line may have no end */
void stream_reader_end(struct stream_reader *r, stream_payload_fn *fn, void *arg);
