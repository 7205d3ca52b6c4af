// SPDX-License-Identifier: Apache-2.0
#include "execd/files/glob.h"

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

#define OPS_MAX (4 * GLOB_BYTES_MAX + 16)
#define RAW_BYTE 0x110000u /* plus the byte: a character that UTF-8 does not have */

enum op_kind {
	OP_CHAR,  /* this character */
	OP_ANY,   /* any */
	OP_NAME,  /* any but '/' */
	OP_CLASS, /* by the text of a class, without its brackets */
	OP_SPLIT, /* go on both at `to` and at `or` */
	OP_JUMP,  /* go on at `to` */
	OP_MATCH,
};

struct op {
	enum op_kind kind;
	uint32_t to, or;
	uint32_t rune;
	struct str class;
};

struct variant {
	struct op *ops;
	size_t n;
};

/* Where a match can be. */
struct places {
	uint32_t *list;
	size_t n;
};

struct glob {
	struct node *tree;
	bool has_slash;
	uint64_t *seen; /* per op: the generation in which it was last added; 0: never */
	uint64_t generation;
	struct places now, next;
	uint32_t *stack;
};

/* What a pattern means: a program, the opposite of one, or any of several. */
struct node {
	enum { NODE_PLAIN, NODE_NOT, NODE_ANY } kind;
	struct variant plain;
	struct node *kids; /* of NOT and ANY: a list */
	struct node *next;
	char *text; /* classes are views of it */
};

struct compiler {
	size_t variants;
	size_t ops_max; /* of the longest program */
	struct err *e;
};

/* ---- text ---- */

/* The character at the front of S, and how many bytes that is. S is not empty. */
static size_t next_rune(struct str s, uint32_t *ret)
{
	size_t n = utf8_next(s, ret);

	if (n > 0)
		return n;
	*ret = RAW_BYTE + (unsigned char)s.p[0];
	return 1;
}

static int invalid(struct err *e, const char *why)
{
	return err_set(e, ERR_INVALID, "invalid pattern: %s", why);
}

/* One character of a class, an escape resolved. */
static int class_rune(struct str *s, uint32_t *ret, struct err *e)
{
	if (s->n > 0 && s->p[0] == '\\')
		*s = str_skip(*s, 1);
	if (s->n == 0)
		return invalid(e, "a class is not closed");
	*s = str_skip(*s, next_rune(*s, ret));
	return 0;
}

/* S begins behind the '['. *ret_n: bytes up to and with the ']'. */
static int class_check(struct str s, size_t *ret_n, struct err *e)
{
	struct str rest = s;
	uint32_t lo, hi;

	if (rest.n > 0 && (rest.p[0] == '!' || rest.p[0] == '^'))
		rest = str_skip(rest, 1);
	if (rest.n > 0 && rest.p[0] == ']')
		return invalid(e, "a class is empty");
	do {
		if (rest.n > 0 && rest.p[0] == '-')
			return invalid(e, "a range has no begin");
		if (class_rune(&rest, &lo, e) < 0)
			return -1;
		if (rest.n > 0 && rest.p[0] == '-') {
			rest = str_skip(rest, 1);
			if (rest.n > 0 && rest.p[0] == ']')
				return invalid(e, "a range has no end");
			if (class_rune(&rest, &hi, e) < 0)
				return -1;
			if (hi < lo)
				return invalid(e, "a range runs backwards");
		}
		if (rest.n == 0)
			return invalid(e, "a class is not closed");
	} while (rest.p[0] != ']');
	*ret_n = s.n - rest.n + 1;
	return 0;
}

static bool class_has(struct str s, uint32_t rune)
{
	bool is_negated = s.n > 0 && (s.p[0] == '!' || s.p[0] == '^'), found = false;
	struct err never = { 0 };
	uint32_t lo = 0, hi;

	s = str_skip(s, is_negated);
	while (s.n > 0 && !found) {
		(void)class_rune(&s, &lo, &never);
		hi = lo;
		if (s.n > 0 && s.p[0] == '-') {
			s = str_skip(s, 1);
			(void)class_rune(&s, &hi, &never);
		}
		found = rune >= lo && rune <= hi;
	}
	return found != is_negated;
}

