// SPDX-License-Identifier: Apache-2.0
/* The tables, and how a file of an older version gets them. */
#include <stdio.h>

#include "base/buf.h"
#include "server/store/store_impl.h"

#include "base/banned.h"

#define APPLICATION_ID 1330860632 /* "OSBX" */

/* A step is never changed once it was released: the next version gets a step of its own. */
static const char *const steps[] = {
	"CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE sandboxes ("
	" id TEXT PRIMARY KEY, spec TEXT NOT NULL, metadata TEXT NOT NULL, created_us INTEGER NOT NULL,"
	" expires_us INTEGER NOT NULL, deadline_ms INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,"
	" message TEXT NOT NULL, changed_us INTEGER NOT NULL) STRICT;"
	"CREATE TABLE intents ("
	" sandbox_id TEXT PRIMARY KEY REFERENCES sandboxes (id) ON DELETE CASCADE, operation TEXT NOT NULL) STRICT;"
	"CREATE TABLE events ("
	" n INTEGER PRIMARY KEY, sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,"
	" at_us INTEGER NOT NULL, scope TEXT NOT NULL, type TEXT NOT NULL, message TEXT NOT NULL) STRICT;"
	"CREATE INDEX events_of_sandbox ON events (sandbox_id, n);"
	"CREATE TABLE keys ("
	" key TEXT PRIMARY KEY, body BLOB NOT NULL, sandbox_id TEXT NOT NULL, expires_us INTEGER NOT NULL)"
	" STRICT, WITHOUT ROWID;",
	"CREATE TABLE snapshots ("
	" id TEXT PRIMARY KEY, sandbox_id TEXT NOT NULL, name TEXT NOT NULL, spec TEXT NOT NULL, state TEXT NOT NULL,"
	" reason TEXT NOT NULL, message TEXT NOT NULL, created_us INTEGER NOT NULL, changed_us INTEGER NOT NULL) STRICT;",
	"CREATE TABLE images ("
	" name TEXT NOT NULL, os TEXT NOT NULL, arch TEXT NOT NULL, digest BLOB NOT NULL, manifest BLOB NOT NULL,"
	" config BLOB NOT NULL, is_private INTEGER NOT NULL, pulled_us INTEGER NOT NULL, PRIMARY KEY (name, os, arch)) STRICT;"
	"CREATE TABLE image_layers (digest BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;",

	"CREATE TABLE pools ("
	" id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, template TEXT NOT NULL, buffer_min INTEGER NOT NULL,"
	" buffer_max INTEGER NOT NULL, pool_min INTEGER NOT NULL, pool_max INTEGER NOT NULL, created_us INTEGER NOT NULL)"
	" STRICT;"
	"CREATE TABLE pool_members ("
	" sandbox_id TEXT PRIMARY KEY REFERENCES sandboxes (id) ON DELETE CASCADE, pool_id TEXT NOT NULL,"
	" is_idle INTEGER NOT NULL) STRICT;",
	"CREATE TABLE volumes ("
	" id TEXT PRIMARY KEY, name TEXT NOT NULL, size_bytes INTEGER NOT NULL, created_us INTEGER NOT NULL,"
	" state TEXT NOT NULL) STRICT;",
	"ALTER TABLE images ADD COLUMN is_kept INTEGER NOT NULL DEFAULT 0;",
	/* The spec of a snapshot may name a network and a policy. Nothing changes in what is there; an earlier server, which would take
	 * such a row for damage, sees that the file is newer than itself. */
	"UPDATE snapshots SET spec = spec WHERE 0;",
	"ALTER TABLE sandboxes ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;",
	/* From here on `meta` has checksums of the durable tables, and a second file has a copy of them. What there is already gets its
	 * checksums with the next start: until then this row says that they are missing, and not lost. */
	"INSERT INTO meta (name, value) SELECT '" STAMP_UNMADE_NAME "', x'01' WHERE EXISTS (SELECT 1 FROM meta);",
};

const struct schema store_schema = { steps, sizeof(steps) / sizeof(steps[0]) };

/* The one number that SQL answers with. *ret_rc is SQLite's result. */
static int query_int(sqlite3 *db, const char *sql, int64_t *ret, int *ret_rc, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0);
	else
		(void)sql_error(db, rc, sql, e);
	*ret_rc = rc;
	(void)sqlite3_finalize(st);
	return rc == SQLITE_ROW ? 0 : -1;
}

