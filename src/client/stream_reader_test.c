// SPDX-License-Identifier: Apache-2.0
#include "client/stream_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"

#include "base/banned.h"

struct seen {
	struct buf text; /* payloads, each with '|' behind it */
	unsigned left;   /* stop after so many; 0: never */
};

static bool note(struct str payload, void *arg)
{
	struct seen *s = arg;

	assert_true(buf_add_str(&s->text, payload) && buf_add_char(&s->text, '|'));
	return s->left == 0 || --s->left > 0;
}

static const struct {
	const char *in, *want;
} cases[] = {
	{ "{\"a\":1}\n\n{\"b\":2}\n\n", "{\"a\":1}|{\"b\":2}|" },
	{ "data: {\"a\":1}\n\ndata:{\"b\":2}\r\n\r\n", "{\"a\":1}|{\"b\":2}|" },
	{ "event: x\nid: 7\nretry: 5\n: a comment\n:\ndata: 1\n\n", "1|" },
	{ "{\"a\":1}\r{\"b\":2}\r\r", "{\"a\":1}|{\"b\":2}|" },
	{ "{\"last\":1}", "{\"last\":1}|" },
	{ "\n\n\r\n", "" },
	{ "", "" },
	{ "data:\n\ndata\n", "" },
	{ "eventually\nidentity\n", "eventually|identity|" },
	{ "  spaces  \n", "spaces|" },
};

static void payloads_are_the_same_wherever_the_stream_is_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t size = 1; size <= strlen(cases[i].in) + 1; size++) {
			AUTO(stream_reader_done) struct stream_reader r = STREAM_READER_INIT;
			struct seen s = { .text = BUF_INIT(4096) };
			struct str in = str_of(cases[i].in);

			while (in.n > 0) {
				assert_int_equal(stream_reader_feed(&r, str_first(in, size), note, &s, &(struct err){ 0 }), 0);
				in = str_skip(in, size);
			}
			stream_reader_end(&r, note, &s);
			assert_string_equal(buf_z(&s.text), cases[i].want);
			buf_done(&s.text);
		}
}

static void who_reads_can_stop(void **state)
{
	AUTO(stream_reader_done) struct stream_reader r = STREAM_READER_INIT;
	struct seen s = { .text = BUF_INIT(4096), .left = 2 };

	(void)state;
	assert_int_equal(stream_reader_feed(&r, STR("a\nb\nc\n"), note, &s, &(struct err){ 0 }), 0);
	assert_string_equal(buf_z(&s.text), "a|b|");
	buf_done(&s.text);
}

static void a_line_without_an_end_has_a_ceiling(void **state)
{
	AUTO(stream_reader_done) struct stream_reader r = STREAM_READER_INIT;
	struct seen s = { .text = BUF_INIT(16) };
	static char zeroes[65536];
	struct err e = { 0 };
	size_t fed = 0;

	(void)state;
	memset(zeroes, 'x', sizeof(zeroes));
	r.held.max = 1024 * 1024;
	while (stream_reader_feed(&r, (struct str){ zeroes, sizeof(zeroes) }, note, &s, &e) == 0)
		assert_true((fed += sizeof(zeroes)) <= 1024 * 1024);
	assert_int_equal(e.code, ERR_LIMIT);
	assert_null(s.text.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(payloads_are_the_same_wherever_the_stream_is_cut),
		cmocka_unit_test(who_reads_can_stop),
		cmocka_unit_test(a_line_without_an_end_has_a_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
