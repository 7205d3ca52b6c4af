// SPDX-License-Identifier: Apache-2.0
/* Tables: a grid of texts in an arena, the widths of its columns, and lines drawn around it. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "cli/render.h"

#include "base/banned.h"

#define GRID_MAX ((size_t)64 * 1024 * 1024)
#define CELL_MAX ((size_t)1024 * 1024)
#define NARROWEST 8 /* columns that a table does not take from a cell */

struct cell {
	struct str text;
	enum render_color color;
};

struct column {
	size_t width;
	bool is_fixed; /* ids are for copying: they are not broken */
};

struct grid {
	struct arena arena;
	struct column *columns;
	struct cell *cells; /* rows of n_columns; the first row is the head */
	size_t n_columns, n_rows;
	bool has_lines; /* between all rows */
};

static bool is_one_of(const char *const *words, const char *name)
{
	for (; *words; words++)
		if (str_is(str_of(name), *words))
			return true;
	return false;
}

static bool is_id(const char *name)
{
	static const char *const names[] = { "id", "sandbox_id", "execution_id", "context_id", "session_id", "snapshot_id", NULL };

	return is_one_of(names, name);
}

static bool is_date(const char *name)
{
	static const char *const names[] = { "created_at", "expires_at", "modified_at", "updated_at", NULL };

	return is_one_of(names, name);
}

static bool is_status(const char *name)
{
	static const char *const names[] = { "status", "state", "healthy", NULL };

	return is_one_of(names, name);
}

static const struct status {
	const char *word, *icon;
	enum render_color color;
} statuses[] = {
	{ "running", "●", RENDER_BOLD_GREEN },   { "ready", "●", RENDER_BOLD_GREEN },    { "healthy", "●", RENDER_BOLD_GREEN },
	{ "pending", "◐", RENDER_BOLD_YELLOW },  { "creating", "◐", RENDER_BOLD_YELLOW }, { "starting", "◐", RENDER_BOLD_YELLOW },
	{ "paused", "⏸", RENDER_BOLD_BLUE },     { "stopped", "○", RENDER_DIM },         { "terminated", "○", RENDER_DIM },
	{ "killed", "○", RENDER_DIM },           { "error", "✗", RENDER_BOLD_RED },      { "failed", "✗", RENDER_BOLD_RED },
	{ "unhealthy", "✗", RENDER_BOLD_RED },   { "created", "✦", RENDER_BOLD_CYAN },
};

static const struct status *find_status(struct str word)
{
	for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
		if (str_eq_nocase(word, str_of(statuses[i].word)))
			return &statuses[i];
	return NULL;
}

/* ---- cells ----------------------------------------------------------------------------------------------- */

static struct cell make_cell(struct grid *g, const char *name, const struct json *v)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CELL_MAX);
	bool is_missing = !v || v->type == JSON_NULL;
	const struct status *st = !is_missing && is_status(name) && v->type == JSON_STRING ? find_status(v->s) : NULL;
	struct cell c = { .color = RENDER_PLAIN };
	const char *copy;

	if (st)
		buf_addf(&b, "%s ", st->icon);
	render_value(v, &b);
	copy = b.failed ? NULL : arena_dup(&g->arena, buf_str(&b));
	c.text = copy ? (struct str){ copy, b.n } : STR("...");
	if (is_missing || is_date(name))
		c.color = RENDER_DIM;
	else if (is_id(name))
		c.color = RENDER_BOLD_CYAN;
	else if (st)
		c.color = st->color;
	return c;
}

static struct cell head_cell(struct grid *g, const char *name, bool is_upper)
{
	struct cell c = { .text = str_of(name), .color = RENDER_BOLD_MAGENTA };
	char *copy = is_upper ? arena_strndup(&g->arena, name, c.text.n) : NULL;

	for (char *p = copy; p && *p; p++)
		*p = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
	if (copy)
		c.text.p = copy;
	return c;
}

static bool grid_make(struct grid *g, size_t n_rows, size_t n_columns)
{
	*g = (struct grid){ .arena = ARENA_INIT(GRID_MAX), .n_rows = n_rows, .n_columns = n_columns };
	g->columns = arena_array(&g->arena, n_columns, sizeof(*g->columns));
	g->cells = arena_array(&g->arena, n_rows * n_columns, sizeof(*g->cells)); /* both come from trees of bounded size */
	return g->columns && g->cells;
}

/* ---- widths ---------------------------------------------------------------------------------------------- */

