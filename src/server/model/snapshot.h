// SPDX-License-Identifier: Apache-2.0
/* server/model/snapshot.h - the snapshots of this server: what clients know of them, and the references of the runtime behind them.
 *
 * A record has the runtime's reference before the snapshot is taken. What that is made of, and when it may go, is the runtime's
 * business: it asks which references there are (snapshots_each_reference()), of snapshots that have not failed, of sandboxes and
 * of forks in progress.
 *
 * Memory is what is read, the store what survives; callbacks come as those of sandbox.h do. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "base/str.h"
#include "server/model/sandbox.h"
#include "server/store/snapshot_row.h"

struct err;
struct loop;
struct snapshots;
struct store;
enum store_fault;

#define SNAPSHOTS_MAX 4096

struct snapshots_spec {
	struct loop *loop;
	struct runtime *runtime; /* neither is owned */
	struct store *store;     /* opened, not started */
	wall_fn *wall_us;
	void *wall_arg;
};

/* To be read only. */
struct snapshot {
	struct snapshots *set;
	struct snapshot_row row;
	struct snapshot *older, *newer; /* by creation time, then id */
};

struct snapshots *snapshots_new(const struct snapshots_spec *spec, enum store_fault *ret_fault, struct err *e);
void snapshots_free(struct snapshots *s); /* after the sandboxes; NULL is fine */
DEFINE_AUTO(struct snapshots *, snapshots_free)

/* Compares the records with what the runtime has. */
void snapshots_recover(struct snapshots *s, struct sandboxes *sandboxes, recovered_fn *fn, void *arg);
void snapshots_stop(struct snapshots *s); /* before the sandboxes go: whoever waits is told */

struct snapshot *snapshots_find(const struct snapshots *s, struct str id); /* NULL: no such id, valid or not */
struct snapshot *snapshots_newest(const struct snapshots *s);

/* Whether one stands on the image with this manifest. */
bool snapshots_have_image(const struct snapshots *s, const char *digest);

/* SN is NULL on failure, and when it has been removed. */
typedef void snapshot_fn(struct snapshot *sn, const struct fault *f, void *arg);

/* Of a sandbox that runs or is paused; NAME may be NULL. 0: FN will be told once it is recorded, as Creating, and the rest
 * goes on by itself. -1: F. */
int snapshots_take(struct snapshots *s, struct sandbox *sb, const char *name, snapshot_fn *fn, void *arg, struct fault *f);
/* 409 while it is being taken, or a sandbox stands on it; in that case it can be asked for again. */
int snapshot_remove(struct snapshot *sn, snapshot_fn *fn, void *arg, struct fault *f);

/* What a sandbox that is made from it stands on, or F: it is not ready. */
int snapshot_check_use(const struct snapshot *sn, struct fault *f);

/* Of a snapshot that is there already. FN is told once it is recorded, as Ready. */
struct snapshot_pin;
int snapshots_keep(struct snapshots *s, const struct sandbox *source, const char *name, const struct snapshot_pin *pin, snapshot_fn *fn,
		   void *arg, struct fault *f);

/* Of an image that came with an archive, and nothing above it: it is of no sandbox, and has its own id in the place of one's. FN is
 * told once it is recorded, as Ready. */
int snapshots_import(struct snapshots *s, const char *name, const char *image, const char *digest, snapshot_fn *fn, void *arg,
		     struct fault *f);

/* ---- without a record: of forks ---- */

struct snapshot_pin {
	struct snapshot_pin *prev, *next;
	struct snapshots *set;
	char id[UUID_LEN + 1]; /* of a snapshot that it might become */
	char *reference;
};

/* A new one, of SB. It is not collected before the pin is let go, though nobody stands on it yet. -1: F. */
int snapshot_pin(struct snapshots *s, const struct sandbox *sb, struct snapshot_pin *p, struct fault *f);
int snapshot_repin(struct snapshot_pin *p, const struct sandbox *sb, struct fault *f); /* what SB stands on may have changed since */
void snapshot_unpin(struct snapshot_pin *p);

/* ---- what the runtime asks, as struct runtime_users has it ---- */

void snapshots_each_reference(const struct snapshots *s, runtime_reference_fn *fn, void *arg);
void snapshots_each_recorded(const struct snapshots *s, runtime_reference_fn *fn, void *arg);
int snapshots_adopt(struct snapshots *s, const char *reference, struct str record, struct err *e);
