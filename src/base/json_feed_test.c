// SPDX-License-Identifier: Apache-2.0
#include "base/json_feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/buf.h"

#include "base/banned.h"

/* "path/path=text;" for each value, strings in quotes. */
static void write_piece(const struct json_piece *piece, void *arg)
{
	struct buf *out = arg;

	if (piece->is_first) {
		for (unsigned i = 0; i < piece->depth; i++) {
			buf_add_str(out, piece->path[i]);
			buf_add_char(out, i + 1 < piece->depth ? '/' : '#');
		}
		buf_addf(out, "%zu%s", piece->index, piece->is_string ? "='" : "=");
	}
	buf_add_str(out, piece->text);
	if (piece->is_last)
		buf_addf(out, piece->is_string ? "';" : ";");
}

static bool walk(struct str in, unsigned levels, size_t step, struct buf *out)
{
	struct json_feed f;

	json_feed_init(&f, levels, write_piece, out);
	for (; in.n > 0; in = str_skip(in, step))
		if (!json_feed(&f, str_first(in, step)))
			return false;
	return json_feed_end(&f);
}

static void values_come_with_their_paths(void **state)
{
	static const struct {
		const char *in;
		unsigned levels;
		const char *want; /* NULL: refused */
	} rows[] = {
		{ "{\"a\":\"b\"}", 2, "a#0='b';" },
		{ " { \"a\" : 1 , \"b\" : [ true , \"x\" ] } ", 2, "a#0=1;b/#0=true;b/#1='x';" },
		{ "{\"d\":{\"text/plain\":\"4\",\"x\":{\"y\": [1, \"q\\\"]\"]}}}", 2,
		  "d/text/plain#0='4';d/x#1={\"y\": [1, \"q\\\"]\"]};" },
		{ "{\"a\":{\"b\":1},\"c\":2}", 1, "a#0={\"b\":1};c#1=2;" },
		{ "{\"a\":{\"b\":{\"c\":\"d\"}}}", 3, "a/b/c#0='d';" },
		{ "\"\\u00e4\\n\\/\\ud83d\\ude00\"", 0, "0='\xc3\xa4\n/\xf0\x9f\x98\x80';" },
		{ "\"\\ud83dx\\ude00\\ud83d\"", 0, "0='\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd';" },
		{ "[NaN,-Infinity,-1.5e+3,null]", 1, "#0=NaN;#1=-Infinity;#2=-1.5e+3;#3=null;" },
		{ "{}", 2, "" },
		{ "[[],{}]", 1, "#0=[];#1={};" },
		{ "12", 0, "0=12;" },
		{ "\"\"", 0, "0='';" },
		{ "{\"a\":1,}", 2, NULL },
		{ "[1,]", 2, NULL },
		{ "[1}", 2, NULL },
		{ "{\"a\" 1}", 2, NULL },
		{ "{1:2}", 2, NULL },
		{ "[1 2]", 2, NULL },
		{ "[1]]", 2, NULL },
		{ "[1", 2, NULL },
		{ "", 2, NULL },
		{ "\"a\nb\"", 2, NULL },
		{ "\"\\x\"", 2, NULL },
		{ "\"\\u12g4\"", 2, NULL },
		{ "nul", 2, NULL },
		{ "1-", 2, NULL },
		{ "[\"a\"", 2, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (size_t step = 1; step < 40; step += 3) {
			AUTO(buf_done) struct buf out = BUF_INIT(4096);
			bool ok = walk(str_of(rows[i].in), rows[i].levels, step, &out);

			if (ok != !!rows[i].want || (ok && strcmp(buf_z(&out), rows[i].want) != 0))
				fail_msg("%s in steps of %zu: %d '%s'", rows[i].in, step, ok, buf_z(&out));
		}
	}
}

static void a_key_that_is_too_long_is_not_known(void **state)
{
	AUTO(buf_done) struct buf in = BUF_INIT(4096), out = BUF_INIT(4096);

	(void)state;
	buf_addf(&in, "{\"%0200d\":1,\"%0127d\":2}", 0, 0);
	assert_true(walk(buf_str(&in), 1, 7, &out));
	assert_memory_equal(out.p, "#0=1;000", 8);
	assert_int_equal(out.n, 5 + 127 + 5);
}

static void nesting_has_a_ceiling(void **state)
{
	AUTO(buf_done) struct buf in = BUF_INIT(4096), out = BUF_INIT(4096);

	(void)state;
	for (int i = 0; i < JSON_FEED_DEPTH_MAX; i++)
		buf_add_char(&in, '[');
	for (int i = 0; i < JSON_FEED_DEPTH_MAX; i++)
		buf_add_char(&in, ']');
	assert_true(walk(buf_str(&in), 2, 64, &out));
	buf_clear(&in);
	for (int i = 0; i < JSON_FEED_DEPTH_MAX + 1; i++)
		buf_add_char(&in, '[');
	assert_false(walk(buf_str(&in), 2, 64, &out));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_come_with_their_paths),
		cmocka_unit_test(a_key_that_is_too_long_is_not_known),
		cmocka_unit_test(nesting_has_a_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
