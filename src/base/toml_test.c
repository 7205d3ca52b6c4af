// SPDX-License-Identifier: Apache-2.0
#include "base/toml.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"


static const struct json_limits limits = { .bytes = 1024 * 1024, .depth = JSON_DEPTH_MAX };

/* The tree as one line: {a:1,b:['x',true]}. Dates and times carry a letter for their type. */
static void dump(struct buf *b, const struct json *v)
{
	switch (v->type) {
	case JSON_BOOL:
		buf_addf(b, "%s", v->b ? "true" : "false");
		break;
	case JSON_INT:
		buf_addf(b, "%" PRId64, v->i);
		break;
	case JSON_REAL:
		buf_addf(b, "%.17g%s", v->d, isfinite(v->d) && v->d == (double)(int64_t)v->d ? ".0" : "");
		break;
	case JSON_STRING:
		buf_addf(b, "'%.*s'", STR_ARG(v->s));
		break;
	case JSON_DATETIME:
	case JSON_DATETIME_LOCAL:
	case JSON_DATE_LOCAL:
	case JSON_TIME_LOCAL:
		buf_addf(b, "%c(%.*s)", "ZLDT"[v->type - JSON_DATETIME], STR_ARG(v->s));
		break;
	case JSON_ARRAY:
	case JSON_OBJECT:
		buf_add_char(b, v->type == JSON_ARRAY ? '[' : '{');
		for (const struct json *k = v->kids.first; k; k = k->next) {
			if (v->type == JSON_OBJECT)
				buf_addf(b, "%.*s:", STR_ARG(k->key));
			dump(b, k);
			if (k->next)
				buf_add_char(b, ',');
		}
		buf_add_char(b, v->type == JSON_ARRAY ? ']' : '}');
		break;
	case JSON_NULL:
	case JSON_UINT:
	default:
		fail();
	}
}

struct good {
	const char *text, *want;
};

static void check_good(const struct good *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(1024 * 1024);
		AUTO(buf_done) struct buf b = BUF_INIT(65536);
		struct err e = { 0 };
		const struct json *v = toml_parse(&a, str_of(cases[i].text), &limits, NULL, &e);

		if (!v)
			fail_msg("%s: %s", cases[i].text, e.msg);
		dump(&b, v);
		assert_string_equal(buf_z(&b), cases[i].want);
	}
}

struct bad {
	const char *text, *want;
};

static void check_bad(const struct bad *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(1024 * 1024);
		struct err e = { 0 };
		char prefix[32];
		unsigned line = 0;

		if (toml_parse(&a, str_of(cases[i].text), &limits, &line, &e))
			fail_msg("accepted: %s", cases[i].text);
		assert_string_equal(e.msg, cases[i].want);
		assert_int_equal(e.code, ERR_INVALID);
		(void)snprintf(prefix, sizeof(prefix), "line %u: ", line);
		assert_true(str_starts(str_of(e.msg), str_of(prefix)));
	}
}

static void keys_are_bare_quoted_or_dotted(void **state)
{
	static const struct good cases[] = {
		{ "", "{}" },
		{ "\xef\xbb\xbf" "a = 1", "{a:1}" },
		{ "# only a comment", "{}" },
		{ "a=1", "{a:1}" },
		{ "\t a = 1 # c\r\nb=2\r\n", "{a:1,b:2}" },
		{ "1234 = 1\n-_-=2", "{1234:1,-_-:2}" },
		{ "\"a b\" = 1\n'c \"d' = 2", "{a b:1,c \"d:2}" },
		{ "\"\" = 1\n'a'.'' = 2", "{:1,a:{:2}}" },
		{ "\"\\u00e9\\\"\" = 1", "{\xc3\xa9\":1}" },
		{ "a . b\t.c = 1\na.d = 2\na.b.e = 3", "{a:{b:{c:1,e:3},d:2}}" },
		{ "3.14 = 1", "{3:{14:1}}" },
		{ "a = 1\nA = 2", "{a:1,A:2}" },
	};

	(void)state;
	check_good(cases, ARRAY_LEN(cases));
}

