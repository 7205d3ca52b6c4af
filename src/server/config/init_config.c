// SPDX-License-Identifier: Apache-2.0
#include "server/config/init_config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/random.h"
#include "server/config/config.h"
#include "sys/fd.h"
#include "sys/path.h"

#include "base/banned.h"

#define KEY_BYTES 32
#define EXAMPLE_MAX ((size_t)256 * 1024)

static int render(const char *kind, struct buf *text, struct err *e)
{
	unsigned char bytes[KEY_BYTES];
	char key[2 * KEY_BYTES + 1];

	if (random_bytes(bytes, sizeof(bytes), e) < 0)
		return -1;
	hex_encode(key, bytes, sizeof(bytes));
	if (config_write_example(kind, key, text))
		return 0;
	return text->failed ? err_no_memory(e) : err_set(e, ERR_INVALID, "there is no example '%s'", kind);
}

/* Gives the complete file TEMP its NAME, unless something has that name already. */
static int link_new(int dirfd, const char *temp, const char *name)
{
	if (renameat2(dirfd, temp, dirfd, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	return linkat(dirfd, temp, dirfd, name, 0); /* where the file system does not know the flag; TEMP remains */
}

/* The name appears with all of its content or not at all, and never takes the place of another file. */
static int create(int dirfd, const char *name, struct str text, bool *ret_exists, struct err *e)
{
	unsigned char id[8];
	char temp[32] = ".init-";
	struct stat st;
	int rc, sys;

	*ret_exists = fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (*ret_exists)
		return -1; /* without a trial, which the folder may not permit */
	if (random_bytes(id, sizeof(id), e) < 0)
		return -1;
	hex_encode(temp + strlen(temp), id, sizeof(id));
	if (file_replace(dirfd, temp, text, 0600, e) < 0)
		return -1;
	rc = link_new(dirfd, temp, name);
	sys = errno;
	(void)unlinkat(dirfd, temp, 0); /* gone already if it was renamed */
	*ret_exists = rc < 0 && sys == EEXIST;
	if (rc < 0)
		return err_sys(e, sys, "name it");
	return fsync(dirfd) < 0 ? err_sys(e, errno, "sync its folder") : 0;
}

/* The folder of PATH, whose last part is NAME. */
static int open_folder(const char *path, const char *name, struct err *e)
{
	AUTO(buf_done) struct buf folder = BUF_INIT(PATH_BYTES_MAX);
	int fd;

	if (!buf_add(&folder, path, (size_t)(name - path)) || (name == path && !buf_add_char(&folder, '.')))
		return err_no_memory(e);
	fd = open(buf_z(&folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, errno, "open folder '%s'", buf_z(&folder)) : fd;
}

int init_config(const char *path, const char *kind, bool force, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(EXAMPLE_MAX);
	AUTO_FD dirfd = -1;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	bool exists = false;
	int rc;

	if (render(kind, &text, e) < 0 || path_make_parents(path, 0700, e) < 0)
		return -1;
	dirfd = open_folder(path, name, e);
	if (dirfd < 0)
		return -1;
	rc = force ? file_replace(dirfd, name, buf_str(&text), 0600, e) : create(dirfd, name, buf_str(&text), &exists, e);
	if (exists)
		return err_set(e, ERR_CONFLICT, "'%s' exists; use --force to replace it", path);
	return rc < 0 ? err_wrap(e, "write '%s'", path) : 0;
}
