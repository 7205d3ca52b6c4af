// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/civil.h"
#include "base/own.h"

#include "base/banned.h"

static void known_days_have_their_number(void **state)
{
	static const struct {
		int year, month, day, weekday;
		int64_t s;
	} cases[] = {
		{ 1, 1, 1, 1, CIVIL_MIN_S },	   { 1970, 1, 1, 4, 0 },	    { 1969, 12, 31, 3, -86400 },
		{ 2000, 2, 29, 2, 951782400 },	   { 2000, 3, 1, 3, 951868800 },    { 1900, 3, 1, 4, -2203891200 },
		{ 2100, 2, 28, 0, 4107456000 },	   { 2038, 1, 19, 2, 2147472000 },  { 400, 12, 31, 0, -49512902400 },
		{ 9999, 12, 31, 5, 253402214400 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct civil c = { .year = cases[i].year, .month = cases[i].month, .day = cases[i].day }, back;

		assert_true(civil_to_s(&c) == cases[i].s);
		back = civil_from_s(cases[i].s);
		assert_int_equal(back.year, c.year);
		assert_int_equal(back.month, c.month);
		assert_int_equal(back.day, c.day);
		assert_int_equal(back.weekday, cases[i].weekday);
	}
}

static void every_day_of_ten_thousand_years_comes_back(void **state)
{
	int weekday = 1;
	int64_t s = CIVIL_MIN_S;
	struct civil c = { .year = 1, .month = 1, .day = 1, .hour = 23, .minute = 59, .second = 58 };

	(void)state;
	for (; c.year <= 9999; s += 86400, weekday = (weekday + 1) % 7) {
		struct civil back = civil_from_s(s + 86398);

		if (civil_to_s(&c) != s + 86398 || back.year != c.year || back.month != c.month || back.day != c.day ||
		    back.weekday != weekday || back.hour != 23 || back.minute != 59 || back.second != 58)
			fail_msg("%04d-%02d-%02d", c.year, c.month, c.day);
		if (c.day++ == civil_month_days(c.year, c.month)) {
			c.day = 1;
			c.year += c.month == 12;
			c.month = c.month % 12 + 1;
		}
	}
	assert_true(s == CIVIL_MAX_S + 1);
}

static void february_is_long_in_leap_years(void **state)
{
	(void)state;
	assert_int_equal(civil_month_days(2024, 2), 29);
	assert_int_equal(civil_month_days(2023, 2), 28);
	assert_int_equal(civil_month_days(1900, 2), 28);
	assert_int_equal(civil_month_days(2000, 2), 29);
	assert_int_equal(civil_month_days(2023, 12), 31);
	assert_int_equal(civil_month_days(2023, 4), 30);
}

static void fields_out_of_range_are_not_valid(void **state)
{
	static const struct civil good = { 2024, 2, 29, 23, 59, 59, 0 };
	static const struct civil bad[] = {
		{ 0, 1, 1, 0, 0, 0, 0 },     { 10000, 1, 1, 0, 0, 0, 0 }, { 2024, 0, 1, 0, 0, 0, 0 },
		{ 2024, 13, 1, 0, 0, 0, 0 }, { 2024, 1, 0, 0, 0, 0, 0 },  { 2024, 1, 32, 0, 0, 0, 0 },
		{ 2023, 2, 29, 0, 0, 0, 0 }, { 2024, 4, 31, 0, 0, 0, 0 }, { 2024, 1, 1, 24, 0, 0, 0 },
		{ 2024, 1, 1, -1, 0, 0, 0 }, { 2024, 1, 1, 0, 60, 0, 0 }, { 2024, 1, 1, 0, -1, 0, 0 },
		{ 2024, 1, 1, 0, 0, 60, 0 }, { 2024, 1, 1, 0, 0, -1, 0 },
	};

	(void)state;
	assert_true(civil_valid(&good));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(civil_valid(&bad[i]));
}

static void seconds_beyond_the_calendar_are_clamped(void **state)
{
	(void)state;
	assert_int_equal(civil_from_s(INT64_MIN).year, 1);
	assert_int_equal(civil_from_s(INT64_MAX).year, 9999);
	assert_int_equal(civil_from_s(INT64_MAX).second, 59);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_days_have_their_number),
		cmocka_unit_test(every_day_of_ten_thousand_years_comes_back),
		cmocka_unit_test(february_is_long_in_leap_years),
		cmocka_unit_test(fields_out_of_range_are_not_valid),
		cmocka_unit_test(seconds_beyond_the_calendar_are_clamped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