static void strings_come_in_four_kinds(void **state)
{
	static const struct good cases[] = {
		{ "a = \"\"", "{a:''}" },
		{ "a = 'c:\\temp\\n'", "{a:'c:\\temp\\n'}" },
		{ "a = \"\\b\\t\\n\\f\\r\\\"\\\\\"", "{a:'\b\t\n\f\r\"\\'}" },
		{ "a = \"\\u00E9\\U0001F600 \\uFFFF\"", "{a:'\xc3\xa9\xf0\x9f\x98\x80 \xef\xbf\xbf'}" },
		{ "a = \"\xc3\xa9\t#\"", "{a:'\xc3\xa9\t#'}" },
		{ "a = \"\"\"\nx\ny\"\"\"", "{a:'x\ny'}" },
		{ "a = \"\"\"\r\nx\r\ny\"\"\"", "{a:'x\ny'}" },
		{ "a = \"\"\"x \\  \r\n \n\t y\\\n\"\"\"", "{a:'x y'}" },
		{ "a = \"\"\"\"\"\"", "{a:''}" },
		{ "a = \"\"\"\"q\"\"\"\"\"", "{a:'\"q\"\"'}" },
		{ "a = \"\"\"q\\\"\"\"\"", "{a:'q\"'}" },
		{ "a = \"\"\"1\"\"2\\\"\"\"3\"\"\"", "{a:'1\"\"2\"\"\"3'}" },
		{ "a = '''\n'x''\\'''", "{a:''x''\\'}" },
		{ "a = '''\r\n'''", "{a:''}" },
		{ "a = '''''x'''''", "{a:'''x'''}" },
		{ "a = '''x\r\ny'''", "{a:'x\ny'}" },
	};

	(void)state;
	check_good(cases, ARRAY_LEN(cases));
}

static void numbers_and_booleans(void **state)
{
	static const struct good cases[] = {
		{ "a = [0, +0, -0, 42, -17, +9, 1_000, 1_2_3]", "{a:[0,0,0,42,-17,9,1000,123]}" },
		{ "a = [9223372036854775807, -9223372036854775808]", "{a:[9223372036854775807,-9223372036854775808]}" },
		{ "a = [0xDEAD_beef, 0o0755, 0b1101_0, 0x0]", "{a:[3735928559,493,26,0]}" },
		{ "a = [0x7fffffffffffffff]", "{a:[9223372036854775807]}" },
		{ "a = [1.5, -0.25, +1.0, 1_0.2_5, 0.0]", "{a:[1.5,-0.25,1.0,10.25,0.0]}" },
		{ "a = [5e+2, 1E6, -2E-2, 6.5e0_0, 0e0]", "{a:[500.0,1000000.0,-0.02,6.5,0.0]}" },
		{ "a = [inf, +inf, -inf]", "{a:[inf,inf,-inf]}" },
		{ "a = true\nb = false", "{a:true,b:false}" },
	};

	(void)state;
	check_good(cases, ARRAY_LEN(cases));
}

static void not_a_number_keeps_its_sign(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	struct err e = { 0 };
	const struct json *v = toml_parse(&a, STR("a = nan\nb = -nan\nc = -0.0"), &limits, NULL, &e);

	(void)state;
	assert_non_null(v);
	assert_true(isnan(v->kids.first->d) && !signbit(v->kids.first->d));
	assert_true(isnan(v->kids.first->next->d) && signbit(v->kids.first->next->d));
	assert_true(v->kids.last->d == 0 && signbit(v->kids.last->d));
}

static void dates_and_times_keep_their_text(void **state)
{
	static const struct good cases[] = {
		{ "a = 1979-05-27T07:32:00Z", "{a:Z(1979-05-27T07:32:00Z)}" },
		{ "a = 1979-05-27 07:32:00.999-07:00 # c", "{a:Z(1979-05-27 07:32:00.999-07:00)}" },
		{ "a = 1979-05-27t07:32:00z", "{a:Z(1979-05-27t07:32:00z)}" },
		{ "a = 1979-05-27T07:32:00.5", "{a:L(1979-05-27T07:32:00.5)}" },
		{ "a = 1979-05-27 # no time", "{a:D(1979-05-27)}" },
		{ "a = [1979-05-27 , 07:32:00]", "{a:[D(1979-05-27),T(07:32:00)]}" },
		{ "a = 23:59:60.123456789012", "{a:T(23:59:60.123456789012)}" },
		{ "a = [2000-02-29, 2024-02-29, 1999-12-31]", "{a:[D(2000-02-29),D(2024-02-29),D(1999-12-31)]}" },
	};

	(void)state;
	check_good(cases, ARRAY_LEN(cases));
}

