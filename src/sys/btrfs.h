// SPDX-License-Identifier: Apache-2.0
/* sys/btrfs.h - subvolumes of a btrfs and how much each may hold.
 *
 *     btrfs_open(&b, dir, e);                                 any directory of it
 *     btrfs_subvolume_make(dir, "b17", 10 << 30, false, e);          with its limit, in one step
 *     btrfs_limit(fd, 64 << 20, e);                           of the subvolume that FD is in
 *     btrfs_subvolume_remove(dir, "b17", e);                  returns before its blocks are free
 *
 * A limit counts everything that the subvolume has on the disk, names and inodes included, so it bounds their
 * number too: an empty file takes some 360 bytes. Writing beyond it is EDQUOT. Simple quotas (Linux 6.7)
 * charge a block to the subvolume that wrote it first, full ones to everybody who shares it; without shared
 * blocks both say the same. Everything here needs root. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define BTRFS_ID_TEXT_SIZE 40 /* of a file system: a UUID with its NUL */

enum btrfs_quota { BTRFS_QUOTA_OFF, BTRFS_QUOTA_SIMPLE, BTRFS_QUOTA_FULL };

struct btrfs {
	int fd; /* borrowed */
	char id[BTRFS_ID_TEXT_SIZE];
};

/* ERR_UNAVAILABLE when FD is on another file system. */
int btrfs_open(struct btrfs *ret, int fd, struct err *e);

/* ---- quotas ---- */

int btrfs_quota_read(const struct btrfs *b, enum btrfs_quota *ret, bool *ret_is_stale, struct err *e);
/* Simple ones where the kernel knows them and full ones otherwise. What is there already when simple ones are
 * enabled is charged to nobody; full ones count it, for which is waited. */
int btrfs_quota_enable(const struct btrfs *b, struct err *e);
int btrfs_quota_rescan(const struct btrfs *b, struct err *e); /* full ones count anew; waits */

/* ---- subvolumes ---- */

/* NAME is one component. IS_IN_TOTAL: what it holds counts against the limit of all, which there must be. */
int btrfs_subvolume_make(int dir, const char *name, uint64_t limit_bytes, bool is_in_total, struct err *e);
/* ERR_NOT_FOUND: there is none. ERR_INVALID: it is something else. ERR_CONFLICT: it has subvolumes of its
 * own. */
int btrfs_subvolume_remove(int dir, const char *name, struct err *e);
/* All subvolumes within the one that FD is in, at any depth, read-only ones too. Somebody hostile may have
 * made them; who still makes some is for the caller to keep away. */
int btrfs_nested_remove(const struct btrfs *b, int fd, struct err *e);
/* NAME in DIR becomes what the subvolume SOURCE is now, read-only, all at once and on the disk. What SOURCE
 * has not written back yet is written back first, which is most of the time it takes. It has a quota of its
 * own, without a limit. */
int btrfs_snapshot_make(int dir, const char *name, int source, struct err *e);
int btrfs_set_writable(int subvolume, bool writable, struct err *e);
/* Of the one that FD is in: never given to another. */
int btrfs_subvolume_id(int fd, uint64_t *ret, struct err *e);

int btrfs_limit(int fd, uint64_t limit_bytes, struct err *e);
/* What counts against the limit, with what is still to be written. */
int btrfs_usage(const struct btrfs *b, uint64_t subvolume, uint64_t *ret_bytes, struct err *e);

/* Older kernels keep the quota of a subvolume that is gone, and all of them keep it where blocks of it were
 * shared. Removes one, or all of these up to number LAST; one of a subvolume that the kernel is still taking
 * apart stays for the next time (0, not 1). The latter is not for a file system that we share with others. A
 * subvolume that is being made has its quota before it is there itself: LAST must have been a subvolume
 * before any that may be in the making now. */
int btrfs_quota_remove(const struct btrfs *b, uint64_t subvolume, struct err *e);
int btrfs_quota_sweep(const struct btrfs *b, uint64_t last, size_t *ret_removed, struct err *e);

/* ---- all together ----
 *
 * One quota that the others are part of, for a file system of our own. A limit that is less than what is
 * there already lets nobody write anything more; removing goes on. */

struct btrfs_total {
	uint64_t bytes;     /* that subvolumes hold */
	uint64_t unwritten; /* that they have been promised besides, and that may not be on the device yet */
};

/* Every subvolume that there is becomes part of it, but for BUT (0: none). Full quotas may have to be counted
 * anew then: see btrfs_quota_read(). */
int btrfs_total_make(const struct btrfs *b, uint64_t but, struct err *e);
int btrfs_total_limit(const struct btrfs *b, uint64_t limit_bytes, struct err *e);
int btrfs_total_usage(const struct btrfs *b, struct btrfs_total *ret, struct err *e);

/* ---- size ---- */

/* To all of its one device. */
int btrfs_grow(const struct btrfs *b, uint64_t device_bytes, struct err *e);

/* ---- commits ---- */

/* Waits for one, and has the kernel take apart what was removed. By itself it does the latter once in half a minute, and a file
 * system that was full stays so for that long: parts for data that nobody has any more are no room for trees before. */
int btrfs_sync(const struct btrfs *b, struct err *e);

/* ---- parts of the device ---- */

struct btrfs_place {
	uint64_t at, bytes; /* on the device */
	uint64_t address;   /* in the file system */
	bool is_data;       /* and not what tells where data is */
};

/* The first part that is in use, from FROM on: 1, 0 none, -1. */
int btrfs_chunk_next(const struct btrfs *b, uint64_t from, struct btrfs_place *ret, struct err *e);
/* of all parts that are not for data */
int btrfs_trees_size(const struct btrfs *b, uint64_t *ret, struct err *e);
void btrfs_trees_step(const struct btrfs *b); /* those grow by as little as the kernel can be told to */
/* Discards what is free in it, and what of the device is no part of anything. */
int btrfs_trim(const struct btrfs *b, const struct btrfs_place *p, struct err *e);
