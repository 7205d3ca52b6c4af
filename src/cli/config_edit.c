// SPDX-License-Identifier: Apache-2.0
#include "cli/config_edit.h"

#include "base/buf.h"

#include "base/banned.h"

const char config_template[] = "# Settings of osb. What an option or the environment says outranks them.\n"
			       "\n"
			       "[connection]\n"
			       "# api_key = \"the server's key\"\n"
			       "# domain = \"localhost:8080\"\n"
			       "# protocol = \"http\"\n"
			       "# request_timeout = 30\n"
			       "# use_server_proxy = false\n"
			       "\n"
			       "[output]\n"
			       "# color = true\n"
			       "\n"
			       "[defaults]\n"
			       "# image = \"python:3.11\"\n"
			       "# timeout = \"10m\"  # or \"none\": until it is killed\n";

/* ---- values ---------------------------------------------------------------------------------------------- */

static bool is_text_key(struct str section, struct str field)
{
	static const char *const keys[][2] = { { "connection", "api_key" }, { "connection", "domain" }, { "connection", "protocol" },
					       { "defaults", "image" },     { "defaults", "timeout" } };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (str_is(section, keys[i][0]) && str_is(field, keys[i][1]))
			return true;
	return false;
}

static size_t count_digits(struct str s)
{
	size_t n = 0;

	while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
		n++;
	return n;
}

/* An integer or a real number as TOML has them: no zeros in front, digits on both sides of a point. */
static bool is_number(struct str s)
{
	size_t n;

	if (s.n > 0 && (s.p[0] == '-' || s.p[0] == '+'))
		s = str_skip(s, 1);
	n = count_digits(s);
	if (n == 0 || (n > 1 && s.p[0] == '0'))
		return false;
	s = str_skip(s, n);
	if (s.n > 0 && s.p[0] == '.') {
		n = count_digits(str_skip(s, 1));
		if (n == 0)
			return false;
		s = str_skip(s, n + 1);
	}
	return s.n == 0;
}

static void add_quoted(struct buf *out, struct str s)
{
	buf_add_char(out, '"');
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c == '"' || c == '\\')
			buf_addf(out, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			buf_addf(out, "\\u%04X", c);
		else
			buf_add_char(out, (char)c);
	}
	buf_add_char(out, '"');
}

static void add_line(struct buf *out, struct str section, struct str field, struct str value)
{
	bool is_true = str_eq_nocase(value, STR("true")), is_false = str_eq_nocase(value, STR("false"));

	buf_addf(out, "%.*s = ", STR_ARG(field));
	if (is_text_key(section, field))
		add_quoted(out, value);
	else if (is_true || is_false)
		buf_addf(out, "%s", is_true ? "true" : "false");
	else if (is_number(value))
		buf_add_str(out, value);
	else
		add_quoted(out, value);
	buf_add_char(out, '\n');
}

/* ---- lines ----------------------------------------------------------------------------------------------- */

static bool is_header(struct str line)
{
	return str_starts(str_trim(line), STR("["));
}

static bool is_header_of(struct str line, struct str section)
{
	struct str s = str_trim(line), rest;

	if (!str_starts(s, STR("[")) || str_starts(s, STR("[[")) || !str_cut(str_skip(s, 1), ']', &s, &rest))
		return false;
	return str_eq(str_trim(s), section);
}

static bool sets(struct str line, struct str field)
{
	struct str s = str_trim(line), key, value;

	if (str_starts(s, STR("#")))
		s = str_trim(str_skip(s, 1));
	return str_cut(s, '=', &key, &value) && str_eq(str_trim(key), field);
}

/* The next line with its end; empty when there is none. */
static struct str take_line(struct str *text)
{
	const char *end = text->n > 0 ? memchr(text->p, '\n', text->n) : NULL;
	struct str line = end ? str_first(*text, (size_t)(end - text->p) + 1) : *text;

	*text = str_skip(*text, line.n);
	return line;
}

/* Where the new line goes, and how many bytes it replaces. */
struct place {
	bool has_section, has_line;
	size_t at, n;
};

static struct place find_place(struct str text, struct str section, struct str field)
{
	struct str rest = text;
	struct place p = { 0 };
	bool is_inside = false;

	while (rest.n > 0 && !p.has_line) {
		struct str line = take_line(&rest);
		size_t end = text.n - rest.n;

		if (is_header(line)) {
			is_inside = !p.has_section && is_header_of(line, section);
			p.has_section = p.has_section || is_inside;
		}
		if (is_inside && sets(line, field))
			p = (struct place){ true, true, end - line.n, line.n };
		else if (is_inside && str_trim(line).n > 0)
			p.at = end; /* behind the last line of the section that says something */
	}
	return p;
}

void config_edit(struct str text, struct str section, struct str field, struct str value, struct buf *out)
{
	struct place p = find_place(text, section, field);

	if (!p.has_section)
		p.at = text.n;
	buf_add_str(out, str_first(text, p.at));
	if (out->n > 0 && out->p[out->n - 1] != '\n')
		buf_add_char(out, '\n');
	if (!p.has_section)
		buf_addf(out, "%s[%.*s]\n", text.n > 0 ? "\n" : "", STR_ARG(section));
	add_line(out, section, field, value);
	buf_add_str(out, str_skip(text, p.at + p.n));
}
