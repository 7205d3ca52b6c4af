// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/own.h"
#include "base/str.h"

#include "base/banned.h"

static void equality_looks_at_bytes_and_length(void **state)
{
	(void)state;
	assert_true(str_eq(STR("abc"), STR("abc")));
	assert_false(str_eq(STR("abc"), STR("abd")));
	assert_false(str_eq(STR("abc"), STR("ab")));
	assert_true(str_eq((struct str){ 0 }, STR("")));
	assert_true(str_eq(STR("a\0b"), STR("a\0b")));
	assert_false(str_eq(STR("a\0b"), STR("a\0c")));
	assert_true(str_is(STR("abc"), "abc"));
	assert_true(str_is((struct str){ 0 }, NULL));
}

static void case_is_ignored_for_ascii_letters_only(void **state)
{
	(void)state;
	assert_true(str_eq_nocase(STR("Content-Length"), STR("cONTENT-lENGTH")));
	assert_false(str_eq_nocase(STR("a"), STR("ab")));
	assert_false(str_eq_nocase(STR("@"), STR("`")));
	assert_false(str_eq_nocase(STR("["), STR("{")));
	assert_false(str_eq_nocase(STR("\xc4"), STR("\xe4")));
}

static void prefixes_and_suffixes_are_found(void **state)
{
	(void)state;
	assert_true(str_starts(STR("sandbox"), STR("sand")));
	assert_true(str_starts(STR("sandbox"), STR("")));
	assert_false(str_starts(STR("sand"), STR("sandbox")));
	assert_true(str_ends(STR("sandbox"), STR("box")));
	assert_false(str_ends(STR("sandbox"), STR("sand")));
	assert_false(str_ends(STR("x"), STR("box")));
}

static void trimming_takes_blanks_off_both_sides(void **state)
{
	(void)state;
	assert_true(str_is(str_trim(STR(" \t\r\n a b \n")), "a b"));
	assert_int_equal(str_trim(STR("  \t ")).n, 0);
	assert_int_equal(str_trim((struct str){ 0 }).n, 0);
	assert_true(str_is(str_trim(STR("\va")), "\va"));
}

static void skip_and_first_stop_at_the_end(void **state)
{
	(void)state;
	assert_true(str_is(str_skip(STR("abc"), 1), "bc"));
	assert_int_equal(str_skip(STR("abc"), 9).n, 0);
	assert_null(str_skip((struct str){ 0 }, 5).p);
	assert_true(str_is(str_first(STR("abc"), 2), "ab"));
	assert_true(str_is(str_first(STR("abc"), 9), "abc"));
}

static void cut_splits_at_the_first_separator(void **state)
{
	struct str head, tail;

	(void)state;
	assert_true(str_cut(STR("a=b=c"), '=', &head, &tail));
	assert_true(str_is(head, "a") && str_is(tail, "b=c"));
	assert_true(str_cut(STR("="), '=', &head, &tail));
	assert_int_equal(head.n + tail.n, 0);
	assert_false(str_cut(STR("abc"), '=', &head, &tail));
	assert_true(str_is(head, "abc") && tail.n == 0);
	assert_false(str_cut((struct str){ 0 }, '=', &head, &tail));
}

static void words_are_taken_one_by_one(void **state)
{
	struct str in = STR("  one\ttwo  "), word = { 0 };

	(void)state;
	assert_true(str_take_word(&in, &word, 8));
	assert_true(str_is(word, "one"));
	assert_true(str_take_word(&in, &word, 3));
	assert_true(str_is(word, "two"));
	assert_false(str_take_word(&in, &word, 8));
	assert_true(str_is(word, "two"));
}

static void a_word_that_is_too_long_is_refused_and_stays(void **state)
{
	struct str in = STR("abcd e"), word = { 0 };

	(void)state;
	assert_false(str_take_word(&in, &word, 3));
	assert_int_equal(in.n, 6);
	assert_null(word.p);
	assert_true(str_take_word(&in, &word, 4));
}

static void unsigned_numbers_are_parsed_whole_and_in_range(void **state)
{
	static const struct {
		const char *in;
		uint64_t min, max, want;
		bool ok;
	} cases[] = {
		{ "0", 0, 9, 0, true },
		{ "007", 0, 9, 7, true },
		{ "10", 0, 9, 0, false },
		{ "1", 2, 9, 0, false },
		{ "18446744073709551615", 0, UINT64_MAX, UINT64_MAX, true },
		{ "18446744073709551616", 0, UINT64_MAX, 0, false },
		{ "99999999999999999999999", 0, UINT64_MAX, 0, false },
		{ "", 0, 9, 0, false },
		{ "+1", 0, 9, 0, false },
		{ "-1", 0, 9, 0, false },
		{ " 1", 0, 9, 0, false },
		{ "1 ", 0, 9, 0, false },
		{ "1a", 0, 9, 0, false },
		{ "/", 0, 9, 0, false },
		{ ":", 0, 9, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t v = 42;

		assert_int_equal(str_to_u64(str_of(cases[i].in), cases[i].min, cases[i].max, &v), cases[i].ok);
		assert_int_equal(v, cases[i].ok ? cases[i].want : 42);
	}
}

static void signed_numbers_reach_both_ends(void **state)
{
	static const struct {
		const char *in;
		int64_t want;
		bool ok;
	} cases[] = {
		{ "-9223372036854775808", INT64_MIN, true },
		{ "-9223372036854775809", 0, false },
		{ "9223372036854775807", INT64_MAX, true },
		{ "9223372036854775808", 0, false },
		{ "-0", 0, true },
		{ "-", 0, false },
		{ "--1", 0, false },
		{ "+1", 0, false },
		{ "", 0, false },
		{ "-17", -17, true },
	};
	int64_t v = 42;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		v = 42;
		assert_int_equal(str_to_i64(str_of(cases[i].in), INT64_MIN, INT64_MAX, &v), cases[i].ok);
		assert_true(v == (cases[i].ok ? cases[i].want : 42));
	}
	assert_false(str_to_i64(STR("-5"), -4, 4, &v));
	assert_false(str_to_i64(STR("5"), -4, 4, &v));
}

