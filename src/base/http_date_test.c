// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/http_date.h"
#include "base/own.h"

#include "base/banned.h"

static void dates_are_read_and_written(void **state)
{
	static const struct {
		const char *text;
		int64_t s;
	} cases[] = {
		{ "Sun, 06 Nov 1994 08:49:37 GMT", 784111777 },
		{ "Thu, 01 Jan 1970 00:00:00 GMT", 0 },
		{ "Wed, 31 Dec 1969 23:59:59 GMT", -1 },
		{ "Thu, 29 Feb 2024 12:00:00 GMT", 1709208000 },
		{ "Mon, 01 Jan 0001 00:00:00 GMT", INT64_C(-62135596800) },
		{ "Fri, 31 Dec 9999 23:59:59 GMT", INT64_C(253402300799) },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[HTTP_DATE_LEN + 1];
		int64_t s = 42;

		assert_true(http_date_parse(str_of(cases[i].text), &s));
		assert_true(s == cases[i].s);
		http_date_format(s, out);
		assert_string_equal(out, cases[i].text);
	}
}

static void a_leap_second_is_the_second_before(void **state)
{
	int64_t s = 0;

	(void)state;
	assert_true(http_date_parse(STR("Sat, 31 Dec 2016 23:59:60 GMT"), &s));
	assert_int_equal(s, 1483228799);
}

static void other_texts_are_not_dates(void **state)
{
	static const char *const cases[] = {
		"",
		"Sunday, 06-Nov-94 08:49:37 GMT",
		"Sun Nov  6 08:49:37 1994",
		"Mon, 06 Nov 1994 08:49:37 GMT", /* it was a Sunday */
		"Sun, 06 Nov 1994 08:49:37 UTC",
		"Sun, 06 nov 1994 08:49:37 GMT",
		"sun, 06 Nov 1994 08:49:37 GMT",
		"Sun, 6  Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 24:49:37 GMT",
		"Sun, 06 Nov 1994 08:60:37 GMT",
		"Sun, 06 Nov 1994 08:49:61 GMT",
		"Wed, 30 Feb 1994 08:49:37 GMT",
		"Sun, 06 Nov 0000 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:-7 GMT",
		"Sun, 06 Nov 1994 08:49:37 GMT ",
		"Sun, 06 Nov 1994  8:49:37 GMT",
		"Sun; 06 Nov 1994 08:49:37 GMT",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t s = 42;

		assert_false(http_date_parse(str_of(cases[i]), &s));
		assert_int_equal(s, 42);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dates_are_read_and_written),
		cmocka_unit_test(a_leap_second_is_the_second_before),
		cmocka_unit_test(other_texts_are_not_dates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
