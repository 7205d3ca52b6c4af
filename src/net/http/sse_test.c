// SPDX-License-Identifier: Apache-2.0
#include "net/http/sse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"

#include "base/banned.h"

static void our_events_are_a_line_of_json_and_a_blank_line(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(60);

	(void)state;
	assert_true(sse_json_event(&b, STR("{\"type\":\"ping\"}")));
	assert_true(sse_json_event(&b, STR("{\"text\":\"\xe2\x82\xac\"}")));
	assert_string_equal(buf_z(&b), "{\"type\":\"ping\"}\n\n{\"text\":\"\xe2\x82\xac\"}\n\n");
	assert_false(sse_json_event(&b, STR("{\"text\":\"012345678901234567890123456789\"}")));
	assert_int_equal(b.n, 33);
}

static void line_ends_of_every_kind_are_found(void **state)
{
	static const char *const many[] = {
		"\n", "a\rb", "a\xc2\x85", "\xe2\x80\xa8", "\xe2\x82\xac\xe2\x80\xa9z", "\xc2\xa9\xc2\x85",
	};
	static const char *const one[] = {
		"", "abc\t\v\f", "\xc2\xa9\xe2\x82\xac", "\xc2", "\xe2\x80", "\xe2\x80\xaa", "\x85",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		assert_false(sse_is_one_line(str_of(many[i])));
	for (size_t i = 0; i < ARRAY_LEN(one); i++)
		assert_true(sse_is_one_line(str_of(one[i])));
}

static void standard_events_are_split_into_lines(void **state)
{
	static const struct {
		struct sse_event ev;
		const char *want;
	} cases[] = {
		{ { .data = { "hi", 2 } }, "data: hi\n\n" },
		{ { .data = { NULL, 0 } }, "data: \n\n" },
		{ { .event = { "message", 7 }, .id = { "7", 1 }, .has_id = true, .data = { "{}", 2 } },
		  "event: message\nid: 7\ndata: {}\n\n" },
		{ { .has_id = true, .data = { "x", 1 } }, "id: \ndata: x\n\n" },
		{ { .data = { "a\nb\rc\r\nd", 8 } }, "data: a\ndata: b\ndata: c\ndata: d\n\n" },
		{ { .data = { "a\n", 2 } }, "data: a\ndata: \n\n" },
		{ { .data = { "\r\n\n\r", 4 } }, "data: \ndata: \ndata: \ndata: \n\n" },
		{ { .event = { "a\nb\r\nc", 6 }, .data = { "x", 1 } }, "event: abc\ndata: x\n\n" },
		{ { .id = { "1\0" "2\n3", 5 }, .has_id = true, .data = { "x", 1 } }, "id: 123\ndata: x\n\n" },
		{ { .event = { "\xff", 1 }, .data = { "\xe2\x82\n", 3 } },
		  "event: \xef\xbf\xbd\ndata: \xef\xbf\xbd\xef\xbf\xbd\ndata: \n\n" },
		{ { .data = { " lead", 5 } }, "data:  lead\n\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(200);

		assert_true(sse_event(&b, &cases[i].ev));
		assert_string_equal(buf_z(&b), cases[i].want);
	}
}

static void comments_keep_a_stream_alive(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(200);
	AUTO(buf_done) struct buf tiny = BUF_INIT(3);

	(void)state;
	assert_true(sse_comment(&b, STR("still\nhere")));
	assert_string_equal(buf_z(&b), ": still\n: here\n\n");
	assert_false(sse_comment(&tiny, STR("still")));
	assert_false(sse_event(&tiny, &(struct sse_event){ 0 }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_events_are_a_line_of_json_and_a_blank_line),
		cmocka_unit_test(line_ends_of_every_kind_are_found),
		cmocka_unit_test(standard_events_are_split_into_lines),
		cmocka_unit_test(comments_keep_a_stream_alive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