/* Bytes of the unit at the front of S that a scan must not look into: an escape, a class, or one byte. */
static int unit_length(struct str s, size_t *ret, struct err *e)
{
	*ret = 1;
	if (s.n == 0)
		return 0;
	if (s.p[0] == '\\') {
		*ret = 2;
		return s.n < 2 ? invalid(e, "it ends with an escape") : 0;
	}
	if (s.p[0] == '[') {
		if (class_check(str_skip(s, 1), ret, e) < 0)
			return -1;
		*ret += 1;
	}
	return 0;
}

/* ---- groups ---- */

/* S begins with '{' or "!(". Where its closing character is; -1 when there is none. */
static int group_end(struct str s, size_t *ret, struct err *e)
{
	char open[GLOB_DEPTH_MAX] = { 0 };
	unsigned depth = 0;

	for (size_t i = 0, n; i < s.n; i += n) {
		struct str here = str_skip(s, i);

		if (unit_length(here, &n, e) < 0)
			return -1;
		if (here.p[0] == '{' || str_starts(here, STR("!("))) {
			if (depth == GLOB_DEPTH_MAX)
				return invalid(e, "groups are nested too deep");
			open[depth++] = here.p[0] == '{' ? '}' : ')';
			n = here.p[0] == '{' ? 1 : 2;
		} else if (depth > 0 && here.p[0] == open[depth - 1] && --depth == 0) {
			*ret = i;
			return 0;
		}
	}
	return invalid(e, s.p[0] == '{' ? "a '{' is not closed" : "a '!' needs a group in parentheses");
}

static bool has_negation(struct str s)
{
	struct err never = { 0 };
	size_t n = 1;

	for (; s.n > 0; s = str_skip(s, n)) {
		if (s.p[0] == '!')
			return true;
		if (unit_length(s, &n, &never) < 0)
			return false;
	}
	return false;
}

/* Takes the next alternative of the inside a '{}'. */
static bool next_alternative(struct str *in, struct str *ret)
{
	struct err never = { 0 };
	unsigned depth = 0;
	size_t i = 0, n = 1;

	if (!in->p)
		return false;
	for (; i < in->n; i += n) {
		struct str here = str_skip(*in, i);

		(void)unit_length(here, &n, &never);
		if (here.p[0] == ',' && depth == 0)
			break;
		depth += here.p[0] == '{' || str_starts(here, STR("!("));
		depth -= (here.p[0] == '}' || here.p[0] == ')') && depth > 0;
	}
	*ret = str_first(*in, i);
	*in = i < in->n ? (struct str){ in->p + i + 1, in->n - i - 1 } : (struct str){ 0 };
	return true;
}

/* ---- programs ---- */

struct program {
	struct variant *v;
	struct str text;   /* whole */
	struct compiler *c;
};

static struct op *emit(struct program *p, enum op_kind kind)
{
	struct op *op = &p->v->ops[p->v->n];

	if (p->v->n == OPS_MAX - 1)
		return NULL;
	p->v->n++;
	op->kind = kind;
	return op;
}

/* A loop over one op. */
static bool emit_star(struct program *p, enum op_kind kind)
{
	uint32_t at = (uint32_t)p->v->n;
	struct op *split = emit(p, OP_SPLIT), *body = emit(p, kind), *back = emit(p, OP_JUMP);

	if (!split || !body || !back)
		return false;
	split->to = at + 1;
	split->or = at + 3;
	back->to = at;
	return true;
}

/* "**" + '/': any number of segments, each with its slash. */
static bool emit_segments(struct program *p)
{
	uint32_t at = (uint32_t)p->v->n;
	struct op *split = emit(p, OP_SPLIT), *slash, *back;

	if (!split || !emit_star(p, OP_NAME))
		return false;
	slash = emit(p, OP_CHAR);
	back = emit(p, OP_JUMP);
	if (!slash || !back)
		return false;
	slash->rune = '/';
	split->to = at + 1;
	split->or = at + 6;
	back->to = at;
	return true;
}

