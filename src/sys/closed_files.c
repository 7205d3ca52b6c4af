// SPDX-License-Identifier: Apache-2.0
#include "sys/closed_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/mounts.h"

#include "base/banned.h"

struct search {
	closed_file_fn *fn;
	void *arg;
	long entries;
	char path[PATH_MAX];
};

DEFINE_AUTO(DIR *, closedir)

static bool is_open(const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return (st->st_mode & (S_IROTH | S_IXOTH)) == (S_IROTH | S_IXOTH);
	return (st->st_mode & S_IROTH) || ((st->st_mode & (S_ISUID | S_ISGID)) && (st->st_mode & S_IXOTH));
}

static int look_into(struct search *s, int fd, size_t n, unsigned depth, struct err *e);

/* The entry is s->path from N on. What is gone by now is no business of ours. */
static int look_at(struct search *s, int dir, size_t n, unsigned depth, struct err *e)
{
	const char *name = s->path + n;
	struct stat st;
	int fd;

	if (++s->entries > CLOSED_FILES_ENTRIES_MAX)
		return err_set(e, ERR_LIMIT, "more than %ld files", CLOSED_FILES_ENTRIES_MAX);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "look at '%s'", s->path);
	if (!is_open(&st))
		return s->fn(s->path, &st, s->arg, e);
	if (!S_ISDIR(st.st_mode))
		return 0;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, errno, "open '%s'", s->path);
	return look_into(s, fd, n + strlen(name), depth + 1, e);
}

/* FD is closed. The path of the folder is s->path up to N. */
static int look_into(struct search *s, int fd, size_t n, unsigned depth, struct err *e)
{
	AUTO(closedir) DIR *d = fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!d) {
		(void)err_sys(e, errno, "read a folder");
		closep(&fd);
		return -1;
	}
	if (depth > CLOSED_FILES_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "folders in folders, more than %d", CLOSED_FILES_DEPTH_MAX);
	if (n > 0)
		s->path[n++] = '/';
	while (r == 0 && (entry = readdir(d))) {
		if (entry->d_type == DT_LNK || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (snprintf(s->path + n, sizeof(s->path) - n, "%s", entry->d_name) >= (int)(sizeof(s->path) - n - 1))
			return err_set(e, ERR_LIMIT, "a path of more than %zu bytes", sizeof(s->path) - 2);
		r = look_at(s, dirfd(d), n, depth, e);
	}
	return r;
}

int closed_files_find(int dir, closed_file_fn *fn, void *arg, struct err *e)
{
	struct search s = { .fn = fn, .arg = arg };
	AUTO_FD mount = mount_clone(dir, "", false, e);
	int fd;

	if (mount < 0)
		return -1;
	fd = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, errno, "open a folder") : look_into(&s, fd, 0, 0, e);
}
