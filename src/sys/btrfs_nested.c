// SPDX-License-Identifier: Apache-2.0
/* Subvolumes within others. The root tree has an entry for each, with the folder and the name that it is at. The folders are
 * opened by their numbers: a path to them may be longer than any that the kernel takes. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/btrfs.h"
#include "sys/btrfs_impl.h"

#include "base/banned.h"

#define STEPS_MAX 400000 /* two for a subvolume */
#define NAME_BYTES_MAX 255
#define HANDLE_TYPE 0x4d /* FILEID_BTRFS_WITHOUT_PARENT */
#define HANDLE_BYTES 20  /* inode, tree, generation */

/* Where a subvolume is. */
struct link {
	uint64_t other; /* the subvolume at the other end */
	uint64_t dir;   /* in the one above */
	char name[NAME_BYTES_MAX + 1];
};

/* BTRFS_ROOT_REF_KEY: the first subvolume within ID. BTRFS_ROOT_BACKREF_KEY: the one that ID is in. */
static int find_link(int fd, uint64_t id, uint32_t type, struct link *ret, struct err *e)
{
	const struct btrfs_sought key = { BTRFS_ROOT_TREE_OBJECTID, id, type, 0 };
	struct btrfs_item item = { 0 };
	struct btrfs_root_ref ref;
	size_t n;
	int r = btrfs_search(fd, &key, &item, e);

	if (r <= 0)
		return r;
	memcpy(&ref, item.bytes, sizeof(ref));
	n = le16toh(ref.name_len);
	if (item.n < sizeof(ref) + n || n > NAME_BYTES_MAX)
		return err_set(e, ERR_IO, "a btrfs has a link that cannot be read");
	ret->other = item.offset;
	ret->dir = le64toh(ref.dirid);
	memcpy(ret->name, item.bytes + sizeof(ref), n);
	ret->name[n] = '\0';
	return 1;
}

static int open_inode(int fd, uint64_t tree, uint64_t inode, struct err *e)
{
	union {
		struct file_handle handle;
		unsigned char bytes[offsetof(struct file_handle, f_handle) + HANDLE_BYTES];
	} u = { .handle = { .handle_bytes = HANDLE_BYTES, .handle_type = HANDLE_TYPE } };
	unsigned char *at = u.bytes + offsetof(struct file_handle, f_handle);
	const struct btrfs_sought key = { tree, inode, BTRFS_INODE_ITEM_KEY, 0 };
	struct btrfs_item found;
	struct btrfs_inode_item item;
	uint32_t generation;
	int r = btrfs_search(fd, &key, &found, e);

	if (r <= 0 || found.n < sizeof(item))
		return r < 0 ? -1 : err_set(e, ERR_IO, "a btrfs has no inode %llu", (unsigned long long)inode);
	memcpy(&item, found.bytes, sizeof(item));
	generation = (uint32_t)le64toh(item.generation);
	memcpy(at, &inode, sizeof(inode));
	memcpy(at + 8, &tree, sizeof(tree));
	memcpy(at + 16, &generation, sizeof(generation));
	r = open_by_handle_at(fd, &u.handle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r < 0 ? err_sys(e, errno, "open a folder of a btrfs") : r;
}

/* Without subvolumes of its own. */
static int remove_leaf(int fd, const struct link *l, struct err *e)
{
	AUTO_FD dir = open_inode(fd, l->other, l->dir, e);
	AUTO_FD above = -1;
	struct err why = { 0 };

	if (dir < 0)
		return -1;
	if (btrfs_subvolume_remove(dir, l->name, &why) == 0)
		return 0;
	if (why.sys != EROFS) {
		*e = why;
		return -1;
	}
	above = open_inode(fd, l->other, BTRFS_FIRST_FREE_OBJECTID, e);
	return above < 0 || btrfs_set_writable(above, true, e) < 0 ? -1 : btrfs_subvolume_remove(dir, l->name, e);
}

/* Down to one without others, which goes, and up to the one that it was in. */
int btrfs_nested_remove(const struct btrfs *b, int fd, struct err *e)
{
	struct link l;
	uint64_t top, at;

	if (btrfs_subvolume_id(fd, &top, e) < 0)
		return -1;
	at = top;
	for (unsigned i = 0; i < STEPS_MAX; i++) {
		int r = find_link(fd, at, BTRFS_ROOT_REF_KEY, &l, e);

		if (r < 0 || (r == 0 && at == top))
			return r;
		if (r > 0) {
			at = l.other;
			continue;
		}
		r = find_link(fd, at, BTRFS_ROOT_BACKREF_KEY, &l, e);
		if (r <= 0 || remove_leaf(fd, &l, e) < 0)
			return r == 0 ? err_set(e, ERR_UNAVAILABLE, "a subvolume went away meanwhile") : -1;
		(void)btrfs_quota_remove(b, at, &(struct err){ 0 }); /* where the kernel does not, the next sweep does */
		at = l.other;
	}
	return err_set(e, ERR_UNAVAILABLE, "more than %d subvolumes are in another: some are left", STEPS_MAX / 2);
}