static void arrays_and_inline_tables(void **state)
{
	static const struct good cases[] = {
		{ "a = []", "{a:[]}" },
		{ "a = [ 1, 'x', [true, [ ]], {} , ]", "{a:[1,'x',[true,[]],{}]}" },
		{ "a = [ # c\n\t1 # d\n\t, # e\n\r\n2,\n# f\n]", "{a:[1,2]}" },
		{ "a = { }", "{a:{}}" },
		{ "a = {b=1,c.d = 2, \"e\".f = [\n1\n], c.g = {}}", "{a:{b:1,c:{d:2,g:{}},e:{f:[1]}}}" },
	};

	(void)state;
	check_good(cases, ARRAY_LEN(cases));
}

static void tables_and_arrays_of_tables(void **state)
{
	static const struct good cases[] = {
		{ "[a]\n[b]", "{a:{},b:{}}" },
		{ "[ a . 'b' ]\nx=1\n[a]\ny=2", "{a:{b:{x:1},y:2}}" },
		{ "[a]\nb.c=1\n[a.b.d]\nx=1", "{a:{b:{c:1,d:{x:1}}}}" },
		{ "[a]\nb.c=1\n[[a.b.d]]\nx=1", "{a:{b:{c:1,d:[{x:1}]}}}" },
		{ "[a.b.c]\nx=1\n[a]\nb.y=2", "{a:{b:{c:{x:1},y:2}}}" },
		{ "[[a]]\nx=1\n[[a]]\n[[ a ]]\nx=3", "{a:[{x:1},{},{x:3}]}" },
		{ "[[a]]\n[a.b]\nx=1\n[[a.c]]\n[[a.c]]\n[[a]]\n[a.b]\nx=2", "{a:[{b:{x:1},c:[{},{}]},{b:{x:2}}]}" },
		{ "[[p.a]]\n[p]\nx=1", "{p:{a:[{}],x:1}}" },
	};

	(void)state;
	check_good(cases, ARRAY_LEN(cases));
}

static void syntax_errors_say_what_and_where(void **state)
{
	static const struct bad cases[] = {
		{ "a", "line 1: expected '=' after a key, found the end of the file" },
		{ "\n\na\n= 1", "line 3: expected '=' after a key, found the end of the line" },
		{ "a b = 1", "line 1: expected '=' after a key, found other text" },
		{ "a = ", "line 1: expected a value, found the end of the file" },
		{ "a = # c", "line 1: expected a value, found a comment" },
		{ "a = ,", "line 1: expected a value, found ','" },
		{ "a = \xc3\xa9", "line 1: expected a value, found other text" },
		{ "a = 1 b = 2", "line 1: expected the end of the line, found other text" },
		{ "a = 'x' 'y'", "line 1: expected the end of the line, found '''" },
		{ "= 1", "line 1: expected a key, found '='" },
		{ "a. = 1", "line 1: expected a key, found '='" },
		{ "a..b = 1", "line 1: expected a key, found '.'" },
		{ "\"\"\"a\"\"\" = 1", "line 1: a multi-line string cannot be a key" },
		{ "'a\n' = 1", "line 1: expected ' to close a string, found the end of the line" },
		{ "[]", "line 1: expected a key, found ']'" },
		{ "[a", "line 1: expected ']' after the name of a table, found the end of the file" },
		{ "[a] x = 1", "line 1: expected the end of the line, found other text" },
		{ "[[a]\n]", "line 1: expected ']]' after the name of an array of tables, found the end of the line" },
		{ "[[a] ]", "line 1: expected ']]' after the name of an array of tables, found ' '" },
		{ "[ [a]]", "line 1: expected a key, found '['" },
		{ "a = [1,\n2\n", "line 3: expected ',' or ']' in an array, found the end of the file" },
		{ "a = [1,\n2,\n", "line 3: expected ']' to close the array of line 1, found the end of the file" },
		{ "a = [1 2]", "line 1: expected ',' or ']' in an array, found other text" },
		{ "a = [,]", "line 1: expected a value, found ','" },
		{ "a = {b=1,}", "line 1: expected a key, found '}'" },
		{ "a = {b=1\n}", "line 1: expected ',' or '}' in an inline table, found the end of the line" },
		{ "a = {\nb=1}", "line 1: expected a key, found the end of the line" },
	};

	(void)state;
	check_bad(cases, ARRAY_LEN(cases));
}

