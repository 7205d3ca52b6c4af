// SPDX-License-Identifier: Apache-2.0
/* server/model/volumes.h - the named volumes of this server, and who has them.
 *
 * A volume begins with a create that asks for its name. It is recorded before it is made, and has a name for good with the
 * first create that is acknowledged; a create that fails takes back what it has made, unless somebody else has it by then.
 * It ends by its deletion, or with the sandbox that made it if that was asked for, or, while others have it, with the last of
 * those. Its removal is recorded before it is begun, and tried until it works, over restarts; its name is free at once, and
 * the next volume of that name is another one.
 *
 * What a sandbox has stands in its record; here it is only counted. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/uuid.h"
#include "net/loop.h"
#include "server/model/sandbox.h"
#include "server/store/row_volume.h"

struct arena;
struct err;
struct random_pool;
struct store;
struct store_tx;
struct volumes;

#define VOLUMES_MAX 16384
#define VOLUME_WAITERS_MAX 64 /* deletes of one that are answered together */

struct volume_waiter;

struct volume { /* to be read only */
	struct volumes *set;
	struct volume_row row;
	char name[VOLUME_NAME_MAX + 1], id[ID_MAX + 1];
	unsigned users; /* sandboxes, in any state */
	bool is_busy;   /* its removal is in progress */
	unsigned retry_ms;
	struct timer retry;
	struct volume_waiter *waiters;
	size_t n_waiters;
};

struct volumes_spec {
	struct loop *loop;
	struct runtime *runtime;
	struct store *store;
	struct random_pool *random;
	wall_fn *wall_us;
	void *wall_arg;
};

struct volumes *volumes_new(const struct volumes_spec *spec, struct err *e);
void volumes_free(struct volumes *s); /* NULL is fine; whoever waits is told that the server stops */

/* ---- after a start: first the records, then who has them, then volumes_recover() ---- */

int volumes_load(struct volumes *s, const struct volume_row *row, struct err *e);
/* Goes on with removals that were cut off; what the runtime has and nobody knows becomes a volume "lost-ID". */
#define VOLUME_LOST "lost-"
void volumes_recover(struct volumes *s);

/* ---- reading ---- */

struct volume *volumes_find(const struct volumes *s, struct str name); /* not one that is being removed */
struct volume *volumes_find_going(const struct volumes *s, struct str name); /* one that is */
size_t volumes_count(const struct volumes *s); /* of both kinds */
struct volume *volumes_next(const struct volumes *s, size_t *i); /* in no order; NULL at the end */

/* ---- what sandboxes do ---- */

/* Whether a create may have it. F: 400 when it is not there and is not to be made. */
int volumes_check(const struct volumes *s, const char *name, bool is_to_be_made, struct fault *f);

/* One more sandbox has all named ones of ROW, of which those that are missing begin. They get their ids and, if they begin
 * here, `is_made`; the ids live as long as the volumes. SIZES has a limit for each volume of ROW. On failure nothing has
 * changed. */
int volumes_claim(struct volumes *s, struct row_volume *row, size_t n, const uint64_t *sizes, struct fault *f);
void volumes_count_user(struct volumes *s, const struct row_volume *row, size_t n); /* of a sandbox that was loaded */

/* Into the transaction of a create: before anything is made, and when all is. */
void volumes_record(struct volumes *s, const struct row_volume *row, size_t n, bool is_ready, struct store_tx *tx);
void volumes_ready(struct volumes *s, const struct row_volume *row, size_t n); /* that is committed */
/* What is still to be made for it: the first from *I on, or NULL. */
const struct volume *volumes_unmade(const struct volumes *s, const struct row_volume *row, size_t n, size_t *i);

/* Into the transaction (or NULL) that ends a sandbox, as often as that is tried; and once it is committed. */
void volumes_release(struct volumes *s, const struct row_volume *row, size_t n, struct store_tx *tx);
void volumes_released(struct volumes *s, const struct row_volume *row, size_t n);

/* ---- folders of the host ---- */

/* Finds `path` of V, which comes from a record: the list may have changed since. */
void volume_find_place(struct row_volume *v, const struct string_list *listed, struct arena *a);

/* ---- deleting ---- */

typedef void volume_fn(const struct fault *f, void *arg); /* F is NULL when it is gone */
/* 0: FN will be told, once, from the loop. -1: F. */
int volume_delete(struct volume *v, volume_fn *fn, void *arg, struct fault *f);
