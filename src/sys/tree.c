// SPDX-License-Identifier: Apache-2.0
#include "sys/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "base/kill_point.h"
#include "base/own.h"

#include "base/banned.h"

/* A directory that is not empty is moved up beside the top before it is looked into, so that no path gets long and no
 * stack deep: the depth of a hostile tree costs a rename for each directory, nothing else. */
struct removal {
	int top;           /* the directory whose content goes */
	unsigned long seq; /* for the names of what was moved up */
};

DEFINE_AUTO(DIR *, closedir)

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static DIR *open_entries(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		closep(&fd);
	return d;
}

/* Moves NAME of DIR into the top, under a name that is free. */
static int move_up(struct removal *r, int dir, const char *name)
{
	char to[40];
	int rc;

	do {
		(void)snprintf(to, sizeof(to), ".gone-%lu", r->seq++);
		rc = (int)syscall(SYS_renameat2, dir, name, r->top, to, RENAME_NOREPLACE); /* musl has no function for it */
	} while (rc < 0 && errno == EEXIST);
	return rc;
}

/* Everything in D goes, or is moved up. */
static int empty_one(struct removal *r, DIR *d, struct err *e)
{
	const struct dirent *entry;

	while ((entry = readdir(d))) {
		if (is_dots(entry->d_name) || unlinkat(dirfd(d), entry->d_name, 0) == 0 ||
		    unlinkat(dirfd(d), entry->d_name, AT_REMOVEDIR) == 0)
			continue;
		if (errno == ENOTEMPTY && move_up(r, dirfd(d), entry->d_name) == 0)
			continue;
		return err_sys(e, errno, "remove '%s'", entry->d_name);
	}
	return 0;
}

/* One round over the top: each directory in it is emptied and removed. 1: there may be more, 0: it is empty. */
static int empty_top(struct removal *r, struct err *e)
{
	AUTO(closedir) DIR *top = open_entries(r->top, ".");
	const struct dirent *entry;
	int found = 0;

	if (!top)
		return err_sys(e, errno, "read a directory");
	while ((entry = readdir(top))) {
		AUTO(closedir) DIR *d = NULL;

		if (is_dots(entry->d_name))
			continue;
		found = 1;
		KILL_POINT("warden.destroy.half_removed");
		if (unlinkat(r->top, entry->d_name, 0) == 0 || unlinkat(r->top, entry->d_name, AT_REMOVEDIR) == 0)
			continue;
		if (errno != ENOTEMPTY)
			return err_sys(e, errno, "remove '%s'", entry->d_name);
		d = open_entries(r->top, entry->d_name);
		if (!d || empty_one(r, d, e) < 0)
			return d ? -1 : err_sys(e, errno, "open '%s'", entry->d_name);
	}
	return found;
}

int tree_remove(int dirfd, const char *name, struct err *e)
{
	AUTO_FD top = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct removal r = { .top = top };
	int n;

	if (top < 0 && errno == ENOENT)
		return 0;
	if (top < 0 && unlinkat(dirfd, name, 0) == 0)
		return 0;
	if (top < 0)
		return err_sys(e, errno, "open '%s'", name);
	do
		n = empty_top(&r, e);
	while (n > 0);
	if (n < 0)
		return err_wrap(e, "remove '%s'", name);
	KILL_POINT("warden.destroy.emptied");
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? err_sys(e, errno, "remove '%s'", name) : 0;
}
