// SPDX-License-Identifier: Apache-2.0
/* Which parts of the device are for data, and which for all else. */
#include <endian.h>
#include <errno.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/btrfs.h"
#include "sys/btrfs_impl.h"

#include "base/banned.h"

#define DEVICE 1

int btrfs_search(int fd, const struct btrfs_sought *key, struct btrfs_item *ret, struct err *e)
{
	struct btrfs_ioctl_search_args args = {
		.key = { .tree_id = key->tree, .min_objectid = key->object, .max_objectid = key->object, .min_type = key->type,
			 .max_type = key->type, .min_offset = key->first, .max_offset = UINT64_MAX, .max_transid = UINT64_MAX,
			 .nr_items = 1 },
	};
	struct btrfs_ioctl_search_header found;

	if (ioctl(fd, BTRFS_IOC_TREE_SEARCH, &args) < 0)
		return err_sys(e, errno, "search a tree of a btrfs");
	if (args.key.nr_items == 0)
		return 0;
	memcpy(&found, args.buf, sizeof(found));
	ret->offset = found.offset;
	ret->n = MIN((size_t)found.len, sizeof(ret->bytes));
	memcpy(ret->bytes, args.buf + sizeof(found), ret->n);
	return 1;
}

int btrfs_chunk_next(const struct btrfs *b, uint64_t from, struct btrfs_place *ret, struct err *e)
{
	struct btrfs_sought key = { BTRFS_DEV_TREE_OBJECTID, DEVICE, BTRFS_DEV_EXTENT_KEY, from };
	struct btrfs_item item;
	struct btrfs_dev_extent extent;
	struct btrfs_chunk chunk;
	int r = btrfs_search(b->fd, &key, &item, e);

	if (r <= 0)
		return r;
	if (item.n < sizeof(extent))
		return err_set(e, ERR_IO, "a btrfs has a part that cannot be read");
	memcpy(&extent, item.bytes, sizeof(extent));
	*ret = (struct btrfs_place){ .at = item.offset, .bytes = le64toh(extent.length), .address = le64toh(extent.chunk_offset) };
	key = (struct btrfs_sought){ BTRFS_CHUNK_TREE_OBJECTID, BTRFS_FIRST_CHUNK_TREE_OBJECTID, BTRFS_CHUNK_ITEM_KEY, ret->address };
	r = btrfs_search(b->fd, &key, &item, e);
	if (r < 0)
		return -1;
	if (r == 0 || item.offset != ret->address || item.n < sizeof(chunk)) /* it has just gone */
		ret->is_data = true;
	else {
		memcpy(&chunk, item.bytes, sizeof(chunk));
		ret->is_data = (le64toh(chunk.type) & (BTRFS_BLOCK_GROUP_METADATA | BTRFS_BLOCK_GROUP_SYSTEM)) == 0;
	}
	return 1;
}

int btrfs_trim(const struct btrfs *b, const struct btrfs_place *p, struct err *e)
{
	struct fstrim_range range = { .start = p->address, .len = p->bytes };

	return ioctl(b->fd, FITRIM, &range) < 0 ? err_sys(e, errno, "give back what is free of a btrfs") : 0;
}
