// SPDX-License-Identifier: Apache-2.0
/* box/store.h - the disks of boxes and the layers below them, and the limits of disks (L3).
 *
 * A disk is a folder with the writable layers of one box. No other process writes there, so a box with a full
 * disk is still logged, recorded, frozen and removed. There are two drivers:
 *
 *     btrfs      a subvolume per disk, with a quota in bytes. Names and inodes count as bytes, which bounds their number:
 *                some 2,900 empty files for each MiB. The file system is that of the state directory, if it is a btrfs
 *                with quotas, and otherwise one in a sparse file, "disk.img", mounted at "store".
 *     directory  plain folders without a limit: only for operators who ask for it.
 *
 * The mount is in the mount namespace of the caller, who therefore has one of its own. It lives as long as it
 * is used: a box that outlives its maker keeps the file system and its loop device; the next maker finds
 * both; they end with the last user.
 *
 * The image grows with its use up to its size. If the file system below it is full before, writes of
 * sandboxes within their limits would fail with EIO, and btrfs would become read-only for all of them. So the
 * default size leaves a fifth of the free space, and box/store_guard.h handles the rest. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/own.h"
#include "sys/btrfs.h"

struct err;
struct box_store_ops;

#define STORE_PATH_MAX 1024
#define STORE_SIZE_MIN (UINT64_C(256) << 20)
#define STORE_SIZE_MAX (UINT64_C(1) << 50)
#define STORE_LIMIT_MIN (UINT64_C(1) << 20) /* of a disk */
#define STORE_LIMIT_MAX STORE_SIZE_MAX

struct box_store_spec {
	const char *state_dir;
	/* of a new image; one that is smaller grows, none shrinks; 0: four fifths of what is free */
	uint64_t size_bytes;
	uint64_t reserve_bytes; /* see sys/room.h */
	bool is_unlimited;     /* the directory driver */
};

struct box_store {
	const struct box_store_ops *ops;
	char layers_path[STORE_PATH_MAX]; /* a layer per name */
	char disks_path[STORE_PATH_MAX];  /* a disk per name */
	int disks;
	int state; /* the directory, below everything */
	uint64_t reserve_bytes;
	/* btrfs */
	struct btrfs fs;
	bool is_ours; /* no other program uses the file system */
	char mounted_at[STORE_PATH_MAX];
	int image; /* -1: there is none */
};

/* ERR_UNAVAILABLE, with what is missing, where no limit can be enforced. */
int box_store_open(struct box_store *ret, const struct box_store_spec *spec, struct err *e);
void box_store_done(struct box_store *s); /* detaches the mount: others keep theirs */
DEFINE_AUTO_DONE(struct box_store, box_store_done)
#define BOX_STORE_INIT ((struct box_store){ .disks = -1, .state = -1, .fs = { .fd = -1 }, .image = -1 })

const char *box_store_driver(const struct box_store *s); /* "btrfs" */
bool box_store_has_limits(const struct box_store *s);

/* L7: before anything is begun that takes room. ERR_LIMIT, and ENOSPC in `sys`, when less than the reserve of
 * the state directory's file system is left, or of the store: the last of both is for what is there
 * already. */
int box_store_check_room(const struct box_store *s, struct err *e);

/* Empty, of mode 0700, and owned by root. Returns its descriptor. */
int box_disk_make(const struct box_store *s, const char *name, uint64_t limit_bytes, struct err *e);
/* ERR_UNAVAILABLE, and EDQUOT in `sys`, when the driver has none (which nothing else is told by). */
int box_disk_limit(const struct box_store *s, const char *name, uint64_t limit_bytes, struct err *e);
/* 0: not known */
int box_disk_usage(const struct box_store *s, const char *name, uint64_t *ret_bytes, struct err *e);
/* With all that is in it, at once: what takes time happens in the kernel, later. Not there is removed
 * already. */
int box_disk_remove(const struct box_store *s, const char *name, struct err *e);

/* ---- layers that are disks as they once were ----
 *
 * NAME is a disk without writers, LAYER a new name of layers/. With btrfs the clone is a snapshot: it takes
 * no longer for a large disk than for a small one, once that is written back. Plain folders are copied, the
 * writable layers of them, sharing content where the file system can. */

/* Writes back what this disk still has to, and no other's. May be left out. */
int box_disk_flush(const struct box_store *s, const char *name, struct err *e);
/* ERR_LIMIT when the store is almost full: boxes need what is left. */
int box_disk_clone(const struct box_store *s, const char *name, const char *layer, struct err *e);
/* The disk may be written to again; until this has succeeded there is no layer. It survives a loss of power
 * then. */
int box_disk_clone_finish(const struct box_store *s, const char *layer, struct err *e);
/* The ids of the box that the disk was of, as they start on the disk. ERR_NOT_FOUND: there is no such
 * layer. */
int box_layer_id_base(const struct box_store *s, const char *layer, uint64_t *ret, struct err *e);
/* Brings a layer of a box with the host's /usr that an earlier version made up to date (box/disk.h). */
int box_layer_join(const struct box_store *s, const char *layer, struct err *e);
/* not there is removed already */
int box_layer_remove(const struct box_store *s, const char *layer, struct err *e);
/* Removes what clones that were cut off have left, if it was last changed before BEFORE_US (time of day;
 * STORE_ALL: any). */
#define STORE_ALL INT64_MAX
int box_layers_sweep(const struct box_store *s, int64_t before_us, struct err *e);
bool box_store_is_older(int dir, const char *name, int64_t before_us); /* false also for what is not there */
