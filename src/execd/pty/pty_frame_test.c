// SPDX-License-Identifier: Apache-2.0
#include "execd/pty/pty_frame.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"

#include "base/banned.h"

static void orders_are_understood(void **state)
{
	static const struct {
		const char *text;
		struct pty_order want;
	} cases[] = {
		{ "{\"type\":\"resize\",\"cols\":120,\"rows\":40}", { .kind = PTY_ORDER_RESIZE, .cols = 120, .rows = 40 } },
		{ "{\"type\":\"resize\",\"cols\":65535,\"rows\":1,\"x\":[]}", { .kind = PTY_ORDER_RESIZE, .cols = 65535, .rows = 1 } },
		{ "{\"type\":\"resize\",\"cols\":65536,\"rows\":1}", { .kind = PTY_ORDER_NONE } },
		{ "{\"type\":\"resize\",\"cols\":0,\"rows\":1}", { .kind = PTY_ORDER_NONE } },
		{ "{\"type\":\"resize\",\"cols\":-1,\"rows\":1}", { .kind = PTY_ORDER_NONE } },
		{ "{\"type\":\"resize\",\"cols\":\"1\",\"rows\":1}", { .kind = PTY_ORDER_NONE } },
		{ "{\"type\":\"resize\",\"cols\":1.0,\"rows\":1}", { .kind = PTY_ORDER_NONE } },
		{ "{\"type\":\"signal\",\"signal\":\"SIGINT\"}", { .kind = PTY_ORDER_SIGNAL, .signo = SIGINT } },
		{ "{\"type\":\"signal\",\"signal\":\"SIGHUP\"}", { .kind = PTY_ORDER_SIGNAL, .signo = SIGHUP } },
		{ "{\"type\":\"signal\",\"signal\":\"SIGSTOP\"}", { .kind = PTY_ORDER_NONE } },
		{ "{\"type\":\"signal\",\"signal\":2}", { .kind = PTY_ORDER_NONE } },
		{ "{\"type\":\"signal\"}", { .kind = PTY_ORDER_NONE } },
		{ "{\"type\":\"stdin\",\"data\":\"ls\\n\"}", { .kind = PTY_ORDER_STDIN, .data = { "ls\n", 3 } } },
		{ "{\"type\":\"stdin\",\"data\":\"\\u0000\\u0003\"}", { .kind = PTY_ORDER_STDIN, .data = { "\0\3", 2 } } },
		{ "{\"type\":\"stdin\",\"data\":[]}", { .kind = PTY_ORDER_NONE } },
		{ "{\"type\":\"stdin_end\"}", { .kind = PTY_ORDER_STDIN_END } },
		{ "{\"type\":\"ping\"}", { .kind = PTY_ORDER_PING } },
		{ " {\"type\" : \"ping\"} ", { .kind = PTY_ORDER_PING } },
		{ "{\"type\":\"PING\"}", { .kind = PTY_ORDER_UNKNOWN } },
		{ "{\"type\":null}", { .kind = PTY_ORDER_UNKNOWN } },
		{ "{}", { .kind = PTY_ORDER_UNKNOWN } },
		{ "", { .kind = PTY_ORDER_NONE } },
		{ "ping", { .kind = PTY_ORDER_NONE } },
		{ "\"ping\"", { .kind = PTY_ORDER_NONE } },
		{ "[[[[[[[[[[[[]]]]]]]]]]]]", { .kind = PTY_ORDER_NONE } },
		{ "{\"type\":\"ping\"", { .kind = PTY_ORDER_NONE } },
		{ "{\"type\":\"ping\"} x", { .kind = PTY_ORDER_NONE } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(65536);
		const struct pty_order *want = &cases[i].want;
		struct pty_order got;

		pty_order_parse(str_of(cases[i].text), &a, &got);
		if (got.kind != want->kind)
			fail_msg("%s: %d", cases[i].text, (int)got.kind);
		if (want->kind == PTY_ORDER_RESIZE)
			assert_true(got.cols == want->cols && got.rows == want->rows);
		assert_true(want->kind != PTY_ORDER_SIGNAL || got.signo == want->signo);
		assert_true(want->kind != PTY_ORDER_STDIN || str_eq(got.data, want->data));
	}
}

static void an_order_without_memory_is_none(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(16);
	struct pty_order got;

	(void)state;
	pty_order_parse(STR("{\"type\":\"ping\"}"), &a, &got);
	assert_int_equal(got.kind, PTY_ORDER_NONE);
}

static void news_are_one_line_of_json(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(PTY_NEWS_MAX);

	(void)state;
	pty_say_connected(&b, "ab-1", "pipe");
	assert_string_equal(b.p, "{\"type\":\"connected\",\"session_id\":\"ab-1\",\"mode\":\"pipe\"}");
	buf_clear(&b);
	pty_say_exit(&b, 137);
	assert_string_equal(b.p, "{\"type\":\"exit\",\"exit_code\":137}");
	buf_clear(&b);
	pty_say_error(&b, PTY_START_FAILED, "it \"broke\"\n");
	assert_string_equal(b.p, "{\"type\":\"error\",\"error\":\"it \\\"broke\\\"\\n\",\"code\":\"START_FAILED\"}");
}

static void offsets_are_big_endian(void **state)
{
	char head[PTY_REPLAY_HEAD];

	(void)state;
	pty_replay_head(UINT64_C(0x0102030405060708), head);
	assert_memory_equal(head, "\3\1\2\3\4\5\6\7\10", PTY_REPLAY_HEAD);
	pty_replay_head(UINT64_MAX, head);
	assert_memory_equal(head, "\3\377\377\377\377\377\377\377\377", PTY_REPLAY_HEAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(orders_are_understood),
		cmocka_unit_test(an_order_without_memory_is_none),
		cmocka_unit_test(news_are_one_line_of_json),
		cmocka_unit_test(offsets_are_big_endian),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
