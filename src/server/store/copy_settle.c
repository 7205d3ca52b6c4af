// SPDX-License-Identifier: Apache-2.0
/* At a start: the database and its copy are compared, and the one that is wrong is set right (copy.c has the invariants). */
#include <stdio.h>

#include "base/buf.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "server/store/store_impl.h"

#include "base/banned.h"

/* ---- what there is ---- */

struct side {
	struct connection *c;
	bool is_there;
	enum stamp_state state;
	struct stamp stamp;                    /* as it stands there */
	struct table_sum sums[DURABLE_TABLES]; /* of what is there */
	bool is_sound[DURABLE_TABLES];         /* so far as one can say */
	int64_t seq;                           /* -1: not known */
};

/* quick_check does not compare indexes with their tables. */
static int mend_indexes(struct connection *c, struct err *e)
{
	char sql[64];

	for (size_t i = 0; i < DURABLE_TABLES; i++) {
		sqlite3_stmt *st = NULL;
		bool is_ok = false;

		(void)snprintf(sql, sizeof(sql), "PRAGMA integrity_check(%s)", durables[i].table);
		c->rc = sqlite3_prepare_v2(c->db, sql, -1, &st, NULL);
		if (c->rc == SQLITE_OK)
			c->rc = sqlite3_step(st);
		if (c->rc == SQLITE_ROW)
			is_ok = sqlite3_stricmp((const char *)sqlite3_column_text(st, 0), "ok") == 0;
		(void)sqlite3_finalize(st);
		if (c->rc != SQLITE_ROW)
			return sql_error(c->db, c->rc, sql, e);
		if (is_ok)
			continue;
		log_warn("the indexes of a table were damaged and are made anew", LOG_S("file", c->path), LOG_S("table", durables[i].table));
		(void)snprintf(sql, sizeof(sql), "REINDEX main.%s", durables[i].table);
		(void)connection_do(c, sql, &(struct err){ 0 }); /* two rows with one key: the checksum tells */
	}
	return 0;
}

static int look(struct side *s, struct connection *c, struct err *e)
{
	*s = (struct side){ .c = c, .is_there = true };
	if (mend_indexes(c, e) < 0 || stamp_read(c, &s->state, &s->stamp, e) < 0 || stamp_sum(c, s->sums, e) < 0)
		return -1;
	s->seq = s->state == STAMP_GOOD || s->state == STAMP_OLD ? s->stamp.seq : -1;
	for (size_t i = 0; i < DURABLE_TABLES; i++)
		s->is_sound[i] = s->state == STAMP_GOOD ? memcmp(&s->sums[i], &s->stamp.sums[i], sizeof(s->sums[i])) == 0 : s->state != STAMP_BAD;
	return 0;
}

/* A file without a stamp that counts is no copy: at best it was never written to. */
static bool is_copy(const struct side *copy)
{
	return copy->is_there && (copy->state == STAMP_GOOD || copy->state == STAMP_OLD);
}

static bool is_missing(const char *path)
{
	return access(path, F_OK) < 0 && errno == ENOENT;
}

int copy_open(struct connection *copy, struct err *e)
{
	enum store_fault fault = STORE_FAILED;

	if (is_missing(copy->path))
		return 0;
	if (connection_open(copy, e) < 0)
		fault = sql_is_damage(copy->rc) ? STORE_DAMAGED : STORE_FAILED;
	else if (schema_prepare(copy, &store_schema, &fault, e) == 0)
		return 0;
	connection_close(copy);
	if (fault != STORE_DAMAGED)
		return err_wrap(e, "the copy of the database");
	log_warn("the copy of the database is damaged", LOG_S("file", copy->path), LOG_ERR(e));
	*e = (struct err){ 0 };
	return 0;
}

/* ---- which is right ---- */

/* The newer one, unless only the other one is whole. */
static bool is_from_copy(const struct side *main, const struct side *copy, size_t table)
{
	if (main->state == STAMP_UNMADE || !is_copy(copy) || !copy->is_sound[table])
		return false;
	return copy->seq > main->seq || (copy->seq == main->seq && !main->is_sound[table]);
}

static int log_rows(struct connection *c, const struct durable *d, const char *sql, const char *message, uint64_t *ret_n, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(c->db, sql, -1, &st, NULL);

	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		rc = sqlite3_step(st);
		if (rc == SQLITE_ROW) {
			log_warn(message, LOG_S(d->shown_as, (const char *)sqlite3_column_text(st, 0)));
			++*ret_n;
		}
	}
	(void)sqlite3_finalize(st);
	c->rc = rc;
	return rc == SQLITE_DONE ? 0 : sql_error(c->db, rc, "compare the database with its copy", e);
}

