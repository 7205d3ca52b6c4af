// SPDX-License-Identifier: Apache-2.0
#include "sys/btrfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/str.h"
#include "sys/btrfs_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

#define ENABLE_SIMPLE 4 /* BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA, which older headers lack */
#define LEVEL_SHIFT 48  /* a quota's number is its level and, on level 0, that of its subvolume */
#define NAME_BYTES_MAX 255
#define DEVICE 1 /* of a file system that has one */
#define VALUE_MAX 64
#define TOTAL (UINT64_C(1) << LEVEL_SHIFT) /* what all others are part of */

int btrfs_open(struct btrfs *ret, int fd, struct err *e)
{
	struct btrfs_ioctl_fs_info_args info = { 0 };
	struct btrfs b = { .fd = fd };
	struct statfs st;
	size_t n = 0;

	if (fstatfs(fd, &st) < 0)
		return err_sys(e, errno, "look at a file system");
	if ((unsigned long)st.f_type != BTRFS_SUPER_MAGIC)
		return err_set(e, ERR_UNAVAILABLE, "the file system is no btrfs");
	if (ioctl(fd, BTRFS_IOC_FS_INFO, &info) < 0)
		return err_sys(e, errno, "ask for the id of a btrfs");
	for (size_t i = 0; i < BTRFS_FSID_SIZE; i++) {
		bool is_dashed = i == 4 || i == 6 || i == 8 || i == 10;

		n += (size_t)snprintf(b.id + n, sizeof(b.id) - n, is_dashed ? "-%02x" : "%02x", info.fsid[i]); /* 36 in all */
	}
	*ret = b;
	return 0;
}

/* ---- what the kernel tells in /sys ---- */

static int read_value(const struct btrfs *b, const char *file, struct buf *out, struct err *e)
{
	char path[128 + BTRFS_ID_TEXT_SIZE];

	(void)snprintf(path, sizeof(path), "/sys/fs/btrfs/%s/%s", b->id, file); /* names of ours are short */
	return fd_read_file(AT_FDCWD, path, VALUE_MAX, out, e);
}

static int read_number(const struct btrfs *b, const char *file, uint64_t *ret, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(VALUE_MAX);

	if (read_value(b, file, &text, e) < 0)
		return -1;
	if (!str_to_u64(str_trim(buf_str(&text)), 0, UINT64_MAX, ret))
		return err_set(e, ERR_IO, "'%s' of a btrfs is no number", file);
	return 0;
}

/* The folder is there only while quotas are enabled; "mode" came with the simple ones. */
int btrfs_quota_read(const struct btrfs *b, enum btrfs_quota *ret, bool *ret_is_stale, struct err *e)
{
	AUTO(buf_done) struct buf mode = BUF_INIT(VALUE_MAX);
	struct err why = { 0 };
	uint64_t stale;

	if (read_number(b, "qgroups/inconsistent", &stale, &why) < 0) {
		if (why.code != ERR_NOT_FOUND) {
			*e = why;
			return -1;
		}
		*ret = BTRFS_QUOTA_OFF;
		*ret_is_stale = false;
		return 0;
	}
	*ret = BTRFS_QUOTA_FULL;
	if (read_value(b, "qgroups/mode", &mode, &why) == 0 && str_is(str_trim(buf_str(&mode)), "squota"))
		*ret = BTRFS_QUOTA_SIMPLE;
	*ret_is_stale = stale != 0;
	return 0;
}

static int read_of(const struct btrfs *b, uint64_t quota, const char *what, uint64_t *ret, struct err *e)
{
	char file[64];

	(void)snprintf(file, sizeof(file), "qgroups/%llu_%llu/%s", (unsigned long long)(quota >> LEVEL_SHIFT),
		       (unsigned long long)(quota & ((UINT64_C(1) << LEVEL_SHIFT) - 1)), what);
	return read_number(b, file, ret, e);
}

int btrfs_usage(const struct btrfs *b, uint64_t subvolume, uint64_t *ret_bytes, struct err *e)
{
	uint64_t written, reserved;

	if (read_of(b, subvolume, "referenced", &written, e) < 0 || read_of(b, subvolume, "rsv_data", &reserved, e) < 0)
		return -1;
	*ret_bytes = written + reserved;
	return 0;
}

int btrfs_trees_size(const struct btrfs *b, uint64_t *ret, struct err *e)
{
	uint64_t trees, chunks;

	if (read_number(b, "allocation/metadata/disk_total", &trees, e) < 0 ||
	    read_number(b, "allocation/system/disk_total", &chunks, e) < 0)
		return -1;
	*ret = trees + chunks;
	return 0;
}

/* Linux 6.0 and later. */
void btrfs_trees_step(const struct btrfs *b)
{
	static const char least[] = "268435456"; /* that the kernel takes */
	char path[64 + BTRFS_ID_TEXT_SIZE];
	AUTO_FD fd = -1;

	(void)snprintf(path, sizeof(path), "/sys/fs/btrfs/%s/allocation/metadata/chunk_size", b->id);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	(void)!write(fd, least, sizeof(least) - 1); /* more is taken at a time then, which is all */
}

