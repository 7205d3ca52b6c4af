// SPDX-License-Identifier: Apache-2.0
#include "box/volume.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/escape.h"
#include "base/hex.h"
#include "base/kill_point.h"
#include "base/own.h"
#include "base/random.h"
#include "base/str.h"
#include "base/uuid.h"
#include "box/store.h"
#include "box/wire.h"
#include "sys/caps.h"
#include "sys/mounts.h"
#include "sys/path.h"
#include "sys/userns.h"

#include "base/banned.h"

#define ABOVE_MAX 1024 /* folders between a volume and the root of the host */
#define MADE_MODE 0755
#define VOLUME "vol-"
#define BEING_MADE "new-vol-"
#define BEING_REMOVED "gone-vol-"
#define DATA "data"
#define NAME_SIZE 96

DEFINE_AUTO(DIR *, closedir)

static int refuse(struct err *e, enum wire_volume_fault fault, const char *what)
{
	(void)err_set(e, ERR_INVALID, "%s", what);
	e->sys = (int)fault;
	return -1;
}

/* ---- as somebody else ---- */

struct guise {
	bool is_on;
	mode_t umask;
};

static void guise_off(struct guise *g)
{
	if (!g->is_on)
		return;
	(void)setfsuid(0); /* which makes root's rights effective again */
	(void)setfsgid(0);
	(void)umask(g->umask);
}
DEFINE_AUTO_DONE(struct guise, guise_off)

/* What is made belongs to these from birth: there is no moment at which somebody could exchange it before a chown. Rights
 * stay as they are. */
static int guise_on(struct guise *g, uid_t uid, gid_t gid, struct err *e)
{
	g->is_on = true;
	g->umask = umask(0);
	(void)setfsgid(gid);
	(void)setfsuid(uid);
	return caps_regain(e);
}

/* ---- what must not be a volume ---- */

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether the folder FD is the one that WANT is of, or in it: 1 or 0. By what they are, not by their paths. */
static int is_within(int fd, const struct stat *want, struct err *e)
{
	AUTO_FD at = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	struct stat st, before = { 0 };

	for (unsigned i = 0; at >= 0 && i < ABOVE_MAX; i++) {
		int above;

		if (fstat(at, &st) < 0)
			break;
		if (is_same(&st, want))
			return 1;
		if (is_same(&st, &before)) /* the root is its own parent */
			return 0;
		before = st;
		above = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		closep(&at);
		at = above;
	}
	return err_sys(e, errno, "look at what is above a volume");
}

static int refuse_ours(struct err *e)
{
	return refuse(e, WIRE_FAULT_HOST_PATH, "a volume must not hold the server's own files");
}

/* A sandbox that could read or write our own files would be the host's root, and everybody else. */
static int check_apart(int fd, int state, struct err *e)
{
	struct stat st, ours;
	int r;

	if (fstat(fd, &st) < 0 || fstat(state, &ours) < 0)
		return err_sys(e, errno, "look at a volume");
	r = is_within(fd, &ours, e);
	if (r == 0)
		r = is_within(state, &st, e);
	return r > 0 ? refuse_ours(e) : r;
}

/* ---- the way down ---- */

struct way {
	int at;    /* where we are; owned */
	int state; /* our own folder, to make nothing in it; -1: we may */
	enum wire_volume_fault denied, failed;
};

static void way_done(struct way *w)
{
	closep(&w->at);
	closep(&w->state);
}
DEFINE_AUTO_DONE(struct way, way_done)

/* For the owner of what it is made in. */
static int make_folder(const struct way *w, const char *name, struct err *e)
{
	AUTO(guise_off) struct guise g = { 0 };
	struct stat st, ours;
	int r;

	if (w->state >= 0) {
		r = fstat(w->state, &ours) < 0 ? err_sys(e, errno, "look at our own folder") : is_within(w->at, &ours, e);
		if (r != 0)
			return r > 0 ? refuse_ours(e) : -1;
	}
	if (fstat(w->at, &st) < 0 || guise_on(&g, st.st_uid, st.st_gid, e) < 0 ||
	    (mkdirat(w->at, name, MADE_MODE) < 0 && errno != EEXIST))
		return refuse(e, w->failed, "a folder on the way to a volume cannot be made");
	return 0;
}