static void bad_strings_are_refused(void **state)
{
	static const struct bad cases[] = {
		{ "a = \"x", "line 1: string without its closing \"" },
		{ "a = \"x\\\"", "line 1: string without its closing \"" },
		{ "a = \"x\\\ny\"", "line 1: expected \" to close a string, found the end of the line" },
		{ "a = 'x", "line 1: string without its closing '" },
		{ "a = \"\"\"x\n\"\"", "line 1: string without its closing three \"" },
		{ "a = '''x''", "line 1: string without its closing three '" },
		{ "a = '''x''''''", "line 1: expected the end of the line, found '''" },
		{ "a = \"\\e\"", "line 1: unknown escape in a string" },
		{ "a = \"\\\xc3\xa9\"", "line 1: unknown escape in a string" },
		{ "a = \"\\ \"", "line 1: unknown escape in a string" },
		{ "a = \"\"\"\n\n\\x41\"\"\"", "line 3: unknown escape in a string" },
		{ "a = \"\"\"\nx\\ y\"\"\"",
		  "line 2: expected the end of the line after '\\', found a blank and more text" },
		{ "a = \"\\u12\"", "line 1: expected 4 hexadecimal digits after '\\u'" },
		{ "a = \"\\u12g4\"", "line 1: expected 4 hexadecimal digits after '\\u'" },
		{ "a = \"\\U0001F60\"", "line 1: expected 8 hexadecimal digits after '\\U'" },
		{ "a = \"\\uD800\"", "line 1: escape that is not a Unicode character" },
		{ "a = \"\\U00110000\"", "line 1: escape that is not a Unicode character" },
	};

	(void)state;
	check_bad(cases, ARRAY_LEN(cases));
}

