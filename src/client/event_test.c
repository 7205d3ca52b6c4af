// SPDX-License-Identifier: Apache-2.0
/* Events, and the executions that are gathered from them. */
#include "client/event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/err.h"
#include "client/gather.h"

#include "base/banned.h"

static void events_are_understood(void **state)
{
	static const struct {
		const char *json;
		int want;
		enum osb_event_kind kind;
		const char *text;
		int64_t number;
	} cases[] = {
		{ "{\"type\":\"init\",\"text\":\"ab\",\"timestamp\":7}", 1, OSB_EVENT_INIT, "ab", 0 },
		{ "{\"type\":\"stdout\",\"text\":\"x\",\"timestamp\":7}", 1, OSB_EVENT_STDOUT, "x", 0 },
		{ "{\"type\":\"stderr\",\"text\":\"\\n\",\"timestamp\":7}", 1, OSB_EVENT_STDERR, "\n", 0 },
		{ "{\"type\":\"stderr\",\"timestamp\":7}", 1, OSB_EVENT_STDERR, "", 0 },
		{ "{\"type\":\"stdout\",\"text\":4,\"timestamp\":7}", 1, OSB_EVENT_STDOUT, "", 0 },
		{ "{\"type\":\"execution_complete\",\"execution_time\":12,\"timestamp\":7}", 1, OSB_EVENT_COMPLETE, NULL, 12 },
		{ "{\"type\":\"execution_complete\",\"timestamp\":7}", 1, OSB_EVENT_COMPLETE, NULL, 0 },
		{ "{\"type\":\"execution_count\",\"execution_count\":3,\"timestamp\":7}", 1, OSB_EVENT_COUNT, NULL, 3 },
		{ "{\"type\":\"status\",\"text\":\"error\",\"timestamp\":7}", 1, OSB_EVENT_STATUS, "error", 0 },
		{ "{\"type\":\"ping\",\"text\":\"pong\",\"timestamp\":7}", 0, OSB_EVENT_INIT, NULL, 0 },
		{ "{\"type\":\"new\"}", 0, OSB_EVENT_INIT, NULL, 0 },
		{ "{\"type\":7,\"code\":\"A\",\"message\":\"b\"}", 0, OSB_EVENT_INIT, NULL, 0 },
		{ "{\"code\":\"A\"}", 0, OSB_EVENT_INIT, NULL, 0 },
		{ "[1]", 0, OSB_EVENT_INIT, NULL, 0 },
		{ "hello", 0, OSB_EVENT_INIT, NULL, 0 },
		{ "{\"type\":\"init\"", 0, OSB_EVENT_INIT, NULL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(65536);
		struct osb_event ev = { 0 };

		if (event_parse(str_of(cases[i].json), &a, &ev, &(struct err){ 0 }) != cases[i].want)
			fail_msg("%s", cases[i].json);
		if (cases[i].want == 0)
			continue;
		assert_int_equal(ev.kind, cases[i].kind);
		assert_int_equal(ev.timestamp_ms, 7);
		assert_int_equal(ev.number, cases[i].number);
		if (cases[i].text)
			assert_string_equal(ev.text, cases[i].text);
		else
			assert_null(ev.text);
	}
}

static void text_may_hold_any_byte(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	struct osb_event ev;

	(void)state;
	assert_int_equal(event_parse(STR("{\"type\":\"stdout\",\"text\":\"a\\u0000b\"}"), &a, &ev, &(struct err){ 0 }), 1);
	assert_int_equal(ev.n_text, 3);
	assert_memory_equal(ev.text, "a\0b", 4);
}

static void errors_and_results_are_complete(void **state)
{
	static const char failed[] = "{\"type\":\"error\",\"error\":{\"ename\":\"E\",\"evalue\":\"7\",\"traceback\":[\"x\",3,\"y\"]}}";
	static const char bare[] = "{\"code\":\"RUNTIME_ERROR\",\"message\":\"session is busy\"}";
	static const char rich[] = "{\"type\":\"result\",\"results\":{\"text/plain\":\"4\",\"application/json\":{\"a\":[1]}}}";
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	struct osb_event ev;

	(void)state;
	assert_int_equal(event_parse(STR(failed), &a, &ev, &(struct err){ 0 }), 1);
	assert_true(ev.kind == OSB_EVENT_ERROR && ev.traceback.n == 2);
	assert_string_equal(ev.traceback.items[1], "y");
	assert_int_equal(event_parse(STR(bare), &a, &ev, &(struct err){ 0 }), 1);
	assert_int_equal(ev.kind, OSB_EVENT_ERROR);
	assert_string_equal(ev.name, "RUNTIME_ERROR");
	assert_string_equal(ev.value, "session is busy");
	assert_int_equal(event_parse(STR(rich), &a, &ev, &(struct err){ 0 }), 1);
	assert_int_equal(ev.results.n, 2);
	assert_string_equal(ev.results.items[1].value, "{\"a\":[1]}");
}

static void without_memory_an_event_is_an_error(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(64);
	struct osb_event ev;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(event_parse(STR("{\"type\":\"stdout\",\"text\":\"some text\"}"), &a, &ev, &e), -1);
	assert_int_not_equal(e.code, ERR_NONE);
}

/* ---- executions ---- */

static void feed(struct gather *g, const char *const *lines, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(65536);
		struct osb_event ev;

		assert_int_equal(event_parse(str_of(lines[i]), &a, &ev, &(struct err){ 0 }), 1);
		assert_int_equal(gather_add(g, &ev, &(struct err){ 0 }), 0);
	}
	assert_int_equal(gather_finish(g, &(struct err){ 0 }), 0);
}

