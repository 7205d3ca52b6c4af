// SPDX-License-Identifier: Apache-2.0
#include "client/model.h"

#include <assert.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "client/opensandbox.h"

#include "base/banned.h"

#define PATH_MAX_BYTES 256
#define RESULT_MAGIC UINT64_C(0x6f73622d726573)
#define REAL_INT_MAX 9007199254740992.0 /* every integer below is a double */

/* ---- results ---- */

struct result {
	uint64_t magic;
	const struct model *model;
	struct arena arena;
	_Alignas(16) char data[];
};

static struct result *result_of(const void *data)
{
	struct result *r = container_of((char *)(uintptr_t)data, struct result, data);

	assert(r->magic == RESULT_MAGIC);
	return r;
}

void *result_new(const struct model *m, struct err *e)
{
	struct arena a = ARENA_INIT(RESULT_MAX);
	struct result *r = arena_alloc(&a, sizeof(*r) + m->size);

	if (!r) {
		(void)err_no_memory(e);
		return NULL;
	}
	r->magic = RESULT_MAGIC;
	r->model = m;
	r->arena = a; /* which holds what it stands in */
	return r->data;
}

struct arena *result_arena(void *result)
{
	return &result_of(result)->arena;
}

void result_free(const void *result)
{
	struct result *r = result ? result_of(result) : NULL;
	struct arena a;

	if (!r)
		return;
	r->magic = 0;
	a = r->arena;
	arena_done(&a);
}

void osb_free(const void *result)
{
	result_free(result);
}

char *osb_to_json(const void *result)
{
	const struct result *r = result ? result_of(result) : NULL;
	struct buf b = BUF_INIT(SIZE_MAX / 4);
	struct json_out o = json_out(&b);

	if (r)
		model_show(&o, r->model, r->data);
	else
		json_null(&o);
	if (b.failed) {
		buf_done(&b);
		return NULL;
	}
	return b.p;
}

void *result_bytes(const struct model *m, struct str bytes, struct err *e)
{
	struct osb_bytes *b = result_new(m, e);

	if (!b)
		return NULL;
	b->data = arena_dup(result_arena(b), bytes);
	b->n = bytes.n;
	if (!b->data) {
		(void)err_no_memory(e);
		result_free(b);
		return NULL;
	}
	return b;
}

/* ---- reading ---- */

int model_bad(struct model_reader *r, const char *what)
{
	return err_set(r->e, ERR_INVALID, "$%s: %s", buf_z(r->path), what);
}

int model_no_room(struct model_reader *r)
{
	return json_no_room(r->arena, 0, r->e);
}

/* A string as it is, anything else as JSON; NULL: no room. */
static const char *model_text(struct model_reader *r, const struct json *v)
{
	AUTO(buf_done) struct buf b = BUF_INIT(RESULT_MAX);
	struct json_out o = json_out(&b);

	if (v->type == JSON_STRING)
		return arena_dup(r->arena, v->s);
	json_tree(&o, v);
	return b.failed ? NULL : arena_dup(r->arena, buf_str(&b));
}

static int read_string(struct model_reader *r, const struct json *v, const char **out)
{
	if (v->type != JSON_STRING)
		return model_bad(r, "it is no string");
	*out = arena_dup(r->arena, v->s);
	return *out ? 0 : model_no_room(r);
}

static int read_int(struct model_reader *r, const struct json *v, int64_t *out)
{
	if (v->type == JSON_REAL && v->d > -REAL_INT_MAX && v->d < REAL_INT_MAX && v->d == (double)(int64_t)v->d)
		*out = (int64_t)v->d;
	else if (v->type == JSON_INT)
		*out = v->i;
	else
		return model_bad(r, "it is no integer");
	return 0;
}

static int read_small(struct model_reader *r, const struct json *v, int *out)
{
	int64_t i = 0;

	if (read_int(r, v, &i) < 0)
		return -1;
	if (i < INT32_MIN || i > INT32_MAX)
		return model_bad(r, "it is out of range");
	*out = (int)i;
	return 0;
}

static int read_real(struct model_reader *r, const struct json *v, double *out)
{
	switch ((int)v->type) {
	case JSON_INT:
		*out = (double)v->i;
		return 0;
	case JSON_UINT:
		*out = (double)v->u;
		return 0;
	case JSON_REAL:
		*out = v->d;
		return 0;
	default:
		return model_bad(r, "it is no number");
	}
}

