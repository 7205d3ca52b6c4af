// SPDX-License-Identifier: Apache-2.0
#include "base/rfc3339.h"

#include "base/civil.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

/* A cursor over the text; the first thing that goes wrong is kept as `problem`. */
struct cursor {
	struct str in;
	const char *problem;
};

static void expect(struct cursor *c, char want, char or_this, const char *problem)
{
	if (c->in.n > 0 && (c->in.p[0] == want || c->in.p[0] == or_this))
		c->in = str_skip(c->in, 1);
	else if (!c->problem)
		c->problem = problem;
}

static int digits(struct cursor *c, size_t n, const char *problem)
{
	uint64_t v = 0;

	if (c->in.n >= n && str_to_u64(str_first(c->in, n), 0, 9999, &v))
		c->in = str_skip(c->in, n);
	else if (!c->problem)
		c->problem = problem;
	return (int)v;
}

static bool is_digit(struct str s)
{
	return s.n > 0 && s.p[0] >= '0' && s.p[0] <= '9';
}

/* ".123" as nanoseconds; 0 when there is no fraction. */
static long fraction(struct cursor *c)
{
	long ns = 0, unit = NS_PER_S / 10;

	if (c->in.n == 0 || c->in.p[0] != '.')
		return 0;
	c->in = str_skip(c->in, 1);
	if (!is_digit(c->in) && !c->problem)
		c->problem = "no digits after '.'";
	for (; is_digit(c->in); c->in = str_skip(c->in, 1), unit /= 10)
		ns += (c->in.p[0] - '0') * unit;
	return ns;
}

/* Seconds east of UTC. */
static int offset(struct cursor *c, unsigned flags)
{
	int sign, hours, minutes;

	if (c->in.n == 0 && flags & RFC3339_NAIVE_UTC)
		return 0;
	if (c->in.n == 0 && !c->problem)
		c->problem = "no time zone: end it with 'Z' or an offset such as '+02:00'";
	if (c->in.n > 0 && (c->in.p[0] == 'Z' || c->in.p[0] == 'z')) {
		c->in = str_skip(c->in, 1);
		return 0;
	}
	sign = c->in.n > 0 && c->in.p[0] == '-' ? -1 : 1;
	expect(c, '+', '-', "bad time zone: not 'Z' and no offset such as '+02:00'");
	hours = digits(c, 2, "bad time zone: no offset such as '+02:00'");
	expect(c, ':', ':', "bad time zone: no offset such as '+02:00'");
	minutes = digits(c, 2, "bad time zone: no offset such as '+02:00'");
	if ((hours > 23 || minutes > 59) && !c->problem)
		c->problem = "bad time zone: offset out of range";
	return sign * (hours * 3600 + minutes * 60);
}

/* Everything before the offset. */
static void date_time(struct cursor *c, unsigned flags, struct civil *t, long *ret_ns)
{
	t->year = digits(c, 4, "no year of four digits");
	expect(c, '-', '-', "no '-' after the year");
	t->month = digits(c, 2, "no month of two digits");
	expect(c, '-', '-', "no '-' after the month");
	t->day = digits(c, 2, "no day of two digits");
	if (flags & RFC3339_SPACE && c->in.n > 0 && c->in.p[0] == ' ')
		expect(c, ' ', ' ', NULL);
	else
		expect(c, 'T', 't', "no 'T' after the date");
	t->hour = digits(c, 2, "no hour of two digits");
	expect(c, ':', ':', "no ':' after the hour");
	t->minute = digits(c, 2, "no minute of two digits");
	if (flags & RFC3339_NO_SECONDS && (c->in.n == 0 || c->in.p[0] != ':'))
		return;
	expect(c, ':', ':', "no ':' after the minute");
	t->second = digits(c, 2, "no second of two digits");
	*ret_ns = fraction(c);
}

static bool is_month_end(int64_t s)
{
	struct civil c = civil_from_s(s);

	return c.hour == 23 && c.minute == 59 && c.day == civil_month_days(c.year, c.month);
}

static const char *parse(struct cursor *c, unsigned flags, struct timespec *ret)
{
	struct civil t = { 0 };
	bool is_leap_second;
	long ns = 0;
	int64_t s;
	int east;

	date_time(c, flags, &t, &ns);
	east = offset(c, flags);
	if (c->problem)
		return c->problem;
	if (c->in.n > 0)
		return "text after the time zone";
	is_leap_second = t.second == 60;
	if (is_leap_second) {
		t.second = 59;
		ns = NS_PER_S - 1000;
	}
	if (!civil_valid(&t))
		return "no such date or time";
	s = civil_to_s(&t) - east;
	if (s < CIVIL_MIN_S || s > CIVIL_MAX_S)
		return "outside the years 0001 to 9999";
	if (is_leap_second && !is_month_end(s))
		return "no leap second at this time";
	*ret = (struct timespec){ .tv_sec = s, .tv_nsec = ns };
	return NULL;
}

int rfc3339_parse(struct str text, unsigned flags, struct timespec *ret, struct err *e)
{
	struct cursor c = { .in = text };
	const char *problem;

	if (text.n > RFC3339_TEXT_MAX)
		return err_set(e, ERR_INVALID, "bad time: longer than %d characters", RFC3339_TEXT_MAX);
	problem = parse(&c, flags, ret);
	if (problem)
		return err_set(e, ERR_INVALID, "bad time '%.*s': %s", STR_ARG(text), problem);
	return 0;
}

static char *put(char *out, int value, int width)
{
	for (int i = width - 1; i >= 0; i--, value /= 10)
		out[i] = (char)('0' + value % 10);
	return out + width;
}

/* Times of files come from file systems that a guest may have made: anything is brought into range. */
static struct timespec clamp(struct timespec t)
{
	if (t.tv_sec < CIVIL_MIN_S)
		return (struct timespec){ .tv_sec = CIVIL_MIN_S };
	if (t.tv_sec > CIVIL_MAX_S)
		return (struct timespec){ .tv_sec = CIVIL_MAX_S, .tv_nsec = NS_PER_S - 1 };
	t.tv_nsec = MIN(MAX(t.tv_nsec, 0L), (long)NS_PER_S - 1);
	return t;
}

static size_t format(struct timespec t, int precision, char out[RFC3339_SIZE])
{
	struct civil c = civil_from_s(t.tv_sec);
	char *at = out;

	at = put(at, c.year, 4);
	*at++ = '-';
	at = put(at, c.month, 2);
	*at++ = '-';
	at = put(at, c.day, 2);
	*at++ = 'T';
	at = put(at, c.hour, 2);
	*at++ = ':';
	at = put(at, c.minute, 2);
	*at++ = ':';
	at = put(at, c.second, 2);
	if (precision > 0) {
		*at++ = '.';
		(void)put(at, (int)t.tv_nsec, 9);
		at += precision;
	}
	*at++ = 'Z';
	*at = '\0';
	return (size_t)(at - out);
}

size_t rfc3339_format(struct timespec t, char out[RFC3339_SIZE])
{
	t = clamp(t);
	return format(t, t.tv_nsec >= 1000 ? 6 : 0, out);
}

size_t rfc3339_format_ms(struct timespec t, char out[RFC3339_SIZE])
{
	return format(clamp(t), 3, out);
}

size_t rfc3339_format_ns(struct timespec t, char out[RFC3339_SIZE])
{
	int precision;

	t = clamp(t);
	precision = t.tv_nsec > 0 ? 9 : 0;
	for (long ns = t.tv_nsec; precision > 0 && ns % 10 == 0; ns /= 10)
		precision--;
	return format(t, precision, out);
}