/* 1: the file is sound. 0: it is not, and E says what is wrong. -1: it could not be looked at. */
static int quick_check(sqlite3 *db, int *ret_rc, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &st, NULL), r = -1;
	const unsigned char *text;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW) {
		text = sqlite3_column_text(st, 0);
		r = text && strcmp((const char *)text, "ok") == 0;
		if (!r)
			(void)err_set(e, ERR_IO, "%s", text ? (const char *)text : "no result");
	} else {
		(void)sql_error(db, rc, "quick check", e);
	}
	*ret_rc = rc;
	(void)sqlite3_finalize(st);
	return r;
}

static int back_up(sqlite3 *db, const char *path, int64_t version, struct err *e)
{
	AUTO(buf_done) struct buf sql = BUF_INIT(16384);
	AUTO(buf_done) struct buf to = BUF_INIT(8192);

	buf_addf(&to, "%s.v%lld", path, (long long)version);
	buf_addf(&sql, "VACUUM INTO '");
	for (size_t i = 0; i < to.n; i++) /* a quote in a literal is written twice */
		buf_add(&sql, to.p[i] == '\'' ? "''" : &to.p[i], to.p[i] == '\'' ? 2 : 1);
	buf_addf(&sql, "'");
	if (sql.failed || to.failed)
		return err_set(e, ERR_LIMIT, "the path of the database is too long");
	(void)unlink(to.p); /* of an upgrade that was cut off before it changed anything */
	if (state_file_make(to.p, e) < 0 || connection_exec(db, sql.p, e) < 0)
		return err_wrap(e, "copy the database to '%s' before its upgrade", to.p);
	return 0;
}

static int upgrade(sqlite3 *db, const struct schema *schema, int64_t from, struct err *e)
{
	char pragma[64];

	if (connection_exec(db, "BEGIN IMMEDIATE", e) < 0)
		return -1;
	for (size_t i = (size_t)from; i < schema->n; i++)
		if (connection_exec(db, schema->steps[i], e) < 0)
			goto failed;
	(void)snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %zu", schema->n);
	if (connection_exec(db, pragma, e) < 0)
		goto failed;
	(void)snprintf(pragma, sizeof(pragma), "PRAGMA application_id = %d", APPLICATION_ID);
	if (connection_exec(db, pragma, e) < 0 || connection_exec(db, "COMMIT", e) < 0)
		goto failed;
	return 0;
failed:
	(void)connection_exec(db, "ROLLBACK", &(struct err){ 0 }); /* the first failure is the one that counts */
	return err_wrap(e, "upgrade the database from version %lld to %zu", (long long)from, schema->n);
}

int schema_prepare(struct connection *c, const struct schema *schema, enum store_fault *ret_fault, struct err *e)
{
	int64_t version = 0, application = 0;
	int rc = SQLITE_OK, sound;

	*ret_fault = STORE_FAILED;
	sound = quick_check(c->db, &rc, e);
	if (sound == 0 || sql_is_damage(rc))
		*ret_fault = STORE_DAMAGED;
	if (sound != 1)
		return err_wrap(e, "the database '%s' is damaged or cannot be read", c->path);
	if (query_int(c->db, "PRAGMA user_version", &version, &rc, e) < 0 ||
	    query_int(c->db, "PRAGMA application_id", &application, &rc, e) < 0)
		return -1;
	if ((version != 0 || application != 0) && application != APPLICATION_ID) {
		*ret_fault = STORE_DAMAGED;
		return err_set(e, ERR_INVALID, "'%s' is a database of another program", c->path);
	}
	if (version < 0 || (uint64_t)version > schema->n)
		return err_set(e, ERR_UNAVAILABLE, "the database '%s' is of a newer version (%lld)", c->path,
			       (long long)version);
	if ((uint64_t)version == schema->n)
		return 0;
	if (version > 0 && back_up(c->db, c->path, version, e) < 0)
		return -1;
	if (upgrade(c->db, schema, version, e) < 0)
		return -1;
	/* From the log into the file: a log that is lost must not make the file one of an earlier version again. */
	return connection_exec(c->db, "PRAGMA wal_checkpoint(TRUNCATE)", e);
}
