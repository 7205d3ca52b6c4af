// SPDX-License-Identifier: Apache-2.0
#include "base/civil.h"

#include "base/own.h"

#include "base/banned.h"

#define DAY_S 86400
#define DAYS_400Y 146097 /* the calendar repeats after so many days */
#define DAYS_100Y 36524
#define DAYS_4Y 1461
#define DAYS_TO_1970 719162 /* from 0001-01-01 */

static bool is_leap(int year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static const short month_start[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 };

/* Days of the year before the first of MONTH (1 to 13). */
static int days_before(int year, int month)
{
	return month_start[month - 1] + (month > 2 && is_leap(year));
}

int civil_month_days(int year, int month)
{
	return days_before(year, month + 1) - days_before(year, month);
}

bool civil_valid(const struct civil *c)
{
	return c->year >= 1 && c->year <= 9999 && c->month >= 1 && c->month <= 12 && c->day >= 1 &&
	       c->day <= civil_month_days(c->year, c->month) && c->hour >= 0 && c->hour <= 23 && c->minute >= 0 &&
	       c->minute <= 59 && c->second >= 0 && c->second <= 59;
}

int64_t civil_to_s(const struct civil *c)
{
	int before = c->year - 1;
	int64_t days = INT64_C(365) * before + before / 4 - before / 100 + before / 400;

	days += days_before(c->year, c->month) + c->day - 1 - DAYS_TO_1970;
	return days * DAY_S + c->hour * INT64_C(3600) + c->minute * INT64_C(60) + c->second;
}

/* The year that holds the day DAYS after 0001-01-01; *days becomes the day within it. */
static int year_of(int *days)
{
	int year = 1 + *days / DAYS_400Y * 400;
	int n;

	*days %= DAYS_400Y;
	n = MIN(*days / DAYS_100Y, 3); /* the fourth century and the fourth year are a day longer */
	year += n * 100;
	*days -= n * DAYS_100Y;
	year += *days / DAYS_4Y * 4;
	*days %= DAYS_4Y;
	n = MIN(*days / 365, 3);
	*days -= n * 365;
	return year + n;
}

struct civil civil_from_s(int64_t s)
{
	int64_t since = MIN(MAX(s, CIVIL_MIN_S), CIVIL_MAX_S) - CIVIL_MIN_S;
	int days = (int)(since / DAY_S), rest = (int)(since % DAY_S);
	struct civil c = {
		.month = 1,
		.weekday = (days + 1) % 7, /* 0001-01-01 was a Monday */
		.hour = rest / 3600,
		.minute = rest / 60 % 60,
		.second = rest % 60,
	};

	c.year = year_of(&days);
	while (days >= days_before(c.year, c.month + 1))
		c.month++;
	c.day = days - days_before(c.year, c.month) + 1;
	return c;
}