/* Says what is different between main.TABLE and other.TABLE. */
static int log_differences(struct connection *c, const struct durable *d, uint64_t *ret_n, struct err *e)
{
	AUTO(buf_done) struct buf more = BUF_INIT(4096);
	AUTO(buf_done) struct buf less = BUF_INIT(4096);

	buf_addf(&more, "SELECT %s FROM (SELECT %s FROM other.%s EXCEPT SELECT %s FROM main.%s)", d->shown, d->columns, d->table,
		 d->columns, d->table);
	buf_addf(&less, "SELECT %s FROM main.%s WHERE (%s) NOT IN (SELECT %s FROM other.%s)", d->shown, d->table, d->key, d->key, d->table);
	if (more.failed || less.failed)
		return err_no_memory(e);
	if (log_rows(c, d, buf_z(&more), d->restored, ret_n, e) < 0)
		return -1;
	return log_rows(c, d, buf_z(&less), "a record was removed that the copy of the database does not have", ret_n, e);
}

static int take_table(struct connection *c, const struct durable *d, struct err *e)
{
	AUTO(buf_done) struct buf sql = BUF_INIT(4096);

	buf_addf(&sql, "DELETE FROM main.%s WHERE (%s) NOT IN (SELECT %s FROM other.%s);", d->table, d->key, d->key, d->table);
	buf_addf(&sql, "INSERT OR REPLACE INTO main.%s (%s) SELECT %s FROM other.%s EXCEPT SELECT %s FROM main.%s;", d->table, d->columns,
		 d->columns, d->table, d->columns, d->table);
	return sql.failed ? err_no_memory(e) : connection_do(c, buf_z(&sql), e);
}

/* The tables that the copy has right, in the open transaction. */
static int take_tables(struct side *main, const struct side *copy, uint64_t *ret_n, struct err *e)
{
	struct connection *c = main->c;

	memcpy(c->stamp.sums, main->sums, sizeof(main->sums));
	for (size_t i = 0; i < DURABLE_TABLES; i++)
		if (is_from_copy(main, copy, i) &&
		    (log_differences(c, &durables[i], ret_n, e) < 0 || take_table(c, &durables[i], e) < 0))
			return -1;
	/* It says that there are layers which no record knows: it is only ever added. The rest of `meta` belongs to the sandboxes. */
	return connection_do(c, "INSERT OR IGNORE INTO main.meta SELECT name, value FROM other.meta WHERE name = '" STORE_KEEP_LAYERS "'", e);
}

static int write_stamp(struct connection *c, int64_t seq, struct err *e)
{
	c->stamp.seq = seq;
	return stamp_write(c, &c->stamp, e) < 0 ? -1 : connection_do(c, "DELETE FROM meta WHERE name = '" STAMP_UNMADE_NAME "'", e);
}

static int restore(struct side *main, const struct side *copy, uint64_t *ret_n, struct err *e)
{
	struct connection *c = main->c;
	int r;

	connection_close(copy->c); /* it is opened again when it is needed */
	if (stamp_follow(c, e) < 0 || connection_attach(c, copy->c->path, e) < 0)
		return -1;
	r = connection_do(c, "BEGIN IMMEDIATE", e);
	if (r == 0)
		r = take_tables(main, copy, ret_n, e);
	if (r == 0)
		r = write_stamp(c, MAX(main->seq, copy->seq), e);
	KILL_POINT("server.copy.restoring");
	if (r == 0)
		r = connection_do(c, "COMMIT", e);
	connection_detach(c);
	KILL_POINT("server.copy.restored");
	return r < 0 ? err_wrap(e, "restore the database from its copy") : 0;
}

/* The rows are taken as they are: nobody knows better. */
static int accept_rows(struct side *main, const struct side *copy, struct err *e)
{
	struct connection *c = main->c;
	int64_t least = main->state == STAMP_UNMADE && is_copy(copy) ? copy->seq + 1 : 0;

	memcpy(c->stamp.sums, main->sums, sizeof(main->sums));
	if (connection_do(c, "BEGIN IMMEDIATE", e) < 0)
		return -1;
	if (write_stamp(c, MAX(main->seq, least), e) == 0 && connection_do(c, "COMMIT", e) == 0)
		/* Into the file: without the log it must not seem to be one without a stamp. */
		return connection_do(c, "PRAGMA wal_checkpoint(TRUNCATE)", e);
	(void)connection_exec(c->db, "ROLLBACK", &(struct err){ 0 });
	return -1;
}

