// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/own.h"
#include "base/siphash.h"

#include "base/banned.h"

/* Key 00 01 .. 0f and the message 00 01 .. of each length, as for the published vectors of SipHash. */
static const uint64_t seed[2] = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };

static void known_answers_are_given(void **state)
{
	char message[64];

	(void)state;
	for (size_t i = 0; i < sizeof(message); i++)
		message[i] = (char)i;
	assert_true(siphash(seed, (struct str){ 0 }) == 0xabac0158050fc4dc);
	assert_true(siphash(seed, (struct str){ message, 1 }) == 0xc9f49bf37d57ca93);
	assert_true(siphash(seed, (struct str){ message, 2 }) == 0x82cb9b024dc7d44d);
}

static void every_length_and_seed_hashes_differently(void **state)
{
	static const char zeros[32];
	static const uint64_t other[2] = { 0x0706050403020100, 0x0f0e0d0c0b0a0909 };

	(void)state;
	for (size_t i = 0; i < sizeof(zeros); i++) {
		assert_true(siphash(seed, (struct str){ zeros, i }) != siphash(other, (struct str){ zeros, i }));
		for (size_t j = 0; j < i; j++)
			assert_true(siphash(seed, (struct str){ zeros, i }) != siphash(seed, (struct str){ zeros, j }));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers_are_given),
		cmocka_unit_test(every_length_and_seed_hashes_differently),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
