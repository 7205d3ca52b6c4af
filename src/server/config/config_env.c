// SPDX-License-Identifier: Apache-2.0
/* Values from the environment and from flags become nodes of the document, so that one decoder checks them all. */
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/toml.h"
#include "server/config/config_impl.h"

#include "base/banned.h"

#define ENV_PREFIX "OPENSANDBOX_"
#define DEPTH_MAX 8 /* of the tables of fields */

const char *config_env(const char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

bool config_env_name(struct buf *b, const char *key)
{
	buf_addf(b, ENV_PREFIX);
	for (; *key; key++) {
		char c = *key;

		if (c >= 'a' && c <= 'z')
			c = (char)(c - 'a' + 'A');
		else if (c == '.')
			c = '_';
		buf_add_char(b, c);
	}
	return !b->failed;
}

static struct json *node_new(struct config_loading *l, enum json_type type, const char *origin)
{
	struct config_origin *o = arena_alloc(l->arena, sizeof(*o));
	struct json *v = arena_alloc(l->arena, sizeof(*v));

	if (!o || !v)
		return NULL;
	v->type = type;
	*o = (struct config_origin){ .next = l->origins, .node = v, .name = origin };
	l->origins = o;
	return v;
}

/* Strings and names are taken as they are, everything else is a TOML value. What does not parse stays a string, for
 * the decoder to say what it should have been. */
static struct json *value_parse(struct config_loading *l, const struct field *f, const char *text, const char *origin)
{
	struct json *v = node_new(l, JSON_STRING, origin);
	static const struct json_limits limits = { .depth = 8 };
	struct json *root = NULL;
	char *line;

	if (!v)
		return NULL;
	v->s = str_of(text);
	if (f->kind == FIELD_STRING || f->kind == FIELD_TEXT || f->kind == FIELD_ENUM)
		return v;
	line = arena_printf(l->arena, "v = %s", text);
	if (!line)
		return NULL;
	root = toml_parse(l->arena, str_of(line), &limits, NULL, &(struct err){ 0 }); /* refused by the decoder */
	if (root && root->kids.n == 1 && str_is(root->kids.first->key, "v")) {
		*v = *root->kids.first;
		v->line = 0;
	}
	return v;
}

/* Sets or replaces OBJECT's member. In place, so that its neighbours stay as they are. */
static struct json *object_put(struct json *object, struct str key, struct json *v)
{
	v->key = key;
	v->next = NULL;
	for (struct json *old = object->kids.first, *prev = NULL; old; prev = old, old = old->next) {
		if (!str_eq(old->key, key))
			continue;
		v->next = old->next;
		if (prev)
			prev->next = v;
		else
			object->kids.first = v;
		if (object->kids.last == old)
			object->kids.last = v;
		return v;
	}
	json_append(object, v);
	return v;
}

/* The table that KEY's first part names, made if there is none. *key moves on to the rest. NULL: out of memory, or
 * something else has that name, which the decoder will refuse. */
static struct json *table_step(struct config_loading *l, struct json *at, struct str *key, const char *origin)
{
	struct str head, tail;
	struct json *next;

	(void)str_cut(*key, '.', &head, &tail);
	*key = tail;
	for (next = at->kids.first; next; next = next->next)
		if (str_eq(next->key, head))
			return next->type == JSON_OBJECT ? next : NULL;
	next = node_new(l, JSON_OBJECT, origin);
	if (!next) {
		config_problem(l, origin, "out of memory");
		return NULL;
	}
	return object_put(at, head, next);
}

static int set_value(struct config_loading *l, const struct field *f, const char *key, const char *text,
		     const char *origin)
{
	bool is_text = strlen(text) <= CONFIG_ENV_VALUE_MAX && utf8_valid(str_of(text));
	struct json *v = is_text ? value_parse(l, f, text, origin) : node_new(l, JSON_NULL, origin);
	const char *copy = arena_strndup(l->arena, key, strlen(key));
	struct str rest = str_of(copy);
	struct json *at = l->root;

	if (!v || !copy)
		return err_no_memory(l->e);
	while (at && memchr(rest.p, '.', rest.n))
		at = table_step(l, at, &rest, origin);
	if (at)
		object_put(at, rest, v);
	if (!is_text)
		config_problem(l, key, "must be UTF-8 of at most %zu bytes", CONFIG_ENV_VALUE_MAX);
	return 0;
}

/* Walks the tables of fields with the key of each leaf. */
struct walk {
	struct config_loading *l;
	int (*leaf)(struct walk *w, const struct field *f, const char *key);
	const void *arg;
};

static int walk_fields(struct walk *w, const struct field *fields, const char *above, unsigned depth)
{
	char key[CONFIG_PATH_MAX];

	for (const struct field *f = fields; f->name && depth < DEPTH_MAX; f++) {
		int rc;

		(void)snprintf(key, sizeof(key), "%s%s%s", above, above[0] ? "." : "", f->name);
		if (f->kind == FIELD_OBJECT)
			rc = walk_fields(w, f->fields, key, depth + 1);
		else
			rc = w->leaf(w, f, key);
		if (rc < 0)
			return -1;
	}
	return 0;
}

static int leaf_from_env(struct walk *w, const struct field *f, const char *key)
{
	AUTO(buf_done) struct buf name = BUF_INIT(2 * (size_t)CONFIG_PATH_MAX);
	const char *value, *origin;

	if (!config_env_name(&name, key))
		return err_no_memory(w->l->e);
	value = config_env(w->arg, buf_z(&name));
	if (!value)
		return 0;
	origin = arena_dup(w->l->arena, buf_str(&name));
	if (!origin)
		return err_no_memory(w->l->e);
	return set_value(w->l, f, key, value, origin);
}

static int leaf_from_flags(struct walk *w, const struct field *f, const char *key)
{
	for (const struct config_flag *flag = w->arg; flag && flag->key; flag++)
		if (flag->value && strcmp(flag->key, key) == 0 && set_value(w->l, f, key, flag->value, flag->option) < 0)
			return -1;
	return 0;
}

int config_apply_env(struct config_loading *l, const char *const *env)
{
	struct walk w = { .l = l, .leaf = leaf_from_env, .arg = env };

	return walk_fields(&w, config_fields, "", 0);
}

int config_apply_flags(struct config_loading *l, const struct config_flag *flags)
{
	struct walk w = { .l = l, .leaf = leaf_from_flags, .arg = flags };

	return walk_fields(&w, config_fields, "", 0);
}
