// SPDX-License-Identifier: Apache-2.0
#include "sys/tree_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/str.h"
#include "sys/tree.h"

#include "base/banned.h"

#define LINKS ".links"
#define XATTR_BYTES (64 * 1024) /* the kernel's own ceiling, of a list and of a value */
#define PIECE (16 << 20)
#define BLOCK_BYTES (64 * 1024)

/* A directory that is being copied. */
struct level {
	DIR *from;
	int to;
	struct stat st;
};

struct copier {
	struct level levels[TREE_COPY_DEPTH_MAX];
	size_t depth;
	size_t entries;
	dev_t dev;
	int links; /* a directory: files with several names, by inode, while the copy is made */
	char names[XATTR_BYTES], value[XATTR_BYTES], block[BLOCK_BYTES];
};

static void copier_free(struct copier *c)
{
	while (c->depth > 0) {
		struct level *l = &c->levels[--c->depth];

		(void)closedir(l->from);
		closep(&l->to);
	}
	closep(&c->links);
	free(c);
}
DEFINE_AUTO(struct copier *, copier_free)

/* ---- attributes ---- */

static int copy_xattr(struct copier *c, const char *from, const char *to, const char *name, struct err *e)
{
	ssize_t n = lgetxattr(from, name, c->value, sizeof(c->value));

	if (n < 0 || lsetxattr(to, name, c->value, (size_t)n, 0) < 0)
		return err_sys(e, errno, "copy the attribute '%s'", name);
	return 0;
}

static int copy_xattrs(struct copier *c, int from, int to, const char *name, struct err *e)
{
	char source[NAME_MAX + 64], target[NAME_MAX + 64];
	ssize_t n;

	(void)snprintf(source, sizeof(source), "/proc/self/fd/%d/%s", from, name); /* names are at most that long */
	(void)snprintf(target, sizeof(target), "/proc/self/fd/%d/%s", to, name);
	n = llistxattr(source, c->names, sizeof(c->names));
	if (n < 0)
		return errno == ENOTSUP ? 0 : err_sys(e, errno, "list the attributes of '%s'", name);
	for (const char *p = c->names; p < c->names + n; p += strlen(p) + 1)
		if (copy_xattr(c, source, target, p, e) < 0)
			return err_wrap(e, "'%s'", name);
	return 0;
}

/* The owner first: a change of it takes set-id bits and file capabilities away. Times last. */
static int copy_attrs(struct copier *c, int from, int to, const char *name, const struct stat *st, struct err *e)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };

	if (fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "own '%s'", name);
	if (!S_ISLNK(st->st_mode) && fchmodat(to, name, st->st_mode & 07777, 0) < 0)
		return err_sys(e, errno, "set the mode of '%s'", name);
	if (copy_xattrs(c, from, to, name, e) < 0)
		return -1;
	return utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? err_sys(e, errno, "set the times of '%s'", name) : 0;
}

/* ---- content ---- */

static bool is_unable(int sys)
{
	return sys == EXDEV || sys == EINVAL || sys == ENOSYS || sys == EOPNOTSUPP;
}

static ssize_t copy_block(struct copier *c, int in, int out, off_t at, off_t left)
{
	ssize_t n = pread(in, c->block, (size_t)MIN(left, (off_t)sizeof(c->block)), at);

	return n <= 0 ? n : pwrite(out, c->block, (size_t)n, at);
}

static int copy_range(struct copier *c, int in, int out, off_t at, off_t end, struct err *e)
{
	while (at < end) {
		off_t from = at, to = at;
		ssize_t n = copy_file_range(in, &from, out, &to, (size_t)MIN(end - at, (off_t)PIECE), 0);

		if (n < 0 && is_unable(errno))
			n = copy_block(c, in, out, at, end - at);
		if (n < 0 && errno != EINTR)
			return err_sys(e, errno, "copy");
		if (n == 0)
			return err_set(e, ERR_CONFLICT, "copy: it became shorter");
		at += n > 0 ? n : 0;
	}
	return 0;
}

