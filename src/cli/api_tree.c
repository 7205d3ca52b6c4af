// SPDX-License-Identifier: Apache-2.0
#include "cli/api_tree.h"

#include "base/arena.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/human.h"

#include "base/banned.h"

#define DIGEST_SHOWN (sizeof("sha256:0123456789ab") - 1)

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static struct str snake(struct arena *a, struct str key)
{
	size_t n = 0;
	char *p;

	for (size_t i = 0; i < key.n; i++)
		n += is_upper(key.p[i]) && i > 0 ? 2 : 1;
	p = arena_alloc(a, n + 1);
	if (!p)
		return (struct str){ NULL, 0 };
	n = 0;
	for (size_t i = 0; i < key.n; i++) {
		if (is_upper(key.p[i]) && i > 0)
			p[n++] = '_';
		p[n++] = (char)(is_upper(key.p[i]) ? key.p[i] - 'A' + 'a' : key.p[i]);
	}
	return (struct str){ p, n };
}

/* As deep as the parser lets a tree be. */
struct json *api_rename(struct arena *a, const struct json *v)
{
	struct json *copy = arena_alloc(a, sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *v;
	copy->next = NULL;
	if (v->type != JSON_OBJECT && v->type != JSON_ARRAY)
		return copy;
	copy->kids.first = copy->kids.last = NULL;
	copy->kids.n = 0;
	for (const struct json *kid = v->kids.first; kid; kid = kid->next) {
		struct json *k = api_rename(a, kid);

		if (!k)
			return NULL;
		if (v->type == JSON_OBJECT) {
			k->key = snake(a, kid->key);
			if (!k->key.p)
				return NULL;
		}
		json_append(copy, k);
	}
	return copy;
}

const struct json *api_tree(struct cli *cli, const struct osb_bytes *answer)
{
	const struct json *v = cli_parse(cli, (struct str){ answer->data, answer->n });
	const struct json *renamed = v ? api_rename(&cli->arena, v) : NULL;

	if (v && !renamed)
		(void)cli_fail(cli, "out of memory");
	return renamed;
}

static const struct json *follow(const struct json *v, struct str path)
{
	while (v && path.n > 0) {
		struct str step;
		char name[64];

		(void)str_cut(path, '.', &step, &path);
		if (v->type != JSON_OBJECT || step.n >= sizeof(name))
			return NULL;
		memcpy(name, step.p, step.n);
		name[step.n] = '\0';
		v = json_get(v, name);
	}
	return v;
}

static void show_size(struct arena *a, struct json *cell)
{
	const char *text = cell->type == JSON_INT && cell->i >= 0 ? arena_printf(a, "%s", BYTES((uint64_t)cell->i)) : NULL;

	if (!text)
		return;
	cell->type = JSON_STRING;
	cell->s = str_of(text);
}

static void show_for_people(struct arena *a, struct json *cell)
{
	if (str_is(cell->key, "size"))
		show_size(a, cell);
	else if (str_is(cell->key, "digest") && cell->type == JSON_STRING)
		cell->s = str_first(cell->s, DIGEST_SHOWN);
}

static struct json *row_of(struct arena *a, const struct json *item, const char *const *paths, const char *const *columns)
{
	struct json *row = arena_alloc(a, sizeof(*row));

	if (!row)
		return NULL;
	row->type = JSON_OBJECT;
	for (size_t i = 0; paths[i]; i++) {
		const struct json *v = follow(item, str_of(paths[i]));
		struct json *cell = arena_alloc(a, sizeof(*cell));

		if (!cell)
			return NULL;
		if (v)
			*cell = *v;
		cell->next = NULL;
		cell->key = str_of(columns[i]);
		show_for_people(a, cell);
		json_append(row, cell);
	}
	return row;
}

const struct json *api_rows(struct cli *cli, const struct json *items, const char *const *paths, const char *const *columns)
{
	struct json *rows = arena_alloc(&cli->arena, sizeof(*rows));

	if (!rows)
		return NULL;
	rows->type = JSON_ARRAY;
	for (const struct json *item = json_first(items); item; item = item->next) {
		struct json *row = row_of(&cli->arena, item, paths, columns);

		if (!row)
			return NULL;
		json_append(rows, row);
	}
	return rows;
}

const struct json *api_row(struct cli *cli, const struct json *item, const char *const *paths, const char *const *columns)
{
	return row_of(&cli->arena, item, paths, columns);
}