int btrfs_total_usage(const struct btrfs *b, struct btrfs_total *ret, struct err *e)
{
	uint64_t unwritten;

	if (read_of(b, TOTAL, "referenced", &ret->bytes, e) < 0 || read_of(b, TOTAL, "rsv_data", &ret->unwritten, e) < 0 ||
	    read_of(b, TOTAL, "rsv_meta_pertrans", &unwritten, e) < 0)
		return -1;
	ret->unwritten += unwritten;
	return read_of(b, TOTAL, "rsv_meta_prealloc", &unwritten, e) < 0 ? -1 : (ret->unwritten += unwritten, 0);
}

/* ---- quotas ---- */

int btrfs_quota_rescan(const struct btrfs *b, struct err *e)
{
	struct btrfs_ioctl_quota_rescan_args args = { 0 };

	if (ioctl(b->fd, BTRFS_IOC_QUOTA_RESCAN, &args) < 0 && errno != EINPROGRESS)
		return err_sys(e, errno, "count what subvolumes hold");
	if (ioctl(b->fd, BTRFS_IOC_QUOTA_RESCAN_WAIT) < 0)
		return err_sys(e, errno, "wait for the count of what subvolumes hold");
	return 0;
}

int btrfs_quota_enable(const struct btrfs *b, struct err *e)
{
	struct btrfs_ioctl_quota_ctl_args args = { .cmd = ENABLE_SIMPLE };

	if (ioctl(b->fd, BTRFS_IOC_QUOTA_CTL, &args) == 0)
		return 0;
	if (errno != EINVAL && errno != EOPNOTSUPP)
		return err_sys(e, errno, "enable simple quotas");
	args = (struct btrfs_ioctl_quota_ctl_args){ .cmd = BTRFS_QUOTA_CTL_ENABLE };
	if (ioctl(b->fd, BTRFS_IOC_QUOTA_CTL, &args) < 0)
		return err_sys(e, errno, "enable quotas");
	return btrfs_quota_rescan(b, e);
}

