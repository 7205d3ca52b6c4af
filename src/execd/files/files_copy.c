// SPDX-License-Identifier: Apache-2.0
/* Copying a file or a tree to another file system, as a rename would have moved it. */
#include <dirent.h>
#include <fcntl.h>

#include "base/err.h"
#include "base/own.h"
#include "execd/files/files.h"
#include "execd/task.h"
#include "sys/fd.h"

#include "base/banned.h"

#define COPY_PIECE ((size_t)64 * 1024)

DEFINE_AUTO(DIR *, closedir)

static bool is_zero(const char *p, size_t n)
{
	return n == 0 || (p[0] == '\0' && memcmp(p, p + 1, n - 1) == 0);
}

/* A piece of zeros is left out: it becomes a hole. */
static int write_piece(int to, const char *p, size_t n, struct err *e)
{
	if (!is_zero(p, n))
		return fd_write_all(to, p, n, e);
	return lseek(to, (off_t)n, SEEK_CUR) < 0 ? err_sys(e, errno, "skip") : 0;
}

int copy_content(struct task *t, int from, int to, struct err *e)
{
	char piece[COPY_PIECE];
	off_t at = 0;
	ssize_t n;

	if (lseek(to, 0, SEEK_SET) < 0)
		return err_sys(e, errno, "seek");
	while ((n = pread(from, piece, sizeof(piece), at)) > 0) {
		at += n;
		if (task_in_time(t, e) < 0 || write_piece(to, piece, (size_t)n, e) < 0)
			return -1;
	}
	if (n < 0)
		return err_sys(e, errno, "read");
	return ftruncate(to, at) < 0 ? err_sys(e, errno, "write") : 0;
}

/* Mode, owner and times. A symlink has no mode of its own. */
static int copy_attributes(int dir, const char *name, const struct stat *st, struct err *e)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };
	const struct attr_ids mode = { .has_mode = !S_ISLNK(st->st_mode), .mode = st->st_mode & 07777 };
	AUTO_FD fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat made;

	if (fd < 0 || fstat(fd, &made) < 0)
		return err_sys(e, errno, "open '%s'", name);
	if ((made.st_mode & S_IFMT) != (st->st_mode & S_IFMT))
		return err_set(e, ERR_CONFLICT, "'%s' was changed while it was being copied", name);
	if (fchownat(fd, "", st->st_uid, st->st_gid, AT_EMPTY_PATH) < 0 && errno != EPERM)
		return err_sys(e, errno, "keep the owner");
	if (attr_apply(fd, &mode, e) < 0)
		return -1;
	return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? err_sys(e, errno, "keep the times") : 0;
}

static int copy_regular(struct task *t, int dir, const char *name, int to_dir, const char *to, struct err *e)
{
	AUTO_FD from = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	AUTO_FD out = -1;

	if (from < 0)
		return err_sys(e, errno, "open '%s'", name);
	out = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(e, errno, "create '%s'", to);
	return copy_content(t, from, out, e);
}

static int copy_link(int dir, const char *name, int to_dir, const char *to, struct err *e)
{
	char text[PATH_BYTES_MAX + 1];
	ssize_t n = readlinkat(dir, name, text, sizeof(text));

	if (n < 0 || n > PATH_BYTES_MAX)
		return err_sys(e, n < 0 ? errno : ENAMETOOLONG, "read the symlink '%s'", name);
	text[n] = '\0';
	return symlinkat(text, to_dir, to) < 0 ? err_sys(e, errno, "create '%s'", to) : 0;
}

struct copy {
	struct task *t;
	unsigned depth;
};

static int copy_one(struct copy *c, int dir, const char *name, int to_dir, const char *to, struct err *e);

static int copy_entries(struct copy *c, DIR *from, int to, struct err *e)
{
	const struct dirent *entry;

	for (errno = 0; (entry = readdir(from)); errno = 0) {
		if (str_is(str_of(entry->d_name), ".") || str_is(str_of(entry->d_name), ".."))
			continue;
		if (copy_one(c, dirfd(from), entry->d_name, to, entry->d_name, e) < 0)
			return -1;
	}
	return errno != 0 ? err_sys(e, errno, "read a directory") : 0;
}

static int copy_directory(struct copy *c, int dir, const char *name, int to_dir, const char *to, struct err *e)
{
	AUTO_FD fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD out = -1;
	AUTO(closedir) DIR *from = NULL;
	int r;

	if (c->depth == COPY_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "deeper than %d directories", COPY_DEPTH_MAX);
	from = fd < 0 ? NULL : fdopendir(fd);
	if (!from)
		return err_sys(e, errno, "open '%s'", name);
	(void)take_fd(&fd);
	if (mkdirat(to_dir, to, 0700) < 0)
		return err_sys(e, errno, "create '%s'", to);
	out = openat(to_dir, to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out < 0)
		return err_sys(e, errno, "open '%s'", to);
	c->depth++;
	r = copy_entries(c, from, out, e);
	c->depth--;
	return r;
}

static int copy_one(struct copy *c, int dir, const char *name, int to_dir, const char *to, struct err *e)
{
	struct stat st;
	int r;

	if (task_in_time(c->t, e) < 0)
		return -1;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, errno, "look at '%s'", name);
	if (S_ISREG(st.st_mode))
		r = copy_regular(c->t, dir, name, to_dir, to, e);
	else if (S_ISDIR(st.st_mode))
		r = copy_directory(c, dir, name, to_dir, to, e);
	else if (S_ISLNK(st.st_mode))
		r = copy_link(dir, name, to_dir, to, e);
	else if (S_ISFIFO(st.st_mode))
		r = mknodat(to_dir, to, S_IFIFO | 0600, 0) < 0 ? err_sys(e, errno, "create '%s'", to) : 0;
	else
		r = err_set(e, ERR_CONFLICT, "'%s' is a socket or a device and cannot be copied", name);
	return r < 0 ? -1 : copy_attributes(to_dir, to, &st, e);
}

int files_copy(struct task *t, int dir, const char *name, int to_dir, const char *to, struct err *e)
{
	struct copy c = { .t = t };
	struct err ignored = { 0 };

	if (copy_one(&c, dir, name, to_dir, to, e) == 0)
		return 0;
	t->deadline_ms = 0; /* of no use any more, but it must go */
	(void)files_remove(t, to_dir, to, &ignored);
	return -1;
}