static size_t widest_line(struct str text)
{
	size_t widest = 0;
	struct str line;

	while (text.n > 0) {
		(void)str_cut(text, '\n', &line, &text);
		widest = MAX(widest, render_width(line));
	}
	return widest;
}

static size_t total_width(const struct grid *g)
{
	size_t n = g->n_columns + 1;

	for (size_t i = 0; i < g->n_columns; i++)
		n += g->columns[i].width + 2;
	return n;
}

static void grid_measure(struct grid *g, unsigned max)
{
	for (size_t i = 0; i < g->n_rows * g->n_columns; i++) {
		struct column *c = &g->columns[i % g->n_columns];

		c->width = MAX(c->width, widest_line(g->cells[i].text));
	}
	while (max > 0 && total_width(g) > max) {
		struct column *widest = NULL;

		for (size_t i = 0; i < g->n_columns; i++)
			if (!g->columns[i].is_fixed && (!widest || g->columns[i].width > widest->width))
				widest = &g->columns[i];
		if (!widest || widest->width <= NARROWEST)
			break;
		widest->width--;
	}
}

/* ---- drawing --------------------------------------------------------------------------------------------- */

static void draw_rule(const struct grid *g, const char *left, const char *cross, const char *right, bool is_ansi, struct buf *out)
{
	buf_addf(out, "%s%s", render_sgr(is_ansi, RENDER_GREY), left);
	for (size_t i = 0; i < g->n_columns; i++) {
		for (size_t k = 0; k < g->columns[i].width + 2; k++)
			buf_addf(out, "─");
		buf_addf(out, "%s", i + 1 < g->n_columns ? cross : right);
	}
	buf_addf(out, "%s\n", render_sgr(is_ansi, RENDER_PLAIN));
}

/* Takes one line of at most WIDTH columns off *text; it ends at a line end, else at a blank, else where the room ends. */
static struct str take_line(struct str *text, size_t width)
{
	size_t n = 0, used = 0, blank = 0;
	struct str line;

	while (n < text->n && text->p[n] != '\n') {
		uint32_t rune = 0;
		size_t bytes = MAX(utf8_next(str_skip(*text, n), &rune), (size_t)1);
		size_t w = render_width((struct str){ text->p + n, bytes });

		if (used + w > width && n > 0)
			break;
		if (text->p[n] == ' ')
			blank = n;
		used += w;
		n += bytes;
	}
	if (n < text->n && text->p[n] != '\n' && text->p[n] != ' ' && blank > 0)
		n = blank;
	line = str_first(*text, n);
	*text = str_skip(*text, n);
	if (text->n > 0 && (text->p[0] == '\n' || text->p[0] == ' '))
		*text = str_skip(*text, 1);
	return line;
}

static void draw_cell(struct str line, enum render_color color, size_t width, bool is_ansi, struct buf *out)
{
	bool is_colored = is_ansi && color != RENDER_PLAIN && line.n > 0;
	size_t n = render_width(line);

	buf_addf(out, " %s%.*s%s", render_sgr(is_colored, color), STR_ARG(line), render_sgr(is_colored, RENDER_PLAIN));
	buf_addf(out, "%*s ", (int)(n < width ? width - n : 0), "");
}

/* Uses the texts of the row up. */
static void draw_row(struct grid *g, size_t row, bool is_ansi, struct buf *out)
{
	struct cell *cells = g->cells + row * g->n_columns;
	const char *on = render_sgr(is_ansi, RENDER_GREY), *off = render_sgr(is_ansi, RENDER_PLAIN);
	bool is_more = true;

	while (is_more && !out->failed) {
		is_more = false;
		buf_addf(out, "%s│%s", on, off);
		for (size_t i = 0; i < g->n_columns; i++) {
			struct str line = take_line(&cells[i].text, g->columns[i].width);

			draw_cell(line, cells[i].color, g->columns[i].width, is_ansi, out);
			buf_addf(out, "%s│%s", on, off);
			is_more = is_more || cells[i].text.n > 0;
		}
		buf_add_char(out, '\n');
	}
}

static void draw_title(const char *title, size_t width, bool is_ansi, struct buf *out)
{
	size_t n = render_width(str_of(title));

	buf_addf(out, "%*s%s%s%s\n", (int)(n < width ? (width - n) / 2 : 0), "", render_sgr(is_ansi, RENDER_BOLD_CYAN), title,
		 render_sgr(is_ansi, RENDER_PLAIN));
}

