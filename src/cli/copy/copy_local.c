// SPDX-License-Identifier: Apache-2.0
#include "cli/copy/copy_local.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/random.h"
#include "cli/copy/copy.h"
#include "sys/path.h"

#include "base/banned.h"

DEFINE_AUTO(DIR *, closedir)

/* ---- reading ---- */

static int list_link(int dir, const char *name, struct copy_list *l, struct str path, struct err *e)
{
	char target[PATH_BYTES_MAX + 1];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));

	if (n < 0 || (size_t)n >= sizeof(target))
		return err_sys(e, n < 0 ? errno : ENAMETOOLONG, "read the link '%s'", SHOWN(path));
	if (copy_list_add(l, COPY_LINK, path, 0, 0777, e) < 0)
		return -1;
	return copy_list_set_target(l, &l->items[l->n - 1], (struct str){ target, (size_t)n }, e);
}

static int list_dir(int fd, struct buf *path, unsigned depth, struct copy_list *l, struct err *e);

static int list_entry(int dir, const char *name, struct buf *path, unsigned depth, struct copy_list *l, struct err *e)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "look at '%s'", SHOWN(buf_str(path))); /* gone meanwhile */
	if (S_ISLNK(st.st_mode))
		return list_link(dir, name, l, buf_str(path), e);
	if (S_ISREG(st.st_mode))
		return copy_list_add(l, COPY_FILE, buf_str(path), (uint64_t)st.st_size, st.st_mode & 0777, e);
	if (!S_ISDIR(st.st_mode)) {
		l->n_skipped++;
		return 0;
	}
	if (copy_list_add(l, COPY_DIR, buf_str(path), 0, st.st_mode & 0777, e) < 0)
		return -1;
	return list_dir(openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), path, depth + 1, l, e);
}

/* Takes FD. As deep as COPY_DEPTH_MAX, with a descriptor for each level. */
static int list_dir(int fd, struct buf *path, unsigned depth, struct copy_list *l, struct err *e)
{
	AUTO(closedir) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;
	size_t n = path->n;

	if (!dir) {
		int why = errno;

		if (fd >= 0)
			(void)close(fd);
		return err_sys(e, why, "open the folder '%s'", SHOWN(buf_str(path)));
	}
	while ((errno = 0, d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		buf_addf(path, "%s%s", n > 0 ? "/" : "", d->d_name);
		if (path->failed)
			return err_set(e, ERR_LIMIT, "a path of more than %d bytes", PATH_BYTES_MAX);
		if (list_entry(dirfd(dir), d->d_name, path, depth, l, e) < 0)
			return -1;
		path->n = n;
	}
	return errno ? err_sys(e, errno, "read the folder '%s'", SHOWN(buf_str(path))) : 0;
}

int copy_local_list(int dirfd, struct copy_list *l, struct err *e)
{
	AUTO(buf_done) struct buf path = BUF_INIT(PATH_BYTES_MAX + 1);

	return list_dir(openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), &path, 0, l, e);
}

int copy_local_read(int dirfd, const char *path, struct err *e)
{
	AUTO_FD fd = root_open_beneath(dirfd, path, O_RDONLY, 0, e);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' is no file any more", SHOWN(str_of(path)));
	return take_fd(&fd);
}

/* ---- writing ---- */

int copy_local_top(const char *path, struct err *e)
{
	AUTO_FD at = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD top = -1;
	char part[PATH_COMPONENT_MAX + 1];
	struct str rest = str_of(path), name;

	while (at >= 0 && rest.n > 0) {
		int next;

		(void)str_cut(rest, '/', &name, &rest);
		if (name.n == 0)
			continue;
		if (name.n > PATH_COMPONENT_MAX)
			return err_sys(e, ENAMETOOLONG, "'%s'", SHOWN(name));
		memcpy(part, name.p, name.n);
		part[name.n] = '\0';
		if (mkdirat(at, part, 0777) < 0 && errno != EEXIST)
			return err_sys(e, errno, "make the folder '%s'", SHOWN(str_of(path)));
		next = openat(at, part, O_PATH | O_DIRECTORY | O_CLOEXEC); /* the person's own path: links are followed */
		closep(&at);
		at = next;
	}
	top = at < 0 ? -1 : openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return top < 0 ? err_sys(e, errno, "open the folder '%s'", SHOWN(str_of(path))) : take_fd(&top);
}

