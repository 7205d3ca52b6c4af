// SPDX-License-Identifier: Apache-2.0
#include "base/toml.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/toml_private.h"

#include "base/banned.h"

/* ---- messages ------------------------------------------------------------------------------------------ */

#define TEXT_MAX 400 /* of a message without its line; what is longer is cut */

int toml_fail_as(struct toml *t, enum err_code code, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(t->e, code, "line %u: %s", t->line, text);
}

/* Punctuation is shown; a letter or digit is where a value goes on that has no quotes. */
static bool is_shown(char c)
{
	return c >= ' ' && c < 0x7f && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z');
}

int toml_fail_expected(struct toml *t, const char *what)
{
	if (t->at == t->end)
		return toml_fail(t, "expected %s, found the end of the file", what);
	if (toml_at_newline(t))
		return toml_fail(t, "expected %s, found the end of the line", what);
	if (*t->at == '#')
		return toml_fail(t, "expected %s, found a comment", what);
	if (!is_shown(*t->at))
		return toml_fail(t, "expected %s, found other text", what);
	return toml_fail(t, "expected %s, found '%c'", what, *t->at);
}

/* ---- blanks and lines ---------------------------------------------------------------------------------- */

static void skip_blanks(struct toml *t)
{
	while (t->at < t->end && (*t->at == ' ' || *t->at == '\t'))
		t->at++;
}

static bool skip_newline(struct toml *t)
{
	if (!toml_at_newline(t))
		return false;
	t->at += *t->at == '\r' ? 2 : 1;
	t->line++;
	return true;
}

static void skip_comment(struct toml *t)
{
	if (t->at < t->end && *t->at == '#')
		while (t->at < t->end && !toml_at_newline(t))
			t->at++;
}

/* Blanks, comments and line ends: what may stand between the elements of an array. */
static void skip_lines(struct toml *t)
{
	do {
		skip_blanks(t);
		skip_comment(t);
	} while (skip_newline(t));
}

static bool skip_char(struct toml *t, char c)
{
	if (t->at == t->end || *t->at != c)
		return false;
	t->at++;
	return true;
}

/* ---- values -------------------------------------------------------------------------------------------- */

/* parse_value(), parse_array() and parse_inline() call each other; toml_node_new() bounds the depth. */
static struct json *parse_value(struct toml *t, const struct toml_node *parent);

static int parse_elements(struct toml *t, struct toml_node *array)
{
	unsigned opened = t->line;

	for (;;) {
		struct json *v;

		skip_lines(t);
		if (skip_char(t, ']'))
			return 0;
		if (t->at == t->end)
			return toml_fail(t, "expected ']' to close the array of line %u, found the end of the file",
					 opened);
		v = parse_value(t, array);
		if (!v)
			return -1;
		json_append(&array->v, v);
		skip_lines(t);
		if (!skip_char(t, ',') && (t->at == t->end || *t->at != ']'))
			return toml_fail_expected(t, "',' or ']' in an array");
	}
}

static struct json *parse_array(struct toml *t, const struct toml_node *parent)
{
	struct toml_node *array = toml_node_new(t, parent, JSON_ARRAY, TOML_STATIC_ARRAY);

	t->at++;
	return array && parse_elements(t, array) == 0 ? &array->v : NULL;
}

/* key = value, where the key may be dotted, into TABLE. */
static int parse_pair(struct toml *t, struct toml_node *table)
{
	struct json *v;
	struct str key;

	for (;;) {
		if (toml_key(t, &key) < 0)
			return -1;
		skip_blanks(t);
		if (!skip_char(t, '.'))
			break;
		table = toml_walk_dotted(t, table, key);
		if (!table)
			return -1;
		skip_blanks(t);
	}
	if (!skip_char(t, '='))
		return toml_fail_expected(t, "'=' after a key");
	if (toml_check_free(t, table, key) < 0)
		return -1;
	skip_blanks(t);
	v = parse_value(t, table);
	return v ? toml_insert(t, table, key, v) : -1;
}

static int parse_inline_pairs(struct toml *t, struct toml_node *table)
{
	skip_blanks(t);
	if (skip_char(t, '}'))
		return 0;
	for (;;) {
		skip_blanks(t);
		if (parse_pair(t, table) < 0)
			return -1;
		skip_blanks(t);
		if (skip_char(t, '}'))
			return 0;
		if (!skip_char(t, ','))
			return toml_fail_expected(t, "',' or '}' in an inline table");
	}
}

static struct json *parse_inline(struct toml *t, const struct toml_node *parent)
{
	struct toml_node *table = toml_node_new(t, parent, JSON_OBJECT, TOML_INLINE);

