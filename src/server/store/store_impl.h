// SPDX-License-Identifier: Apache-2.0
/* server/store/store_impl.h - shared by the files of the store.
 *
 * store.c owns the thread and its queues, store_tx.c builds transactions, store_sql.c runs them, store_load.c
 * reads rows, schema.c opens the file, durable.c keeps checksums of the durable tables, copy.c writes their
 * copy and copy_settle.c compares it, secret.c has the secret, state_dir.c the directory, recover.c makes a
 * new file from a damaged one. */
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
	bool is_copied;  /* has steps that the copy of the database gets, too */
	store_done_fn *fn;
	void *arg;
	struct err result; /* ERR_NONE: committed */
};

void store_tx_member(struct store_tx *tx, const char *sandbox_id, const char *pool_id, bool is_idle);

/* ---- SQL ---- */

/* What outlives sandboxes (S1). The copy has these tables and `meta`. */
enum durable_table {
	DURABLE_VOLUMES,
	DURABLE_SNAPSHOTS,
	DURABLE_IMAGES,
	DURABLE_IMAGE_LAYERS,
	DURABLE_POOLS,
	DURABLE_TABLES,
};

/* A checksum of the rows of a table: the exclusive or of the SHA-256 of each. It can be kept up to date row
 * by row. */
struct table_sum {
	unsigned char bytes[SHA256_SIZE];
};

/* Kept in `meta`, and changed in the same transaction as the durable tables. */
struct stamp {
	int64_t seq; /* of the last transaction that changed a durable table or `meta` */
	struct table_sum sums[DURABLE_TABLES];
};

struct connection {
	char *path;
	sqlite3 *db;
	sqlite3_stmt *statements[SQL_COUNT]; /* prepared when they are first needed */
	int rc;                              /* SQLite's result of what failed last */
	bool has_triggers;                   /* that keep `stamp` up to date */
	struct stamp stamp;                  /* during a transaction that is copied */
};

int connection_open(struct connection *c, struct err *e); /* of c->path; sets its pragmas */
void connection_close(struct connection *c);
int connection_run(struct connection *c, const struct store_tx *tx, struct err *e); /* whole or not at all */
/* The same in two steps, with the other database's in between. With IS_COPY only what the copy gets. After a
 * failure of either: connection_undo(). */
int connection_begin(struct connection *c, const struct store_tx *tx, bool is_copy, struct err *e);
int connection_commit(struct connection *c, const struct store_tx *tx, struct err *e);
void connection_undo(struct connection *c, const struct store_tx *tx);
bool sql_is_copied(enum statement s);
int connection_exec(sqlite3 *db, const char *sql, struct err *e);
/* the same, and c->rc says how it ended */
int connection_do(struct connection *c, const char *sql, struct err *e);
int connection_load(struct connection *c, const struct store_reader *r, void *arg,
		    enum store_fault *ret_fault,
		    struct err *e);
int connection_load_snapshots(struct connection *c, store_snapshot_fn *fn, void *arg,
			      enum store_fault *ret_fault,
			      struct err *e);
int connection_load_images(struct connection *c, const struct store_image_reader *r, void *arg,
			   enum store_fault *ret_fault,
			   struct err *e);
int connection_load_pools(struct connection *c, store_pool_fn *fn, void *arg, enum store_fault *ret_fault,
			  struct err *e);
/* The row of the pools as SELECT_POOLS gives it; strings go into A. ERR_INVALID for one that cannot be. */
#define SELECT_POOLS \
	"SELECT id, name, template, buffer_min, buffer_max, pool_min, pool_max, created_us FROM pools"
int pool_row_load(sqlite3_stmt *st, struct arena *a, struct store_pool *ret, struct err *e);
int connection_meta(struct connection *c, const char *name, char out[STORE_META_MAX], size_t *ret_n,
		    struct err *e);
/* The error for a result of SQLite, which becomes part of the message: for the log, not for clients. */
int sql_error(sqlite3 *db, int rc, const char *what, struct err *e);
bool sql_is_damage(int rc);

/* ---- the schema ---- */

struct schema {
	const char *const *steps; /* steps[i] leads from version i to i + 1 */
	size_t n;
};
extern const struct schema store_schema;

/* Checks the file and brings it up to date. A file that has content is copied to PATH.vN before it is
 * changed. */
int schema_prepare(struct connection *c, const struct schema *schema, enum store_fault *ret_fault,
		   struct err *e);

/* ---- durable tables (durable.c) ---- */

