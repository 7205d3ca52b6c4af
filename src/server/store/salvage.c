// SPDX-License-Identifier: Apache-2.0
/* Reading what is left of a damaged database. */
#include "base/uuid.h"
#include "server/store/recover_impl.h"

#include "base/banned.h"

static struct str text_of(sqlite3_stmt *st, int i)
{
	const void *p = sqlite3_column_blob(st, i);
	int n = sqlite3_column_bytes(st, i);

	return (struct str){ p ? p : "", n > 0 ? (size_t)n : 0 };
}

int recovery_put(struct recovery *r, struct store_tx *tx, struct err *e)
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
	n = recovery_put(r, tx, e);
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
	return recovery_put(r, tx, e) < 0 ? -1 : 0;
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
	return recovery_put(r, tx, e) < 0 ? -1 : 0;
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
	n = recovery_put(r, tx, e);
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
	return recovery_put(r, tx, e) < 0 ? -1 : 0;
}

/* What the new database has of its own. */
static bool is_own(const char *name)
{
	static const char *const names[] = { STAMP_NAME, STAMP_UNMADE_NAME, SECRET_NAME, SECRET_CHECK_NAME };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static int take_meta(struct recovery *r, sqlite3_stmt *st, struct err *e)
{
	const char *name = arena_dup(&r->arena, text_of(st, 0));
	struct store_tx *tx;

	if (!name)
		return err_no_memory(e);
	if (text_of(st, 1).n > STORE_META_MAX || is_own(name))
		return 0;
	tx = store_tx_new();
	store_tx_meta(tx, name, text_of(st, 1));
	return recovery_put(r, tx, e) < 0 ? -1 : 0;
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
	return recovery_put(r, tx, e) < 0 ? -1 : 0;
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
	return recovery_put(r, tx, e) < 0 ? -1 : 0;
}

static int take_image(struct recovery *r, sqlite3_stmt *st, struct err *e)
{
	struct store_image image = {
		.name = arena_dup(&r->arena, text_of(st, 0)), .os = arena_dup(&r->arena, text_of(st, 1)),
		.arch = arena_dup(&r->arena, text_of(st, 2)), .manifest = text_of(st, 4), .config = text_of(st, 5),
		.is_private = sqlite3_column_int64(st, 6) != 0, .pulled_us = sqlite3_column_int64(st, 7),
		.is_kept = sqlite3_column_int64(st, 8) != 0,
	};
	struct str digest = text_of(st, 3);
	struct store_tx *tx;

	if (!image.name || !image.os || !image.arch)
		return err_no_memory(e);
	if (digest.n != SHA256_SIZE && digest.n != SHA512_SIZE) {
		r->report->bad++;
		return 0;
	}
	image.digest.size = (uint32_t)digest.n;
	memcpy(image.digest.bytes, digest.p, digest.n);
	tx = store_tx_new();
	store_tx_image(tx, &image);
	return recovery_put(r, tx, e) < 0 ? -1 : 0;
}

static int take_layer(struct recovery *r, sqlite3_stmt *st, struct err *e)
{
	struct str name = text_of(st, 0);
	struct store_tx *tx;

	if (name.n != DIGEST_NAME_SIZE)
		return 0;
	tx = store_tx_new();
	store_tx_layer(tx, (const unsigned char *)name.p, true);
	return recovery_put(r, tx, e) < 0 ? -1 : 0;
}

typedef int take_fn(struct recovery *r, sqlite3_stmt *st, struct err *e);

/* Everything up to the first page that cannot be read. */
static int take_all(struct recovery *r, sqlite3 *db, const char *sql, take_fn *fn, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = 0;

	if (!db || sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK) {
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

static const char *const volumes_text = "SELECT name, id, size_bytes, created_us, state FROM volumes";
static const char *const images_text =
	"SELECT name, os, arch, digest, manifest, config, is_private, pulled_us, is_kept FROM images";

/* From both ends: what lies between two bad pages is lost, what lies around one is not. */
static const struct {
	const char *sql;
	take_fn *fn;
	const char *table; /* that older versions do not have */
	int durable;       /* nothing is read if the copy has that table; -1: it cannot */
} salvage_reads[] = {
	{ "SELECT name, value FROM meta", take_meta, NULL, -1 },
	{ volumes_text, take_volume, "volumes", DURABLE_VOLUMES },
	{ SANDBOXES " ASC", take_sandbox, NULL, -1 },
	{ SANDBOXES " DESC", take_sandbox, NULL, -1 },
	{ SNAPSHOTS " ASC", take_snapshot, NULL, DURABLE_SNAPSHOTS },
	{ SNAPSHOTS " DESC", take_snapshot, NULL, DURABLE_SNAPSHOTS },
	{ EVENTS, take_event, NULL, -1 },
	{ "SELECT key, body, sandbox_id, expires_us FROM keys", take_key, NULL, -1 },
	{ SELECT_POOLS, take_pool, "pools", DURABLE_POOLS },
	{ "SELECT sandbox_id, pool_id, is_idle FROM pool_members", take_member, "pool_members", -1 },
};

/* Of the copy. Images that it does not have are not looked for elsewhere: they are pulled again. */
static const struct {
	const char *sql;
	take_fn *fn;
} copy_reads[DURABLE_TABLES] = {
	[DURABLE_VOLUMES] = { volumes_text, take_volume },
	[DURABLE_SNAPSHOTS] = { SNAPSHOTS, take_snapshot },
	[DURABLE_IMAGES] = { images_text, take_image },
	[DURABLE_IMAGE_LAYERS] = { "SELECT digest FROM image_layers", take_layer },
	[DURABLE_POOLS] = { SELECT_POOLS, take_pool },
};

static void open_old(struct recovery *r)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;

	if (sqlite3_open_v2(r->from.path, &r->from.db, flags, NULL) != SQLITE_OK) {
		connection_close(&r->from);
		return;
	}
	(void)sqlite3_db_config(r->from.db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)connection_exec(r->from.db, "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;", &(struct err){ 0 });
}

static int take_copy(struct recovery *r, struct err *e)
{
	if (!r->copy.db)
		return 0;
	for (size_t i = 0; i < DURABLE_TABLES; i++) {
		if (r->is_in_copy[i] && take_all(r, r->copy.db, copy_reads[i].sql, copy_reads[i].fn, e) < 0)
			return -1;
		r->report->from_copy += r->is_in_copy[i];
	}
	return take_all(r, r->copy.db, "SELECT name, value FROM meta WHERE name = '" STORE_KEEP_LAYERS "'", take_meta, e);
}

int salvage(struct recovery *r, struct err *e)
{
	open_old(r);
	r->seq = copy_trust(&r->copy, &r->from, r->is_in_copy);
	if (secret_find(&r->secret, r->spec->dir, &r->from, &r->copy, e) < 0 || take_copy(r, e) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(salvage_reads); i++) {
		if (salvage_reads[i].durable >= 0 && r->is_in_copy[salvage_reads[i].durable])
			continue;
		if (has_table(r, salvage_reads[i].table) &&
		    take_all(r, r->from.db, salvage_reads[i].sql, salvage_reads[i].fn, e) < 0)
			return -1;
	}
	return 0;
}
