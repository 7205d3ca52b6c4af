// SPDX-License-Identifier: Apache-2.0
#include "base/escape.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

static void text_is_shown_on_one_safe_line(void **state)
{
	static const struct {
		struct str in;
		const char *want;
	} cases[] = {
		{ STR(""), "" },
		{ { 0 }, "" },
		{ STR("plain 'text'"), "plain 'text'" },
		{ STR("a\nb\rc\td"), "a\\nb\\rc\\td" },
		{ STR("\"\\"), "\\\"\\\\" },
		{ STR("\0\x1b[31m\x7f"), "\\u0000\\u001b[31m\\u007f" },
		{ STR("\xc3\xa9\xf0\x9f\x98\x80"), "\xc3\xa9\xf0\x9f\x98\x80" },
		{ STR("\xc2\x9b|\xe2\x80\xae|\xe2\x81\xa6|\xe2\x80\xa8|\xef\xbb\xbf|\xd8\x9c|\xe2\x80\x8f"),
		  "\\u009b|\\u202e|\\u2066|\\u2028|\\ufeff|\\u061c|\\u200f" },
		{ STR("\xff\xc3"), "\\xff\\xc3" },
		{ STR("\xed\xa0\x80"), "\\xed\\xa0\\x80" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_string_equal(SHOWN(cases[i].in), cases[i].want);
}

static void two_texts_can_be_shown_at_once(void **state)
{
	const char *a = SHOWN(STR("a")), *b = SHOWN(STR("b"));

	(void)state;
	assert_string_equal(a, "a");
	assert_string_equal(b, "b");
}

/* Every length up to the maximum in plain characters, each followed by one that needs more room than is left. */
static void long_text_is_cut_between_characters(void **state)
{
	static const struct str last[] = { STR("x"), STR("\xc3\xa9"), STR("\xf0\x9f\x98\x80"), STR("\x1b"), STR("\xff") };
	static const size_t width[] = { 1, 2, 4, 6, 4 };

	(void)state;
	for (size_t n = 0; n <= SHOWN_MAX; n++) {
		for (size_t i = 0; i < ARRAY_LEN(last); i++) {
			char text[SHOWN_MAX + 4];
			const char *shown;

			memset(text, '-', n);
			memcpy(text + n, last[i].p, last[i].n);
			shown = SHOWN(((struct str){ text, n + last[i].n }));
			assert_memory_equal(shown, text, n);
			assert_int_equal(strlen(shown), n + width[i] <= SHOWN_MAX ? n + width[i] : n + 3);
			assert_int_equal(str_ends(str_of(shown), STR("...")), n + width[i] > SHOWN_MAX);
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_shown_on_one_safe_line),
		cmocka_unit_test(two_texts_can_be_shown_at_once),
		cmocka_unit_test(long_text_is_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