static void bad_scalars_are_refused(void **state)
{
	static const struct bad cases[] = {
		{ "a = hello", "line 1: not a valid value: a string needs quotes" },
		{ "a = True", "line 1: not a valid value: a string needs quotes" },
		{ "a = truer", "line 1: not a valid value: a string needs quotes" },
		{ "a = 01", "line 1: number with a leading zero" },
		{ "a = -0_1", "line 1: number with a leading zero" },
		{ "a = 00.5", "line 1: number with a leading zero" },
		{ "a = 1__0", "line 1: not a valid number" },
		{ "a = _1", "line 1: not a valid value: a string needs quotes" },
		{ "a = 1_", "line 1: not a valid number" },
		{ "a = +-1", "line 1: not a valid number" },
		{ "a = -", "line 1: not a valid number" },
		{ "a = 1x", "line 1: not a valid number" },
		{ "a = .5", "line 1: not a valid number" },
		{ "a = 5.", "line 1: not a valid number" },
		{ "a = 5._1", "line 1: not a valid number" },
		{ "a = 5_.1", "line 1: not a valid number" },
		{ "a = 1e", "line 1: not a valid number" },
		{ "a = 1e+", "line 1: not a valid number" },
		{ "a = 1e1.5", "line 1: not a valid number" },
		{ "a = 1.e5", "line 1: not a valid number" },
		{ "a = 0x", "line 1: not a valid number" },
		{ "a = 0xg", "line 1: not a valid number" },
		{ "a = 0o8", "line 1: not a valid number" },
		{ "a = 0b2", "line 1: not a valid number" },
		{ "a = 0x_1", "line 1: not a valid number" },
		{ "a = -0x1", "line 1: not a valid number" },
		{ "a = 9223372036854775808", "line 1: integer out of range" },
		{ "a = -9223372036854775809", "line 1: integer out of range" },
		{ "a = 0x8000000000000000", "line 1: integer out of range" },
		{ "a = 1e400", "line 1: float out of range" },
		{ "a = 1979-13-01", "line 1: not a valid date or date-time" },
		{ "a = 1979-00-01", "line 1: not a valid date or date-time" },
		{ "a = 1979-04-31", "line 1: not a valid date or date-time" },
		{ "a = 1979-04-00", "line 1: not a valid date or date-time" },
		{ "a = 1900-02-29", "line 1: not a valid date or date-time" },
		{ "a = 1979-5-1", "line 1: not a valid date or date-time" },
		{ "a = 1979-05-27T", "line 1: not a valid date or date-time" },
		{ "a = 1979-05-27X07:32:00", "line 1: not a valid date or date-time" },
		{ "a = 1979-05-27 24:00:00", "line 1: not a valid date or date-time" },
		{ "a = 1979-05-27T07:32:00+24:00", "line 1: not a valid date or date-time" },
		{ "a = 1979-05-27T07:32:00+0700", "line 1: not a valid date or date-time" },
		{ "a = 1979-05-27T07:32:00ZZ", "line 1: not a valid date or date-time" },
		{ "a = 07:32", "line 1: not a valid time (hh:mm:ss)" },
		{ "a = 07:60:00", "line 1: not a valid time (hh:mm:ss)" },
		{ "a = 07:00:61", "line 1: not a valid time (hh:mm:ss)" },
		{ "a = 07:00:00.", "line 1: not a valid time (hh:mm:ss)" },
		{ "a = 07:00:00Z", "line 1: not a valid time (hh:mm:ss)" },
	};

	(void)state;
	check_bad(cases, ARRAY_LEN(cases));
}

/* A9: what stands where a value belongs may be a secret whose quotes were forgotten. */
static void a_value_is_never_repeated(void **state)
{
	static const char *const texts[] = {
		"k = hunter2", "k = 0hunter2", "k = 0xhunter2", "k = -hunter2", "k = 1e99999hunter2", "k = 07hunter2",
		"k = 2026-hunter2", "k = 07:hunter2", "k = 99999999999999999999hunter2", "k = hunter2 # c",
		"k = $hunter2", "k = 1 hunter2", "k = 'x'hunter2", "k = [1 hunter2]", "k = {a = 1 hunter2}",
		"k = \"\\hunter2\"", "k = \"\\uhunter2\"", "k hunter2", "[a] hunter2", "k = 'hunter2", "k = '''hunter2",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(65536);
		struct err e = { 0 };

		assert_null(toml_parse(&a, str_of(texts[i]), &limits, NULL, &e));
		assert_true(str_starts(str_of(e.msg), STR("line 1: ")));
		assert_null(strstr(e.msg, "hunter2"));
		assert_null(strstr(e.msg, "'h'"));
	}
}

static void names_are_shown_on_one_line(void **state)
{
	static const struct bad cases[] = {
		{ "\"a\\n\\u001b[31m\" = 1\n\"a\\n\\u001b[31m\" = 2",
		  "line 2: key 'a\\n\\u001b[31m' is already defined on line 1" },
		{ "\"\\u009b\" = 1\n[\"\\u009b\"]", "line 2: '\\u009b' of line 1 is a value, not a table" },
		{ "[\"\\u202e\"]\n[\"\\u202e\"]", "line 2: table '\\u202e' is already defined on line 1" },
		{ "a = \xc2\x9b", "line 1: expected a value, found other text" },
	};

	(void)state;
	check_bad(cases, ARRAY_LEN(cases));
}

