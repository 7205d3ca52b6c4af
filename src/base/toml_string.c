// SPDX-License-Identifier: Apache-2.0
/* Strings and keys. A string is first delimited, then, unless it can stay a view of the text, decoded. */
#include "base/arena.h"
#include "base/err.h"
#include "base/toml_private.h"

#include "base/banned.h"

struct quoted {
	char quote;    /* '"' for a basic string, '\'' for a literal one */
	bool is_multi;
	bool is_plain; /* no escapes, no CR: the text itself is the value */
	struct str raw;
};

static size_t quotes_at(const struct toml *t, const char *p, char quote, size_t max)
{
	size_t n = 0;

	while (n < max && p + n < t->end && p[n] == quote)
		n++;
	return n;
}

/* The closing quotes at P: true, and everything before them is the string. Up to two quotes may stand right
 * before the closing three of a multi-line string. */
static bool close_quotes(struct toml *t, struct quoted *q, const char *start, const char *p)
{
	size_t n = quotes_at(t, p, q->quote, q->is_multi ? 5 : 1);
	size_t need = q->is_multi ? 3 : 1;

	if (n < need)
		return false;
	q->raw = (struct str){ start, (size_t)(p - start) + n - need };
	t->at = p + n;
	return true;
}

/* From behind the opening quotes to behind the closing ones; t->line stays. */
static int delimit(struct toml *t, struct quoted *q)
{
	const char *start = t->at, *p = start;

	q->is_plain = true;
	while (p < t->end) {
		if (*p == q->quote && close_quotes(t, q, start, p))
			return 0;
		if (*p == '\\' && q->quote == '"') {
			q->is_plain = false;
			if (p + 1 < t->end && (p[1] == '"' || p[1] == '\\'))
				p++;
		} else if (*p == '\r' || *p == '\n') {
			if (!q->is_multi)
				return toml_fail(t, "expected %c to close a string, found the end of the line",
						 q->quote);
			if (*p == '\r')
				q->is_plain = false;
		}
		p++;
	}
	return toml_fail(t, "string without its closing %s%c", q->is_multi ? "three " : "", q->quote);
}

/* ---- escapes ------------------------------------------------------------------------------------------- */

static bool take_newline(struct toml *t, struct str *in)
{
	if (in->n == 0 || (in->p[0] != '\n' && in->p[0] != '\r'))
		return false;
	*in = str_skip(*in, in->p[0] == '\r' ? 2 : 1);
	t->line++;
	return true;
}

static void take_blanks(struct str *in)
{
	while (in->n > 0 && (in->p[0] == ' ' || in->p[0] == '\t'))
		*in = str_skip(*in, 1);
}

/* A backslash at the end of a line: all white space up to the next character goes away. */
static int fold_lines(struct toml *t, struct str *in)
{
	take_blanks(in);
	if (!take_newline(t, in))
		return toml_fail(t, "expected the end of the line after '\\', found a blank and more text");
	do
		take_blanks(in);
	while (take_newline(t, in));
	return 0;
}

/* IN is at the digits of \uXXXX or \UXXXXXXXX. */
static int decode_rune(struct toml *t, struct str *in, size_t digits, char **out)
{
	struct str hex = str_first(*in, digits);
	uint64_t rune;

	if (hex.n < digits || !str_to_hex64(hex, &rune))
		return toml_fail(t, "expected %zu hexadecimal digits after '\\%c'", digits, digits == 4 ? 'u' : 'U');
	if (rune > 0x10ffff || (rune >= 0xd800 && rune <= 0xdfff))
		return toml_fail(t, "escape that is not a Unicode character");
	*in = str_skip(*in, digits);
	*out += utf8_put(*out, (uint32_t)rune);
	return 0;
}

static int decode_escape(struct toml *t, const struct quoted *q, struct str *in, char **out)
{
	static const char names[] = "btnfr\"\\", values[] = "\b\t\n\f\r\"\\";
	struct str rest = str_skip(*in, 1);
	const char *name;
	char c;

	if (rest.n == 0) /* delimit() leaves at least one character behind every backslash */
		return err_set(t->e, ERR_INTERNAL, "line %u: escape without a character", t->line);
	c = rest.p[0];
	*in = str_skip(rest, 1);
	name = c ? strchr(names, c) : NULL;
	if (name) {
		*(*out)++ = values[name - names];
		return 0;
	}
	if (c == 'u' || c == 'U')
		return decode_rune(t, in, c == 'u' ? 4 : 8, out);
	if (q->is_multi && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
		*in = rest;
		return fold_lines(t, in);
	}
	return toml_fail(t, "unknown escape in a string");
}

/* No escape is shorter than what it stands for, so the raw length is room enough. */
static int decode(struct toml *t, const struct quoted *q, struct str *ret)
{
	struct str in = q->raw;
	char *start = arena_alloc(t->arena, in.n), *out = start;

	if (!start)
		return err_no_memory(t->e);
	while (in.n > 0) {
		if (in.p[0] == '\\' && q->quote == '"') {
			if (decode_escape(t, q, &in, &out) < 0)
				return -1;
		} else if (take_newline(t, &in)) {
			*out++ = '\n';
		} else {
			*out++ = in.p[0];
			in = str_skip(in, 1);
		}
	}
	*ret = (struct str){ start, (size_t)(out - start) };
	return 0;
}

static int finish(struct toml *t, const struct quoted *q, struct str *ret)
{
	if (!q->is_plain)
		return decode(t, q, ret);
	for (size_t i = 0; q->is_multi && i < q->raw.n; i++)
		if (q->raw.p[i] == '\n')
			t->line++;
	*ret = q->raw;
	return 0;
}

int toml_string(struct toml *t, struct str *ret)
{
	struct quoted q = { .quote = *t->at };
	struct str rest;

	q.is_multi = quotes_at(t, t->at, q.quote, 3) == 3;
	t->at += q.is_multi ? 3 : 1;
	if (delimit(t, &q) < 0)
		return -1;
	rest = q.raw;
	if (q.is_multi && take_newline(t, &rest)) /* one right behind the opening quotes does not count */
		q.raw = rest;
	return finish(t, &q, ret);
}

/* ---- keys ---------------------------------------------------------------------------------------------- */

static bool is_bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

int toml_key(struct toml *t, struct str *ret)
{
	struct quoted q = { 0 };
	const char *start = t->at;

	if (t->at < t->end && (*t->at == '"' || *t->at == '\'')) {
		q.quote = *t->at;
		if (quotes_at(t, t->at, q.quote, 3) == 3)
			return toml_fail(t, "a multi-line string cannot be a key");
		t->at++;
		return delimit(t, &q) < 0 ? -1 : finish(t, &q, ret);
	}
	while (t->at < t->end && is_bare(*t->at))
		t->at++;
	if (t->at == start)
		return toml_fail_expected(t, "a key");
	*ret = (struct str){ start, (size_t)(t->at - start) };
	return 0;
}
