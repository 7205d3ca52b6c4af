// SPDX-License-Identifier: Apache-2.0
/* The tree under construction, and who may add to which part of it. */
#include "base/arena.h"
#include "base/escape.h"
#include "base/toml_private.h"

#include "base/banned.h"

/* Tables up to this size are searched key by key; larger ones get a map, so that a file of many keys costs
 * time in proportion to its size. */
#define KEYS_WITHOUT_MAP 16

static struct toml_node *node_of(struct json *v)
{
	return container_of(v, struct toml_node, v);
}

static void *value_alloc(struct toml *t, size_t size)
{
	void *v;

	if (t->values == t->values_max) {
		(void)toml_fail_as(t, ERR_LIMIT, "more than %zu values", t->values_max);
		return NULL;
	}
	t->values++;
	v = arena_alloc(t->arena, size);
	if (!v)
		(void)err_no_memory(t->e);
	return v;
}

struct toml_node *toml_node_new(struct toml *t, const struct toml_node *parent, enum json_type type,
				enum toml_origin origin)
{
	unsigned depth = parent ? parent->depth + 1 : 1;
	struct toml_node *node;

	if (depth > t->depth_max) {
		(void)toml_fail_as(t, ERR_LIMIT, "nested deeper than %u levels", t->depth_max);
		return NULL;
	}
	node = value_alloc(t, sizeof(*node));
	if (!node)
		return NULL;
	node->v.type = type;
	node->v.line = t->line;
	node->origin = origin;
	node->depth = depth;
	return node;
}

struct json *toml_node_scalar(struct toml *t)
{
	struct json *v = value_alloc(t, sizeof(*v));

	if (v)
		v->line = t->line;
	return v;
}

void toml_release(struct toml *t)
{
	for (struct toml_node *node = t->keyed; node; node = node->next_keyed)
		map_done(node->keys);
	t->keyed = NULL;
}

/* ---- keys of one table --------------------------------------------------------------------------------- */

static struct json *lookup(const struct toml_node *table, struct str key)
{
	if (table->keys)
		return map_get(table->keys, key);
	for (struct json *v = table->v.kids.first; v; v = v->next)
		if (str_eq(v->key, key))
			return v;
	return NULL;
}

static int start_map(struct toml *t, struct toml_node *table)
{
	struct map *m = arena_alloc(t->arena, sizeof(*m));

	if (!m)
		return err_no_memory(t->e);
	*m = MAP_INIT;
	table->keys = m;
	table->next_keyed = t->keyed;
	t->keyed = table;
	for (struct json *v = table->v.kids.first; v; v = v->next)
		if (!map_put(m, v->key, v))
			return err_no_memory(t->e);
	return 0;
}

int toml_insert(struct toml *t, struct toml_node *table, struct str key, struct json *v)
{
	v->key = key;
	json_append(&table->v, v);
	if (table->keys)
		return map_put(table->keys, key, v) ? 0 : err_no_memory(t->e);
	return table->v.kids.n > KEYS_WITHOUT_MAP ? start_map(t, table) : 0;
}

int toml_check_free(struct toml *t, const struct toml_node *table, struct str key)
{
	const struct json *v = lookup(table, key);

	if (!v)
		return 0;
	return toml_fail(t, "key '%s' is already defined on line %u", SHOWN(key), v->line);
}

/* ---- the walk along dotted keys and header paths ------------------------------------------------------- */

static struct toml_node *add_table(struct toml *t, struct toml_node *table, struct str key, enum toml_origin origin)
{
	struct toml_node *node = toml_node_new(t, table, JSON_OBJECT, origin);

	return node && toml_insert(t, table, key, &node->v) == 0 ? node : NULL;
}

static struct toml_node *refuse(struct toml *t, struct str key, const struct json *v, const char *why)
{
	(void)toml_fail(t, "'%s' of line %u %s", SHOWN(key), v->line, why);
	return NULL;
}

struct toml_node *toml_walk_dotted(struct toml *t, struct toml_node *table, struct str key)
{
	struct json *v = lookup(table, key);
	struct toml_node *node;

	if (!v)
		return add_table(t, table, key, TOML_DOTTED);
	if (v->type == JSON_ARRAY)
		return refuse(t, key, v, "is an array: a dotted key cannot add to it");
	if (v->type != JSON_OBJECT)
		return refuse(t, key, v, "is a value, not a table");
	node = node_of(v);
	if (node->origin == TOML_INLINE)
		return refuse(t, key, v, "is an inline table, which is closed");
	if (node->origin == TOML_HEADER)
		return refuse(t, key, v, "is defined by its own header: a dotted key cannot add to it");
	node->origin = TOML_DOTTED; /* an implicit table is defined now */
	return node;
}

struct toml_node *toml_walk_header(struct toml *t, struct toml_node *table, struct str key)
{
	struct json *v = lookup(table, key);
	struct toml_node *node;

	if (!v)
		return add_table(t, table, key, TOML_IMPLICIT);
	if (v->type != JSON_OBJECT && v->type != JSON_ARRAY)
		return refuse(t, key, v, "is a value, not a table");
	node = node_of(v);
	if (node->origin == TOML_INLINE)
		return refuse(t, key, v, "is an inline table, which is closed");
	if (node->origin == TOML_STATIC_ARRAY)
		return refuse(t, key, v, "is an array that was given as a value, which is closed");
	return node->origin == TOML_TABLE_ARRAY ? node_of(v->kids.last) : node;
}

struct toml_node *toml_define(struct toml *t, struct toml_node *table, struct str key)
{
	struct json *v = lookup(table, key);
	struct toml_node *node;

	if (!v)
		return add_table(t, table, key, TOML_HEADER);
	if (v->type == JSON_ARRAY)
		return refuse(t, key, v, "is an array, not a table");
	if (v->type != JSON_OBJECT)
		return refuse(t, key, v, "is a value, not a table");
	node = node_of(v);
	if (node->origin == TOML_DOTTED)
		return refuse(t, key, v, "is defined by dotted keys: a header cannot define it again");
	if (node->origin != TOML_IMPLICIT) {
		(void)toml_fail(t, "table '%s' is already defined on line %u", SHOWN(key), v->line);
		return NULL;
	}
	node->origin = TOML_HEADER;
	return node;
}

struct toml_node *toml_define_element(struct toml *t, struct toml_node *table, struct str key)
{
	struct json *v = lookup(table, key);
	struct toml_node *array, *node;

	if (v && v->type != JSON_ARRAY)
		return refuse(t, key, v, v->type == JSON_OBJECT ? "is a table, not an array of tables" :
								    "is a value, not an array of tables");
	if (v && node_of(v)->origin == TOML_STATIC_ARRAY)
		return refuse(t, key, v, "is an array that was given as a value, which is closed");
	array = v ? node_of(v) : toml_node_new(t, table, JSON_ARRAY, TOML_TABLE_ARRAY);
	if (!array || (!v && toml_insert(t, table, key, &array->v) < 0))
		return NULL;
	node = toml_node_new(t, array, JSON_OBJECT, TOML_HEADER);
	if (node)
		json_append(&array->v, &node->v);
	return node;
}
