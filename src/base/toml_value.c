// SPDX-License-Identifier: Apache-2.0
/* Booleans, numbers, dates and times. */
#include <math.h>

#include "base/civil.h"
#include "base/toml.h"
#include "base/toml_private.h"

#include "base/banned.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* ---- dates and times ----------------------------------------------------------------------------------- */

/* Takes exactly N digits from the front of S. */
static bool take_digits(struct str *s, size_t n, unsigned *ret)
{
	uint64_t v;

	if (s->n < n || !str_to_u64(str_first(*s, n), 0, 9999, &v))
		return false;
	*s = str_skip(*s, n);
	*ret = (unsigned)v;
	return true;
}

static bool take_char(struct str *s, char c)
{
	if (s->n == 0 || s->p[0] != c)
		return false;
	*s = str_skip(*s, 1);
	return true;
}

static bool take_date(struct str *s)
{
	unsigned year, month, day;

	if (!take_digits(s, 4, &year) || !take_char(s, '-') || !take_digits(s, 2, &month) || !take_char(s, '-') ||
	    !take_digits(s, 2, &day))
		return false;
	return month >= 1 && month <= 12 && day >= 1 &&
	       day <= (unsigned)civil_month_days((int)year, (int)month);
}

/* A leap second (60) is taken anywhere: which minutes have had one is not for a parser to know. */
static bool take_time(struct str *s)
{
	unsigned hour, minute, second, digit;

	if (!take_digits(s, 2, &hour) || !take_char(s, ':') || !take_digits(s, 2, &minute) || !take_char(s, ':') ||
	    !take_digits(s, 2, &second))
		return false;
	if (hour > 23 || minute > 59 || second > 60)
		return false;
	if (!take_char(s, '.'))
		return true;
	if (!take_digits(s, 1, &digit))
		return false;
	while (take_digits(s, 1, &digit))
		;
	return true;
}

/* Z or +hh:mm or -hh:mm. */
static bool take_offset(struct str *s)
{
	unsigned hour, minute;

	if (take_char(s, 'Z') || take_char(s, 'z'))
		return true;
	if (!take_char(s, '+') && !take_char(s, '-'))
		return false;
	if (!take_digits(s, 2, &hour) || !take_char(s, ':') || !take_digits(s, 2, &minute))
		return false;
	return hour <= 23 && minute <= 59;
}

static bool check_datetime(struct str s, enum json_type *ret)
{
	if (!take_date(&s))
		return false;
	*ret = JSON_DATE_LOCAL;
	if (s.n == 0)
		return true;
	if ((!take_char(&s, 'T') && !take_char(&s, 't') && !take_char(&s, ' ')) || !take_time(&s))
		return false;
	*ret = JSON_DATETIME_LOCAL;
	if (s.n == 0)
		return true;
	*ret = JSON_DATETIME;
	return take_offset(&s) && s.n == 0;
}

static int parse_datetime(struct toml *t, struct str word, struct json *v)
{
	if (!check_datetime(word, &v->type))
		return toml_fail(t, "not a valid date or date-time");
	v->s = word;
	return 0;
}

static int parse_time(struct toml *t, struct str word, struct json *v)
{
	struct str rest = word;

	if (!take_time(&rest) || rest.n > 0)
		return toml_fail(t, "not a valid time (hh:mm:ss)");
	v->type = JSON_TIME_LOCAL;
	v->s = word;
	return 0;
}

/* ---- numbers ------------------------------------------------------------------------------------------- */

/* Takes digits of BASE with single underscores between them, and writes them without. False when there is none,
 * or an underscore does not stand between two digits. */
static bool take_number(struct str *s, int base, char **out)
{
	bool was_digit = false;

	while (s->n > 0) {
		int d = hex_digit(s->p[0]);
		bool is_valid = d >= 0 && d < base;

		if (is_valid)
			*(*out)++ = s->p[0];
		else if (s->p[0] != '_')
			break;
		else if (!was_digit)
			return false;
		was_digit = is_valid;
		*s = str_skip(*s, 1);
	}
	return was_digit;
}

static int fail_number(struct toml *t, struct str word)
{
	if (!is_digit(word.p[0]) && word.p[0] != '+' && word.p[0] != '-' && word.p[0] != '.')
		return toml_fail(t, "not a valid value: a string needs quotes");
	return toml_fail(t, "not a valid number");
}

