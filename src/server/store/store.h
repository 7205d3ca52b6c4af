// SPDX-License-Identifier: Apache-2.0
/* server/store/store.h - persistent data in SQLite: records, events, intents and idempotency keys.
 *
 * There is one server per state directory. Everything is read once, at start; afterwards the caller reads its
 * own memory and writes to the store. All writes and checkpoints happen on one thread, in order, each
 * transaction completely or not at all; completions come back through the loop.
 *
 * A write that fails (disk full, I/O error, busy) fails alone: the next one is tried again, on a new
 * connection if needed, so the store recovers when the disk does. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/own.h"
#include "base/str.h"
#include "server/store/row.h"
#include "server/store/snapshot_row.h"

struct err;
struct loop;
struct store;
struct store_tx;

#define STORE_QUEUE_MAX 8192 /* transactions waiting */
#define STORE_EVENTS_MAX 200 /* per sandbox; older ones go */

enum store_fault {
	STORE_FAILED,  /* the rest */
	STORE_DAMAGED, /* not a database, a broken one, or one with rows that cannot be */
	STORE_LOCKED,  /* another server has the directory */
};

/* Makes the directory (0700), takes its lock, opens or makes DIR/db.sqlite (0600), checks it and brings its
 * schema up to date. Compares it with DIR/copy.sqlite, which has volumes, snapshots, images and pools once
 * more, and mends what is behind or damaged in either. *ret_fault is set on failure. */
struct store *store_open(const char *dir, enum store_fault *ret_fault, struct err *e);
/* How many changes of volumes, snapshots, images and pools the database had lost, which its copy had. They
 * are back; what it may have lost of sandboxes, events and keys is not. 0: none. A kill between the two
 * commits of a change leaves 1. */
uint64_t store_was_behind(const struct store *s);
/* Waits for what was submitted, without calling back. NULL is fine. */
void store_close(struct store *s);
DEFINE_AUTO(struct store *, store_close)

/* ---- reading, between open and start ---- */

struct store_event {
	const char *sandbox_id;
	int64_t at_us;
	const char *scope, *type, *message;
};

struct store_key {
	struct str key;                  /* a digest, in hex */
	unsigned char body[SHA256_SIZE]; /* of the request that it came with */
	const char *sandbox_id;
	int64_t expires_us;
};

struct store_reader { /* each returns 0, or -1 to end it */
	/* before all sandboxes; or NULL */
	int (*volume)(const struct volume_row *row, void *arg, struct err *e);
	int (*sandbox)(const struct sandbox_row *row, void *arg, struct err *e);
	/* oldest first, after its sandbox */
	int (*event)(const struct store_event *event, void *arg, struct err *e);
	int (*key)(const struct store_key *key, void *arg, struct err *e);
	/* The pool that a sandbox was made for, after the sandbox; or NULL. */
	int (*member)(const char *sandbox_id, const char *pool_id, bool is_idle, void *arg, struct err *e);
};
int store_load(struct store *s, const struct store_reader *r, void *arg, enum store_fault *ret_fault,
	       struct err *e);

typedef int store_snapshot_fn(const struct snapshot_row *row, void *arg, struct err *e);
int store_load_snapshots(struct store *s, store_snapshot_fn *fn, void *arg, enum store_fault *ret_fault,
			 struct err *e);
/* An image that is present: what its registry said about it. NAME is whole, as reference_write() writes
 * it. */
struct store_image {
	const char *name, *os, *arch;
	struct digest digest; /* of the manifest */
	struct str manifest, config;
	bool is_private; /* used only by callers that the registry accepts (I5) */
	bool is_kept;    /* for those who stand on it alone: it goes with the last of them */
	int64_t pulled_us;
};

struct store_image_reader { /* each returns 0, or -1 to end it */
	int (*image)(const struct store_image *image, void *arg, struct err *e);
	/* that the runtime has */
	int (*layer)(const unsigned char name[DIGEST_NAME_SIZE], void *arg, struct err *e);
};
int store_load_images(struct store *s, const struct store_image_reader *r, void *arg,
		      enum store_fault *ret_fault, struct err *e);

/* ---- pools ---- */

#define STORE_POOL_NAME_MAX 253
#define STORE_POOL_SIZE_MAX 65536 /* of each number */

struct pool_capacity {
	int64_t buffer_min, buffer_max; /* idle ones */
	int64_t pool_min, pool_max;     /* idle and handed out */
};

struct store_pool {
	/* of its own: a name may be used again, what was made for its last bearer may not */
	const char *id;
	const char *name;
	/* a JSON document, with values of variables: nobody reads it but whoever makes sandboxes of it */
	struct str template;
	struct pool_capacity capacity;
	int64_t created_us;
};

bool pool_name_valid(struct str name); /* ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$ */
/* What is wrong with them ("bufferMin: must not be above bufferMax"), or NULL. */
const char *pool_capacity_check(const struct pool_capacity *c);

typedef int store_pool_fn(const struct store_pool *pool, void *arg, struct err *e);
int store_load_pools(struct store *s, store_pool_fn *fn, void *arg, enum store_fault *ret_fault,
		     struct err *e);

