// SPDX-License-Identifier: Apache-2.0
/* net/http/url.h - request targets, path segments and query strings.
 *
 * Everything is split first and percent-decoded once, piece by piece: a decoded byte never takes part in
 * splitting. Decoded pieces without an escape are views of the input, the others live in the arena. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct arena;
struct buf;
struct err;

enum url_form {
	URL_ORIGIN,    /* "/a/b?x=1": path and query are set */
	/* "http://host:80/a?x=1": the same, and authority is "host:80"; an empty path is "/" */
	URL_ABSOLUTE,
	URL_ASTERISK,  /* "*": nothing else is set */
	URL_AUTHORITY, /* "host:443": only authority is set */
};

struct url_target {
	enum url_form form;
	struct str authority; /* host[:port] as written, never with user information; it outranks Host */
	struct str path;      /* raw, begins with '/' */
	struct str query;     /* raw, without the '?' */
	bool has_query;       /* there was a '?' */
};

/* Splits a raw request target. Refuses an empty one, '#', blanks, control bytes, schemes other than http and
 * https. Escapes are checked where the pieces are decoded. ERR_INVALID. */
int url_target_parse(struct str raw, struct url_target *ret_target, struct err *e);

/* The raw segments of a path: "/a/b%20c/" has "a" and "b%20c" and ends with a slash, "/" has none.
 * An empty segment in the middle is given out, for url_segment_decode() to refuse. */
struct url_segments {
	struct str rest;  /* what has not been given out: empty, or from its '/' on, byte for byte */
	bool has_begun;
	bool trailing_slash; /* set at the end: one more slash follows the last segment */
};

static inline struct url_segments url_segments(struct str path)
{
	return (struct url_segments){ .rest = path };
}

bool url_segment_next(struct url_segments *it, struct str *ret_raw);

/* Decodes one raw segment. Refuses what could be read as another path by a later reader: empty, "." and "..",
 * '/' and '\' in any spelling, control bytes, bad escapes, ill-formed UTF-8. ERR_INVALID, or out of
 * memory. */
int url_segment_decode(struct str raw, struct arena *a, struct str *ret_text, struct err *e);

#define QUERY_PAIRS_MAX 1000

struct query_pair {
	struct str key, value; /* decoded; "a" is "a=" */
};

struct query {
	struct query_pair *pairs; /* in the order of the string */
	size_t n;
};

/* Reads "a=1&b=x+y%21": '+' is a blank, empty fields are skipped. Refuses bad escapes, NUL, ill-formed UTF-8
 * (ERR_INVALID) and more than QUERY_PAIRS_MAX pairs (ERR_LIMIT). */
int query_parse(struct str raw, struct arena *a, struct query *ret_query, struct err *e);
/* The same, where values of the key BYTES_OF may be any bytes but NUL: names of files need not be UTF-8. */
int query_parse_bytes(struct str raw, const char *bytes_of, struct arena *a, struct query *ret_query,
		      struct err *e);

/* The strict dialect of the "metadata" filter, whose text has been decoded once already by query_parse():
 * every field must have a '=', an empty field is an error, of equal keys the last one wins (and takes the
 * place of the first). Empty text has no pairs. */
int query_parse_strict(struct str text, struct arena *a, struct query *ret_query, struct err *e);

/* The first pair of that key, or NULL; query_next() gives the one that follows FOUND (NULL: the first). */
const struct query_pair *query_get(const struct query *q, const char *key);
const struct query_pair *query_next(const struct query *q, const char *key, const struct query_pair *found);

/* Undoes percent escapes and nothing else. ERR_INVALID at a bad one and at a NUL. */
int url_decode(struct str raw, struct arena *a, struct str *ret_bytes, struct err *e);

/* Append S with everything escaped that the place does not allow. A query component keeps letters, digits and
 * "-._~" only; "." and ".." as a segment cannot be escaped and are the caller's to avoid. */
bool url_encode_segment(struct buf *b, struct str s);
bool url_encode_query(struct buf *b, struct str s);

/* true/false, 1/0, yes/no, on/off, t/f, y/n in any case; false when it is none of them. */
bool url_parse_bool(struct str s, bool *ret_value);
