// SPDX-License-Identifier: Apache-2.0
/* Any bytes as the template of a pool: it is refused with words, or gives an order that a sandbox can be made by, and the
 * same one when it is read again from what was kept of it. */
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "server/api/create.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int any_image(struct runtime *rt, const char *uri, struct err *e)
{
	(void)rt;
	return uri[0] ? 0 : err_set(e, ERR_INVALID, "empty");
}

static void check_order(const struct sandbox_order *o)
{
	if (!o->image || o->image[0] == '\0' || o->entrypoint.n == 0 || o->entrypoint.n > CREATE_ARGS_MAX || o->env.n > CREATE_ENV_MAX)
		abort();
	if (o->timeout_s != 0 || o->metadata.n > 0 || o->renew_s != 0 || o->limits.cpu_milli == 0 || o->limits.memory_bytes == 0)
		abort();
	for (size_t i = 0; i < o->env.n; i++)
		if (o->env.items[i].key[0] == '\0' || strchr(o->env.items[i].key, '='))
			abort();
}

static bool is_same(const struct sandbox_order *a, const struct sandbox_order *b)
{
	for (size_t i = 0; i < a->entrypoint.n && i < b->entrypoint.n; i++)
		if (strcmp(a->entrypoint.items[i], b->entrypoint.items[i]) != 0)
			return false;
	return strcmp(a->image, b->image) == 0 && a->entrypoint.n == b->entrypoint.n && a->env.n == b->env.n &&
	       memcmp(&a->limits, &b->limits, sizeof(a->limits)) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct runtime_ops ops = { .check_image = any_image };
	struct runtime rt = { .ops = &ops, .code_prefix = "NATIVE",
			      .can = { .platforms = &(struct runtime_platform){ "linux", "amd64" }, .n_platforms = 1, .networks = 7,
			       .limits = LIMIT_CPU | LIMIT_MEMORY | LIMIT_PIDS | LIMIT_DISK, .volumes = true, .host_paths = true } };
	struct create_rules rules = { .runtime = &rt, .ceilings = RUNTIME_CEILINGS };
	AUTO(arena_done) struct arena a = ARENA_INIT(32 << 20);
	AUTO(buf_done) struct buf kept = BUF_INIT(32 << 20);
	struct str text = { (const char *)data, size };
	struct json_out out = json_out(&kept);
	struct sandbox_order order, again;
	struct fault f = { 0 };

	if (template_order(text, &rules, &a, &order, &f) < 0) {
		if (f.status < 400 || f.code[0] == '\0' || f.message[0] == '\0')
			abort();
		return 0;
	}
	check_order(&order);
	json_tree(&out, json_parse(&a, text, NULL, NULL, &(struct err){ 0 }));
	if (kept.failed || template_order(buf_str(&kept), &rules, &a, &again, &f) < 0 || !is_same(&order, &again))
		abort();
	return 0;
}
