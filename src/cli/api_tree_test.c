// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "cli/api_tree.h"
#include "cli/cli.h"

#include "base/banned.h"

static void keys_are_renamed_at_every_depth_and_values_are_not(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct json_out o = json_out(&b);
	struct err e = { 0 };
	struct json *v = json_parse(&a, STR("{\"createdAt\":\"someValue\",\"items\":[{\"bufferMin\":1,\"x\":{\"aB\":null}}],\"Upper\":true}"), NULL,
				    NULL, &e);

	(void)state;
	assert_non_null(v);
	json_tree(&o, api_rename(&a, v));
	assert_string_equal(buf_z(&b), "{\"created_at\":\"someValue\",\"items\":[{\"buffer_min\":1,\"x\":{\"a_b\":null}}],\"upper\":true}");
}

static void rows_have_what_paths_lead_to(void **state)
{
	static const char *const paths[] = { "name", "status.total", "status.nothing", "bytes", NULL };
	static const char *const columns[] = { "name", "total", "none", "size", NULL };
	struct cli cli = { .arena = ARENA_INIT(65536) };
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct json_out o = json_out(&b);
	struct err e = { 0 };
	struct json *v = json_parse(&cli.arena, STR("[{\"name\":\"a\",\"status\":{\"total\":3},\"bytes\":2048},{\"name\":1,\"status\":2}]"), NULL, NULL, &e);

	(void)state;
	assert_non_null(v);
	json_tree(&o, api_rows(&cli, v, paths, columns));
	assert_string_equal(buf_z(&b), "[{\"name\":\"a\",\"total\":3,\"none\":null,\"size\":\"2.0 KiB\"},"
					"{\"name\":1,\"total\":null,\"none\":null,\"size\":null}]");
	arena_done(&cli.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_renamed_at_every_depth_and_values_are_not),
		cmocka_unit_test(rows_have_what_paths_lead_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
