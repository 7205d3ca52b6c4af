// SPDX-License-Identifier: Apache-2.0
/* A database that is damaged: what can still be read of it goes into a new one, together with what really runs.
 *
 *     recovering             names what was moved aside; while it is there, nobody opens the database
 *     damaged-N.sqlite*      the old one, untouched
 *     salvage.sqlite*        a copy to read from: reading may repair and change it
 *     rebuilt.sqlite         becomes db.sqlite
 *
 * Killed anywhere, it is done again from its beginning, from the same damaged file. */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/uuid.h"
#include "server/store/store_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

#define NAME_SIZE 48
#define ASIDE_MAX 1000
#define COPY_BYTES ((size_t)1 << 20)

static const char *const tails[] = { "", "-wal", "-shm" };

struct recovery {
	const struct store_recover_spec *spec;
	int dir;
	char aside[NAME_SIZE];
	struct connection from, to;
	struct map boxes; /* by id, of struct runtime_box */
	struct arena arena; /* of one row */
	struct store_recovered *report;
};

static void recovery_done(struct recovery *r)
{
	connection_close(&r->from);
	connection_close(&r->to);
	free(r->from.path);
	free(r->to.path);
	closep(&r->dir);
	map_done(&r->boxes);
	arena_done(&r->arena);
}
DEFINE_AUTO_DONE(struct recovery, recovery_done)

/* ---- files ---- */

static void remove_all(int dir, const char *name)
{
	char path[NAME_SIZE + 8];

	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", name, tails[i]);
		(void)unlinkat(dir, path, 0); /* what cannot go is in the way later, and told then */
	}
}