static void nothing_is_defined_twice(void **state)
{
	static const struct bad cases[] = {
		{ "a = 1\na = 2", "line 2: key 'a' is already defined on line 1" },
		{ "a = 1\n'a' = 2", "line 2: key 'a' is already defined on line 1" },
		{ "a = {b = 1, b = 2}", "line 1: key 'b' is already defined on line 1" },
		{ "a.b = 1\na = 2", "line 2: key 'a' is already defined on line 1" },
		{ "a.b = 1\na = {}", "line 2: key 'a' is already defined on line 1" },
		{ "a = 1\na.b = 2", "line 2: 'a' of line 1 is a value, not a table" },
		{ "a = []\na.b = 2", "line 2: 'a' of line 1 is an array: a dotted key cannot add to it" },
		{ "[[a]]\n[b]\n[[a.c]]\n[a]", "line 4: 'a' of line 1 is an array, not a table" },
		{ "a = {}\na.b = 2", "line 2: 'a' of line 1 is an inline table, which is closed" },
		{ "a = {b = {}, b.c = 2}", "line 1: 'b' of line 1 is an inline table, which is closed" },
		{ "[a]\n[a]", "line 2: table 'a' is already defined on line 1" },
		{ "a = {}\n[a]", "line 2: table 'a' is already defined on line 1" },
		{ "a = 1\n[a]", "line 2: 'a' of line 1 is a value, not a table" },
		{ "a = 1\n[a.b]", "line 2: 'a' of line 1 is a value, not a table" },
		{ "a = {}\n[a.b]", "line 2: 'a' of line 1 is an inline table, which is closed" },
		{ "a = [{}]\n[a.b]", "line 2: 'a' of line 1 is an array that was given as a value, which is closed" },
		{ "a = []\n[[a]]", "line 2: 'a' of line 1 is an array that was given as a value, which is closed" },
		{ "[a]\n[[a]]", "line 2: 'a' of line 1 is a table, not an array of tables" },
		{ "[a.b]\n[[a]]", "line 2: 'a' of line 1 is a table, not an array of tables" },
		{ "a = 1\n[[a]]", "line 2: 'a' of line 1 is a value, not an array of tables" },
		{ "[a]\nb.c = 1\n[a.b]",
		  "line 3: 'b' of line 2 is defined by dotted keys: a header cannot define it again" },
		{ "[a.b]\n[a]\nb.c = 1",
		  "line 3: 'b' of line 1 is defined by its own header: a dotted key cannot add to it" },
		{ "[a.b.c]\n[a]\nb.x = 1\n[a.b]",
		  "line 4: 'b' of line 1 is defined by dotted keys: a header cannot define it again" },
	};

	(void)state;
	check_bad(cases, ARRAY_LEN(cases));
}

static void the_text_is_clean_utf8(void **state)
{
	static const struct bad cases[] = {
		{ "a = 1\n# \xff", "line 2: byte 0xff is not part of valid UTF-8" },
		{ "a = '\xed\xa0\x80'", "line 1: byte 0xed is not part of valid UTF-8" },
		{ "a = '\x01'", "line 1: control character 0x01 is not allowed" },
		{ "# \x7f", "line 1: control character 0x7f is not allowed" },
		{ "\n\n'''\r'''", "line 3: carriage return without a line feed" },
		{ "a = 1\r", "line 1: carriage return without a line feed" },
		{ "a = 1\n\xef\xbb\xbf", "line 2: expected a key, found other text" },
	};
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	struct err e = { 0 };

	(void)state;
	check_bad(cases, ARRAY_LEN(cases));
	assert_null(toml_parse(&a, STR("a = '\0'"), &limits, NULL, &e));
	assert_string_equal(e.msg, "line 1: control character 0x00 is not allowed");
}

static void long_names_are_cut_between_characters(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	AUTO(buf_done) struct buf b = BUF_INIT(65536), want = BUF_INIT(65536);
	struct err e = { 0 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		buf_addf(&b, "'x");
		for (int k = 0; k < 40; k++)
			buf_addf(&b, "\xc3\xa9");
		buf_addf(&b, "' = 1\n");
	}
	buf_addf(&want, "line 2: key 'x");
	for (int k = 0; k < 31; k++)
		buf_addf(&want, "\xc3\xa9");
	buf_addf(&want, "...' is already defined on line 1");
	assert_null(toml_parse(&a, buf_str(&b), &limits, NULL, &e));
	assert_string_equal(e.msg, buf_z(&want));
}