	t->at++;
	return table && parse_inline_pairs(t, table) == 0 ? &table->v : NULL;
}

static struct json *parse_string(struct toml *t)
{
	struct json *v = toml_node_scalar(t);

	if (!v)
		return NULL;
	v->type = JSON_STRING;
	return toml_string(t, &v->s) == 0 ? v : NULL;
}

static struct json *parse_value(struct toml *t, const struct toml_node *parent)
{
	struct json *v;

	switch (t->at < t->end ? *t->at : '\0') {
	case '"':
	case '\'':
		return parse_string(t);
	case '[':
		return parse_array(t, parent);
	case '{':
		return parse_inline(t, parent);
	default:
		v = toml_node_scalar(t);
		return v && toml_scalar(t, v) == 0 ? v : NULL;
	}
}

/* ---- statements ---------------------------------------------------------------------------------------- */

/* [a.b] or [[a.b]]: what follows goes into *section. */
static int parse_header(struct toml *t, struct toml_node **section)
{
	struct toml_node *table = t->root;
	bool is_element;
	struct str key;

	t->at++;
	is_element = skip_char(t, '[');
	for (;;) {
		skip_blanks(t);
		if (toml_key(t, &key) < 0)
			return -1;
		skip_blanks(t);
		if (!skip_char(t, '.'))
			break;
		table = toml_walk_header(t, table, key);
		if (!table)
			return -1;
	}
	if (!skip_char(t, ']'))
		return toml_fail_expected(t, "']' after the name of a table");
	if (is_element && !skip_char(t, ']'))
		return toml_fail_expected(t, "']]' after the name of an array of tables");
	table = is_element ? toml_define_element(t, table, key) : toml_define(t, table, key);
	if (!table)
		return -1;
	*section = table;
	return 0;
}

static int parse_document(struct toml *t)
{
	struct toml_node *section = t->root;
	int r;

	for (;;) {
		skip_lines(t);
		if (t->at == t->end)
			return 0;
		r = *t->at == '[' ? parse_header(t, &section) : parse_pair(t, section);
		if (r < 0)
			return -1;
		skip_blanks(t);
		skip_comment(t);
		if (t->at < t->end && !skip_newline(t))
			return toml_fail_expected(t, "the end of the line");
	}
}

/* ---- the text as a whole ------------------------------------------------------------------------------- */

static int check_control(struct toml *t, struct str rest)
{
	unsigned char c = (unsigned char)rest.p[0];

	if (c == '\r' && rest.n > 1 && rest.p[1] == '\n')
		return 0;
	if (c == '\r')
		return toml_fail(t, "carriage return without a line feed");
	return toml_fail(t, "control character 0x%02x is not allowed", c);
}

/* What toml_private.h promises to the rest of the parser. */
static int check_text(struct toml *t)
{
	struct str rest = { t->at, (size_t)(t->end - t->at) };

	while (rest.n > 0) {
		unsigned char c = (unsigned char)rest.p[0];
		uint32_t rune;
		size_t n = 1;

		if (c == '\n')
			t->line++;
		else if ((c < 0x20 && c != '\t') || c == 0x7f) {
			if (check_control(t, rest) < 0)
				return -1;
		} else if (c >= 0x80)
			n = utf8_next(rest, &rune);
		if (n == 0)
			return toml_fail(t, "byte 0x%02x is not part of valid UTF-8", c);
		rest = str_skip(rest, n);
	}
	t->line = 1;
	return 0;
}

struct json *toml_parse(struct arena *a, struct str text, const struct json_limits *limits, unsigned *ret_line,
			struct err *e)
{
	struct toml t = {
		.arena = a,
		.line = 1,
		.depth_max = limits && limits->depth > 0 ? limits->depth : JSON_DEPTH_MAX,
		.values_max = limits && limits->values > 0 ? limits->values : JSON_VALUES_MAX,
		.e = e,
	};
	int r = -1;

	if (limits && limits->bytes > 0 && text.n > limits->bytes) {
		t.line = 0;
		(void)err_set(e, ERR_LIMIT, "larger than %zu bytes", limits->bytes);
	} else {
		if (str_starts(text, STR("\xef\xbb\xbf")))
			text = str_skip(text, 3);
		t.at = text.n > 0 ? text.p : "";
		t.end = t.at + text.n;
		t.root = toml_node_new(&t, NULL, JSON_OBJECT, TOML_HEADER);
		if (t.root && check_text(&t) == 0)
			r = parse_document(&t);
		toml_release(&t);
	}
	if (r < 0 && ret_line)
		*ret_line = t.line;
	return r == 0 ? &t.root->v : NULL;
}
