// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/btrfs_tree.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/kill_point.h"
#include "box/store_impl.h"
#include "sys/tree.h"

#include "base/banned.h"

#define SWEEP_EVERY 64 /* disks: a look at all quotas takes as long as there are many */

/* A subvolume of its own that does not count against the limit of all. What is done to subvolumes in it, and to limits by its
 * descriptor, reserves room for trees at its expense: all of that goes on when nothing is left for sandboxes. */
int box_store_btrfs_make_folder(int root, const char *name, struct err *e)
{
	if (faccessat(root, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && btrfs_subvolume_make(root, name, INT64_MAX, false, e) < 0)
		return -1;
	return fchmodat(root, name, 0700, 0) < 0 ? err_sys(e, errno, "close '%s' to others", name) : 0;
}

/* In stores of earlier versions the folder is part of the root, and counts. */
static uint64_t outside_of_total(const struct box_store *s)
{
	uint64_t id;

	return btrfs_subvolume_id(s->disks, &id, &(struct err){ 0 }) == 0 && id != BTRFS_FS_TREE_OBJECTID ? id : 0;
}

/* Quotas that do not count any more limit nothing. Those of others are not ours to count anew. */
int box_store_btrfs_prepare(struct box_store *s, struct err *e)
{
	enum btrfs_quota quota;
	bool is_stale;
	size_t removed;

	if (btrfs_quota_read(&s->fs, &quota, &is_stale, e) < 0)
		return -1;
	if (quota == BTRFS_QUOTA_OFF && (btrfs_quota_enable(&s->fs, e) < 0 || btrfs_quota_read(&s->fs, &quota, &is_stale, e) < 0))
		return -1;
	if (s->is_ours && (btrfs_total_make(&s->fs, outside_of_total(s), e) < 0 || btrfs_quota_read(&s->fs, &quota, &is_stale, e) < 0))
		return -1;
	if (is_stale && s->is_ours && quota == BTRFS_QUOTA_FULL &&
	    (btrfs_quota_rescan(&s->fs, e) < 0 || btrfs_quota_read(&s->fs, &quota, &is_stale, e) < 0))
		return -1;
	if (quota == BTRFS_QUOTA_OFF || is_stale)
		return err_set(e, ERR_UNAVAILABLE, "the quotas of btrfs '%s' do not count: see 'btrfs quota rescan'", s->fs.id);
	return s->is_ours ? btrfs_quota_sweep(&s->fs, UINT64_MAX, &removed, e) : 0; /* nobody makes any yet */
}

static int open_disk(const struct box_store *s, const char *name, struct err *e)
{
	int fd = openat(s->disks, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, errno, "open disk '%s'", name) : fd;
}

/* The limit is set once more, which fails where somebody has disabled quotas meanwhile: the first time does not. */
static int make(const struct box_store *s, const char *name, uint64_t limit_bytes, struct err *e)
{
	AUTO_FD disk = -1;

	if (btrfs_subvolume_make(s->disks, name, limit_bytes, s->is_ours, e) < 0)
		return -1;
	disk = open_disk(s, name, e);
	if (disk < 0 || btrfs_limit(disk, limit_bytes, e) < 0)
		return -1;
	return fchmod(disk, 0700) < 0 ? err_sys(e, errno, "close disk '%s' to others", name) : 0;
}

static int limit(const struct box_store *s, const char *name, uint64_t limit_bytes, struct err *e)
{
	AUTO_FD disk = open_disk(s, name, e);

	return disk < 0 ? -1 : btrfs_limit(disk, limit_bytes, e);
}

static int usage(const struct box_store *s, const char *name, uint64_t *ret_bytes, struct err *e)
{
	AUTO_FD disk = open_disk(s, name, e);
	uint64_t id;

	if (disk < 0 || btrfs_subvolume_id(disk, &id, e) < 0)
		return -1;
	return btrfs_usage(&s->fs, id, ret_bytes, e);
}

/* Of a disk that is gone. In a file system of our own the kernel does it when it is done with the disk, and now and then,
 * told by the number, we look for those that it has left; the next start looks, too. */
static void remove_quota(const struct box_store *s, uint64_t id)
{
	struct err ignored;
	size_t removed;

	if (s->is_ours && id % SWEEP_EVERY == 0)
		(void)btrfs_quota_sweep(&s->fs, id, &removed, &ignored);
	else if (!s->is_ours && id != 0)
		(void)btrfs_quota_remove(&s->fs, id, &ignored);
}

static uint64_t id_of(int dir, const char *name)
{
	AUTO_FD disk = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t id;

	return disk >= 0 && btrfs_subvolume_id(disk, &id, &(struct err){ 0 }) == 0 ? id : 0;
}

/* The sandbox's filter lets it make no subvolumes (L6); but what is in a disk is never a reason for it to stay. */
static int remove_nested(const struct box_store *s, int dir, const char *name, struct err *e)
{
	AUTO_FD disk = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (disk < 0)
		return err_sys(e, errno, "open disk '%s'", name);
	return btrfs_nested_remove(&s->fs, disk, e) < 0 ? -1 : btrfs_subvolume_remove(dir, name, e);
}

/* What is no subvolume was not made by us, but has the name of something of ours. */
static int remove_from(const struct box_store *s, int dir, const char *name, struct err *e)
{
	uint64_t id = id_of(dir, name);
	struct err why = { 0 };
	int r = btrfs_subvolume_remove(dir, name, &why);

	if (r < 0 && why.code == ERR_NOT_FOUND)
		return 0;
	if (r < 0 && why.code == ERR_INVALID)
		return tree_remove(dir, name, e);
	if (r < 0 && why.sys == ENOTEMPTY)
		r = remove_nested(s, dir, name, &why);
	if (r < 0) {
		*e = why;
		return -1;
	}
	remove_quota(s, id);
	return 0;
}

static int remove_disk(const struct box_store *s, const char *name, struct err *e)
{
	return remove_from(s, s->disks, name, e);
}

/* A snapshot writes its source back before it is made, and nobody else's: one that is thrown away does it while the box
 * still runs, so that the next finds little left. */
static int flush(const struct box_store *s, int disk, int layers, const char *name, struct err *e)
{
	char part[64];

	(void)snprintf(part, sizeof(part), STORE_PART "%.48s", name); /* names of disks are short */
	if (remove_from(s, layers, part, e) < 0 || btrfs_snapshot_make(layers, part, disk, e) < 0)
		return -1;
	KILL_POINT("warden.snapshot.flushing");
	return remove_from(s, layers, part, e);
}

/* All of it at once, under its name: there is nothing to finish. */
static int clone_disk(const struct box_store *s, int disk, int layers, const char *layer, struct err *e)
{
	(void)s;
	return btrfs_snapshot_make(layers, layer, disk, e);
}

const struct box_store_ops box_store_btrfs_ops = {
	.name = "btrfs",
	.has_limits = true,
	.make = make,
	.limit = limit,
	.usage = usage,
	.remove = remove_disk,
	.flush = flush,
	.clone = clone_disk,
	.layer_set_writable = btrfs_set_writable,
	.layer_remove = remove_from,
};
