// SPDX-License-Identifier: Apache-2.0
/* net/http/header.h - the grammar of HTTP and MIME header values: lists, parameters, file names. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct buf;
struct err;

struct str header_trim(struct str s); /* without spaces and tabs around it */

/* Takes the next element of a comma-separated list from *in: trimmed, empty elements skipped, a comma inside
 * a quoted string does not separate. False at the end. */
bool header_list_next(struct str *in, struct str *ret_item);

/* The parameters of `type; a=b; c="d\"e"`. header_value() gives the part before the first ';' and leaves the
 * parameters in *ret_params; header_param_next() takes one from there: 1, 0 at the end, -1 (ERR_INVALID).
 * Blanks around ';' and '=' and an empty parameter are tolerated; an unquoted value may hold any visible
 * byte but ';' and '"'. */
struct header_param {
	struct str name;
	struct str value; /* without the quotes around it, still with its backslashes */
	bool quoted;
};

struct str header_value(struct str field, struct str *ret_params);
int header_param_next(struct str *params, struct header_param *ret_param, struct err *e);

/* The value with \" and \\ resolved when it was quoted. A backslash before anything else stays: it comes from
 * senders that do not escape at all. OUT has room for value.n bytes and may be the value's own place. */
struct str header_param_text(const struct header_param *param, char *out);

/* Decodes an extended value, utf-8'en'a%20b (RFC 8187), into OUT (room for value.n bytes, or its own place).
 * False for another character set, bad escapes, control bytes and ill-formed UTF-8. */
bool header_ext_value(struct str value, char *out, struct str *ret_text);

/* Appends the value of Content-Disposition that makes a browser save the body as NAME (RFC 6266). A plain
 * ASCII name goes out in quotes. Any other is percent-encoded, both as filename (for old readers) and as
 * filename*; so quotes, backslashes, slashes, line ends and other controls cannot get through. Ill-formed
 * UTF-8 becomes U+FFFD. An empty name gives just "attachment". */
bool header_disposition_write(struct buf *b, struct str name);
