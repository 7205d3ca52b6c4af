// SPDX-License-Identifier: Apache-2.0
/* Content on its way to a name. A file that has no name needs nobody to clean up after a kill; where the file system has no
 * such thing it gets a temporary one. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/own.h"
#include "base/random.h"
#include "execd/files/files.h"

#include "base/banned.h"

#define TEMP_TRIES 16

int draft_temp_name(char out[DRAFT_NAME_SIZE], struct err *e)
{
	uint64_t number;

	if (random_bytes(&number, sizeof(number), e) < 0)
		return -1;
	(void)snprintf(out, DRAFT_NAME_SIZE, ".execd-%016" PRIx64, number);
	return 0;
}

static int open_named(struct draft *d, struct err *e)
{
	for (int i = 0; i < TEMP_TRIES; i++) {
		if (draft_temp_name(d->temp, e) < 0)
			return -1;
		d->fd = openat(d->dir, d->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (d->fd >= 0 || errno != EEXIST)
			break;
	}
	if (d->fd >= 0)
		return 0;
	d->temp[0] = '\0';
	return err_sys(e, errno, "create a temporary file");
}

int draft_open(struct draft *d, int dir, struct err *e)
{
	/* An O_PATH descriptor can be neither synced nor asked for a file without a name. */
	d->dir = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->dir < 0)
		return err_sys(e, errno, "open the directory");
	d->fd = openat(d->dir, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (d->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)
		return err_sys(e, errno, "create a temporary file");
	return open_named(d, e);
}

/* The second way asks for /proc, the first for a kernel or a capability. */
static int link_unnamed(const struct draft *d, const char *name)
{
	char path[40];

	if (linkat(d->fd, "", d->dir, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno == EEXIST)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", d->fd);
	return linkat(AT_FDCWD, path, d->dir, name, AT_SYMLINK_FOLLOW);
}

/* 1: it has its final name. */
static int name_it(struct draft *d, const char *name, struct err *e)
{
	if (link_unnamed(d, name) == 0)
		return 1;
	for (int i = 0; i < TEMP_TRIES && errno == EEXIST; i++) {
		if (draft_temp_name(d->temp, e) < 0)
			return -1;
		if (link_unnamed(d, d->temp) == 0)
			return 0;
	}
	d->temp[0] = '\0';
	return err_sys(e, errno, "name the new file");
}

int draft_keep(struct draft *d, const char *name, struct err *e)
{
	int r = d->temp[0] ? 0 : name_it(d, name, e);

	if (r < 0)
		return -1;
	if (r == 0 && renameat(d->dir, d->temp, d->dir, name) < 0)
		return err_sys(e, errno, "replace the file");
	d->temp[0] = '\0';
	return 0;
}

void draft_done(struct draft *d)
{
	if (d->temp[0])
		(void)unlinkat(d->dir, d->temp, 0);
	d->temp[0] = '\0';
	closep(&d->fd);
	closep(&d->dir);
	d->fd = d->dir = -1;
}

int draft_dress(struct draft *d, const char *name, const struct attr_ids *ids, mode_t new_mode, struct err *e)
{
	struct attr_ids full = *ids;
	struct stat st;
	bool replaces = fstatat(d->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;

	if (replaces && !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, S_ISDIR(st.st_mode) ? "is a directory" : "not a regular file");
	full.mode = ids->has_mode ? ids->mode : replaces ? st.st_mode & 0777 : new_mode;
	full.has_mode = true;
	/* To keep the owner of what is replaced is a wish: not everybody may. */
	if (replaces && fchown(d->fd, st.st_uid, st.st_gid) < 0 && errno != EPERM)
		return err_sys(e, errno, "keep the owner");
	return attr_apply(d->fd, &full, e);
}
