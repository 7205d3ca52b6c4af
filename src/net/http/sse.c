// SPDX-License-Identifier: Apache-2.0
#include "net/http/sse.h"

#include <assert.h>

#include "base/buf.h"

#include "base/banned.h"

/* The first byte of S at or after *at that is LEAD; *at moves behind it. */
static bool find_next(struct str s, char lead, size_t *at)
{
	const char *p = *at < s.n ? memchr(s.p + *at, (unsigned char)lead, s.n - *at) : NULL;

	if (p)
		*at = (size_t)(p - s.p) + 1;
	return p;
}

bool sse_is_one_line(struct str s)
{
	size_t at = 0;

	if (find_next(s, '\n', &at) || find_next(s, '\r', &at))
		return false;
	while (find_next(s, '\xc2', &at))
		if (str_starts(str_skip(s, at), STR("\x85")))
			return false;
	at = 0;
	while (find_next(s, '\xe2', &at))
		if (str_starts(str_skip(s, at), STR("\x80\xa8")) || str_starts(str_skip(s, at), STR("\x80\xa9")))
			return false;
	return true;
}

bool sse_json_event(struct buf *b, struct str json)
{
	char *at;

	assert(json.n > 0 && sse_is_one_line(json));
	at = json.n < SIZE_MAX - 2 ? buf_reserve(b, json.n + 2) : NULL;
	if (!at)
		return false;
	memcpy(at, json.p, json.n);
	memcpy(at + json.n, "\n\n", 2);
	buf_commit(b, json.n + 2);
	return true;
}

static void add_text(struct buf *b, struct str text)
{
	struct text_sanitizer t = { 0 };

	text_sanitize(&t, text, b);
	text_sanitize_end(&t, b);
}

/* One field whose value cannot have several lines: what would end it is left out. */
static void add_field(struct buf *b, struct str name, struct str value)
{
	buf_add_str(b, name);
	while (value.n > 0) {
		size_t n = 0;

		while (n < value.n && value.p[n] != '\r' && value.p[n] != '\n' && value.p[n] != '\0')
			n++;
		add_text(b, str_first(value, n));
		value = str_skip(value, n + 1);
	}
	buf_add_char(b, '\n');
}

/* Takes a line and its terminator. False at the end of the last line, which has none. */
static bool take_line(struct str *in, struct str *ret_line)
{
	size_t n = 0;

	while (n < in->n && in->p[n] != '\r' && in->p[n] != '\n')
		n++;
	*ret_line = str_first(*in, n);
	*in = str_skip(*in, n);
	if (in->n == 0)
		return false;
	*in = str_skip(*in, str_starts(*in, STR("\r\n")) ? 2 : 1);
	return true;
}

static void add_lines(struct buf *b, struct str name, struct str text)
{
	bool more = true;

	while (more) {
		struct str line;

		more = take_line(&text, &line);
		buf_add_str(b, name);
		add_text(b, line);
		buf_add_char(b, '\n');
	}
}

bool sse_event(struct buf *b, const struct sse_event *ev)
{
	if (ev->event.n > 0)
		add_field(b, STR("event: "), ev->event);
	if (ev->has_id)
		add_field(b, STR("id: "), ev->id);
	add_lines(b, STR("data: "), ev->data);
	return buf_add_char(b, '\n');
}

bool sse_comment(struct buf *b, struct str text)
{
	add_lines(b, STR(": "), text);
	return buf_add_char(b, '\n');
}
