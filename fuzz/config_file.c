// SPDX-License-Identifier: Apache-2.0
/* Any bytes as a configuration file: no crash, and a tree that keeps its promises. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/toml.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEPTH 12
#define VALUES 4096

static void require(bool fact)
{
	if (!fact)
		abort();
}

/* The number of values in the tree. */
static size_t check(const struct json *v, unsigned depth, unsigned lines)
{
	const struct json *last = NULL;
	size_t n = 0, total = 1;

	require(depth <= DEPTH && v->line >= 1 && v->line <= lines);
	if (v->type == JSON_STRING)
		require(utf8_valid(v->s));
	require(v->type != JSON_NULL && v->type != JSON_UINT);
	if (v->type != JSON_ARRAY && v->type != JSON_OBJECT)
		return total;
	for (const struct json *k = v->kids.first; k; k = k->next, n++) {
		if (v->type == JSON_OBJECT && n < 64)
			for (const struct json *twin = k->next; twin; twin = twin->next)
				require(!str_eq(k->key, twin->key));
		total += check(k, depth + (k->type == JSON_ARRAY || k->type == JSON_OBJECT), lines);
		last = k;
	}
	require(n == v->kids.n && last == v->kids.last);
	return total;
}

/* One line that no terminal obeys. */
static void check_message(struct str msg)
{
	require(msg.n > 0);
	while (msg.n > 0) {
		uint32_t rune = 0;
		size_t n = utf8_next(msg, &rune);

		require(n > 0 && !escape_needed(rune));
		msg = str_skip(msg, n);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)8 * 1024 * 1024);
	struct json_limits limits = { .bytes = 65536, .depth = DEPTH, .values = VALUES };
	struct str text = { (const char *)data, size };
	unsigned lines = 1, line = UINT32_MAX;
	struct err e = { 0 };
	struct json *v;

	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	v = toml_parse(&a, text, &limits, &line, &e);
	if (v) {
		require(check(v, 1, lines) <= VALUES);
		return 0;
	}
	require(e.code != ERR_NONE && e.code != ERR_INTERNAL && line <= lines);
	check_message(str_of(e.msg));
	return 0;
}
