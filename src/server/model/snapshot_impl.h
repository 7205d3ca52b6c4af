// SPDX-License-Identifier: Apache-2.0
/* server/model/snapshot_impl.h - what the snapshot*.c files share. Nothing else includes it. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/map.h"
#include "base/random.h"
#include "net/loop.h"
#include "server/model/snapshot.h"
#include "server/store/store.h"

#define ITEM_ARENA_MAX ((size_t)64 * 1024 + 3 * RUNTIME_POLICY_MAX) /* a policy may be read once more */

struct item { /* a snapshot, and what only the model knows of it */
	struct snapshot pub;
	struct arena arena;
	char reason[ROW_REASON_MAX + 1], message[ROW_MESSAGE_MAX + 1];
	snapshot_fn *fn; /* who waits, or NULL */
	void *arg;
	bool is_removing; /* its record is about to go */
	bool is_dirty, is_saving; /* its state, as with sandboxes */
	bool is_record_sent, is_record_due; /* the copy of its record: on its way, to be tried again */
};

struct snapshots {
	struct snapshots_spec spec;
	struct sandboxes *sandboxes; /* NULL: before the recovery and after the last turn */
	struct map by_id;  /* of struct item */
	struct snapshot *newest, *oldest;
	struct snapshot_pin *pins;
	struct random_pool random;
	struct timer flush, again;
	bool is_new;        /* so is the database */
	bool keeps_unknown; /* what has no record is left alone */
	recovered_fn *recovered;
	void *recovered_arg;
};

static inline struct item *item_of(struct snapshot *sn)
{
	return container_of(sn, struct item, pub);
}

/* snapshot.c */
void snapshot_set_state(struct item *it, enum snapshot_state state, const char *reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void snapshot_save(struct item *it); /* its state, without anybody waiting for it */
void snapshot_tell(struct item *it, struct snapshot *sn, const struct fault *f); /* who waits */
void snapshot_drop(struct item *it); /* frees it */
int snapshot_adopt(struct snapshots *s, const struct snapshot_row *row, struct err *e); /* whose record was lost */

/* snapshot_record.c */
void snapshot_record_send(struct item *it); /* if it is Ready */

/* snapshot_remove.c */
void snapshots_settle(struct snapshots *s, const struct runtime_snapshots *found);

/* snapshot_references.c */
struct buf;
int snapshot_find_reference(const struct snapshots *s, const char *id, const struct sandbox *sb, struct buf *ret, struct fault *f);
bool snapshot_has_sandbox(const struct snapshot *sn);
void reference_let_go(const struct snapshots *s, const char *reference); /* nobody refers to it any more */
void snapshots_ask(void *arg);
