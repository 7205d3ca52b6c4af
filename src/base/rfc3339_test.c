// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "base/rfc3339.h"

#include "base/banned.h"

static void times_are_parsed(void **state)
{
	static const struct {
		const char *in;
		int64_t s;
		long ns;
	} cases[] = {
		{ "1970-01-01T00:00:00Z", 0, 0 },
		{ "1970-01-01t00:00:00z", 0, 0 },
		{ "2026-06-15T09:46:58.120431Z", 1781516818, 120431000 },
		{ "2026-06-15T09:46:58.1204317Z", 1781516818, 120431700 },
		{ "2026-06-15T11:46:58.120431+02:00", 1781516818, 120431000 },
		{ "2026-06-15T04:16:58-05:30", 1781516818, 0 },
		{ "1970-01-01T00:00:00-00:00", 0, 0 },
		{ "1970-01-01T23:59:00+23:59", 0, 0 },
		{ "1970-01-01T00:00:00.1Z", 0, 100000000 },
		{ "1970-01-01T00:00:00.000000001Z", 0, 1 },
		{ "1970-01-01T00:00:00.00000000199999Z", 0, 1 },
		{ "1969-12-31T23:59:59.5Z", -1, 500000000 },
		{ "2024-02-29T00:00:00Z", 1709164800, 0 },
		{ "0001-01-01T00:00:00Z", INT64_C(-62135596800), 0 },
		{ "9999-12-31T23:59:59.999999999Z", INT64_C(253402300799), 999999999 },
		{ "2016-12-31T23:59:60Z", 1483228799, 999999000 },
		{ "2016-12-31T23:59:60.7Z", 1483228799, 999999000 },
		{ "2017-01-01T01:59:60+02:00", 1483228799, 999999000 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct timespec t = { 0 };
		struct err e = { 0 };

		if (rfc3339_parse(str_of(cases[i].in), 0, &t, &e) < 0)
			fail_msg("%s", e.msg);
		assert_true(t.tv_sec == cases[i].s);
		assert_int_equal(t.tv_nsec, cases[i].ns);
	}
}

static void bad_times_are_refused_with_the_reason(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "", "no year of four digits" },
		{ "garbage", "no year of four digits" },
		{ "26-06-15T00:00:00Z", "no year of four digits" },
		{ "+2026-06-15T00:00:00Z", "no year of four digits" },
		{ "2026/06/15T00:00:00Z", "no '-' after the year" },
		{ "2026-6-15T00:00:00Z", "no month of two digits" },
		{ "2026-06.15T00:00:00Z", "no '-' after the month" },
		{ "2026-06-1", "no day of two digits" },
		{ "2026-06-15", "no 'T' after the date" },
		{ "2026-06-15 00:00:00Z", "no 'T' after the date" },
		{ "2026-06-15T0:00:00Z", "no hour of two digits" },
		{ "2026-06-15T00-00:00Z", "no ':' after the hour" },
		{ "2026-06-15T00:0", "no minute of two digits" },
		{ "2026-06-15T00:00Z", "no ':' after the minute" },
		{ "2026-06-15T00:00:Z", "no second of two digits" },
		{ "2026-06-15T00:00:00.Z", "no digits after '.'" },
		{ "2026-06-15T00:00:00,5Z", "bad time zone: not 'Z' and no offset such as '+02:00'" },
		{ "2026-06-15T00:00:00", "no time zone: end it with 'Z' or an offset such as '+02:00'" },
		{ "2026-06-15T00:00:00.123", "no time zone: end it with 'Z' or an offset such as '+02:00'" },
		{ "2026-06-15T00:00:00+2", "bad time zone: no offset such as '+02:00'" },
		{ "2026-06-15T00:00:00+0200", "bad time zone: no offset such as '+02:00'" },
		{ "2026-06-15T00:00:00+02", "bad time zone: no offset such as '+02:00'" },
		{ "2026-06-15T00:00:00+24:00", "bad time zone: offset out of range" },
		{ "2026-06-15T00:00:00+00:60", "bad time zone: offset out of range" },
		{ "2026-06-15T00:00:00ZZ", "text after the time zone" },
		{ "2026-06-15T00:00:00Z ", "text after the time zone" },
		{ "2026-02-29T00:00:00Z", "no such date or time" },
		{ "2026-13-01T00:00:00Z", "no such date or time" },
		{ "2026-06-15T24:00:00Z", "no such date or time" },
		{ "2026-06-15T00:60:00Z", "no such date or time" },
		{ "2026-06-15T00:00:61Z", "no such date or time" },
		{ "0000-01-01T00:00:00Z", "no such date or time" },
		{ "0001-01-01T00:00:00+00:01", "outside the years 0001 to 9999" },
		{ "9999-12-31T23:59:59-00:01", "outside the years 0001 to 9999" },
		{ "2026-06-15T23:59:60Z", "no leap second at this time" },
		{ "2016-12-31T22:59:60Z", "no leap second at this time" },
		{ "2016-12-31T23:59:60+01:00", "no leap second at this time" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct timespec t = { .tv_sec = 42 };
		struct err e = { 0 };

		assert_int_equal(rfc3339_parse(str_of(cases[i].in), 0, &t, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		assert_string_equal(e.msg + strlen("bad time '': ") + strlen(cases[i].in), cases[i].want);
		assert_int_equal(t.tv_sec, 42);
	}
}

static void a_space_counts_as_t_where_it_is_allowed(void **state)
{
	struct timespec t = { .tv_sec = 42 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(rfc3339_parse(STR("1970-01-01 00:00:00Z"), RFC3339_SPACE, &t, &e), 0);
	assert_int_equal(t.tv_sec, 0);
	assert_int_equal(rfc3339_parse(STR("1970-01-01T00:00:01Z"), RFC3339_SPACE, &t, &e), 0);
	assert_int_equal(t.tv_sec, 1);
	assert_int_equal(rfc3339_parse(STR("1970-01-01  00:00:00Z"), RFC3339_SPACE, &t, &e), -1);
}

static void lenient_forms_are_taken_where_they_are_allowed(void **state)
{
	static const struct {
		const char *in;
		unsigned flags; /* all that it takes; without any one of them it is refused */
		int64_t s;
		long ns;
	} cases[] = {
		{ "2026-01-01T10:15+08:00", RFC3339_NO_SECONDS, 1767233700, 0 },
		{ "2026-01-01T02:15Z", RFC3339_NO_SECONDS, 1767233700, 0 },
		{ "2026-01-01T02:15:00", RFC3339_NAIVE_UTC, 1767233700, 0 },
		{ "2026-01-01T02:15:00.25", RFC3339_NAIVE_UTC, 1767233700, 250000000 },
		{ "2026-01-01T02:15", RFC3339_NO_SECONDS | RFC3339_NAIVE_UTC, 1767233700, 0 },
		{ "2026-01-01 02:15", RFC3339_NO_SECONDS | RFC3339_NAIVE_UTC | RFC3339_SPACE, 1767233700, 0 },
		{ "2016-12-31T23:59:60", RFC3339_NAIVE_UTC, 1483228799, 999999000 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct timespec t = { 0 };
		struct err e = { 0 };

		if (rfc3339_parse(str_of(cases[i].in), cases[i].flags, &t, &e) < 0)
			fail_msg("%s", e.msg);
		assert_true(t.tv_sec == cases[i].s);
		assert_int_equal(t.tv_nsec, cases[i].ns);
		for (unsigned without = 1; without <= cases[i].flags; without <<= 1)
			if (cases[i].flags & without)
				assert_int_equal(rfc3339_parse(str_of(cases[i].in), cases[i].flags & ~without, &t, &e),
						 -1);
	}
}

static void lenient_is_not_careless(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "2026-01-01", "no 'T' after the date" },
		{ "2026-01-01T10", "no ':' after the hour" },
		{ "2026-01-01T10:1", "no minute of two digits" },
		{ "2026-01-01T10:15:", "no second of two digits" },
		{ "2026-01-01T10:15.5Z", "bad time zone: not 'Z' and no offset such as '+02:00'" },
		{ "2026-01-01T10:15x", "bad time zone: not 'Z' and no offset such as '+02:00'" },
		{ "2026-01-01T10:15:00+", "bad time zone: no offset such as '+02:00'" },
		{ "2026-01-01T24:00", "no such date or time" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct timespec t = { .tv_sec = 42 };
		struct err e = { 0 };

		assert_int_equal(rfc3339_parse(str_of(cases[i].in), RFC3339_NAIVE_UTC | RFC3339_NO_SECONDS, &t, &e), -1);
		assert_string_equal(e.msg + strlen("bad time '': ") + strlen(cases[i].in), cases[i].want);
		assert_int_equal(t.tv_sec, 42);
	}
}

static void endless_text_is_refused(void **state)
{
	char text[RFC3339_TEXT_MAX + 2];
	struct timespec t;
	struct err e = { 0 };

	(void)state;
	memset(text, '1', sizeof(text));
	memcpy(text, "1970-01-01T00:00:00.", 20);
	text[RFC3339_TEXT_MAX - 1] = 'Z';
	assert_int_equal(rfc3339_parse((struct str){ text, RFC3339_TEXT_MAX }, 0, &t, &e), 0);
	assert_int_equal(t.tv_nsec, 111111111);
	assert_int_equal(rfc3339_parse((struct str){ text, RFC3339_TEXT_MAX + 1 }, 0, &t, &e), -1);
	assert_string_equal(e.msg, "bad time: longer than 64 characters");
	assert_int_equal(rfc3339_parse((struct str){ 0 }, 0, &t, &e), -1);
}

static void times_are_written_in_three_precisions(void **state)
{
	static const struct {
		struct timespec t;
		const char *us, *ms, *ns;
	} cases[] = {
		{ { 0, 0 }, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00Z" },
		{ { 1781516818, 120431000 },
		  "2026-06-15T09:46:58.120431Z", "2026-06-15T09:46:58.120Z", "2026-06-15T09:46:58.120431Z" },
		{ { 1781516818, 500000000 },
		  "2026-06-15T09:46:58.500000Z", "2026-06-15T09:46:58.500Z", "2026-06-15T09:46:58.5Z" },
		{ { -1, 999999999 },
		  "1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999999999Z" },
		{ { 0, 999 }, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000000999Z" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[RFC3339_SIZE];

		assert_int_equal(rfc3339_format(cases[i].t, out), strlen(cases[i].us));
		assert_string_equal(out, cases[i].us);
		assert_int_equal(rfc3339_format_ms(cases[i].t, out), strlen(cases[i].ms));
		assert_string_equal(out, cases[i].ms);
		assert_int_equal(rfc3339_format_ns(cases[i].t, out), strlen(cases[i].ns));
		assert_string_equal(out, cases[i].ns);
	}
}

static void impossible_times_are_brought_into_range(void **state)
{
	char out[RFC3339_SIZE];

	(void)state;
	(void)rfc3339_format_ns((struct timespec){ INT64_MAX, 5 }, out);
	assert_string_equal(out, "9999-12-31T23:59:59.999999999Z");
	(void)rfc3339_format((struct timespec){ INT64_MIN, 5 }, out);
	assert_string_equal(out, "0001-01-01T00:00:00Z");
	(void)rfc3339_format_ns((struct timespec){ 0, NS_PER_S }, out);
	assert_string_equal(out, "1970-01-01T00:00:00.999999999Z");
	(void)rfc3339_format_ms((struct timespec){ 0, -1 }, out);
	assert_string_equal(out, "1970-01-01T00:00:00.000Z");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_parsed),
		cmocka_unit_test(bad_times_are_refused_with_the_reason),
		cmocka_unit_test(a_space_counts_as_t_where_it_is_allowed),
		cmocka_unit_test(lenient_forms_are_taken_where_they_are_allowed),
		cmocka_unit_test(lenient_is_not_careless),
		cmocka_unit_test(endless_text_is_refused),
		cmocka_unit_test(times_are_written_in_three_precisions),
		cmocka_unit_test(impossible_times_are_brought_into_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
