// SPDX-License-Identifier: Apache-2.0
#include "image/layer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "sys/path.h"

#include "base/banned.h"

#define IMPLIED_MODE 0755
#define IMPLIED_SHARED_MODE 01777

void layer_init(struct layer *l, int root, uint64_t entries_max, layer_mark_fn *mark, void *arg)
{
	*l = (struct layer){ .root = root, .parent = -1, .file = -1, .left = entries_max, .mark = mark, .mark_arg = arg };
	dir_times_init(&l->times);
}

static void forget_parent(struct layer *l)
{
	closep(&l->parent);
	l->parent = -1;
}

void layer_done(struct layer *l)
{
	forget_parent(l);
	closep(&l->file);
	l->file = -1;
	dir_times_done(&l->times);
}

int layer_finish(struct layer *l, struct err *e)
{
	return dir_times_apply(&l->times, l->root, e);
}

static int charge(struct layer *l, uint64_t n, struct err *e)
{
	if (n > l->left)
		return err_set(e, ERR_LIMIT, "more files and directories than an image may have");
	l->left -= n;
	return 0;
}

/* ---- the directory above ---- */

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

static int mark(struct layer *l, int dir, const char *name, struct err *e)
{
	AUTO_FD fd = root_open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0, e);

	return fd < 0 ? -1 : l->mark(fd, l->mark_arg, e);
}

/* A whiteout under the component of PATH from START to END becomes a directory that hides what is below it: 1. */
static int replace_at(struct layer *l, const char *path, size_t start, size_t end, struct err *e)
{
	char above[PATH_BYTES_MAX + 1] = "/", name[PATH_COMPONENT_MAX + 1];
	AUTO_FD dir = -1;
	struct stat st;

	if (start > 0) {
		memcpy(above, path, start - 1);
		above[start - 1] = '\0';
	}
	memcpy(name, path + start, end - start);
	name[end - start] = '\0';
	dir = root_open(l->root, above, O_PATH | O_DIRECTORY, 0, e);
	if (dir < 0)
		return -1;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !is_whiteout(&st))
		return 0;
	if (unlinkat(dir, name, 0) < 0 || mkdirat(dir, name, IMPLIED_MODE) < 0)
		return err_sys(e, errno, "replace a whiteout");
	return mark(l, dir, name, e) < 0 ? -1 : 1;
}

/* There is at most one on the way of PATH: nothing is below it. 1: there was. */
static int replace_whiteout(struct layer *l, const char *path, struct err *e)
{
	size_t start = 0, end;
	int k;

	do {
		end = start + strcspn(path + start, "/");
		k = replace_at(l, path, start, end, e);
		start = end + 1;
	} while (k == 0 && path[end]);
	return k;
}

/* How many directories of PATH are not there yet. What is in the way otherwise is told when they are made. */
static uint64_t count_missing(const struct layer *l, const char *path)
{
	char prefix[PATH_BYTES_MAX + 1];
	uint64_t n = 0;
	char *slash;

	memcpy(prefix, path, strlen(path) + 1);
	for (;;) {
		struct err why = { 0 };
		AUTO_FD fd = root_open(l->root, prefix, O_PATH | O_DIRECTORY, 0, &why);

		if (fd >= 0 || why.sys != ENOENT)
			return n;
		n++;
		slash = strrchr(prefix, '/');
		if (!slash)
			return n;
		*slash = '\0';
	}
}

/* What most images have with other rights than the usual ones, where a layer leaves it out. */
static mode_t implied_mode(const char *path)
{
	return strcmp(path, "tmp") == 0 || strcmp(path, "var/tmp") == 0 ? IMPLIED_SHARED_MODE : IMPLIED_MODE;
}

static int make_dirs(struct layer *l, const char *path, struct err *e)
{
	int fd;

	if (charge(l, count_missing(l, path), e) < 0 || root_mkdirs(l->root, path, IMPLIED_MODE, e) < 0)
		return -1;
	fd = root_open(l->root, path, O_RDONLY | O_DIRECTORY, 0, e);
	if (fd >= 0 && implied_mode(path) != IMPLIED_MODE && fchmod(fd, implied_mode(path)) < 0) {
		(void)err_sys(e, errno, "set the mode");
		closep(&fd);
		return -1;
	}
	return fd;
}