static void grid_draw(struct grid *g, const char *title, const struct render_style *style, struct buf *out)
{
	grid_measure(g, style->width);
	if (title)
		draw_title(title, total_width(g), style->is_ansi, out);
	draw_rule(g, "╭", "┬", "╮", style->is_ansi, out);
	for (size_t row = 0; row < g->n_rows; row++) {
		draw_row(g, row, style->is_ansi, out);
		if (row + 1 < g->n_rows && (row == 0 || g->has_lines))
			draw_rule(g, "├", "┼", "┤", style->is_ansi, out);
	}
	draw_rule(g, "╰", "┴", "╯", style->is_ansi, out);
}

/* ---- the kinds of tables --------------------------------------------------------------------------------- */

static size_t count(const struct json *v)
{
	return json_first(v) ? v->kids.n : 0;
}

void render_rows(const struct json *rows, const char *const *columns, const char *title, const struct render_style *style,
		 struct buf *out)
{
	struct grid g;
	size_t n = 0, at;

	while (columns[n])
		n++;
	if (!grid_make(&g, count(rows) + 1, n))
		out->failed = true;
	for (size_t i = 0; !out->failed && i < n; i++) {
		g.columns[i].is_fixed = is_id(columns[i]);
		g.cells[i] = head_cell(&g, columns[i], true);
	}
	at = n;
	for (const struct json *row = json_first(rows); !out->failed && row; row = row->next)
		for (size_t i = 0; i < n; i++)
			g.cells[at++] = make_cell(&g, columns[i], json_get(row, columns[i]));
	if (!out->failed)
		grid_draw(&g, title, style, out);
	arena_done(&g.arena);
}

void render_dict(const struct json *object, const char *title, const struct render_style *style, struct buf *out)
{
	struct grid g;
	size_t at = 2;

	if (!grid_make(&g, count(object) + 1, 2)) {
		out->failed = true;
	} else {
		g.has_lines = true;
		g.columns[0].is_fixed = true;
		g.cells[0] = head_cell(&g, "Key", false);
		g.cells[1] = head_cell(&g, "Value", false);
		for (const struct json *v = json_first(object); v; v = v->next) {
			const char *name = arena_dup(&g.arena, v->key);

			g.cells[at] = (struct cell){ .text = name ? v->key : STR("..."), .color = RENDER_BOLD_CYAN };
			g.cells[at + 1] = make_cell(&g, name ? name : "", v);
			at += 2;
		}
		grid_draw(&g, title, style, out);
	}
	arena_done(&g.arena);
}

/* ---- panels ---------------------------------------------------------------------------------------------- */

static void draw_panel_top(const char *title, size_t width, bool is_ansi, struct buf *out)
{
	buf_addf(out, "%s╭─ %s ", render_sgr(is_ansi, RENDER_CYAN), title);
	for (size_t n = render_width(str_of(title)) + 3; n < width + 2; n++)
		buf_addf(out, "─");
	buf_addf(out, "╮%s\n", render_sgr(is_ansi, RENDER_PLAIN));
}

void render_panel(struct str text, const char *title, const struct render_style *style, struct buf *out)
{
	AUTO(buf_done) struct buf shown = BUF_INIT(GRID_MAX);
	struct str rest;
	size_t width;

	render_text(text, &shown);
	out->failed = out->failed || shown.failed;
	rest = buf_str(&shown);
	width = MAX(widest_line(rest), render_width(str_of(title)) + 2);
	if (style->width > 4 && width > style->width - 4)
		width = style->width - 4;
	draw_panel_top(title, width, style->is_ansi, out);
	do {
		struct str line = take_line(&rest, width);

		buf_addf(out, "%s│%s", render_sgr(style->is_ansi, RENDER_CYAN), render_sgr(style->is_ansi, RENDER_PLAIN));
		draw_cell(line, RENDER_PLAIN, width, style->is_ansi, out);
		buf_addf(out, "%s│%s\n", render_sgr(style->is_ansi, RENDER_CYAN), render_sgr(style->is_ansi, RENDER_PLAIN));
	} while (rest.n > 0 && !out->failed);
	buf_addf(out, "%s╰", render_sgr(style->is_ansi, RENDER_CYAN));
	for (size_t i = 0; i < width + 2; i++)
		buf_addf(out, "─");
	buf_addf(out, "╯%s\n", render_sgr(style->is_ansi, RENDER_PLAIN));
}
