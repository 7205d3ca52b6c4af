// SPDX-License-Identifier: Apache-2.0
/* base/decode.h - binds a document (JSON or TOML) to a C struct by a table of fields.
 *
 *     struct create_req { const char *image; int64_t timeout_s; bool has_timeout; };
 *     static const struct field create_fields[] = {
 *         FIELD(struct create_req, image,     FIELD_STRING, "image",   .required = true, .min = 1, .max = 512),
 *         FIELD(struct create_req, timeout_s, FIELD_INT,    "timeout", .min = 60, .max = 86400,
 *               .has = HAS(struct create_req, has_timeout)),
 *         { 0 }
 *     };
 *
 * The struct holds the defaults before; only what the document names is written. null is "absent". Unknown
 * keys are listed in `unknown`, or refused when `closed`. A key that appears twice (aliases included) is
 * refused. Decoding goes on after a problem, so that one answer names them all (up to DECODE_PROBLEMS_MAX).
 * Strings and lists are copies in the arena; FIELD_TEXT and FIELD_ANY borrow from the document. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

struct arena;
struct buf;
struct err;
struct json_out;

enum field_kind {
	/* const char *, NUL-terminated; min/max bound its length in characters; no NUL inside */
	FIELD_STRING,
	FIELD_TEXT,    /* struct str, any characters; min/max bound its length in bytes */
	FIELD_INT,     /* int64_t; "600" and 600.0 are taken for 600 where the decoder is lenient */
	FIELD_REAL,    /* double */
	FIELD_BOOL,    /* bool */
	FIELD_ENUM,    /* int: index into .names (a NULL-terminated list of strings) */
	FIELD_STRINGS, /* struct string_list; min/max bound the count */
	FIELD_MAP,     /* struct string_map: an object whose values are strings; null values are left out unless .no_nulls;
			* min/max: count */
	FIELD_OBJECT,  /* struct at offset, by .fields */
	/* struct object_list: array of structs of .size bytes, each by .fields; min/max bound the count */
	FIELD_OBJECTS,
	FIELD_ANY,     /* const struct json *: left as it is */
};

struct string_list {
	const char **items;
	size_t n;
};

struct string_pair {
	const char *key, *value;
};

struct string_map {
	struct string_pair *items;
	size_t n;
};

struct object_list {
	void *items;
	size_t n;
};

struct field {
	const char *name;     /* NULL ends the table */
	const char *alias;    /* a second accepted spelling, or NULL */
	enum field_kind kind;
	size_t offset;        /* of the value in the struct */
	size_t has;           /* of a bool that says "was present", plus 1; see HAS(); 0: none */
	bool required;
	bool secret;          /* the value is never repeated in an error, a log or a dump */
	bool no_nulls;        /* of FIELD_MAP: a null value is a problem */
	/* both 0: no bound; max below min: no upper bound; from 0 on: .max = INT64_MAX */
	int64_t min, max;
	double real_min, real_max; /* the same for FIELD_REAL */
	const char *const *names;
	const struct field *fields;
	size_t size;
	const void *defaults; /* of FIELD_OBJECTS: what each struct holds before it is bound; NULL: zeroes */
	/* One more check of the bound value (its address): NULL, or what is wrong with it ("must start with
	 * '/'"). It runs only when nothing else is wrong with the value. */
	const char *(*check)(const void *value);
	const char *(*check_item)(const void *item); /* the same for each string or struct of a list */
	const char *pattern;  /* of FIELD_STRING: what `check` matches, for people ("^[a-z]+$") */
	const char *help;     /* one line for generated documentation */
};

#define FIELD(type, member, kind_, name_, ...) \
	{ \
		.name = (name_), .kind = (kind_), .offset = offsetof(type, member), __VA_ARGS__ \
	}
#define HAS(type, member) (offsetof(type, member) + 1)

#define DECODE_PROBLEMS_MAX 16
#define DECODE_UNKNOWN_MAX 32
#define DECODE_FIELDS_MAX 64 /* rows of one table */
#define DECODE_INPUT_MAX 256 /* bytes of an offending value in an answer; a larger one is left out */

/* What is wrong with one place of the document, in the vocabulary that clients know from 422 answers. */
struct decode_problem {
	const char *type;         /* "missing", "int_parsing", "greater_than_equal", ... */
	const char *path;         /* "$.volumes[2].mountPath" */
	const char *msg;          /* "Input should be greater than or equal to 60" */
	const struct json *where; /* the offending value, or NULL; its line tells the place in a TOML file */
	const struct json *loc;   /* the path as an array of keys and indexes */
	const char *ctx_key;      /* one "ctx" entry, or NULL: "ge" */
	int64_t ctx_value;
	const struct json *ctx_json; /* its value where that is not an integer, or NULL */
	bool secret;              /* the offending value is, or may contain, a secret */
};

struct decode {
	struct arena *arena; /* in: where strings, lists and problems go */
	bool closed;         /* in: unknown keys are problems */
	bool strict;         /* in: no numeric strings, no 600.0 for an integer (TOML) */
	struct decode_problem problems[DECODE_PROBLEMS_MAX];
	size_t n_problems;   /* problems beyond the maximum are not kept */
	const char *unknown[DECODE_UNKNOWN_MAX]; /* paths of keys that were ignored */
	size_t n_unknown;
};

/* 0, or -1 with e = ERR_INVALID and the first problem as text: "$.timeout: Input should be ..."; other codes
 * (ERR_LIMIT, out of memory) are not the document's fault and come without problems. V may be NULL: no
 * document. */
int decode(struct decode *d, const struct json *v, const struct field *fields, void *out, struct err *e);

/* Problems that a table cannot find, added to those of decode(); e as there. Both return -1.
 * A rule about the whole document (KEY NULL) or one member of it, of which the input is never repeated: */
int decode_refuse(struct decode *d, const char *key, const char *why, struct err *e);

/* The problems as the "detail" array of a 422 answer: [{"type","loc":["body",...],"msg","input","ctx"}].
 * WHERE is the first element of each loc. */
void decode_write_detail(const struct decode *d, const char *where, struct json_out *o);