/* One component, which is no symlink; a folder unless it is the last. */
static int step(struct way *w, const char *name, bool is_last, struct err *e)
{
	int flags = O_PATH | (is_last ? 0 : O_DIRECTORY), fd;
	struct err why = { 0 };

	fd = root_open_beneath(w->at, name, flags, 0, &why);
	if (fd < 0 && why.sys == ENOENT) {
		if (make_folder(w, name, e) < 0)
			return -1;
		fd = root_open_beneath(w->at, name, flags, 0, &why);
	}
	if (fd < 0)
		return refuse(e, w->denied, why.sys == ELOOP   ? "a symlink is on the way to a volume" :
					    why.sys == ENOTDIR ? "what is on the way to a volume is no folder" :
								 "a volume cannot be opened");
	if (is_last && w->state >= 0) { /* of a file the folder is what tells */
		struct stat st;

		if (fstat(fd, &st) < 0 || (S_ISREG(st.st_mode) && check_apart(w->at, w->state, e) < 0)) {
			(void)close(fd);
			return refuse_ours(e);
		}
	}
	closep(&w->at);
	w->at = fd;
	return 0;
}

static int go_down(struct way *w, const char *path, struct err *e)
{
	struct str rest = str_of(path), word;
	char name[PATH_COMPONENT_MAX + 1];

	while (rest.n > 0) {
		bool has_more = str_cut(rest, '/', &word, &rest);

		if (word.n == 0 || word.n > PATH_COMPONENT_MAX)
			return refuse(e, w->denied, "a path of a volume is not as it should be");
		memcpy(name, word.p, word.n);
		name[word.n] = '\0';
		if (step(w, name, !has_more, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- opening ---- */

/* Its mount, with the ids that USERNS maps. */
static int clone_mount(int fd, int userns, bool is_read_only, struct err *e)
{
	AUTO_FD mount = mount_clone(fd, "", false, e);
	unsigned attrs = MOUNT_NOSUID | MOUNT_NODEV | (is_read_only ? MOUNT_RO : 0);

	if (mount < 0 || mount_private(mount, e) < 0 || mount_restrict(mount, attrs, false, e) < 0)
		return -1;
	if (mount_idmap(mount, userns, false, e) < 0)
		return refuse(e, WIRE_FAULT_IDS, "the file system of a volume cannot show it with the ids of the sandbox");
	return take_fd(&mount);
}

/* A folder or a file. */
static int look(int fd, enum wire_volume_fault denied, struct stat *ret, struct err *e)
{
	if (fstat(fd, ret) < 0)
		return err_sys(e, errno, "look at a volume");
	if (!S_ISDIR(ret->st_mode) && !S_ISREG(ret->st_mode))
		return refuse(e, denied, "a volume is neither a folder nor a file");
	return 0;
}

static int open_host(const struct volume_spec *spec, struct err *e)
{
	AUTO(way_done) struct way w = { .at = -1, .state = -1, .denied = WIRE_FAULT_HOST_PATH, .failed = WIRE_FAULT_HOST_CREATE };
	AUTO_FD userns = -1;
	struct stat st;

	w.state = open(spec->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w.state < 0)
		return err_sys(e, errno, "open '%s'", spec->state_dir);
	w.at = open(spec->prefix, O_PATH | O_DIRECTORY | O_CLOEXEC); /* the operator's own words: symlinks are followed */
	if (w.at < 0)
		return refuse(e, WIRE_FAULT_HOST_CREATE, "a folder that the operator has listed is not there");
	if (go_down(&w, spec->volume->path, e) < 0 || look(w.at, w.denied, &st, e) < 0 ||
	    (S_ISDIR(st.st_mode) && check_apart(w.at, w.state, e) < 0))
		return -1;
	userns = userns_make_for_owner(spec->id_base, st.st_uid, st.st_gid, VOLUME_ID_BASE, e);
	return userns < 0 ? -1 : clone_mount(w.at, userns, spec->volume->is_read_only, e);
}

static int open_named(const struct volume_spec *spec, struct err *e)
{
	AUTO(way_done) struct way w = { .at = -1, .state = -1, .denied = WIRE_FAULT_SUB_PATH, .failed = WIRE_FAULT_SUB_PATH };
	AUTO_FD userns = -1;
	char path[sizeof(VOLUME) + WIRE_ID_SIZE + sizeof("/" DATA)];
	struct stat st;

	(void)snprintf(path, sizeof(path), VOLUME "%s/" DATA, spec->volume->id);
	w.at = root_open_beneath(spec->store->disks, path, O_PATH | O_DIRECTORY, 0, e);
	if (w.at < 0)
		return e->sys == ENOENT ? refuse(e, WIRE_FAULT_NO_VOLUME, "a volume is not there any more") : -1;
	if (go_down(&w, spec->volume->path, e) < 0 || look(w.at, w.denied, &st, e) < 0)
		return -1;
	userns = userns_make(-1, spec->id_base, e);
	return userns < 0 ? -1 : clone_mount(w.at, userns, spec->volume->is_read_only, e);
}

int volume_open(const struct volume_spec *spec, struct err *e)
{
	return spec->volume->kind == WIRE_VOLUME_HOST ? open_host(spec, e) : open_named(spec, e);
}

/* ---- named ones ---- */

static int random_name(const char *prefix, char ret[NAME_SIZE], struct err *e)
{
	unsigned char unique[8];
	char hex[2 * sizeof(unique) + 1];

	if (random_bytes(unique, sizeof(unique), e) < 0)
		return -1;
	hex_encode(hex, unique, sizeof(unique));
	(void)snprintf(ret, NAME_SIZE, "%s%s", prefix, hex);
	return 0;
}

static void name_of(const char *id, char ret[NAME_SIZE])
{
	(void)snprintf(ret, NAME_SIZE, VOLUME "%s", id);
}

static bool is_there(const struct box_store *s, const char *name)
{
	struct stat st;

	return fstatat(s->disks, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int write_down(const struct box_store *s, struct err *e)
{
	return fsync(s->disks) < 0 ? err_sys(e, errno, "write a volume to the disk") : 0;
}

static int fill(const struct box_store *s, const char *temp, uint64_t limit_bytes, struct err *e)
{
	AUTO_FD disk = box_disk_make(s, temp, limit_bytes, e);

	if (disk < 0)
		return -1;
	KILL_POINT("warden.volume.made");
	if (mkdirat(disk, DATA, 0700) < 0 || fchmodat(disk, DATA, MADE_MODE, 0) < 0 || syncfs(disk) < 0)
		return err_sys(e, errno, "fill a new volume");
	return 0;
}

int volume_make(const struct box_store *s, const char *id, uint64_t limit_bytes, struct err *e)
{
	char name[NAME_SIZE], temp[NAME_SIZE];

	name_of(id, name);
	if (is_there(s, name))
		return write_down(s, e);
	if (limit_bytes > 0 && !box_store_has_limits(s))
		return box_disk_limit(s, name, limit_bytes, e); /* gives the reason */
	if (box_store_has_limits(s) && (limit_bytes < STORE_LIMIT_MIN || limit_bytes > STORE_LIMIT_MAX))
		return err_set(e, ERR_INVALID, "a limit that cannot be set");
	if (random_name(BEING_MADE, temp, e) < 0)
		return -1;
	if (fill(s, temp, limit_bytes, e) < 0) {
		(void)box_disk_remove(s, temp, &(struct err){ 0 }); /* the next sweep tries again */
		return -1;
	}
	if (renameat(s->disks, temp, s->disks, name) < 0) {
		(void)err_sys(e, errno, "name a volume");
		(void)box_disk_remove(s, temp, &(struct err){ 0 });
		return is_there(s, name) ? write_down(s, e) : -1; /* somebody else was faster */
	}
	KILL_POINT("warden.volume.named");
	return write_down(s, e);
}

const char *volume_id_of(const char *name)
{
	struct str s = str_of(name);

	return str_starts(s, STR(VOLUME)) && id_valid(str_skip(s, sizeof(VOLUME) - 1)) ? name + sizeof(VOLUME) - 1 : NULL;
}

/* By another name first: whatever happens, it is never taken for a volume again. The name tells of the id, so who asks again
 * after a failure finds what is left, and is told that it is gone when it is. */
int volume_remove(const struct box_store *s, const char *id, struct err *e)
{
	char name[NAME_SIZE], gone[NAME_SIZE];

	name_of(id, name);
	(void)snprintf(gone, sizeof(gone), BEING_REMOVED "%s", id);
	if (is_there(s, gone) && box_disk_remove(s, gone, e) < 0)
		return -1;
	if (renameat(s->disks, name, s->disks, gone) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "take a volume away");
	KILL_POINT("warden.volume.taken");
	if (write_down(s, e) < 0)
		return -1;
	return box_disk_remove(s, gone, e);
}

int volumes_sweep(const struct box_store *s, int64_t before_us, struct err *e)
{
	AUTO(closedir) DIR *d = opendir(s->disks_path);
	const struct dirent *entry;
	int r = 0;

	if (!d)
		return err_sys(e, errno, "open '%s'", s->disks_path);
	while ((entry = readdir(d))) {
		struct str name = str_of(entry->d_name);

		if ((str_starts(name, STR(BEING_MADE)) || str_starts(name, STR(BEING_REMOVED))) &&
		    box_store_is_older(dirfd(d), entry->d_name, before_us) && box_disk_remove(s, entry->d_name, e) < 0)
			r = -1;
	}
	return r;
}

/* ---- in the box's child ---- */

static int refuse_place(struct err *e, const char *path, const char *why)
{
	(void)err_set(e, ERR_INVALID, "mount path '%s': %s", SHOWN(str_of(path)), why);
	e->sys = WIRE_FAULT_MOUNT_PATH;
	return -1;
}

/* The file systems that no volume is put on: symlinks of an image or of another volume may lead there. */
static bool is_staged(int root, int stage, const struct stat *target)
{
	static const char *const names[] = { "proc", "sys", "dev", "dev/pts", "dev/shm", "dev/mqueue" };
	struct stat st;

	if (fstat(stage, &st) < 0 || st.st_dev == target->st_dev) /* masks are of it */
		return true;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (fstatat(root, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev == target->st_dev)
			return true;
	return false;
}

static int make_file(int root, const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char above[WIRE_PATH_SIZE];
	int fd;

	(void)snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
	if (above[0] && root_mkdirs(root, above, MADE_MODE, e) < 0)
		return -1;
	fd = root_open(root, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644, e);
	if (fd < 0)
		return e->sys == EEXIST ? 0 : -1;
	(void)close(fd);
	return 0;
}

static int make_target(int root, const char *path, bool is_folder, uint64_t id_base, struct err *e)
{
	AUTO(guise_off) struct guise g = { 0 };
	struct err why = { 0 };

	if (guise_on(&g, (uid_t)id_base, (gid_t)id_base, e) < 0)
		return -1;
	if ((is_folder ? root_mkdirs(root, path, MADE_MODE, &why) : make_file(root, path, &why)) < 0)
		return refuse_place(e, path, why.sys == EROFS ? "it would have to be made in a volume that is read-only" :
								"it cannot be made");
	return 0;
}

int volume_place(int root, int stage, int mount, const char *path, uint64_t id_base, struct err *e)
{
	AUTO_FD target = -1;
	struct stat what, where, top;
	struct err why = { 0 };

	if (fstat(mount, &what) < 0 || fstat(root, &top) < 0)
		return err_sys(e, errno, "look at a volume");
	target = root_open(root, path, O_PATH, 0, &why);
	if (target < 0) {
		if (make_target(root, path, S_ISDIR(what.st_mode), id_base, e) < 0)
			return -1;
		target = root_open(root, path, O_PATH, 0, &why);
	}
	if (target < 0 || fstat(target, &where) < 0)
		return refuse_place(e, path, "it cannot be opened");
	if (S_ISDIR(what.st_mode) != S_ISDIR(where.st_mode) || (!S_ISDIR(where.st_mode) && !S_ISREG(where.st_mode)))
		return refuse_place(e, path, S_ISDIR(what.st_mode) ? "it is no folder" : "it is no file");
	if (is_same(&where, &top) || is_staged(root, stage, &where))
		return refuse_place(e, path, "it leads to the root, or to /proc, /sys or /dev");
	return mount_move(mount, target, e) < 0 ? err_wrap(e, "mount a volume") : 0;
}
