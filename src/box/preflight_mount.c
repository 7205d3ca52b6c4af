// SPDX-License-Identifier: Apache-2.0
/* Probes that mount, each in a child with mounts of its own: they end with it. */
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/err.h"
#include "base/own.h"
#include "box/preflight_impl.h"
#include "box/slot.h"
#include "sys/mounts.h"
#include "sys/namespace.h"
#include "sys/overlay.h"
#include "sys/tree.h"
#include "sys/userns.h"

#include "base/banned.h"

#define COVERED "/sys"                      /* what the child's own tmpfs hides: it is there on every host */
#define UPPER_NAME ".opensandbox-preflight" /* always the same: what a kill left is removed by the next run */
#define TRIAL_BASE (SLOT_ID_BASE + (uint64_t)(SLOT_NUMBER_MAX - 1) * USERNS_IDS)

/* ---- in the child ---- */

/* A tmpfs that nobody else sees; its descriptor. */
static int own_stage(struct err *e)
{
	AUTO_FD target = -1;
	AUTO_FD fd = -1;

	if (unshare(CLONE_NEWNS) < 0)
		return err_sys(e, errno, "make a mount namespace");
	if (mount_private_all(e) < 0)
		return -1;
	fd = mount_make(&(struct mount_spec){ .fs = "tmpfs", .attrs = MOUNT_NOSUID }, e);
	target = open(COVERED, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (target < 0)
		return err_sys(e, errno, "open '" COVERED "'");
	return mount_move(fd, target, e) < 0 ? -1 : take_fd(&fd);
}

static int make_dir(int dir, const char *name, uint64_t owner, struct err *e)
{
	int fd;

	if (mkdirat(dir, name, 0755) < 0 || fchownat(dir, name, (uid_t)owner, (gid_t)owner, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "make '%s'", name);
	fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, errno, "open '%s'", name) : fd;
}

/* What the trial stands on is missing: the row that is about that gives the reason, the advice of this one would be wrong. */
static int left_to_another_row(struct err *e)
{
	e->sys = PREFLIGHT_NOT_TRIED;
	return -1;
}

/* The way that boxes have their overlays made by; STAGE has a folder "place" from then on. */
static int find_way(int stage, enum overlay_way *ret, struct err *e)
{
	AUTO_FD place = make_dir(stage, "place", 0, e);

	return place < 0 ? -1 : overlay_find_way(stage, "place", ret, e);
}

/* UPPER_IN gets an upper and a work folder. */
static int mount_overlay(enum overlay_way way, int stage, int lower, int upper_in, uint64_t owner, struct err *e)
{
	AUTO_FD upper = make_dir(upper_in, "upper", owner, e);
	AUTO_FD work = upper < 0 ? -1 : make_dir(upper_in, "work", 0, e);

	return work < 0 ? -1 : overlay_make(way, &(struct overlay_spec){ "preflight", &lower, 1, upper, work, stage, "place" }, e);
}

/* What is made in the overlay is in the upper folder, and belongs to whoever made it. */
static int write_through(int root, int upper_in, struct err *e)
{
	struct stat st;

	if (mkdirat(root, "made", 0755) < 0)
		return err_sys(e, errno, "write to it");
	if (fstatat(upper_in, "upper/made", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "find what was written");
	return st.st_uid == geteuid() ? 0 : err_set(e, ERR_UNAVAILABLE, "the written file has another owner");
}

static int try_mount_api(void *arg, struct err *e)
{
	AUTO_FD stage = own_stage(e);
	struct statvfs sv;

	(void)arg;
	if (stage < 0 || mount_restrict(stage, MOUNT_RO, true, e) < 0)
		return -1;
	if (fstatvfs(stage, &sv) < 0)
		return err_sys(e, errno, "look at the mount");
	return sv.f_flag & ST_RDONLY ? 0 : err_set(e, ERR_UNAVAILABLE, "mount_setattr changes nothing");
}

/* Whether the kernel knows it, or finds its module. */
static int try_overlayfs(void *arg, struct err *e)
{
	AUTO_FD stage = own_stage(e);
	AUTO_FD fd = stage < 0 ? -1 : mount_make(&(struct mount_spec){ .fs = "overlay" }, e);

	(void)arg;
	if (stage < 0)
		return left_to_another_row(e);
	return fd < 0 && e->sys == ENODEV ? -1 : 0; /* without a folder it is refused, by itself */
}

static int try_overlay(void *arg, struct err *e)
{
	AUTO_FD stage = own_stage(e);
	AUTO_FD lower = stage < 0 ? -1 : make_dir(stage, "lower", 0, e);
	AUTO_FD root = -1;
	enum overlay_way way;

	(void)arg;
	if (lower < 0)
		return left_to_another_row(e);
	if (find_way(stage, &way, e) < 0)
		return e->sys == ENODEV ? left_to_another_row(e) : -1;
	root = mount_overlay(way, stage, lower, stage, 0, e);
	return root < 0 ? -1 : write_through(root, stage, e);
}

/* A mount of the layers' file system that shows its ids as those of USERNS, not attached yet. */
static int clone_mapped(const char *path, int userns, struct err *e)
{
	AUTO_FD dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD fd = -1;
	struct stat real, shown;

	if (dir < 0)
		return err_sys(e, errno, "open '%s'", path);
	fd = mount_clone(dir, "", false, e);
	if (fd < 0 || mount_idmap(fd, userns, false, e) < 0)
		return err_wrap(e, "file system of '%s'", path);
	if (fstat(dir, &real) < 0 || fstat(fd, &shown) < 0)
		return err_sys(e, errno, "look at '%s'", path);
	if (real.st_uid < USERNS_IDS && shown.st_uid != real.st_uid + TRIAL_BASE)
		return err_set(e, ERR_UNAVAILABLE, "ids of '%s' are shown as they are", path);
	return take_fd(&fd);
}

static int try_idmap(void *arg, struct err *e)
{
	AUTO_FD userns = userns_make(-1, TRIAL_BASE, e);
	AUTO_FD stage = userns < 0 ? -1 : own_stage(e);
	AUTO_FD fd = stage < 0 ? -1 : clone_mapped(arg, userns, e);

	return fd < 0 ? -1 : 0;
}

static int become_root_of(int userns, struct err *e)
{
	if (namespace_enter(userns, NAMESPACE_USER, e) < 0)
		return -1;
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(e, errno, "become the root of a user namespace");
	return 0;
}

/* As a box does it: the lower id-mapped and attached, the upper owned by mapped ids, written to from inside. */
static int try_idmap_overlay(void *arg, struct err *e)
{
	AUTO_FD userns = userns_make(-1, TRIAL_BASE, e);
	AUTO_FD stage = userns < 0 ? -1 : own_stage(e);
	AUTO_FD target = stage < 0 ? -1 : make_dir(stage, "lower", 0, e);
	AUTO_FD lower = target < 0 ? -1 : clone_mapped(arg, userns, e);
	AUTO_FD root = -1;
	enum overlay_way way;

	if (lower < 0 || mount_move(lower, target, e) < 0)
		return -1;
	if (find_way(stage, &way, e) < 0)
		return left_to_another_row(e);
	root = mount_overlay(way, stage, lower, stage, TRIAL_BASE, e);
	if (root < 0 || become_root_of(userns, e) < 0)
		return -1;
	return write_through(root, stage, e);
}

/* ---- the probes ---- */

static enum preflight_outcome try_in_child(trial_fn fn, const char *path, char *detail)
{
	struct err e = { 0 };
	enum preflight_outcome outcome = preflight_tell(trial_in_child(fn, (void *)(uintptr_t)path, &e), &e, detail);

	if (outcome != PREFLIGHT_MISSING || e.sys != PREFLIGHT_NOT_TRIED)
		return outcome;
	preflight_say(detail, "not tried, for what is missing above");
	return PREFLIGHT_UNTRIED;
}

enum preflight_outcome probe_mount_api(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	(void)t;
	(void)self;
	return try_in_child(try_mount_api, NULL, detail);
}

enum preflight_outcome probe_overlayfs(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	(void)t;
	(void)self;
	return try_in_child(try_overlayfs, NULL, detail);
}

enum preflight_outcome probe_overlay(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	(void)t;
	(void)self;
	return try_in_child(try_overlay, NULL, detail);
}

enum preflight_outcome probe_idmap(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	(void)self;
	return try_in_child(try_idmap, t->layers_at, detail);
}

enum preflight_outcome probe_idmap_overlay(const struct preflight_trial *t, const struct preflight_check *self, char *detail)
{
	(void)self;
	return try_in_child(try_idmap_overlay, t->layers_at, detail);
}

/* ---- writable layers on a real file system ---- */

/* The folder is opened anew, by path: an overlay takes only mounts of the namespace that it is made in. */
static int try_upper(void *arg, struct err *e)
{
	AUTO_FD stage = own_stage(e);
	AUTO_FD lower = stage < 0 ? -1 : make_dir(stage, "lower", 0, e);
	AUTO_FD dir = lower < 0 ? -1 : open(arg, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD in = -1;
	AUTO_FD root = -1;
	enum overlay_way way;

	if (lower < 0 || find_way(stage, &way, e) < 0)
		return left_to_another_row(e);
	if (dir < 0)
		return err_sys(e, errno, "open it");
	in = openat(dir, UPPER_NAME, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (in < 0)
		return err_sys(e, errno, "open a folder in it");
	root = mount_overlay(way, stage, lower, in, 0, e);
	return root < 0 ? -1 : write_through(root, in, e);
}

int preflight_try_upper(const char *dir, struct err *e)
{
	AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc;

	if (fd < 0)
		return err_sys(e, errno, "open '%s'", dir);
	if (tree_remove(fd, UPPER_NAME, e) < 0)
		return err_wrap(e, "remove '%s' of an earlier run", UPPER_NAME);
	if (mkdirat(fd, UPPER_NAME, 0700) < 0)
		return err_sys(e, errno, "make a folder in '%s'", dir);
	rc = trial_in_child(try_upper, (void *)(uintptr_t)dir, e);
	if (tree_remove(fd, UPPER_NAME, rc < 0 ? &(struct err){ 0 } : e) < 0 && rc == 0)
		return err_wrap(e, "remove '%s'", UPPER_NAME);
	return rc < 0 ? err_wrap(e, "writable layer in '%s'", dir) : 0;
}