static int open_dir(struct layer *l, const char *path, struct err *e)
{
	int fd = root_open(l->root, path[0] ? path : "/", O_PATH | O_DIRECTORY, 0, e), k = 0;

	if (fd < 0 && e->sys == ENOTDIR)
		k = replace_whiteout(l, path, e);
	if (k > 0)
		fd = root_open(l->root, path, O_PATH | O_DIRECTORY, 0, e);
	return fd >= 0 || k < 0 || e->sys != ENOENT ? fd : make_dirs(l, path, e);
}

/* The last component of PATH; its directory is l->parent then. */
static const char *enter_parent(struct layer *l, const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	if (l->parent < 0 || strlen(l->parent_path) != n || memcmp(l->parent_path, path, n) != 0) {
		forget_parent(l);
		memcpy(l->parent_path, path, n);
		l->parent_path[n] = '\0';
		l->parent = open_dir(l, l->parent_path, e);
		if (l->parent < 0)
			return NULL;
	}
	return slash ? slash + 1 : path;
}

/* ---- making ---- */

/* Makes way for what comes under NAME. 1: what is there may stay. */
static int make_way(struct layer *l, const char *name, struct err *e)
{
	struct stat st;

	if (fstatat(l->parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "look at what is there");
	if (l->at.kind == ENTRY_WHITEOUT) {
		l->is_opaque = S_ISDIR(st.st_mode);
		return 1;
	}
	if (S_ISDIR(st.st_mode))
		return l->at.kind == ENTRY_DIR ? 1 : err_set(e, ERR_INVALID, "takes the place of a directory");
	l->is_opaque = l->at.kind == ENTRY_DIR && is_whiteout(&st);
	if (unlinkat(l->parent, name, 0) < 0)
		return err_sys(e, errno, "replace what is there");
	l->replaced = true;
	return 0;
}

static int open_file(struct layer *l, const char *name, int flags, struct err *e)
{
	l->file = root_open_beneath(l->parent, name, flags, 0600, e);
	if (l->file < 0)
		return -1;
	return fchown(l->file, l->at.uid, l->at.gid) < 0 ? err_sys(e, errno, "set the owner") : 0;
}

static int make_dir(struct layer *l, const char *name, bool is_there, struct err *e)
{
	if (!is_there && mkdirat(l->parent, name, 0700) < 0)
		return err_sys(e, errno, "make a directory");
	if (l->is_opaque && mark(l, l->parent, name, e) < 0)
		return -1;
	return open_file(l, name, O_RDONLY | O_DIRECTORY, e) < 0 ? -1 : dir_times_note(&l->times, &l->at, e);
}

static int make_whiteout(struct layer *l, const char *name, bool is_there, struct err *e)
{
	if (l->is_opaque)
		return mark(l, l->parent, name, e);
	if (!is_there && mknodat(l->parent, name, S_IFCHR, 0) < 0)
		return err_sys(e, errno, "make a whiteout");
	return 0;
}

/* Of NAME below DIR, or of DIR itself when it is NULL. */
static int set_times(int dir, const char *name, const struct entry *en, struct err *e)
{
	const struct timespec both[2] = { { en->mtime_s, en->mtime_ns }, { en->mtime_s, en->mtime_ns } };
	int k = name ? utimensat(dir, name, both, AT_SYMLINK_NOFOLLOW) : futimens(dir, both);

	return k < 0 ? err_sys(e, errno, "set its time") : 0;
}

/* What is not opened: symlinks and FIFOs, just made under NAME. */
static int finish_node(const struct layer *l, const char *name, struct err *e)
{
	if (fchownat(l->parent, name, l->at.uid, l->at.gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "set the owner");
	if (l->at.kind == ENTRY_FIFO && fchmodat(l->parent, name, l->at.mode, 0) < 0)
		return err_sys(e, errno, "set the mode");
	return set_times(l->parent, name, &l->at, e);
}

static int make_symlink(const struct layer *l, const char *name, struct err *e)
{
	if (symlinkat(l->at.target, l->parent, name) < 0)
		return err_sys(e, errno, "make a symlink");
	return finish_node(l, name, e);
}

static int make_fifo(const struct layer *l, const char *name, struct err *e)
{
	if (mknodat(l->parent, name, S_IFIFO | 0600, 0) < 0)
		return err_sys(e, errno, "make a FIFO");
	return finish_node(l, name, e);
}

/* I3: to a regular file, on a way without symlinks. Nobody but us changes anything here between look and link. */
static int make_hardlink(const struct layer *l, const char *name, struct err *e)
{
	const char *slash = strrchr(l->at.target, '/'), *last = slash ? slash + 1 : l->at.target;
	char above[PATH_BYTES_MAX + 1] = ".";
	AUTO_FD dir = -1;
	struct stat st;

	if (slash) {
		memcpy(above, l->at.target, (size_t)(slash - l->at.target));
		above[slash - l->at.target] = '\0';
	}
	dir = root_open_beneath(l->root, above, O_PATH | O_DIRECTORY, 0, e);
	if (dir < 0)
		return err_wrap(e, "a hard link");
	if (fstatat(dir, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "what it is a hard link to");
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "a hard link to what is no regular file");
	return linkat(dir, last, l->parent, name, 0) < 0 ? err_sys(e, errno, "make a hard link") : 0;
}

static int make_kind(struct layer *l, const char *name, bool is_there, struct err *e)
{
	switch (l->at.kind) {
	case ENTRY_FILE: return open_file(l, name, O_WRONLY | O_CREAT | O_EXCL, e);
	case ENTRY_DIR: return make_dir(l, name, is_there, e);
	case ENTRY_SYMLINK: return make_symlink(l, name, e);
	case ENTRY_HARDLINK: return make_hardlink(l, name, e);
	case ENTRY_FIFO: return make_fifo(l, name, e);
	case ENTRY_WHITEOUT: return make_whiteout(l, name, is_there, e);
	case ENTRY_OPAQUE:
	case ENTRY_DEVICE:
	case ENTRY_UNKNOWN: break;
	}
	return err_set(e, ERR_INTERNAL, "an entry that entry_check() has not passed");
}

static int make_opaque(struct layer *l, const char *path, struct err *e)
{
	AUTO_FD dir = open_dir(l, path, e);

	return dir < 0 ? -1 : mark(l, dir, ".", e);
}

/* The root has its own owner and mode from whoever mounts it. */
static int layer_make(void *arg, const struct entry *en, struct err *e)
{
	struct layer *l = arg;
	const char *name;
	int k;

	l->at = *en;
	l->is_opaque = false;
	if (!en->path[0])
		return 0;
	if (en->kind == ENTRY_OPAQUE)
		return make_opaque(l, en->path, e);
	name = enter_parent(l, en->path, e);
	if (!name)
		return -1;
	k = make_way(l, name, e);
	if (k < 0 || (k == 0 && charge(l, 1, e) < 0) || make_kind(l, name, k > 0, e) < 0)
		return -1;
	return 0;
}

/* ---- its content ---- */

static int layer_attr(void *arg, const char *name, const void *value, size_t n, struct err *e)
{
	struct layer *l = arg;

	if (l->file < 0) /* the kernel has these on files and directories alone */
		return 0;
	return fsetxattr(l->file, name, value, n, 0) < 0 ? err_sys(e, errno, "set an attribute") : 0;
}

static int layer_data(void *arg, const void *p, size_t n, uint64_t at, struct err *e)
{
	struct layer *l = arg;
	const char *from = p;

	while (n > 0) {
		ssize_t k = pwrite(l->file, from, n, (off_t)at);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return err_sys(e, k < 0 ? errno : EIO, "write");
		from += k;
		at += (uint64_t)k;
		n -= (size_t)k;
	}
	return 0;
}

/* The mode comes last: writing and a new owner would take set-id bits away. */
static int finish_file(struct layer *l, struct err *e)
{
	if (l->at.kind == ENTRY_FILE && ftruncate(l->file, (off_t)l->at.size) < 0)
		return err_sys(e, errno, "set the size");
	if (fchmod(l->file, l->at.mode) < 0)
		return err_sys(e, errno, "set the mode");
	return l->at.kind == ENTRY_FILE ? set_times(l->file, NULL, &l->at, e) : 0;
}

static int layer_end(void *arg, struct err *e)
{
	struct layer *l = arg;
	int r = l->file < 0 ? 0 : finish_file(l, e);

	closep(&l->file);
	l->file = -1;
	if (l->replaced)
		forget_parent(l);
	l->replaced = false;
	return r;
}

const struct tar_sink layer_sink = { .make = layer_make, .attr = layer_attr, .data = layer_data, .end = layer_end };
