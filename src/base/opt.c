// SPDX-License-Identifier: Apache-2.0
#include "base/opt.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/own.h"
#include "base/str.h"

#include "base/banned.h"

#define NAME_MAX_GUESS 32 /* longer words get no suggestion */

struct parser {
	const struct opt_command *c;
	void *values;
	char **argv;
	int argc, next; /* argv[next] is the next word to look at */
	enum opt_action action;
	struct err *e;
};

/* ---- suggestions ----------------------------------------------------------------------------------------- */

/* Letters to insert, delete or replace to turn A into B; both at most NAME_MAX_GUESS long. */
static size_t edit_distance(struct str a, struct str b)
{
	size_t row[NAME_MAX_GUESS + 1];

	for (size_t j = 0; j <= b.n; j++)
		row[j] = j;
	for (size_t i = 1; i <= a.n; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b.n; j++) {
			size_t replaced = diagonal + (a.p[i - 1] != b.p[j - 1]);
			size_t shifted = MIN(row[j], row[j - 1]) + 1;

			diagonal = row[j];
			row[j] = MIN(replaced, shifted);
		}
	}
	return row[b.n];
}

struct guess {
	struct str word;
	const char *best;
	size_t distance;
};

static void guess_try(struct guess *g, const char *name)
{
	struct str s = str_of(name);
	size_t d;

	if (s.n > NAME_MAX_GUESS || g->word.n > NAME_MAX_GUESS)
		return;
	d = edit_distance(g->word, s);
	if (d <= 2 && d < s.n && (!g->best || d < g->distance)) {
		g->best = name;
		g->distance = d;
	}
}

static int unknown_option(struct parser *p, struct str name)
{
	struct guess g = { .word = name };

	for (const struct opt *o = p->c->opts; o && o->name; o++)
		if (!o->is_hidden)
			guess_try(&g, o->name);
	guess_try(&g, "help");
	if (p->c->version)
		guess_try(&g, "version");
	if (g.best)
		return err_set(p->e, ERR_INVALID, "unknown option '--%.*s'; did you mean '--%s'?", STR_ARG(name),
			       g.best);
	return err_set(p->e, ERR_INVALID, "unknown option '--%.*s'", STR_ARG(name));
}

static int unknown_command(struct parser *p, const char *name)
{
	struct guess g = { .word = str_of(name) };

	for (const struct opt_command *c = p->c->commands; c->name; c++)
		guess_try(&g, c->name);
	if (g.best)
		return err_set(p->e, ERR_INVALID, "unknown command '%s'; did you mean '%s'?", name, g.best);
	return err_set(p->e, ERR_INVALID, "unknown command '%s'", name);
}

/* ---- values ---------------------------------------------------------------------------------------------- */

static bool takes_value(const struct opt *o)
{
	return o->kind == OPT_STRING || o->kind == OPT_INT || o->kind == OPT_LIST;
}

static int set_int(struct parser *p, const struct opt *o, const char *text, int64_t *ret)
{
	bool is_bounded = o->min != 0 || o->max != 0;
	int64_t v;

	if (!str_to_i64(str_of(text), INT64_MIN, INT64_MAX, &v))
		return err_set(p->e, ERR_INVALID, "option '--%s': '%s' is not an integer", o->name, text);
	if (is_bounded && v < o->min)
		return err_set(p->e, ERR_INVALID, "option '--%s': %s is below %" PRId64, o->name, text, o->min);
	if (is_bounded && v > o->max)
		return err_set(p->e, ERR_INVALID, "option '--%s': %s is above %" PRId64, o->name, text, o->max);
	*ret = v;
	return 0;
}