static int read_strings(struct model_reader *r, const struct json *v, struct osb_strings *out)
{
	const char **items;
	size_t n = 0;

	if (v->type != JSON_ARRAY)
		return model_bad(r, "it is no array");
	items = arena_array(r->arena, MAX(v->kids.n, (size_t)1), sizeof(*items));
	if (!items)
		return model_no_room(r);
	for (const struct json *kid = json_first(v); kid; kid = kid->next)
		if (read_string(r, kid, &items[n++]) < 0)
			return -1;
	*out = (struct osb_strings){ .items = items, .n = n };
	return 0;
}

static int read_map(struct model_reader *r, const struct json *v, struct osb_map *out)
{
	struct osb_pair *items;
	size_t n = 0;

	if (v->type != JSON_OBJECT)
		return model_bad(r, "it is no object");
	items = arena_array(r->arena, MAX(v->kids.n, (size_t)1), sizeof(*items));
	if (!items)
		return model_no_room(r);
	for (const struct json *kid = json_first(v); kid; kid = kid->next) {
		items[n].key = arena_dup(r->arena, kid->key);
		items[n].value = model_text(r, kid);
		if (!items[n].key || !items[n].value)
			return model_no_room(r);
		n++;
	}
	*out = (struct osb_map){ .items = items, .n = n };
	return 0;
}

static int read_objects(struct model_reader *r, const struct model_field *f, const struct json *v, char *out)
{
	size_t n = 0, depth = r->path->n;
	char *items;

	if (v->type != JSON_ARRAY)
		return model_bad(r, "it is no array");
	if (v->kids.n > MODEL_ITEMS_MAX)
		return model_bad(r, "it has too many items");
	items = arena_array(r->arena, MAX(v->kids.n, (size_t)1), f->model->size);
	if (!items)
		return model_no_room(r);
	for (const struct json *kid = json_first(v); kid; kid = kid->next, n++) {
		json_path_index(r->path, n);
		if (model_read_struct(r, f->model, kid, items + n * f->model->size) < 0)
			return -1;
		r->path->n = depth;
	}
	memcpy(out + f->offset, &items, sizeof(items));
	*(size_t *)(void *)(out + f->n) = n;
	return 0;
}

static int read_value(struct model_reader *r, const struct model_field *f, const struct json *v, char *out)
{
	void *at = out + f->offset;

	switch (f->kind) {
	case MODEL_STRING:
	case MODEL_TIME:
		return read_string(r, v, at);
	case MODEL_INT:
		return read_int(r, v, at);
	case MODEL_SMALL:
		return read_small(r, v, at);
	case MODEL_REAL:
		return read_real(r, v, at);
	case MODEL_BOOL:
		if (v->type != JSON_BOOL)
			return model_bad(r, "it is no boolean");
		*(bool *)at = v->b;
		return 0;
	case MODEL_STRINGS:
		return read_strings(r, v, at);
	case MODEL_MAP:
		return read_map(r, v, at);
	case MODEL_OBJECT:
		return model_read_struct(r, f->model, v, at);
	case MODEL_OBJECTS:
		return read_objects(r, f, v, out);
	}
	return model_bad(r, "it has no kind");
}

static int read_field(struct model_reader *r, const struct model_field *f, const struct json *object, char *out)
{
	const struct json *v = *f->wire ? json_get(object, f->wire) : object;
	size_t depth = r->path->n;

	if (*f->wire)
		json_path_key(r->path, str_of(f->wire));
	if (!v || v->type == JSON_NULL) {
		if (f->required)
			return model_bad(r, "it is missing");
		if (f->kind == MODEL_INT)
			*(int64_t *)(void *)(out + f->offset) = f->none;
	} else {
		if (read_value(r, f, v, out) < 0)
			return -1;
		if (f->has)
			*(bool *)(out + f->has - 1) = true;
	}
	r->path->n = depth;
	if (r->path->p)
		r->path->p[depth] = '\0';
	return 0;
}

int model_read_struct(struct model_reader *r, const struct model *m, const struct json *v, void *out)
{
	if (m->read)
		return m->read(r, v, out);
	if (v->type != JSON_OBJECT && (m->n_fields == 0 || *m->fields[0].wire))
		return model_bad(r, "it is no object");
	for (size_t i = 0; i < m->n_fields; i++)
		if (m->fields[i].wire && read_field(r, &m->fields[i], v, out) < 0)
			return -1;
	return 0;
}

void *model_read(const struct model *m, const struct json *v, struct err *e)
{
	AUTO(buf_done) struct buf path = BUF_INIT(PATH_MAX_BYTES);
	void *result = result_new(m, e);
	struct model_reader r = { .path = &path, .e = e };

	if (!result)
		return NULL;
	r.arena = result_arena(result);
	if (model_read_struct(&r, m, v, result) < 0) {
		result_free(result);
		return NULL;
	}
	return result;
}
