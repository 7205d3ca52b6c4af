// SPDX-License-Identifier: Apache-2.0
/* YAML that people write: what is read is a tree that can be shown in every form, and reads back from JSON as it was. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "cli/render.h"
#include "cli/yaml/yaml_read.h"

#include "base/banned.h"

#define ARENA_MAX ((size_t)64 * 1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void write_json(const struct json *v, struct buf *out)
{
	struct json_out o = json_out(out);

	json_tree(&o, v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(ARENA_MAX);
	AUTO(buf_done) struct buf once = BUF_INIT(ARENA_MAX), twice = BUF_INIT(ARENA_MAX), shown = BUF_INIT(ARENA_MAX);
	struct err e = { 0 };
	const struct json *v = yaml_parse(&a, (struct str){ (const char *)data, n }, &e), *back;

	if (!v)
		return 0;
	write_json(v, &once);
	back = json_parse(&a, buf_str(&once), NULL, NULL, &e);
	if (!back)
		abort();
	write_json(back, &twice);
	if (!str_eq(buf_str(&once), buf_str(&twice)))
		abort();
	render_yaml(v, &shown);
	render_dict(v, "title", &(struct render_style){ .width = 40 }, &shown);
	return 0;
}
