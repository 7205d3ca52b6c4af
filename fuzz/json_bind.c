// SPDX-License-Identifier: Apache-2.0
/* Any bytes as JSON: what parses is written and read back the same, and binding it to a table neither crashes
 * nor answers with anything but JSON. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/decode.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUT_MAX ((size_t)1024 * 1024)

struct inner {
	const char *name;
	struct object_list children;
};

struct outer {
	const char *id, *token;
	struct str text;
	int64_t n;
	double x;
	bool flag, has_inner;
	int choice;
	struct string_list list;
	struct string_map map;
	struct inner inner;
	struct object_list items;
	const struct json *any;
};

static const char *const choices[] = { "a", "b", NULL };

static const char *check_id(const void *value)
{
	return **(const char *const *)value == 'x' ? "must not start with 'x'" : NULL;
}

static const struct field inner_fields[] = {
	FIELD(struct inner, name, FIELD_STRING, "name", .alias = "n", .required = true, .check = check_id),
	FIELD(struct inner, children, FIELD_OBJECTS, "children", .fields = inner_fields, .size = sizeof(struct inner)),
	{ 0 },
};

static const struct field outer_fields[] = {
	FIELD(struct outer, id, FIELD_STRING, "id", .required = true, .min = 1, .max = 8, .check = check_id,
	      .pattern = "^[^x]"),
	FIELD(struct outer, token, FIELD_STRING, "token", .alias = "key", .secret = true, .max = 4),
	FIELD(struct outer, text, FIELD_TEXT, "text", .max = 8),
	FIELD(struct outer, n, FIELD_INT, "n", .min = -10, .max = 1000),
	FIELD(struct outer, x, FIELD_REAL, "x", .real_min = -1, .real_max = 1e9),
	FIELD(struct outer, flag, FIELD_BOOL, "flag"),
	FIELD(struct outer, choice, FIELD_ENUM, "choice", .names = choices),
	FIELD(struct outer, list, FIELD_STRINGS, "list", .min = 1, .max = 4, .check_item = check_id),
	FIELD(struct outer, map, FIELD_MAP, "map", .max = 64),
	FIELD(struct outer, inner, FIELD_OBJECT, "inner", .fields = inner_fields, .has = HAS(struct outer, has_inner)),
	FIELD(struct outer, items, FIELD_OBJECTS, "items", .fields = inner_fields, .size = sizeof(struct inner),
	      .max = 64),
	FIELD(struct outer, any, FIELD_ANY, "any"),
	{ 0 },
};

static void require(bool fact)
{
	if (!fact)
		abort();
}

static void write_tree(struct buf *b, const struct json *v)
{
	struct json_out o = json_out(b);

	json_tree(&o, v);
	require(!b->failed);
}

static void check_round_trip(struct arena *a, const struct json *v)
{
	AUTO(buf_done) struct buf once = BUF_INIT(OUT_MAX), twice = BUF_INIT(OUT_MAX);
	struct json *again;
	struct err e;

	write_tree(&once, v);
	again = json_parse(a, buf_str(&once), NULL, NULL, &e);
	require(again);
	write_tree(&twice, again);
	require(str_eq(buf_str(&once), buf_str(&twice)));
	require(utf8_valid(buf_str(&once)) && !memchr(once.p, '\n', once.n));
}

static void check_binding(struct arena *a, const struct json *v, bool closed, bool strict)
{
	AUTO(buf_done) struct buf b = BUF_INIT(OUT_MAX);
	struct decode d = { .arena = a, .closed = closed, .strict = strict };
	struct json_out o = json_out(&b);
	struct outer out = { 0 };
	struct err e = { 0 };
	struct json *detail;
	int r = decode(&d, v, outer_fields, &out, &e);

	require((r == 0) == (d.n_problems == 0) && (r == 0) == (e.code == ERR_NONE));
	require(r < 0 || (out.id && out.id[0] != 'x' && out.n <= 1000 && out.list.n <= 4));
	decode_write_detail(&d, "body", &o);
	require(!b.failed);
	detail = json_parse(a, buf_str(&b), &(struct json_limits){ .depth = JSON_DEPTH_MAX + 3 }, NULL, &e);
	require(detail && detail->kids.n == d.n_problems);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct json_limits limits = { .bytes = 64 * 1024, .depth = JSON_DEPTH_MAX, .values = 4096 };
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)64 * 1024 * 1024);
	size_t offset = SIZE_MAX;
	struct err e = { 0 };
	const struct json *v = json_parse(&a, (struct str){ (const char *)data, size }, &limits, &offset, &e);

	if (!v) {
		require(e.code != ERR_NONE && e.msg[0] && offset <= size);
		return 0;
	}
	check_round_trip(&a, v);
	check_binding(&a, v, false, false);
	check_binding(&a, v, true, true);
	return 0;
}
