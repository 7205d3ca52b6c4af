// SPDX-License-Identifier: Apache-2.0
/* Removing a tree whose owner may be changing it. Directories are gone into and left by "..", each return is checked against
 * the way down, so depth costs memory alone. Nothing is renamed: on an overlay a directory of a lower layer cannot be. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "execd/files/files.h"
#include "execd/task.h"

#include "base/banned.h"

#define REMOVE_DEPTH_MAX ((size_t)1024 * 1024)

struct way {
	dev_t dev;
	ino_t ino;
};

struct removal {
	struct task *t;
	DIR *dir;        /* where we are */
	struct buf ways; /* of struct way: the directories above it, the last one is its parent */
};

static void removal_done(struct removal *r)
{
	if (r->dir)
		(void)closedir(r->dir);
	buf_done(&r->ways);
}
DEFINE_AUTO_DONE(struct removal, removal_done)

/* NAME in DIR, a directory of the same mount. */
static int open_below(int dir, const char *name, struct err *e)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH,
	};
	long fd = syscall(SYS_openat2, dir, name, &how, sizeof(how));

	if (fd < 0 && errno == EXDEV)
		return err_set(e, ERR_CONFLICT, "'%s' is a mount point", name);
	return fd < 0 ? err_sys(e, errno, "open '%s'", name) : (int)fd;
}

static int stand_in(struct removal *r, int *fd, struct err *e)
{
	DIR *dir = fdopendir(*fd);

	if (!dir) {
		(void)err_sys(e, errno, "read a directory");
		return -1;
	}
	(void)take_fd(fd);
	if (r->dir)
		(void)closedir(r->dir);
	r->dir = dir;
	return 0;
}

static int go_down(struct removal *r, const char *name, struct err *e)
{
	struct err why = { 0 };
	AUTO_FD fd = open_below(dirfd(r->dir), name, &why);
	struct stat st;
	struct way way;

	if (fd < 0 && (why.sys == ENOENT || why.sys == ENOTDIR)) /* it has changed: the next look will tell */
		return 0;
	if (fd < 0) {
		*e = why;
		return -1;
	}
	if (fstat(dirfd(r->dir), &st) < 0)
		return err_sys(e, errno, "look at a directory");
	way = (struct way){ st.st_dev, st.st_ino };
	if (!buf_add(&r->ways, &way, sizeof(way)))
		return err_set(e, ERR_LIMIT, "deeper than %zu directories", REMOVE_DEPTH_MAX);
	return stand_in(r, &fd, e);
}

/* 1: we stand in the parent. 0: there is none, this is where it began. */
static int go_up(struct removal *r, struct err *e)
{
	AUTO_FD fd = -1;
	struct stat st;
	struct way way;

	if (r->ways.n == 0)
		return 0;
	memcpy(&way, r->ways.p + r->ways.n - sizeof(way), sizeof(way));
	fd = openat(dirfd(r->dir), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "go back to a directory");
	if (st.st_dev != way.dev || st.st_ino != way.ino)
		return err_set(e, ERR_CONFLICT, "a directory was moved while it was being removed");
	r->ways.n -= sizeof(way);
	return stand_in(r, &fd, e) < 0 ? -1 : 1;
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* 1: gone. 0: a directory with something in it. */
static int remove_one(int dir, const char *name, struct err *e)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 1;
	if (errno != EISDIR && errno != EPERM)
		return err_sys(e, errno, "remove '%s'", name);
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 1;
	return errno == ENOTEMPTY || errno == EEXIST ? 0 : err_sys(e, errno, "remove '%s'", name);
}

/* Removes what is here until a directory must be gone into: 1 then, 0 when nothing is left. */
static int empty_here(struct removal *r, struct err *e)
{
	const struct dirent *entry;
	void *before = r->dir;

	for (errno = 0; (entry = readdir(r->dir)); errno = 0) {
		int gone = is_dots(entry->d_name) ? 1 : remove_one(dirfd(r->dir), entry->d_name, e);

		if (gone < 0 || task_in_time(r->t, e) < 0)
			return -1;
		if (gone == 0) {
			if (go_down(r, entry->d_name, e) < 0)
				return -1;
			if (r->dir != before)
				return 1;
		}
	}
	return errno != 0 ? err_sys(e, errno, "read a directory") : 0;
}

int files_remove(struct task *t, int dir, const char *name, struct err *e)
{
	AUTO(removal_done) struct removal r = { .t = t, .ways = BUF_INIT(REMOVE_DEPTH_MAX * sizeof(struct way)) };
	AUTO_FD fd = -1;
	int n = remove_one(dir, name, e);

	if (n != 0)
		return n < 0 ? -1 : 0;
	fd = open_below(dir, name, e);
	if (fd < 0 || stand_in(&r, &fd, e) < 0)
		return -1;
	do
		n = empty_here(&r, e);
	while (n > 0 || (n == 0 && (n = go_up(&r, e)) > 0));
	if (n == 0)
		n = remove_one(dir, name, e);
	return n > 0 ? 0 : n < 0 ? -1 : err_sys(e, ENOTEMPTY, "remove '%s'", name);
}