static int set_choice(struct parser *p, const struct opt *o, const char *text, const char **ret)
{
	char known[256] = "";
	size_t n = 0;

	for (const char *const *c = o->choices; c && *c; c++) {
		if (str_is(str_of(text), *c) || (o->ignores_case && str_eq_nocase(str_of(text), str_of(*c)))) {
			*ret = *c;
			return 0;
		}
		/* A list too long for the message is cut. */
		n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", n > 0 ? ", " : "", *c);
		n = MIN(n, sizeof(known) - 1);
	}
	if (o->choices)
		return err_set(p->e, ERR_INVALID, "option '--%s': '%s' is not one of %s", o->name, text, known);
	*ret = text;
	return 0;
}

static int list_add(struct parser *p, const struct opt *o, const char *text, struct opt_list *list)
{
	const char *item;

	if (set_choice(p, o, text, &item) < 0)
		return -1;
	if (list->n == OPT_LIST_MAX)
		return err_set(p->e, ERR_INVALID, "option '--%s' given more than %d times", o->name, OPT_LIST_MAX);
	list->items[list->n++] = item;
	return 0;
}

/* TEXT is NULL for flags and counts. */
static int set_value(struct parser *p, const struct opt *o, const char *text, bool is_on)
{
	void *at = (char *)p->values + o->offset;

	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)at = is_on;
		return 0;
	case OPT_TOGGLE:
		*(int *)at = is_on;
		return 0;
	case OPT_COUNT:
		*(int *)at += *(int *)at < INT_MAX;
		return 0;
	case OPT_STRING:
		return set_choice(p, o, text, at);
	case OPT_INT:
		return set_int(p, o, text, at);
	case OPT_LIST:
		return list_add(p, o, text, at);
	}
	return err_set(p->e, ERR_INTERNAL, "option '--%s' has no kind", o->name);
}

/* ---- words ----------------------------------------------------------------------------------------------- */

static const struct opt *find_long(const struct parser *p, struct str name)
{
	for (const struct opt *o = p->c->opts; o && o->name; o++)
		if (str_is(name, o->name))
			return o;
	return NULL;
}

static const struct opt *find_short(const struct parser *p, char name)
{
	for (const struct opt *o = p->c->opts; o && o->name; o++)
		if (o->short_name == name)
			return o;
	return NULL;
}

/* A flag by its negated name, or NULL. */
static const struct opt *find_negated(const struct parser *p, struct str name)
{
	const struct opt *o = str_starts(name, STR("no-")) ? find_long(p, str_skip(name, 3)) : NULL;

	return o && (o->kind == OPT_FLAG || o->kind == OPT_TOGGLE) ? o : NULL;
}

/* The word after the option: its value. */
static int take_value(struct parser *p, const struct opt *o)
{
	if (p->next >= p->argc)
		return err_set(p->e, ERR_INVALID, "option '--%s' needs a value", o->name);
	return set_value(p, o, p->argv[p->next++], true);
}

static bool take_action(struct parser *p, struct str name)
{
	if (str_eq(name, STR("help")))
		p->action = OPT_HELP;
	else if (p->c->version && str_eq(name, STR("version")))
		p->action = OPT_VERSION;
	else
		return false;
	return true;
}

/* WORD is what follows the two dashes. */
static int parse_long(struct parser *p, const char *word)
{
	struct str name, tail;
	bool has_value = str_cut(str_of(word), '=', &name, &tail);
	const struct opt *o = find_long(p, name);
	bool is_on = o != NULL;
	bool is_action = !o && take_action(p, name);

	if (is_action && !has_value)
		return 0;
	if (!o)
		o = find_negated(p, name);
	if (!o && !is_action)
		return unknown_option(p, name);
	if (has_value && o && is_on && o->kind == OPT_FLAG && (str_is(tail, "true") || str_is(tail, "false")))
		return set_value(p, o, NULL, str_is(tail, "true"));
	if (has_value && (is_action || !takes_value(o)))
		return err_set(p->e, ERR_INVALID, "option '--%.*s' takes no value", STR_ARG(name));
	if (has_value)
		return set_value(p, o, tail.p, true);
	return takes_value(o) ? take_value(p, o) : set_value(p, o, NULL, is_on);
}

