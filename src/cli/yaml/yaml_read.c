// SPDX-License-Identifier: Apache-2.0
/* A reader that goes over the text once. A node is read with the cursor on its first character; its column is what tells where
 * a block collection ends. Scalars are in yaml_scalar.c. */
#include "cli/yaml/yaml_read.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/json.h"
#include "cli/yaml/yaml_impl.h"

#include "base/banned.h"

#define VALUES_MAX 10000 /* keys are compared with each other */

int yaml_fail(struct yaml_reader *r, const char *what)
{
	return err_set(r->e, ERR_INVALID, "line %u: %s", r->line, what);
}

struct json *yaml_value(struct yaml_reader *r, enum json_type type)
{
	struct json *v = r->values < VALUES_MAX ? arena_alloc(r->arena, sizeof(*v)) : NULL;

	if (!v)
		return (void)err_set(r->e, ERR_LIMIT, "line %u: the document is too large", r->line), NULL;
	r->values++;
	v->type = type;
	return v;
}

/* ---- the cursor ------------------------------------------------------------------------------------------ */

char yaml_peek(const struct yaml_reader *r, size_t ahead)
{
	return r->at + ahead < r->text.n ? r->text.p[r->at + ahead] : '\0';
}

bool yaml_is_end(char c)
{
	return c == '\0' || c == '\n' || c == '\r';
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || yaml_is_end(c);
}

void yaml_next_line(struct yaml_reader *r)
{
	while (r->at < r->text.n && r->text.p[r->at] != '\n')
		r->at++;
	if (r->at < r->text.n)
		r->at++;
	r->line++;
	r->line_start = r->at;
}

static unsigned column(const struct yaml_reader *r)
{
	return (unsigned)(r->at - r->line_start);
}

void yaml_skip_blanks(struct yaml_reader *r)
{
	while (yaml_peek(r, 0) == ' ' || yaml_peek(r, 0) == '\t')
		r->at++;
}

static bool is_comment(const struct yaml_reader *r)
{
	return yaml_peek(r, 0) == '#' && (r->at == r->line_start || is_space(r->text.p[r->at - 1]));
}

/* To the next character that says something, perhaps on another line; false at the end. */
bool yaml_skip(struct yaml_reader *r)
{
	for (;;) {
		yaml_skip_blanks(r);
		if (r->at >= r->text.n)
			return false;
		if (!yaml_is_end(yaml_peek(r, 0)) && !is_comment(r))
			return true;
		yaml_next_line(r);
	}
}

/* Nothing but a comment follows on this line. */
static bool is_line_over(struct yaml_reader *r)
{
	yaml_skip_blanks(r);
	return yaml_is_end(yaml_peek(r, 0)) || is_comment(r);
}

static bool is_indented_by_tab(const struct yaml_reader *r)
{
	return memchr(r->text.p + r->line_start, '\t', r->at - r->line_start) != NULL;
}

static bool is_dash(const struct yaml_reader *r)
{
	return yaml_peek(r, 0) == '-' && is_space(yaml_peek(r, 1));
}

/* A line that ends the document. */
static bool is_marker(const struct yaml_reader *r)
{
	struct str rest = str_skip(r->text, r->at);

	return r->at == r->line_start && (str_starts(rest, STR("---")) || str_starts(rest, STR("..."))) && is_space(yaml_peek(r, 3));
}

/* ---- keys ------------------------------------------------------------------------------------------------ */

static size_t skip_quoted(const struct yaml_reader *r, char quote)
{
	size_t n = 1;

	while (!yaml_is_end(yaml_peek(r, n)) && yaml_peek(r, n) != quote)
		n += quote == '"' && yaml_peek(r, n) == '\\' && !yaml_is_end(yaml_peek(r, n + 1)) ? 2 : 1;
	return n + 1;
}

/* What is here is a key: a scalar on this line with a colon behind it. */
static bool is_key(const struct yaml_reader *r)
{
	char first = yaml_peek(r, 0);
	size_t n = 0;

	if (first == '"' || first == '\'') {
		n = skip_quoted(r, first);
		while (yaml_peek(r, n) == ' ')
			n++;
		return yaml_peek(r, n) == ':' && is_space(yaml_peek(r, n + 1));
	}
	if (first == '[' || first == '{')
		return false;
	for (; !yaml_is_end(yaml_peek(r, n)); n++) {
		if (yaml_peek(r, n) == ':' && is_space(yaml_peek(r, n + 1)))
			return true;
		if (yaml_peek(r, n) == '#' && n > 0 && yaml_peek(r, n - 1) == ' ')
			return false;
	}
	return false;
}

static int read_key(struct yaml_reader *r, struct str *ret)
{
	char first = yaml_peek(r, 0);
	struct json *v;
	size_t n = 0;

	if (first == '"' || first == '\'') {
		v = yaml_quoted(r);
		if (!v)
			return -1;
		*ret = v->s;
	} else {
		while (yaml_peek(r, n) != ':' || !is_space(yaml_peek(r, n + 1)))
			n++;
		*ret = str_trim((struct str){ r->text.p + r->at, n });
		r->at += n;
	}
	yaml_skip_blanks(r);
	r->at++; /* the colon */
	return 0;
}

