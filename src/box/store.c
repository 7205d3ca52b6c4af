// SPDX-License-Identifier: Apache-2.0
#include "box/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "box/store_impl.h"
#include "sys/mounts.h"
#include "sys/tree.h"

#include "base/banned.h"

/* ---- the driver without limits ---- */

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

static const struct box_store_ops directory_ops = {
	.name = "directory",
	.make = directory_make,
	.limit = directory_limit,
	.usage = directory_usage,
	.remove = directory_remove,
};

/* ---- choosing ---- */

static int open_dir(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, errno, "open '%s'", path) : fd;
}

/* Whether the state directory itself is on a btrfs with quotas, as it is then used; not when there is an image. */
static bool is_in_place(int state, struct box_store *s)
{
	enum btrfs_quota quota;
	bool is_stale;

	return faccessat(state, STORE_IMAGE_NAME, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	       btrfs_open(&s->fs, state, &(struct err){ 0 }) == 0 &&
	       btrfs_quota_read(&s->fs, &quota, &is_stale, &(struct err){ 0 }) == 0 && quota != BTRFS_QUOTA_OFF;
}

static int make_folder(int root, const char *above, const char *name, char path[STORE_PATH_MAX], struct err *e)
{
	if (snprintf(path, STORE_PATH_MAX, "%s/%s", above, name) >= STORE_PATH_MAX)
		return err_set(e, ERR_INVALID, "'%s': path too long", above);
	if (mkdirat(root, name, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make '%s'", path);
	return 0;
}

static int open_folders(struct box_store *s, int root, const char *path, struct err *e)
{
	if (make_folder(root, path, "layers", s->layers_path, e) < 0 || make_folder(root, path, "disks", s->disks_path, e) < 0)
		return -1;
	s->disks = open_dir(s->disks_path, e);
	s->fs.fd = s->disks; /* which lasts */
	return s->disks < 0 || (s->ops->has_limits && box_store_btrfs_prepare(s, e) < 0) ? -1 : 0;
}

static int open_limited(struct box_store *s, const struct box_store_spec *spec, int state, struct err *e)
{
	AUTO_FD root = -1;

	s->ops = &box_store_btrfs_ops;
	if (is_in_place(state, s))
		return open_folders(s, state, spec->state_dir, e);
	s->is_ours = true;
	if (make_folder(state, spec->state_dir, "store", s->mounted_at, e) < 0)
		return -1;
	root = box_store_image_mount(s, spec, e);
	if (root < 0) {
		s->mounted_at[0] = '\0';
		return -1;
	}
	return btrfs_open(&s->fs, root, e) < 0 ? -1 : open_folders(s, root, s->mounted_at, e);
}

static int open_any(struct box_store *s, const struct box_store_spec *spec, struct err *e)
{
	AUTO_FD state = open_dir(spec->state_dir, e);

	if (state < 0)
		return -1;
	if (spec->is_unlimited) {
		s->ops = &directory_ops;
		return open_folders(s, state, spec->state_dir, e);
	}
	if (open_limited(s, spec, state, e) == 0)
		return 0;
	return err_wrap(e, "cannot limit the disks of sandboxes (--unsafe-no-disk-limit goes on without)");
}

int box_store_open(struct box_store *ret, const struct box_store_spec *spec, struct err *e)
{
	AUTO(box_store_done) struct box_store s = BOX_STORE_INIT;

	if (spec->size_bytes > STORE_SIZE_MAX || (spec->size_bytes > 0 && spec->size_bytes < STORE_SIZE_MIN))
		return err_set(e, ERR_INVALID, "a disk of %llu bytes is too small or too large",
			       (unsigned long long)spec->size_bytes);
	if (open_any(&s, spec, e) < 0)
		return -1;
	*ret = s;
	s = BOX_STORE_INIT;
	return 0;
}

void box_store_done(struct box_store *s)
{
	closep(&s->disks);
	if (s->mounted_at[0])
		(void)mount_detach(s->mounted_at, &(struct err){ 0 }); /* it goes with the namespace at the latest */
	*s = BOX_STORE_INIT;
}

/* ---- what every driver does ---- */

const char *box_store_driver(const struct box_store *s)
{
	return s->ops->name;
}

bool box_store_has_limits(const struct box_store *s)
{
	return s->ops->has_limits;
}

int box_disk_make(const struct box_store *s, const char *name, uint64_t limit_bytes, struct err *e)
{
	int fd;

	if (s->ops->make(s, name, limit_bytes, e) < 0)
		return -1;
	fd = openat(s->disks, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, errno, "open disk '%s'", name) : fd;
}

int box_disk_limit(const struct box_store *s, const char *name, uint64_t limit_bytes, struct err *e)
{
	return s->ops->limit(s, name, limit_bytes, e);
}

int box_disk_usage(const struct box_store *s, const char *name, uint64_t *ret_bytes, struct err *e)
{
	return s->ops->usage(s, name, ret_bytes, e);
}

int box_disk_remove(const struct box_store *s, const char *name, struct err *e)
{
	return s->ops->remove(s, name, e);
}