/* WORD is what follows the dash: flags, the last one perhaps with a value. */
static int parse_short(struct parser *p, const char *word)
{
	for (; *word && p->action == OPT_RUN; word++) {
		const struct opt *o = find_short(p, *word);

		if (!o && *word == 'h') {
			p->action = OPT_HELP;
			return 0;
		}
		if (!o)
			return err_set(p->e, ERR_INVALID, "unknown option '-%.*s'",
				       (int)MAX(utf8_next(str_of(word), &(uint32_t){ 0 }), (size_t)1), word);
		if (takes_value(o))
			return word[1] ? set_value(p, o, word + 1, true) : take_value(p, o);
		if (set_value(p, o, NULL, true) < 0)
			return -1;
	}
	return 0;
}

/* Handles options up to the end of the words and moves the operands together behind argv[0]; returns how many
 * there are, or -1. Stops early at an operand that ends the options: the rest are operands, whatever they are. */
static int parse_words(struct parser *p)
{
	bool stops = p->c->commands || p->c->stops_at_operand;
	int n = 0;

	while (p->next < p->argc && p->action == OPT_RUN) {
		char *word = p->argv[p->next++];
		bool is_long = word[0] == '-' && word[1] == '-';
		bool is_end = is_long && !word[2];
		bool is_operand = word[0] != '-' || !word[1];

		if (is_operand)
			p->argv[1 + n++] = word;
		if (is_end || (is_operand && stops))
			break;
		if (!is_operand && (is_long ? parse_long(p, word + 2) : parse_short(p, word + 1)) < 0)
			return -1;
	}
	while (p->next < p->argc)
		p->argv[1 + n++] = p->argv[p->next++];
	p->argv[1 + n] = NULL;
	return n;
}

static int check_operands(struct parser *p, int n)
{
	if ((unsigned)n < p->c->min_operands)
		return err_set(p->e, ERR_INVALID, "missing operand: %s",
			       p->c->operands ? p->c->operands : "see --help");
	if ((unsigned)n > p->c->max_operands)
		return err_set(p->e, ERR_INVALID, "unexpected operand '%s'", p->argv[1 + p->c->max_operands]);
	return 0;
}

static bool is_given(const struct opt *o, const void *values)
{
	const void *at = (const char *)values + o->offset;

	switch (o->kind) {
	case OPT_STRING:
		return *(const char *const *)at != NULL;
	case OPT_INT:
		return *(const int64_t *)at != 0;
	case OPT_LIST:
		return ((const struct opt_list *)at)->n > 0;
	case OPT_FLAG:
	case OPT_COUNT:
	case OPT_TOGGLE:
		break;
	}
	return true;
}

static int check_required(struct parser *p)
{
	for (const struct opt *o = p->c->opts; o && o->name; o++)
		if (o->is_required && !is_given(o, p->values))
			return err_set(p->e, ERR_INVALID, "missing option '--%s'", o->name);
	return 0;
}

static const struct opt_command *find_command(const struct opt_command *c, const char *name)
{
	for (; c->name; c++)
		if (str_is(str_of(name), c->name))
			return c;
	return NULL;
}

int opt_parse(const struct opt_command *c, int argc, char **argv, void *values, struct opt_result *ret,
	      struct err *e)
{
	struct parser p = { .c = c, .values = values, .argv = argv, .argc = argc, .next = 1, .e = e };
	const struct opt_command *command = NULL;
	int n = argc > 0 ? parse_words(&p) : 0;

	if (n < 0)
		return -1;
	if (p.action == OPT_RUN && c->commands && n > 0) {
		command = find_command(c->commands, argv[1]);
		if (!command)
			return unknown_command(&p, argv[1]);
	}
	if (p.action == OPT_RUN && !c->commands && (check_operands(&p, n) < 0 || check_required(&p) < 0))
		return -1;
	*ret = (struct opt_result){
		.action = p.action,
		.command = command,
		.argc = n,
		.argv = argc > 0 ? argv + 1 : argv,
	};
	return 0;
}
