// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

#define MEMORY ((size_t)16 * 1024 * 1024)

struct doc {
	struct arena arena;
	struct json *v;
	size_t offset;
	struct err e;
};

static void doc_done(struct doc *d)
{
	arena_done(&d->arena);
}
DEFINE_AUTO_DONE(struct doc, doc_done)

static struct doc parse_str(struct str text)
{
	struct doc d = { .arena = ARENA_INIT(MEMORY), .offset = 12345 };

	d.v = json_parse(&d.arena, text, NULL, &d.offset, &d.e);
	return d;
}

static struct doc parse(const char *text)
{
	return parse_str(str_of(text));
}

static void each_literal_has_its_type(void **state)
{
	static const struct {
		const char *text;
		enum json_type type;
		const char *name;
	} rows[] = {
		{ "null", JSON_NULL, "null" },      { " true\t", JSON_BOOL, "boolean" }, { "false", JSON_BOOL, "boolean" },
		{ "-12", JSON_INT, "integer" },     { "1.5", JSON_REAL, "number" },      { "\"\"", JSON_STRING, "string" },
		{ "\r\n[ ]", JSON_ARRAY, "array" }, { "{ }", JSON_OBJECT, "object" },
		{ "9223372036854775808", JSON_UINT, "integer" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(doc_done) struct doc d = parse(rows[i].text);

		assert_non_null(d.v);
		assert_int_equal(d.v->type, rows[i].type);
		assert_string_equal(json_type_name(d.v->type), rows[i].name);
		assert_int_equal(d.offset, 12345);
	}
}

static void integers_are_exact_up_to_64_bits(void **state)
{
	static const struct {
		const char *text;
		enum json_type type;
		uint64_t bits;
	} rows[] = {
		{ "0", JSON_INT, 0 },
		{ "-0", JSON_INT, 0 },
		{ "9223372036854775807", JSON_INT, INT64_MAX },
		{ "-9223372036854775808", JSON_INT, (uint64_t)INT64_MIN },
		{ "9223372036854775808", JSON_UINT, (uint64_t)INT64_MAX + 1 },
		{ "18446744073709551615", JSON_UINT, UINT64_MAX },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(doc_done) struct doc d = parse(rows[i].text);

		assert_non_null(d.v);
		assert_int_equal(d.v->type, rows[i].type);
		assert_true(d.v->u == rows[i].bits);
	}
}

/* The compiler's own conversion is the reference. */
static void reals_are_rounded_correctly(void **state)
{
#define ROW(x) { #x, x }
	static const struct {
		const char *text;
		double want;
	} rows[] = {
		ROW(0.0), ROW(-0.0), ROW(1e0), ROW(0.1), ROW(-2.5E-3), ROW(123.456e+2), ROW(1e22), ROW(1e23), ROW(1e-22),
		ROW(1e-23), ROW(9007199254740993.0), ROW(9007199254740992.0), ROW(1.7976931348623157e308),
		ROW(2.2250738585072011e-308), ROW(5e-324), ROW(0.1234567890123456789), ROW(0e999999999999),
		ROW(179769313486231570000000000000.0e279), ROW(1.00000000000000011102230246251565404236316680908203126),
		{ "18446744073709551616", 18446744073709551616.0 },
		{ "-9223372036854775809", -9223372036854775809.0 },
		{ "-18446744073709551616", -18446744073709551616.0 },
		{ "1e-99999999999999999999", 0 },
	};
#undef ROW

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(doc_done) struct doc d = parse(rows[i].text);

		assert_non_null(d.v);
		assert_int_equal(d.v->type, JSON_REAL);
		assert_memory_equal(&d.v->d, &rows[i].want, sizeof(double));
	}
}

static void strings_are_unescaped(void **state)
{
	static const struct {
		const char *text;
		struct str want;
	} rows[] = {
		{ "\"\"", STR("") },
		{ "\"plain\"", STR("plain") },
		{ "\"longer than one step of the scan\"", STR("longer than one step of the scan") },
		{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", STR("\"\\/\b\f\n\r\t") },
		{ "\"a\\u0000b\"", STR("a\0b") },
		{ "\"\\u00e9\\u6C99\\uD834\\uDD1E!\"", STR("\xc3\xa9\xe6\xb2\x99\xf0\x9d\x84\x9e!") },
		{ "\"\x7f \xc3\xa9 \xe2\x82\xac \xf4\x8f\xbf\xbf\"", STR("\x7f \xc3\xa9 \xe2\x82\xac \xf4\x8f\xbf\xbf") },
		{ "\"1234567\\n\"", STR("1234567\n") },
		{ "\"12345678\\n9\"", STR("12345678\n9") },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(doc_done) struct doc d = parse(rows[i].text);

		assert_non_null(d.v);
		assert_int_equal(d.v->type, JSON_STRING);
		assert_int_equal(d.v->s.n, rows[i].want.n);
		assert_true(str_eq(d.v->s, rows[i].want));
	}
}

