// SPDX-License-Identifier: Apache-2.0
/* The driver without limits. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "box/disk.h"
#include "box/store_impl.h"
#include "sys/tree.h"
#include "sys/tree_copy.h"

#include "base/banned.h"

static int directory_make(const struct box_store *s, const char *name, uint64_t limit_bytes, struct err *e)
{
	(void)limit_bytes;
	return mkdirat(s->disks, name, 0700) < 0 ? err_sys(e, errno, "make disk '%s'", name) : 0;
}

static int directory_limit(const struct box_store *s, const char *name, uint64_t limit_bytes, struct err *e)
{
	(void)s, (void)name, (void)limit_bytes;
	(void)err_set(e, ERR_UNAVAILABLE, "the disks of sandboxes cannot be limited here");
	e->sys = EDQUOT;
	return -1;
}

static int directory_usage(const struct box_store *s, const char *name, uint64_t *ret_bytes, struct err *e)
{
	(void)s, (void)name, (void)e;
	*ret_bytes = 0;
	return 0;
}

static int directory_remove(const struct box_store *s, const char *name, struct err *e)
{
	return tree_remove(s->disks, name, e);
}

/* ---- clones: made under another name, since they are not there all at once ---- */

static int name_part(const char *layer, char out[128], struct err *e)
{
	return snprintf(out, 128, STORE_PART "%s", layer) < 128 ? 0 : err_set(e, ERR_INVALID, "layer '%.64s': name too long", layer);
}

static int copy_parts(int disk, int part, struct err *e)
{
	if (tree_copy(disk, part, "upper", e) < 0)
		return -1;
	return faccessat(disk, DISK_OLD_USR, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : tree_copy(disk, part, DISK_OLD_USR, e);
}

static int directory_clone(const struct box_store *s, int disk, int layers, const char *layer, struct err *e)
{
	AUTO_FD dir = -1;
	char part[128];
	int r;

	(void)s;
	if (name_part(layer, part, e) < 0 || tree_remove(layers, part, e) < 0)
		return -1;
	if (mkdirat(layers, part, 0700) < 0)
		return err_sys(e, errno, "make layer '%s'", layer);
	dir = openat(layers, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = dir < 0 ? err_sys(e, errno, "open layer '%s'", layer) : copy_parts(disk, dir, e);
	if (r < 0)
		(void)tree_remove(layers, part, &(struct err){ 0 }); /* the next start tries again */
	return r;
}

/* One sync of the file system costs less than one of each file. */
static int directory_finish(int layers, const char *layer, struct err *e)
{
	char part[128];

	if (name_part(layer, part, e) < 0)
		return -1;
	if (syncfs(layers) < 0 || renameat2(layers, part, layers, layer, RENAME_NOREPLACE) < 0 || fsync(layers) < 0)
		return err_sys(e, errno, "put layer '%s' in place", layer);
	return 0;
}

/* Under the name of a part first: a layer is there whole or not at all. */
static int directory_layer_remove(const struct box_store *s, int layers, const char *layer, struct err *e)
{
	char part[128];

	(void)s;
	if (name_part(layer, part, e) < 0 || tree_remove(layers, part, e) < 0)
		return -1;
	if (renameat(layers, layer, layers, part) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "remove layer '%s'", layer);
	return tree_remove(layers, part, e);
}

const struct box_store_ops box_store_directory_ops = {
	.name = "directory",
	.make = directory_make,
	.limit = directory_limit,
	.usage = directory_usage,
	.remove = directory_remove,
	.clone = directory_clone,
	.finish = directory_finish,
	.layer_remove = directory_layer_remove,
};
