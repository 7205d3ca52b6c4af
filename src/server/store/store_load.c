// SPDX-License-Identifier: Apache-2.0
/* Reading rows. What is loaded is checked like a request. */
#include "base/uuid.h"
#include "server/store/store_impl.h"

#include "base/banned.h"

static struct str column_str(sqlite3_stmt *st, int i)
{
	const void *p = sqlite3_column_blob(st, i); /* text comes as the bytes that are stored */
	int n = sqlite3_column_bytes(st, i);

	return (struct str){ p ? p : "", n > 0 ? (size_t)n : 0 };
}

struct loading {
	const struct store_reader *r;
	void *arg;
	struct arena arena; /* of one row */
};

static int load_sandbox(sqlite3_stmt *st, struct loading *l, struct err *e)
{
	struct row_columns c = {
		.id = column_str(st, 0), .spec = column_str(st, 1), .metadata = column_str(st, 2),
		.created_us = sqlite3_column_int64(st, 3), .expires_us = sqlite3_column_int64(st, 4),
		.deadline_ms = sqlite3_column_int64(st, 5), .state = column_str(st, 6), .reason = column_str(st, 7),
		.message = column_str(st, 8), .changed_us = sqlite3_column_int64(st, 9), .intent = column_str(st, 10),
		.revision = sqlite3_column_int64(st, 11),
	};
	struct sandbox_row row;

	return row_load(&c, &l->arena, &row, e) < 0 ? -1 : l->r->sandbox(&row, l->arg, e);
}

static int load_volume(sqlite3_stmt *st, struct loading *l, struct err *e)
{
	struct volume_columns c = { .name = column_str(st, 0), .id = column_str(st, 1), .size_bytes = sqlite3_column_int64(st, 2),
				    .created_us = sqlite3_column_int64(st, 3), .state = column_str(st, 4) };
	struct volume_row row;

	if (volume_row_load(&c, &l->arena, &row, e) < 0)
		return -1;
	return l->r->volume ? l->r->volume(&row, l->arg, e) : 0;
}

static int load_event(sqlite3_stmt *st, struct loading *l, struct err *e)
{
	struct store_event ev = {
		.sandbox_id = arena_dup(&l->arena, column_str(st, 0)), .at_us = sqlite3_column_int64(st, 1),
		.scope = arena_dup(&l->arena, column_str(st, 2)), .type = arena_dup(&l->arena, column_str(st, 3)),
		.message = arena_dup(&l->arena, column_str(st, 4)),
	};

	if (!ev.sandbox_id || !ev.scope || !ev.type || !ev.message)
		return err_no_memory(e);
	return l->r->event(&ev, l->arg, e);
}

static int load_key(sqlite3_stmt *st, struct loading *l, struct err *e)
{
	struct store_key k = {
		.key = column_str(st, 0), .sandbox_id = arena_dup(&l->arena, column_str(st, 2)),
		.expires_us = sqlite3_column_int64(st, 3),
	};
	struct str body = column_str(st, 1);

	if (!k.sandbox_id)
		return err_no_memory(e);
	if (body.n != sizeof(k.body) || k.key.n != SHA256_HEX_LEN)
		return err_set(e, ERR_INVALID, "an idempotency key that cannot be");
	memcpy(k.body, body.p, sizeof(k.body));
	return l->r->key(&k, l->arg, e);
}

static int load_member(sqlite3_stmt *st, struct loading *l, struct err *e)
{
	const char *sandbox = arena_dup(&l->arena, column_str(st, 0)), *pool = arena_dup(&l->arena, column_str(st, 1));

	if (!sandbox || !pool)
		return err_no_memory(e);
	if (!id_valid(str_of(pool)))
		return err_set(e, ERR_INVALID, "sandbox '%.64s': a pool that cannot be", sandbox);
	return l->r->member(sandbox, pool, sqlite3_column_int64(st, 2) != 0, l->arg, e);
}

typedef int load_fn(sqlite3_stmt *st, struct loading *l, struct err *e);

static int load_all(struct connection *c, const char *sql, load_fn *fn, struct loading *l, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int r = 0;

	c->rc = sqlite3_prepare_v2(c->db, sql, -1, &st, NULL);
	while (c->rc == SQLITE_OK && r == 0) {
		int rc = sqlite3_step(st);

		if (rc != SQLITE_ROW) {
			c->rc = rc;
			break;
		}
		arena_reset(&l->arena);
		r = fn(st, l, e);
	}
	if (r == 0 && c->rc != SQLITE_DONE)
		r = sql_error(c->db, c->rc, "read the database", e);
	(void)sqlite3_finalize(st);
	return r;
}

static const char sandboxes_text[] =
	"SELECT id, spec, metadata, created_us, expires_us, deadline_ms, state, reason, message, changed_us,"
	" operation, revision FROM sandboxes LEFT JOIN intents ON sandbox_id = id ORDER BY created_us";

int connection_load(struct connection *c, const struct store_reader *r, void *arg, enum store_fault *ret_fault,
		    struct err *e)
{
	struct loading l = { .r = r, .arg = arg, .arena = ARENA_INIT(8 * ROW_SPEC_MAX) };
	int rc;

