// SPDX-License-Identifier: Apache-2.0
/* Scalars and flow collections of YAML. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/yaml/yaml_impl.h"
#include "cli/yaml/yaml_read.h"

#include "base/banned.h"

#define FLOW_ENDS ",[]{}"

/* ---- plain ----------------------------------------------------------------------------------------------- */

static bool is_one_of(struct str s, const char *const words[3])
{
	return str_is(s, words[0]) || str_is(s, words[1]) || str_is(s, words[2]);
}

/* Numbers as JSON has them; all else is text. */
static const struct json *read_number(struct yaml_reader *r, struct str s)
{
	bool is_likely = s.n > 0 && s.n < 64 && (s.p[0] == '-' || (s.p[0] >= '0' && s.p[0] <= '9'));
	const struct json *v = is_likely ? json_parse(r->arena, s, NULL, NULL, &(struct err){ 0 }) : NULL;

	return v && (v->type == JSON_INT || v->type == JSON_UINT || v->type == JSON_REAL) ? v : NULL;
}

static struct json *resolve(struct yaml_reader *r, struct str s)
{
	static const char *const nulls[] = { "null", "Null", "NULL" }, *const trues[] = { "true", "True", "TRUE" };
	static const char *const falses[] = { "false", "False", "FALSE" };
	const struct json *number = read_number(r, s);
	struct json *v;

	if (number) {
		v = yaml_value(r, number->type);
		if (v)
			*v = *number;
		return v;
	}
	if (s.n == 0 || str_is(s, "~") || is_one_of(s, nulls))
		return yaml_value(r, JSON_NULL);
	v = yaml_value(r, is_one_of(s, trues) || is_one_of(s, falses) ? JSON_BOOL : JSON_STRING);
	if (v && v->type == JSON_BOOL)
		v->b = is_one_of(s, trues);
	else if (v)
		v->s = s;
	return v;
}

/* What is left of this line: up to a comment, in flow collections up to what is theirs. */
static struct str take_plain_line(struct yaml_reader *r, bool is_flow)
{
	size_t start = r->at;

	for (; !yaml_is_end(yaml_peek(r, 0)); r->at++) {
		char c = yaml_peek(r, 0), after = yaml_peek(r, 1);
		bool is_blank_after = after == ' ' || after == '\t' || yaml_is_end(after);

		if (c == '#' && r->at > start && (r->text.p[r->at - 1] == ' ' || r->text.p[r->at - 1] == '\t'))
			break;
		if (c == ':' && (is_blank_after || (is_flow && strchr(FLOW_ENDS, after))))
			break;
		if (is_flow && strchr(FLOW_ENDS, c))
			break;
	}
	return str_trim((struct str){ r->text.p + start, r->at - start });
}

static struct json *text_of(struct yaml_reader *r, struct buf *b)
{
	struct json *v = yaml_value(r, JSON_STRING);
	const char *copy = b->failed ? NULL : arena_dup(r->arena, buf_str(b));

	if (v && copy)
		v->s = (struct str){ copy, b->n };
	else if (v)
		(void)err_no_memory(r->e);
	return copy ? v : NULL;
}

/* True: the next line that says something is further in than PARENT and goes on with the scalar; the cursor is there. */
static bool goes_on(struct yaml_reader *r, unsigned parent, size_t *ret_empty)
{
	struct yaml_reader ahead = *r;
	unsigned line = r->line;

	yaml_skip_blanks(&ahead);
	if (!yaml_is_end(yaml_peek(&ahead, 0)))
		return false; /* a comment, or a colon: that is the caller's to judge */
	yaml_next_line(&ahead);
	yaml_skip_blanks(&ahead);
	while (ahead.at < ahead.text.n && yaml_is_end(yaml_peek(&ahead, 0))) {
		yaml_next_line(&ahead);
		yaml_skip_blanks(&ahead);
	}
	if (ahead.at >= ahead.text.n || ahead.at - ahead.line_start <= parent || yaml_peek(&ahead, 0) == '#')
		return false;
	*ret_empty = ahead.line - line - 1;
	*r = ahead;
	return true;
}

struct json *yaml_plain(struct yaml_reader *r, unsigned parent)
{
	AUTO(buf_done) struct buf b = BUF_INIT(YAML_TEXT_MAX);
	struct str first = take_plain_line(r, false);
	size_t empty;

