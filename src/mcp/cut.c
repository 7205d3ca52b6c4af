// SPDX-License-Identifier: Apache-2.0
#include "mcp/cut.h"

#include "base/banned.h"

/* ---- text ---- */

static bool is_inside(char c) /* of a character of UTF-8 */
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

bool cut_middle(struct buf *out, struct str text, size_t limit)
{
	size_t head = limit / 2, tail = limit - limit / 2;

	if (text.n <= limit)
		return text.n == 0 ? !out->failed : buf_add_str(out, text);
	while (head > 0 && is_inside(text.p[head]))
		head--;
	while (tail > 0 && is_inside(text.p[text.n - tail]))
		tail--;
	(void)buf_add(out, text.p, head);
	(void)buf_addf(out, "[... %zu bytes left out ...]", text.n - head - tail);
	return buf_add(out, text.p + text.n - tail, tail);
}

/* ---- streams ---- */

void cut_init(struct cut *c, size_t limit)
{
	*c = (struct cut){ .limit = limit, .head = BUF_INIT(limit), .tail = BUF_INIT(2 * limit) };
}

void cut_done(struct cut *c)
{
	buf_done(&c->head);
	buf_done(&c->tail);
}

static size_t tail_max(const struct cut *c)
{
	return c->limit - c->limit / 2;
}

bool cut_feed(struct cut *c, const char *p, size_t n)
{
	struct str in = { p, n };
	struct str first = str_first(in, c->limit / 2 - c->head.n);

	c->total += n;
	if (!buf_add(&c->head, first.p, first.n))
		return false;
	in = str_skip(in, first.n);
	if (in.n > tail_max(c))
		in = str_skip(in, in.n - tail_max(c));
	if (c->tail.n + in.n > c->tail.max)
		buf_consume(&c->tail, c->tail.n + in.n - tail_max(c));
	return buf_add(&c->tail, in.p, in.n);
}

bool cut_is_whole(const struct cut *c)
{
	return c->total <= c->limit;
}

/* A character that the cut goes through is left out with the rest. */
static struct str whole_characters(struct str s, bool is_head)
{
	size_t at = 0;

	if (is_head && s.n > 0) {
		for (at = s.n - 1; at > 0 && s.n - at < 4 && is_inside(s.p[at]); at--)
			;
		return utf8_next(str_skip(s, at), &(uint32_t){ 0 }) > 0 ? s : str_first(s, at);
	}
	while (at < s.n && at < 3 && is_inside(s.p[at]))
		at++;
	return str_skip(s, at);
}

bool cut_finish(const struct cut *c, struct str between, struct buf *out)
{
	size_t keep = MIN(c->tail.n, tail_max(c));
	struct str head = buf_str(&c->head), tail = { keep > 0 ? c->tail.p + c->tail.n - keep : "", keep };

	if (!cut_is_whole(c) && between.n > 0) {
		head = whole_characters(head, true);
		tail = whole_characters(tail, false);
	}
	(void)buf_add_str(out, head);
	if (!cut_is_whole(c))
		(void)buf_add_str(out, between);
	return buf_add_str(out, tail);
}

/* ---- JSON ---- */

static void new_line(struct buf *out, unsigned depth)
{
	(void)buf_add_char(out, '\n');
	for (unsigned i = 0; i < depth; i++)
		(void)buf_add(out, "  ", 2);
}

static size_t string_length(struct str json) /* of the string at its front, quotes included */
{
	for (size_t i = 1; i < json.n; i++) {
		if (json.p[i] == '\\')
			i++;
		else if (json.p[i] == '"')
			return i + 1;
	}
	return json.n;
}

bool json_indent(struct buf *out, struct str json)
{
	unsigned depth = 0;

	while (json.n > 0) {
		size_t n = json.p[0] == '"' ? string_length(json) : 1;
		char c = json.p[0], next = json.n > 1 ? json.p[1] : '\0';
		bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';

		if (opens && (next == '}' || next == ']')) {
			(void)buf_add(out, json.p, 2);
			json = str_skip(json, 2);
			continue;
		}
		if (closes)
			new_line(out, depth > 0 ? --depth : 0);
		if (c != ' ')
			(void)buf_add(out, json.p, n);
		if (opens || c == ',')
			new_line(out, opens ? ++depth : depth);
		else if (c == ':')
			(void)buf_add_char(out, ' ');
		json = str_skip(json, n);
	}
	return !out->failed;
}