static void every_node_knows_its_line(void **state)
{
	static const char text[] = "a = '''\n\n'''\nb = [\n1,\n{c = \"\"\"\\\n\"\"\"}]\n\n[d.e]\nf.g = 1\n[[h]]\n[d]\n";
	AUTO(arena_done) struct arena a = ARENA_INIT(65536);
	struct err e = { 0 };
	const struct json *v = toml_parse(&a, STR(text), &limits, NULL, &e), *b, *d;

	(void)state;
	assert_non_null(v);
	assert_int_equal(v->line, 1);
	assert_int_equal(v->kids.first->line, 1);
	b = v->kids.first->next;
	assert_int_equal(b->line, 4);
	assert_int_equal(b->kids.first->line, 5);
	assert_int_equal(b->kids.last->line, 6);
	assert_int_equal(b->kids.last->kids.first->line, 6);
	d = b->next;
	assert_int_equal(d->line, 9);
	assert_int_equal(d->kids.first->line, 9);
	assert_int_equal(d->kids.first->kids.first->line, 10);
	assert_int_equal(d->next->line, 11);
	assert_int_equal(d->next->kids.first->line, 11);
}

static struct json *parse_with(struct arena *a, const char *text, size_t bytes, unsigned depth, struct err *e)
{
	struct json_limits l = { .bytes = bytes, .depth = depth };

	return toml_parse(a, str_of(text), &l, NULL, e);
}

