// SPDX-License-Identifier: Apache-2.0
/* What operations make their requests of, and how they read answers. */
#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "client/model.h"
#include "client/op.h"
#include "net/http/url.h"

#include "base/banned.h"

#define SEGMENT_MAX 1024
#define TREE_MAX ((size_t)256 * 1024 * 1024)

void struct_take(void *to, size_t to_size, const void *from, size_t size, size_t v1)
{
	size_t n = MIN(size ? size : v1, to_size);

	memset(to, 0, to_size);
	if (from)
		memcpy(to, from, n);
}

void *op_alloc(struct op *op, size_t n)
{
	void *p = op_is_over(op) ? NULL : arena_alloc(&op->arena, n);

	if (!p)
		op_no_memory(op);
	return p;
}

char *op_copy(struct op *op, const char *z)
{
	char *copy = z && !op_is_over(op) ? arena_strndup(&op->arena, z, strlen(z)) : NULL;

	if (z && !copy)
		op_no_memory(op);
	return copy;
}

const char *op_text(struct op *op, const char *fmt, ...)
{
	AUTO(buf_done) struct buf b = BUF_INIT(HTTP_LINE_MAX);
	const char *text = NULL;
	va_list ap;

	if (op_is_over(op))
		return "";
	va_start(ap, fmt);
	buf_addv(&b, fmt, ap);
	va_end(ap);
	if (!b.failed)
		text = arena_dup(&op->arena, buf_str(&b));
	if (b.failed)
		op_fail_buf(op, &b, "a path");
	else if (!text)
		op_no_memory(op);
	return text ? text : "";
}

bool op_need(struct op *op, bool is_good, const char *problem)
{
	if (!is_good)
		op_fail(op, OSB_INVALID, NULL, "%s", problem);
	return is_good;
}

const char *op_segment(struct op *op, const char *value, const char *name)
{
	AUTO(buf_done) struct buf b = BUF_INIT(3 * SEGMENT_MAX);
	struct str s = str_of(value);
	const char *text;

	if (s.n == 0) {
		op_fail(op, OSB_INVALID, NULL, "the %s is missing", name);
		return "";
	}
	if (s.n > SEGMENT_MAX || str_is(s, ".") || str_is(s, "..") || memchr(s.p, '/', s.n)) {
		op_fail(op, OSB_INVALID, NULL, "the %s is none", name);
		return "";
	}
	url_encode_segment(&b, s);
	text = b.failed || op_is_over(op) ? NULL : arena_dup(&op->arena, buf_str(&b));
	if (!text)
		op_no_memory(op);
	return text ? text : "";
}

const char *op_query(struct op *op, const char *path, const char *key, const char *value)
{
	AUTO(buf_done) struct buf b = BUF_INIT(HTTP_LINE_MAX);

	if (!value)
		return path;
	buf_addf(&b, "%s%c%s=", path, strchr(path, '?') ? '&' : '?', key);
	url_encode_query(&b, str_of(value));
	if (b.failed) {
		op_fail_buf(op, &b, "a path");
		return "";
	}
	return op_text(op, "%s", buf_z(&b));
}

struct json_out *op_body(struct op *op)
{
	buf_clear(&op->body);
	op->body_out = json_out(&op->body);
	return &op->body_out;
}

void body_string(struct json_out *o, const char *key, const char *value)
{
	if (value)
		json_key(o, key), json_cstr(o, value);
}

void body_map(struct json_out *o, const char *key, const struct osb_map *m)
{
	if (m->n == 0)
		return;
	json_key(o, key), json_open(o, '{');
	for (size_t i = 0; i < m->n; i++)
		json_key(o, m->items[i].key ? m->items[i].key : ""), json_cstr(o, m->items[i].value);
	json_close(o, '}');
}

void body_strings(struct json_out *o, const char *key, const struct osb_strings *s)
{
	if (s->n == 0)
		return;
	json_key(o, key), json_open(o, '[');
	for (size_t i = 0; i < s->n; i++)
		json_cstr(o, s->items[i] ? s->items[i] : "");
	json_close(o, ']');
}

/* ---- answers ---- */

static const struct json *parse(struct op *op, struct arena *a, struct str body)
{
	const struct json_limits limits = { .values = OP_VALUES_MAX };
	struct err e = { 0 };
	const struct json *v = json_parse(a, body, &limits, NULL, &e);

	if (v)
		return v;
	if (e.sys == ENOMEM)
		op_no_memory(op);
	else
		op_fail(op, OSB_NETWORK, "UNEXPECTED_RESPONSE", "the answer is no JSON: %s", e.msg);
	return NULL;
}

const struct json *op_json(struct op *op, const struct op_answer *a)
{
	return parse(op, &op->arena, a->body);
}

/* A result that is the body itself. */
static void *whole_body(struct op *op, struct str body, const struct model *model, struct err *e)
{
	AUTO(arena_done) struct arena tree = ARENA_INIT(TREE_MAX);

	if (model == &json_model && !parse(op, &tree, body))
		return NULL;
	return result_bytes(model, body, e);
}

void op_answered(struct op *op, const struct op_answer *a, const struct model *model)
{
	AUTO(arena_done) struct arena tree = ARENA_INIT(TREE_MAX);
	const struct json *v;
	struct err e = { 0 };
	void *result;

	if (op_is_over(op))
		return;
	if (!model) {
		op_done(op);
		return;
	}
	if (model == &bytes_model || model == &json_model) {
		result = whole_body(op, a->body, model, &e);
	} else {
		v = parse(op, &tree, a->body);
		result = v ? model_read(model, v, &e) : NULL;
	}
	if (!result && !op_is_over(op)) {
		if (e.code == ERR_INVALID)
			op_fail(op, OSB_NETWORK, "UNEXPECTED_RESPONSE", "the answer is not what it should be: %s", e.msg);
		else
			op_fail_err(op, &e);
	}
	if (!result)
		return;
	op_result(op, result, NULL);
	op_done(op);
}
