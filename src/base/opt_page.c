// SPDX-License-Identifier: Apache-2.0
/* Help texts and manual pages: one walk over the tables, two ways to write. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/opt.h"

#include "base/banned.h"

#define COLUMNS 80
#define INDENT 4

struct page_ops {
	void (*head)(struct buf *b, const char *title);
	void (*term)(struct buf *b, struct str term);
	void (*text)(struct buf *b, struct str text, bool is_under_term);
};

/* ---- plain text ------------------------------------------------------------------------------------------ */

static size_t columns(struct str s)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++)
		n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
	return n;
}

static void plain_head(struct buf *b, const char *title)
{
	buf_addf(b, "%s%s\n", b->n > 0 ? "\n" : "", title);
}

static void plain_term(struct buf *b, struct str term)
{
	buf_addf(b, "%*s%.*s\n", INDENT, "", STR_ARG(term));
}

/* Takes the next paragraph off TEXT; false when there is none left. */
static bool take_paragraph(struct str *text, struct str *ret)
{
	const char *end;

	*text = str_trim(*text);
	end = text->n > 0 ? memmem(text->p, text->n, "\n\n", 2) : NULL;
	*ret = end ? str_first(*text, (size_t)(end - text->p)) : *text;
	*text = str_skip(*text, ret->n);
	return ret->n > 0;
}

static void plain_paragraph(struct buf *b, struct str text, int indent)
{
	size_t at = 0;
	struct str word;

	while (str_take_word(&text, &word, SIZE_MAX)) {
		if (at > 0 && at + 1 + columns(word) > COLUMNS) {
			buf_add_char(b, '\n');
			at = 0;
		}
		at += columns(word) + (at > 0 ? 1 : (size_t)indent);
		buf_addf(b, "%*s%.*s", b->n > 0 && b->p[b->n - 1] == '\n' ? indent : 1, "", STR_ARG(word));
	}
	buf_add_char(b, '\n');
}

static void plain_text(struct buf *b, struct str text, bool is_under_term)
{
	struct str paragraph;

	for (int i = 0; take_paragraph(&text, &paragraph); i++) {
		if (i > 0)
			buf_add_char(b, '\n');
		plain_paragraph(b, paragraph, is_under_term ? 2 * INDENT : INDENT);
	}
}

static const struct page_ops plain = { plain_head, plain_term, plain_text };

/* ---- roff ------------------------------------------------------------------------------------------------ */

static void roff_escaped(struct buf *b, struct str s)
{
	for (const char *p = s.p; p && p < s.p + s.n; p++) {
		bool is_line_start = b->n == 0 || buf_z(b)[b->n - 1] == '\n';

		if (is_line_start && (*p == '.' || *p == '\''))
			buf_addf(b, "\\&"); /* not a request */
		if (*p == '\\')
			buf_addf(b, "\\e");
		else if (*p == '-')
			buf_addf(b, "\\-"); /* a dash to copy and search for, not a hyphen */
		else
			buf_add_char(b, *p);
	}
}

static void roff_head(struct buf *b, const char *title)
{
	buf_addf(b, ".SH %s\n", title);
}

static void roff_term(struct buf *b, struct str term)
{
	buf_addf(b, ".TP\n\\fB");
	roff_escaped(b, term);
	buf_addf(b, "\\fR\n");
}

static void roff_text(struct buf *b, struct str text, bool is_under_term)
{
	struct str paragraph;

	for (int i = 0; take_paragraph(&text, &paragraph); i++) {
		if (i > 0)
			buf_addf(b, is_under_term ? ".IP\n" : ".PP\n");
		roff_escaped(b, paragraph);
		buf_add_char(b, '\n');
	}
}

static const struct page_ops roff = { roff_head, roff_term, roff_text };

/* ---- the walk -------------------------------------------------------------------------------------------- */

#define SCRATCH_MAX 8192

/* Text made up here goes through a scratch buffer; when that fails the page fails. */
static void page_textf(struct buf *b, const struct page_ops *ops, struct buf *scratch, bool is_term)
{
	if (scratch->failed)
		b->failed = true;
	else if (is_term)
		ops->term(b, buf_str(scratch));
	else
		ops->text(b, buf_str(scratch), false);
	buf_clear(scratch);
}

