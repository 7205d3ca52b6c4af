// SPDX-License-Identifier: Apache-2.0
#include "cli/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/fd.h"

#include "base/banned.h"

#define MODE_NEW 0644

int config_file_read(const char *path, struct buf *b, struct err *e)
{
	struct err why = { 0 };

	if (fd_read_file(AT_FDCWD, path, b->max, b, &why) == 0 || why.sys == ENOENT || why.sys == ENOTDIR)
		return 0;
	*e = why;
	return -1;
}

static int make_folders(const char *path, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(PATH_MAX);

	if (!buf_add_str(&b, str_of(path)))
		return err_set(e, ERR_LIMIT, "'%s' is too long", path);
	for (char *p = b.p + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(b.p, 0755) < 0 && errno != EEXIST)
			return err_sys(e, errno, "make folder '%s'", b.p);
		*p = '/';
	}
	return 0;
}

/* Splits a path into an open folder and a name in it. */
static int open_folder(const char *path, const char **ret_name, struct err *e)
{
	AUTO(buf_done) struct buf folder = BUF_INIT(PATH_MAX);
	const char *slash = strrchr(path, '/');
	int fd;

	(void)buf_add(&folder, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1);
	if (folder.failed)
		return err_set(e, ERR_LIMIT, "'%s' is too long", path);
	fd = open(folder.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "open '%s'", folder.p);
	*ret_name = slash ? slash + 1 : path;
	return fd;
}

static int replace(const char *path, struct str text, struct err *e)
{
	AUTO(free) char *real = realpath(path, NULL); /* NULL: it is not there yet */
	AUTO_FD folder = -1;
	const char *name = "";
	struct stat st;

	folder = open_folder(real ? real : path, &name, e);
	if (folder < 0)
		return -1;
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' is not a file", path);
	return file_replace(folder, name, text, real ? st.st_mode & 07777 : MODE_NEW, e);
}

int config_file_write(const char *path, struct str text, struct err *e)
{
	if (make_folders(path, e) < 0 || replace(path, text, e) < 0)
		return err_wrap(e, "write '%s'", path);
	return 0;
}

/* The real place of PATH, or of the deepest folder above it that is there. NULL: it cannot be told. */
static char *real_place(const char *path)
{
	AUTO(buf_done) struct buf b = BUF_INIT(PATH_MAX);
	char *real, *slash;

	if (!buf_add_str(&b, str_of(path)))
		return NULL;
	while (!(real = realpath(b.p, NULL)) && errno == ENOENT && (slash = strrchr(b.p, '/')))
		*slash = '\0';
	return real || errno != ENOENT ? real : realpath(".", NULL);
}

int config_file_stays_here(const char *path, struct err *e)
{
	AUTO(free) char *here = realpath(".", NULL), *real = real_place(path);
	struct str rest;

	if (!here || !real)
		return err_sys(e, errno, "find '%s'", path);
	rest = str_skip(str_of(real), strlen(here));
	if (!str_starts(str_of(real), str_of(here)) || (rest.n > 0 && rest.p[0] != '/' && strcmp(here, "/") != 0))
		return err_set(e, ERR_DENIED, "'%s' leads out of this folder, to '%s'", path, real);
	return 0;
}

/* As private as what it is a copy of, whoever made the last one. */
static int write_backup(const char *path, struct str text, mode_t mode, struct err *e)
{
	const char *name = "";
	AUTO_FD folder = open_folder(path, &name, e);

	return folder < 0 || file_replace(folder, name, text, mode, e) < 0 ? err_wrap(e, "write '%s'", path) : 0;
}

int config_file_backup(const char *path, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT((size_t)16 * 1024 * 1024), name = BUF_INIT(PATH_MAX);
	struct stat st;

	if (stat(path, &st) < 0)
		return 0;
	(void)buf_addf(&name, "%s.bak", path);
	if (name.failed || config_file_read(path, &text, e) < 0)
		return name.failed ? err_set(e, ERR_LIMIT, "'%s' is too long", path) : -1;
	return write_backup(name.p, buf_str(&text), st.st_mode & 0777, e);
}