static bool is_edge(char c, const char *edges)
{
	return c != '\0' && strchr(edges, c);
}

/* At a '*': how many bytes it takes. */
static size_t compile_star(struct program *p, struct str here)
{
	size_t at = p->text.n - here.n, n = 1;
	bool is_first = at == 0 || is_edge(p->text.p[at - 1], "/{,"), is_last;

	while (n < here.n && here.p[n] == '*')
		n++;
	is_last = n == here.n || is_edge(here.p[n], "/},");
	if (n != 2 || !is_first || !is_last)
		return emit_star(p, OP_NAME) ? n : 0;
	if (n < here.n && here.p[n] == '/')
		return emit_segments(p) ? n + 1 : 0;
	return emit_star(p, OP_ANY) ? n : 0;
}

static int compile_sequence(struct program *p, struct str s, unsigned depth);

/* Alternatives: split, the first, jump to the end, split, the second, ... */
static int compile_braces(struct program *p, struct str inside, unsigned depth)
{
	uint32_t ends = 0; /* a list of jumps through `to` */
	struct str one;
	bool more = next_alternative(&inside, &one);

	while (more) {
		uint32_t at = (uint32_t)p->v->n, from;
		struct op *split = emit(p, OP_SPLIT), *jump;
		struct str next;

		if (!split || compile_sequence(p, one, depth + 1) < 0)
			return split ? -1 : invalid(p->c->e, "it is too long");
		more = next_alternative(&inside, &next);
		from = (uint32_t)p->v->n;
		jump = emit(p, OP_JUMP);
		if (!jump)
			return invalid(p->c->e, "it is too long");
		jump->to = ends;
		ends = from;
		split->to = at + 1;
		split->or = more ? from + 1 : at + 1;
		one = next;
	}
	while (ends != 0) {
		uint32_t before = p->v->ops[ends].to;

		p->v->ops[ends].to = (uint32_t)p->v->n;
		ends = before;
	}
	return 0;
}

/* One unit at the front of S: bytes taken, or 0. */
static size_t compile_unit(struct program *p, struct str s, unsigned depth)
{
	struct op *op;
	size_t n = 0;

	if (s.p[0] == '*')
		return compile_star(p, s);
	if (s.p[0] == '{')
		return group_end(s, &n, p->c->e) < 0 ||
				       compile_braces(p, str_first(str_skip(s, 1), n - 1), depth) < 0 ?
			       0 :
			       n + 1;
	if (unit_length(s, &n, p->c->e) < 0)
		return 0;
	op = emit(p, s.p[0] == '?' ? OP_NAME : s.p[0] == '[' ? OP_CLASS : OP_CHAR);
	if (!op)
		return 0;
	if (op->kind == OP_CLASS)
		op->class = str_first(str_skip(s, 1), n - 2);
	else if (op->kind == OP_CHAR)
		n = (s.p[0] == '\\') + next_rune(str_skip(s, s.p[0] == '\\'), &op->rune);
	return n;
}

static int compile_sequence(struct program *p, struct str s, unsigned depth)
{
	if (depth > GLOB_DEPTH_MAX)
		return invalid(p->c->e, "groups are nested too deep");
	while (s.n > 0) {
		size_t n = compile_unit(p, s, depth);

		if (n == 0)
			return p->c->e->code ? -1 : invalid(p->c->e, "it is too long");
		s = str_skip(s, n);
	}
	return 0;
}

/* ---- the tree ---- */

static void node_free(struct node *node)
{
	while (node) {
		struct node *next = node->next;

		node_free(node->kids);
		free(node->plain.ops);
		free(node->text);
		free(node);
		node = next;
	}
}
DEFINE_AUTO(struct node *, node_free)

static struct node *node_new(struct compiler *c, struct str text)
{
	AUTO(node_free) struct node *node = calloc(1, sizeof(*node));