#define OUT(text) "{\"type\":\"stdout\",\"timestamp\":1,\"text\":\"" text "\"}"
#define FAILED(value) "{\"type\":\"error\",\"timestamp\":9,\"error\":{\"ename\":\"CommandExecError\",\"evalue\":\"" value "\"}}"
#define DONE "{\"type\":\"execution_complete\",\"execution_time\":5,\"timestamp\":9}"

static void lines_are_joined_and_empty_ones_are_empty(void **state)
{
	static const char *const lines[] = { OUT("a"), OUT("\\n"), OUT("b"), OUT("\\n"), OUT("\\n"), OUT("c"), DONE };
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	struct osb_execution x;
	struct gather g;

	(void)state;
	gather_init(&g, &a, &x);
	g.is_lines = g.has_exit = true;
	feed(&g, lines, ARRAY_LEN(lines));
	assert_string_equal(x.stdout_text, "a\n\nb\n\n\nc");
	assert_string_equal(x.stderr_text, "");
	assert_int_equal(x.n_stdout, 6);
	assert_string_equal(x.stdout_lines[1].text, "\n");
	assert_true(x.has_exit_code && x.exit_code == 0 && x.execution_time_ms == 5 && x.complete_timestamp_ms == 9);
	assert_null(x.error_name);
}

static void output_of_code_is_as_it_came(void **state)
{
	static const char *const lines[] = { OUT("a\\n"), OUT("b"), OUT("\\n"), "{\"type\":\"result\",\"results\":{\"text/plain\":\"4\",\"text\":\"5\"}}",
					     "{\"type\":\"execution_count\",\"execution_count\":2}", DONE };
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	struct osb_execution x;
	struct gather g;

	(void)state;
	gather_init(&g, &a, &x);
	feed(&g, lines, ARRAY_LEN(lines));
	assert_string_equal(x.stdout_text, "a\nb\n");
	assert_true(!x.has_exit_code && x.exit_code == -1 && x.execution_count == 2 && x.n_results == 1);
	assert_string_equal(x.results[0].text, "5");
}

static void exit_codes_come_from_the_end(void **state)
{
	static const struct {
		const char *end;
		bool has_exit, want;
		int64_t code;
	} cases[] = {
		{ DONE, true, true, 0 },
		{ DONE, false, false, -1 },
		{ FAILED("7"), true, true, 7 },
		{ FAILED("-1"), true, true, -1 },
		{ FAILED("137"), true, true, 137 },
		{ FAILED("fork: no such file"), true, false, -1 },
		{ FAILED(""), true, false, -1 },
		{ FAILED("7"), false, false, -1 },
		{ FAILED("99999999999999999999"), true, false, -1 },
		{ OUT("no end"), true, false, -1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(65536);
		struct osb_execution x;
		struct gather g;

		gather_init(&g, &a, &x);
		g.is_lines = true;
		g.has_exit = cases[i].has_exit;
		feed(&g, &cases[i].end, 1);
		assert_int_equal(x.has_exit_code, cases[i].want);
		assert_int_equal(x.exit_code, cases[i].code);
	}
}

static void what_is_skipped_is_not_kept_and_a_full_arena_is_told(void **state)
{
	static const char *const lines[] = { OUT("a"), OUT("b"), DONE };
	struct osb_event ev = { .kind = OSB_EVENT_STDOUT, .text = "0123456789", .n_text = 10 };
	AUTO(arena_done) struct arena a = ARENA_INIT(128 * 1024);
	struct err e = { 0 };
	struct osb_execution x;
	struct gather g;

	(void)state;
	gather_init(&g, &a, &x);
	g.skips = true;
	feed(&g, lines, ARRAY_LEN(lines));
	assert_true(x.n_stdout == 0 && x.stdout_text[0] == '\0');
	gather_init(&g, &a, &x);
	while (gather_add(&g, &ev, &e) == 0)
		assert_true(g.out[0].n < 10000);
	assert_int_equal(e.code, ERR_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_are_understood),
		cmocka_unit_test(text_may_hold_any_byte),
		cmocka_unit_test(errors_and_results_are_complete),
		cmocka_unit_test(without_memory_an_event_is_an_error),
		cmocka_unit_test(lines_are_joined_and_empty_ones_are_empty),
		cmocka_unit_test(output_of_code_is_as_it_came),
		cmocka_unit_test(exit_codes_come_from_the_end),
		cmocka_unit_test(what_is_skipped_is_not_kept_and_a_full_arena_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