	if (yaml_peek(r, 0) == ':')
		return (void)yaml_fail(r, "a value with ': ' in it must be in quotes"), NULL;
	buf_add_str(&b, first);
	while (goes_on(r, parent, &empty)) {
		for (size_t i = 0; i < empty; i++)
			buf_add_char(&b, '\n');
		if (empty == 0)
			buf_add_char(&b, ' ');
		buf_add_str(&b, take_plain_line(r, false));
		if (yaml_peek(r, 0) == ':')
			return (void)yaml_fail(r, "a value with ': ' in it must be in quotes"), NULL;
	}
	return b.n == first.n ? resolve(r, first) : text_of(r, &b);
}

/* ---- quoted ---------------------------------------------------------------------------------------------- */

static bool add_code(struct yaml_reader *r, struct buf *b, size_t digits)
{
	char utf8[4];
	uint64_t rune = 0;

	if (r->at + digits > r->text.n || !str_to_hex64((struct str){ r->text.p + r->at, digits }, &rune) || rune > 0x10ffff ||
	    (rune >= 0xd800 && rune <= 0xdfff) || rune == 0)
		return false;
	r->at += digits;
	buf_add(b, utf8, utf8_put(utf8, (uint32_t)rune));
	return true;
}

/* Behind a backslash. */
static int add_escape(struct yaml_reader *r, struct buf *b)
{
	static const char from[] = "abtnvfre\"/\\ ", to[] = "\a\b\t\n\v\f\r\033\"/\\ ";
	char c = yaml_peek(r, 0);
	const char *known = c ? strchr(from, c) : NULL;

	r->at += c != '\0';
	if (known) {
		buf_add_char(b, to[known - from]);
		return 0;
	}
	if ((c == 'x' && add_code(r, b, 2)) || (c == 'u' && add_code(r, b, 4)) || (c == 'U' && add_code(r, b, 8)))
		return 0;
	return yaml_fail(r, "an escape that is not known");
}

/* A line end inside quotes is a blank, empty lines are line ends. */
static void fold_line(struct yaml_reader *r, struct buf *b)
{
	size_t n = 0;

	while (b->n > 0 && (b->p[b->n - 1] == ' ' || b->p[b->n - 1] == '\t'))
		b->n--;
	while (r->at < r->text.n && yaml_is_end(yaml_peek(r, 0))) {
		yaml_next_line(r);
		yaml_skip_blanks(r);
		n++;
	}
	if (n == 1)
		buf_add_char(b, ' ');
	for (size_t i = 1; i < n; i++)
		buf_add_char(b, '\n');
}

struct json *yaml_quoted(struct yaml_reader *r)
{
	AUTO(buf_done) struct buf b = BUF_INIT(YAML_TEXT_MAX);
	char quote = yaml_peek(r, 0);

	for (r->at++; r->at < r->text.n;) {
		char c = yaml_peek(r, 0);

		if (c == quote && quote == '\'' && yaml_peek(r, 1) == '\'')
			r->at++;
		else if (c == quote) {
			r->at++;
			return text_of(r, &b);
		}
		if (yaml_is_end(c)) {
			fold_line(r, &b);
			continue;
		}
		r->at++;
		if (c != '\\' || quote == '\'')
			buf_add_char(&b, c);
		else if (add_escape(r, &b) < 0)
			return NULL;
	}
	return (void)yaml_fail(r, "a quote is not closed"), NULL;
}

/* ---- blocks of lines ------------------------------------------------------------------------------------- */

struct block {
	bool is_folded, keeps, strips;
	unsigned indent; /* 0: that of the first line */
};

static int read_head(struct yaml_reader *r, unsigned parent, struct block *ret)
{
	*ret = (struct block){ .is_folded = yaml_peek(r, 0) == '>' };
	for (r->at++; !yaml_is_end(yaml_peek(r, 0)) && yaml_peek(r, 0) != ' '; r->at++) {
		char c = yaml_peek(r, 0);

		if (c == '-')
			ret->strips = true;
		else if (c == '+')
			ret->keeps = true;
		else if (c >= '1' && c <= '9')
			ret->indent = parent + (unsigned)(c - '0');
		else
			return yaml_fail(r, "a block begins with '|' or '>', and perhaps '-', '+' or a digit");
	}
	yaml_skip_blanks(r);
	if (!yaml_is_end(yaml_peek(r, 0)) && yaml_peek(r, 0) != '#')
		return yaml_fail(r, "text of a block begins on the next line");
	yaml_next_line(r);
	return 0;
}

static unsigned count_blanks(const struct yaml_reader *r)
{
	unsigned n = 0;

	while (yaml_peek(r, n) == ' ')
		n++;
	return n;
}