static void hexadecimal_numbers_have_at_most_sixteen_digits(void **state)
{
	uint64_t v = 0;

	(void)state;
	assert_true(str_to_hex64(STR("fFfFfFfFfFfFfFfF"), &v));
	assert_true(v == UINT64_MAX);
	assert_true(str_to_hex64(STR("09aF"), &v));
	assert_int_equal(v, 0x9af);
	assert_false(str_to_hex64(STR(""), &v));
	assert_false(str_to_hex64(STR("10000000000000000"), &v));
	assert_false(str_to_hex64(STR("0x1"), &v));
	assert_false(str_to_hex64(STR("g"), &v));
	assert_false(str_to_hex64(STR("`"), &v));
	assert_int_equal(v, 0x9af);
}

static void every_character_is_a_hexadecimal_digit_or_not(void **state)
{
	static const char digits[] = "0123456789abcdef", capitals[] = "0123456789ABCDEF";

	(void)state;
	for (int c = 0; c < 256; c++) {
		const char *at = c ? strchr(digits, c) : NULL, *big = c ? strchr(capitals, c) : NULL;
		int want = at ? (int)(at - digits) : big ? (int)(big - capitals) : -1;

		assert_int_equal(hex_digit((char)c), want);
	}
}

static void well_formed_utf8_is_told_from_ill_formed(void **state)
{
	static const struct {
		const char *in;
		bool ok;
	} cases[] = {
		{ "", true },		     { "plain", true },		   { "\xc2\x80", true },
		{ "\xdf\xbf", true },	     { "\xe0\xa0\x80", true },	   { "\xed\x9f\xbf", true },
		{ "\xee\x80\x80", true },    { "\xef\xbf\xbf", true },	   { "\xf0\x90\x80\x80", true },
		{ "\xf4\x8f\xbf\xbf", true }, { "\x80", false },	   { "\xbf", false },
		{ "\xc0\x80", false },	     { "\xc1\xbf", false },	   { "\xe0\x9f\xbf", false },
		{ "\xed\xa0\x80", false },   { "\xed\xbf\xbf", false },	   { "\xf0\x8f\xbf\xbf", false },
		{ "\xf4\x90\x80\x80", false }, { "\xf5\x80\x80\x80", false }, { "\xff", false },
		{ "\xc2", false },	     { "\xe2\x82", false },	   { "\xf0\x9f\x98", false },
		{ "\xc2 ", false },	     { "\xe2\x82\xc0", false },	   { "ok\xff", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(utf8_valid(str_of(cases[i].in)), cases[i].ok);
}

static void every_rune_survives_encoding_and_decoding(void **state)
{
	(void)state;
	for (uint32_t rune = 0; rune <= 0x10ffff; rune += rune < 0x3000 ? 1 : 97) {
		char out[4];
		size_t n = utf8_put(out, rune);
		uint32_t back = 0;

		if (rune >= 0xd800 && rune <= 0xdfff) {
			assert_int_equal(utf8_next((struct str){ out, n }, &back), 0);
			continue;
		}
		assert_int_equal(utf8_next((struct str){ out, n }, &back), n);
		assert_int_equal(back, rune);
		assert_int_equal(utf8_next((struct str){ out, n - 1 }, &back), 0);
	}
}

static void secrets_compare_like_strings(void **state)
{
	(void)state;
	assert_true(secret_eq(STR("token"), STR("token")));
	assert_true(secret_eq(STR(""), STR("")));
	assert_false(secret_eq(STR("token"), STR("tokem")));
	assert_false(secret_eq(STR("aa"), STR("a")));
	assert_false(secret_eq(STR("a"), STR("aa")));
	assert_false(secret_eq(STR(""), STR("a")));
	assert_false(secret_eq(STR("a"), STR("")));
}

static void wiping_leaves_zeros(void **state)
{
	char key[8] = "secret";
	static const char zeros[8];

	(void)state;
	secret_wipe(key, sizeof(key));
	assert_memory_equal(key, zeros, sizeof(key));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equality_looks_at_bytes_and_length),
		cmocka_unit_test(case_is_ignored_for_ascii_letters_only),
		cmocka_unit_test(prefixes_and_suffixes_are_found),
		cmocka_unit_test(trimming_takes_blanks_off_both_sides),
		cmocka_unit_test(skip_and_first_stop_at_the_end),
		cmocka_unit_test(cut_splits_at_the_first_separator),
		cmocka_unit_test(words_are_taken_one_by_one),
		cmocka_unit_test(a_word_that_is_too_long_is_refused_and_stays),
		cmocka_unit_test(unsigned_numbers_are_parsed_whole_and_in_range),
		cmocka_unit_test(signed_numbers_reach_both_ends),
		cmocka_unit_test(hexadecimal_numbers_have_at_most_sixteen_digits),
		cmocka_unit_test(every_character_is_a_hexadecimal_digit_or_not),
		cmocka_unit_test(well_formed_utf8_is_told_from_ill_formed),
		cmocka_unit_test(every_rune_survives_encoding_and_decoding),
		cmocka_unit_test(secrets_compare_like_strings),
		cmocka_unit_test(wiping_leaves_zeros),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