static void page_option(struct buf *b, const struct page_ops *ops, const struct opt *o)
{
	AUTO(buf_done) struct buf t = BUF_INIT(SCRATCH_MAX);

	if (o->short_name)
		buf_addf(&t, "-%c, ", o->short_name);
	buf_addf(&t, "--%s", o->name);
	if (o->kind == OPT_TOGGLE)
		buf_addf(&t, ", --no-%s", o->name);
	else if (o->kind != OPT_FLAG && o->kind != OPT_COUNT)
		buf_addf(&t, " %s", o->arg ? o->arg : "VALUE");
	page_textf(b, ops, &t, true);
	buf_addf(&t, "%s", o->help ? o->help : "");
	if (o->is_required)
		buf_addf(&t, " Needed.");
	if (o->kind == OPT_INT && (o->min != 0 || o->max != 0) && o->max == INT64_MAX)
		buf_addf(&t, " At least %" PRId64 ".", o->min);
	else if (o->kind == OPT_INT && (o->min != 0 || o->max != 0))
		buf_addf(&t, " From %" PRId64 " to %" PRId64 ".", o->min, o->max);
	for (const char *const *c = o->choices; c && *c; c++)
		buf_addf(&t, "%s%s%s", c == o->choices ? " One of " : ", ", *c, c[1] ? "" : ".");
	if (o->kind == OPT_LIST)
		buf_addf(&t, " May be given more than once.");
	if (t.failed)
		b->failed = true;
	ops->text(b, buf_str(&t), true);
}

static void page_options(struct buf *b, const struct page_ops *ops, const struct opt_command *c)
{
	bool owns_h = false;

	ops->head(b, "OPTIONS");
	for (const struct opt *o = c->opts; o && o->name; o++) {
		owns_h = owns_h || o->short_name == 'h';
		if (!o->is_hidden)
			page_option(b, ops, o);
	}
	page_option(b, ops,
		    &(struct opt){ .name = "help", .short_name = owns_h ? '\0' : 'h', .help = "Show this help." });
	if (c->version)
		page_option(b, ops, &(struct opt){ .name = "version", .help = "Show the version." });
}

static void page_commands(struct buf *b, const struct page_ops *ops, const struct opt_command *c)
{
	if (!c->commands)
		return;
	ops->head(b, "COMMANDS");
	for (const struct opt_command *sub = c->commands; sub->name; sub++) {
		ops->term(b, str_of(sub->name));
		ops->text(b, str_of(sub->summary), true);
	}
}

static void page_sections(struct buf *b, const struct page_ops *ops, const struct opt_section *s)
{
	const char *title = NULL;

	for (; s && s->title; s++) {
		if (!title || !str_is(str_of(title), s->title))
			ops->head(b, s->title);
		title = s->title;
		if (s->term)
			ops->term(b, str_of(s->term));
		ops->text(b, str_of(s->text), s->term != NULL);
	}
}

static void page(struct buf *b, const struct page_ops *ops, const struct opt_command *c, const char *path)
{
	AUTO(buf_done) struct buf t = BUF_INIT(SCRATCH_MAX);

	ops->head(b, "SYNOPSIS");
	buf_addf(&t, "%s [OPTION...]", path);
	if (c->commands)
		buf_addf(&t, c->is_command_optional ? " [COMMAND [ARGUMENT...]]" : " COMMAND [ARGUMENT...]");
	if (c->operands)
		buf_addf(&t, " %s", c->operands);
	page_textf(b, ops, &t, false);
	if (c->about) {
		ops->head(b, "DESCRIPTION");
		ops->text(b, str_of(c->about), false);
	}
	page_commands(b, ops, c);
	page_options(b, ops, c);
	page_sections(b, ops, c->sections);
}

void opt_help(const struct opt_command *c, const char *path, struct buf *out)
{
	AUTO(buf_done) struct buf t = BUF_INIT(SCRATCH_MAX);

	plain.head(out, "NAME");
	buf_addf(&t, "%s - %s", path, c->summary);
	page_textf(out, &plain, &t, false);
	page(out, &plain, c, path);
}

void opt_man(const struct opt_command *c, const char *path, const char *date, const char *source, struct buf *out)
{
	AUTO(buf_done) struct buf name = BUF_INIT(SCRATCH_MAX);

	/* The page of "osb sandbox create" is called osb-sandbox-create. */
	for (const char *p = path; *p; p++)
		buf_add_char(&name, *p == ' ' ? '-' : *p);
	if (name.failed)
		out->failed = true;
	buf_addf(out, ".TH \"%s\" 1 \"%s\" \"%s\"\n", buf_z(&name), date, source);
	roff.head(out, "NAME");
	roff_escaped(out, buf_str(&name));
	buf_addf(out, " \\- ");
	roff_escaped(out, str_of(c->summary));
	buf_add_char(out, '\n');
	page(out, &roff, c, path);
}