static void a_string_without_escapes_is_a_view_of_the_input(void **state)
{
	static const char text[] = "{\"key\":\"value\"}";
	AUTO(doc_done) struct doc d = parse(text);

	(void)state;
	assert_non_null(d.v);
	assert_ptr_equal(d.v->kids.first->key.p, text + 2);
	assert_ptr_equal(d.v->kids.first->s.p, text + 8);
}

/* Every position in and around the eight bytes that are looked at together. */
static void a_control_character_is_found_at_every_position(void **state)
{
	static const char specials[] = { '\0', '\x1f', '\n', '\x80', '\xff' };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(specials); i++) {
		for (size_t at = 1; at < 25; at++) {
			char text[27];

			memset(text, 'x', sizeof(text));
			text[0] = text[26] = '"';
			text[at] = specials[i];
			AUTO(doc_done) struct doc d = parse_str((struct str){ text, sizeof(text) });
			assert_null(d.v);
			assert_int_equal(d.offset, at);
		}
	}
}

static void the_tree_keeps_the_order_of_the_document(void **state)
{
	AUTO(doc_done) struct doc d = parse("{ \"b\" : [ 1 , [ ] , { } , [2] ] , \"a\" : { \"b\" : null } , \"b\" : 3 }");
	const struct json *b = json_get(d.v, "b");

	(void)state;
	assert_non_null(d.v);
	assert_int_equal(d.v->kids.n, 3);
	assert_int_equal(b->kids.n, 4);
	assert_int_equal(json_at(b, 0)->i, 1);
	assert_int_equal(json_at(b, 1)->kids.n, 0);
	assert_int_equal(json_at(json_at(b, 3), 0)->i, 2);
	assert_ptr_equal(json_at(b, 3), b->kids.last);
	assert_null(json_at(b, 3)->next);
	assert_int_equal(json_get(json_get(d.v, "a"), "b")->type, JSON_NULL);
	assert_int_equal(d.v->kids.last->i, 3); /* duplicates are kept */
	assert_null(d.v->next);
}

static void access_to_what_is_not_there_is_null(void **state)
{
	AUTO(doc_done) struct doc d = parse("{\"a\":[1]}");

	(void)state;
	assert_null(json_get(d.v, "b"));
	assert_null(json_get(NULL, "a"));
	assert_null(json_get(json_get(d.v, "a"), "a"));
	assert_null(json_at(json_get(d.v, "a"), 1));
	assert_null(json_at(d.v, 0));
	assert_null(json_at(NULL, 0));
	assert_null(json_first(NULL));
	assert_null(json_first(json_at(json_get(d.v, "a"), 0)));
	assert_ptr_equal(json_first(d.v), json_get(d.v, "a"));
}

