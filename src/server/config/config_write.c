// SPDX-License-Identifier: Apache-2.0
/* The configuration as TOML: what is in effect, and the commented file that init-config leaves. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json_out.h"
#include "server/config/config.h"

#include "base/banned.h"

/* What an example sets; every other key is there as a comment with its default. */
struct preset {
	const char *kind, *key, *value;
};

static const struct preset presets[] = {
	{ "native", "runtime.type", "\"native\"" },
};

struct writer {
	struct buf *b;
	const struct config *c;
	bool is_example;
	const char *kind;
	const char *api_key;
};

static const char *preset_of(const struct writer *w, const char *key)
{
	for (size_t i = 0; w->kind && i < ARRAY_LEN(presets); i++)
		if (strcmp(presets[i].kind, w->kind) == 0 && strcmp(presets[i].key, key) == 0)
			return presets[i].value;
	return NULL;
}

/* An example's section that must be absent unless it is meant stays a comment. */
static bool is_section_set(const struct writer *w, const struct field *f, const char *key, const char *base)
{
	size_t n = strlen(key);

	if (!f->has)
		return true;
	if (!w->is_example)
		return *(const bool *)(base + f->has - 1);
	for (size_t i = 0; w->kind && i < ARRAY_LEN(presets); i++)
		if (strcmp(presets[i].kind, w->kind) == 0 && strncmp(presets[i].key, key, n) == 0 &&
		    presets[i].key[n] == '.')
			return true;
	return false;
}

static void write_strings(struct json_out *o, const struct string_list *list)
{
	json_open(o, '[');
	for (size_t i = 0; i < list->n; i++)
		json_cstr(o, list->items[i]);
	json_close(o, ']');
}

static void write_map(struct buf *b, const struct string_map *map)
{
	buf_addf(b, "{");
	for (size_t i = 0; i < map->n; i++) {
		struct json_out o = json_out(b);

		buf_addf(b, "%s", i > 0 ? ", " : " ");
		json_cstr(&o, map->items[i].key);
		buf_addf(b, " = ");
		o = json_out(b);
		json_cstr(&o, map->items[i].value);
	}
	buf_addf(b, " }");
}

/* JSON's scalars and lists are TOML's too. */
static void write_value(struct buf *b, const struct field *f, const char *at)
{
	struct json_out o = json_out(b);
	const char *s;
	int64_t i;

	switch (f->kind) {
	case FIELD_STRING:
		s = *(const char *const *)(const void *)at;
		json_cstr(&o, s ? s : "");
		break;
	case FIELD_INT:
		i = *(const int64_t *)(const void *)at;
		json_int(&o, i < f->min ? f->min : i);
		break;
	case FIELD_REAL:
		json_real(&o, *(const double *)(const void *)at);
		break;
	case FIELD_BOOL:
		json_bool(&o, *(const bool *)at);
		break;
	case FIELD_ENUM:
		json_cstr(&o, f->names[*(const int *)(const void *)at]);
		break;
	case FIELD_STRINGS:
		write_strings(&o, (const struct string_list *)(const void *)at);
		break;
	case FIELD_MAP:
		write_map(b, (const struct string_map *)(const void *)at);
		break;
	case FIELD_TEXT:
	case FIELD_OBJECT:
	case FIELD_OBJECTS:
	case FIELD_ANY:
		break;
	}
}

/* Not set: a string that is NULL, or a number outside its range. */
static bool is_unset(const struct field *f, const char *at)
{
	if (f->kind == FIELD_STRING)
		return !*(const char *const *)(const void *)at;
	if (f->kind == FIELD_INT)
		return *(const int64_t *)(const void *)at < f->min;
	return false;
}

