// SPDX-License-Identifier: Apache-2.0
/* base/json_out.h - writes JSON into a buf, commas and nesting kept right.
 *
 *     struct json_out o = json_out(&b);
 *     json_open(&o, '{');
 *     json_key(&o, "id"), json_str(&o, STR("ab12"));
 *     json_key(&o, "tags"), json_open(&o, '['), json_close(&o, ']');
 *     json_close(&o, '}');
 *     if (b.failed) ...
 *
 * Output is one physical line of valid UTF-8 for any bytes: control characters (U+0000 to U+001F, U+007F to
 * U+009F), U+2028 and U+2029 are escaped, each ill-formed byte becomes U+FFFD. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct buf;
struct json;

struct json_out {
	struct buf *b;
	bool comma; /* a value has been written at this level */
};

static inline struct json_out json_out(struct buf *b)
{
	return (struct json_out){ .b = b };
}

void json_open(struct json_out *o, char bracket); /* '{' or '[' */
void json_close(struct json_out *o, char bracket);
void json_key(struct json_out *o, const char *name);
void json_key_str(struct json_out *o, struct str name);

void json_str(struct json_out *o, struct str s);
void json_cstr(struct json_out *o, const char *z); /* NULL writes null */
void json_int(struct json_out *o, int64_t v);
void json_uint(struct json_out *o, uint64_t v);
/* The shortest form that reads back the same, always with a fraction or an exponent ("1.0"), so that it is
 * read back as a real; not finite: null. */
void json_real(struct json_out *o, double v);
void json_bool(struct json_out *o, bool v);
void json_null(struct json_out *o);
void json_raw(struct json_out *o, struct str json); /* one value that is JSON already, on one line */

/* A parsed tree (NULL writes null); the dates and times of TOML become strings. Its parser bounds the depth;
 * beyond JSON_TREE_DEPTH_MAX the buffer fails. */
void json_tree(struct json_out *o, const struct json *v);
#define JSON_TREE_DEPTH_MAX 512