/* A line of a folded block joins the one before it, unless one of them is indented further. */
static void add_break(struct buf *b, const struct block *k, size_t empty, bool is_further)
{
	for (size_t i = 0; i < empty; i++)
		buf_add_char(b, '\n');
	if (b->n > 0 && (!k->is_folded || is_further))
		buf_add_char(b, '\n');
	else if (b->n > 0 && empty == 0)
		buf_add_char(b, ' ');
}

struct json *yaml_block(struct yaml_reader *r, unsigned parent)
{
	AUTO(buf_done) struct buf b = BUF_INIT(YAML_TEXT_MAX);
	bool was_further = false, is_first = true;
	size_t empty = 0;
	struct block k;

	if (read_head(r, parent, &k) < 0)
		return NULL;
	for (; r->at < r->text.n; yaml_next_line(r)) {
		unsigned blanks = count_blanks(r);
		size_t start;
		bool is_further;

		if (yaml_is_end(yaml_peek(r, blanks))) {
			empty++;
			continue;
		}
		if (k.indent == 0 && (blanks > parent || (parent == 0 && r->depth <= 1)))
			k.indent = blanks;
		if (blanks < k.indent || (k.indent == 0 && !(parent == 0 && r->depth <= 1)))
			break;
		is_further = yaml_peek(r, k.indent) == ' ' || yaml_peek(r, k.indent) == '\t';
		if (is_first)
			for (; empty > 0; empty--)
				buf_add_char(&b, '\n');
		else
			add_break(&b, &k, empty, is_further || was_further);
		for (start = r->at += k.indent; !yaml_is_end(yaml_peek(r, 0)); r->at++)
			;
		buf_add(&b, r->text.p + start, r->at - start);
		was_further = is_further;
		is_first = false;
		empty = 0;
	}
	if (b.n > 0 && !k.strips)
		buf_add_char(&b, '\n');
	for (size_t i = 0; k.keeps && i < empty; i++)
		buf_add_char(&b, '\n');
	return text_of(r, &b);
}

/* ---- flow collections ------------------------------------------------------------------------------------ */

static struct json *flow_value(struct yaml_reader *r)
{
	char c = yaml_peek(r, 0);

	if (c == '[' || c == '{')
		return yaml_flow(r);
	if (c == '"' || c == '\'')
		return yaml_quoted(r);
	if (c == '&' || c == '*' || c == '!' || c == '%' || c == '@' || c == '`')
		return (void)yaml_fail(r, "a value cannot begin with this character; put it in quotes"), NULL;
	return resolve(r, take_plain_line(r, true));
}

/* "key: value" of an object; without a colon the value is null. */
static int flow_pair(struct yaml_reader *r, struct json *object)
{
	bool is_quoted = yaml_peek(r, 0) == '"' || yaml_peek(r, 0) == '\'';
	struct json *key = is_quoted ? yaml_quoted(r) : NULL, *v;
	struct str name;

	if (is_quoted && !key)
		return -1;
	name = is_quoted ? key->s : take_plain_line(r, true);
	if (!is_quoted && name.n == 0)
		return yaml_fail(r, "expected a key");
	(void)yaml_skip(r);
	if (yaml_peek(r, 0) == ':') {
		r->at++;
		(void)yaml_skip(r);
		v = yaml_peek(r, 0) == ',' || yaml_peek(r, 0) == '}' ? yaml_value(r, JSON_NULL) : flow_value(r);
	} else {
		v = yaml_value(r, JSON_NULL);
	}
	return v ? yaml_put(r, object, name, v) : -1;
}

static int flow_item(struct yaml_reader *r, struct json *list)
{
	struct json *v = flow_value(r);

	if (!v)
		return -1;
	json_append(list, v);
	return 0;
}

struct json *yaml_flow(struct yaml_reader *r)
{
	bool is_object = yaml_peek(r, 0) == '{';
	char close = is_object ? '}' : ']';
	struct json *v = yaml_value(r, is_object ? JSON_OBJECT : JSON_ARRAY);

	if (!v || ++r->depth > YAML_DEPTH_MAX)
		return v ? (void)yaml_fail(r, "nested too deeply") : (void)0, NULL;
	r->at++;
	while (yaml_skip(r) && yaml_peek(r, 0) != close) {
		if ((is_object ? flow_pair : flow_item)(r, v) < 0)
			return NULL;
		if (!yaml_skip(r))
			break;
		if (yaml_peek(r, 0) != ',' && yaml_peek(r, 0) != close)
			return (void)yaml_fail(r, "expected ',' or the end of the collection"), NULL;
		if (yaml_peek(r, 0) == ',')
			r->at++;
	}
	if (yaml_peek(r, 0) != close)
		return (void)yaml_fail(r, "a bracket is not closed"), NULL;
	r->at++;
	r->depth--;
	return v;
}
