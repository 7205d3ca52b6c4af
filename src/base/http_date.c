// SPDX-License-Identifier: Apache-2.0
#include "base/http_date.h"

#include <stdio.h>

#include "base/civil.h"
#include "base/own.h"

#include "base/banned.h"

static const char weekdays[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };

/* Index of the three letters at P in NAMES (their case matters in HTTP dates), or -1. */
static int name_index(const char names[][4], size_t n, const char *p)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(names[i], p, 3) == 0)
			return (int)i;
	return -1;
}

static int number(struct str text, size_t at, size_t n)
{
	uint64_t v;

	return str_to_u64(str_first(str_skip(text, at), n), 0, 9999, &v) ? (int)v : -1;
}

bool http_date_parse(struct str text, int64_t *ret_s)
{
	static const char shape[] = "???, ?? ??? ???? ??:??:?? GMT";
	struct civil c;
	int64_t s;

	if (text.n != HTTP_DATE_LEN)
		return false;
	for (size_t i = 0; i < text.n; i++)
		if (shape[i] != '?' && shape[i] != text.p[i])
			return false;
	c = (struct civil){
		.year = number(text, 12, 4),
		.month = name_index(months, ARRAY_LEN(months), text.p + 8) + 1,
		.day = number(text, 5, 2),
		.hour = number(text, 17, 2),
		.minute = number(text, 20, 2),
		.second = number(text, 23, 2),
	};
	if (c.second == 60)
		c.second = 59;
	if (!civil_valid(&c))
		return false;
	s = civil_to_s(&c);
	if (civil_from_s(s).weekday != name_index(weekdays, ARRAY_LEN(weekdays), text.p))
		return false;
	*ret_s = s;
	return true;
}

void http_date_format(int64_t s, char out[HTTP_DATE_LEN + 1])
{
	struct civil c = civil_from_s(s);

	(void)snprintf(out, HTTP_DATE_LEN + 1, "%s, %02d %s %04d %02d:%02d:%02d GMT", weekdays[c.weekday], c.day,
		       months[c.month - 1], c.year, c.hour, c.minute, c.second);
}
