// SPDX-License-Identifier: Apache-2.0
/* base/toml.h - TOML 1.0.0 into the document tree of base/json.h.
 *
 * A table is a JSON_OBJECT, an array of tables a JSON_ARRAY of them; dates and times keep their text, which
 * has been checked against the calendar. Every node knows the line that it began on (for a table: the header
 * or dotted key that first named it). Strings without escapes, bare keys and dates are views of the text, so
 * the text must live as long as the tree. CRLF inside a multi-line string becomes LF. */
#pragma once
#include "base/json.h"

struct arena;
struct err;

#define TOML_NUMBER_MAX 1024 /* characters in one number */

/* The root table, or NULL and an error that says where ("line 12: expected a value, found ','"): ERR_INVALID
 * for malformed text, ERR_LIMIT beyond LIMITS (the root table counts as one level of depth and as one value)
 * or for a number that is too long, err_no_memory() when the arena is full. Values are never repeated in it.
 * On failure *ret_line (may be NULL) gets the line, or 0 when no line is to blame. */
struct json *toml_parse(struct arena *a, struct str text, const struct json_limits *limits,
			unsigned *ret_line,
			struct err *e);
