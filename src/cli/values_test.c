// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/opt.h"
#include "cli/values.h"
#include "client/opensandbox.h"

#include "base/banned.h"

static void durations_are_read(void **state)
{
	static const struct {
		const char *text;
		int64_t want; /* -2: refused */
	} cases[] = {
		{ "90s", 90 },       { "10m", 600 },    { "2h", 7200 },   { "1h30m45s", 5445 }, { "45", 45 },    { " 5m ", 300 },
		{ "0", 0 },          { "1h5s", 3605 },  { "", -2 },       { "  ", -2 },         { "h", -2 },     { "5", 5 },
		{ "1d", -2 },        { "1.5h", -2 },    { "-5s", -2 },    { "5m1h", -2 },       { "5m5m", -2 },  { "5x", -2 },
		{ "5 m", -2 },       { "none", -2 },    { "99999999999999999999h", -2 },        { "9999999999h", -2 },
		{ "876600h", 3155760000 },              { "876600h1s", -2 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		int64_t got = -2;
		int r = value_duration(cases[i].text, &got, &e);

		assert_int_equal(r, cases[i].want == -2 ? -1 : 0);
		assert_int_equal(got, cases[i].want);
	}
}

static void none_is_a_duration_where_it_may_be(void **state)
{
	struct err e = { 0 };
	int64_t got = 0;

	(void)state;
	assert_int_equal(value_duration_or_none(" NoNe ", &got, &e), 0);
	assert_int_equal(got, VALUES_NONE);
	assert_int_equal(value_duration_or_none("1m", &got, &e), 0);
	assert_int_equal(got, 60);
	assert_int_equal(value_duration_or_none("nones", &got, &e), -1);
}

static void durations_are_shown(void **state)
{
	static const struct {
		int64_t s;
		const char *want;
	} cases[] = { { 600, "0:10:00" }, { 5445, "1:30:45" }, { 86400, "1 day, 0:00:00" }, { 180061, "2 days, 2:01:01" }, { 0, "0:00:00" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[VALUES_SPAN_SIZE];

		value_show_duration(cases[i].s, out);
		assert_string_equal(out, cases[i].want);
	}
}

static void pairs_split_at_the_first_sign_and_the_last_one_counts(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(64 * 1024);
	const struct opt_list list = { .items = { "A=1", "B=x=y", "C=", "A=2" }, .n = 4 };
	const struct opt_list bad = { .items = { "A" }, .n = 1 };
	struct osb_map map = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(value_pairs(&list, &a, &map, &e), 0);
	assert_int_equal(map.n, 3);
	assert_string_equal(map.items[0].key, "A");
	assert_string_equal(map.items[0].value, "2");
	assert_string_equal(map.items[1].value, "x=y");
	assert_string_equal(map.items[2].value, "");
	assert_int_equal(value_pairs(&bad, &a, &map, &e), -1);
	assert_string_equal(e.msg, "expected KEY=VALUE, got 'A'");
}

static void rules_are_read(void **state)
{
	static const struct {
		const char *text, *action, *target; /* NULL: refused */
	} cases[] = {
		{ "allow=packages.example.org", "allow", "packages.example.org" },
		{ " DENY = *.x.org ", "deny", "*.x.org" },
		{ "allow=a=b", "allow", "a=b" },
		{ "packages.example.org", NULL, NULL },
		{ "drop=x", NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(64 * 1024);
		const struct opt_list list = { .items = { cases[i].text }, .n = 1 };
		struct osb_rule *rules = NULL;
		struct err e = { 0 };

		assert_int_equal(value_rules(&list, &a, &rules, &e), cases[i].action ? 0 : -1);
		if (cases[i].action) {
			assert_string_equal(rules[0].action, cases[i].action);
			assert_string_equal(rules[0].target, cases[i].target);
		}
	}
}

static void modes_are_octal_digits(void **state)
{
	static const struct {
		const char *text;
		int want; /* -1: refused */
	} cases[] = { { "755", 755 }, { "0644", 644 }, { "7777", 7777 }, { "0", 0 }, { "abc", -1 }, { "", -1 }, { "888", -1 }, { "77777", -1 }, { "-1", -1 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		int got = -1;

		assert_int_equal(value_mode(cases[i].text, &got, &e), cases[i].want < 0 ? -1 : 0);
		assert_int_equal(got, cases[i].want);
	}
}

static void words_are_quoted_for_a_shell(void **state)
{
	char *words[] = { (char[]){ "echo" }, (char[]){ "a b" }, (char[]){ "it's" }, (char[]){ "" }, (char[]){ "x=1,y/z" }, (char[]){ "$HOME" } };
	AUTO(buf_done) struct buf b = BUF_INIT(256);

	(void)state;
	value_quote(words, 6, &b);
	assert_string_equal(buf_z(&b), "echo 'a b' 'it'\"'\"'s' '' x=1,y/z '$HOME'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations_are_read),
		cmocka_unit_test(none_is_a_duration_where_it_may_be),
		cmocka_unit_test(durations_are_shown),
		cmocka_unit_test(pairs_split_at_the_first_sign_and_the_last_one_counts),
		cmocka_unit_test(rules_are_read),
		cmocka_unit_test(modes_are_octal_digits),
		cmocka_unit_test(words_are_quoted_for_a_shell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