/* 0x, 0o and 0b: no sign. */
static int parse_prefixed(struct toml *t, struct str word, struct json *v)
{
	int base = word.p[1] == 'x' ? 16 : word.p[1] == 'o' ? 8 : 2;
	char digits[TOML_NUMBER_MAX], *out = digits;
	struct str rest = str_skip(word, 2);
	int64_t sum = 0;

	if (!take_number(&rest, base, &out) || rest.n > 0)
		return fail_number(t, word);
	for (const char *p = digits; p < out; p++)
		if (__builtin_mul_overflow(sum, base, &sum) || __builtin_add_overflow(sum, hex_digit(*p), &sum))
			return toml_fail(t, "integer out of range");
	v->type = JSON_INT;
	v->i = sum;
	return 0;
}

/* The part behind the integer part of a float: at least one of fraction and exponent. */
static bool take_float_tail(struct str *s, char **out)
{
	bool has_fraction = take_char(s, '.');

	if (has_fraction) {
		*(*out)++ = '.';
		if (!take_number(s, 10, out))
			return false;
	}
	if (!take_char(s, 'e') && !take_char(s, 'E'))
		return has_fraction;
	*(*out)++ = 'e';
	if (s->n > 0 && (s->p[0] == '+' || s->p[0] == '-')) {
		*(*out)++ = s->p[0];
		*s = str_skip(*s, 1);
	}
	return take_number(s, 10, out);
}

static int parse_decimal(struct toml *t, struct str word, struct json *v)
{
	char text[TOML_NUMBER_MAX + 1], *out = text, *first;
	struct str rest = word;

	if (take_char(&rest, '-'))
		*out++ = '-';
	else
		(void)take_char(&rest, '+');
	first = out;
	if (!take_number(&rest, 10, &out))
		return fail_number(t, word);
	if (*first == '0' && out - first > 1)
		return toml_fail(t, "number with a leading zero");
	if (rest.n == 0) {
		v->type = JSON_INT;
		if (!str_to_i64((struct str){ text, (size_t)(out - text) }, INT64_MIN, INT64_MAX, &v->i))
			return toml_fail(t, "integer out of range");
		return 0;
	}
	if (!take_float_tail(&rest, &out) || rest.n > 0)
		return fail_number(t, word);
	*out = '\0';
	v->type = JSON_REAL;
	v->d = strtod(text, NULL);
	return isinf(v->d) ? toml_fail(t, "float out of range") : 0;
}

/* ---- the choice ---------------------------------------------------------------------------------------- */

static bool parse_word(struct str word, struct json *v)
{
	struct str bare = word.n > 0 && (word.p[0] == '+' || word.p[0] == '-') ? str_skip(word, 1) : word;

	if (str_is(word, "true") || str_is(word, "false")) {
		v->type = JSON_BOOL;
		v->b = word.p[0] == 't';
		return true;
	}
	if (!str_is(bare, "inf") && !str_is(bare, "nan"))
		return false;
	v->type = JSON_REAL;
	v->d = bare.p[0] == 'i' ? (double)INFINITY : (double)NAN;
	if (word.p[0] == '-')
		v->d = -v->d;
	return true;
}

static bool is_word_char(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' || c == '.' ||
	       c == '_' || c == ':';
}

static bool looks_like_date(struct str word)
{
	return word.n > 4 && word.p[4] == '-' && is_digit(word.p[0]) && is_digit(word.p[1]) && is_digit(word.p[2]) &&
	       is_digit(word.p[3]);
}

/* The run of characters that values are made of. A date goes on behind one blank when a digit follows. */
static struct str take_value(struct toml *t)
{
	struct str word = { t->at, 0 };

	for (int part = 0; part < 2; part++) {
		while (t->at < t->end && is_word_char(*t->at))
			t->at++;
		word.n = (size_t)(t->at - word.p);
		if (part > 0 || word.n != 10 || !looks_like_date(word) || t->end - t->at < 2 || t->at[0] != ' ' ||
		    !is_digit(t->at[1]))
			break;
		t->at++;
	}
	return word;
}

int toml_scalar(struct toml *t, struct json *v)
{
	struct str word = take_value(t);

	if (word.n == 0)
		return toml_fail_expected(t, "a value");
	if (parse_word(word, v))
		return 0;
	if (looks_like_date(word))
		return parse_datetime(t, word, v);
	if (word.n > 2 && word.p[2] == ':')
		return parse_time(t, word, v);
	if (word.n > TOML_NUMBER_MAX)
		return toml_fail_as(t, ERR_LIMIT, "number with more than %d characters", TOML_NUMBER_MAX);
	if (word.n > 1 && word.p[0] == '0' && (word.p[1] == 'x' || word.p[1] == 'o' || word.p[1] == 'b'))
		return parse_prefixed(t, word, v);
	return parse_decimal(t, word, v);
}
