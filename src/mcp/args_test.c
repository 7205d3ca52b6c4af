// SPDX-License-Identifier: Apache-2.0
#include "mcp/args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_out.h"
#include "mcp/schema.h"

#include "base/banned.h"

static int decode_text(struct arena *a, const char *text, const struct field *fields, struct args *args, struct err *e)
{
	const struct json *v = json_parse(a, str_of(text), NULL, NULL, e);

	assert_non_null(v);
	*args = args_defaults;
	return args_decode(a, v, fields, args, e);
}

static void lists_that_came_as_text_are_taken_for_lists(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	struct err e = { 0 };
	struct args args;

	(void)state;
	assert_int_equal(decode_text(&a, "{\"sandbox_id\":\"x\",\"paths\":\"[\\\"/a\\\",\\\"/b\\\"]\"}", args_file_paths, &args, &e), 0);
	assert_int_equal(args.paths.n, 2);
	assert_string_equal(args.paths.items[1], "/b");
	assert_int_equal(decode_text(&a, "{\"sandbox_id\":\"[1]\",\"paths\":[\"/a\"],\"other\":7}", args_file_paths, &args, &e), 0);
	assert_string_equal(args.sandbox_id, "[1]");
	assert_int_equal(decode_text(&a, "{\"filter\":\"{\\\"states\\\":[\\\"Running\\\"],\\\"page\\\":2}\"}", args_sandbox_list, &args, &e), 0);
	assert_int_equal(args.filter.page, 2);
	assert_string_equal(args.filter.states.items[0], "Running");
}

static void all_that_is_wrong_is_told(void **state)
{
	static const struct {
		const struct field *fields;
		const char *text, *want;
	} cases[] = {
		{ args_command_run, "{}", "sandbox_id: Field required; command: Field required" },
		{ args_file_paths, "{\"sandbox_id\":\"x\",\"paths\":\"/a\"}", "paths: Input should be a valid list" },
		{ args_file_write, "{\"sandbox_id\":\"x\",\"path\":\"/a\",\"content\":\"\",\"mode\":689}",
		  "mode: Value error, must have octal digits, like 755 or 644" },
		{ args_sandbox_create, "{\"image\":\"a\",\"network_policy\":{\"egress\":[{\"action\":\"x\",\"target\":\"y\"}]}}",
		  "network_policy.egress[0].action: Input should be 'allow' or 'deny'" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
		struct err e = { 0 };
		struct args args;

		assert_int_equal(decode_text(&a, cases[i].text, cases[i].fields, &args, &e), -1);
		assert_string_equal(e.msg, cases[i].want);
	}
}

static void aliases_and_nulls_are_taken(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	struct err e = { 0 };
	struct args args;
	const struct args_move *move;

	(void)state;
	assert_int_equal(decode_text(&a, "{\"sandbox_id\":\"x\",\"entries\":[{\"src\":\"/a\",\"dest\":\"/b\"}]}", args_file_move, &args, &e), 0);
	move = args.entries.items;
	assert_string_equal(move->source, "/a");
	assert_string_equal(move->destination, "/b");
	assert_int_equal(decode_text(&a, "{\"image\":\"a\",\"env\":null,\"entrypoint\":null,\"network_policy\":null}", args_sandbox_create, &args, &e), 0);
	assert_false(args.has_network_policy);
	assert_true(args.timeout_seconds > 599 && args.timeout_seconds < 601);
}

static void schemas_tell_what_the_tables_say(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 16);
	struct json_out o = json_out(&b);

	(void)state;
	schema_input("sandbox_renew", args_sandbox_renew, &o);
	assert_string_equal(b.p, "{\"title\":\"sandbox_renewArguments\",\"properties\":{\"sandbox_id\":{\"type\":\"string\",\"title\":\"Sandbox Id\","
				 "\"description\":\"The sandbox, by the id that sandbox_create gave.\"},\"timeout_seconds\":{\"type\":\"number\","
				 "\"title\":\"Timeout Seconds\",\"description\":\"It ends this long from now.\"}},"
				 "\"required\":[\"sandbox_id\",\"timeout_seconds\"],\"type\":\"object\"}");
	buf_clear(&b);
	o = json_out(&b);
	schema_output("file_search", "EntryInfo[]", &o);
	assert_non_null(strstr(b.p, "\"title\":\"file_searchOutput\",\"properties\":{\"result\":{\"items\":{\"$ref\":\"#/$defs/EntryInfo\"},"));
	assert_non_null(strstr(b.p, "\"type\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":null,\"title\":\"Type\"}"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_that_came_as_text_are_taken_for_lists),
		cmocka_unit_test(all_that_is_wrong_is_told),
		cmocka_unit_test(aliases_and_nulls_are_taken),
		cmocka_unit_test(schemas_tell_what_the_tables_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
