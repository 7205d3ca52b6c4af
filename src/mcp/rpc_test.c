// SPDX-License-Identifier: Apache-2.0
#include "mcp/rpc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"

#include "base/banned.h"

/* ---- messages ---- */

static int read_text(struct arena *a, const char *text, struct rpc_message *m)
{
	struct err e = { 0 };
	const struct json *v = json_parse(a, str_of(text), NULL, NULL, &e);

	assert_non_null(v);
	return rpc_read(v, m, &e);
}

static void messages_are_told_apart(void **state)
{
	static const struct {
		const char *text;
		int kind; /* -1: none */
		const char *id, *method;
	} cases[] = {
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", RPC_REQUEST, "1", "ping" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"b\",\"method\":\"ping\"}", RPC_REQUEST, "\"a\\\"b\"", "ping" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":-9223372036854775808,\"method\":\"x\",\"params\":null}", RPC_REQUEST, "-9223372036854775808", "x" },
		{ "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{}}", RPC_NOTIFICATION, "", "n" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}", RPC_RESPONSE, "7", "" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", RPC_RESPONSE, "", "" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"x\"}", -1, "", NULL },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"x\"}", -1, "", NULL },
		{ "{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"x\"}", -1, "", NULL },
		{ "{\"jsonrpc\":\"1.0\",\"id\":3,\"method\":\"x\"}", -1, "3", NULL },
		{ "{\"id\":3,\"method\":\"x\"}", -1, "3", NULL },
		{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":7}", -1, "3", NULL },
		{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"\"}", -1, "3", NULL },
		{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"x\",\"params\":[1]}", -1, "3", NULL },
		{ "{\"jsonrpc\":\"2.0\",\"id\":3}", -1, "3", NULL },
		{ "{\"jsonrpc\":\"2.0\"}", -1, "", NULL },
		{ "[]", -1, "", NULL },
		{ "7", -1, "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
		struct rpc_message m;
		int r = read_text(&a, cases[i].text, &m);

		assert_string_equal(m.id.text, cases[i].id);
		assert_int_equal(r, cases[i].kind < 0 ? -1 : 0);
		if (r == 0) {
			assert_int_equal((int)m.kind, cases[i].kind);
			assert_true(str_is(m.method, cases[i].method));
		}
	}
}

static void an_id_that_is_too_long_is_none(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	char text[RPC_ID_MAX + 64];
	struct rpc_message m;

	(void)state;
	(void)snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":\"%0*d\",\"method\":\"x\"}", RPC_ID_MAX - 2, 0);
	assert_int_equal(read_text(&a, text, &m), 0);
	(void)snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":\"%0*d\",\"method\":\"x\"}", RPC_ID_MAX - 1, 0);
	assert_int_equal(read_text(&a, text, &m), -1);
	assert_string_equal(m.id.text, "");
}

static void answers_are_one_line(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct rpc_id id = { "\"x\"" };
	struct json_out o;

	(void)state;
	o = rpc_result_open(&b, &id);
	json_open(&o, '{'), json_close(&o, '}');
	rpc_result_close(&o);
	assert_string_equal(b.p, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{}}");
	buf_clear(&b);
	rpc_error(&b, &(struct rpc_id){ "" }, RPC_PARSE_ERROR, STR("a\nb\xff"));
	assert_string_equal(b.p, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"a\\nb\xef\xbf\xbd\"}}");
	buf_clear(&b);
	o = rpc_notify_open(&b, "n");
	json_open(&o, '{'), json_close(&o, '}');
	rpc_notify_close(&o);
	assert_string_equal(b.p, "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{}}");
}

/* ---- lines ---- */

struct seen {
	char text[512];
	unsigned too_long;
};

static void note(struct str line, bool is_too_long, void *arg)
{
	struct seen *s = arg;
	size_t n = strlen(s->text);

	s->too_long += is_too_long;
	assert_true(is_too_long ? line.n == 0 : line.n > 0);
	(void)snprintf(s->text + n, sizeof(s->text) - n, "<%.*s>", STR_ARG(line));
}

static void lines_do_not_depend_on_how_they_are_cut(void **state)
{
	static const char text[] = "{\"a\":1}\n\r\n  {\"b\":2}\r\n123456789012345\n{\"c\":3}\n\n12345678\n{\"d\"";

	(void)state;
	for (size_t first = 0; first < sizeof(text); first++)
		for (size_t second = first; second < sizeof(text); second++) {
			struct rpc_lines l = { .held = BUF_INIT(12) };
			struct seen s = { 0 };

			rpc_lines_feed(&l, (struct str){ text, first }, note, &s);
			rpc_lines_feed(&l, (struct str){ text + first, second - first }, note, &s);
			rpc_lines_feed(&l, (struct str){ text + second, sizeof(text) - 1 - second }, note, &s);
			rpc_lines_end(&l, note, &s);
			assert_string_equal(s.text, "<{\"a\":1}><{\"b\":2}><><{\"c\":3}><12345678><{\"d\">");
			assert_int_equal(s.too_long, 1);
		}
}

static void a_line_without_an_end_is_held_up_to_the_ceiling(void **state)
{
	struct rpc_lines l = { .held = BUF_INIT(100) };
	struct seen s = { 0 };

	(void)state;
	for (int i = 0; i < 10000; i++)
		rpc_lines_feed(&l, STR("0123456789"), note, &s);
	assert_string_equal(s.text, "");
	assert_true(l.held.cap <= 256);
	rpc_lines_end(&l, note, &s);
	assert_int_equal(s.too_long, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_are_told_apart),
		cmocka_unit_test(an_id_that_is_too_long_is_none),
		cmocka_unit_test(answers_are_one_line),
		cmocka_unit_test(lines_do_not_depend_on_how_they_are_cut),
		cmocka_unit_test(a_line_without_an_end_is_held_up_to_the_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
