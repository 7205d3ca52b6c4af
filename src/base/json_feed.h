// SPDX-License-Identifier: Apache-2.0
/* base/json_feed.h - parser for JSON that arrives in pieces and may be too large to store: values are passed
 * on as they arrive.
 *
 *     {"name": "stdout", "data": {"text/plain": "4", "x": {"y": [1]}}}
 *
 * With two levels this gives ("name") "stdout", ("data", "text/plain") "4" and ("data", "x") {"y": [1]}:
 * containers within that many levels are walked, deeper ones are passed on as JSON. Strings are decoded, in
 * any number of pieces. All memory is in the struct. Numbers and words are checked by their characters only,
 * so NaN and Infinity pass. Strings are not checked to be UTF-8; half of a surrogate pair becomes U+FFFD. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define JSON_FEED_LEVELS 3
#define JSON_FEED_KEY_MAX 127 /* bytes; of a longer key nothing is known, it is "" */
#define JSON_FEED_DEPTH_MAX 60
#define JSON_FEED_SCALAR_MAX 63

struct json_piece {
	struct str path[JSON_FEED_LEVELS]; /* keys, from the outermost container on; in an array "" */
	unsigned depth;                    /* how many of them count */
	size_t index;                      /* in its container */
	struct str text;
	bool is_string; /* else it is JSON */
	bool is_first, is_last;
};
typedef void json_feed_fn(const struct json_piece *piece, void *arg);

/* Plain data, to be embedded; the fields are its own. */
struct json_feed {
	json_feed_fn *fn;
	void *arg;
	/* raw: the depth at which what comes is given out as it is, plus 1; 0: not now */
	unsigned levels, depth, raw;
	uint64_t objects;            /* a bit for each depth */
	int state;
	bool in_key, is_first;
	unsigned escape; /* characters of an escape, with the backslash */
	uint32_t code, high;
	char scalar[JSON_FEED_SCALAR_MAX + 1];
	size_t n_scalar;
	char keys[JSON_FEED_LEVELS][JSON_FEED_KEY_MAX + 1];
	size_t n_keys[JSON_FEED_LEVELS], index[JSON_FEED_LEVELS];
	const char *raw_from;
};

void json_feed_init(struct json_feed *f, unsigned levels, json_feed_fn *fn, void *arg);
/* false: that is no JSON, or nested too deeply; it stays so */
bool json_feed(struct json_feed *f, struct str in);
bool json_feed_end(struct json_feed *f);            /* whether it was one whole value */
