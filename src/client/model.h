// SPDX-License-Identifier: Apache-2.0
/* client/model.h - results, with one table per kind that reads and shows them.
 *
 *     static const struct model_field expiry_fields[] = {
 *         MODEL(struct osb_expiry, expires_at, MODEL_TIME, "expiresAt", .required = true),
 *     };
 *     const struct model expiry_model = MODEL_OF(struct osb_expiry, expiry_fields);
 *
 * A result is the first object in an arena of its own. In front of it, hidden from its owner, is a head with
 * the arena and the model. So osb_free() and osb_to_json() need only the pointer. Members of an answer that
 * no table names are ignored, and null means absent; a member of the wrong type makes the answer invalid. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct arena;
struct err;
struct json;
struct json_out;
struct model;
struct model_reader;

enum model_kind {
	MODEL_STRING,  /* const char *; NULL: not there */
	MODEL_TIME,    /* the same, shown as the other SDKs show times */
	MODEL_INT,     /* int64_t; .none where it is not there */
	MODEL_SMALL,   /* int */
	MODEL_REAL,    /* double */
	MODEL_BOOL,    /* bool */
	MODEL_STRINGS, /* struct osb_strings */
	MODEL_MAP,     /* struct osb_map; a value that is no string is JSON */
	MODEL_OBJECT,  /* a struct in place, by .model */
	MODEL_OBJECTS, /* a pointer to structs by .model, their number is at .n */
};

struct model_field {
	const char *wire; /* as the server calls it; NULL: it does not send it; "": the whole value */
	const char *name; /* as osb_to_json() calls it; NULL: not shown; "": instead of an object */
	enum model_kind kind;
	bool required;
	bool is_nullable; /* an empty list or map is shown as null */
	size_t offset, n;
	size_t has;   /* of a bool that says that it was there, plus 1, see MODEL_HAS(); 0: none */
	int64_t none; /* of MODEL_INT: what stands for "not there", and is shown as null unless it is 0 */
	const struct model *model;
};

struct model {
	size_t size;
	const struct model_field *fields;
	size_t n_fields;
	/* What a table cannot say; NULL: the table does it. read() returns what model_bad() does, or 0. */
	int (*read)(struct model_reader *r, const struct json *v, void *out);
	void (*show)(struct json_out *o, const void *p);
};

#define MODEL(type, member, kind_, wire_, ...) \
	{ \
		.wire = (wire_), .name = #member, .kind = (kind_), .offset = offsetof(type, member), __VA_ARGS__ \
	}
#define MODEL_OF(type, fields_, ...) \
	{ \
		.size = sizeof(type), .fields = (fields_), .n_fields = sizeof(fields_) / sizeof((fields_)[0]), __VA_ARGS__ \
	}
#define MODEL_HAS(type, member) (offsetof(type, member) + 1)

#define RESULT_MAX ((size_t)256 * 1024 * 1024) /* bytes of one result */
#define MODEL_ITEMS_MAX 1000000                /* of one list */

/* ---- results ---- */

void *result_new(const struct model *m, struct err *e); /* zeroes */
struct arena *result_arena(void *result);
void result_free(const void *result); /* osb_free() */

extern const struct model bytes_model; /* struct osb_bytes; shown as a string */
extern const struct model json_model;  /* struct osb_bytes that are JSON; shown as that */
void *result_bytes(const struct model *m, struct str bytes, struct err *e);

/* ---- reading ---- */

/* Where a reader is, and where its strings go. */
struct model_reader {
	struct arena *arena;
	struct buf *path;
	struct err *e;
};

void *model_read(const struct model *m, const struct json *v, struct err *e); /* a new result, or NULL */
/* For read() functions. */
int model_read_struct(struct model_reader *r, const struct model *m, const struct json *v, void *out);
/* ERR_INVALID, "$.items[3].id: it is missing"; or e as it stands */
int model_bad(struct model_reader *r, const char *what);
int model_no_room(struct model_reader *r);

/* ---- showing ---- */

void model_show(struct json_out *o, const struct model *m, const void *p);
