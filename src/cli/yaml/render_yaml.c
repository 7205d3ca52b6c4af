// SPDX-License-Identifier: Apache-2.0
/* YAML in block style. Which form a string takes, and where a long one is folded, follows the emitter that the scripts of our
 * users grew up with (PyYAML at its defaults), so that a comparison of texts sees no difference. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/json_out.h"
#include "cli/render.h"
#include "cli/yaml/yaml_plain.h"

#include "base/banned.h"

#define FOLD_COLUMN 80
#define INDENT 2

struct yaml {
	struct buf *out;
	bool is_key; /* what is written must stay on its line */
};

static size_t column(const struct yaml *y)
{
	size_t n = 0;

	for (size_t i = y->out->n; i > 0 && y->out->p[i - 1] != '\n'; i--)
		n += ((unsigned char)y->out->p[i - 1] & 0xc0) != 0x80; /* characters, not bytes */
	return n;
}

static void new_line(struct yaml *y, unsigned indent)
{
	buf_addf(y->out, "\n%*s", (int)indent, "");
}

/* A single blank after FOLD_COLUMN is where a line may be broken. */
static bool may_fold(const struct yaml *y, struct str s, size_t i)
{
	bool is_single = s.p[i] == ' ' && i > 0 && i + 1 < s.n && s.p[i - 1] != ' ' && s.p[i + 1] != ' ';

	return is_single && !y->is_key && s.p[i - 1] != '\n' && s.p[i + 1] != '\n' && column(y) > FOLD_COLUMN;
}

static void write_plain(struct yaml *y, struct str s, unsigned indent)
{
	for (size_t i = 0; i < s.n; i++) {
		if (may_fold(y, s, i))
			new_line(y, indent);
		else
			buf_add_char(y->out, s.p[i]);
	}
}

/* In quotes a lone line end reads as a blank: each run of them is written with one more. */
static void write_single(struct yaml *y, struct str s, unsigned indent)
{
	buf_add_char(y->out, '\'');
	for (size_t i = 0; i < s.n; i++) {
		bool is_break = s.p[i] == '\n';

		if (may_fold(y, s, i)) {
			new_line(y, indent);
		} else if (is_break) {
			if (i == 0 || s.p[i - 1] != '\n')
				buf_add_char(y->out, '\n');
			buf_add_char(y->out, '\n');
			if (i + 1 == s.n || s.p[i + 1] != '\n')
				buf_addf(y->out, "%*s", (int)indent, "");
		} else {
			if (s.p[i] == '\'')
				buf_add_char(y->out, '\'');
			buf_add_char(y->out, s.p[i]);
		}
	}
	buf_add_char(y->out, '\'');
}

static void write_escape(struct buf *out, uint32_t rune)
{
	static const struct {
		uint32_t rune;
		char c;
	} known[] = { { 0, '0' }, { 7, 'a' }, { 8, 'b' }, { 9, 't' }, { 10, 'n' }, { 11, 'v' }, { 12, 'f' }, { 13, 'r' }, { 27, 'e' },
		      { '"', '"' }, { '\\', '\\' }, { 0x85, 'N' }, { 0xa0, '_' }, { 0x2028, 'L' }, { 0x2029, 'P' } };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (known[i].rune == rune) {
			buf_addf(out, "\\%c", known[i].c);
			return;
		}
	if (rune <= 0xff)
		buf_addf(out, "\\x%02" PRIX32, rune);
	else if (rune <= 0xffff)
		buf_addf(out, "\\u%04" PRIX32, rune);
	else
		buf_addf(out, "\\U%08" PRIX32, rune);
}

/* A backslash at the end of a line joins it with the next one, and one before a blank there keeps the blank. */
static void fold_double(struct yaml *y, struct str rest, unsigned indent)
{
	buf_add_char(y->out, '\\');
	new_line(y, indent);
	if (rest.n > 0 && rest.p[0] == ' ')
		buf_add_char(y->out, '\\');
}

