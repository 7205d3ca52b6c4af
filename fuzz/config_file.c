// SPDX-License-Identifier: Apache-2.0
/* Any bytes as a configuration file: no crash, and a tree that keeps its promises. */
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/toml.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEPTH 12

static void require(bool fact)
{
	if (!fact)
		abort();
}

static void check(const struct json *v, unsigned depth, unsigned lines)
{
	const struct json *last = NULL;
	size_t n = 0;

	require(depth <= DEPTH && v->line >= 1 && v->line <= lines);
	if (v->type == JSON_STRING)
		require(utf8_valid(v->s));
	require(v->type != JSON_NULL && v->type != JSON_UINT);
	if (v->type != JSON_ARRAY && v->type != JSON_OBJECT)
		return;
	for (const struct json *k = v->kids.first; k; k = k->next, n++) {
		if (v->type == JSON_OBJECT && n < 64)
			for (const struct json *twin = k->next; twin; twin = twin->next)
				require(!str_eq(k->key, twin->key));
		check(k, depth + (k->type == JSON_ARRAY || k->type == JSON_OBJECT), lines);
		last = k;
	}
	require(n == v->kids.n && last == v->kids.last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(arena_done) struct arena a = ARENA_INIT((size_t)8 * 1024 * 1024);
	struct json_limits limits = { .bytes = 65536, .depth = DEPTH };
	struct str text = { (const char *)data, size };
	unsigned lines = 1, line = UINT32_MAX;
	struct err e = { 0 };
	struct json *v;

	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	v = toml_parse(&a, text, &limits, &line, &e);
	if (v)
		check(v, 1, lines);
	else
		require(e.code != ERR_NONE && e.code != ERR_INTERNAL && line <= lines);
	return 0;
}
