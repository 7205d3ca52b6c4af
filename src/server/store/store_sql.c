// SPDX-License-Identifier: Apache-2.0
/* Transactions on a connection. Values are bound, never written into SQL. */
#include "base/kill_point.h"
#include "server/store/store_impl.h"

#include "base/banned.h"

#define BUSY_MS 2000

static const char insert_text[] =
	"INSERT INTO sandboxes (id, spec, metadata, created_us, expires_us, deadline_ms, state, reason, message, changed_us)"
	" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
static const char trim_text[] =
	"DELETE FROM events WHERE sandbox_id = ?1 AND n <="
	" (SELECT n FROM events WHERE sandbox_id = ?1 ORDER BY n DESC LIMIT 1 OFFSET ?2)";
static const char hand_out_text[] =
	"UPDATE sandboxes SET spec = ?, metadata = ?, created_us = ?, expires_us = ?, deadline_ms = ?, state = ?, reason = ?,"
	" message = ?, changed_us = ?, revision = revision + 1 WHERE id = ?";
static const char restore_text[] =
	"UPDATE sandboxes SET spec = ?, metadata = ?, created_us = ?, expires_us = ?, deadline_ms = ?, state = ?, reason = ?,"
	" message = ?, changed_us = ?, revision = ? WHERE id = ?";
static const char pool_text[] =
	"INSERT INTO pools (id, name, template, buffer_min, buffer_max, pool_min, pool_max, created_us)"
	" VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
static const char capacity_text[] =
	"UPDATE pools SET buffer_min = ?, buffer_max = ?, pool_min = ?, pool_max = ? WHERE id = ?";

static const char snapshot_text[] =
	"INSERT INTO snapshots (id, sandbox_id, name, spec, state, reason, message, created_us, changed_us)"
	" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

static const char image_text[] =
	"INSERT OR REPLACE INTO images (name, os, arch, digest, manifest, config, is_private, pulled_us, is_kept)"
	" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

/* The copy gets what changes durable tables and `meta`. */
static const bool is_copied[SQL_COUNT] = {
	[SQL_SNAPSHOT] = true,      [SQL_SNAPSHOT_STATE] = true, [SQL_SNAPSHOT_DELETE] = true, [SQL_VOLUME] = true,
	[SQL_FORGET_VOLUME] = true, [SQL_IMAGE] = true,          [SQL_FORGET_IMAGE] = true,    [SQL_LAYER] = true,
	[SQL_FORGET_LAYER] = true,  [SQL_POOL] = true,           [SQL_POOL_CAPACITY] = true,   [SQL_POOL_DELETE] = true,
	[SQL_META] = true,
};

static const char *const texts[SQL_COUNT] = {
	[SQL_INSERT] = insert_text,
	[SQL_STATE] = "UPDATE sandboxes SET state = ?, reason = ?, message = ?, changed_us = ? WHERE id = ?",
	[SQL_EXPIRY] = "UPDATE sandboxes SET expires_us = ?, deadline_ms = ?, revision = revision + 1 WHERE id = ?",
	[SQL_METADATA] = "UPDATE sandboxes SET metadata = ?, revision = revision + 1 WHERE id = ?",
	[SQL_DELETE] = "DELETE FROM sandboxes WHERE id = ?",
	[SQL_INTENT] = "INSERT OR REPLACE INTO intents (sandbox_id, operation) VALUES (?, ?)",
	[SQL_NO_INTENT] = "DELETE FROM intents WHERE sandbox_id = ?",
	[SQL_EVENT] = "INSERT INTO events (sandbox_id, at_us, scope, type, message) VALUES (?, ?, ?, ?, ?)",
	[SQL_TRIM_EVENTS] = trim_text,
	[SQL_KEY] = "INSERT OR REPLACE INTO keys (key, body, sandbox_id, expires_us) VALUES (?, ?, ?, ?)",
	[SQL_FORGET_KEY] = "DELETE FROM keys WHERE key = ?",
	[SQL_SPEC] = "UPDATE sandboxes SET spec = ?, revision = revision + 1 WHERE id = ?",
	[SQL_SNAPSHOT] = snapshot_text,
	[SQL_SNAPSHOT_STATE] = "UPDATE snapshots SET state = ?, reason = ?, message = ?, changed_us = ?, spec = ? WHERE id = ?",
	[SQL_SNAPSHOT_DELETE] = "DELETE FROM snapshots WHERE id = ?",
	[SQL_VOLUME] = "INSERT OR REPLACE INTO volumes (name, id, size_bytes, created_us, state) VALUES (?, ?, ?, ?, ?)",
	[SQL_FORGET_VOLUME] = "DELETE FROM volumes WHERE id = ?",
	[SQL_META] = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)",
	[SQL_IMAGE] = image_text,
	[SQL_FORGET_IMAGE] = "DELETE FROM images WHERE name = ? AND os = ? AND arch = ?",
	[SQL_LAYER] = "INSERT OR REPLACE INTO image_layers (digest) VALUES (?)",
	[SQL_FORGET_LAYER] = "DELETE FROM image_layers WHERE digest = ?",
	[SQL_MEMBER] = "INSERT INTO pool_members (sandbox_id, pool_id, is_idle) VALUES (?, ?, ?)",
	[SQL_TAKE] = "UPDATE pool_members SET is_idle = 0 WHERE sandbox_id = ?",
	[SQL_HAND_OUT] = hand_out_text,
	[SQL_RESTORE] = restore_text,
	[SQL_POOL] = pool_text,
	[SQL_POOL_CAPACITY] = capacity_text,
	[SQL_POOL_DELETE] = "DELETE FROM pools WHERE id = ?",
};

