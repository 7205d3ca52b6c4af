// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hex.h"

#include "base/banned.h"

static void bytes_become_lower_case_digits(void **state)
{
	static const unsigned char bytes[] = { 0x00, 0x09, 0xaf, 0xff };
	char out[9];

	(void)state;
	hex_encode(out, bytes, sizeof(bytes));
	assert_string_equal(out, "0009afff");
	hex_encode(out, bytes, 0);
	assert_string_equal(out, "");
}

static void digits_of_either_case_become_bytes(void **state)
{
	static const unsigned char want[] = { 0x00, 0x09, 0xaf, 0xff };
	unsigned char out[4];

	(void)state;
	assert_true(hex_decode(STR("0009aFFf"), out, sizeof(out)));
	assert_memory_equal(out, want, sizeof(want));
	assert_true(hex_decode(STR(""), out, 0));
}

static void other_texts_are_refused(void **state)
{
	unsigned char out[4];

	(void)state;
	assert_false(hex_decode(STR("0009aff"), out, 4));
	assert_false(hex_decode(STR("0009aff"), out, 3));
	assert_false(hex_decode(STR("0009afff00"), out, 4));
	assert_false(hex_decode(STR("0009af"), out, 4));
	assert_false(hex_decode(STR("0009afg0"), out, 4));
	assert_false(hex_decode(STR("0009af f"), out, 4));
	assert_false(hex_decode(STR("0x09afff"), out, 4));
	assert_false(hex_decode(STR("-009afff"), out, 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_become_lower_case_digits),
		cmocka_unit_test(digits_of_either_case_become_bytes),
		cmocka_unit_test(other_texts_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
