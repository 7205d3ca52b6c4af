// SPDX-License-Identifier: Apache-2.0
#include "client/stream_reader.h"

#include "base/err.h"

#include "base/banned.h"

void stream_reader_done(struct stream_reader *r)
{
	buf_done(&r->held);
}

static bool has_name(struct str line, struct str name)
{
	return str_starts(line, name) && (line.n == name.n || line.p[name.n] == ':');
}

/* What there is to read in a line; empty: nothing. */
static struct str payload_of(struct str line)
{
	if (has_name(line, STR("data")))
		return str_trim(str_skip(line, sizeof("data:") - 1));
	if (line.n == 0 || line.p[0] == ':' || has_name(line, STR("event")) || has_name(line, STR("id")) || has_name(line, STR("retry")))
		return (struct str){ 0 };
	return str_trim(line);
}

static bool take_line(struct str line, stream_payload_fn *fn, void *arg)
{
	struct str payload = payload_of(line);

	return payload.n == 0 || fn(payload, arg);
}

/* The line that ends in IN, or all of IN with an end of -1. */
static const char *find_end(struct str in)
{
	const char *lf = in.n > 0 ? memchr(in.p, '\n', in.n) : NULL;
	const char *cr = in.n > 0 ? memchr(in.p, '\r', lf ? (size_t)(lf - in.p) : in.n) : NULL;

	return cr ? cr : lf;
}

/* A line that came in pieces. FN may free what R is part of, so its bytes leave R first. */
static bool take_held(struct stream_reader *r, stream_payload_fn *fn, void *arg)
{
	AUTO(buf_done) struct buf line = r->held;

	r->held = BUF_INIT(STREAM_LINE_MAX);
	return take_line(buf_str(&line), fn, arg);
}

int stream_reader_feed(struct stream_reader *r, struct str piece, stream_payload_fn *fn, void *arg, struct err *e)
{
	while (piece.n > 0) {
		const char *end;
		struct str line;
		bool goes_on;

		if (r->after_cr && piece.p[0] == '\n')
			piece = str_skip(piece, 1);
		r->after_cr = false;
		end = find_end(piece);
		line = str_first(piece, end ? (size_t)(end - piece.p) : piece.n);
		if ((!end || r->held.n > 0) && !buf_add_str(&r->held, line))
			return err_set(e, ERR_LIMIT, "a line of the stream is longer than %zu bytes", STREAM_LINE_MAX);
		if (!end)
			return 0;
		r->after_cr = *end == '\r';
		piece = str_skip(piece, line.n + 1);
		goes_on = r->held.n > 0 ? take_held(r, fn, arg) : take_line(line, fn, arg);
		if (!goes_on)
			return 0;
	}
	return 0;
}

void stream_reader_end(struct stream_reader *r, stream_payload_fn *fn, void *arg)
{
	if (r->held.n > 0)
		(void)take_held(r, fn, arg);
}