	if (node)
		node->text = calloc(1, text.n + 1);
	if (!node || !node->text) {
		(void)err_no_memory(c->e);
		return NULL;
	}
	if (text.n > 0)
		memcpy(node->text, text.p, text.n);
	return take_ptr(&node);
}

static struct node *compile_node(struct compiler *c, struct str text, unsigned depth);

/* TEXT with the N bytes from AT on replaced by WITH. */
static struct node *compile_with(struct compiler *c, struct str text, size_t at, size_t n, struct str with, unsigned depth)
{
	AUTO(buf_done) struct buf b = BUF_INIT(GLOB_BYTES_MAX);

	buf_add_str(&b, str_first(text, at));
	buf_add_str(&b, with);
	buf_add_str(&b, str_skip(text, at + n));
	if (!b.failed)
		return compile_node(c, buf_str(&b), depth + 1);
	(void)err_no_memory(c->e);
	return NULL;
}

static int compile_plain(struct compiler *c, struct node *node, struct str text)
{
	struct program p = { &node->plain, text, c };

	if (c->variants++ == GLOB_VARIANTS_MAX)
		return invalid(c->e, "too many alternatives with a negation");
	node->plain.ops = calloc(OPS_MAX, sizeof(struct op));
	if (!node->plain.ops)
		return err_no_memory(c->e);
	if (compile_sequence(&p, text, 0) < 0)
		return -1;
	node->plain.ops[node->plain.n++].kind = OP_MATCH;
	c->ops_max = MAX(c->ops_max, node->plain.n);
	return 0;
}

/* Finds the first negation, or group that holds one: AT and N are its place. 0: there is none. */
static int find_negation(struct str text, size_t *at, size_t *ret_n, struct err *e)
{
	for (size_t i = 0, n; i < text.n; i += n) {
		struct str here = str_skip(text, i);

		if (unit_length(here, &n, e) < 0)
			return -1;
		if (here.p[0] != '{' && here.p[0] != '!')
			continue;
		if (here.p[0] == '!' && !str_starts(here, STR("!(")))
			return invalid(e, "a '!' needs a group in parentheses");
		if (group_end(here, &n, e) < 0)
			return -1;
		n++;
		if (has_negation(str_first(here, n))) {
			*at = i;
			*ret_n = n;
			return 1;
		}
	}
	return 0;
}

static int compile_kids(struct compiler *c, struct node *node, size_t at, size_t n, unsigned depth)
{
	struct str text = str_of(node->text), inside, one;

	inside = (struct str){ text.p + at, n };
	if (node->kind == NODE_NOT) {
		node->kids = compile_with(c, text, at, n, str_first(str_skip(inside, 2), n - 3), depth);
		return node->kids ? 0 : -1;
	}
	inside = str_first(str_skip(inside, 1), n - 2);
	while (next_alternative(&inside, &one)) {
		struct node *kid = compile_with(c, text, at, n, one, depth);

		if (!kid)
			return -1;
		kid->next = node->kids;
		node->kids = kid;
	}
	return 0;
}

static struct node *compile_node(struct compiler *c, struct str text, unsigned depth)
{
	AUTO(node_free) struct node *node = node_new(c, text);
	size_t at = 0, n = 0;
	int found;

	if (!node)
		return NULL;
	if (depth > GLOB_VARIANTS_MAX) {
		(void)invalid(c->e, "too many negations");
		return NULL;
	}
	text.p = node->text;
	found = find_negation(text, &at, &n, c->e);
	if (found < 0 || (found == 0 && compile_plain(c, node, text) < 0))
		return NULL;
	if (found > 0) {
		node->kind = text.p[at] == '!' ? NODE_NOT : NODE_ANY;
		if (compile_kids(c, node, at, n, depth) < 0)
			return NULL;
	}
	return take_ptr(&node);
}

void glob_free(struct glob *g)
{
	if (!g)
		return;
	node_free(g->tree);
	free(g->seen);
	free(g->now.list);
	free(g->next.list);
	free(g->stack);
	free(g);
}

