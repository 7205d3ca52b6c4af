// SPDX-License-Identifier: Apache-2.0
/* base/json.h - the document tree that JSON and TOML are parsed into, and the JSON parser.
 *
 * A tree lives in an arena. Strings without escapes are views of the input, so the input must live as
 * long as the tree; every other string is a copy in the arena. The parser accepts exactly RFC 8259 in
 * UTF-8 (no BOM, no lone surrogates) and keeps duplicate keys: the decoder (base/decode.h) refuses them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct arena;
struct buf;
struct err;

enum json_type {
	JSON_NULL,
	JSON_BOOL,
	JSON_INT,  /* fits int64_t */
	JSON_UINT, /* an integer above INT64_MAX that fits uint64_t */
	JSON_REAL, /* a number with a fraction or exponent, or an integer beyond 64 bits */
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
	/* TOML only; the value is the text as written, in `s`. */
	JSON_DATETIME,
	JSON_DATETIME_LOCAL,
	JSON_DATE_LOCAL,
	JSON_TIME_LOCAL,
};

struct json {
	enum json_type type;
	uint32_t line;     /* where the value begins in a TOML file, from 1; 0 for JSON */
	struct json *next; /* next sibling in its array or object */
	struct str key;    /* in an object */
	union {
		bool b;
		int64_t i;
		uint64_t u;
		double d;
		struct str s;
		struct {
			struct json *first, *last;
			size_t n;
		} kids; /* of an array or object, in document order */
	};
};

struct json_limits {
	size_t bytes;   /* of the input; 0 means no limit of its own */
	unsigned depth; /* of nested arrays and objects; 0 means JSON_DEPTH_MAX */
	size_t values;  /* in the whole tree, each array and object being one too; 0 means JSON_VALUES_MAX */
};
#define JSON_DEPTH_MAX 32
#define JSON_VALUES_MAX 65536 /* 4 MiB of tree, and a bound for its readers */
#define JSON_NUMBER_MAX 1100 /* characters of one number: every double has a shorter exact decimal form */

/* NULL and an error that says where on bad input: "byte 17: ..." or, inside an array or object,
 * "$.items[3].name: byte 57: ..." (bytes count from 0). ERR_INVALID for malformed text and for numbers that
 * no double holds; ERR_LIMIT beyond LIMITS (NULL: the defaults), JSON_NUMBER_MAX or the arena's ceiling;
 * out of memory as err_no_memory(). *ret_offset (may be NULL) gets the byte offset of an error. */
struct json *json_parse(struct arena *a, struct str text, const struct json_limits *limits,
			size_t *ret_offset,
			struct err *e);

/* V becomes the last child of an array or object. */
void json_append(struct json *parent, struct json *v);

const struct json *json_get(const struct json *object, const char *key); /* first of that name, or NULL */
const struct json *json_at(const struct json *array, size_t i);          /* or NULL */
/* What a member of an object is, of answers whose shape is known: "" and 0 where it is not there or something
 * else. */
struct str json_text(const struct json *object, const char *key);
uint64_t json_count(const struct json *object, const char *key);
const char *json_type_name(enum json_type t);                            /* "object", "integer", ... */

/* Iterate: for (const struct json *v = json_first(x); v; v = v->next). NULL for scalars and NULL. */
static inline const struct json *json_first(const struct json *v)
{
	return v && (v->type == JSON_ARRAY || v->type == JSON_OBJECT) ? v->kids.first : NULL;
}

/* For errors about places in a document: appends one step of a path, ".name" or "[3]". A long name is cut
 * and characters that would disturb a line or a terminal are replaced. */
void json_path_key(struct buf *b, struct str key);
void json_path_index(struct buf *b, size_t i);

/* The error for an arena that returned NULL for NEED bytes: ERR_LIMIT at its ceiling, else out of memory. */
int json_no_room(const struct arena *a, size_t need, struct err *e);