/* A small value of the store's own; *ret_n is 0 when there is none. */
#define STORE_META_MAX 256
int store_meta_get(struct store *s, const char *name, char out[STORE_META_MAX], size_t *ret_n, struct err *e);

/* What tokens are derived from. It stands in a file, in the database and in its copy, each time with a
 * checksum. */
#define STORE_SECRET_SIZE SHA256_SIZE
int store_secret(struct store *s, unsigned char out[STORE_SECRET_SIZE], struct err *e);

/* ---- a damaged one ---- */

struct store_recover_spec {
	const char *dir;
	const struct runtime_box *boxes; /* everything that the runtime has */
	size_t n_boxes;
	const char *image; /* of what is rebuilt: nobody remembers */
	const char *boot_id;
	int64_t now_us;
};

struct store_recovered {
	size_t read;     /* records that could be read */
	size_t bad;      /* that could be, but make no sense */
	size_t rebuilt;  /* of sandboxes that run without one */
	size_t from_copy;   /* tables that the copy of the database had whole */
	bool is_partial;    /* there was more, or may have been */
	bool is_secret_new; /* no sandbox that runs can be reached any more */
	char aside[48];  /* where the old one is; empty: there was none */
};

/* Moves the database aside and makes a new one from what can be read and from what runs; ends no sandbox. May
 * be repeated after it was cut off. */
int store_recover(const struct store_recover_spec *spec, struct store_recovered *ret,
		  enum store_fault *ret_fault, struct err *e);

/* ---- writing, after start ---- */

int store_start(struct store *s, struct loop *l, struct err *e);

/* A transaction is built, then submitted; everything is copied. What does not fit shows when it is
 * submitted. */
/* NULL: out of memory; every function below takes that, the last one fails */
struct store_tx *store_tx_new(void);
void store_tx_free(struct store_tx *tx);
DEFINE_AUTO(struct store_tx *, store_tx_free)

void store_tx_insert(struct store_tx *tx, const struct sandbox_row *row); /* with its place in a pool */
/* state, reason, message, changed_us */
void store_tx_state(struct store_tx *tx, const struct sandbox_row *row);
void store_tx_spec(struct store_tx *tx, const struct sandbox_row *row);  /* what it is made from */
void store_tx_expiry(struct store_tx *tx, const char *id, int64_t expires_us, uint64_t deadline_ms);
void store_tx_metadata(struct store_tx *tx, const char *id, const struct string_map *metadata);
void store_tx_delete(struct store_tx *tx, const char *id); /* with its events and its intent */
/* INTENT_NONE: it is done */
void store_tx_intent(struct store_tx *tx, const char *id, enum sandbox_intent intent);
void store_tx_event(struct store_tx *tx, const struct store_event *event);
void store_tx_key(struct store_tx *tx, const struct store_key *key);
void store_tx_forget_key(struct store_tx *tx, struct str key);
/* whole, whether there is one or not */
void store_tx_volume(struct store_tx *tx, const struct volume_row *row);
void store_tx_forget_volume(struct store_tx *tx, const char *id);
void store_tx_meta(struct store_tx *tx, const char *name, struct str value);
/* Everything of ROW but its environment and its id, for its owner: from here on it is no longer idle. */
void store_tx_hand_out(struct store_tx *tx, const struct sandbox_row *row);
/* All of ROW, its revision included: of a record that was read from the runtime's copy. Each of the four
 * changes above raises the revision that the store has. */
void store_tx_restore(struct store_tx *tx, const struct sandbox_row *row);
/* These three survive a loss of power, too. What was made for a deleted pool is known by the pool's id, which
 * is nobody's. */
void store_tx_pool(struct store_tx *tx, const struct store_pool *pool);
void store_tx_pool_capacity(struct store_tx *tx, const char *pool_id, const struct pool_capacity *capacity);
void store_tx_pool_delete(struct store_tx *tx, const char *pool_id);

/* replaces one of the same name and platform */
void store_tx_image(struct store_tx *tx, const struct store_image *image);
void store_tx_forget_image(struct store_tx *tx, const char *name, const char *os, const char *arch);
/* the runtime has it, or not */
void store_tx_layer(struct store_tx *tx, const unsigned char name[DIGEST_NAME_SIZE], bool is_given);
void store_tx_durable(struct store_tx *tx); /* it is to survive power loss, too (S1) */

/* A transaction with one of these survives a loss of power once it is committed (S1): the others only a crash
 * of ours. */
void store_tx_snapshot(struct store_tx *tx, const struct snapshot_row *row);
/* and what it is known of its source by then */
void store_tx_snapshot_state(struct store_tx *tx, const struct snapshot_row *row);
void store_tx_snapshot_delete(struct store_tx *tx, const char *id);

/* A start after a recovery that could not read everything finds this under the name of a small value: what no
 * record knows of is not removed then, since the record may be what is missing. */
#define STORE_KEEP_LAYERS "keep_layers"

/* E is NULL once it is committed. ERR_LIMIT: the disk is full; ERR_UNAVAILABLE: anything else. */
typedef void store_done_fn(const struct err *e, void *arg);

/* Takes TX, whatever comes of it. FN (or NULL) is called from the loop, once, if this returns 0. */
int store_submit(struct store *s, struct store_tx *tx, store_done_fn *fn, void *arg, struct err *e);
