// SPDX-License-Identifier: Apache-2.0
/* Results as JSON, with the names and the order that the other SDKs have. */
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json_out.h"
#include "base/rfc3339.h"
#include "client/model.h"
#include "client/opensandbox.h"

#include "base/banned.h"

int64_t osb_time_ms(const char *rfc3339)
{
	struct timespec t;

	if (!rfc3339 || rfc3339_parse(str_of(rfc3339), 0, &t, &(struct err){ 0 }) < 0)
		return -1;
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Six digits of a fraction or none, and Z for UTC. Another offset stays, as it does there. */
static void model_show_time(struct json_out *o, const char *rfc3339)
{
	struct str text = str_of(rfc3339);
	bool is_utc = str_ends(text, STR("Z")) || str_ends(text, STR("z")) || str_ends(text, STR("+00:00"));
	char out[RFC3339_SIZE];
	struct timespec t;

	if (rfc3339 && is_utc && rfc3339_parse(text, 0, &t, &(struct err){ 0 }) == 0) {
		(void)rfc3339_format(t, out);
		rfc3339 = out;
	}
	json_cstr(o, rfc3339);
}

static void show_strings(struct json_out *o, const struct osb_strings *s)
{
	json_open(o, '[');
	for (size_t i = 0; i < s->n; i++)
		json_cstr(o, s->items[i]);
	json_close(o, ']');
}

static void show_map(struct json_out *o, const struct osb_map *m)
{
	json_open(o, '{');
	for (size_t i = 0; i < m->n; i++)
		json_key(o, m->items[i].key), json_cstr(o, m->items[i].value);
	json_close(o, '}');
}

static void show_objects(struct json_out *o, const struct model_field *f, const char *p, size_t n)
{
	const char *items;

	memcpy(&items, p + f->offset, sizeof(items));
	json_open(o, '[');
	for (size_t i = 0; i < n; i++)
		model_show(o, f->model, items + i * f->model->size);
	json_close(o, ']');
}

static bool is_absent(const struct model_field *f, const char *p)
{
	const void *at = p + f->offset;

	if (f->has && !*(const bool *)(p + f->has - 1))
		return true;
	switch ((int)f->kind) {
	case MODEL_INT:
		return f->none != 0 && *(const int64_t *)at == f->none;
	case MODEL_STRINGS:
		return f->is_nullable && ((const struct osb_strings *)at)->n == 0;
	case MODEL_MAP:
		return f->is_nullable && ((const struct osb_map *)at)->n == 0;
	case MODEL_OBJECTS:
		return f->is_nullable && *(const size_t *)(const void *)(p + f->n) == 0;
	default:
		return false;
	}
}

static void show_value(struct json_out *o, const struct model_field *f, const char *p)
{
	const void *at = p + f->offset;

	switch (f->kind) {
	case MODEL_STRING:
		json_cstr(o, *(const char *const *)at);
		return;
	case MODEL_TIME:
		model_show_time(o, *(const char *const *)at);
		return;
	case MODEL_INT:
		json_int(o, *(const int64_t *)at);
		return;
	case MODEL_SMALL:
		json_int(o, *(const int *)at);
		return;
	case MODEL_REAL:
		json_real(o, *(const double *)at);
		return;
	case MODEL_BOOL:
		json_bool(o, *(const bool *)at);
		return;
	case MODEL_STRINGS:
		show_strings(o, at);
		return;
	case MODEL_MAP:
		show_map(o, at);
		return;
	case MODEL_OBJECT:
		model_show(o, f->model, at);
		return;
	case MODEL_OBJECTS:
		show_objects(o, f, p, *(const size_t *)(const void *)(p + f->n));
		return;
	}
}

static void show_field(struct json_out *o, const struct model_field *f, const void *p)
{
	if (*f->name)
		json_key(o, f->name);
	if (is_absent(f, p))
		json_null(o);
	else
		show_value(o, f, p);
}

void model_show(struct json_out *o, const struct model *m, const void *p)
{
	bool is_object = m->n_fields == 0 || !m->fields[0].name || *m->fields[0].name;

	if (m->show) {
		m->show(o, p);
		return;
	}
	if (is_object)
		json_open(o, '{');
	for (size_t i = 0; i < m->n_fields; i++)
		if (m->fields[i].name)
			show_field(o, &m->fields[i], p);
	if (is_object)
		json_close(o, '}');
}

/* ---- bytes ---- */

static void show_bytes(struct json_out *o, const void *p)
{
	const struct osb_bytes *b = p;

	json_str(o, (struct str){ b->data, b->n });
}

static void show_json(struct json_out *o, const void *p)
{
	const struct osb_bytes *b = p;

	json_raw(o, (struct str){ b->data, b->n });
}

const struct model bytes_model = { .size = sizeof(struct osb_bytes), .show = show_bytes };
const struct model json_model = { .size = sizeof(struct osb_bytes), .show = show_json };