bool sql_is_copied(enum statement s)
{
	return is_copied[s];
}

/* ---- errors ---- */

bool sql_is_damage(int rc)
{
	return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
}

static bool is_full(sqlite3 *db, int rc)
{
	int sys = db ? sqlite3_system_errno(db) : 0;

	return (rc & 0xff) == SQLITE_FULL || ((rc & 0xff) == SQLITE_IOERR && (sys == ENOSPC || sys == EDQUOT));
}

int sql_error(sqlite3 *db, int rc, const char *what, struct err *e)
{
	return err_set(e, is_full(db, rc) ? ERR_LIMIT : ERR_UNAVAILABLE, "%.120s: %s (%d)", what, sqlite3_errstr(rc), rc);
}

int connection_exec(sqlite3 *db, const char *sql, struct err *e)
{
	int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : sql_error(db, rc, sql, e);
}

int connection_do(struct connection *c, const char *sql, struct err *e)
{
	c->rc = sqlite3_exec(c->db, sql, NULL, NULL, NULL);
	return c->rc == SQLITE_OK ? 0 : sql_error(c->db, c->rc, sql, e);
}

/* ---- connections ---- */

void connection_close(struct connection *c)
{
	for (size_t i = 0; i < SQL_COUNT; i++)
		(void)sqlite3_finalize(take_ptr(&c->statements[i]));
	(void)sqlite3_close(take_ptr(&c->db));
	c->has_triggers = false;
}

/* A rollback journal would do as well, but the file must not silently be without the mode that was asked for. */
static int set_wal(struct connection *c, struct err *e)
{
	sqlite3_stmt *st = NULL;
	const unsigned char *mode = NULL;
	bool is_wal;

	c->rc = sqlite3_prepare_v2(c->db, "PRAGMA journal_mode = WAL", -1, &st, NULL);
	if (c->rc == SQLITE_OK)
		c->rc = sqlite3_step(st);
	if (c->rc == SQLITE_ROW)
		mode = sqlite3_column_text(st, 0);
	is_wal = mode && strcmp((const char *)mode, "wal") == 0;
	(void)sqlite3_finalize(st);
	if (c->rc != SQLITE_ROW)
		return sql_error(c->db, c->rc, "set WAL mode", e);
	return is_wal ? 0 : err_set(e, ERR_UNAVAILABLE, "set WAL mode: the file system of '%s' cannot have it", c->path);
}

