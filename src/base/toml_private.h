// SPDX-License-Identifier: Apache-2.0
/* base/toml_private.h - what the parts of the TOML parser share: toml.c (statements, arrays, inline tables),
 * toml_table.c (the tree and its redefinition rules), toml_string.c (strings and keys), toml_value.c
 * (numbers, booleans, dates).
 *
 * The text was checked before the first of them looks at it: it is UTF-8, its only control characters are
 * tab, LF, and CR before LF. So '\r' always means the end of a line here. */
#pragma once
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"

/* How a table or array came to be, which decides who may still add to it. */
enum toml_origin {
	TOML_IMPLICIT,     /* table: named on the way by a header only; may be defined later, once */
	TOML_HEADER,       /* table: [x], an element of [[x]], or the root */
	TOML_DOTTED,       /* table: by dotted keys; more of them may add to it, a header may not define it */
	TOML_INLINE,       /* table: {...}; closed */
	TOML_STATIC_ARRAY, /* array: [...]; closed */
	TOML_TABLE_ARRAY,  /* array: by [[x]]; its last element is what a header path leads into */
};

/* Every table and array is one of these; everybody else sees its first member. */
struct toml_node {
	struct json v;
	enum toml_origin origin;
	unsigned depth;               /* 1 for the root */
	struct map *keys;             /* a table's keys, once there are many */
	struct toml_node *next_keyed; /* list of those with a map, for its release */
};

struct toml {
	struct arena *arena;
	const char *at, *end;
	unsigned line;      /* of `at` */
	unsigned depth_max;
	size_t values, values_max;
	struct toml_node *root;
	struct toml_node *keyed;
	struct err *e;
};

/* All failures return -1 and leave "line N: ..." in t->e. Messages show names, by SHOWN(), but never a part
 * of a value: it may be a secret whose quotes were forgotten. */
int toml_fail_as(struct toml *t, enum err_code code, const char *fmt,
		 ...) __attribute__((format(printf, 3, 4)));
#define toml_fail(t, ...) toml_fail_as((t), ERR_INVALID, __VA_ARGS__)
/* "expected WHAT, found ..." at the current place */
int toml_fail_expected(struct toml *t, const char *what);

static inline bool toml_at_newline(const struct toml *t)
{
	return t->at < t->end && (*t->at == '\n' || *t->at == '\r');
}

/* toml_string.c */
int toml_string(struct toml *t, struct str *ret); /* at a quote */
int toml_key(struct toml *t, struct str *ret);    /* one part of a key: bare or quoted */

/* toml_value.c */
int toml_scalar(struct toml *t, struct json *v);  /* at a value that is no string, array or inline table */

/* toml_table.c: nodes, and the walk along key parts. NULL with t->e set on failure. */
struct toml_node *toml_node_new(struct toml *t, const struct toml_node *parent, enum json_type type,
				enum toml_origin origin);
struct json *toml_node_scalar(struct toml *t);
void toml_release(struct toml *t); /* the maps; the tree stays */

/* key must be free */
int toml_insert(struct toml *t, struct toml_node *table, struct str key, struct json *v);
int toml_check_free(struct toml *t, const struct toml_node *table, struct str key);

struct toml_node *toml_walk_dotted(struct toml *t, struct toml_node *table, struct str key);
struct toml_node *toml_walk_header(struct toml *t, struct toml_node *table, struct str key);
struct toml_node *toml_define(struct toml *t, struct toml_node *table, struct str key);       /* [x] */
struct toml_node *toml_define_element(struct toml *t, struct toml_node *table, struct str key); /* [[x]] */