int btrfs_total_limit(const struct btrfs *b, uint64_t limit_bytes, struct err *e)
{
	struct btrfs_ioctl_qgroup_limit_args args = {
		.qgroupid = TOTAL, .lim = { .flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = limit_bytes },
	};

	return ioctl(b->fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? err_sys(e, errno, "limit all subvolumes") : 0;
}

int btrfs_limit(int fd, uint64_t limit_bytes, struct err *e)
{
	struct btrfs_ioctl_qgroup_limit_args args = {
		.lim = { .flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = limit_bytes },
	};

	return ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? err_sys(e, errno, "limit a subvolume") : 0;
}

/* ---- subvolumes ---- */

static int check_name(const char *name, struct err *e)
{
	size_t n = strlen(name);

	if (n == 0 || n > NAME_BYTES_MAX || strchr(name, '/'))
		return err_set(e, ERR_INVALID, "'%.64s' cannot be the name of a subvolume", name);
	return 0;
}

int btrfs_subvolume_make(int dir, const char *name, uint64_t limit_bytes, bool is_in_total, struct err *e)
{
	union {
		struct btrfs_qgroup_inherit quota;
		uint64_t room[sizeof(struct btrfs_qgroup_inherit) / sizeof(uint64_t) + 1];
	} u = { .quota = {
		.flags = BTRFS_QGROUP_INHERIT_SET_LIMITS, .num_qgroups = is_in_total,
		.lim = { .flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = limit_bytes },
	} };
	struct btrfs_ioctl_vol_args_v2 args = {
		.flags = BTRFS_SUBVOL_QGROUP_INHERIT, .size = sizeof(u.quota) + (is_in_total ? sizeof(uint64_t) : 0),
		.qgroup_inherit = &u.quota,
	};

	u.room[sizeof(u.quota) / sizeof(uint64_t)] = TOTAL; /* the first that it becomes part of */

	if (check_name(name, e) < 0)
		return -1;
	memcpy(args.name, name, strlen(name));
	return ioctl(dir, BTRFS_IOC_SUBVOL_CREATE_V2, &args) < 0 ? err_sys(e, errno, "make subvolume '%s'", name) : 0;
}

int btrfs_snapshot_make(int dir, const char *name, int source, struct err *e)
{
	struct btrfs_ioctl_vol_args_v2 args = { .fd = source, .flags = BTRFS_SUBVOL_RDONLY };

	if (check_name(name, e) < 0)
		return -1;
	memcpy(args.name, name, strlen(name));
	return ioctl(dir, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0 ? err_sys(e, errno, "make snapshot '%s'", name) : 0;
}

int btrfs_set_writable(int subvolume, bool writable, struct err *e)
{
	uint64_t flags = writable ? 0 : BTRFS_SUBVOL_RDONLY;

	return ioctl(subvolume, BTRFS_IOC_SUBVOL_SETFLAGS, &flags) < 0 ? err_sys(e, errno, "change who may write to a subvolume") : 0;
}

int btrfs_subvolume_remove(int dir, const char *name, struct err *e)
{
	struct btrfs_ioctl_vol_args args = { 0 };

	if (check_name(name, e) < 0)
		return -1;
	memcpy(args.name, name, strlen(name));
	return ioctl(dir, BTRFS_IOC_SNAP_DESTROY, &args) < 0 ? err_sys(e, errno, "remove subvolume '%s'", name) : 0;
}

int btrfs_subvolume_id(int fd, uint64_t *ret, struct err *e)
{
	struct btrfs_ioctl_ino_lookup_args args = { .objectid = BTRFS_FIRST_FREE_OBJECTID };

	if (ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) < 0)
		return err_sys(e, errno, "ask for the id of a subvolume");
	*ret = args.treeid;
	return 0;
}

/* ---- what is left of removed ones ---- */

int btrfs_quota_remove(const struct btrfs *b, uint64_t subvolume, struct err *e)
{
	struct btrfs_ioctl_qgroup_create_args args = { .create = 0, .qgroupid = subvolume };

	if (ioctl(b->fd, BTRFS_IOC_QGROUP_CREATE, &args) == 0)
		return 1;
	if (errno == ENOENT || errno == EBUSY) /* removed by the kernel, or still charged for something */
		return 0;
	return err_sys(e, errno, "remove the quota of subvolume %llu", (unsigned long long)subvolume);
}

/* The first quota from ID on: 1 with its number, 0, -1. */
static int next_quota(const struct btrfs *b, uint64_t *id, struct err *e)
{
	const struct btrfs_sought key = { BTRFS_QUOTA_TREE_OBJECTID, 0, BTRFS_QGROUP_INFO_KEY, *id };
	struct btrfs_item item;
	int r = btrfs_search(b->fd, &key, &item, e);

	if (r > 0)
		*id = item.offset;
	return r;
}

/* Numbers do not come back: one without a root that is no longer in the making has lost it for good. */
static int sweep_one(const struct btrfs *b, uint64_t id, size_t *removed, struct err *e)
{
	const struct btrfs_sought key = { BTRFS_ROOT_TREE_OBJECTID, id, BTRFS_ROOT_ITEM_KEY, 0 };
	struct btrfs_item any;
	int r;

	if (id >> LEVEL_SHIFT || id < BTRFS_FIRST_FREE_OBJECTID)
		return 0;
	r = btrfs_search(b->fd, &key, &any, e);
	if (r != 0)
		return r < 0 ? -1 : 0;
	r = btrfs_quota_remove(b, id, e);
	*removed += r > 0;
	return r < 0 ? -1 : 0;
}

int btrfs_quota_sweep(const struct btrfs *b, uint64_t last, size_t *ret_removed, struct err *e)
{
	uint64_t id = 0;
	int r;

	*ret_removed = 0;
	while ((r = next_quota(b, &id, e)) > 0 && id <= last) {
		if (sweep_one(b, id, ret_removed, e) < 0)
			return -1;
		if (id++ == UINT64_MAX)
			break;
	}
	return r < 0 ? -1 : 0;
}

/* ---- all together ---- */

/* The quotas of a level below are found by their numbers, from 0 on. */
static int assign_all(const struct btrfs *b, uint64_t but, struct err *e)
{
	uint64_t id = 0;
	int r;

	while ((r = next_quota(b, &id, e)) > 0 && id >> LEVEL_SHIFT == 0) {
		struct btrfs_ioctl_qgroup_assign_args args = { .assign = 1, .src = id, .dst = TOTAL };

		if (id != but && ioctl(b->fd, BTRFS_IOC_QGROUP_ASSIGN, &args) < 0 && errno != EEXIST)
			return err_sys(e, errno, "make the quota of subvolume %llu part of all", (unsigned long long)id);
		id++;
	}
	return r < 0 ? -1 : 0;
}

int btrfs_total_make(const struct btrfs *b, uint64_t but, struct err *e)
{
	struct btrfs_ioctl_qgroup_create_args args = { .create = 1, .qgroupid = TOTAL };

	if (ioctl(b->fd, BTRFS_IOC_QGROUP_CREATE, &args) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make the quota of all subvolumes");
	return assign_all(b, but, e);
}

/* ---- size ---- */

int btrfs_grow(const struct btrfs *b, uint64_t device_bytes, struct err *e)
{
	struct btrfs_ioctl_dev_info_args info = { .devid = DEVICE };
	struct btrfs_ioctl_vol_args args = { .name = "1:max" };

	if (ioctl(b->fd, BTRFS_IOC_DEV_INFO, &info) < 0)
		return err_sys(e, errno, "ask for the size of a btrfs");
	if (info.total_bytes >= device_bytes)
		return 0;
	return ioctl(b->fd, BTRFS_IOC_RESIZE, &args) < 0 ? err_sys(e, errno, "grow a btrfs") : 0;
}

/* ---- commits ---- */

int btrfs_sync(const struct btrfs *b, struct err *e)
{
	return ioctl(b->fd, BTRFS_IOC_SYNC) < 0 ? err_sys(e, errno, "write back what is on a btrfs") : 0;
}