int connection_open(struct connection *c, struct err *e)
{
	static const char pragmas[] = "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;"
				      "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;"
				      "PRAGMA recursive_triggers = ON;" /* or they miss the row that REPLACE removes */
				      "PRAGMA journal_size_limit = 16777216;";
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;

	c->rc = sqlite3_open_v2(c->path, &c->db, flags, NULL);
	if (c->rc != SQLITE_OK) {
		(void)sql_error(c->db, c->rc, "open the database", e);
		goto failed;
	}
	(void)sqlite3_busy_timeout(c->db, BUSY_MS);
	(void)sqlite3_db_config(c->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	if (set_wal(c, e) < 0)
		goto failed;
	c->rc = sqlite3_exec(c->db, pragmas, NULL, NULL, NULL);
	if (c->rc == SQLITE_OK)
		return 0;
	(void)sql_error(c->db, c->rc, "prepare the database", e);
failed:
	connection_close(c);
	return -1;
}

/* ---- running ---- */

static int bind_param(sqlite3_stmt *st, int at, const struct param *p)
{
	const char *bytes = p->s.n > 0 ? p->s.p : "";

	switch (p->kind) {
	case PARAM_TEXT:
		return sqlite3_bind_text(st, at, bytes, (int)p->s.n, SQLITE_STATIC);
	case PARAM_BLOB:
		return sqlite3_bind_blob(st, at, bytes, (int)p->s.n, SQLITE_STATIC);
	case PARAM_INT:
		break;
	}
	return sqlite3_bind_int64(st, at, p->i);
}

static int run_step(struct connection *c, const struct step *s, struct err *e)
{
	sqlite3_stmt **st = &c->statements[s->statement];
	int rc = SQLITE_OK;

	if (!*st)
		rc = sqlite3_prepare_v3(c->db, texts[s->statement], -1, SQLITE_PREPARE_PERSISTENT, st, NULL);
	for (size_t i = 0; i < s->n && rc == SQLITE_OK; i++)
		rc = bind_param(*st, (int)i + 1, &s->params[i]);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(*st);
	if (*st) {
		(void)sqlite3_reset(*st); /* repeats the error that the step has reported */
		(void)sqlite3_clear_bindings(*st);
	}
	c->rc = rc;
	return rc == SQLITE_DONE ? 0 : sql_error(c->db, rc, texts[s->statement], e);
}

/* The log is synced with the commit, and all that stands before it in there as well. */
static int set_sync(struct connection *c, bool is_durable, struct err *e)
{
	return connection_do(c, is_durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", e);
}

static int run_all(struct connection *c, const struct store_tx *tx, bool is_copy, struct err *e)
{
	for (const struct step *s = tx->first; s; s = s->next)
		if ((!is_copy || is_copied[s->statement]) && run_step(c, s, e) < 0)
			return -1;
	return 0;
}

int connection_begin(struct connection *c, const struct store_tx *tx, bool is_copy, struct err *e)
{
	if (!c->db && connection_open(c, e) < 0)
		return -1;
	if ((tx->is_durable && set_sync(c, true, e) < 0) || (tx->is_copied && stamp_follow(c, e) < 0))
		return -1;
	if (connection_do(c, "BEGIN IMMEDIATE", e) < 0 || (tx->is_copied && stamp_begin(c, e) < 0))
		return -1;
	if (run_all(c, tx, is_copy, e) < 0)
		return -1;
	return tx->is_copied ? stamp_end(c, e) : 0;
}

int connection_commit(struct connection *c, const struct store_tx *tx, struct err *e)
{
	if (connection_do(c, "COMMIT", e) < 0)
		return -1;
	if (tx->is_durable) /* it is committed all the same; the next ones would only be slower */
		(void)set_sync(c, false, &(struct err){ 0 });
	return 0;
}

void connection_undo(struct connection *c, const struct store_tx *tx)
{
	int primary = c->rc & 0xff;

	if (!c->db)
		return;
	if (!sqlite3_get_autocommit(c->db))
		(void)connection_exec(c->db, "ROLLBACK", &(struct err){ 0 }); /* closing does the same */
	if (tx->is_durable)
		(void)connection_exec(c->db, "PRAGMA synchronous = NORMAL", &(struct err){ 0 });
	if (primary != SQLITE_OK && primary != SQLITE_DONE && primary != SQLITE_FULL && primary != SQLITE_BUSY &&
	    primary != SQLITE_CONSTRAINT)
		connection_close(c); /* what it believes about the file may be wrong now; the next one looks anew */
}

int connection_run(struct connection *c, const struct store_tx *tx, struct err *e)
{
	if (connection_begin(c, tx, false, e) == 0) {
		KILL_POINT("server.store.written");
		if (connection_commit(c, tx, e) == 0) {
			KILL_POINT("server.store.committed");
			return 0;
		}
	}
	connection_undo(c, tx);
	return -1;
}
