// SPDX-License-Identifier: Apache-2.0
#include "net/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"

#include "base/banned.h"

#define BAD "\xef\xbf\xbd"

static void the_valid_front_is_measured(void **state)
{
	static const struct {
		const char *in;
		size_t want;
	} cases[] = {
		{ "", 0 },
		{ "abc", 3 },
		{ "0123456789abcdefg", 17 },
		{ "01234567\xff", 8 },
		{ "0123456\xff" "9", 7 },
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z", 10 },
		{ "a\xe2\x82", 1 },
		{ "a\xc0\x80", 1 },
		{ "a\xed\xa0\x80", 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(utf8_valid_prefix(str_of(cases[i].in)), cases[i].want);
}

/* By brute force: S is cut exactly if some continuation makes it one well-formed sequence. */
static bool can_be_completed(struct str s)
{
	char whole[4];
	uint32_t rune;

	memcpy(whole, s.p, s.n);
	for (unsigned c = 0x80; c <= 0xbf; c++) {
		for (size_t i = s.n; i < 4; i++)
			whole[i] = (char)(i == s.n ? c : 0x80);
		for (size_t n = s.n + 1; n <= 4; n++)
			if (utf8_next((struct str){ whole, n }, &rune) == n)
				return true;
	}
	return false;
}

static void every_front_of_a_sequence_is_known(void **state)
{
	(void)state;
	for (unsigned a = 0; a < 256; a++) {
		char s[3] = { (char)a };

		assert_int_equal(utf8_is_cut((struct str){ s, 1 }), can_be_completed((struct str){ s, 1 }));
		for (unsigned b = 0; b < 256; b++) {
			s[1] = (char)b;
			assert_int_equal(utf8_is_cut((struct str){ s, 2 }), can_be_completed((struct str){ s, 2 }));
			s[2] = (char)0xbf;
			assert_int_equal(utf8_is_cut((struct str){ s, 3 }), can_be_completed((struct str){ s, 3 }));
		}
	}
	assert_false(utf8_is_cut(STR("")));
	assert_false(utf8_is_cut(STR("\xf0\x9f\x98\x80")));
}

static void ill_formed_bytes_become_one_replacement_each(void **state)
{
	static const struct {
		struct str in;
		const char *want;
	} cases[] = {
		{ { "", 0 }, "" },
		{ { "plain text\n", 11 }, "plain text\n" },
		{ { "\xf0\x9f\x98\x80", 4 }, "\xf0\x9f\x98\x80" },
		{ { "\xff\xfe", 2 }, BAD BAD },
		{ { "a\xe2\x82" "b", 4 }, "a" BAD BAD "b" },
		{ { "\xe2\x82\xe2\x82\xac", 5 }, BAD BAD "\xe2\x82\xac" },
		{ { "\xf0\x9f\x98", 3 }, BAD BAD BAD },
		{ { "\xf0\x9f\xc3\xa9", 4 }, BAD BAD "\xc3\xa9" },
		{ { "\xed\xa0\x80", 3 }, BAD BAD BAD },
		{ { "\xc0\xaf", 2 }, BAD BAD },
		{ { "\xf0\xf0\x9f\x98\x80", 5 }, BAD "\xf0\x9f\x98\x80" },
		{ { "\x80" "a", 2 }, BAD "a" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str in = cases[i].in;

		/* Cut in two everywhere, then byte by byte. */
		for (size_t cut = 0; cut <= in.n + 1; cut++) {
			AUTO(buf_done) struct buf b = BUF_INIT(100);
			struct text_sanitizer t = { 0 };

			if (cut <= in.n) {
				assert_true(text_sanitize(&t, str_first(in, cut), &b));
				assert_true(text_sanitize(&t, str_skip(in, cut), &b));
			}
			for (size_t k = 0; cut > in.n && k < in.n; k++)
				assert_true(text_sanitize(&t, (struct str){ in.p + k, 1 }, &b));
			assert_true(text_sanitize_end(&t, &b));
			assert_string_equal(buf_z(&b), cases[i].want);
			assert_int_equal(t.n, 0);
		}
	}
}

static void a_full_buffer_is_reported(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4);
	struct text_sanitizer t = { 0 };

	(void)state;
	assert_true(text_sanitize(&t, STR("abc\xe2"), &b));
	assert_int_equal(t.n, 1);
	assert_false(text_sanitize_end(&t, &b));
	assert_false(text_sanitize(&t, STR("x"), &b));
	assert_string_equal(buf_z(&b), "abc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_valid_front_is_measured),
		cmocka_unit_test(every_front_of_a_sequence_is_known),
		cmocka_unit_test(ill_formed_bytes_become_one_replacement_each),
		cmocka_unit_test(a_full_buffer_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
