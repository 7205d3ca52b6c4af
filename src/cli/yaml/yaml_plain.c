// SPDX-License-Identifier: Apache-2.0
#include "cli/yaml/yaml_plain.h"

#include "base/own.h"

#include "base/banned.h"

bool yaml_is_printable(uint32_t rune)
{
	if (rune == 0xfeff || rune == 0x2028 || rune == 0x2029)
		return false;
	return (rune >= 0x20 && rune <= 0x7e) || (rune >= 0xa0 && rune <= 0xd7ff) || (rune >= 0xe000 && rune <= 0xfffd) ||
	       (rune >= 0x10000 && rune < 0x10ffff);
}

/* ---- words that mean something ---------------------------------------------------------------------------- */

/* A cursor over what the patterns of YAML 1.1 match. */
static bool take(struct str *s, char c)
{
	if (s->n == 0 || s->p[0] != c)
		return false;
	*s = str_skip(*s, 1);
	return true;
}

static bool take_any(struct str *s, const char *set)
{
	if (s->n == 0 || !strchr(set, s->p[0]) || s->p[0] == '\0')
		return false;
	*s = str_skip(*s, 1);
	return true;
}

static size_t take_all(struct str *s, const char *set)
{
	size_t n = 0;

	while (take_any(s, set))
		n++;
	return n;
}

#define DIGITS "0123456789"

/* 60, 1_000, 0b101, 017, 0xff, 1:30:00 */
static bool is_int(struct str s)
{
	struct str t;

	(void)take_any(&s, "+-");
	t = s;
	if (take(&t, '0') && (t.n == 0 || (take_all(&t, "01234567_") > 0 && t.n == 0)))
		return true;
	t = s;
	if (take(&t, '0') && take(&t, 'b'))
		return take_all(&t, "01_") > 0 && t.n == 0;
	t = s;
	if (take(&t, '0') && take(&t, 'x'))
		return take_all(&t, DIGITS "abcdefABCDEF_") > 0 && t.n == 0;
	if (!take_any(&s, "123456789"))
		return false;
	(void)take_all(&s, DIGITS "_");
	while (take(&s, ':')) {
		t = s;
		if (take_any(&t, "012345") && take_any(&t, DIGITS))
			s = t;
		else if (!take_any(&s, DIGITS))
			return false;
	}
	return s.n == 0;
}

static bool is_exponent(struct str s)
{
	return s.n == 0 || (take_any(&s, "eE") && take_any(&s, "+-") && take_all(&s, DIGITS) > 0 && s.n == 0);
}

/* 1.5, .5, 1.e+3, 1:30.5, .inf, .nan */
static bool is_real(struct str s)
{
	struct str t = s, u;

	(void)take_any(&t, "+-");
	if (str_is(t, ".inf") || str_is(t, ".Inf") || str_is(t, ".INF") || str_is(s, ".nan") || str_is(s, ".NaN") || str_is(s, ".NAN"))
		return true;
	u = s;
	if (take(&u, '.'))
		return take_any(&u, DIGITS) && (take_all(&u, DIGITS "_"), is_exponent(u));
	if (!take_any(&t, DIGITS))
		return false;
	(void)take_all(&t, DIGITS "_");
	if (take(&t, '.')) {
		(void)take_all(&t, DIGITS "_");
		return is_exponent(t);
	}
	u = t;
	while (take(&t, ':')) {
		struct str two = t;

		if (take_any(&two, "012345") && take_any(&two, DIGITS))
			t = two;
		else if (!take_any(&t, DIGITS))
			return false;
	}
	if (t.p == u.p || !take(&t, '.'))
		return false;
	(void)take_all(&t, DIGITS "_");
	return t.n == 0;
}

static bool take_digits(struct str *s, size_t min, size_t max)
{
	size_t n = 0;

	while (n < max && take_any(s, DIGITS))
		n++;
	return n >= min;
}

/* "2026-06-15", "2026-06-15T09:46:58.1Z", "2026-06-15 09:46:58 +02:00" */
static bool is_time(struct str s)
{
	struct str all = s;

	if (!take_digits(&s, 4, 4) || !take(&s, '-') || !take_digits(&s, 1, 2) || !take(&s, '-') || !take_digits(&s, 1, 2))
		return false;
	if (s.n == 0)
		return all.n == 10; /* a date has two digits for month and day */
	if (!take_any(&s, "Tt") && take_all(&s, " \t") == 0)
		return false;
	if (!take_digits(&s, 1, 2) || !take(&s, ':') || !take_digits(&s, 2, 2) || !take(&s, ':') || !take_digits(&s, 2, 2))
		return false;
	if (take(&s, '.'))
		(void)take_all(&s, DIGITS);
	(void)take_all(&s, " \t");
	if (s.n == 0 || str_is(s, "Z"))
		return true;
	return take_any(&s, "+-") && take_digits(&s, 1, 2) && (s.n == 0 || (take(&s, ':') && take_digits(&s, 2, 2) && s.n == 0));
}

/* YAML 1.1 reads S as something else than a string: null, a boolean, a number, a time. */
static bool yaml_is_special(struct str s)
{
	static const char *const words[] = {
		"",     "~",     "null",  "Null",  "NULL", "yes", "Yes", "YES", "no",  "No",  "NO", "true", "True",
		"TRUE", "false", "False", "FALSE", "on",   "On",  "ON",  "off", "Off", "OFF", "<<", "=",
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (str_is(s, words[i]))
			return true;
	return is_int(s) || is_real(s) || is_time(s);
}

/* ---- characters that mean something ------------------------------------------------------------------------ */

static bool is_blank(struct str s, size_t i)
{
	return i >= s.n || strchr(" \t\r\n", s.p[i]) != NULL; /* NUL is one, too */
}

/* Where it stands, the character would be taken for YAML's own. */
static bool is_indicator(struct str s, size_t i)
{
	char c = s.p[i];

	if (i == 0 && strchr("#,[]{}&*!|>'\"%@`", c) && c)
		return true;
	if ((i == 0 && (c == '?' || c == '-')) || c == ':')
		return is_blank(s, i + 1);
	return c == '#' && i > 0 && is_blank(s, i - 1);
}

struct look {
	bool has_break, has_odd, has_indicator, has_break_blank, has_blank_break;
};

static struct look look_at(struct str s)
{
	struct look l = { .has_indicator = str_starts(s, STR("---")) || str_starts(s, STR("...")) };

	for (size_t i = 0; i < s.n; i++) {
		uint32_t rune = 0;
		size_t n = utf8_next(str_skip(s, i), &rune);

		l.has_break = l.has_break || rune == '\n';
		l.has_odd = l.has_odd || n == 0 || (rune != '\n' && !yaml_is_printable(rune));
		l.has_indicator = l.has_indicator || is_indicator(s, i);
		l.has_break_blank = l.has_break_blank || (rune == ' ' && i > 0 && s.p[i - 1] == '\n');
		l.has_blank_break = l.has_blank_break || (rune == '\n' && i > 0 && s.p[i - 1] == ' ');
		i += n > 1 ? n - 1 : 0;
	}
	return l;
}

enum yaml_form yaml_form(struct str s, bool is_key)
{
	struct look l = look_at(s);
	bool has_edge = s.n > 0 && (s.p[0] == ' ' || s.p[s.n - 1] == ' ');

	if (l.has_odd || l.has_blank_break || l.has_break_blank || (is_key && l.has_break))
		return YAML_DOUBLE;
	if (l.has_break || l.has_indicator || has_edge || yaml_is_special(s))
		return YAML_SINGLE;
	return YAML_PLAIN;
}