static void write_leaf(struct writer *w, const struct field *f, const char *key, const char *base, bool commented)
{
	const char *at = base + f->offset, *preset = preset_of(w, key), *idle = config_idle(w->c, key);
	bool is_key = w->is_example && w->api_key && strcmp(key, "server.api_key") == 0;

	if (!w->is_example && is_unset(f, at))
		return;
	if (!w->is_example && f->secret) { /* a mask would load as if it were the secret */
		buf_addf(w->b, "# %s = (set, not shown)\n", f->name);
		return;
	}
	if (w->is_example && f->help)
		buf_addf(w->b, "# %s\n", f->help);
	if (commented || (w->is_example && !preset && !is_key))
		buf_addf(w->b, "#");
	buf_addf(w->b, "%s = ", f->name);
	if (preset)
		buf_addf(w->b, "%s", preset);
	else if (is_key)
		buf_addf(w->b, "\"%s\"", w->api_key);
	else
		write_value(w->b, f, at);
	buf_addf(w->b, "%s%s\n", idle ? " # " : "", idle ? idle : "");
}

static void write_leaves(struct writer *w, const struct field *fields, const char *above, const char *base,
			 bool commented)
{
	for (const struct field *f = fields; f->name; f++) {
		char key[CONFIG_PATH_MAX];

		(void)snprintf(key, sizeof(key), "%s.%s", above, f->name);
		if (f->kind != FIELD_OBJECT && f->kind != FIELD_OBJECTS)
			write_leaf(w, f, key, base, commented);
	}
}

static void write_objects(struct writer *w, const struct field *f, const char *key, const char *base, bool commented)
{
	const struct object_list *list = (const struct object_list *)(const void *)(base + f->offset);
	static const _Alignas(16) char blank[256]; /* stands for one item: larger than any struct of a list here */

	for (size_t i = 0; i < list->n; i++) {
		buf_addf(w->b, "\n[[%s]]\n", key);
		write_leaves(w, f->fields, key, (const char *)list->items + i * f->size, commented);
	}
	if (w->is_example && f->size <= sizeof(blank)) {
		buf_addf(w->b, "\n# %s\n#[[%s]]\n", f->help, key);
		write_leaves(w, f->fields, key, blank, true);
	}
}

static void write_section(struct writer *w, const struct field *f, const char *key, const char *base, bool commented)
{
	const char *at = base + f->offset;

	commented = commented || !is_section_set(w, f, key, base);
	if (commented && !w->is_example)
		return;
	buf_addf(w->b, "%s", w->b->n > 0 ? "\n" : "");
	if (w->is_example && f->help)
		buf_addf(w->b, "# %s\n", f->help);
	buf_addf(w->b, "%s[%s]\n", commented ? "#" : "", key);
	write_leaves(w, f->fields, key, at, commented);
	for (const struct field *k = f->fields; k->name; k++) {
		char below[CONFIG_PATH_MAX];

		(void)snprintf(below, sizeof(below), "%s.%s", key, k->name);
		if (k->kind == FIELD_OBJECT)
			write_section(w, k, below, at, commented); /* as deep as the tables are */
		else if (k->kind == FIELD_OBJECTS)
			write_objects(w, k, below, at, commented);
	}
}

static bool write_all(struct writer *w, const struct config *c)
{
	for (const struct field *f = config_fields; f->name; f++)
		write_section(w, f, f->name, (const char *)c, false);
	return !w->b->failed;
}

bool config_write(const struct config *c, struct buf *b)
{
	struct writer w = { .b = b, .c = c };

	return write_all(&w, c);
}

bool config_write_example(const char *kind, const char *api_key, struct buf *b)
{
	struct config c;
	struct writer w = { .b = b, .c = &c, .is_example = true, .kind = kind, .api_key = api_key };
	bool is_known = kind == NULL;

	for (size_t i = 0; kind && i < ARRAY_LEN(presets); i++)
		is_known = is_known || strcmp(presets[i].kind, kind) == 0;
	if (!is_known)
		return false;
	config_defaults(&c);
	c.server.proxy_port = c.server.port + 1; /* these two have no default that could be shown */
	c.server.max_sandbox_timeout_seconds = 86400;
	buf_addf(b, "# Configuration of opensandbox-server. A key that is commented out shows its default. Each can\n"
		    "# also be set in the environment: server.port is OPENSANDBOX_SERVER_PORT.\n");
	return write_all(&w, &c);
}
