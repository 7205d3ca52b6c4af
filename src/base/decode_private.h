// SPDX-License-Identifier: Apache-2.0
/* base/decode_private.h - what the files of the decoder share, and nobody else includes: decode.c binds
 * objects and lists, decode_scalar.c the values in them, decode_problem.c records what is wrong.
 *
 * Every function returns 0 whether or not the document is right (that is what problems are for), and -1 when
 * decoding itself failed. */
#pragma once
#include "base/decode.h"

/* One step from the root of the document to the value at hand; the steps are chained on the C stack. */
struct spot {
	const struct spot *up;      /* NULL at the root */
	struct str key;             /* p is NULL in an array */
	size_t index;
	const struct json *v;       /* the value here */
	const struct field *fields; /* the table that V is bound by, or NULL */
	bool secret;                /* this value or one around it is secret */
};

struct binding {
	struct decode *d;
	struct err *e;
	size_t found; /* problems, including those that were not kept */
};

/* Records a problem at a place: its type and ctx come from P, the rest is filled in. */
int problem_add(struct binding *b, const struct spot *at, const struct decode_problem *p, const char *fmt,
		...)
	__attribute__((format(printf, 4, 5)));

/* The short form, with a constant message. */
int problem_say(struct binding *b, const struct spot *at, const char *type, const char *msg);

char *spot_path(struct binding *b, const struct spot *at); /* NULL: failed */

/* The error for an arena that has no room for an array. */
int decode_no_room(struct binding *b, size_t count, size_t size);

typedef int (*binder)(struct binding *b, const struct spot *at, const struct field *f, void *to);
int bind_string(struct binding *b, const struct spot *at, const struct field *f, void *to);
int bind_text(struct binding *b, const struct spot *at, const struct field *f, void *to);
int bind_int(struct binding *b, const struct spot *at, const struct field *f, void *to);
int bind_real(struct binding *b, const struct spot *at, const struct field *f, void *to);
int bind_bool(struct binding *b, const struct spot *at, const struct field *f, void *to);
int bind_enum(struct binding *b, const struct spot *at, const struct field *f, void *to);

/* A NUL-terminated copy of a string that has no NUL inside; *ret stays as it is when there is a problem. */
int bind_take_string(struct binding *b, const struct spot *at, const char **ret);

/* Of lists and maps: WHAT is "List" or "Dictionary". */
int bind_check_count(struct binding *b, const struct spot *at, const struct field *f, const char *what);
