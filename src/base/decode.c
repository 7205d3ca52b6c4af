// SPDX-License-Identifier: Apache-2.0
#include "base/decode.h"

#include <assert.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/decode_private.h"
#include "base/err.h"

#include "base/banned.h"

#define KEYS_ON_STACK 16 /* objects with more unknown keys sort them on the heap */

/* ---- keys ---- */

static int refuse_repeated(struct binding *b, const struct spot *at, const struct json *v)
{
	struct spot here = { .up = at, .key = v->key, .v = v, .fields = at->fields, .secret = at->secret };

	return problem_say(b, &here, "value_error", "Value error, the key appears more than once");
}

static int compare_keys(const void *left, const void *right)
{
	struct str a = (*(const struct json *const *)left)->key, b = (*(const struct json *const *)right)->key;

	if (a.n != b.n)
		return a.n < b.n ? -1 : 1;
	return a.n > 0 ? memcmp(a.p, b.p, a.n) : 0;
}

/* Sorts the list and refuses each key that is in it more than once. */
static int check_repeated(struct binding *b, const struct spot *at, const struct json **list, size_t n)
{
	qsort(list, n, sizeof(*list), compare_keys);
	for (size_t i = 1; i < n; i++) {
		bool repeats = compare_keys(&list[i - 1], &list[i]) == 0;
		bool is_first = i < 2 || compare_keys(&list[i - 2], &list[i]) != 0;

		if (repeats && is_first && refuse_repeated(b, at, list[i]) < 0)
			return -1;
	}
	return 0;
}

/* A list with room for every key of V: SMALL, or *HEAP that the caller frees. NULL: out of memory. */
static const struct json **key_list(struct binding *b, const struct json *v, const struct json **small,
				    const struct json ***heap)
{
	if (v->kids.n <= KEYS_ON_STACK)
		return small;
	*heap = calloc(v->kids.n, sizeof(**heap));
	if (!*heap)
		(void)err_no_memory(b->e);
	return *heap;
}

static int unknown_key(struct binding *b, const struct spot *at, const struct json *v)
{
	struct spot here = { .up = at, .key = v->key, .v = v, .fields = at->fields, .secret = at->secret };
	struct decode *d = b->d;

	if (d->closed)
		return problem_say(b, &here, "extra_forbidden", "Extra inputs are not permitted");
	if (d->n_unknown == DECODE_UNKNOWN_MAX)
		return 0;
	d->unknown[d->n_unknown] = spot_path(b, &here);
	if (!d->unknown[d->n_unknown])
		return -1;
	d->n_unknown++;
	return 0;
}

/* The names of a table, measured once for all keys of an object: keys come from a peer, and there may be many. */
struct names {
	struct str name[DECODE_FIELDS_MAX], alias[DECODE_FIELDS_MAX];
	int n;
};

static void measure(const struct field *fields, struct names *to)
{
	for (to->n = 0; fields[to->n].name; to->n++) {
		const struct field *f = &fields[to->n];

		to->name[to->n] = str_of(f->name);
		to->alias[to->n] = f->alias ? str_of(f->alias) : to->name[to->n];
	}
}

/* The row for a key, by name or alias, or -1. */
static int find_field(const struct names *names, struct str key)
{
	for (int i = 0; i < names->n; i++)
		if (str_eq(key, names->name[i]) || str_eq(key, names->alias[i]))
			return i;
	return -1;
}

/* Fills FOUND with the value for each row of the table at->fields; the other keys are unknown. */
static int match_keys(struct binding *b, const struct spot *at, const struct json **found)
{
	AUTO(free) const struct json **heap = NULL;
	const struct json *small[KEYS_ON_STACK];
	const struct json **unknown = key_list(b, at->v, small, &heap);
	struct names names;
	size_t n = 0;

	if (!unknown)
		return -1;
	if (at->v->kids.n == 0)
		return 0; /* an array may have many of these: nothing is measured for them */
	measure(at->fields, &names);
	for (const struct json *v = at->v->kids.first; v; v = v->next) {
		int i = find_field(&names, v->key), r = 0;

		if (i < 0) {
			unknown[n++] = v;
			r = unknown_key(b, at, v);
		} else if (found[i]) {
			r = refuse_repeated(b, at, v);
		} else {
			found[i] = v;
		}
		if (r < 0)
			return -1;
	}
	return check_repeated(b, at, unknown, n);
}

