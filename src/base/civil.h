// SPDX-License-Identifier: Apache-2.0
/* base/civil.h - the proleptic Gregorian calendar in UTC, for the years 0001 to 9999. Pure arithmetic:
 * no time zone files, no locale. base/rfc3339.h and base/http_date.h are its users. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define CIVIL_MIN_S INT64_C(-62135596800) /* 0001-01-01T00:00:00Z, in seconds since 1970 */
#define CIVIL_MAX_S INT64_C(253402300799) /* 9999-12-31T23:59:59Z */

struct civil {
	int year, month, day; /* 1 to 9999, 1 to 12, 1 to 31 */
	int hour, minute, second;
	int weekday; /* 0 is Sunday; set by civil_from_s(), not looked at by the others */
};

int civil_month_days(int year, int month);    /* 28 to 31 */
bool civil_valid(const struct civil *c);      /* every field in range; the second up to 59 */
int64_t civil_to_s(const struct civil *c);    /* a valid one, to seconds since 1970 */
/* S beyond CIVIL_MIN_S to CIVIL_MAX_S is taken as the nearer end */
struct civil civil_from_s(int64_t s);
