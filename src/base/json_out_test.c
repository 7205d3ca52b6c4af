// SPDX-License-Identifier: Apache-2.0
#include "base/json_out.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include "base/banned.h"

static void commas_and_nesting_are_kept_right(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1024);
	struct json_out o = json_out(&b);

	(void)state;
	json_open(&o, '{');
	json_key(&o, "id"), json_str(&o, STR("ab12"));
	json_key(&o, "tags"), json_open(&o, '['), json_close(&o, ']');
	json_key(&o, "list"), json_open(&o, '[');
	json_int(&o, INT64_MIN), json_uint(&o, UINT64_MAX), json_bool(&o, true), json_bool(&o, false), json_null(&o);
	json_open(&o, '['), json_open(&o, '{'), json_close(&o, '}'), json_close(&o, ']');
	json_raw(&o, STR("{\"raw\":1}")), json_cstr(&o, NULL), json_cstr(&o, "z"), json_real(&o, 0.5);
	json_close(&o, ']');
	json_key_str(&o, STR("k\"")), json_str(&o, (struct str){ 0 });
	json_close(&o, '}');
	assert_false(b.failed);
	assert_string_equal(buf_z(&b), "{\"id\":\"ab12\",\"tags\":[],\"list\":[-9223372036854775808,18446744073709551615,"
				       "true,false,null,[{}],{\"raw\":1},null,\"z\",0.5],\"k\\\"\":\"\"}");
}