static void size_and_depth_have_ceilings(void **state)
{
	static const char *const three_deep[] = {
		"a = [[]]", "a = {b = {}}", "[a.b]", "a.b.c = 1", "[[a]]", "[a]\nb.c=1", "[a]\nb = []", "a = [{}]",
	};
	AUTO(arena_done) struct arena a = ARENA_INIT(1024 * 1024);
	struct err e = { 0 };
	unsigned line = 7;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(three_deep); i++) {
		assert_non_null(parse_with(&a, three_deep[i], 0, 3, &e));
		assert_null(parse_with(&a, three_deep[i], 0, 2, &e));
		assert_int_equal(e.code, ERR_LIMIT);
		assert_non_null(strstr(e.msg, ": nested deeper than 2 levels"));
	}
	assert_non_null(parse_with(&a, "a = 1", 5, 1, &e));
	assert_null(toml_parse(&a, STR("a = 10"), &(struct json_limits){ .bytes = 5, .depth = 1 }, &line, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_string_equal(e.msg, "larger than 5 bytes");
	assert_int_equal(line, 0);
}

static void numbers_have_a_ceiling(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1024 * 1024);
	AUTO(buf_done) struct buf b = BUF_INIT(65536);
	struct err e = { 0 };

	(void)state;
	buf_addf(&b, "a = 0.");
	while (b.n < 4 + TOML_NUMBER_MAX)
		buf_add_char(&b, '1');
	assert_non_null(toml_parse(&a, buf_str(&b), &limits, NULL, &e));
	buf_add_char(&b, '1');
	assert_null(toml_parse(&a, buf_str(&b), &limits, NULL, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_string_equal(e.msg, "line 1: number with more than 1024 characters");
}

static void values_have_a_ceiling(void **state)
{
	/* Each is five values with the root. */
	static const char *const fives[] = {
		"a = [1, 2, 3]", "a.b.c.d = 1", "[a.b.c.d]", "a = {b = {}, c = {}}\nd = ''", "[[a]]\n[[a]]\n[b]",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fives); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(65536);
		struct json_limits l = { .values = 5 };
		struct err e = { 0 };

		assert_non_null(toml_parse(&a, str_of(fives[i]), &l, NULL, &e));
		l.values = 4;
		assert_null(toml_parse(&a, str_of(fives[i]), &l, NULL, &e));
		assert_int_equal(e.code, ERR_LIMIT);
		assert_non_null(strstr(e.msg, ": more than 4 values"));
	}
}

static void the_default_number_of_values_is_the_maximum(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(16 * 1024 * 1024);
	AUTO(buf_done) struct buf b = BUF_INIT(1024 * 1024);
	struct err e = { 0 };

	(void)state;
	buf_addf(&b, "a = [");
	for (int i = 0; i < JSON_VALUES_MAX - 2; i++)
		buf_addf(&b, "1,");
	buf_addf(&b, "]\n");
	assert_non_null(toml_parse(&a, buf_str(&b), NULL, NULL, &e));
	buf_addf(&b, "b = 1\n");
	assert_null(toml_parse(&a, buf_str(&b), NULL, NULL, &e));
	assert_string_equal(e.msg, "line 2: more than 65536 values");
}

static void many_keys_are_found_again(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(64 * 1024 * 1024);
	AUTO(buf_done) struct buf b = BUF_INIT(2 * 1024 * 1024);
	struct json_limits l = { .depth = 4, .values = 100000 };
	const struct json *v;
	struct err e = { 0 };

	(void)state;
	for (int i = 0; i < 50000; i++)
		buf_addf(&b, "k%d.x=%d\n", i % 25000, i / 25000);
	assert_null(toml_parse(&a, buf_str(&b), &l, NULL, &e)); /* k0.x comes twice */
	assert_string_equal(e.msg, "line 25001: key 'x' is already defined on line 1");
	buf_clear(&b);
	for (int i = 0; i < 50000; i++)
		buf_addf(&b, "k%d.x%d=%d\n", i % 25000, i / 25000, i);
	v = toml_parse(&a, buf_str(&b), &l, NULL, &e);
	assert_non_null(v);
	assert_int_equal(v->kids.n, 25000);
	assert_int_equal(v->kids.last->kids.n, 2);
	assert_int_equal(v->kids.last->kids.last->i, 49999);
}

static void a_full_arena_is_an_error(void **state)
{
	static const char text[] = "a = \"\\n\"\nb = [1, {c = 2}]\n[d.e]\n[[f]]\n[[f]]\n"
				   "[k]\na=1\nb=2\nc=3\nd=4\ne=5\nf=6\ng=7\nh=8\ni=9\nj=10\nk=11\nl=12\nm=13\nn=14\no=15\n"
				   "p=16\nq=17\nr=18\n";
	bool was_full = false;

	(void)state;
	for (size_t max = 0; max < 65536; max += 16) {
		AUTO(arena_done) struct arena a = ARENA_INIT(max);
		struct err e = { 0 };

		if (toml_parse(&a, STR(text), &limits, NULL, &e))
			break;
		assert_int_equal(e.code, ERR_UNAVAILABLE);
		was_full = true;
		assert_true(max < 32768);
	}
	assert_true(was_full);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_bare_quoted_or_dotted),
		cmocka_unit_test(strings_come_in_four_kinds),
		cmocka_unit_test(numbers_and_booleans),
		cmocka_unit_test(not_a_number_keeps_its_sign),
		cmocka_unit_test(dates_and_times_keep_their_text),
		cmocka_unit_test(arrays_and_inline_tables),
		cmocka_unit_test(tables_and_arrays_of_tables),
		cmocka_unit_test(syntax_errors_say_what_and_where),
		cmocka_unit_test(bad_strings_are_refused),
		cmocka_unit_test(bad_scalars_are_refused),
		cmocka_unit_test(a_value_is_never_repeated),
		cmocka_unit_test(names_are_shown_on_one_line),
		cmocka_unit_test(nothing_is_defined_twice),
		cmocka_unit_test(the_text_is_clean_utf8),
		cmocka_unit_test(long_names_are_cut_between_characters),
		cmocka_unit_test(every_node_knows_its_line),
		cmocka_unit_test(size_and_depth_have_ceilings),
		cmocka_unit_test(numbers_have_a_ceiling),
		cmocka_unit_test(values_have_a_ceiling),
		cmocka_unit_test(the_default_number_of_values_is_the_maximum),
		cmocka_unit_test(many_keys_are_found_again),
		cmocka_unit_test(a_full_arena_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
