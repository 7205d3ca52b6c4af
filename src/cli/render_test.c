// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/render.h"

#include "base/banned.h"

#define TEXT_MAX ((size_t)64 * 1024)

static const struct json *tree(struct arena *a, const char *text)
{
	struct err e = { 0 };
	const struct json *v = json_parse(a, str_of(text), NULL, NULL, &e);

	assert_non_null(v);
	return v;
}

/* What PyYAML makes of the same documents. */
static void yaml_is_what_the_published_tool_writes(void **state)
{
	static const struct {
		const char *json, *want;
	} cases[] = {
		{ "{\"b\": 1, \"a\": [1, {\"x\": \"y\", \"c\": null}], \"z\": {}, \"l\": []}", "a:\012- 1\012- c: null\012  x: y\012b: 1\012l: []\012z: {}\012" },
		{ "{\"s\": \"2026-06-15T09:46:58Z\"}", "s: '2026-06-15T09:46:58Z'\012" },
		{ "{\"s\": \"2026-06-15\"}", "s: '2026-06-15'\012" },
		{ "{\"s\": \"12\"}", "s: '12'\012" },
		{ "{\"s\": \"1.5\"}", "s: '1.5'\012" },
		{ "{\"s\": \"1.2.3\"}", "s: 1.2.3\012" },
		{ "{\"s\": \"true\"}", "s: 'true'\012" },
		{ "{\"s\": \"No\"}", "s: 'No'\012" },
		{ "{\"s\": \"\"}", "s: ''\012" },
		{ "{\"s\": \"null\"}", "s: 'null'\012" },
		{ "{\"s\": \"~\"}", "s: '~'\012" },
		{ "{\"s\": \"a: b\"}", "s: 'a: b'\012" },
		{ "{\"s\": \"a:b\"}", "s: a:b\012" },
		{ "{\"s\": \"x #y\"}", "s: 'x #y'\012" },
		{ "{\"s\": \"x#y\"}", "s: x#y\012" },
		{ "{\"s\": \"- x\"}", "s: '- x'\012" },
		{ "{\"s\": \"-x\"}", "s: -x\012" },
		{ "{\"s\": \"\?x\"}", "s: \?x\012" },
		{ "{\"s\": \"\? x\"}", "s: '\? x'\012" },
		{ "{\"s\": \"*x\"}", "s: '*x'\012" },
		{ "{\"s\": \"@x\"}", "s: '@x'\012" },
		{ "{\"s\": \"it's\"}", "s: it's\012" },
		{ "{\"s\": \"'q'\"}", "s: '''q'''\012" },
		{ "{\"s\": \" lead\"}", "s: ' lead'\012" },
		{ "{\"s\": \"trail \"}", "s: 'trail '\012" },
		{ "{\"s\": \"a\\nb\"}", "s: 'a\012\012  b'\012" },
		{ "{\"s\": \"a\\n\\nb\\n\"}", "s: 'a\012\012\012  b\012\012  '\012" },
		{ "{\"s\": \"\\n\"}", "s: '\012\012  '\012" },
		{ "{\"s\": \"a\\tb\"}", "s: \"a\\tb\"\012" },
		{ "{\"s\": \"a \\nb\"}", "s: \"a \\nb\"\012" },
		{ "{\"s\": \"a\\n b\"}", "s: \"a\\n b\"\012" },
		{ "{\"s\": \"h\\u00e9llo \\u2192 \\u6f22\"}", "s: h\303\251llo \342\206\222 \346\274\242\012" },
		{ "{\"s\": \"\\u001b[31m\"}", "s: \"\\e[31m\"\012" },
		{ "{\"s\": \"12:30\"}", "s: '12:30'\012" },
		{ "{\"s\": \"0x1f\"}", "s: '0x1f'\012" },
		{ "{\"s\": \"017\"}", "s: '017'\012" },
		{ "{\"s\": \"1e5\"}", "s: 1e5\012" },
		{ "{\"s\": \"1.e+5\"}", "s: '1.e+5'\012" },
		{ "{\"s\": \"1_000\"}", "s: '1_000'\012" },
		{ "{\"s\": \"0b1\"}", "s: '0b1'\012" },
		{ "{\"s\": \"<<\"}", "s: '<<'\012" },
		{ "{\"s\": \"=\"}", "s: '='\012" },
		{ "{\"s\": \".inf\"}", "s: '.inf'\012" },
		{ "{\"s\": \"-.inf\"}", "s: '-.inf'\012" },
		{ "{\"s\": \"--- x\"}", "s: '--- x'\012" },
		{ "{\"s\": \"...\"}", "s: '...'\012" },
		{ "{\"s\": \"127.0.0.1:8080\"}", "s: 127.0.0.1:8080\012" },
		{ "{\"s\": \"python:3.11\"}", "s: python:3.11\012" },
		{ "{\"s\": \"%x\"}", "s: '%x'\012" },
		{ "{\"s\": \"a,b\"}", "s: a,b\012" },
		{ "{\"s\": \"[x\"}", "s: '[x'\012" },
		{ "{\"s\": \"x]\"}", "s: x]\012" },
		{ "{\"s\": \"tail:\"}", "s: 'tail:'\012" },
		{ "{\"s\": \"\\\"x\"}", "s: '\"x'\012" },
		{ "{\"s\": \"a\\\"b\"}", "s: a\"b\012" },
		{ "{\"s\": \"a\\\\b\"}", "s: a\\b\012" },
		{ "{\"s\": \"+.5\"}", "s: +.5\012" },
		{ "{\"s\": \".5\"}", "s: '.5'\012" },
		{ "{\"s\": \"2026-6-1\"}", "s: 2026-6-1\012" },
		{ "{\"s\": \"2026-6-1 1:02:03\"}", "s: '2026-6-1 1:02:03'\012" },
		{ "{\"s\": \"word word word word word word word word word word word word word word word word word word word word word word word word word end\"}", "s: word word word word word word word word word word word word word word word word\012  word word word word word word word word word end\012" },
		{ "{\"s\": \"it's: word word word word word word word word word word word word word word word word word word word word word word word word word end\"}", "s: 'it''s: word word word word word word word word word word word word word word word\012  word word word word word word word word word word end'\012" },
		{ "{\"s\": \"tab\\tword word word word word word word word word word word word word word word word word word word word word word word word word end\"}", "s: \"tab\\tword word word word word word word word word word word word word word word\\\012  \\ word word word word word word word word word word end\"\012" },
		{ "{\"s\": \"line of text that is long enough\\nline of text that is long enough\\nline of text that is long enough\\nline of text that is long enough\\n\"}", "s: 'line of text that is long enough\012\012  line of text that is long enough\012\012  line of text that is long enough\012\012  line of text that is long enough\012\012  '\012" },
		{ "{\"s\": \"a\\r\\nbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\\n\\nccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc d e\"}", "s: \"a\\r\\nbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\\n\\\012  \\nccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc\\\012  \\ d e\"\012" },
		{ "[[1, 2], [{\"a\": \"b\"}], \"x\"]", "- - 1\012  - 2\012- - a: b\012- x\012" },
		{ "{\"a b\": 1, \"12\": 2, \"x: y\": 3, \"B\": 4, \"a\": 5}", "'12': 2\012B: 4\012a: 5\012a b: 1\012'x: y': 3\012" },
		{ "{\"deep\": {\"list\": [\"p\", {\"k\": [\"q\"]}]}}", "deep:\012  list:\012  - p\012  - k:\012    - q\012" },
		{ "[\"x\"]", "- x\012" },
		{ "[]", "[]\012" },
		{ "{\"f\": 1.5, \"t\": true, \"n\": null, \"big\": 1e+20}", "big: 1.0e+20\012f: 1.5\012n: null\012t: true\012" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(TEXT_MAX);
		AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

		render_yaml(tree(&a, cases[i].json), &b);
		assert_string_equal(buf_z(&b), cases[i].want);
	}
}

static void json_is_indented_by_two(void **state)
{
	static const struct {
		const char *json, *want;
		bool is_ascii;
	} cases[] = {
		{ "{}", "{}", false },
		{ "{\"a\":[],\"b\":{}}", "{\n  \"a\": [],\n  \"b\": {}\n}", false },
		{ "[1,\"x\",null,true,1.5]", "[\n  1,\n  \"x\",\n  null,\n  true,\n  1.5\n]", false },
		{ "\"h\\u00e9 \\u2192 \\ud83d\\ude00\"", "\"h\303\251 \342\206\222 \360\237\230\200\"", false },
		{ "\"h\\u00e9 \\u2192 \\ud83d\\ude00\"", "\"h\\u00e9 \\u2192 \\ud83d\\ude00\"", true },
		{ "\"a\\nb\\t\\\"\\\\\\u0001/\"", "\"a\\nb\\t\\\"\\\\\\u0001/\"", false },
		{ "\"\\u001b[31m\\u009b\\u202e\"", "\"\\u001b[31m\\u009b\\u202e\"", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(TEXT_MAX);
		AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

		render_json(tree(&a, cases[i].json), &(struct render_style){ .is_ascii = cases[i].is_ascii }, &b);
		assert_string_equal(buf_z(&b), cases[i].want);
	}
}

static void json_on_one_line_has_blanks(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(TEXT_MAX);
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	(void)state;
	render_json_line(tree(&a, "{\"a\":[1,2],\"b\":null}"), &b);
	assert_string_equal(buf_z(&b), "{\"a\": [1, 2], \"b\": null}");
}

static void rows_become_a_table(void **state)
{
	static const char *const columns[] = { "id", "status", "note", NULL };
	AUTO(arena_done) struct arena a = ARENA_INIT(TEXT_MAX);
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	(void)state;
	render_rows(tree(&a, "[{\"id\":\"a1\",\"status\":\"Running\",\"note\":[1]},{\"id\":\"b2\",\"status\":\"odd\",\"note\":null}]"),
		    columns, "Things", &(struct render_style){ 0 }, &b);
	assert_string_equal(buf_z(&b), "         Things\n"
				       "╭────┬───────────┬──────╮\n"
				       "│ ID │ STATUS    │ NOTE │\n"
				       "├────┼───────────┼──────┤\n"
				       "│ a1 │ ● Running │ [1]  │\n"
				       "│ b2 │ odd       │ -    │\n"
				       "╰────┴───────────┴──────╯\n");
}

static void an_object_is_a_table_of_keys_and_values(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(TEXT_MAX);
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	(void)state;
	render_dict(tree(&a, "{\"state\":\"paused\",\"n\":2,\"gone\":null}"), NULL, &(struct render_style){ 0 }, &b);
	assert_string_equal(buf_z(&b), "╭───────┬──────────╮\n"
				       "│ Key   │ Value    │\n"
				       "├───────┼──────────┤\n"
				       "│ state │ ⏸ paused │\n"
				       "├───────┼──────────┤\n"
				       "│ n     │ 2        │\n"
				       "├───────┼──────────┤\n"
				       "│ gone  │ -        │\n"
				       "╰───────┴──────────╯\n");
}

static void a_narrow_terminal_breaks_cells_but_no_ids(void **state)
{
	static const char *const columns[] = { "id", "text", NULL };
	AUTO(arena_done) struct arena a = ARENA_INIT(TEXT_MAX);
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	(void)state;
	render_rows(tree(&a, "[{\"id\":\"abcdefgh\",\"text\":\"one two three four\\nfive\"}]"), columns, NULL,
		    &(struct render_style){ .width = 24 }, &b);
	assert_string_equal(buf_z(&b), "╭──────────┬───────────╮\n"
				       "│ ID       │ TEXT      │\n"
				       "├──────────┼───────────┤\n"
				       "│ abcdefgh │ one two   │\n"
				       "│          │ three     │\n"
				       "│          │ four      │\n"
				       "│          │ five      │\n"
				       "╰──────────┴───────────╯\n");
}

static void what_a_terminal_would_obey_is_escaped(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(TEXT_MAX);
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	(void)state;
	render_dict(tree(&a, "{\"k\":\"\\u001b]0;x\\u0007\"}"), NULL, &(struct render_style){ 0 }, &b);
	render_panel(STR("\033[2Jx\r\n"), "T", &(struct render_style){ 0 }, &b);
	assert_null(strchr(buf_z(&b), '\033'));
	assert_null(strchr(buf_z(&b), '\r'));
	assert_non_null(strstr(buf_z(&b), "\\u001b]0;x"));
}

static void colours_come_only_when_asked_for(void **state)
{
	static const char *const columns[] = { "status", NULL };
	AUTO(arena_done) struct arena a = ARENA_INIT(TEXT_MAX);
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	(void)state;
	render_rows(tree(&a, "[{\"status\":\"failed\"}]"), columns, NULL, &(struct render_style){ .is_ansi = true }, &b);
	assert_non_null(strstr(buf_z(&b), "\033[1;31m✗ failed\033[0m"));
	assert_string_equal(render_sgr(false, RENDER_BOLD), "");
}

static void a_panel_frames_its_text(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	(void)state;
	render_panel(STR("hello\nwide world"), "Logs", &(struct render_style){ 0 }, &b);
	assert_string_equal(buf_z(&b), "╭─ Logs ─────╮\n│ hello      │\n│ wide world │\n╰────────────╯\n");
}

static void wide_and_joining_characters_are_measured(void **state)
{
	(void)state;
	assert_int_equal(render_width(STR("abc")), 3);
	assert_int_equal(render_width(STR("漢字")), 4);
	assert_int_equal(render_width(STR("e\314\201")), 1);
	assert_int_equal(render_width(STR("\377x")), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(yaml_is_what_the_published_tool_writes),
		cmocka_unit_test(json_is_indented_by_two),
		cmocka_unit_test(json_on_one_line_has_blanks),
		cmocka_unit_test(rows_become_a_table),
		cmocka_unit_test(an_object_is_a_table_of_keys_and_values),
		cmocka_unit_test(a_narrow_terminal_breaks_cells_but_no_ids),
		cmocka_unit_test(what_a_terminal_would_obey_is_escaped),
		cmocka_unit_test(colours_come_only_when_asked_for),
		cmocka_unit_test(a_panel_frames_its_text),
		cmocka_unit_test(wide_and_joining_characters_are_measured),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
