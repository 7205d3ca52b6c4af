// SPDX-License-Identifier: Apache-2.0
#include "base/decode_private.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_out.h"

#include "base/banned.h"

#define PATH_MAX_BYTES 1024
#define MSG_MAX 512      /* bytes of one message; patterns and lists of names are ours and short */
#define LOC_KEY_MAX 128  /* bytes of a key that are repeated to the sender */
#define TABLE_NESTING 8  /* of tables searched for secrets; deeper ones count as secret */

int decode_no_room(struct binding *b, size_t count, size_t size)
{
	size_t need;

	if (__builtin_mul_overflow(count, size, &need))
		need = SIZE_MAX;
	return json_no_room(b->d->arena, need, b->e);
}

/* The steps are as deep as the document, which its parser bounds. */
static void path_add(struct buf *out, const struct spot *at)
{
	if (!at->up) {
		(void)buf_add_char(out, '$');
		return;
	}
	path_add(out, at->up);
	if (at->key.p)
		json_path_key(out, at->key);
	else
		json_path_index(out, at->index);
}

char *spot_path(struct binding *b, const struct spot *at)
{
	AUTO(buf_done) struct buf out = BUF_INIT(PATH_MAX_BYTES);
	char *path;

	if (!buf_reserve(&out, PATH_MAX_BYTES)) {
		(void)err_no_memory(b->e);
		return NULL;
	}
	path_add(&out, at); /* what does not fit is left out */
	path = arena_dup(b->d->arena, buf_str(&out));
	if (!path)
		(void)decode_no_room(b, 1, out.n + 1);
	return path;
}

static struct json *loc_step(struct arena *a, const struct spot *at)
{
	struct json *v = arena_alloc(a, sizeof(*v));

	if (!v)
		return NULL;
	if (at->key.p) {
		v->type = JSON_STRING;
		v->s = str_first(at->key, LOC_KEY_MAX);
		while (v->s.n < at->key.n && v->s.n > 0 && (at->key.p[v->s.n] & 0xc0) == 0x80)
			v->s.n--; /* not through a character */
	} else {
		v->type = JSON_INT;
		v->i = (int64_t)at->index;
	}
	return v;
}

/* Built from the end, since that is the order of the steps. */
static struct json *spot_loc(struct binding *b, const struct spot *at)
{
	struct json *loc = arena_alloc(b->d->arena, sizeof(*loc));

	for (; loc && at->up; at = at->up) {
		struct json *v = loc_step(b->d->arena, at);

		if (!v)
			loc = NULL;
		if (!loc)
			break;
		v->next = loc->kids.first;
		loc->kids.first = v;
		if (!loc->kids.last)
			loc->kids.last = v;
		loc->kids.n++;
	}
	if (!loc)
		(void)decode_no_room(b, 1, sizeof(*loc));
	else
		loc->type = JSON_ARRAY;
	return loc;
}

static bool has_secret(const struct field *fields, unsigned nesting)
{
	if (!fields)
		return false;
	if (nesting == TABLE_NESTING)
		return true;
	for (; fields->name; fields++)
		if (fields->secret || has_secret(fields->fields, nesting + 1))
			return true;
	return false;
}

int problem_add(struct binding *b, const struct spot *at, const struct decode_problem *p, const char *fmt, ...)
{
	struct decode *d = b->d;
	struct decode_problem *kept = &d->problems[d->n_problems];
	char msg[MSG_MAX];
	va_list ap;

	b->found++;
	if (d->n_problems == DECODE_PROBLEMS_MAX)
		return 0;
	*kept = *p;
	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	kept->msg = arena_dup(d->arena, str_of(msg));
	if (!kept->msg)
		return decode_no_room(b, 1, strlen(msg) + 1);
	kept->path = spot_path(b, at);
	kept->loc = kept->path ? spot_loc(b, at) : NULL;
	if (!kept->loc)
		return -1;
	kept->where = at->v;
	kept->secret |= at->secret || has_secret(at->fields, 0);
	d->n_problems++;
	return 0;
}

int problem_say(struct binding *b, const struct spot *at, const char *type, const char *msg)
{
	return problem_add(b, at, &(struct decode_problem){ .type = type }, "%s", msg);
}

static int first_problem(const struct decode *d, struct err *e)
{
	return err_set(e, ERR_INVALID, "%s: %s", d->problems[0].path, d->problems[0].msg);
}

int decode_refuse(struct decode *d, const char *key, const char *why, struct err *e)
{
	struct binding b = { .d = d, .e = e };
	struct spot root = { .secret = true };
	struct spot at = { .up = &root, .key = str_of(key), .secret = true };
	struct decode_problem p = { .type = "value_error" };

	if (problem_add(&b, key ? &at : &root, &p, "Value error, %s", why) < 0)
		return -1;
	return first_problem(d, e);
}

/* ---- the answer ---- */

static void write_input(const struct decode_problem *p, struct json_out *o)
{
	AUTO(buf_done) struct buf text = BUF_INIT(DECODE_INPUT_MAX);
	struct json_out input = json_out(&text);

	if (p->secret || !p->where)
		return;
	if (!buf_reserve(&text, DECODE_INPUT_MAX)) {
		o->b->failed = true; /* out of memory, which is not the same as too long to repeat */
		return;
	}
	json_tree(&input, p->where);
	if (text.failed)
		return;
	json_key(o, "input"), json_raw(o, buf_str(&text));
}

static void write_problem(const struct decode_problem *p, const char *where, struct json_out *o)
{
	json_open(o, '{');
	json_key(o, "type"), json_cstr(o, p->type);
	json_key(o, "loc"), json_open(o, '[');
	json_cstr(o, where);
	for (const struct json *v = json_first(p->loc); v; v = v->next)
		json_tree(o, v);
	json_close(o, ']');
	json_key(o, "msg"), json_cstr(o, p->msg);
	write_input(p, o);
	if (p->ctx_key) {
		json_key(o, "ctx"), json_open(o, '{');
		json_key(o, p->ctx_key);
		if (p->ctx_json)
			json_tree(o, p->ctx_json);
		else
			json_int(o, p->ctx_value);
		json_close(o, '}');
	}
	json_close(o, '}');
}

void decode_write_detail(const struct decode *d, const char *where, struct json_out *o)
{
	json_open(o, '[');
	for (size_t i = 0; i < d->n_problems; i++)
		write_problem(&d->problems[i], where, o);
	json_close(o, ']');
}