static void errors_say_where_and_what(void **state)
{
	static const struct {
		const char *text;
		size_t offset;
		const char *msg;
	} rows[] = {
		{ "", 0, "byte 0: unexpected end of input" },
		{ "\xef\xbb\xbf{}", 0, "byte 0: expected a value" },
		{ "nul", 0, "byte 0: expected a value" },
		{ "NaN", 0, "byte 0: expected a value" },
		{ "+1", 0, "byte 0: expected a value" },
		{ "1 2", 2, "byte 2: more than one value" },
		{ "01", 1, "byte 1: more than one value" },
		{ "-", 1, "byte 1: unexpected end of input" },
		{ "-x", 1, "byte 1: expected a digit" },
		{ "1.x", 2, "byte 2: expected a digit" },
		{ "1e", 2, "byte 2: unexpected end of input" },
		{ "1e+x", 2, "byte 2: expected a digit" },
		{ "1e400", 0, "byte 0: number out of range" },
		{ "\"abc", 4, "byte 4: unexpected end of input" },
		{ "\"abc\\", 5, "byte 5: unexpected end of input" },
		{ "\"\\x\"", 2, "byte 2: invalid escape" },
		{ "\"\\u12\"", 1, "byte 1: invalid \\u escape" },
		{ "\"\\u12g4\"", 1, "byte 1: invalid \\u escape" },
		{ "\"\\ud834\"", 1, "byte 1: lone surrogate" },
		{ "\"\\udd1e\"", 1, "byte 1: lone surrogate" },
		{ "\"\\ud834\\ud834\"", 1, "byte 1: lone surrogate" },
		{ "\"\\ud834\\u0041\"", 1, "byte 1: lone surrogate" },
		{ "\"\\ud834\\n    \"", 1, "byte 1: lone surrogate" },
		{ "\"\\ud834\\uzzzz\"", 1, "byte 1: lone surrogate" },
		{ "\"a\xc3\"", 2, "byte 2: ill-formed UTF-8" },
		{ "\"\xed\xa0\x80\"", 1, "byte 1: ill-formed UTF-8" },
		{ "\"\xc0\xaf\"", 1, "byte 1: ill-formed UTF-8" },
		{ "\"\t\"", 1, "byte 1: control character in a string" },
		{ "[1,]", 3, "$[1]: byte 3: expected a value" },
		{ "[1 2]", 3, "$: byte 3: expected ',' or ']'" },
		{ "[1}", 2, "$: byte 2: expected ',' or ']'" },
		{ "[}", 1, "$: byte 1: expected ',' or ']'" },
		{ "{]", 1, "$: byte 1: expected ',' or '}'" },
		{ "[", 1, "$[0]: byte 1: unexpected end of input" },
		{ "{\"a\":1,}", 7, "$: byte 7: expected a name in double quotes" },
		{ "{a:1}", 1, "$: byte 1: expected a name in double quotes" },
		{ "{\"a\" 1}", 5, "$: byte 5: expected ':'" },
		{ "{\"a\":1]", 6, "$: byte 6: expected ',' or '}'" },
		{ "{\"items\":[{},{},0,{\"name\":\"a\\qb\"}]}", 29, "$.items[3].name: byte 29: invalid escape" },
		{ "{\"a\":{\"\\q", 8, "$.a: byte 8: invalid escape" },
		{ "{\"a\\nb\":[[1e999]]}", 10, "$.a?b[0][0]: byte 10: number out of range" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(doc_done) struct doc d = parse(rows[i].text);

		assert_null(d.v);
		assert_string_equal(d.e.msg, rows[i].msg);
		assert_int_equal(d.e.code, ERR_INVALID);
		assert_int_equal(d.offset, rows[i].offset);
	}
}

static void a_long_path_is_cut(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);

	(void)state;
	for (int i = 0; i < 10; i++) {
		(void)buf_add_str(&b, STR("{\""));
		for (int k = 0; k < 34; k++)
			(void)buf_add_str(&b, STR("\xc3\xa9"));
		(void)buf_add_str(&b, STR("\":"));
	}
	AUTO(doc_done) struct doc d = parse(b.p);
	assert_null(d.v);
	assert_non_null(strstr(d.e.msg, "\xc3\xa9...."));
	assert_non_null(strstr(d.e.msg, "...: byte 720: unexpected end of input"));
	assert_true(strlen(d.e.msg) < 320);
}