/* ---- objects ---- */

static int run_check(struct binding *b, const struct spot *at, const struct field *f, const void *value)
{
	const char *why = f->check ? f->check(value) : NULL;
	struct decode_problem p = { .type = "value_error" };
	struct json *pattern;

	if (!why)
		return 0;
	if (!f->pattern)
		return problem_add(b, at, &p, "Value error, %s", why);
	pattern = arena_alloc(b->d->arena, sizeof(*pattern));
	if (!pattern)
		return decode_no_room(b, 1, sizeof(*pattern));
	pattern->type = JSON_STRING;
	pattern->s = str_of(f->pattern);
	p = (struct decode_problem){ .type = "string_pattern_mismatch", .ctx_key = "pattern", .ctx_json = pattern };
	return problem_add(b, at, &p, "String should match pattern '%s'", f->pattern);
}

static int run_item_check(struct binding *b, const struct spot *at, const struct field *f, const void *item)
{
	const char *why = f->check_item ? f->check_item(item) : NULL;

	return why ? problem_add(b, at, &(struct decode_problem){ .type = "value_error" }, "Value error, %s", why) : 0;
}

static int bind_field(struct binding *b, const struct spot *at, const struct field *f, const struct json *v,
		      void *out);

/* Binds at->v, whatever it is, by the table at->fields. The recursion from here through bind_field() and back
 * follows the document, whose parser bounds its depth. */