static void write_double(struct yaml *y, struct str s, unsigned indent)
{
	bool is_first = true;

	buf_add_char(y->out, '"');
	while (s.n > 0) {
		uint32_t rune = 0xfffd;
		size_t n = MAX(utf8_next(s, &rune), (size_t)1);
		bool is_escaped = rune == '"' || rune == '\\' || !yaml_is_printable(rune);
		bool may_break = !is_first && s.n > n && !y->is_key;

		if (rune == ' ' && may_break && column(y) > FOLD_COLUMN)
			fold_double(y, s, indent);
		if (is_escaped)
			write_escape(y->out, rune);
		else
			buf_add(y->out, s.p, n);
		s = str_skip(s, n);
		if (is_escaped && may_break && column(y) > FOLD_COLUMN + 1)
			fold_double(y, s, indent);
		is_first = false;
	}
	buf_add_char(y->out, '"');
}

static void write_string(struct yaml *y, struct str s, unsigned indent)
{
	enum yaml_form form = yaml_form(s, y->is_key);

	if (form == YAML_PLAIN)
		write_plain(y, s, indent);
	else if (form == YAML_SINGLE)
		write_single(y, s, indent);
	else
		write_double(y, s, indent);
}

static void write_node(struct yaml *y, const struct json *v, unsigned indent, unsigned depth);

static int compare_keys(const void *a, const void *b)
{
	const struct json *x = *(const struct json *const *)a, *z = *(const struct json *const *)b;
	int order = memcmp(x->key.p, z->key.p, MIN(x->key.n, z->key.n));

	return order != 0 ? order : (x->key.n > z->key.n) - (x->key.n < z->key.n);
}

/* True: the value follows on lines of its own. */
static bool is_block(const struct json *v)
{
	return json_first(v) != NULL;
}

/* The text so far ends where the first key belongs. */
static void write_object(struct yaml *y, const struct json *v, unsigned indent, unsigned depth)
{
	AUTO(free) const struct json **kids = reallocarray(NULL, v->kids.n, sizeof(struct json *));
	size_t n = 0;

	if (!kids) {
		y->out->failed = true;
		return;
	}
	for (const struct json *kid = json_first(v); kid; kid = kid->next)
		kids[n++] = kid;
	qsort(kids, n, sizeof(struct json *), compare_keys);
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			new_line(y, indent);
		y->is_key = true;
		write_string(y, kids[i]->key, indent);
		y->is_key = false;
		buf_add_char(y->out, ':');
		if (!is_block(kids[i]))
			buf_add_char(y->out, ' ');
		else
			new_line(y, kids[i]->type == JSON_OBJECT ? indent + INDENT : indent); /* lists are not moved in */
		write_node(y, kids[i], kids[i]->type == JSON_ARRAY ? indent : indent + INDENT, depth + 1);
	}
}

static void write_array(struct yaml *y, const struct json *v, unsigned indent, unsigned depth)
{
	for (const struct json *kid = json_first(v); kid; kid = kid->next) {
		if (kid != json_first(v))
			new_line(y, indent);
		buf_addf(y->out, "- ");
		write_node(y, kid, indent + INDENT, depth + 1);
	}
}

/* YAML 1.1 knows a number with an exponent by its point. */
static void write_real(struct yaml *y, const struct json *v)
{
	AUTO(buf_done) struct buf b = BUF_INIT(JSON_NUMBER_MAX);
	struct json_out o = json_out(&b);
	struct str head, tail;

	json_tree(&o, v);
	if (!memchr(buf_z(&b), '.', b.n) && str_cut(buf_str(&b), 'e', &head, &tail))
		buf_addf(y->out, "%.*s.0e%.*s", STR_ARG(head), STR_ARG(tail));
	else
		buf_add_str(y->out, buf_str(&b));
}

static void write_node(struct yaml *y, const struct json *v, unsigned indent, unsigned depth)
{
	struct json_out o = json_out(y->out);

	if (depth >= JSON_TREE_DEPTH_MAX)
		y->out->failed = true;
	else if (v->type == JSON_STRING)
		write_string(y, v->s, indent);
	else if (v->type == JSON_REAL)
		write_real(y, v);
	else if (v->type == JSON_OBJECT && is_block(v))
		write_object(y, v, indent, depth);
	else if (v->type == JSON_ARRAY && is_block(v))
		write_array(y, v, indent, depth);
	else
		json_tree(&o, v);
}

void render_yaml(const struct json *v, struct buf *out)
{
	struct yaml y = { .out = out };

	write_node(&y, v, 0, 0);
	buf_add_char(out, '\n');
}
