// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/own.h"

#include "base/banned.h"

static void the_monotonic_clock_does_not_go_back(void **state)
{
	uint64_t before = clock_mono_us(), before_ms = clock_mono_ms();

	(void)state;
	assert_true(before > 0);
	for (int i = 0; i < 1000; i++) {
		uint64_t t = clock_mono_us();

		assert_true(t >= before);
		before = t;
	}
	assert_true(clock_mono_ms() - before_ms < 60000);
}

static void the_wall_clock_tells_a_time_of_this_century(void **state)
{
	struct timespec t = clock_wall();
	int64_t us = clock_wall_us();

	(void)state;
	assert_true(t.tv_sec > 1600000000 && t.tv_sec < INT64_C(4102444800));
	assert_true(us >= timespec_to_us(t) && us - timespec_to_us(t) < 60 * US_PER_S);
}

static void microseconds_convert_on_both_sides_of_1970(void **state)
{
	static const struct {
		int64_t us, s;
		long ns;
	} cases[] = {
		{ 0, 0, 0 },
		{ 1, 0, 1000 },
		{ 1500000, 1, 500000000 },
		{ -1, -1, 999999000 },
		{ -1000000, -1, 0 },
		{ -1000001, -2, 999999000 },
		{ INT64_C(253402300799999999), 253402300799, 999999000 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct timespec t = timespec_from_us(cases[i].us);

		assert_true(t.tv_sec == cases[i].s && t.tv_nsec == cases[i].ns);
		assert_true(timespec_to_us(t) == cases[i].us);
	}
	assert_true(timespec_to_us((struct timespec){ .tv_sec = 1, .tv_nsec = 1999 }) == 1000001);
}

static void far_times_saturate(void **state)
{
	(void)state;
	assert_true(timespec_to_us((struct timespec){ .tv_sec = INT64_MAX }) == INT64_MAX);
	assert_true(timespec_to_us((struct timespec){ .tv_sec = INT64_MIN }) == INT64_MIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_monotonic_clock_does_not_go_back),
		cmocka_unit_test(the_wall_clock_tells_a_time_of_this_century),
		cmocka_unit_test(microseconds_convert_on_both_sides_of_1970),
		cmocka_unit_test(far_times_saturate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
