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

/* A layer that the runtime has, or may have. */
struct layer {
	struct snapshots *set;
	char name[RUNTIME_LAYER_LEN + 1];
	bool is_marked, is_going;
	bool is_stranger; /* it was there at the start, without a record, and is left alone */
};

/* A list of layers while the copies of records are read that lie beside those that no snapshot has. */
struct found_layer {
	char name[RUNTIME_LAYER_LEN + 1];
	bool has_record;
	bool is_unknown; /* it has one, but no snapshot has it */
};
struct adoption {
	struct snapshots *set;
	void (*fn)(struct adoption *);
	bool has_failed; /* the runtime went away meanwhile */
	size_t next, n;
	struct found_layer at[];
};

struct snapshots {
	struct snapshots_spec spec;
	struct sandboxes *sandboxes; /* NULL: before the recovery and after the last turn */
	struct map by_id;  /* of struct item */
	struct snapshot *newest, *oldest;
	struct map layers; /* of struct layer, by name */
	struct layer_pin *pins;
	struct adoption *adoption;
	struct random_pool random;
	struct timer flush, sweep, again, look;
	uint64_t look_ms;   /* the pause before the next look */
	bool is_sweep_due;  /* soon */
	bool is_new;        /* so is the database */
	bool keeps_unknown; /* layers without a record are left alone */
	recovered_fn *recovered;
	void *recovered_arg;
};

static inline struct item *item_of(struct snapshot *sn)
{
	return container_of(sn, struct item, pub);
}

/* snapshot.c */
void snapshots_settle(struct snapshots *s, const struct map *found); /* FOUND: struct found_layer, by name */
int snapshot_adopt(struct snapshots *s, const struct snapshot_row *row, struct err *e);

/* snapshot_record.c */
void snapshot_record_send(struct item *it); /* if it is Ready */
/* Afterwards what of LAYERS had a copy of its record has a snapshot, or is a stranger; then FN is called, perhaps at once. */
int adoption_begin(struct snapshots *s, const struct runtime_snapshot_found *layers, size_t n, void (*fn)(struct adoption *), struct err *e);
void adoption_free(struct snapshots *s);

/* snapshot_layers.c */
void layer_of(const char *id, char out[RUNTIME_LAYER_LEN + 1]); /* the layer that a snapshot of this id makes */
int layer_add(struct snapshots *s, const char *name, struct err *e);
bool layer_has_sandbox(const struct snapshots *s, const char *name);
void layers_sweep(void *arg);
void layers_ask(void *arg);
void layers_look(void *arg);
void layers_free(struct snapshots *s);