struct glob *glob_new(struct str pattern, struct err *e)
{
	AUTO(glob_free) struct glob *g = calloc(1, sizeof(*g));
	struct err why = { 0 };
	struct compiler c = { .e = &why };

	if (!g) {
		(void)err_no_memory(e);
		return NULL;
	}
	if (pattern.n > GLOB_BYTES_MAX || (pattern.n > 0 && memchr(pattern.p, '\0', pattern.n)))
		(void)err_set(&why, ERR_INVALID, "invalid pattern: longer than %d bytes, or with a NUL", GLOB_BYTES_MAX);
	else
		g->tree = compile_node(&c, pattern, 0);
	if (!g->tree) {
		*e = why;
		return NULL;
	}
	g->has_slash = pattern.n > 0 && memchr(pattern.p, '/', pattern.n);
	g->seen = calloc(c.ops_max + 1, sizeof(*g->seen));
	g->now.list = calloc(c.ops_max + 1, sizeof(*g->now.list));
	g->next.list = calloc(c.ops_max + 1, sizeof(*g->next.list));
	g->stack = calloc(c.ops_max + 1, sizeof(*g->stack));
	if (!g->seen || !g->now.list || !g->next.list || !g->stack) {
		(void)err_no_memory(e);
		return NULL;
	}
	return take_ptr(&g);
}

bool glob_has_slash(const struct glob *g)
{
	return g->has_slash;
}

/* ---- matching ---- */

static void push(struct glob *g, size_t *n, uint32_t at)
{
	if (g->seen[at] == g->generation)
		return;
	g->seen[at] = g->generation;
	g->stack[(*n)++] = at;
}

/* Adds AT and all that it leads to without a character. Each op is pushed once in a generation, so the stack is as large as
 * the program at most. */
static void add_place(struct glob *g, const struct variant *v, struct places *set, uint32_t at)
{
	size_t n = 0;

	push(g, &n, at);
	while (n > 0) {
		const struct op *op = &v->ops[at = g->stack[--n]];

		if (op->kind == OP_SPLIT || op->kind == OP_JUMP)
			push(g, &n, op->to);
		else
			set->list[set->n++] = at;
		if (op->kind == OP_SPLIT)
			push(g, &n, op->or);
	}
}

static bool op_takes(const struct op *op, uint32_t rune)
{
	switch (op->kind) {
	case OP_CHAR:
		return op->rune == rune;
	case OP_ANY:
		return true;
	case OP_NAME:
		return rune != '/';
	case OP_CLASS:
		return rune != '/' && class_has(op->class, rune);
	case OP_SPLIT:
	case OP_JUMP:
	case OP_MATCH:
		break;
	}
	return false;
}

static void begin_places(struct glob *g, struct places *set)
{
	set->n = 0;
	g->generation++;
}

static bool plain_matches(struct glob *g, const struct variant *v, struct str name)
{
	begin_places(g, &g->now);
	add_place(g, v, &g->now, 0);
	while (name.n > 0 && g->now.n > 0) {
		struct places taken = g->now;
		uint32_t rune;

		name = str_skip(name, next_rune(name, &rune));
		begin_places(g, &g->next);
		for (size_t i = 0; i < taken.n; i++)
			if (op_takes(&v->ops[taken.list[i]], rune))
				add_place(g, v, &g->next, taken.list[i] + 1);
		g->now = g->next;
		g->next = taken;
	}
	for (size_t i = 0; i < g->now.n; i++)
		if (v->ops[g->now.list[i]].kind == OP_MATCH)
			return name.n == 0;
	return false;
}

static bool node_matches(struct glob *g, const struct node *node, struct str name)
{
	if (node->kind == NODE_PLAIN)
		return plain_matches(g, &node->plain, name);
	if (node->kind == NODE_NOT)
		return !node_matches(g, node->kids, name);
	for (const struct node *kid = node->kids; kid; kid = kid->next)
		if (node_matches(g, kid, name))
			return true;
	return false;
}

bool glob_matches(struct glob *g, struct str name)
{
	return node_matches(g, g->tree, name);
}