struct durable {
	const char *table, *columns, *key;
	const char *shown, *shown_as; /* in the log: an expression, and the name of its field */
	const char *restored;         /* the message */
};
extern const struct durable durables[DURABLE_TABLES];

enum stamp_state {
	STAMP_NONE,
	STAMP_UNMADE, /* none either: the rows are of a version that knew of no stamps */
	STAMP_BAD, /* it does not match its own checksum */
	STAMP_OLD, /* of another version of the schema: its sums say nothing */
	STAMP_GOOD,
};

#define STAMP_NAME "durable"
#define STAMP_UNMADE_NAME "durable_unmade"

int stamp_read(struct connection *c, enum stamp_state *ret_state, struct stamp *ret, struct err *e);
int stamp_write(struct connection *c, const struct stamp *stamp, struct err *e);
bool stamp_eq(const struct stamp *a, const struct stamp *b);
/* of the rows that are there */
int stamp_sum(struct connection *c, struct table_sum out[DURABLE_TABLES], struct err *e);
/* From here on c->stamp.sums follows every change of a row. */
int stamp_follow(struct connection *c, struct err *e);
int stamp_begin(struct connection *c, struct err *e); /* in a transaction: reads it into c->stamp */
int stamp_end(struct connection *c, struct err *e);   /* raises the number and writes it */

/* ---- the copy (copy.c) ---- */

#define COPY_NAME "copy.sqlite"

/* Opens the copy. c->db is NULL afterwards if there is none, or a damaged one. */
int copy_open(struct connection *copy, struct err *e);
/* Makes the copy anew from C, which has no transaction open. */
int copy_make(struct connection *c, struct connection *copy, struct err *e);
/* The database at PATH as the schema `other` of C. Detaching rolls back what is not committed. */
int connection_attach(struct connection *c, const char *path, struct err *e);
void connection_detach(struct connection *c);
/* Makes the database and its copy (NULL in copy->db: there is none) agree. *ret_behind is the number of
 * transactions that the database had lost. */
int copy_settle(struct connection *c, struct connection *copy, uint64_t *ret_behind, struct err *e);
/* on both, or on none */
int copy_run(struct connection *c, struct connection *copy, const struct store_tx *tx, struct err *e);
/* For a recovery: which tables of the copy are at least as new as FROM, as far as that can be read, and
 * whole. The greatest number of both. */
int64_t copy_trust(struct connection *copy, struct connection *from, bool ret[DURABLE_TABLES]);

/* ---- the secret (secret.c) ---- */

#define SECRET_NAME "secret"             /* of the file, and in `meta` */
#define SECRET_CHECK_NAME "secret_check" /* in `meta`; in the file it follows the secret */

enum secret_grade {
	SECRET_NONE,
	SECRET_BAD,       /* it does not match its checksum */
	SECRET_UNCHECKED, /* of an earlier version, which wrote none */
	SECRET_GOOD,
};

/* of two that are good, the first counts */
enum secret_place { SECRET_FILE, SECRET_DATABASE, SECRET_COPY, SECRET_PLACES };

struct secret {
	const char *dir; /* borrowed */
	struct secret_found {
		enum secret_grade grade;
		unsigned char bytes[STORE_SECRET_SIZE];
	} found[SECRET_PLACES];
	unsigned char bytes[STORE_SECRET_SIZE]; /* the one that counts */
	bool is_known;
	bool is_fresh; /* there never was one */
	bool is_new;   /* secret_make() has made it */
};

int secret_find(struct secret *ret, const char *dir, struct connection *c, struct connection *copy,
		struct err *e);
int secret_make(struct secret *s, struct err *e);
/* Writes it where it is not right. With NULL for COPY, C is a new database. */
int secret_mend(const struct secret *s, struct connection *c, struct connection *copy, struct err *e);

/* ---- the directory ---- */

#define STORE_RECOVERING "recovering" /* a file: a recovery has begun and not ended */

/* A descriptor that holds the lock while it is open. */
int state_dir_lock(const char *dir, enum store_fault *ret_fault, struct err *e);
/* STORE_DAMAGED: a recovery was cut off */
int state_dir_check(const char *dir, enum store_fault *ret_fault, struct err *e);
int state_file_make(const char *path, struct err *e); /* 0600, before SQLite would make it otherwise */
/* with its log; what cannot go is in the way later, and told then */
void state_database_remove(const char *path);
/* FROM was closed and has no log */
int state_database_replace(const char *from, const char *to, struct err *e);
