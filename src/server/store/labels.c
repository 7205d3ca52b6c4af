// SPDX-License-Identifier: Apache-2.0
#include "server/store/labels.h"

#include "base/err.h"

#include "base/banned.h"

#define LABELS_BYTES_MAX ((size_t)256 * 1024) /* LABELS_MAX of the longest ones, and the arena's own */

/* ---- the rules ---- */

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_alnum(s.p[i]) && s.p[i] != '-' && s.p[i] != '_' && s.p[i] != '.')
			return false;
	return s.n > 0 && s.n <= LABEL_NAME_MAX && is_alnum(s.p[0]) && is_alnum(s.p[s.n - 1]);
}

static bool is_dns_label(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((!is_alnum(s.p[i]) && s.p[i] != '-') || (s.p[i] >= 'A' && s.p[i] <= 'Z'))
			return false;
	return s.n > 0 && s.p[0] != '-' && s.p[s.n - 1] != '-';
}

static bool is_subdomain(struct str s)
{
	struct str label, rest = s;
	bool more = true;

	if (s.n > LABEL_PREFIX_MAX)
		return false;
	while (more) {
		more = str_cut(rest, '.', &label, &rest);
		if (!is_dns_label(label))
			return false;
	}
	return true;
}

const char *label_check_key(struct str key)
{
	struct str prefix, name;

	if (str_cut(key, '/', &prefix, &name)) {
		if (!is_subdomain(prefix))
			return "the prefix must be a lower-case DNS name of at most 253 characters";
	} else {
		name = key;
	}
	if (!is_name(name))
		return "the name must be 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";
	return NULL;
}

const char *label_check_value(struct str value)
{
	if (value.n > 0 && !is_name(value))
		return "the value must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";
	return NULL;
}

bool label_is_reserved(struct str key)
{
	return str_starts(key, STR(LABEL_RESERVED));
}

/* ---- sets ---- */

void labels_free(struct labels *l)
{
	if (l)
		arena_done(&l->arena);
	free(l);
}

static struct labels *labels_make(size_t n, struct err *e)
{
	AUTO(labels_free) struct labels *l = calloc(1, sizeof(*l));

	if (l) {
		l->arena = ARENA_INIT(LABELS_BYTES_MAX);
		l->map.items = n > 0 ? arena_array(&l->arena, n, sizeof(*l->map.items)) : NULL;
	}
	if (!l || (n > 0 && !l->map.items)) {
		(void)err_no_memory(e);
		return NULL;
	}
	return take_ptr(&l);
}

static int labels_add(struct labels *l, const char *key, const char *value, struct err *e)
{
	struct string_pair *p = &l->map.items[l->map.n];

	p->key = arena_dup(&l->arena, str_of(key));
	p->value = arena_dup(&l->arena, str_of(value));
	if (!p->key || !p->value)
		return err_no_memory(e);
	l->map.n++;
	return 0;
}

struct labels *labels_new(const struct string_map *map, struct err *e)
{
	AUTO(labels_free) struct labels *l = labels_make(map->n, e);

	if (!l)
		return NULL;
	for (size_t i = 0; i < map->n; i++)
		if (labels_add(l, map->items[i].key, map->items[i].value, e) < 0)
			return NULL;
	return take_ptr(&l);
}

const char *labels_get(const struct labels *l, const char *key)
{
	for (size_t i = 0; i < l->map.n; i++)
		if (strcmp(l->map.items[i].key, key) == 0)
			return l->map.items[i].value;
	return NULL;
}

static const struct label_change *find_change(const struct label_change *changes, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(changes[i].key, key) == 0)
			return &changes[i];
	return NULL;
}

struct labels *labels_patch(const struct labels *l, const struct label_change *changes, size_t n, struct err *e)
{
	AUTO(labels_free) struct labels *to = labels_make(l->map.n + n, e);

	if (!to)
		return NULL;
	for (size_t i = 0; i < l->map.n; i++) {
		const struct string_pair *p = &l->map.items[i];
		const struct label_change *c = find_change(changes, n, p->key);

		if (c && !c->value)
			continue;
		if (labels_add(to, p->key, c ? c->value : p->value, e) < 0)
			return NULL;
	}
	for (size_t i = 0; i < n; i++)
		if (changes[i].value && !labels_get(l, changes[i].key) &&
		    labels_add(to, changes[i].key, changes[i].value, e) < 0)
			return NULL;
	if (to->map.n > LABELS_MAX) {
		(void)err_set(e, ERR_LIMIT, "more than %d metadata entries", LABELS_MAX);
		return NULL;
	}
	return take_ptr(&to);
}