static bool is_there(int dir, const char *name)
{
	return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_aside(struct str name)
{
	uint64_t n;

	return str_starts(name, STR("damaged-")) && str_ends(name, STR(".sqlite")) && name.n > 15 &&
	       str_to_u64(str_first(str_skip(name, 8), name.n - 15), 1, ASIDE_MAX, &n);
}

/* The name that an earlier try has begun with, or a new one, noted before anything is moved. */
static int choose_aside(struct recovery *r, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(NAME_SIZE);

	if (fd_read_file(r->dir, STORE_RECOVERING, NAME_SIZE - 1, &b, &(struct err){ 0 }) == 0 && is_aside(buf_str(&b))) {
		(void)snprintf(r->aside, sizeof(r->aside), "%s", buf_z(&b));
		return 0;
	}
	for (unsigned i = 1; i <= ASIDE_MAX; i++) {
		(void)snprintf(r->aside, sizeof(r->aside), "damaged-%u.sqlite", i);
		if (!is_there(r->dir, r->aside))
			return file_replace(r->dir, STORE_RECOVERING, str_of(r->aside), 0600, e);
	}
	return err_set(e, ERR_LIMIT, "there are %d damaged databases: move some away", ASIDE_MAX);
}

static int move(int dir, const char *from, const char *to, struct err *e)
{
	if (syscall(SYS_renameat2, dir, from, dir, to, RENAME_NOREPLACE) == 0 || errno == ENOENT)
		return 0;
	return err_sys(e, errno, "move '%s' to '%s'", from, to);
}

/* The log first: a database without it might look sound. If the database itself was moved already, what stands in its
 * place is a try of ours. */
static int move_aside(struct recovery *r, struct err *e)
{
	char log[NAME_SIZE + 8];

	(void)snprintf(log, sizeof(log), "%s-wal", r->aside);
	if (is_there(r->dir, r->aside)) {
		remove_all(r->dir, "db.sqlite");
		return 0;
	}
	if (move(r->dir, "db.sqlite-wal", log, e) < 0)
		return -1;
	(void)unlinkat(r->dir, "db.sqlite-shm", 0); /* an index of the log, made anew when needed */
	return move(r->dir, "db.sqlite", r->aside, e);
}

static int copy_file(int dir, const char *from, const char *to, struct err *e)
{
	AUTO_FD in = openat(dir, from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD out = -1;
	ssize_t n = 1;

	if (in < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "open '%s'", from);
	out = openat(dir, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	while (out >= 0 && n > 0)
		n = copy_file_range(in, NULL, out, NULL, COPY_BYTES, 0);
	return out < 0 || n < 0 ? err_sys(e, errno, "copy '%s'", from) : 0;
}

static int copy_aside(struct recovery *r, struct err *e)
{
	char log[NAME_SIZE + 8];

	remove_all(r->dir, "salvage.sqlite");
	(void)snprintf(log, sizeof(log), "%s-wal", r->aside);
	if (copy_file(r->dir, r->aside, "salvage.sqlite", e) < 0)
		return -1;
	return copy_file(r->dir, log, "salvage.sqlite-wal", e);
}

/* ---- reading what is left ---- */

static struct str text_of(sqlite3_stmt *st, int i)
{
	const void *p = sqlite3_column_blob(st, i);
	int n = sqlite3_column_bytes(st, i);

	return (struct str){ p ? p : "", n > 0 ? (size_t)n : 0 };
}

/* 1: it is in the new database, 0: it cannot be. -1: the new one does not take anything any more. */
static int put(struct recovery *r, struct store_tx *tx, struct err *e)
{
	struct err why = { 0 };
	int rc;

	if (!tx || tx->failed) {
		store_tx_free(tx);
		return err_no_memory(e);
	}
	rc = connection_run(&r->to, tx, &why);
	store_tx_free(tx);
	if (rc == 0)
		return 1;
	if ((r->to.rc & 0xff) == SQLITE_CONSTRAINT) /* there is one already, or the sandbox that it belongs to is lost */
		return 0;
	*e = why;
	return -1;
}

static bool is_alive(const struct recovery *r, const char *id)
{
	const struct runtime_box *b = map_get(&r->boxes, str_of(id));

	return b && (b->state == RUNTIME_RUNNING || b->state == RUNTIME_PAUSED);
}

/* Nobody knows what came after the last thing that can be read: a sandbox that runs is not taken for one that was never
 * finished. */
static void keep_alive(const struct recovery *r, struct sandbox_row *row)
{
	if (row->intent != INTENT_CREATE || !is_alive(r, row->id))
		return;
	row->intent = INTENT_NONE;
	row->state = SANDBOX_RUNNING;
}

static int take_sandbox(struct recovery *r, sqlite3_stmt *st, struct err *e)
{
	struct row_columns c = {
		.id = text_of(st, 0), .spec = text_of(st, 1), .metadata = text_of(st, 2),
		.created_us = sqlite3_column_int64(st, 3), .expires_us = sqlite3_column_int64(st, 4),
		.deadline_ms = sqlite3_column_int64(st, 5), .state = text_of(st, 6), .reason = text_of(st, 7),
		.message = text_of(st, 8), .changed_us = sqlite3_column_int64(st, 9), .intent = text_of(st, 10),
	};
	struct sandbox_row row;
	struct store_tx *tx;
	int n;

	if (row_load(&c, &r->arena, &row, &(struct err){ 0 }) < 0) {
		r->report->bad++;
		return 0;
	}
	keep_alive(r, &row);
	tx = store_tx_new();
	store_tx_insert(tx, &row);
	if (row.intent != INTENT_NONE)
		store_tx_intent(tx, row.id, row.intent);
	n = put(r, tx, e);
	r->report->read += n > 0;
	return n < 0 ? -1 : 0;
}

static int take_event(struct recovery *r, sqlite3_stmt *st, struct err *e)
{
	struct store_event ev = {
		.sandbox_id = arena_dup(&r->arena, text_of(st, 0)), .at_us = sqlite3_column_int64(st, 1),
		.scope = arena_dup(&r->arena, text_of(st, 2)), .type = arena_dup(&r->arena, text_of(st, 3)),
		.message = arena_dup(&r->arena, text_of(st, 4)),
	};
	struct store_tx *tx;

	if (!ev.sandbox_id || !ev.scope || !ev.type || !ev.message)
		return err_no_memory(e);
	if (!str_is(str_of(ev.scope), "lifecycle") && !str_is(str_of(ev.scope), "container") &&
	    !str_is(str_of(ev.scope), "runtime"))
		return 0;
	tx = store_tx_new();
	store_tx_event(tx, &ev);
	return put(r, tx, e) < 0 ? -1 : 0;
}

static int take_key(struct recovery *r, sqlite3_stmt *st, struct err *e)
{
	struct store_key k = { .key = text_of(st, 0), .sandbox_id = arena_dup(&r->arena, text_of(st, 2)),
			       .expires_us = sqlite3_column_int64(st, 3) };
	struct str body = text_of(st, 1);
	struct store_tx *tx;

	if (!k.sandbox_id)
		return err_no_memory(e);
	if (body.n != sizeof(k.body) || k.key.n != SHA256_HEX_LEN || !id_valid(str_of(k.sandbox_id)))
		return 0;
	memcpy(k.body, body.p, sizeof(k.body));
	tx = store_tx_new();
	store_tx_key(tx, &k);
	return put(r, tx, e) < 0 ? -1 : 0;
}

static int take_snapshot(struct recovery *r, sqlite3_stmt *st, struct err *e)
{
	struct snapshot_columns c = {
		.id = text_of(st, 0), .sandbox_id = text_of(st, 1), .name = text_of(st, 2), .spec = text_of(st, 3),
		.state = text_of(st, 4), .reason = text_of(st, 5), .message = text_of(st, 6),
		.created_us = sqlite3_column_int64(st, 7), .changed_us = sqlite3_column_int64(st, 8),
	};
	struct snapshot_row row;
	struct store_tx *tx;
	int n;

	if (snapshot_row_load(&c, &r->arena, &row, &(struct err){ 0 }) < 0) {
		r->report->bad++;
		return 0;
	}
	tx = store_tx_new();
	store_tx_snapshot(tx, &row);
	n = put(r, tx, e);
	r->report->read += n > 0;
	return n < 0 ? -1 : 0;
}

static int take_volume(struct recovery *r, sqlite3_stmt *st, struct err *e)
{
	struct volume_columns c = { .name = text_of(st, 0), .id = text_of(st, 1), .size_bytes = sqlite3_column_int64(st, 2),
				    .created_us = sqlite3_column_int64(st, 3), .state = text_of(st, 4) };
	struct volume_row row;
	struct store_tx *tx;

	if (volume_row_load(&c, &r->arena, &row, &(struct err){ 0 }) < 0) {
		r->report->bad++;
		return 0;
	}
	/* Nobody knows what came after this: what may hold somebody's files goes only where that was decided. */
	if (row.state != VOLUME_REMOVING)
		row.state = VOLUME_READY;
	tx = store_tx_new();
	store_tx_volume(tx, &row);
	return put(r, tx, e) < 0 ? -1 : 0;
}

static int take_meta(struct recovery *r, sqlite3_stmt *st, struct err *e)
{
	const char *name = arena_dup(&r->arena, text_of(st, 0));
	struct store_tx *tx;

	if (!name)
		return err_no_memory(e);
	if (text_of(st, 1).n > STORE_META_MAX)
		return 0;
	tx = store_tx_new();
	store_tx_meta(tx, name, text_of(st, 1));
	return put(r, tx, e) < 0 ? -1 : 0;
}

static int take_pool(struct recovery *r, sqlite3_stmt *st, struct err *e)
{
	struct store_pool pool;
	struct store_tx *tx;

	if (pool_row_load(st, &r->arena, &pool, &(struct err){ 0 }) < 0) {
		r->report->bad++;
		return 0;
	}
	tx = store_tx_new();
	store_tx_pool(tx, &pool);
	return put(r, tx, e) < 0 ? -1 : 0;
}

static int take_member(struct recovery *r, sqlite3_stmt *st, struct err *e)
{
	const char *sandbox = arena_dup(&r->arena, text_of(st, 0)), *pool = arena_dup(&r->arena, text_of(st, 1));
	struct store_tx *tx;

	if (!sandbox || !pool)
		return err_no_memory(e);
	if (!id_valid(str_of(sandbox)) || !id_valid(str_of(pool)))
		return 0;
	tx = store_tx_new();
	store_tx_member(tx, sandbox, pool, sqlite3_column_int64(st, 2) != 0);
	return put(r, tx, e) < 0 ? -1 : 0;
}

typedef int take_fn(struct recovery *r, sqlite3_stmt *st, struct err *e);

/* Everything up to the first page that cannot be read. */
static int take_all(struct recovery *r, const char *sql, take_fn *fn, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = 0;

	if (!r->from.db || sqlite3_prepare_v2(r->from.db, sql, -1, &st, NULL) != SQLITE_OK) {
		r->report->is_partial = true;
		return 0;
	}
	while (rc == 0) {
		int step = sqlite3_step(st);

		if (step != SQLITE_ROW) {
			r->report->is_partial |= step != SQLITE_DONE;
			break;
		}
		arena_reset(&r->arena);
		rc = fn(r, st, e);
	}
	(void)sqlite3_finalize(st);
	return rc;
}

/* True also when nobody can say: reading it will. */
static bool has_table(const struct recovery *r, const char *name)
{
	sqlite3_stmt *st = NULL;
	bool is_missing = false;

	if (!name || !r->from.db)
		return true;
	if (sqlite3_prepare_v2(r->from.db, "SELECT 1 FROM sqlite_schema WHERE name = ?", -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC) == SQLITE_OK)
		is_missing = sqlite3_step(st) == SQLITE_DONE;
	(void)sqlite3_finalize(st);
	return !is_missing;
}

#define SANDBOXES \
	"SELECT id, spec, metadata, created_us, expires_us, deadline_ms, state, reason, message, changed_us," \
	" (SELECT operation FROM intents NOT INDEXED WHERE sandbox_id = id) FROM sandboxes NOT INDEXED ORDER BY rowid"
#define SNAPSHOTS \
	"SELECT id, sandbox_id, name, spec, state, reason, message, created_us, changed_us FROM snapshots NOT INDEXED ORDER BY rowid"
#define EVENTS "SELECT sandbox_id, at_us, scope, type, message FROM events NOT INDEXED ORDER BY n"

/* From both ends: what lies between two bad pages is lost, what lies around one is not. */
static int salvage(struct recovery *r, struct err *e)
{
	static const struct {
		const char *sql;
		take_fn *fn;
		const char *table; /* that older versions do not have */
	} reads[] = {
		{ "SELECT name, value FROM meta", take_meta, NULL },
		{ "SELECT name, id, size_bytes, created_us, state FROM volumes", take_volume, "volumes" },
		{ SANDBOXES " ASC", take_sandbox, NULL },
		{ SANDBOXES " DESC", take_sandbox, NULL },
		{ SNAPSHOTS " ASC", take_snapshot, NULL },
		{ SNAPSHOTS " DESC", take_snapshot, NULL },
		{ EVENTS, take_event, NULL },
		{ "SELECT key, body, sandbox_id, expires_us FROM keys", take_key, NULL },
		{ SELECT_POOLS, take_pool, "pools" },
		{ "SELECT sandbox_id, pool_id, is_idle FROM pool_members", take_member, "pool_members" },
	};
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;

	if (sqlite3_open_v2(r->from.path, &r->from.db, flags, NULL) != SQLITE_OK) {
		connection_close(&r->from);
	} else {
		(void)sqlite3_db_config(r->from.db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
		(void)connection_exec(r->from.db, "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;", &(struct err){ 0 });
	}
	for (size_t i = 0; i < ARRAY_LEN(reads); i++)
		if (has_table(r, reads[i].table) && take_all(r, reads[i].sql, reads[i].fn, e) < 0)
			return -1;
	return 0;
}

/* ---- what runs without a record ---- */

static int rebuild_one(struct recovery *r, const struct runtime_box *b, struct err *e)
{
	static const char *entrypoint[] = { "unknown" };
	struct sandbox_row row = {
		.id = b->id, .image = r->spec->image, .entrypoint = { entrypoint, 1 }, .limits = RUNTIME_LIMITS_DEFAULT,
		.created_us = r->spec->now_us, .changed_us = r->spec->now_us,
		.state = b->state == RUNTIME_PAUSED ? SANDBOX_PAUSED : SANDBOX_RUNNING, .reason = "CONTAINER_RECOVERED",
		.message = "The record of this sandbox was lost and made anew.",
	};
	struct store_event ev = { b->id, r->spec->now_us, "runtime", "Adopted", row.message };
	struct store_tx *tx;
	int n;

	if (b->state == RUNTIME_STARTING)
		return 0; /* nobody was ever told of it */
	tx = store_tx_new();
	store_tx_insert(tx, &row);
	store_tx_event(tx, &ev);
	n = put(r, tx, e);
	r->report->rebuilt += n > 0;
	return n < 0 ? -1 : 0;
}

/* A boot of its own, unless the old one could be read: else nobody's remaining life would be known to be wrong. */
static int add_boot(struct recovery *r, struct err *e)
{
	char value[STORE_META_MAX];
	struct store_tx *tx;
	size_t n = 0;

	if (connection_meta(&r->to, "boot_id", value, &n, e) < 0)
		return -1;
	if (n > 0)
		return 0;
	tx = store_tx_new();
	store_tx_meta(tx, "boot_id", str_of(r->spec->boot_id));
	return put(r, tx, e) < 0 ? -1 : 0;
}

/* Layers without a record may be those of records that are lost. */
static int keep_layers(struct recovery *r, struct err *e)
{
	struct store_tx *tx = store_tx_new();

	store_tx_meta(tx, STORE_KEEP_LAYERS, STR("1"));
	return put(r, tx, e) < 0 ? -1 : 0;
}

static int rebuild(struct recovery *r, struct err *e)
{
	if ((r->report->is_partial || r->report->bad > 0) && keep_layers(r, e) < 0)
		return -1;
	for (size_t i = 0; i < r->spec->n_boxes; i++)
		if (rebuild_one(r, &r->spec->boxes[i], e) < 0)
			return -1;
	return add_boot(r, e);
}

/* ---- all of it ---- */

static int begin(struct recovery *r, struct err *e)
{
	const struct store_recover_spec *sp = r->spec;

	r->dir = open(sp->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->dir < 0)
		return err_sys(e, errno, "open '%s'", sp->dir);
	if (asprintf(&r->from.path, "%s/salvage.sqlite", sp->dir) < 0 || asprintf(&r->to.path, "%s/rebuilt.sqlite", sp->dir) < 0)
		return err_no_memory(e);
	for (size_t i = 0; i < sp->n_boxes; i++)
		if (!map_put(&r->boxes, str_of(sp->boxes[i].id), (void *)(uintptr_t)&sp->boxes[i]))
			return err_no_memory(e);
	return 0;
}

static int open_new(struct recovery *r, enum store_fault *ret_fault, struct err *e)
{
	remove_all(r->dir, "rebuilt.sqlite");
	if (state_file_make(r->to.path, e) < 0 || connection_open(&r->to, e) < 0)
		return -1;
	return schema_prepare(&r->to, &store_schema, ret_fault, e);
}

/* Closing the only connection writes everything into the file itself. */
static int finish(struct recovery *r, struct err *e)
{
	if (connection_exec(r->to.db, "PRAGMA wal_checkpoint(TRUNCATE)", e) < 0)
		return -1;
	connection_close(&r->to);
	connection_close(&r->from);
	if (is_there(r->dir, "rebuilt.sqlite-wal"))
		return err_set(e, ERR_IO, "the new database could not be closed");
	if (fsync(r->dir) < 0 || renameat(r->dir, "rebuilt.sqlite", r->dir, "db.sqlite") < 0 || fsync(r->dir) < 0)
		return err_sys(e, errno, "put the new database in place");
	remove_all(r->dir, "salvage.sqlite");
	if (unlinkat(r->dir, STORE_RECOVERING, 0) < 0)
		return err_sys(e, errno, "remove '" STORE_RECOVERING "'");
	return 0;
}

int store_recover(const struct store_recover_spec *spec, struct store_recovered *ret, enum store_fault *ret_fault, struct err *e)
{
	AUTO(recovery_done) struct recovery r = { .spec = spec, .dir = -1, .arena = ARENA_INIT(8 * ROW_SPEC_MAX), .report = ret };
	AUTO_FD lock = state_dir_lock(spec->dir, ret_fault, e);

	*ret = (struct store_recovered){ 0 };
	if (lock < 0 || begin(&r, e) < 0 || choose_aside(&r, e) < 0 || move_aside(&r, e) < 0 || copy_aside(&r, e) < 0)
		return -1;
	if (open_new(&r, ret_fault, e) < 0 || salvage(&r, e) < 0 || rebuild(&r, e) < 0 || finish(&r, e) < 0)
		return err_wrap(e, "rebuild the database in '%s'", spec->dir);
	if (is_there(r.dir, r.aside))
		(void)snprintf(ret->aside, sizeof(ret->aside), "%s", r.aside);
	return 0;
}
