// SPDX-License-Identifier: Apache-2.0
#include "client/term_frame.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"

#include "base/banned.h"

static void bytes_are_sorted_by_their_first(void **state)
{
	static const struct {
		struct str in, want;
		enum term_news_kind kind;
		bool is_stderr;
		uint64_t offset;
	} cases[] = {
		{ { "\1abc", 4 }, { "abc", 3 }, TERM_OUTPUT, false, 0 },
		{ { "\2a\0c", 4 }, { "a\0c", 3 }, TERM_OUTPUT, true, 0 },
		{ { "\3\0\0\0\0\0\0\1\2xy", 11 }, { "xy", 2 }, TERM_REPLAY, false, 258 },
		{ { "\3\377\377\377\377\377\377\377\377", 9 }, { "", 0 }, TERM_REPLAY, false, UINT64_MAX },
		{ { "\3\0\0\0\0\0\0\1", 8 }, { 0 }, TERM_NOTHING, false, 0 },
		{ { "\1", 1 }, { 0 }, TERM_NOTHING, false, 0 },
		{ { "\0x", 2 }, { 0 }, TERM_NOTHING, false, 0 },
		{ { "\7x", 2 }, { 0 }, TERM_NOTHING, false, 0 },
		{ { "", 0 }, { 0 }, TERM_NOTHING, false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct term_news n;

		term_news_parse(false, cases[i].in, &n);
		assert_int_equal(n.kind, cases[i].kind);
		assert_int_equal(n.is_stderr, cases[i].is_stderr);
		assert_true(n.offset == cases[i].offset && str_eq(n.data, cases[i].want));
	}
}

static void news_are_understood(void **state)
{
	static const struct {
		const char *in;
		enum term_news_kind kind;
		int exit_code;
		const char *code;
	} cases[] = {
		{ "{\"type\":\"connected\",\"session_id\":\"x\",\"mode\":\"pipe\"}", TERM_CONNECTED, -1, "" },
		{ "{\"type\":\"exit\",\"exit_code\":137}", TERM_EXIT, 137, "" },
		{ "{\"type\":\"exit\",\"exit_code\":-1}", TERM_EXIT, -1, "" },
		{ "{\"type\":\"exit\",\"exit_code\":\"7\"}", TERM_EXIT, -1, "" },
		{ "{\"type\":\"exit\"}", TERM_EXIT, -1, "" },
		{ "{\"type\":\"error\",\"error\":\"no shell\",\"code\":\"START_FAILED\"}", TERM_ERROR, -1, "START_FAILED" },
		{ "{\"type\":\"error\"}", TERM_ERROR, -1, "" },
		{ "{\"type\":\"pong\"}", TERM_NOTHING, -1, "" },
		{ "{\"type\":{}}", TERM_NOTHING, -1, "" },
		{ "exit", TERM_NOTHING, -1, "" },
		{ "", TERM_NOTHING, -1, "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct term_news n;

		term_news_parse(true, str_of(cases[i].in), &n);
		assert_int_equal(n.kind, cases[i].kind);
		assert_int_equal(n.exit_code, cases[i].exit_code);
		assert_string_equal(n.code, cases[i].code);
	}
}

static void a_long_message_is_cut(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(8192);
	struct term_news n;

	(void)state;
	buf_addf(&b, "{\"type\":\"error\",\"error\":\"%01000d\",\"code\":\"%0200d\"}", 1, 1);
	term_news_parse(true, buf_str(&b), &n);
	assert_int_equal(strlen(n.message), TERM_MESSAGE_MAX);
	assert_int_equal(strlen(n.code), TERM_CODE_MAX);
}

static void orders_are_json(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TERM_ORDER_MAX);

	(void)state;
	term_order_resize(&b, 120, 40);
	assert_string_equal(b.p, "{\"type\":\"resize\",\"cols\":120,\"rows\":40}");
	buf_clear(&b);
	assert_true(term_order_signal(&b, "SIGINT"));
	assert_string_equal(b.p, "{\"type\":\"signal\",\"signal\":\"SIGINT\"}");
	assert_false(term_order_signal(&b, "INT"));
	assert_false(term_order_signal(&b, "SIGAVERYLONGNAMEINDEED"));
	assert_false(term_order_signal(&b, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_sorted_by_their_first),
		cmocka_unit_test(news_are_understood),
		cmocka_unit_test(a_long_message_is_cut),
		cmocka_unit_test(orders_are_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
