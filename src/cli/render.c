// SPDX-License-Identifier: Apache-2.0
#include "cli/render.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/json_out.h"

#include "base/banned.h"

const char *render_sgr(bool is_ansi, enum render_color color)
{
	static const char *const codes[] = {
		[RENDER_PLAIN] = "\033[0m",          [RENDER_BOLD] = "\033[1m",
		[RENDER_DIM] = "\033[2m",            [RENDER_BOLD_RED] = "\033[1;31m",
		[RENDER_BOLD_GREEN] = "\033[1;32m",  [RENDER_BOLD_YELLOW] = "\033[1;33m",
		[RENDER_BOLD_BLUE] = "\033[1;34m",   [RENDER_BOLD_MAGENTA] = "\033[1;35m",
		[RENDER_BOLD_CYAN] = "\033[1;36m",   [RENDER_CYAN] = "\033[36m",
		[RENDER_GREY] = "\033[90m",
	};

	return is_ansi ? codes[color] : "";
}

/* ---- texts ----------------------------------------------------------------------------------------------- */

struct range {
	uint32_t first, last;
};

static bool is_in(const struct range *r, size_t n, uint32_t rune)
{
	for (size_t i = 0; i < n; i++)
		if (rune >= r[i].first && rune <= r[i].last)
			return true;
	return false;
}

/* Roughly as terminals do it: East Asian scripts and pictures are wide, marks that join what stands before them take no room. */
static size_t rune_width(uint32_t rune)
{
	static const struct range none[] = { { 0x300, 0x36f }, { 0x200b, 0x200f }, { 0x20d0, 0x20ff }, { 0xfe00, 0xfe0f } };
	static const struct range wide[] = {
		{ 0x1100, 0x115f }, { 0x2e80, 0xa4cf }, { 0xac00, 0xd7a3 }, { 0xf900, 0xfaff }, { 0xfe30, 0xfe6f },
		{ 0xff00, 0xff60 }, { 0xffe0, 0xffe6 }, { 0x1f300, 0x1faff }, { 0x20000, 0x3fffd },
	};

	if (rune < 0x300)
		return 1;
	if (is_in(none, sizeof(none) / sizeof(none[0]), rune))
		return 0;
	return is_in(wide, sizeof(wide) / sizeof(wide[0]), rune) ? 2 : 1;
}

size_t render_width(struct str text)
{
	size_t width = 0;

	while (text.n > 0) {
		uint32_t rune = 0;
		size_t n = utf8_next(text, &rune);

		width += rune_width(rune);
		text = str_skip(text, n > 0 ? n : 1);
	}
	return width;
}

void render_text(struct str text, struct buf *out)
{
	while (text.n > 0) {
		char escape[ESCAPE_SIZE];
		size_t n = 1;
		bool is_plain = text.p[0] == '\n' || text.p[0] == '\t' || text.p[0] == '"' || text.p[0] == '\\';

		if (is_plain)
			buf_add_char(out, text.p[0]);
		else
			buf_add_str(out, escape_next(text, escape, &n));
		text = str_skip(text, n);
	}
}

void render_value(const struct json *v, struct buf *out)
{
	if (!v || v->type == JSON_NULL)
		buf_add_char(out, '-');
	else if (v->type == JSON_STRING)
		render_text(v->s, out);
	else
		render_json_line(v, out);
}

/* ---- JSON ------------------------------------------------------------------------------------------------ */

static void add_u16(struct buf *out, uint32_t unit)
{
	buf_addf(out, "\\u%04" PRIx32, unit);
}

static void add_escaped(struct buf *out, uint32_t rune)
{
	if (rune >= 0x10000) {
		add_u16(out, 0xd800 + ((rune - 0x10000) >> 10));
		add_u16(out, 0xdc00 + ((rune - 0x10000) & 0x3ff));
	} else {
		add_u16(out, rune);
	}
}

static char short_escape(uint32_t rune)
{
	switch (rune) {
	case '"':
	case '\\':
		return (char)rune;
	case '\n':
		return 'n';
	case '\r':
		return 'r';
	case '\t':
		return 't';
	case '\b':
		return 'b';
	case '\f':
		return 'f';
	default:
		return '\0';
	}
}

static void json_string(struct buf *out, struct str s, bool is_ascii)
{
	buf_add_char(out, '"');
	while (s.n > 0) {
		uint32_t rune = 0xfffd;
		size_t n = utf8_next(s, &rune);
		char c = short_escape(rune);

		if (c)
			buf_addf(out, "\\%c", c);
		else if (n == 0 || rune < 0x20 || (is_ascii && rune >= 0x7f) || (rune >= 0x7f && escape_needed(rune)))
			add_escaped(out, rune);
		else
			buf_add(out, s.p, n);
		s = str_skip(s, n > 0 ? n : 1);
	}
	buf_add_char(out, '"');
}

static void json_scalar(struct buf *out, const struct json *v, bool is_ascii)
{
	struct json_out o = json_out(out);

	if (v->type == JSON_STRING)
		json_string(out, v->s, is_ascii);
	else
		json_tree(&o, v);
}

struct json_form {
	bool is_ansi, is_ascii, is_line;
};

static enum render_color scalar_color(const struct json *v)
{
	if (v->type == JSON_STRING)
		return RENDER_CYAN;
	return v->type == JSON_NULL ? RENDER_DIM : RENDER_BOLD_CYAN;
}

static void json_break(struct buf *out, const struct json_form *f, unsigned depth, bool is_first)
{
	if (!is_first)
		buf_add_char(out, ',');
	if (f->is_line)
		buf_addf(out, "%s", is_first ? "" : " ");
	else
		buf_addf(out, "\n%*s", (int)(2 * depth), "");
}

static void json_write(struct buf *out, const struct json *v, const struct json_form *f, unsigned depth)
{
	bool is_object = v->type == JSON_OBJECT;

	if (!is_object && v->type != JSON_ARRAY) {
		buf_addf(out, "%s", render_sgr(f->is_ansi, scalar_color(v)));
		json_scalar(out, v, f->is_ascii);
		buf_addf(out, "%s", render_sgr(f->is_ansi, RENDER_PLAIN));
		return;
	}
	if (depth >= JSON_TREE_DEPTH_MAX) {
		out->failed = true;
		return;
	}
	buf_add_char(out, is_object ? '{' : '[');
	for (const struct json *kid = json_first(v); kid; kid = kid->next) {
		json_break(out, f, depth + 1, kid == json_first(v));
		if (is_object) {
			buf_addf(out, "%s", render_sgr(f->is_ansi, RENDER_BOLD_BLUE));
			json_string(out, kid->key, f->is_ascii);
			buf_addf(out, "%s: ", render_sgr(f->is_ansi, RENDER_PLAIN));
		}
		json_write(out, kid, f, depth + 1);
	}
	if (json_first(v) && !f->is_line)
		buf_addf(out, "\n%*s", (int)(2 * depth), "");
	buf_add_char(out, is_object ? '}' : ']');
}

void render_json(const struct json *v, const struct render_style *style, struct buf *out)
{
	json_write(out, v, &(struct json_form){ .is_ansi = style->is_ansi, .is_ascii = style->is_ascii }, 0);
}

void render_json_line(const struct json *v, struct buf *out)
{
	json_write(out, v, &(struct json_form){ .is_line = true }, 0);
}
