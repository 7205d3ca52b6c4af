// SPDX-License-Identifier: Apache-2.0
#include "base/json_out.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/json_scan.h"

#include "base/banned.h"

#define NUMBER_MAX 32 /* characters of any number that is written here */

/* Writes the comma before a value, when there is one, followed by TEXT. */
static void put(struct json_out *o, const char *text, size_t n)
{
	char *at = buf_reserve(o->b, n + o->comma);

	if (!at)
		return;
	*at = ',';
	memcpy(at + o->comma, text, n);
	buf_commit(o->b, n + o->comma);
	o->comma = true;
}

/* ---- strings ---- */

static void put_escape(struct buf *b, uint32_t rune)
{
	static const char digits[] = "0123456789abcdef";
	static const char letters[128] = {
		['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
		['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't',
	};
	char text[6] = { '\\', 'u' };

	if (rune < sizeof(letters) && letters[rune]) {
		text[1] = letters[rune];
		(void)buf_add(b, text, 2);
		return;
	}
	for (int i = 0; i < 4; i++)
		text[2 + i] = digits[rune >> (12 - 4 * i) & 0xf];
	(void)buf_add(b, text, sizeof(text));
}

/* Writes the character at P, which is not plain ASCII, and returns what follows it. */
static const char *put_special(struct buf *b, const char *p, const char *end)
{
	uint32_t rune;
	size_t n = utf8_next((struct str){ p, (size_t)(end - p) }, &rune);

	if (n == 0) {
		(void)buf_add_str(b, STR("\xef\xbf\xbd")); /* U+FFFD */
		return p + 1;
	}
	if (rune < 0xa0 || rune == 0x2028 || rune == 0x2029)
		put_escape(b, rune);
	else
		(void)buf_add(b, p, n);
	return p + n;
}

static void put_string_slowly(struct json_out *o, const char *p, const char *end)
{
	struct buf *b = o->b;

	put(o, "\"", 1);
	while (p < end && !b->failed) {
		const char *run = json_plain(p, end);

		(void)buf_add(b, p, (size_t)(run - p));
		p = run < end ? put_special(b, run, end) : end;
	}
	(void)buf_add_char(b, '"');
}

/* A string or, with a colon behind it, a key. */
static void put_string(struct json_out *o, struct str s, bool is_key)
{
	const char *p = s.n > 0 ? s.p : "", *end = p + s.n;
	size_t n = o->comma + 1 + s.n + 1 + is_key;
	char *at;

	if (json_plain(p, end) < end) {
		put_string_slowly(o, p, end);
		if (is_key)
			(void)buf_add_char(o->b, ':');
	} else if ((at = buf_reserve(o->b, n))) {
		*at = ',';
		at += o->comma;
		*at++ = '"';
		memcpy(at, p, s.n);
		at += s.n;
		*at++ = '"';
		*at = ':'; /* or the place of the NUL */
		buf_commit(o->b, n);
	}
	o->comma = !is_key;
}

void json_str(struct json_out *o, struct str s)
{
	put_string(o, s, false);
}

void json_cstr(struct json_out *o, const char *z)
{
	if (z)
		put_string(o, str_of(z), false);
	else
		json_null(o);
}

void json_key_str(struct json_out *o, struct str name)
{
	put_string(o, name, true);
}

void json_key(struct json_out *o, const char *name)
{
	put_string(o, str_of(name), true);
}

/* ---- numbers ---- */

/* Writes V so that it ends before END, and returns where it begins. */
static char *digits_before(char *end, uint64_t v)
{
	static const char pairs[] = "0001020304050607080910111213141516171819202122232425262728293031323334353637383940"
				    "4142434445464748495051525354555657585960616263646566676869707172737475767778798081"
				    "82838485868788899091929394959697989900";

	for (; v >= 100; v /= 100) {
		end -= 2;
		memcpy(end, pairs + v % 100 * 2, 2);
	}
	if (v >= 10) {
		end -= 2;
		memcpy(end, pairs + v * 2, 2);
	} else {
		*--end = (char)('0' + v);
	}
	return end;
}

void json_uint(struct json_out *o, uint64_t v)
{
	char text[NUMBER_MAX], *end = text + sizeof(text), *p = digits_before(end, v);

	put(o, p, (size_t)(end - p));
}

void json_int(struct json_out *o, int64_t v)
{
	char text[NUMBER_MAX], *end = text + sizeof(text);
	char *p = digits_before(end, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);

	if (v < 0)
		*--p = '-';
	put(o, p, (size_t)(end - p));
}

/* Finds digits / 10^places that is V, for a V with few decimals; false when this is not so.
 *
 * Up to 15 digits, no two decimals are the same double. So the first match is the shortest form, and because
 * digits and power are exact and the division rounds once, reading it gives V again. */
static bool split_decimal(double v, uint64_t *ret_digits, int *ret_places)
{
	static const double powers[] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9 };

	if (v < 1e-5)
		return false;
	for (int places = 1; places < 10; places++) {
		double scaled = v * powers[places] + 0.5;

		if (scaled >= 1e15)
			return false;
		*ret_digits = (uint64_t)scaled;
		*ret_places = places;
		if ((double)*ret_digits / powers[places] == v)
			return true;
	}
	return false;
}

/* Formats V with so many digits; returns the length, 0 when that does not read back as V. snprintf() and strtod()
 * heed the locale; our programs never call setlocale(), so the decimal point is a point. */
static size_t format_real(char text[NUMBER_MAX], int digits, double v)
{
	int n = snprintf(text, NUMBER_MAX, "%.*g", digits, v);

	return strtod(text, NULL) == v ? (size_t)n : 0;
}

/* 17 digits always read back, 16 mostly do. A form of 15 digits that reads back is so near to V that the one of
 * 16 differs by at most one in its last digit: only with a 1 or 9 there can it be shortened (a 0 is not written).
 * Below DBL_MIN, doubles are too sparse for that, and a few digits may do. */
static size_t shortest_real(char text[NUMBER_MAX], double v)
{
	int digits = 1;
	size_t n = 0;
	char last;

	if (fabs(v) >= DBL_MIN) {
		n = format_real(text, 16, v);
		last = n > 0 ? text[strcspn(text, "e") - 1] : '\0';
		if (n > 0 && last != '1' && last != '9')
			return n;
		digits = n > 0 ? 15 : 17;
	}
	do
		n = format_real(text, digits, v);
	while (n == 0 && digits++ < 17);
	return n;
}

static void put_real_slowly(struct json_out *o, double v)
{
	char text[NUMBER_MAX];
	size_t n = shortest_real(text, v);

	if (!strpbrk(text, ".e"))
		n += (size_t)snprintf(text + n, sizeof(text) - n, ".0");
	put(o, text, n);
}

void json_real(struct json_out *o, double v)
{
	char text[NUMBER_MAX], *end = text + sizeof(text), *p;
	uint64_t digits;
	int places;

	if (!isfinite(v)) {
		json_null(o);
		return;
	}
	if (!split_decimal(fabs(v), &digits, &places)) {
		put_real_slowly(o, v);
		return;
	}
	p = digits_before(end, digits);
	while (end - p <= places)
		*--p = '0'; /* 0.05 is 5 / 10^2 */
	p--;
	memmove(p, p + 1, (size_t)(end - p - 1 - places));
	end[-places - 1] = '.';
	if (v < 0)
		*--p = '-';
	put(o, p, (size_t)(end - p));
}

/* ---- the rest ---- */

void json_open(struct json_out *o, char bracket)
{
	put(o, &bracket, 1);
	o->comma = false;
}

void json_close(struct json_out *o, char bracket)
{
	(void)buf_add_char(o->b, bracket);
	o->comma = true;
}

void json_bool(struct json_out *o, bool v)
{
	if (v)
		put(o, "true", 4);
	else
		put(o, "false", 5);
}

void json_null(struct json_out *o)
{
	put(o, "null", 4);
}

void json_raw(struct json_out *o, struct str json)
{
	put(o, json.p, json.n);
}

static void put_scalar(struct json_out *o, const struct json *v)
{
	switch (v->type) {
	case JSON_NULL:
		json_null(o);
		break;
	case JSON_BOOL:
		json_bool(o, v->b);
		break;
	case JSON_INT:
		json_int(o, v->i);
		break;
	case JSON_UINT:
		json_uint(o, v->u);
		break;
	case JSON_REAL:
		json_real(o, v->d);
		break;
	case JSON_STRING:
	case JSON_DATETIME:
	case JSON_DATETIME_LOCAL:
	case JSON_DATE_LOCAL:
	case JSON_TIME_LOCAL:
		put_string(o, v->s, false);
		break;
	case JSON_ARRAY:
	case JSON_OBJECT:
		break; /* put_tree() writes these */
	}
}

/* Recursion is bounded by `depth`; a failed buffer ends it early. */
static void put_tree(struct json_out *o, const struct json *v, unsigned depth)
{
	bool is_object = v->type == JSON_OBJECT;

	if (!is_object && v->type != JSON_ARRAY) {
		put_scalar(o, v);
		return;
	}
	if (depth == JSON_TREE_DEPTH_MAX) {
		o->b->failed = true;
		return;
	}
	json_open(o, is_object ? '{' : '[');
	for (const struct json *child = v->kids.first; child && !o->b->failed; child = child->next) {
		if (is_object)
			put_string(o, child->key, true);
		put_tree(o, child, depth + 1);
	}
	json_close(o, is_object ? '}' : ']');
}

void json_tree(struct json_out *o, const struct json *v)
{
	if (v)
		put_tree(o, v, 0);
	else
		json_null(o);
}
