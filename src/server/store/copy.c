// SPDX-License-Identifier: Apache-2.0
/* The copy of the durable tables.
 *
 * SQLite takes a damaged log for one that ends earlier: db.sqlite goes back in time and nothing reports it. So what outlives
 * sandboxes stands in two files with a log each.
 *
 * Invariants:
 *   1. A transaction that changes a durable table or `meta` is committed in the copy, then in the database. The copy is therefore
 *      never behind, and ahead by one transaction at most.
 *   2. It begins only while both have the same stamp. Where they differ, the copy is first made anew from the database. A commit that
 *      failed in the database alone is undone like this: at once, or else before the next transaction.
 *   3. While the server runs, the database is right. At a start, the higher number is, table by table, as far as the rows match
 *      their checksum.
 *   4. A new copy is written beside the old one and replaces it when it is whole. */
#include <stdio.h>

#include "base/buf.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "server/store/store_impl.h"

#include "base/banned.h"

/* ---- SQL on both ---- */

int connection_attach(struct connection *c, const char *path, struct err *e)
{
	sqlite3_stmt *st = NULL;

	c->rc = sqlite3_prepare_v2(c->db, "ATTACH ? AS other", -1, &st, NULL);
	if (c->rc == SQLITE_OK)
		c->rc = sqlite3_bind_text(st, 1, path, -1, SQLITE_STATIC);
	if (c->rc == SQLITE_OK)
		c->rc = sqlite3_step(st);
	(void)sqlite3_finalize(st);
	return c->rc == SQLITE_DONE ? 0 : sql_error(c->db, c->rc, "attach the other database", e);
}

void connection_detach(struct connection *c)
{
	if (!c->db)
		return;
	if (!sqlite3_get_autocommit(c->db))
		(void)connection_exec(c->db, "ROLLBACK", &(struct err){ 0 });
	(void)connection_exec(c->db, "DETACH other", &(struct err){ 0 });
}

/* ---- a new copy ---- */

/* With the tables, and nothing in them. */
static int make_empty(const char *path, struct err *e)
{
	struct connection c = { .path = (char *)(uintptr_t)path };
	enum store_fault fault;
	int r;

	state_database_remove(path); /* of a try that was cut off */
	r = state_file_make(path, e);
	if (r == 0)
		r = connection_open(&c, e);
	if (r == 0)
		r = schema_prepare(&c, &store_schema, &fault, e);
	connection_close(&c);
	return r;
}

static int fill(struct connection *c, struct err *e)
{
	AUTO(buf_done) struct buf sql = BUF_INIT(8192);

	buf_addf(&sql, "BEGIN; DELETE FROM other.meta; INSERT INTO other.meta SELECT * FROM main.meta;");
	for (size_t i = 0; i < DURABLE_TABLES; i++)
		buf_addf(&sql, "INSERT INTO other.%s (%s) SELECT %s FROM main.%s;", durables[i].table, durables[i].columns,
			 durables[i].columns, durables[i].table);
	/* Into the file itself and onto the disk: it is renamed without its log. */
	buf_addf(&sql, "COMMIT; PRAGMA other.wal_checkpoint(TRUNCATE);");
	return sql.failed ? err_no_memory(e) : connection_do(c, buf_z(&sql), e);
}

static int write_new(struct connection *c, const char *path, struct err *e)
{
	int r;

	if (make_empty(path, e) < 0 || connection_attach(c, path, e) < 0)
		return -1;
	r = fill(c, e);
	connection_detach(c);
	return r;
}

/* Nothing is opened twice in one process: SQLite would keep the second descriptor. */
int copy_make(struct connection *c, struct connection *copy, struct err *e)
{
	char *path;
	int r;

	if (asprintf(&path, "%s.new", copy->path) < 0)
		return err_no_memory(e);
	r = c->db ? 0 : connection_open(c, e);
	if (r == 0)
		r = write_new(c, path, e);
	if (r == 0) {
		KILL_POINT("server.copy.made");
		connection_close(copy);
		r = state_database_replace(path, copy->path, e);
	}
	if (r < 0)
		state_database_remove(path);
	free(path);
	return r < 0 ? err_wrap(e, "make the copy of the database") : connection_open(copy, e);
}

/* ---- transactions ---- */

static bool is_useless(const struct connection *copy)
{
	switch (copy->rc & 0xff) {
	case SQLITE_FULL:
	case SQLITE_IOERR:
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_NOMEM:
		return false;
	default:
		return true;
	}
}

/* 1: the transaction is open in both. 0: in neither, the copy is to be made anew. -1: in neither, it failed. */
static int begin_both(struct connection *c, struct connection *copy, const struct store_tx *tx, struct err *e)
{
	int r;

	if (connection_begin(c, tx, false, e) < 0) {
		connection_undo(c, tx);
		return -1;
	}
	r = connection_begin(copy, tx, true, e) < 0 ? (is_useless(copy) ? 0 : -1) : stamp_eq(&c->stamp, &copy->stamp);
	if (r == 1)
		return 1;
	connection_undo(c, tx);
	connection_undo(copy, tx);
	return r;
}

static int commit_both(struct connection *c, struct connection *copy, const struct store_tx *tx, struct err *e)
{
	KILL_POINT("server.copy.written");
	if (connection_commit(copy, tx, e) < 0) {
		connection_undo(copy, tx);
		connection_undo(c, tx);
		return -1;
	}
	KILL_POINT("server.copy.committed");
	KILL_POINT("server.store.written");
	if (connection_commit(c, tx, e) == 0) {
		KILL_POINT("server.store.committed");
		return 0;
	}
	connection_undo(c, tx);
	/* The copy is ahead of an answer that will be "it failed". If it cannot be set right now, the next transaction sees it. */
	(void)copy_make(c, copy, &(struct err){ 0 });
	return -1;
}

static int as_store_error(struct err *e)
{
	if (e->code != ERR_LIMIT)
		e->code = ERR_UNAVAILABLE;
	return -1;
}

int copy_run(struct connection *c, struct connection *copy, const struct store_tx *tx, struct err *e)
{
	int r;

	if (!tx->is_copied)
		return connection_run(c, tx, e);
	r = begin_both(c, copy, tx, e);
	if (r == 0) {
		log_warn("the copy of the database is made anew");
		if (copy_make(c, copy, e) < 0)
			return as_store_error(e);
		r = begin_both(c, copy, tx, e);
		if (r == 0)
			return err_set(e, ERR_UNAVAILABLE, "the database and its copy do not agree");
	}
	return r < 0 ? -1 : commit_both(c, copy, tx, e);
}