static bool is_any_from_copy(const struct side *main, const struct side *copy)
{
	for (size_t i = 0; i < DURABLE_TABLES; i++)
		if (is_from_copy(main, copy, i))
			return true;
	return false;
}

static bool is_good(const struct side *s)
{
	for (size_t i = 0; i < DURABLE_TABLES; i++)
		if (!s->is_sound[i])
			return false;
	return s->state == STAMP_GOOD;
}

static uint64_t count_lost(const struct side *main, const struct side *copy, uint64_t n_records)
{
	if (main->seq < 0)
		return main->state == STAMP_BAD ? n_records : (uint64_t)copy->seq;
	return copy->seq > main->seq ? (uint64_t)(copy->seq - main->seq) : 0;
}

static int settle_main(struct side *main, const struct side *copy, uint64_t *ret_behind, struct err *e)
{
	uint64_t n = 0;

	for (size_t i = 0; i < DURABLE_TABLES; i++)
		if (!main->is_sound[i] && !is_from_copy(main, copy, i))
			log_error("records do not match their checksum, and there is no copy that does", LOG_S("table", durables[i].table));
	if (is_any_from_copy(main, copy)) {
		if (restore(main, copy, &n, e) < 0)
			return -1;
		*ret_behind = count_lost(main, copy, n);
		log_warn("the database was behind its copy", LOG_U("transactions", *ret_behind), LOG_U("records", n));
	}
	if (is_good(main) || is_any_from_copy(main, copy))
		return 0;
	return accept_rows(main, copy, e);
}

/* Whatever the reason, a copy that is not the same is made anew. It may have to wait: there is room for it later, or never. */
static void settle_copy(struct side *main, struct side *copy)
{
	struct connection *c = main->c;
	bool is_first = copy->is_there ? copy->state == STAMP_OLD : main->state != STAMP_GOOD;
	enum stamp_state state;
	struct stamp now;
	struct err e = { 0 };

	if (stamp_read(c, &state, &now, &e) == 0 && copy->is_there && is_good(copy) && stamp_eq(&now, &copy->stamp))
		return;
	if (is_first)
		log_info("the database gets a copy", LOG_S("file", copy->c->path));
	else
		log_warn("the copy of the database was missing, older or damaged, and is made anew", LOG_S("file", copy->c->path));
	if (copy_make(c, copy->c, &e) < 0)
		log_error("the database is without a copy: pools, images, volumes and snapshots cannot be changed", LOG_ERR(&e));
}

static int look_at_copy(struct side *s, struct connection *copy, struct err *e)
{
	if (!copy->db || look(s, copy, e) == 0)
		return 0;
	if (!sql_is_damage(copy->rc))
		return -1;
	log_warn("the copy of the database is damaged", LOG_S("file", copy->path), LOG_ERR(e));
	connection_close(copy);
	*s = (struct side){ .c = copy };
	return 0;
}

int copy_settle(struct connection *c, struct connection *copy, uint64_t *ret_behind, struct err *e)
{
	struct side main_side, copy_side = { .c = copy };

	*ret_behind = 0;
	if (look(&main_side, c, e) < 0 || look_at_copy(&copy_side, copy, e) < 0)
		return -1;
	if (settle_main(&main_side, &copy_side, ret_behind, e) < 0)
		return -1;
	settle_copy(&main_side, &copy_side);
	return 0;
}

int64_t copy_trust(struct connection *copy, struct connection *from, bool ret[DURABLE_TABLES])
{
	struct side side = { .c = copy };
	enum stamp_state state = STAMP_NONE;
	struct stamp stamp = { 0 };
	int64_t seq = 0;

	for (size_t i = 0; i < DURABLE_TABLES; i++)
		ret[i] = false;
	if (from->db && stamp_read(from, &state, &stamp, &(struct err){ 0 }) == 0 && (state == STAMP_GOOD || state == STAMP_OLD))
		seq = stamp.seq;
	if (!copy->db || look(&side, copy, &(struct err){ 0 }) < 0 || !is_copy(&side))
		return seq;
	for (size_t i = 0; i < DURABLE_TABLES; i++)
		ret[i] = side.is_sound[i] && side.seq >= seq && state != STAMP_UNMADE;
	return MAX(seq, side.seq);
}
