// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp_install.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

static const char *const args[] = { "mcp" };
static const struct mcp_command command = { "/usr/bin/osb", args, 1 };

static const char *merged(const char *client, const char *text, struct buf *b)
{
	struct err e = { 0 };

	buf_clear(b);
	return mcp_entry_merge(mcp_client_find(client), &command, str_of(text), b, &e) == 0 ? buf_z(b) : NULL;
}

#define ENTRY2 "\"opensandbox\": {\n      \"command\": \"/usr/bin/osb\",\n      \"args\": [\n        \"mcp\"\n      ]\n    }"

static void an_entry_is_added_and_nothing_else_changes(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "", "{\n  \"mcpServers\": {\n    " ENTRY2 "\n  }\n}\n" },
		{ "{\"a\": 1.50}", "{\"a\": 1.50,\n  \"mcpServers\": {\n    " ENTRY2 "\n  }\n}" },
		{ "{\"mcpServers\": {}, \"z\": \"}\\\"\"}", "{\"mcpServers\": {\n    " ENTRY2 "\n  }, \"z\": \"}\\\"\"}" },
		{ "{\"mcpServers\" : {\"x\": {\"command\": \"y\", \"args\": [\"[\"]}}}\n",
		  "{\"mcpServers\" : {\"x\": {\"command\": \"y\", \"args\": [\"[\"]},\n    " ENTRY2 "\n  }}\n" },
		{ "{\"mcp\\u0053ervers\":{\"opensandbox\":{\"old\":[1,{}]},\"x\":7}}",
		  "{\"mcp\\u0053ervers\":{\"opensandbox\":" "{\n      \"command\": \"/usr/bin/osb\",\n      \"args\": [\n        \"mcp\"\n      ]\n    }"
		  ",\"x\":7}}" },
	};
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 16);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_string_equal(merged("claude", cases[i].in, &b), cases[i].want);
}

static void a_second_time_changes_nothing(void **state)
{
	AUTO(buf_done) struct buf once = BUF_INIT(1 << 16), twice = BUF_INIT(1 << 16);

	(void)state;
	for (size_t i = 0; mcp_client_at(i); i++) {
		const char *name = mcp_client_at(i)->name;

		assert_non_null(merged(name, "", &once));
		assert_string_equal(merged(name, buf_z(&once), &twice), buf_z(&once));
	}
}

static void what_is_not_plain_is_left_alone(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 16);

	(void)state;
	assert_null(merged("vscode", "{\n  // a comment\n  \"servers\": {}\n}", &b));
	assert_null(merged("cursor", "[]", &b));
	assert_null(merged("cursor", "{\"mcpServers\": 7}", &b));
	assert_null(merged("codex", "a = ", &b));
	assert_null(merged("codex", "mcp_servers.opensandbox.command = \"x\"\n", &b));
}

static void tables_are_replaced_with_those_inside_of_them(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 16);

	(void)state;
	assert_string_equal(merged("codex", "model = \"x\" # why\n\n[mcp_servers.opensandbox]\ncommand = \"old\"\n[mcp_servers.opensandbox.env]\nA = \"b\"\n\n"
					    "[mcp_servers.opensandbox2]\ncommand = \"z\"\n", &b),
			    "model = \"x\" # why\n\n[mcp_servers.opensandbox]\ncommand = \"/usr/bin/osb\"\nargs = [\"mcp\"]\n\n"
			    "[mcp_servers.opensandbox2]\ncommand = \"z\"\n");
	assert_string_equal(merged("codex", "model = \"x\"", &b),
			    "model = \"x\"\n\n[mcp_servers.opensandbox]\ncommand = \"/usr/bin/osb\"\nargs = [\"mcp\"]\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_entry_is_added_and_nothing_else_changes),
		cmocka_unit_test(a_second_time_changes_nothing),
		cmocka_unit_test(what_is_not_plain_is_left_alone),
		cmocka_unit_test(tables_are_replaced_with_those_inside_of_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
