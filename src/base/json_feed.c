// SPDX-License-Identifier: Apache-2.0
#include "base/json_feed.h"

#include <assert.h>

#include "base/json_scan.h"

#include "base/banned.h"

enum state {
	VALUE,
	VALUE_OR_END, /* behind '[' */
	KEY_OR_END,   /* behind '{' */
	KEY,
	COLON,
	STRING,
	SCALAR,
	AFTER, /* a value */
	BROKEN,
};

void json_feed_init(struct json_feed *f, unsigned levels, json_feed_fn *fn, void *arg)
{
	assert(levels <= JSON_FEED_LEVELS);
	*f = (struct json_feed){ .fn = fn, .arg = arg, .levels = levels, .state = VALUE };
}

/* ---- giving out ---- */

static void emit(struct json_feed *f, struct str text, bool is_string, bool is_last)
{
	struct json_piece piece = {
		.depth = f->depth,
		.index = f->depth > 0 ? f->index[f->depth - 1] : 0,
		.text = text,
		.is_string = is_string,
		.is_first = f->is_first,
		.is_last = is_last,
	};

	for (unsigned i = 0; i < f->depth; i++)
		piece.path[i] = (struct str){ f->keys[i], f->n_keys[i] };
	f->is_first = false;
	f->fn(&piece, f->arg);
}

/* Text of a string, decoded. */
static void put_text(struct json_feed *f, const char *p, size_t n)
{
	if (f->raw || n == 0)
		return;
	if (!f->in_key) {
		emit(f, (struct str){ p, n }, true, false);
		return;
	}
	assert(f->depth > 0 && f->depth <= f->levels);
	if (f->n_keys[f->depth - 1] + n > JSON_FEED_KEY_MAX) {
		f->n_keys[f->depth - 1] = JSON_FEED_KEY_MAX + 1; /* too long from here on */
		return;
	}
	memcpy(f->keys[f->depth - 1] + f->n_keys[f->depth - 1], p, n);
	f->n_keys[f->depth - 1] += n;
}

static void put_rune(struct json_feed *f, uint32_t rune)
{
	char bytes[4];

	put_text(f, bytes, utf8_put(bytes, rune));
}

static void put_high(struct json_feed *f)
{
	if (f->high != 0)
		put_rune(f, 0xfffd);
	f->high = 0;
}

/* ---- strings ---- */

static void put_code(struct json_feed *f, uint32_t code)
{
	if (f->high != 0 && code >= 0xdc00 && code < 0xe000) {
		put_rune(f, 0x10000 + ((f->high - 0xd800) << 10) + (code - 0xdc00));
		f->high = 0;
		return;
	}
	put_high(f);
	if (code >= 0xd800 && code < 0xdc00)
		f->high = code;
	else
		put_rune(f, code >= 0xdc00 && code < 0xe000 ? 0xfffd : code);
}

/* One character of an escape. False: it is none. */
static bool take_escape(struct json_feed *f, char c)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *found = strchr(from, c);

	if (f->escape > 1) {
		int digit = hex_digit(c);

		f->code = f->code << 4 | (uint32_t)(digit & 0xf);
		f->escape = f->escape < 5 ? f->escape + 1 : 0;
		if (f->escape == 0 && digit >= 0)
			put_code(f, f->code);
		return digit >= 0;
	}
	f->escape = c == 'u' ? 2 : 0;
	f->code = 0;
	if (c == 'u')
		return true;
	put_high(f);
	if (c == '\0' || !found)
		return false;
	put_text(f, &to[found - from], 1);
	return true;
}

static void string_ends(struct json_feed *f)
{
	put_high(f);
	if (f->in_key) {
		if (!f->raw && f->n_keys[f->depth - 1] > JSON_FEED_KEY_MAX)
			f->n_keys[f->depth - 1] = 0;
		f->state = COLON;
		f->in_key = false;
		return;
	}
	if (!f->raw)
		emit(f, (struct str){ "", 0 }, true, true);
	f->state = AFTER;
}

/* The end of the run of characters at P that mean themselves. */
static const char *plain_run(const char *p, const char *end)
{
	while (p < end) {
		p = json_plain(p, end);
		if (p == end || *p == '"' || *p == '\\' || (unsigned char)*p < 0x20)
			break;
		p++;
	}
	return p;
}

static const char *take_string(struct json_feed *f, const char *p, const char *end)
{
	const char *run;

	if (f->escape > 0) {
		if (!take_escape(f, *p))
			f->state = BROKEN;
		return p + 1;
	}
	run = plain_run(p, end);
	if (run > p)
		put_high(f);
	put_text(f, p, (size_t)(run - p));
	if (run == end)
		return end;
	if (*run == '"')
		string_ends(f);
	else if (*run == '\\')
		f->escape = 1;
	else
		f->state = BROKEN;
	return run + 1;
}

/* ---- the rest ---- */

