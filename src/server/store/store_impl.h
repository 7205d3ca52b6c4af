// SPDX-License-Identifier: Apache-2.0
/* server/store/store_impl.h - what the files of the store share.
 *
 * store.c owns the thread and its queues, store_tx.c builds transactions, store_sql.c runs them, store_load.c reads rows,
 * schema.c opens the file, state_dir.c holds the directory, recover.c makes a new file from a damaged one. */
#pragma once
#include <sqlite3.h>

#include "base/arena.h"
#include "base/err.h"
#include "server/store/store.h"

/* ---- transactions as data ---- */

enum statement { /* rows of the table of SQL in store_sql.c */
	SQL_INSERT,
	SQL_STATE,
	SQL_EXPIRY,
	SQL_METADATA,
	SQL_DELETE,
	SQL_INTENT,
	SQL_NO_INTENT,
	SQL_EVENT,
	SQL_TRIM_EVENTS,
	SQL_KEY,
	SQL_FORGET_KEY,
	SQL_META,
	SQL_SPEC,
	SQL_SNAPSHOT,
	SQL_SNAPSHOT_STATE,
	SQL_SNAPSHOT_DELETE,
	SQL_IMAGE,
	SQL_FORGET_IMAGE,
	SQL_LAYER,
	SQL_FORGET_LAYER,
	SQL_MEMBER,
	SQL_TAKE,
	SQL_HAND_OUT,
	SQL_RESTORE,
	SQL_POOL,
	SQL_POOL_CAPACITY,
	SQL_POOL_DELETE,
	SQL_VOLUME,
	SQL_FORGET_VOLUME,
	SQL_COUNT,
};

#define PARAMS_MAX 11

struct param {
	enum { PARAM_TEXT, PARAM_BLOB, PARAM_INT } kind;
	struct str s;
	int64_t i;
};

struct step {
	struct step *next;
	enum statement statement;
	size_t n;
	struct param params[PARAMS_MAX];
};

struct store_tx {
	struct store_tx *next; /* in a queue */
	struct arena arena;
	struct step *first, *last;
	bool failed; /* it does not fit, or memory ran out */
	bool is_durable; /* on the disk when it is committed */
	store_done_fn *fn;
	void *arg;
	struct err result; /* ERR_NONE: committed */
};

void store_tx_member(struct store_tx *tx, const char *sandbox_id, const char *pool_id, bool is_idle);

/* ---- SQL ---- */

struct connection {
	char *path;
	sqlite3 *db;
	sqlite3_stmt *statements[SQL_COUNT]; /* prepared when they are first needed */
	int rc;                              /* SQLite's result of what failed last */
};

int connection_open(struct connection *c, struct err *e); /* of c->path; sets its pragmas */
void connection_close(struct connection *c);
int connection_run(struct connection *c, const struct store_tx *tx, struct err *e); /* whole or not at all */
int connection_exec(sqlite3 *db, const char *sql, struct err *e);
int connection_load(struct connection *c, const struct store_reader *r, void *arg, enum store_fault *ret_fault,
		    struct err *e);
int connection_load_snapshots(struct connection *c, store_snapshot_fn *fn, void *arg, enum store_fault *ret_fault,
			      struct err *e);
int connection_load_images(struct connection *c, const struct store_image_reader *r, void *arg, enum store_fault *ret_fault,
			   struct err *e);
int connection_load_pools(struct connection *c, store_pool_fn *fn, void *arg, enum store_fault *ret_fault, struct err *e);
/* The row of the pools as SELECT_POOLS gives it; strings go into A. ERR_INVALID for one that cannot be. */
#define SELECT_POOLS \
	"SELECT id, name, template, buffer_min, buffer_max, pool_min, pool_max, created_us FROM pools"
int pool_row_load(sqlite3_stmt *st, struct arena *a, struct store_pool *ret, struct err *e);
int connection_meta(struct connection *c, const char *name, char out[STORE_META_MAX], size_t *ret_n, struct err *e);
/* The error for a result of SQLite, which becomes part of the message: for the log, not for clients. */
int sql_error(sqlite3 *db, int rc, const char *what, struct err *e);
bool sql_is_damage(int rc);

/* ---- the schema ---- */

struct schema {
	const char *const *steps; /* steps[i] leads from version i to i + 1 */
	size_t n;
};
extern const struct schema store_schema;

/* Checks the file and brings it up to date. A file that has content is copied to PATH.vN before it is changed. */
int schema_prepare(struct connection *c, const struct schema *schema, enum store_fault *ret_fault, struct err *e);

/* ---- the directory ---- */

#define STORE_RECOVERING "recovering" /* a file: a recovery has begun and not ended */

/* A descriptor that holds the lock while it is open. */
int state_dir_lock(const char *dir, enum store_fault *ret_fault, struct err *e);
int state_dir_check(const char *dir, enum store_fault *ret_fault, struct err *e); /* STORE_DAMAGED: a recovery was cut off */
int state_secret_read(const char *dir, unsigned char out[STORE_SECRET_SIZE], struct err *e); /* ERR_NOT_FOUND: there is none */
int state_secret_write(const char *dir, const unsigned char secret[STORE_SECRET_SIZE], struct err *e);
int state_file_make(const char *path, struct err *e); /* 0600, before SQLite would make it otherwise */
