// SPDX-License-Identifier: Apache-2.0
#include "box/stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/err.h"
#include "base/own.h"
#include "box/disk.h"
#include "box/slot.h"
#include "sys/mounts.h"
#include "sys/userns.h"

#include "base/banned.h"

#define SAFE (MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC)
#define TTY_GROUP 5
#define CPUS_MAX 8192 /* of any kernel */
#define SHARED_SIZE "1m" /* of empty directories */
#define SHM_SIZE "64m"    /* of /dev/shm, with the few files of /dev (L1) */

static int open_dir(int dir, const char *path, struct err *e)
{
	int fd = openat(dir, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(e, errno, "open '%s' of the stage", path) : fd;
}

static int make_dir(int dir, const char *path, struct err *e)
{
	return mkdirat(dir, path, 0755) < 0 ? err_sys(e, errno, "make '%s' on the stage", path) : 0;
}

/* The mount FD at PATH below DIR, which is made if need be. */
static int place(int fd, int dir, const char *path, struct err *e)
{
	AUTO_FD target = -1;

	if (mkdirat(dir, path, 0755) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make '%s' on the stage", path);
	target = open_dir(dir, path, e);
	return target < 0 ? -1 : mount_move(fd, target, e);
}

static int mount_new(int dir, const char *path, const struct mount_spec *sp, struct err *e)
{
	AUTO_FD fd = mount_make(sp, e);

	if (fd < 0 || place(fd, dir, path, e) < 0)
		return err_wrap(e, "mount '%s'", path);
	return 0;
}

/* A read-only view of FROM with the ids of the box. */
static int mount_shifted(int stage, const char *path, int from, int userns, struct err *e)
{
	AUTO_FD fd = mount_clone(from, "", false, e);

	if (fd < 0 || mount_idmap(fd, userns, false, e) < 0 ||
	    mount_restrict(fd, MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV, false, e) < 0 || place(fd, stage, path, e) < 0)
		return err_wrap(e, "show '%s' with the ids of the box", path);
	return 0;
}

/* ---- what must not be seen or written ---- */

/* R4 and R5, and the pressure of the whole host, where everybody may plant triggers. What this kernel does not have is
 * skipped. */
static const char *const masked_folders[] = {
	"proc/acpi", "proc/asound", "proc/scsi", "sys/firmware", "sys/fs/bpf", "sys/kernel/debug", "sys/kernel/tracing",
	"sys/kernel/security", "sys/devices/virtual/powercap",
	/* L6: the file system that all disks are on, with the limits of each, its device, and the host's own disks. */
	"sys/fs/btrfs", "sys/fs/ext4", "sys/fs/f2fs", "sys/fs/xfs", "sys/block", "sys/class/bdi", "sys/class/block", "sys/dev/block",
	"sys/devices/virtual/bdi", "sys/devices/virtual/block", "proc/fs/ext4", "proc/fs/jbd2", "proc/fs/xfs",
};
static const char *const masked_files[] = {
	"proc/interrupts", "proc/kcore", "proc/keys", "proc/kmsg", "proc/latency_stats", "proc/sched_debug", "proc/sysrq-trigger",
	"proc/timer_list", "proc/timer_stats", "proc/diskstats", "proc/partitions",
};
static const char *const read_only[] = { "proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/pressure" };

/* What hides, ready to be moved: one of each kind. */
struct masks {
	int stage;
	int folder, file;
};

static void masks_done(struct masks *m)
{
	closep(&m->folder);
	closep(&m->file);
}
DEFINE_AUTO_DONE(struct masks, masks_done)

/* A copy of what hide_with() has restricted. */
static int next_mask(const struct masks *m, int *fd, struct err *e)
{
	if (*fd < 0)
		*fd = mount_clone(m->stage, fd == &m->folder ? "mask/folder" : "mask/file", false, e);
	return *fd < 0 ? -1 : 0;
}

/* 1 done, 0 there is nothing, -1. */
static int mask_with(struct masks *m, int *fd, const char *path, struct err *e)
{
	int r = next_mask(m, fd, e) < 0 ? -1 : mount_move_to(*fd, m->stage, path, e);

	if (r > 0)
		(void)close(take_fd(fd));
	return r;
}

/* Tried as what it is on every kernel that we know: looking at it first costs as much again. */
static int mask_one(struct masks *m, const char *path, bool is_folder, struct err *e)
{
	int *likely = is_folder ? &m->folder : &m->file, *other = is_folder ? &m->file : &m->folder;
	struct err why = { 0 };

	if (mask_with(m, likely, path, &why) >= 0)
		return 0;
	return mask_with(m, other, path, e) < 0 ? err_wrap(e, "mask '%s'", path) : 0;
}

static int freeze_one(int stage, const char *path, struct err *e)
{
	struct err why = { 0 };
	AUTO_FD fd = mount_clone(stage, path, true, &why);

	if (fd < 0 && why.sys == ENOENT)
		return 0;
	if (fd < 0)
		*e = why;
	if (fd < 0 || mount_restrict(fd, MOUNT_RO | SAFE, true, e) < 0 || mount_move_to(fd, stage, path, e) < 0)
		return err_wrap(e, "make '%s' read-only", path);
	return 0;
}

/* Of each CPU: how often it got hot tells of what others compute. */
static int mask_throttles(struct masks *m, struct err *e)
{
	char path[80];
	struct stat st;

	for (unsigned cpu = 0; cpu < CPUS_MAX; cpu++) {
		(void)snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu%u", cpu);
		if (fstatat(m->stage, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? 0 : err_sys(e, errno, "look at '%s'", path);
		(void)snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu%u/thermal_throttle", cpu);
		if (mask_one(m, path, true, e) < 0)
			return -1;
	}
	return 0;
}

static int make_masks(int stage, struct err *e)
{
	AUTO(masks_done) struct masks m = { .stage = stage, .folder = -1, .file = -1 };

	for (size_t i = 0; i < ARRAY_LEN(masked_folders); i++)
		if (mask_one(&m, masked_folders[i], true, e) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_LEN(masked_files); i++)
		if (mask_one(&m, masked_files[i], false, e) < 0)
			return -1;
	if (mask_throttles(&m, e) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(read_only); i++)
		if (freeze_one(stage, read_only[i], e) < 0)
			return -1;
	return 0;
}

/* ---- /dev ---- */

static const struct {
	const char *name;
	unsigned minor;
	unsigned major;
} nodes[] = {
	{ "null", 3, 1 }, { "zero", 5, 1 }, { "full", 7, 1 }, { "random", 8, 1 }, { "urandom", 9, 1 }, { "tty", 0, 5 },
};

static const struct {
	const char *name, *to;
} links[] = {
	{ "ptmx", "pts/ptmx" },     { "fd", "/proc/self/fd" },      { "stdin", "/proc/self/fd/0" },
	{ "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
};

static int fill_dev(int dev, uid_t root, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		if (mknodat(dev, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) < 0 ||
		    fchmodat(dev, nodes[i].name, 0666, 0) < 0 || fchownat(dev, nodes[i].name, root, root, 0) < 0)
			return err_sys(e, errno, "make '/dev/%s'", nodes[i].name);
	}
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i].to, dev, links[i].name) < 0)
			return err_sys(e, errno, "make '/dev/%s'", links[i].name);
	return 0;
}

/* A folder of /dev, with flags of its own: a file system less for each box. Both together have what /dev/shm may hold. */
static int make_shm(int dev, uid_t root, struct err *e)
{
	AUTO_FD fd = -1;

	if (mkdirat(dev, "shm", 0755) < 0 || fchmodat(dev, "shm", 01777, 0) < 0 ||
	    fchownat(dev, "shm", root, root, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "make '/dev/shm'");
	fd = mount_clone(dev, "shm", false, e);
	if (fd < 0 || mount_restrict(fd, SAFE, false, e) < 0 || place(fd, dev, "shm", e) < 0)
		return err_wrap(e, "mount '/dev/shm'");
	return 0;
}

static int make_dev(int stage, uint64_t id_base, struct err *e)
{
	char uid[24], tty[24];
	const struct mount_option dev_options[] = { MOUNT_TEXT("mode", "755"), MOUNT_TEXT("size", SHM_SIZE),
						    MOUNT_TEXT("uid", uid), MOUNT_TEXT("gid", uid) };
	const struct mount_option pts_options[] = { MOUNT_FLAG("newinstance"), MOUNT_TEXT("ptmxmode", "0666"),
						    MOUNT_TEXT("mode", "0620"), MOUNT_TEXT("gid", tty),
						    MOUNT_TEXT("max", "1024") };
	AUTO_FD dev = -1;

	(void)snprintf(uid, sizeof(uid), "%llu", (unsigned long long)id_base);
	(void)snprintf(tty, sizeof(tty), "%llu", (unsigned long long)id_base + TTY_GROUP);
	if (mount_new(stage, "dev", &(struct mount_spec){ "tmpfs", "dev", dev_options, 4, MOUNT_NOSUID | MOUNT_NOEXEC }, e) < 0)
		return -1;
	dev = open_dir(stage, "dev", e);
	if (dev < 0 || fill_dev(dev, (uid_t)id_base, e) < 0 || make_shm(dev, (uid_t)id_base, e) < 0)
		return -1;
	if (mount_new(dev, "pts", &(struct mount_spec){ "devpts", "devpts", pts_options, 5, MOUNT_NOSUID | MOUNT_NOEXEC }, e) < 0)
		return -1;
	return mount_new(dev, "mqueue", &(struct mount_spec){ "mqueue", "mqueue", NULL, 0, SAFE }, e);
}

/* ---- overlays ---- */

struct overlay {
	int lowers[SLOT_LAYERS_MAX + 2]; /* with an image in a directory, and /usr */
	size_t n;
	int upper, work;
};

static void overlay_done(struct overlay *o)
{
	for (size_t i = 0; i < o->n; i++)
		closep(&o->lowers[i]);
	closep(&o->upper);
	closep(&o->work);
}
DEFINE_AUTO_DONE(struct overlay, overlay_done)
_Static_assert(ARRAY_LEN(((struct overlay *)NULL)->lowers) <= OVERLAY_LOWERS_MAX, "all layers of a box can be mounted");

static int overlay_add(struct overlay *o, int dir, const char *name, struct err *e)
{
	int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "open layer '%s'", name);
	o->lowers[o->n++] = fd;
	return 0;
}

static int overlay_upper(struct overlay *o, int dir, const char *upper, const char *work, struct err *e)
{
	o->upper = openat(dir, upper, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	o->work = openat(dir, work, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (o->upper < 0 || o->work < 0)
		return err_sys(e, errno, "open the writable layer '%s'", upper);
	return 0;
}

/* "root" is where the overlay goes in the end, and nothing is there yet. */
static int overlay_mount(const struct overlay *o, const struct stage_root *r, struct err *e)
{
	return overlay_make(r->way, &(struct overlay_spec){ "root", o->lowers, o->n, o->upper, o->work, r->stage, "root" }, e);
}

/* ---- layers that were disks ---- */

/* The namespaces that show the ids of other boxes as ours, one for each range. */
struct ranges {
	uint64_t base[SLOT_LAYERS_MAX];
	int userns[SLOT_LAYERS_MAX];
	size_t n;
};

static void ranges_done(struct ranges *g)
{
	for (size_t i = 0; i < g->n; i++)
		closep(&g->userns[i]);
}
DEFINE_AUTO_DONE(struct ranges, ranges_done)

/* Borrowed. */
static int range_of(struct ranges *g, const struct stage_root *r, uint64_t base, struct err *e)
{
	AUTO_FD proc = -1;
	size_t i = 0;

	while (i < g->n && g->base[i] != base)
		i++;
	if (i < g->n)
		return g->userns[i];
	proc = open_dir(r->stage, "proc", e);
	g->base[i] = base;
	g->userns[i] = proc < 0 ? -1 : userns_map(proc, base, r->id_base, e);
	g->n += g->userns[i] >= 0;
	return g->userns[i];
}

/* The disk that layer I is, with our ids, as one more lower of O. */
static int add_disk(struct overlay *o, const struct stage_root *r, struct ranges *g, size_t i, struct err *e)
{
	int userns = range_of(g, r, r->layers[i].id_base, e);
	char path[SLOT_LAYER_NAME_MAX + 16], at[32];
	AUTO_FD fd = -1;

	if (userns < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/upper", r->layers[i].name);
	(void)snprintf(at, sizeof(at), "disk%zu", i);
	fd = openat(r->store, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "open layer '%s'", path);
	return mount_shifted(r->stage, at, fd, userns, e) < 0 ? -1 : overlay_add(o, r->stage, at, e);
}

/* A folder that every layer has is as the uppermost has it, which is new: it gets what the one below it had. */
static int inherit(const struct overlay *o, const char *folder, const struct stage_root *r, struct err *e)
{
	AUTO_FD upper = openat(r->dir, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (upper < 0 || fstatat(o->lowers[0], folder, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchownat(upper, folder, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(upper, folder, st.st_mode & 07777, 0) < 0)
		return err_sys(e, errno, "give the root the owner and mode that it had");
	return 0;
}

/* ---- the whole ---- */

int stage_make(const struct stage_spec *spec, struct err *e)
{
	int stage = spec->stage;

	if (mount_shifted(stage, "layers", spec->layers, spec->userns, e) < 0)
		return -1;
	if (spec->usr >= 0 && mount_shifted(stage, "usr", spec->usr, spec->userns, e) < 0)
		return -1;
	if (mount_new(stage, "proc", &(struct mount_spec){ "proc", "proc", NULL, 0, SAFE }, e) < 0 ||
	    mount_new(stage, "sys", &(struct mount_spec){ "sysfs", "sysfs", NULL, 0, MOUNT_RO | SAFE }, e) < 0)
		return -1;
	return make_dev(stage, spec->id_base, e) < 0 ? -1 : make_masks(stage, e);
}

/* ---- what all stages share ---- */

/* A mount on itself: copies of it are as restricted as it is. */
static int hide_with(int stage, const char *path, struct err *e)
{
	AUTO_FD target = openat(stage, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD fd = target < 0 ? err_sys(e, errno, "open '%s'", path) : mount_clone(target, "", false, e);

	return fd < 0 || mount_restrict(fd, MOUNT_RO | SAFE, false, e) < 0 || mount_move(fd, target, e) < 0 ? -1 : 0;
}

static int fill_shared(int stage, struct err *e)
{
	static const char *const places[] = { "root", "layers", "usr", "proc", "sys", "dev", "mask", "mask/folder" };
	AUTO_FD file = -1;

	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (make_dir(stage, places[i], e) < 0)
			return -1;
	file = openat(stage, "mask/file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
	if (file < 0 || fchmodat(stage, "mask/folder", 0, 0) < 0)
		return err_sys(e, errno, "make masks");
	return hide_with(stage, "mask/folder", e) < 0 ? -1 : hide_with(stage, "mask/file", e);
}

int stage_prepare(const char *path, struct err *e)
{
	const struct mount_option options[] = { MOUNT_TEXT("mode", "700"), MOUNT_TEXT("size", SHARED_SIZE) };
	AUTO_FD at = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD stage = -1;

	if (at < 0)
		return err_sys(e, errno, "open '%s'", path);
	stage = mount_make(&(struct mount_spec){ "tmpfs", "stage", options, 2, MOUNT_NOSUID }, e);
	if (stage < 0 || mount_move(stage, at, e) < 0)
		return -1;
	return mount_private(stage, e) < 0 ? -1 : fill_shared(stage, e);
}

int stage_find_way(const char *path, enum overlay_way *ret, struct err *e)
{
	AUTO_FD stage = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return stage < 0 ? err_sys(e, errno, "open '%s'", path) : overlay_find_way(stage, "root", ret, e);
}

/* ---- the root ---- */

/* A layer that is above as well hides all of itself down here: a path of it ends the search there, or merges with the same
 * folder. An overlay does not take a folder twice. */
static bool is_above(const struct stage_root *r, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(r->layers[k].name, r->layers[i].name) == 0)
			return true;
	return false;
}

static int add_layer(struct overlay *o, const struct stage_root *r, struct ranges *g, int layers, size_t i, struct err *e)
{
	if (is_above(r, i))
		return 0;
	return r->layers[i].is_disk ? add_disk(o, r, g, i, e) : overlay_add(o, layers, r->layers[i].name, e);
}

static int add_image(struct overlay *o, const struct stage_root *r, struct err *e)
{
	return mount_shifted(r->stage, "image", r->image, r->userns, e) < 0 ? -1 : overlay_add(o, r->stage, "image", e);
}

static int root_overlay(const struct stage_root *r, struct err *e)
{
	AUTO(ranges_done) struct ranges g = { .n = 0 };
	AUTO(overlay_done) struct overlay o = { .upper = -1, .work = -1 };
	AUTO_FD layers = open_dir(r->stage, "layers", e);

	if (layers < 0)
		return -1;
	if (r->n_layers > SLOT_LAYERS_MAX || (r->n_layers == 0 && r->image < 0))
		return err_set(e, ERR_LIMIT, "a root of %zu layers", r->n_layers);
	for (size_t i = 0; i < r->n_layers; i++)
		if (add_layer(&o, r, &g, layers, i, e) < 0)
			return -1;
	if (r->n_layers > 0 && r->layers[0].is_disk &&
	    (inherit(&o, ".", r, e) < 0 || (r->has_usr && inherit(&o, DISK_ROOT, r, e) < 0)))
		return -1;
	if ((r->image >= 0 && add_image(&o, r, e) < 0) || (r->has_usr && overlay_add(&o, r->stage, "usr", e) < 0))
		return -1;
	return overlay_upper(&o, r->dir, "upper", r->work, e) < 0 ? -1 : overlay_mount(&o, r, e);
}

/* The upper layer has real directories of these names: no symlink of an image leads elsewhere. */
static int move_into(int stage, int root, const char *name, struct err *e)
{
	AUTO_FD fd = mount_open(stage, name, e);
	AUTO_FD target = fd < 0 ? -1 : open_dir(root, name, e);

	return fd < 0 || target < 0 ? -1 : mount_move(fd, target, e);
}

/* The folder of USR that is the root, as a mount of its own. Only what has a place can be copied: USR stands above what it was
 * made from until there is a root to move it to. */
static int root_of(int stage, int usr, struct err *e)
{
	AUTO_FD at = open_dir(stage, "usr", e);

	return at < 0 || mount_move(usr, at, e) < 0 ? -1 : mount_clone(usr, DISK_ROOT, false, e);
}

/* The root is not to be seen there once more: in its place is a folder of the box that is empty, since /dev is above it. */
static int put_usr(int usr, int root, struct err *e)
{
	AUTO_FD empty = mount_clone(root, "dev", false, e);
	AUTO_FD place = empty < 0 ? -1 : open_dir(usr, DISK_ROOT, e);
	AUTO_FD target = place < 0 || mount_move(empty, place, e) < 0 ? -1 : open_dir(root, "usr", e);

	return target < 0 ? -1 : mount_move(usr, target, e);
}

int stage_make_root(const struct stage_root *r, struct err *e)
{
	AUTO_FD whole = root_overlay(r, e);
	AUTO_FD root = whole < 0 ? -1 : r->has_usr ? root_of(r->stage, whole, e) : take_fd(&whole);
	AUTO_FD target = root < 0 ? -1 : open_dir(r->stage, "root", e);

	if (target < 0 || mount_move(root, target, e) < 0 || (r->has_usr && put_usr(whole, root, e) < 0))
		return -1;
	if (move_into(r->stage, root, "proc", e) < 0 || move_into(r->stage, root, "sys", e) < 0 ||
	    move_into(r->stage, root, "dev", e) < 0)
		return -1;
	return take_fd(&root);
}

int stage_take_back(int stage, int root, struct err *e)
{
	static const char *const names[] = { "proc", "sys", "dev" };
	char path[64];
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(names); i++)
		r = move_into(root, stage, names[i], e);
	(void)close(root);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/root", stage);
	return r < 0 ? -1 : mount_detach(path, e);
}