static bool is_object(const struct json_feed *f)
{
	return f->depth > 0 && (f->objects >> f->depth & 1);
}

static void opens(struct json_feed *f, char c, const char *at)
{
	if (f->depth == JSON_FEED_DEPTH_MAX) {
		f->state = BROKEN;
		return;
	}
	if (f->depth == f->levels && !f->raw) {
		f->raw = f->depth + 1;
		f->raw_from = at;
		f->is_first = true;
	}
	f->depth++;
	f->objects = (f->objects & ~(UINT64_C(1) << f->depth)) | (uint64_t)(c == '{') << f->depth;
	if (!f->raw)
		f->n_keys[f->depth - 1] = f->index[f->depth - 1] = 0;
	f->state = c == '{' ? KEY_OR_END : VALUE_OR_END;
}

static void closes(struct json_feed *f, char c, const char *at)
{
	if (f->depth == 0 || (c == '}') != is_object(f)) {
		f->state = BROKEN;
		return;
	}
	f->depth--;
	f->state = AFTER;
	if (f->raw == f->depth + 1) {
		f->raw = 0;
		emit(f, (struct str){ f->raw_from, (size_t)(at + 1 - f->raw_from) }, false, true);
	}
}

static bool scalar_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.';
}

static bool scalar_valid(struct str s)
{
	static const char *const words[] = { "true", "false", "null", "NaN", "Infinity", "-Infinity" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (str_is(s, words[i]))
			return true;
	if (s.p[0] != '-' && (s.p[0] < '0' || s.p[0] > '9'))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!strchr("0123456789+-.eE", s.p[i]))
			return false;
	return s.p[s.n - 1] >= '0' && s.p[s.n - 1] <= '9';
}

static void scalar_ends(struct json_feed *f)
{
	struct str s = { f->scalar, f->n_scalar };

	f->state = scalar_valid(s) ? AFTER : BROKEN;
	if (f->state == AFTER && !f->raw)
		emit(f, s, false, true);
}

static const char *take_scalar(struct json_feed *f, const char *p, const char *end)
{
	for (; p < end && scalar_char(*p) && f->n_scalar < JSON_FEED_SCALAR_MAX; p++)
		f->scalar[f->n_scalar++] = *p;
	if (p < end && !scalar_char(*p))
		scalar_ends(f);
	else if (p < end)
		f->state = BROKEN;
	return p;
}

static void value_begins(struct json_feed *f, char c, const char *at)
{
	if (c == '{' || c == '[') {
		opens(f, c, at);
		return;
	}
	f->state = c == '"' ? STRING : scalar_char(c) ? SCALAR : BROKEN;
	if (!f->raw)
		f->is_first = true;
	f->scalar[0] = c;
	f->n_scalar = 1;
}

static void key_begins(struct json_feed *f, char c)
{
	if (c != '"') {
		f->state = BROKEN;
		return;
	}
	f->state = STRING;
	f->in_key = true;
	if (!f->raw)
		f->n_keys[f->depth - 1] = 0;
}

static void after_value(struct json_feed *f, char c, const char *at)
{
	if (c == '}' || c == ']') {
		closes(f, c, at);
		return;
	}
	f->state = c != ',' || f->depth == 0 ? BROKEN : is_object(f) ? KEY : VALUE;
	if (f->state != BROKEN && !f->raw)
		f->index[f->depth - 1]++;
}

/* Between strings and words; blanks mean nothing there. */
static void take_char(struct json_feed *f, const char *p)
{
	char c = *p;

	if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
		return;
	if (f->state == AFTER)
		after_value(f, c, p);
	else if (f->state == COLON)
		f->state = c == ':' ? VALUE : BROKEN;
	else if ((f->state == KEY_OR_END && c == '}') || (f->state == VALUE_OR_END && c == ']'))
		closes(f, c, p);
	else if (f->state == KEY || f->state == KEY_OR_END)
		key_begins(f, c);
	else
		value_begins(f, c, p);
}

bool json_feed(struct json_feed *f, struct str in)
{
	const char *p = in.p, *end;

	if (in.n == 0)
		return f->state != BROKEN;
	end = p + in.n;
	f->raw_from = p;
	while (p < end && f->state != BROKEN) {
		if (f->state == STRING)
			p = take_string(f, p, end);
		else if (f->state == SCALAR)
			p = take_scalar(f, p, end);
		else
			take_char(f, p++);
	}
	if (f->raw && f->state != BROKEN && end > f->raw_from) {
		unsigned inside = f->depth;

		f->depth = f->raw - 1;
		emit(f, (struct str){ f->raw_from, (size_t)(end - f->raw_from) }, false, false);
		f->depth = inside;
	}
	return f->state != BROKEN;
}

bool json_feed_end(struct json_feed *f)
{
	if (f->state == SCALAR && f->depth == 0)
		scalar_ends(f);
	return f->state == AFTER && f->depth == 0;
}
