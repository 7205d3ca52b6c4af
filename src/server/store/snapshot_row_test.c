// SPDX-License-Identifier: Apache-2.0
#include "server/store/snapshot_row.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

#define A "00112233445566778899aabbccddeeff"
#define B "ffeeddccbbaa99887766554433221100"
#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static int load(const char *spec, struct arena *a, struct snapshot_row *ret)
{
	const struct snapshot_columns c = {
		.id = STR("id-1"), .sandbox_id = STR("id-2"), .spec = str_of(spec), .state = STR("Ready"), .reason = STR("r"),
		.message = STR("m"), .created_us = 1, .changed_us = 1,
	};
	struct err e = { 0 };

	return snapshot_row_load(&c, a, ret, &e);
}

static void records_of_earlier_versions_have_layers_instead_of_a_reference(void **state)
{
	static const struct {
		const char *spec, *reference;
	} cases[] = {
		{ "{\"image\":\"host\",\"layers\":[\"" A "\"]}", A },
		{ "{\"image\":\"host\",\"layers\":[\"" A "\",\"" B "\"]}", A ":" B },
		{ "{\"image\":\"x\",\"digest\":\"" DIGEST "\",\"layers\":[]}", NULL },
		{ "{\"image\":\"host\",\"reference\":\"any text/of-a:runtime\"}", "any text/of-a:runtime" },
		{ "{\"image\":\"x\",\"digest\":\"" DIGEST "\"}", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
		AUTO(buf_done) struct buf spec = BUF_INIT(65536);
		struct snapshot_row r, again;

		assert_int_equal(load(cases[i].spec, &a, &r), 0);
		if (cases[i].reference)
			assert_string_equal(r.reference, cases[i].reference);
		else
			assert_null(r.reference);
		assert_true(snapshot_row_write_spec(&r, &spec));
		assert_null(strstr(buf_z(&spec), "layers"));
		assert_int_equal(load(buf_z(&spec), &a, &again), 0);
	}
}

static void references_that_are_none_are_refused(void **state)
{
	static const char *const specs[] = {
		"{\"image\":\"host\"}", "{\"image\":\"host\",\"layers\":[]}", "{\"image\":\"host\",\"layers\":[\"short\"]}",
		"{\"image\":\"host\",\"layers\":[\"" A "\",\"FF" A "\"]}", "{\"image\":\"host\",\"reference\":\"\"}",
		"{\"image\":\"host\",\"reference\":\"a\\nb\"}", "{\"image\":\"host\",\"reference\":\"a\",\"layers\":[\"" A "\"]}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
		struct snapshot_row r;

		assert_int_equal(load(specs[i], &a, &r), -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_of_earlier_versions_have_layers_instead_of_a_reference),
		cmocka_unit_test(references_that_are_none_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