static int bind_struct(struct binding *b, const struct spot *at, void *out)
{
	const struct json *found[DECODE_FIELDS_MAX] = { 0 };
	size_t n = 0;

	while (at->fields[n].name)
		n++;
	assert(n <= DECODE_FIELDS_MAX);
	if (at->v->type != JSON_OBJECT)
		return problem_say(b, at, "model_attributes_type",
			       "Input should be a valid dictionary or object to extract fields from");
	if (match_keys(b, at, found) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (bind_field(b, at, &at->fields[i], found[i], out) < 0)
			return -1;
	return 0;
}

static int bind_object(struct binding *b, const struct spot *at, const struct field *f, void *to)
{
	(void)f;
	return bind_struct(b, at, to);
}

/* The check that a list can be bound: its type, and how many there are. False: not, or failed (*RET is -1). */
static bool can_bind_list(struct binding *b, const struct spot *at, const struct field *f, int *ret)
{
	size_t before = b->found;

	if (at->v->type != JSON_ARRAY)
		*ret = problem_say(b, at, "list_type", "Input should be a valid list");
	else
		*ret = bind_check_count(b, at, f, "List");
	return *ret == 0 && b->found == before;
}

static int bind_strings(struct binding *b, const struct spot *at, const struct field *f, void *to)
{
	struct string_list list = { 0 };
	int r;

	if (!can_bind_list(b, at, f, &r))
		return r;
	list.items = arena_array(b->d->arena, at->v->kids.n, sizeof(*list.items));
	if (!list.items)
		return decode_no_room(b, at->v->kids.n, sizeof(*list.items));
	for (const struct json *v = at->v->kids.first; v; v = v->next) {
		struct spot here = { .up = at, .index = list.n, .v = v, .secret = at->secret };
		const char **item = &list.items[list.n++];

		if (bind_take_string(b, &here, item) < 0 || (*item && run_item_check(b, &here, f, item) < 0))
			return -1;
	}
	*(struct string_list *)to = list;
	return 0;
}

static int bind_objects(struct binding *b, const struct spot *at, const struct field *f, void *to)
{
	struct object_list list = { 0 };
	int r;

	if (!can_bind_list(b, at, f, &r))
		return r;
	list.items = arena_array(b->d->arena, at->v->kids.n, f->size);
	if (!list.items)
		return decode_no_room(b, at->v->kids.n, f->size);
	for (const struct json *v = at->v->kids.first; v; v = v->next) {
		struct spot here = { .up = at, .index = list.n, .v = v, .fields = f->fields, .secret = at->secret };
		char *item = (char *)list.items + list.n++ * f->size;
		size_t before = b->found;

		if (f->defaults)
			memcpy(item, f->defaults, f->size);
		if (bind_struct(b, &here, item) < 0 ||
		    (b->found == before && run_item_check(b, &here, f, item) < 0))
			return -1;
	}
	*(struct object_list *)to = list;
	return 0;
}

static int bind_pair(struct binding *b, const struct spot *at, const struct field *f, const struct json *v,
		     struct string_map *map)
{
	struct spot here = { .up = at, .key = v->key, .v = v, .secret = at->secret };
	struct string_pair *pair = &map->items[map->n];

	if (v->key.n > 0 && memchr(v->key.p, '\0', v->key.n))
		return problem_say(b, &here, "value_error", "Value error, the key must not contain a NUL character");
	if (v->type == JSON_NULL && !f->no_nulls)
		return 0;
	if (bind_take_string(b, &here, &pair->value) < 0)
		return -1;
	if (!pair->value)
		return 0;
	pair->key = arena_dup(b->d->arena, v->key);
	map->n++;
	return pair->key ? 0 : decode_no_room(b, v->key.n, 1);
}

static int bind_map(struct binding *b, const struct spot *at, const struct field *f, void *to)
{
	AUTO(free) const struct json **heap = NULL;
	const struct json *small[KEYS_ON_STACK], **keys;
	struct string_map map = { 0 };
	size_t n = 0, before = b->found;

	if (at->v->type != JSON_OBJECT)
		return problem_say(b, at, "dict_type", "Input should be a valid dictionary");
	if (bind_check_count(b, at, f, "Dictionary") < 0)
		return -1;
	if (b->found > before)
		return 0;
	map.items = arena_array(b->d->arena, at->v->kids.n, sizeof(*map.items));
	if (!map.items)
		return decode_no_room(b, at->v->kids.n, sizeof(*map.items));
	keys = key_list(b, at->v, small, &heap);
	if (!keys)
		return -1;
	for (const struct json *v = at->v->kids.first; v; v = v->next) {
		keys[n++] = v;
		if (bind_pair(b, at, f, v, &map) < 0)
			return -1;
	}
	*(struct string_map *)to = map;
	return check_repeated(b, at, keys, n);
}

static int bind_any(struct binding *b, const struct spot *at, const struct field *f, void *to)
{
	(void)b, (void)f;
	*(const struct json **)to = at->v;
	return 0;
}

static const binder binders[] = {
	[FIELD_STRING] = bind_string,   [FIELD_TEXT] = bind_text,       [FIELD_INT] = bind_int,
	[FIELD_REAL] = bind_real,       [FIELD_BOOL] = bind_bool,       [FIELD_ENUM] = bind_enum,
	[FIELD_STRINGS] = bind_strings, [FIELD_MAP] = bind_map,         [FIELD_OBJECT] = bind_object,
	[FIELD_OBJECTS] = bind_objects, [FIELD_ANY] = bind_any,
};

static int bind_field(struct binding *b, const struct spot *at, const struct field *f, const struct json *v,
		      void *out)
{
	struct spot here = { .up = at, .key = str_of(f->name), .v = v, .fields = f->fields };
	char *to = (char *)out + f->offset;
	size_t before = b->found;

	here.secret = at->secret || f->secret;
	if (!v || v->type == JSON_NULL) {
		if (!f->required)
			return 0;
		here.v = at->v; /* what lacks it, which may have secrets in other members */
		here.fields = at->fields;
		return problem_say(b, &here, "missing", "Field required");
	}
	if (f->has > 0)
		*(bool *)((char *)out + f->has - 1) = true;
	if (binders[f->kind](b, &here, f, to) < 0)
		return -1;
	return b->found == before ? run_check(b, &here, f, to) : 0;
}

int decode(struct decode *d, const struct json *v, const struct field *fields, void *out, struct err *e)
{
	struct binding b = { .d = d, .e = e };
	struct spot root = { .v = v, .fields = fields };
	int r;

	d->n_problems = 0;
	d->n_unknown = 0;
	if (!v || v->type == JSON_NULL)
		r = problem_say(&b, &root, "missing", "Field required");
	else
		r = bind_struct(&b, &root, out);
	if (r < 0) {
		d->n_problems = 0; /* they are incomplete, and not what went wrong */
		return -1;
	}
	if (b.found == 0)
		return 0;
	return err_set(e, ERR_INVALID, "%s: %s", d->problems[0].path, d->problems[0].msg);
}
