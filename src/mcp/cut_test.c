// SPDX-License-Identifier: Apache-2.0
#include "mcp/cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/banned.h"

static void long_text_loses_its_middle(void **state)
{
	static const struct {
		const char *in;
		size_t limit;
		const char *want;
	} cases[] = {
		{ "", 4, "" },
		{ "abcd", 4, "abcd" },
		{ "abcdef", 4, "ab[... 2 bytes left out ...]ef" },
		{ "a\xc3\xa4\xc3\xb6z", 4, "a[... 4 bytes left out ...]z" }, /* a letter is not cut in two */
		{ "\xf0\x9f\x98\x80\xf0\x9f\x98\x80", 4, "[... 8 bytes left out ...]" },
		{ "abcdef", 0, "[... 6 bytes left out ...]" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(256);

		assert_true(cut_middle(&b, str_of(cases[i].in), cases[i].limit));
		assert_string_equal(buf_z(&b), cases[i].want);
	}
}

static void feed_in_pieces(struct cut *c, const char *text, size_t size)
{
	for (size_t n = strlen(text); n > 0;) {
		size_t piece = MIN(n, size);

		assert_true(cut_feed(c, text, piece));
		text += piece;
		n -= piece;
	}
}

static void a_stream_keeps_its_two_ends(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "0123456789", "0123456789" },
		{ "0123456789A", "01234|6789A" },
		{ "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01234|VWXYZ" },
		{ "0123\xc3\xa4xxxxxxxxxxxx\xa4wxyz", "0123|wxyz" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t size = 1; size < 40; size++) {
			AUTO(buf_done) struct buf b = BUF_INIT(256);
			struct cut c;

			cut_init(&c, 10);
			feed_in_pieces(&c, cases[i].in, size);
			assert_true(cut_finish(&c, STR("|"), &b));
			assert_string_equal(buf_z(&b), cases[i].want);
			assert_int_equal(c.total, strlen(cases[i].in));
			assert_true(c.tail.n <= 20);
			cut_done(&c);
		}
}

static void json_gets_lines(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(256);

	(void)state;
	assert_true(json_indent(&b, STR("{\"a\":[1,{\"b\":\"x, y: {\\\"}\"}],\"c\":{},\"d\":[]}")));
	assert_string_equal(b.p, "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x, y: {\\\"}\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_text_loses_its_middle),
		cmocka_unit_test(a_stream_keeps_its_two_ends),
		cmocka_unit_test(json_gets_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
