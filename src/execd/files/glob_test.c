// SPDX-License-Identifier: Apache-2.0
#include "execd/files/glob.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"

#include "base/banned.h"

static void patterns_match_what_they_say(void **state)
{
	static const struct {
		const char *pattern, *name;
		bool want;
	} cases[] = {
		{ "", "", true },
		{ "", "a", false },
		{ "a", "a", true },
		{ "a", "A", false },
		{ "a", "ab", false },
		{ "*", "", true },
		{ "*", ".hidden", true },
		{ "*", "a/b", false },
		{ "*.py", "x.py", true },
		{ "*.py", ".py", true },
		{ "*.py", "x.pyc", false },
		{ "a*b*c", "aXbYbZc", true },
		{ "a*b*c", "aXbYbZ", false },
		{ "?", "\xe2\x82\xac", true },
		{ "?", "ab", false },
		{ "?", "/", false },
		{ "??", "\xff\xfe", true },
		{ "\xff", "\xff", true },
		{ "[\xc3\xa4-\xc3\xbc]", "\xc3\xb6", true },
		{ "[a-c]x", "bx", true },
		{ "[a-c]x", "dx", false },
		{ "[!a-c]", "d", true },
		{ "[^a-c]", "b", false },
		{ "[!a]", "/", false },
		{ "[\\]]", "]", true },
		{ "[a\\-c]", "-", true },
		{ "[a\\-c]", "b", false },
		{ "[[]", "[", true },
		{ "\\*", "*", true },
		{ "\\*", "a", false },
		{ "a]b}c,d)(", "a]b}c,d)(", true },
		{ "{a,b}", "b", true },
		{ "{a,b}c", "ac", true },
		{ "{a,b}c", "c", false },
		{ "x{,y}", "x", true },
		{ "x{,y}", "xy", true },
		{ "{a,b{c,d}}e", "bde", true },
		{ "{a,b{c,d}}e", "be", false },
		{ "{}x", "x", true },
		{ "{*.c,*.[ch]pp}", "a.hpp", true },
		{ "{a\\,b,[,]}", "a,b", true },
		{ "{a\\,b,[,]}", ",", true },
		{ "**", "a/b/c", true },
		{ "**/*.py", "x.py", true },
		{ "**/*.py", "a/b/x.py", true },
		{ "**/*.py", "a/b/x.pyc", false },
		{ "a/**/b", "a/b", true },
		{ "a/**/b", "a/x/y/b", true },
		{ "a/**/b", "axb", false },
		{ "a/**", "a/b/c", true },
		{ "a/**", "ab/c", false },
		{ "a**b", "aXYb", true },
		{ "a**b", "aX/Yb", false },
		{ "***", "a", true },
		{ "{**/,}x", "a/b/x", true },
		{ "{src,lib}/**/*.{c,h}", "src/a/b.h", true },
		{ "{src,lib}/**/*.{c,h}", "doc/a/b.h", false },
		{ "!(*.py)", "a.c", true },
		{ "!(*.py)", "a.py", false },
		{ "a!(b)c", "abc", false },
		{ "a!(b)c", "axc", true },
		{ "a!(b)c", "zzz", true }, /* the opposite of the whole, not of the place */
		{ "!(!(a))", "a", true },
		{ "!(!(a))", "b", false },
		{ "!({a,b})", "b", false },
		{ "!({a,b})", "c", true },
		{ "{x,!(y)}z", "xz", true },
		{ "{x,!(y)}z", "yz", false },
		{ "{x,!(y)}z", "q", true },
		{ "!({a,!(b)})", "b", true },
		{ "!({a,!(b)})", "a", false },
		{ "{!(a,b),c}", "c", true },
		{ "\\!x", "!x", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		AUTO(glob_free) struct glob *g = glob_new(str_of(cases[i].pattern), &e);

		if (!g)
			fail_msg("'%s': %s", cases[i].pattern, e.msg);
		if (glob_matches(g, str_of(cases[i].name)) != cases[i].want)
			fail_msg("'%s' on '%s'", cases[i].pattern, cases[i].name);
	}
}

static void patterns_that_are_none_are_refused(void **state)
{
	static const char *const cases[] = {
		"[", "[a", "[]", "[]a]", "[!]", "[!", "[a-", "[a-]", "[-a]", "[b-a]", "[\\", "[a\\]", "\\", "a\\", "{", "{a", "{a,{b}",
		"!", "a!", "!a", "!(", "!(a", "!{a}", "{!,a}", "{!(a,b}",
		"{{{{{{{{{{{{{{{{{a}}}}}}}}}}}}}}}}}",
		"{!(a),b}{!(a),b}{!(a),b}{!(a),b}{!(a),b}{!(a),b}{!(a),b}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		AUTO(glob_free) struct glob *g = glob_new(str_of(cases[i]), &e);

		if (g || e.code != ERR_INVALID)
			fail_msg("'%s'", cases[i]);
	}
}

static void a_pattern_has_a_longest_length(void **state)
{
	AUTO(glob_free) struct glob *g = NULL;
	char text[GLOB_BYTES_MAX + 1];
	struct err e = { 0 };

	(void)state;
	memset(text, '*', sizeof(text));
	for (size_t i = 1; i < sizeof(text); i += 2)
		text[i] = '?';
	g = glob_new((struct str){ text, GLOB_BYTES_MAX }, &e);
	assert_non_null(g);
	assert_null(glob_new((struct str){ text, sizeof(text) }, &e));
	assert_null(glob_new((struct str){ "a\0b", 3 }, &e));
}

static void only_a_slash_makes_it_a_path(void **state)
{
	static const struct {
		const char *pattern;
		bool want;
	} cases[] = { { "*.py", false }, { "**", false }, { "**/*.py", true }, { "{a,b/c}", true } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		AUTO(glob_free) struct glob *g = glob_new(str_of(cases[i].pattern), &e);

		assert_non_null(g);
		assert_int_equal(glob_has_slash(g), cases[i].want);
	}
}

/* O4: what makes a matcher that goes back take for ever. */
static void matching_takes_linear_time(void **state)
{
	char name[256];
	struct err e = { 0 };
	AUTO(glob_free) struct glob *stars = glob_new(STR("a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"), &e);
	AUTO(glob_free) struct glob *braces =
		glob_new(STR("{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}{a,aa}b"), &e);
	uint64_t began = clock_mono_ms();

	(void)state;
	assert_true(stars && braces);
	memset(name, 'a', sizeof(name));
	for (int i = 0; i < 100; i++) {
		assert_false(glob_matches(stars, (struct str){ name, 255 }));
		assert_false(glob_matches(braces, (struct str){ name, 255 }));
	}
	assert_true(clock_mono_ms() - began < 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_match_what_they_say),
		cmocka_unit_test(patterns_that_are_none_are_refused),
		cmocka_unit_test(a_pattern_has_a_longest_length),
		cmocka_unit_test(only_a_slash_makes_it_a_path),
		cmocka_unit_test(matching_takes_linear_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