static void nesting_stops_at_the_limit(void **state)
{
	const struct json_limits three = { .depth = 3 };
	AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
	struct err e;
	size_t offset;

	(void)state;
	assert_non_null(json_parse(&a, STR("[[[]],[{}]]"), &three, &offset, &e));
	assert_null(json_parse(&a, STR("[[[]],[[[]]]]"), &three, &offset, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_string_equal(e.msg, "$[1][0][0]: byte 8: nested too deeply");
	assert_int_equal(offset, 8);
	assert_null(json_parse(&a, STR("[[[{}]]]"), &three, NULL, &e));
}

static void the_default_depth_is_the_maximum(void **state)
{
	char text[2 * JSON_DEPTH_MAX + 2];
	AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
	const struct json_limits none = { 0 };
	struct err e;

	(void)state;
	memset(text, '[', JSON_DEPTH_MAX + 1);
	memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
	assert_non_null(json_parse(&a, (struct str){ text + 1, 2 * JSON_DEPTH_MAX }, &none, NULL, &e));
	assert_null(json_parse(&a, (struct str){ text, sizeof(text) }, NULL, NULL, &e));
	assert_int_equal(e.code, ERR_LIMIT);
}

static void the_input_is_bounded(void **state)
{
	const struct json_limits four = { .bytes = 4 };
	AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
	struct err e;
	size_t offset;

	(void)state;
	assert_non_null(json_parse(&a, STR("1234"), &four, NULL, &e));
	assert_null(json_parse(&a, STR("12345"), &four, &offset, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_int_equal(offset, 4);
}

static void the_number_of_values_is_bounded(void **state)
{
	const struct json_limits five = { .values = 5 };
	AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
	struct err e;
	size_t offset;

	(void)state;
	assert_non_null(json_parse(&a, STR("[1,{\"a\":[]},\"\"]"), &five, NULL, &e));
	assert_null(json_parse(&a, STR("[1,{\"a\":[3]},\"\"]"), &five, &offset, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_string_equal(e.msg, "$: byte 13: too many values");
	assert_int_equal(offset, 13);
}

static void the_default_number_of_values_is_the_maximum(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
	AUTO(buf_done) struct buf b = BUF_INIT(MEMORY);
	struct json_limits more = { .values = JSON_VALUES_MAX + 1 };
	struct err e;

	(void)state;
	(void)buf_add_char(&b, '[');
	for (int i = 0; i < JSON_VALUES_MAX - 1; i++)
		(void)buf_add_str(&b, STR("0,"));
	b.p[b.n - 1] = ']';
	assert_non_null(json_parse(&a, buf_str(&b), NULL, NULL, &e));
	b.p[b.n - 1] = ',';
	(void)buf_add_str(&b, STR("0]"));
	assert_null(json_parse(&a, buf_str(&b), NULL, NULL, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_non_null(json_parse(&a, buf_str(&b), &more, NULL, &e));
}

static void a_number_is_bounded(void **state)
{
	char text[JSON_NUMBER_MAX + 2] = "0.";
	AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
	struct json *v;
	struct err e;

	(void)state;
	memset(text + 2, '3', sizeof(text) - 2);
	v = json_parse(&a, (struct str){ text, JSON_NUMBER_MAX }, NULL, NULL, &e);
	assert_non_null(v);
	assert_true(v->d == 1.0 / 3.0);
	assert_null(json_parse(&a, (struct str){ text, JSON_NUMBER_MAX + 1 }, NULL, NULL, &e));
	assert_int_equal(e.code, ERR_LIMIT);
}

/* 1e-100001 * 1e99999: what is not converted digit by digit must be bounded, too. */
static void a_number_is_bounded_however_it_would_be_converted(void **state)
{
	static const char *const tails[] = { "1e99999", "0", "1" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(MEMORY);

		(void)buf_add_str(&b, STR("0."));
		for (int k = 0; k < 100000; k++)
			(void)buf_add_char(&b, '0');
		(void)buf_addf(&b, "%s", tails[i]);
		AUTO(doc_done) struct doc d = parse_str(buf_str(&b));
		assert_null(d.v);
		assert_int_equal(d.e.code, ERR_LIMIT);
		assert_string_equal(d.e.msg, "byte 0: number is too long");
	}
}

static void appending_keeps_order_and_count(void **state)
{
	struct json parent = { .type = JSON_ARRAY }, a = { .type = JSON_NULL }, b = { .type = JSON_NULL };

	(void)state;
	json_append(&parent, &a);
	assert_ptr_equal(parent.kids.last, &a);
	json_append(&parent, &b);
	assert_ptr_equal(json_at(&parent, 0), &a);
	assert_ptr_equal(json_at(&parent, 1), &b);
	assert_ptr_equal(parent.kids.last, &b);
	assert_int_equal(parent.kids.n, 2);
}

static void the_ceiling_of_the_arena_is_a_limit_not_a_lack_of_memory(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(2 * sizeof(struct json));
	AUTO(arena_done) struct arena tiny = ARENA_INIT(sizeof(struct json) + 16);
	struct err e = { 0 };

	(void)state;
	assert_null(json_parse(&a, STR("[1,2,3,4]"), NULL, NULL, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	e.code = ERR_NONE;
	assert_null(json_parse(&tiny, STR("\"\\n0123456789012345678901234567890123456789\""), NULL, NULL, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_int_equal(json_no_room(&(struct arena){ .max = 1000 }, 100, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_literal_has_its_type),
		cmocka_unit_test(integers_are_exact_up_to_64_bits),
		cmocka_unit_test(reals_are_rounded_correctly),
		cmocka_unit_test(strings_are_unescaped),
		cmocka_unit_test(a_string_without_escapes_is_a_view_of_the_input),
		cmocka_unit_test(a_control_character_is_found_at_every_position),
		cmocka_unit_test(the_tree_keeps_the_order_of_the_document),
		cmocka_unit_test(access_to_what_is_not_there_is_null),
		cmocka_unit_test(errors_say_where_and_what),
		cmocka_unit_test(a_long_path_is_cut),
		cmocka_unit_test(nesting_stops_at_the_limit),
		cmocka_unit_test(the_default_depth_is_the_maximum),
		cmocka_unit_test(the_input_is_bounded),
		cmocka_unit_test(the_number_of_values_is_bounded),
		cmocka_unit_test(the_default_number_of_values_is_the_maximum),
		cmocka_unit_test(a_number_is_bounded),
		cmocka_unit_test(a_number_is_bounded_however_it_would_be_converted),
		cmocka_unit_test(appending_keeps_order_and_count),
		cmocka_unit_test(the_ceiling_of_the_arena_is_a_limit_not_a_lack_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