static void integers_are_written_in_full(void **state)
{
	static const struct {
		int64_t v;
		const char *want;
	} rows[] = {
		{ 0, "0" },       { 7, "7" },     { -9, "-9" },     { 10, "10" },       { 99, "99" },   { 100, "100" },
		{ -101, "-101" }, { 999, "999" }, { 1000, "1000" }, { 65535, "65535" }, { 1234567890123456789, "1234567890123456789" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(64);
		struct json_out o = json_out(&b);

		json_int(&o, rows[i].v);
		assert_string_equal(buf_z(&b), rows[i].want);
	}
}

static void reals_are_as_short_as_they_can_be(void **state)
{
	static const struct {
		double v;
		const char *want;
	} rows[] = {
		{ 0.0, "0.0" },
		{ -0.0, "-0.0" },
		{ 1.0, "1.0" },
		{ -1.5, "-1.5" },
		{ 0.05, "0.05" },
		{ 0.1, "0.1" },
		{ 0.1 + 0.2, "0.30000000000000004" },
		{ 1.0 / 3.0, "0.3333333333333333" },
		{ 123456.789, "123456.789" },
		{ -0.00001, "-0.00001" },
		{ 0.000001, "1e-06" },
		{ 0.000123456789, "0.000123456789" },
		{ 99.99, "99.99" },
		{ 12345678901234.5, "12345678901234.5" },
		{ 99999999999999.9, "99999999999999.9" },
		{ 123456789012345.0, "123456789012345.0" },
		{ 1e15, "1000000000000000.0" },
		{ 9007199254740993.0, "9007199254740992.0" },
		{ 1e16, "1e+16" },
		{ 1e22, "1e+22" },
		{ 1e23, "1e+23" },
		{ 5e-324, "5e-324" },
		{ 1.2e-310, "1.2e-310" },
		{ 1.7976931348623157e308, "1.7976931348623157e+308" },
		{ 9.5367431640625e-07, "9.5367431640625e-07" },
		{ 0.987654321987654, "0.987654321987654" },
		{ NAN, "null" },
		{ INFINITY, "null" },
		{ -INFINITY, "null" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(64);
		struct json_out o = json_out(&b);

		json_real(&o, rows[i].v);
		assert_string_equal(buf_z(&b), rows[i].want);
	}
}

/* Digits of a number without the zeros at both ends of its mantissa. */
static size_t significant_digits(const char *text)
{
	size_t n = 0, zeros = 0;

	for (; *text && *text != 'e'; text++) {
		if (*text == '0') {
			zeros += n > 0;
		} else if (*text > '0' && *text <= '9') {
			n += 1 + zeros;
			zeros = 0;
		}
	}
	return n;
}

/* Against the plain way of finding the shortest form: 15, 16, then 17 digits. */
static void any_real_reads_back_from_its_shortest_form(void **state)
{
	uint64_t seed = 42;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(64);
		struct json_out o = json_out(&b);
		char text[40];
		double v;
		int digits = 14;

		seed = seed * 6364136223846793005 + 1442695040888963407;
		if (i % 2)
			v = (double)(seed >> 33) / (1 << (seed % 24));
		else
			memcpy(&v, &seed, sizeof(v));
		if (!isnormal(v))
			continue;
		json_real(&o, v);
		assert_true(strtod(b.p, NULL) == v);
		do
			(void)snprintf(text, sizeof(text), "%.*g", ++digits, v);
		while (strtod(text, NULL) != v);
		assert_int_equal(significant_digits(b.p), significant_digits(text));
	}
}

static void any_bytes_become_one_line_of_valid_utf8(void **state)
{
	static const struct {
		struct str in;
		const char *want;
	} rows[] = {
		{ STR("plain"), "\"plain\"" },
		{ STR("a\"b\\c/"), "\"a\\\"b\\\\c/\"" },
		{ STR("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"" },
		{ STR("\0\x01\x1f\x7f"), "\"\\u0000\\u0001\\u001f\\u007f\"" },
		{ STR("\xc2\x80 \xc2\x85 \xc2\x9f \xc2\xa0"), "\"\\u0080 \\u0085 \\u009f \xc2\xa0\"" },
		{ STR("\xe2\x80\xa7 \xe2\x80\xa8 \xe2\x80\xa9"), "\"\xe2\x80\xa7 \\u2028 \\u2029\"" },
		{ STR("\xf0\x9d\x84\x9e sol"), "\"\xf0\x9d\x84\x9e sol\"" },
		{ STR("12345678\xff"), "\"12345678\xef\xbf\xbd\"" },
		{ STR("\xe2\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ STR("\xed\xa0\x80x"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx\"" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(256);
		struct json_out o = json_out(&b);

		json_str(&o, rows[i].in);
		assert_string_equal(buf_z(&b), rows[i].want);
	}
}

static void a_tree_is_written_as_it_was_read(void **state)
{
	static const char text[] = "{\"a\":[1,-2,18446744073709551615,1.5,true,false,null,\"x\\ny\"],\"b\":{},\"b\":[[{}]]}";
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	AUTO(buf_done) struct buf b = BUF_INIT(1024);
	struct json_out o = json_out(&b);
	struct err e;

	(void)state;
	json_tree(&o, json_parse(&a, STR(text), NULL, NULL, &e));
	assert_string_equal(buf_z(&b), text);
}

static void dates_become_strings_and_nothing_becomes_null(void **state)
{
	struct json date = { .type = JSON_DATE_LOCAL, .s = STR("1979-05-27") };
	AUTO(buf_done) struct buf b = BUF_INIT(64);
	struct json_out o = json_out(&b);

	(void)state;
	json_tree(&o, &date);
	json_tree(&o, NULL);
	assert_string_equal(buf_z(&b), "\"1979-05-27\",null");
}

static void a_tree_beyond_the_depth_limit_fails_the_buffer(void **state)
{
	struct json nodes[JSON_TREE_DEPTH_MAX + 1] = { 0 };
	AUTO(buf_done) struct buf b = BUF_INIT(65536);
	struct json_out o = json_out(&b);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		nodes[i].type = JSON_ARRAY;
		if (i > 0)
			nodes[i].kids.first = nodes[i].kids.last = &nodes[i - 1];
	}
	json_tree(&o, &nodes[JSON_TREE_DEPTH_MAX - 1]);
	assert_false(b.failed);
	assert_int_equal(b.n, 2 * JSON_TREE_DEPTH_MAX);
	json_tree(&o, &nodes[JSON_TREE_DEPTH_MAX]);
	assert_true(b.failed);
}

static void a_full_buffer_fails_and_keeps_what_it_had(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(8);
	struct json_out o = json_out(&b);

	(void)state;
	json_str(&o, STR("12345")); /* with its quotes: 7 bytes */
	assert_false(b.failed);
	json_int(&o, 12);
	assert_true(b.failed);
	json_str(&o, STR("\n\n\n"));
	json_key(&o, "x");
	assert_string_equal(buf_z(&b), "\"12345\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commas_and_nesting_are_kept_right),
		cmocka_unit_test(integers_are_written_in_full),
		cmocka_unit_test(reals_are_as_short_as_they_can_be),
		cmocka_unit_test(any_real_reads_back_from_its_shortest_form),
		cmocka_unit_test(any_bytes_become_one_line_of_valid_utf8),
		cmocka_unit_test(a_tree_is_written_as_it_was_read),
		cmocka_unit_test(dates_become_strings_and_nothing_becomes_null),
		cmocka_unit_test(a_tree_beyond_the_depth_limit_fails_the_buffer),
		cmocka_unit_test(a_full_buffer_fails_and_keeps_what_it_had),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
