// SPDX-License-Identifier: Apache-2.0
/* cli/render.h - formats a document tree as table, JSON or YAML. Pure: the output goes to a buf.
 *
 * Texts come from servers and sandboxes: control sequences are escaped in every format. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct buf;
struct json;

struct render_style {
	bool is_ansi;   /* colours */
	bool is_ascii;  /* of JSON: "\u00e9" instead of the character */
	unsigned width; /* columns that a table may take; 0: as many as it needs */
};

/* Two blanks per level, keys in the tree's order; no line end after the last line. */
void render_json(const struct json *v, const struct render_style *style, struct buf *out);
void render_json_line(const struct json *v, struct buf *out); /* ", " and ": " between, as Python writes it */

/* Block style, keys sorted, strings quoted where YAML 1.1 would read something else; lines end with "\n". */
void render_yaml(const struct json *v, struct buf *out);

/* Tables with rounded borders and a line end after the last line. COLUMNS: keys of the objects in ROWS, ended
 * by NULL; TITLE may be NULL. What is missing or null is "-". */
void render_rows(const struct json *rows, const char *const *columns, const char *title,
		 const struct render_style *style,
		 struct buf *out);
void render_dict(const struct json *object, const char *title, const struct render_style *style,
		 struct buf *out);

/* Text in a frame with a title. */
void render_panel(struct str text, const char *title, const struct render_style *style, struct buf *out);

/* A value as a cell shows it: text as it is, "-" for null, JSON for arrays and objects. */
void render_value(const struct json *v, struct buf *out);

/* Foreign text with what a terminal would obey escaped; line ends stay. */
void render_text(struct str text, struct buf *out);

/* Columns that TEXT takes on a terminal. */
size_t render_width(struct str text);

/* Which styles there are: render_sgr(RENDER_BOLD_RED) is "\033[1;31m", or "" without ansi. */
enum render_color {
	RENDER_PLAIN,
	RENDER_BOLD,
	RENDER_DIM,
	RENDER_BOLD_RED,
	RENDER_BOLD_GREEN,
	RENDER_BOLD_YELLOW,
	RENDER_BOLD_BLUE,
	RENDER_BOLD_MAGENTA,
	RENDER_BOLD_CYAN,
	RENDER_CYAN,
	RENDER_GREY,
};
const char *render_sgr(bool is_ansi, enum render_color color);