static bool has_key(const struct json *object, struct str key)
{
	for (const struct json *v = json_first(object); v; v = v->next)
		if (str_eq(v->key, key))
			return true;
	return false;
}

int yaml_put(struct yaml_reader *r, struct json *object, struct str key, struct json *v)
{
	if (has_key(object, key))
		return err_set(r->e, ERR_INVALID, "line %u: key '%s' is there twice", r->line, SHOWN(key));
	v->key = key;
	json_append(object, v);
	return 0;
}

/* ---- blocks ---------------------------------------------------------------------------------------------- */

static struct json *read_node(struct yaml_reader *r, unsigned parent, bool is_inline);

/* What stands behind "key:" or "- " of a collection at column PARENT: on the same line, or below and further in. A list may
 * stand right below its key. */
static struct json *read_value(struct yaml_reader *r, unsigned parent, bool is_in_object)
{
	if (!is_line_over(r))
		return read_node(r, parent, is_in_object);
	if (!yaml_skip(r) || column(r) < parent || (column(r) == parent && !(is_in_object && is_dash(r))))
		return yaml_value(r, JSON_NULL);
	return read_node(r, parent, false);
}

static struct json *read_list(struct yaml_reader *r)
{
	struct json *list = yaml_value(r, JSON_ARRAY);
	unsigned at = column(r);

	while (list && yaml_skip(r) && column(r) == at && is_dash(r)) {
		struct json *v;

		r->at++;
		v = read_value(r, at, false);
		if (!v)
			return NULL;
		json_append(list, v);
	}
	return list;
}

static struct json *read_object(struct yaml_reader *r)
{
	struct json *object = yaml_value(r, JSON_OBJECT);
	unsigned at = column(r);

	while (object && yaml_skip(r) && column(r) == at && !is_dash(r) && !is_marker(r)) {
		struct json *v;
		struct str key;

		if (!is_key(r))
			return (void)yaml_fail(r, "expected 'key: value'"), NULL;
		if (read_key(r, &key) < 0)
			return NULL;
		v = read_value(r, at, true);
		if (!v || yaml_put(r, object, key, v) < 0)
			return NULL;
	}
	return object;
}

static const char *refusal(const struct yaml_reader *r)
{
	char c = yaml_peek(r, 0);

	if (c == '&' || c == '*')
		return "anchors and aliases are not supported";
	if (c == '!')
		return "tags are not supported";
	if (c == '%' || c == '@' || c == '`')
		return "a value cannot begin with this character; put it in quotes";
	if (c == '?' && is_space(yaml_peek(r, 1)))
		return "complex keys are not supported";
	if (is_indented_by_tab(r))
		return "tabs cannot be used to indent";
	return NULL;
}

/* IS_INLINE: behind a key on its line, where no other key may follow. */
static struct json *read_any(struct yaml_reader *r, unsigned parent, bool is_inline)
{
	char c = yaml_peek(r, 0);
	struct json *v;

	if (c == '|' || c == '>')
		return yaml_block(r, parent);
	if (is_dash(r))
		return is_inline ? ((void)yaml_fail(r, "a list cannot begin on the line of its key"), NULL) : read_list(r);
	if (is_key(r))
		return is_inline ? ((void)yaml_fail(r, "a value with ': ' in it must be in quotes"), NULL) : read_object(r);
	if (c == '[' || c == '{')
		v = yaml_flow(r);
	else
		v = c == '"' || c == '\'' ? yaml_quoted(r) : yaml_plain(r, parent);
	if (v && !is_line_over(r))
		return (void)yaml_fail(r, "something follows the value"), NULL;
	return v;
}

static struct json *read_node(struct yaml_reader *r, unsigned parent, bool is_inline)
{
	const char *why = refusal(r);
	struct json *v;

	if (why)
		return (void)yaml_fail(r, why), NULL;
	if (++r->depth > YAML_DEPTH_MAX)
		return (void)yaml_fail(r, "nested too deeply"), NULL;
	v = read_any(r, parent, is_inline);
	r->depth--;
	return v;
}

/* ---- the document ---------------------------------------------------------------------------------------- */

static bool take_marker(struct yaml_reader *r, const char *marker)
{
	bool is_here = is_marker(r) && str_starts(str_skip(r->text, r->at), str_of(marker));

	if (is_here)
		r->at += 3;
	return is_here;
}

struct json *yaml_parse(struct arena *a, struct str text, struct err *e)
{
	struct yaml_reader r = { .arena = a, .text = text, .line = 1, .e = e };
	struct json *v;

	if (text.n > YAML_TEXT_MAX)
		return (void)err_set(e, ERR_LIMIT, "longer than %zu bytes", YAML_TEXT_MAX), NULL;
	if (!utf8_valid(text) || (text.n > 0 && memchr(text.p, '\0', text.n)))
		return (void)err_set(e, ERR_INVALID, "it is no text in UTF-8"), NULL;
	if (yaml_skip(&r) && take_marker(&r, "---"))
		(void)yaml_skip(&r);
	v = r.at < text.n ? read_node(&r, 0, false) : yaml_value(&r, JSON_NULL);
	if (v && yaml_skip(&r) && take_marker(&r, "..."))
		(void)yaml_skip(&r);
	if (v && r.at < text.n)
		return (void)yaml_fail(&r, "expected the end of the document"), NULL;
	return v;
}
