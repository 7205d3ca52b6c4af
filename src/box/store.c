// SPDX-License-Identifier: Apache-2.0
#include "box/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "box/disk.h"
#include "box/store_impl.h"
#include "sys/mounts.h"
#include "sys/room.h"
#include "sys/userns.h"

#include "base/banned.h"

#define STORE_ROOM_SHARE 20 /* no clones when less than a twentieth is free */

DEFINE_AUTO(DIR *, closedir)

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
	if (s->is_ours && box_store_btrfs_make_folder(root, "disks", e) < 0)
		return -1;
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
	int state = s->state = open_dir(spec->state_dir, e);

	s->reserve_bytes = spec->reserve_bytes;
	if (state < 0)
		return -1;
	if (spec->is_unlimited) {
		s->ops = &box_store_directory_ops;
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
	closep(&s->state);
	closep(&s->image);
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

/* What boxes were promised they must find: the last of it is theirs. */
int box_store_check_room(const struct box_store *s, struct err *e)
{
	struct statvfs st;

	if (room_check(s->state, s->reserve_bytes, 0, e) < 0)
		return -1;
	if (fstatvfs(s->disks, &st) < 0)
		return err_sys(e, errno, "look at how full the store is");
	if (st.f_bavail < st.f_blocks / STORE_ROOM_SHARE) {
		(void)err_set(e, ERR_LIMIT, "the disk of all sandboxes is almost full");
		e->sys = ENOSPC;
		return -1;
	}
	return 0;
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

/* ---- clones of disks ---- */

static int open_disk(const struct box_store *s, const char *name, struct err *e)
{
	int fd = openat(s->disks, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, errno, "open disk '%s'", name) : fd;
}

int box_disk_flush(const struct box_store *s, const char *name, struct err *e)
{
	AUTO_FD layers = -1;
	AUTO_FD disk = -1;

	if (!s->ops->flush)
		return 0;
	layers = open_dir(s->layers_path, e);
	disk = layers < 0 ? -1 : open_disk(s, name, e);
	return disk < 0 ? -1 : s->ops->flush(s, disk, layers, name, e);
}

int box_disk_clone(const struct box_store *s, const char *name, const char *layer, struct err *e)
{
	AUTO_FD layers = open_dir(s->layers_path, e);
	AUTO_FD disk = layers < 0 ? -1 : open_disk(s, name, e);

	if (disk < 0 || box_store_check_room(s, e) < 0)
		return -1;
	if (faccessat(layers, layer, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(e, ERR_CONFLICT, "there is a layer '%s'", layer);
	return s->ops->clone(s, disk, layers, layer, e);
}

int box_disk_clone_finish(const struct box_store *s, const char *layer, struct err *e)
{
	AUTO_FD layers = -1;

	if (!s->ops->finish)
		return 0;
	layers = open_dir(s->layers_path, e);
	return layers < 0 ? -1 : s->ops->finish(layers, layer, e);
}

/* The root of the writable layer belongs to the box's root, or to whom that gave it: some id of the same range. Ranges begin
 * at multiples of their size, so any of them tells which it is. */
int box_layer_id_base(const struct box_store *s, const char *layer, uint64_t *ret, struct err *e)
{
	AUTO_FD layers = open_dir(s->layers_path, e);
	AUTO_FD dir = -1;
	struct stat st;

	if (layers < 0)
		return -1;
	dir = openat(layers, layer, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fstatat(dir, "upper", &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_NOT_FOUND, "there is no layer '%s'", layer);
	*ret = st.st_uid - st.st_uid % USERNS_IDS;
	return userns_check_base(*ret, e) < 0 ? err_wrap(e, "layer '%s'", layer) : 0;
}

static int join(const struct box_store *s, int dir, struct err *e)
{
	int (*set_writable)(int, bool, struct err *) = s->ops->layer_set_writable;
	int r;

	if (set_writable && set_writable(dir, true, e) < 0)
		return -1;
	r = disk_join(dir, e);
	if (set_writable && set_writable(dir, false, r < 0 ? &(struct err){ 0 } : e) < 0)
		return -1;
	return r;
}

int box_layer_join(const struct box_store *s, const char *layer, struct err *e)
{
	AUTO_FD layers = open_dir(s->layers_path, e);
	AUTO_FD dir = -1;

	if (layers < 0)
		return -1;
	dir = openat(layers, layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_set(e, ERR_NOT_FOUND, "there is no layer '%s'", layer);
	if (faccessat(dir, DISK_OLD_USR, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return join(s, dir, e) < 0 ? err_wrap(e, "bring layer '%s' up to date", layer) : 0;
}

int box_layer_remove(const struct box_store *s, const char *layer, struct err *e)
{
	AUTO_FD layers = open_dir(s->layers_path, e);

	return layers < 0 ? -1 : s->ops->layer_remove(s, layers, layer, e);
}

bool box_store_is_older(int dir, const char *name, int64_t before_us)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && timespec_to_us(st.st_ctim) < before_us;
}

int box_layers_sweep(const struct box_store *s, int64_t before_us, struct err *e)
{
	AUTO(closedir) DIR *d = opendir(s->layers_path);
	const struct dirent *entry;

	if (!d)
		return err_sys(e, errno, "open '%s'", s->layers_path);
	while ((entry = readdir(d)))
		if (str_starts(str_of(entry->d_name), STR(STORE_PART)) && box_store_is_older(dirfd(d), entry->d_name, before_us) &&
		    s->ops->layer_remove(s, dirfd(d), entry->d_name, e) < 0)
			return -1;
	return 0;
}