	c->rc = SQLITE_OK;
	rc = load_all(c, "SELECT name, id, size_bytes, created_us, state FROM volumes", load_volume, &l, e);
	if (rc == 0)
		rc = load_all(c, sandboxes_text, load_sandbox, &l, e);
	if (rc == 0)
		rc = load_all(c, "SELECT sandbox_id, at_us, scope, type, message FROM events ORDER BY n", load_event, &l, e);
	if (rc == 0)
		rc = load_all(c, "SELECT key, body, sandbox_id, expires_us FROM keys", load_key, &l, e);
	if (rc == 0 && r->member)
		rc = load_all(c, "SELECT sandbox_id, pool_id, is_idle FROM pool_members", load_member, &l, e);
	arena_done(&l.arena);
	if (rc < 0)
		*ret_fault = sql_is_damage(c->rc) || e->code == ERR_INVALID ? STORE_DAMAGED : STORE_FAILED;
	return rc;
}

struct loading_snapshots {
	struct loading l; /* what load_all() needs */
	store_snapshot_fn *fn;
};

static int load_snapshot(sqlite3_stmt *st, struct loading *l, struct err *e)
{
	const struct loading_snapshots *s = container_of(l, struct loading_snapshots, l);
	struct snapshot_columns c = {
		.id = column_str(st, 0), .sandbox_id = column_str(st, 1), .name = column_str(st, 2), .spec = column_str(st, 3),
		.state = column_str(st, 4), .reason = column_str(st, 5), .message = column_str(st, 6),
		.created_us = sqlite3_column_int64(st, 7), .changed_us = sqlite3_column_int64(st, 8),
	};
	struct snapshot_row row;

	return snapshot_row_load(&c, &l->arena, &row, e) < 0 ? -1 : s->fn(&row, l->arg, e);
}

int connection_load_snapshots(struct connection *c, store_snapshot_fn *fn, void *arg, enum store_fault *ret_fault,
			      struct err *e)
{
	struct loading_snapshots s = { .l = { .arg = arg, .arena = ARENA_INIT(8 * ROW_SPEC_MAX) }, .fn = fn };
	int rc;

	c->rc = SQLITE_OK;
	rc = load_all(c,
		      "SELECT id, sandbox_id, name, spec, state, reason, message, created_us, changed_us FROM snapshots"
		      " ORDER BY created_us, id",
		      load_snapshot, &s.l, e);
	arena_done(&s.l.arena);
	if (rc < 0)
		*ret_fault = sql_is_damage(c->rc) || e->code == ERR_INVALID ? STORE_DAMAGED : STORE_FAILED;
	return rc;
}

/* ---- images ---- */

struct image_loading {
	const struct store_image_reader *r;
	void *arg;
};

/* How long it is says what it is. */
static int load_digest(sqlite3_stmt *st, int i, struct digest *ret, struct err *e)
{
	struct str digest = column_str(st, i);

	if (digest.n != SHA256_SIZE && digest.n != SHA512_SIZE)
		return err_set(e, ERR_INVALID, "a digest of an image that cannot be");
	*ret = (struct digest){ .size = (uint32_t)digest.n };
	memcpy(ret->bytes, digest.p, digest.n);
	return 0;
}

static int load_image(sqlite3_stmt *st, struct loading *l, struct err *e)
{
	const struct image_loading *im = l->arg;
	struct store_image image = {
		.name = arena_dup(&l->arena, column_str(st, 0)), .os = arena_dup(&l->arena, column_str(st, 1)),
		.arch = arena_dup(&l->arena, column_str(st, 2)), .manifest = column_str(st, 4), .config = column_str(st, 5),
		.is_private = sqlite3_column_int64(st, 6) != 0, .pulled_us = sqlite3_column_int64(st, 7),
		.is_kept = sqlite3_column_int64(st, 8) != 0,
	};

	if (!image.name || !image.os || !image.arch)
		return err_no_memory(e);
	return load_digest(st, 3, &image.digest, e) < 0 ? -1 : im->r->image(&image, im->arg, e);
}

static int load_layer(sqlite3_stmt *st, struct loading *l, struct err *e)
{
	const struct image_loading *im = l->arg;
	struct str name = column_str(st, 0);

	if (name.n != DIGEST_NAME_SIZE)
		return err_set(e, ERR_INVALID, "a name of a layer that cannot be");
	return im->r->layer((const unsigned char *)name.p, im->arg, e);
}

int connection_load_images(struct connection *c, const struct store_image_reader *r, void *arg, enum store_fault *ret_fault,
			   struct err *e)
{
	struct image_loading im = { r, arg };
	struct loading l = { .arg = &im, .arena = ARENA_INIT(ROW_SPEC_MAX) };
	int rc;

	c->rc = SQLITE_OK;
	rc = load_all(c, "SELECT name, os, arch, digest, manifest, config, is_private, pulled_us, is_kept FROM images ORDER BY pulled_us",
		      load_image, &l, e);
	if (rc == 0)
		rc = load_all(c, "SELECT digest FROM image_layers", load_layer, &l, e);
	arena_done(&l.arena);
	if (rc < 0)
		*ret_fault = sql_is_damage(c->rc) || e->code == ERR_INVALID ? STORE_DAMAGED : STORE_FAILED;
	return rc;
}

int connection_meta(struct connection *c, const char *name, char out[STORE_META_MAX], size_t *ret_n, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(c->db, "SELECT value FROM meta WHERE name = ?", -1, &st, NULL);
	struct str value = { 0 };

	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		value = str_first(column_str(st, 0), STORE_META_MAX);
	if (value.n > 0)
		memcpy(out, value.p, value.n);
	(void)sqlite3_finalize(st);
	c->rc = rc;
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return sql_error(c->db, rc, "read the database", e);
	*ret_n = value.n;
	return 0;
}