/* The folder that PATH is in; *ret_name: its last component. */
static int open_parent(int dirfd, const char *path, const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char above[PATH_BYTES_MAX + 1];

	*ret_name = slash ? slash + 1 : path;
	if (!slash)
		return root_open_beneath(dirfd, ".", O_RDONLY | O_DIRECTORY, 0, e);
	if ((size_t)(slash - path) >= sizeof(above))
		return err_sys(e, ENAMETOOLONG, "'%s'", SHOWN(str_of(path)));
	memcpy(above, path, (size_t)(slash - path));
	above[slash - path] = '\0';
	return root_open_beneath(dirfd, above, O_RDONLY | O_DIRECTORY, 0, e);
}

int copy_local_mkdir(int dirfd, const char *path, struct err *e)
{
	const char *name;
	AUTO_FD parent = open_parent(dirfd, path, &name, e);
	struct stat st;

	if (parent < 0)
		return -1;
	if (mkdirat(parent, name, 0700) == 0)
		return 1;
	if (errno != EEXIST)
		return err_sys(e, errno, "make the folder '%s'", SHOWN(str_of(path)));
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
		return 0;
	return err_set(e, ERR_CONFLICT, "'%s' is there, and is no folder", SHOWN(str_of(path)));
}

int copy_local_chmod(int dirfd, const char *path, unsigned mode, struct err *e)
{
	AUTO_FD fd = root_open_beneath(dirfd, path, O_RDONLY | O_DIRECTORY, 0, e);

	if (fd < 0)
		return -1;
	return fchmod(fd, mode & 0777) < 0 ? err_sys(e, errno, "set the mode of '%s'", SHOWN(str_of(path))) : 0;
}

int copy_local_link(int dirfd, const char *path, const char *target, struct err *e)
{
	const char *name;
	AUTO_FD parent = open_parent(dirfd, path, &name, e);

	if (parent < 0)
		return -1;
	if (symlinkat(target, parent, name) == 0)
		return 0;
	if (errno == EEXIST && unlinkat(parent, name, 0) == 0 && symlinkat(target, parent, name) == 0)
		return 0;
	return err_sys(e, errno, "make the link '%s'", SHOWN(str_of(path)));
}

/* ---- files ---- */

int landing_open(struct landing *l, int dirfd, const char *path, struct err *e)
{
	AUTO(landing_done) struct landing new = LANDING_INIT;
	const char *name;
	uint64_t number;

	new.dir = open_parent(dirfd, path, &name, e);
	if (new.dir < 0 || random_bytes(&number, sizeof(number), e) < 0)
		return -1;
	if (snprintf(new.name, sizeof(new.name), "%s", name) >= (int)sizeof(new.name))
		return err_sys(e, ENAMETOOLONG, "'%s'", SHOWN(str_of(name)));
	(void)snprintf(new.temp, sizeof(new.temp), ".osb-%016llx", (unsigned long long)number);
	new.fd = openat(new.dir, new.temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (new.fd < 0)
		return err_sys(e, errno, "make '%s'", SHOWN(str_of(path)));
	*l = new;
	new = LANDING_INIT;
	return 0;
}

int landing_land(struct landing *l, unsigned mode, struct err *e)
{
	if (fchmod(l->fd, mode & 0777) < 0)
		return err_sys(e, errno, "set the mode of '%s'", SHOWN(str_of(l->name)));
	if (renameat(l->dir, l->temp, l->dir, l->name) < 0)
		return err_sys(e, errno, "put '%s' in its place", SHOWN(str_of(l->name)));
	closep(&l->fd);
	l->fd = -1;
	landing_done(l);
	return 0;
}

void landing_done(struct landing *l)
{
	if (l->fd >= 0)
		(void)unlinkat(l->dir, l->temp, 0); /* a leftover is all that there is to fear */
	closep(&l->fd);
	closep(&l->dir);
	*l = LANDING_INIT;
}