/* Holes stay holes: a sandbox can make them of any size. */
static int copy_content(struct copier *c, int in, int out, off_t size, struct err *e)
{
	off_t data = 0, hole;

	if (ioctl(out, FICLONE, in) == 0)
		return 0;
	for (off_t at = 0; at < size; at = hole) {
		data = lseek(in, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;
		hole = data < 0 ? -1 : lseek(in, data, SEEK_HOLE);
		if (hole < 0)
			return err_sys(e, errno, "look for holes");
		if (copy_range(c, in, out, data, hole, e) < 0)
			return -1;
	}
	return ftruncate(out, size) < 0 ? err_sys(e, errno, "set the size") : 0;
}

static int copy_file(struct copier *c, int from, int to, const char *name, const struct stat *st, struct err *e)
{
	AUTO_FD in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	AUTO_FD out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (in < 0 || out < 0)
		return err_sys(e, errno, "copy '%s'", name);
	return copy_content(c, in, out, st->st_size, e) < 0 ? err_wrap(e, "'%s'", name) : 0;
}

static int copy_link(int from, int to, const char *name, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return err_sys(e, errno, "read the link '%s'", name);
	target[n] = '\0';
	return symlinkat(target, to, name) < 0 ? err_sys(e, errno, "make the link '%s'", name) : 0;
}

/* ---- entries ---- */

/* 1: made, 0: left out. */
static int make_entry(struct copier *c, int from, int to, const char *name, const struct stat *st, struct err *e)
{
	bool is_whiteout = S_ISCHR(st->st_mode) && st->st_rdev == 0;

	if (S_ISREG(st->st_mode))
		return copy_file(c, from, to, name, st, e) < 0 ? -1 : 1;
	if (S_ISLNK(st->st_mode))
		return copy_link(from, to, name, e) < 0 ? -1 : 1;
	if (!is_whiteout && !S_ISFIFO(st->st_mode) && !S_ISSOCK(st->st_mode))
		return 0;
	return mknodat(to, name, st->st_mode, 0) < 0 ? err_sys(e, errno, "make '%s'", name) : 1;
}

/* One of several names: the first makes the file, the others find it. */
static int copy_shared(struct copier *c, int from, int to, const char *name, const struct stat *st, struct err *e)
{
	char key[24];
	int r;

	(void)snprintf(key, sizeof(key), "%llu", (unsigned long long)st->st_ino);
	if (linkat(c->links, key, to, name, 0) == 0)
		return 0;
	if (errno != ENOENT)
		return err_sys(e, errno, "link '%s'", name);
	r = make_entry(c, from, to, name, st, e);
	if (r <= 0)
		return r;
	if (copy_attrs(c, from, to, name, st, e) < 0)
		return -1;
	return linkat(to, name, c->links, key, 0) < 0 ? err_sys(e, errno, "link '%s'", name) : 0;
}

static int enter(struct copier *c, int from, int to, const char *name, const struct stat *st, struct err *e)
{
	struct level *l = &c->levels[c->depth];
	AUTO_FD in = -1;
	AUTO_FD out = -1;

	if (c->depth == TREE_COPY_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "directories are nested more than %d deep", TREE_COPY_DEPTH_MAX);
	if (mkdirat(to, name, 0700) < 0)
		return err_sys(e, errno, "make '%s'", name);
	in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (in < 0 || out < 0)
		return err_sys(e, errno, "open '%s'", name);
	l->from = fdopendir(in);
	if (!l->from)
		return err_sys(e, errno, "read '%s'", name);
	(void)take_fd(&in);
	l->to = take_fd(&out);
	l->st = *st;
	c->depth++;
	return 0;
}

static int copy_entry(struct copier *c, int from, int to, const char *name, struct err *e)
{
	struct stat st;
	int r;

	if (++c->entries > TREE_COPY_ENTRIES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d files", TREE_COPY_ENTRIES_MAX);
	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "look at '%s'", name);
	if (st.st_dev != c->dev)
		return err_set(e, ERR_CONFLICT, "'%s' is a mount", name);
	if (S_ISDIR(st.st_mode))
		return enter(c, from, to, name, &st, e);
	if (st.st_nlink > 1)
		return copy_shared(c, from, to, name, &st, e);
	r = make_entry(c, from, to, name, &st, e);
	return r <= 0 ? r : copy_attrs(c, from, to, name, &st, e);
}

/* What is in it is complete; "." of both is the directory itself. */
static int leave(struct copier *c, struct err *e)
{
	struct level *l = &c->levels[c->depth - 1];
	int r = copy_attrs(c, dirfd(l->from), l->to, ".", &l->st, e);

	(void)closedir(l->from);
	closep(&l->to);
	c->depth--;
	return r;
}

static int step(struct copier *c, struct err *e)
{
	struct level *l = &c->levels[c->depth - 1];
	const struct dirent *entry;

	errno = 0;
	entry = readdir(l->from);
	if (!entry)
		return errno != 0 ? err_sys(e, errno, "read a directory") : leave(c, e);
	if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
		return 0;
	return copy_entry(c, dirfd(l->from), l->to, entry->d_name, e);
}

static int copy_all(struct copier *c, int from, int to, const char *name, struct err *e)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "look at '%s'", name);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' is no directory", name);
	c->dev = st.st_dev;
	if (enter(c, from, to, name, &st, e) < 0)
		return -1;
	while (c->depth > 0)
		if (step(c, e) < 0)
			return -1;
	return 0;
}

int tree_copy(int from, int to, const char *name, struct err *e)
{
	AUTO(copier_free) struct copier *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return err_no_memory(e);
	c->links = -1;
	if (mkdirat(to, LINKS, 0700) < 0)
		return err_sys(e, errno, "make '" LINKS "'");
	c->links = openat(to, LINKS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = c->links < 0 ? err_sys(e, errno, "open '" LINKS "'") : copy_all(c, from, to, name, e);
	if (tree_remove(to, LINKS, r < 0 ? &(struct err){ 0 } : e) < 0)
		r = -1;
	return r;
}
