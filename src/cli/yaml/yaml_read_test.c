// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "cli/yaml/yaml_read.h"

#include "base/banned.h"

#define ARENA_MAX ((size_t)8 * 1024 * 1024)

/* What PyYAML reads; NULL: it is refused, also what that would take (anchors, complex keys, a key that comes twice). */
static void documents_are_read_as_others_read_them(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "a: 1\012b: x\012", "{\"a\":1,\"b\":\"x\"}" },
		{ "{\"a\": [1, 2], \"b\": null}", "{\"a\":[1,2],\"b\":null}" },
		{ "- a\012- b: 1\012  c: 2\012- - x\012  - y\012", "[\"a\",{\"b\":1,\"c\":2},[\"x\",\"y\"]]" },
		{ "credentials:\012- name: k\012  source:\012    type: inline\012    value: \"s\\u00e9\\n\"\012bindings: []\012", "{\"credentials\":[{\"name\":\"k\",\"source\":{\"type\":\"inline\",\"value\":\"s\303\251\\n\"}}],\"bindings\":[]}" },
		{ "a:\012  - 1\012  - 2\012b:\012  c:\012    d: e\012", "{\"a\":[1,2],\"b\":{\"c\":{\"d\":\"e\"}}}" },
		{ "# c\012a: b # c\012\012c: \"x # y\"\012", "{\"a\":\"b\",\"c\":\"x # y\"}" },
		{ "a: 'it''s'\012b: \"q\\\"x\"\012", "{\"a\":\"it's\",\"b\":\"q\\\"x\"}" },
		{ "a: |\012  l1\012  l2\012\012b: >\012  f1\012  f2\012\012  f3\012", "{\"a\":\"l1\\nl2\\n\",\"b\":\"f1 f2\\nf3\\n\"}" },
		{ "a: |-\012  x\012   y\012b: |+\012  z\012\012c: 1\012", "{\"a\":\"x\\n y\",\"b\":\"z\\n\\n\",\"c\":1}" },
		{ "a: {x: 1, y: [p, \"q\", {z: null}]}\012", "{\"a\":{\"x\":1,\"y\":[\"p\",\"q\",{\"z\":null}]}}" },
		{ "a:\012b: ~\012c: null\012", "{\"a\":null,\"b\":null,\"c\":null}" },
		{ "x: true\012y: False\012z: -5\012w: 1.5\012", "{\"x\":true,\"y\":false,\"z\":-5,\"w\":1.5}" },
		{ "---\012a: b\012...\012", "{\"a\":\"b\"}" },
		{ "", "null" },
		{ "plain text\012", "\"plain text\"" },
		{ "a: long text\012  goes on\012  here\012b: 2\012", "{\"a\":\"long text goes on here\",\"b\":2}" },
		{ "\"k 1\": v\012'k2': w\012", "{\"k 1\":\"v\",\"k2\":\"w\"}" },
		{ "url: http://x:80/p\012host: a.b:8080\012", "{\"url\":\"http://x:80/p\",\"host\":\"a.b:8080\"}" },
		{ "- [a, b]\012- {c: d}\012", "[[\"a\",\"b\"],{\"c\":\"d\"}]" },
		{ "[a,\012 b]\012", "[\"a\",\"b\"]" },
		{ "a: \"x\012  y\"\012", "{\"a\":\"x y\"}" },
		{ "-\012  a: 1\012-\012  b: 2\012", "[{\"a\":1},{\"b\":2}]" },
		{ "a:\012- b\012-\012- c\012", "{\"a\":[\"b\",null,\"c\"]}" },
		{ "a: b: c\012", NULL },
		{ "a: [1\012", NULL },
		{ "a: &x 1\012", NULL },
		{ "a: *x\012", NULL },
		{ "\? a\012: b\012", NULL },
		{ "a: !t 1\012", NULL },
		{ "a: \"x\012", NULL },
		{ "a: 1\012a: 2\012", NULL },
		{ "\011a: 1\012", NULL },
		{ "a: 1\012 b: 2\012", NULL },
		{ "a: 1\012---\012b: 2\012", NULL },
		{ "- a\012b: 1\012", NULL },
		{ "a: @x\012", NULL },
		{ "a: '\\n'\012", "{\"a\":\"\\\\n\"}" },
		{ "a: >-\012  f\012\012   g\012  h\012", "{\"a\":\"f\\n\\n g\\nh\"}" },
		{ "a: \"\\q\"\012", NULL },
		{ "{a: 1,}\012", "{\"a\":1}" },
		{ "a:   \012   b: 1\012", "{\"a\":{\"b\":1}}" },
		{ "a: x#y\012", "{\"a\":\"x#y\"}" },
		{ "- - - 1\012", "[[[1]]]" },
		{ "a: [x y, \"z\"]\012", "{\"a\":[\"x y\",\"z\"]}" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(ARENA_MAX);
		AUTO(buf_done) struct buf b = BUF_INIT(ARENA_MAX);
		struct json_out o = json_out(&b);
		struct err e = { 0 };
		const struct json *v = yaml_parse(&a, str_of(cases[i].text), &e);

		if (v)
			json_tree(&o, v);
		if (!v != !cases[i].want || (v && strcmp(buf_z(&b), cases[i].want) != 0))
			print_error("%s--> %s (%s), wanted %s\n", cases[i].text, v ? buf_z(&b) : "refused", e.msg, cases[i].want ? cases[i].want : "refused");
		assert_int_equal(!v, !cases[i].want);
		if (v)
			assert_string_equal(buf_z(&b), cases[i].want);
		else
			assert_non_null(strstr(e.msg, "line "));
	}
}

static void words_of_older_versions_are_texts(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(ARENA_MAX);
	struct err e = { 0 };
	const struct json *v = yaml_parse(&a, STR("a: no\nb: 12:30\nc: 2026-06-15\nd: 0755\n"), &e);

	(void)state;
	assert_non_null(v);
	assert_true(str_is(json_text(v, "a"), "no"));
	assert_true(str_is(json_text(v, "b"), "12:30"));
	assert_true(str_is(json_text(v, "c"), "2026-06-15"));
	assert_true(str_is(json_text(v, "d"), "0755"));
}

static void depth_and_size_have_an_end(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(ARENA_MAX);
	AUTO(buf_done) struct buf b = BUF_INIT(YAML_TEXT_MAX * 2);
	struct err e = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++)
		buf_add_char(&b, '[');
	assert_null(yaml_parse(&a, buf_str(&b), &e));
	assert_non_null(strstr(e.msg, "too deeply"));
	buf_clear(&b);
	for (int i = 0; i < 100; i++)
		buf_addf(&b, "- ");
	assert_null(yaml_parse(&a, buf_str(&b), &e));
	assert_non_null(strstr(e.msg, "too deeply"));
	buf_clear(&b);
	for (int i = 0; i < 20000; i++)
		buf_addf(&b, "k%d: 1\n", i);
	assert_null(yaml_parse(&a, buf_str(&b), &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_null(yaml_parse(&a, STR("a: \377\n"), &e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(documents_are_read_as_others_read_them),
		cmocka_unit_test(words_of_older_versions_are_texts),
		cmocka_unit_test(depth_and_size_have_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
