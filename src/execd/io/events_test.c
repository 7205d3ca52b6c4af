// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* wants the four above first */
#include <signal.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "execd/code/code_driver.h"
#include "execd/io/events.h"
#include "sys/process.h"

#include "base/banned.h"

/* The event without its time, which is checked for being there. */
static const char *shape(struct buf *b)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	struct err e = { 0 };
	struct str all = buf_str(b);
	const struct json *v, *time;
	char *at;

	assert_true(str_ends(all, STR("}\n\n")));
	v = json_parse(&a, all, NULL, NULL, &e);
	assert_non_null(v);
	time = json_get(v, "timestamp");
	assert_true(time && time->type == JSON_INT && time->i > INT64_C(1600000000000));
	at = strstr(b->p, ",\"timestamp\"");
	assert_non_null(at);
	*at = '\0';
	return b->p;
}

#define check_event(want, ...) \
	do { \
		AUTO(buf_done) struct buf b = BUF_INIT(1 << 16); \
		struct event_stamp now; \
\
		event_stamp(&now); \
		__VA_ARGS__; \
		assert_string_equal(shape(&b), want); \
	} while (0)

static void each_kind_has_its_fields(void **state)
{
	(void)state;
	check_event("{\"type\":\"init\",\"text\":\"ab\"", event_init(&b, STR("ab")));
	check_event("{\"type\":\"ping\",\"text\":\"pong\"", event_ping(&b));
	check_event("{\"type\":\"stdout\",\"text\":\"\\n\"", event_text(&b, EVENT_STDOUT, STR("\n"), &now));
	check_event("{\"type\":\"stderr\",\"text\":\"x\xef\xbf\xbd\"", event_text(&b, EVENT_STDERR, STR("x\xff"), &now));
	check_event("{\"type\":\"execution_complete\",\"execution_time\":7", event_complete(&b, 7));
	check_event("{\"type\":\"error\",\"error\":{\"ename\":\"CommandExecError\",\"evalue\":\"why\",\"traceback\":[\"why\"]}",
		    event_not_started(&b, "why"));
}

#define ERROR(value, trace) \
	"{\"type\":\"error\",\"error\":{\"ename\":\"CommandExecError\",\"evalue\":\"" value "\",\"traceback\":[" trace "]}"

static void the_end_of_a_process_is_one_event(void **state)
{
	static const struct {
		struct process_end end;
		bool is_oom;
		const char *want;
	} cases[] = {
		{ { 0 }, false, "{\"type\":\"execution_complete\",\"execution_time\":5" },
		{ { .code = 7 }, false, ERROR("7", "\"exit status 7\"") },
		{ { .by_signal = true, .code = SIGKILL }, false, ERROR("137", "\"signal: killed\"") },
		{ { .by_signal = true, .code = SIGKILL }, true, ERROR("137", "\"signal: killed\",\"oom_killed\"") },
		{ { .code = 137 }, true, ERROR("137", "\"exit status 137\",\"oom_killed\"") },
		{ { .by_signal = true, .dumped_core = true, .code = SIGABRT }, false,
		  ERROR("134", "\"signal: aborted (core dumped)\"") },
		{ { .by_signal = true, .code = 64 }, false, ERROR("192", "\"signal: signal 64\"") },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		check_event(cases[i].want, event_end(&b, &cases[i].end, 5, cases[i].is_oom));
}

static void plain_text_of_a_result_has_two_names(void **state)
{
	const struct code_mime mimes[] = { { STR("text/html"), STR("<b>") }, { STR("text/plain"), STR("4\xff") } };
	AUTO(buf_done) struct buf counted = BUF_INIT(1 << 16);

	(void)state;
	check_event("{\"type\":\"result\",\"results\":{\"text/html\":\"<b>\",\"text\":\"4\xef\xbf\xbd\",\"text/plain\":\"4\xef\xbf\xbd\"}",
		    event_result(&b, &(struct code_result){ mimes, 2, 0 }));
	event_result(&counted, &(struct code_result){ mimes, 1, 7 });
	assert_true(str_starts(buf_str(&counted), STR("{\"type\":\"execution_count\",\"execution_count\":7,\"timestamp\":")));
	assert_non_null(strstr(buf_z(&counted), "}\n\n{\"type\":\"result\",\"results\":{\"text/html\":\"<b>\"},\"timestamp\":"));
}

static void an_error_of_code_has_its_own_words(void **state)
{
	const struct str trace[] = { STR("a\nb"), STR("c") };

	(void)state;
	check_event("{\"type\":\"error\",\"error\":{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"a\\nb\",\"c\"]}",
		    event_error(&b, &(struct code_error){ STR("E"), STR("v"), trace, 2 }));
	check_event("{\"type\":\"error\",\"error\":{\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[]}",
		    event_error(&b, &(struct code_error){ .name = STR("E") }));
}

static void text_of_the_safe_length_fits_whatever_it_is(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(EVENT_MAX);
	AUTO(free) char *text = malloc(EVENT_TEXT_MAX);
	struct event_stamp now;

	(void)state;
	assert_non_null(text);
	memset(text, 1, EVENT_TEXT_MAX);
	event_stamp(&now);
	event_text(&b, EVENT_STDERR, (struct str){ text, EVENT_TEXT_MAX }, &now);
	assert_false(b.failed);
	assert_true(b.n > 6 * EVENT_TEXT_MAX && b.n < (size_t)4 * 1024 * 1024);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_has_its_fields),
		cmocka_unit_test(the_end_of_a_process_is_one_event),
		cmocka_unit_test(plain_text_of_a_result_has_two_names),
		cmocka_unit_test(an_error_of_code_has_its_own_words),
		cmocka_unit_test(text_of_the_safe_length_fits_whatever_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
