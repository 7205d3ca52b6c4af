// SPDX-License-Identifier: Apache-2.0
/* The rows of pools: what is loaded is checked like a request. */
#include "base/civil.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/uuid.h"
#include "server/store/store_impl.h"

#include "base/banned.h"

static bool is_edge(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool pool_name_valid(struct str name)
{
	if (name.n == 0 || name.n > STORE_POOL_NAME_MAX || !is_edge(name.p[0]) || !is_edge(name.p[name.n - 1]))
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (!is_edge(name.p[i]) && name.p[i] != '-')
			return false;
	return true;
}

static bool is_size(int64_t n)
{
	return n >= 0 && n <= STORE_POOL_SIZE_MAX;
}

const char *pool_capacity_check(const struct pool_capacity *c)
{
	if (!is_size(c->buffer_min) || !is_size(c->buffer_max) || !is_size(c->pool_min) || !is_size(c->pool_max))
		return "a size that cannot be";
	if (c->buffer_min > c->buffer_max)
		return "bufferMin: must not be above bufferMax";
	return c->pool_min > c->pool_max ? "poolMin: must not be above poolMax" : NULL;
}

static struct str text_at(sqlite3_stmt *st, int i)
{
	const void *p = sqlite3_column_blob(st, i);
	int n = sqlite3_column_bytes(st, i);

	return (struct str){ p ? p : "", n > 0 ? (size_t)n : 0 };
}

static int check_row(const struct store_pool *p, struct arena *a, struct err *e)
{
	struct json_limits limits = { .bytes = ROW_SPEC_MAX };
	const char *why = pool_capacity_check(&p->capacity);

	if (why)
		return err_set(e, ERR_INVALID, "%s", why);
	if (p->created_us <= 0 || p->created_us / US_PER_S > CIVIL_MAX_S)
		return err_set(e, ERR_INVALID, "a time that cannot be");
	return json_parse(a, p->template, &limits, NULL, e) ? 0 : err_wrap(e, "template");
}

int pool_row_load(sqlite3_stmt *st, struct arena *a, struct store_pool *ret, struct err *e)
{
	struct str id = text_at(st, 0), name = text_at(st, 1), template = text_at(st, 2);
	struct store_pool p = {
		.capacity = { sqlite3_column_int64(st, 3), sqlite3_column_int64(st, 4), sqlite3_column_int64(st, 5),
			      sqlite3_column_int64(st, 6) },
		.created_us = sqlite3_column_int64(st, 7),
	};

	if (!id_valid(id) || !pool_name_valid(name))
		return err_set(e, ERR_INVALID, "pool '%s': not a name", SHOWN(name));
	if (template.n > ROW_SPEC_MAX)
		return err_set(e, ERR_INVALID, "pool '%s': the template is too long", SHOWN(name));
	p.id = arena_dup(a, id);
	p.name = arena_dup(a, name);
	p.template = (struct str){ arena_dup(a, template), template.n };
	if (!p.id || !p.name || !p.template.p)
		return err_no_memory(e);
	if (check_row(&p, a, e) < 0)
		return err_wrap(e, "pool '%s'", p.name);
	*ret = p;
	return 0;
}

int connection_load_pools(struct connection *c, store_pool_fn *fn, void *arg, enum store_fault *ret_fault, struct err *e)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(8 * ROW_SPEC_MAX);
	struct store_pool pool;
	sqlite3_stmt *st = NULL;
	int r = 0;

	c->rc = sqlite3_prepare_v2(c->db, SELECT_POOLS " ORDER BY created_us, id", -1, &st, NULL);
	while (c->rc == SQLITE_OK && r == 0) {
		int rc = sqlite3_step(st);

		if (rc != SQLITE_ROW) {
			c->rc = rc;
			break;
		}
		arena_reset(&a);
		r = pool_row_load(st, &a, &pool, e) < 0 ? -1 : fn(&pool, arg, e);
	}
	if (r == 0 && c->rc != SQLITE_DONE)
		r = sql_error(c->db, c->rc, "read the database", e);
	(void)sqlite3_finalize(st);
	if (r < 0)
		*ret_fault = sql_is_damage(c->rc) || e->code == ERR_INVALID ? STORE_DAMAGED : STORE_FAILED;
	return r;
}
