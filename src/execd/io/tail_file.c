// SPDX-License-Identifier: Apache-2.0
#include "execd/io/tail_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"

#include "base/banned.h"

/* Where the file system knows no files without a name, one that is gone at once. */
static int open_unlinked(const char *dir, struct err *e)
{
	char path[512];
	int fd;

	if (snprintf(path, sizeof(path), "%s/.execd-XXXXXX", dir) >= (int)sizeof(path))
		return err_set(e, ERR_LIMIT, "'%.64s...': path too long", dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "make a file in '%s'", dir);
	(void)unlink(path);
	return fd;
}

static int open_in(const char *dir, struct err *e)
{
	int fd;

	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make '%s'", dir);
	fd = open(dir, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? open_unlinked(dir, e) : fd;
}

/* Pages of a file in memory would be ours, and there may be more of them than we have. */
static bool is_in_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

int unnamed_file(const char *dir, struct err *e)
{
	struct err why = { 0 }, ignored = { 0 };
	AUTO_FD fd = open_in(dir, &why);
	int other;

	if (fd >= 0 && !is_in_memory(fd))
		return take_fd(&fd);
	other = open_in("/", &ignored);
	if (other >= 0)
		return other;
	if (fd < 0)
		*e = why;
	return take_fd(&fd);
}

/* Most programs write little or nothing: the file comes with the first byte. */
static void open_first(struct tail_file *k)
{
	struct err why = { 0 };

	k->fd = unnamed_file(k->dir, &why);
	k->dir = NULL;
	if (k->fd < 0)
		log_warn("what a command writes is not kept, ignoring", LOG_ERR(&why));
}

void tail_file_done(struct tail_file *k)
{
	closep(&k->fd);
	*k = TAIL_FILE_INIT(NULL);
}

/* One piece, up to where the ring begins anew. */
static size_t add_piece(struct tail_file *k, struct str bytes)
{
	uint64_t at = k->end % k->max;
	size_t n = MIN(bytes.n, (size_t)(k->max - at));
	ssize_t done = k->fd < 0 ? -1 : pwrite(k->fd, bytes.p, n, (off_t)at);

	if (done < (ssize_t)n) { /* what there was before goes with it: an answer has no holes */
		k->is_cut = true;
		k->start = k->end + n;
	}
	k->end += n;
	return n;
}

void tail_file_add(struct tail_file *k, struct str bytes)
{
	if (k->fd < 0 && k->dir && bytes.n > 0)
		open_first(k);
	while (bytes.n > 0)
		bytes = str_skip(bytes, add_piece(k, bytes));
	if (k->end - k->start > k->max) {
		k->is_cut = true;
		k->start = k->end - k->max;
	}
}

size_t tail_file_read(const struct tail_file *k, uint64_t offset, void *out, size_t cap)
{
	uint64_t at, n;
	ssize_t got;

	if (offset < k->start || offset >= k->end)
		return 0;
	at = offset % k->max;
	n = MIN(k->end - offset, k->max - at);
	n = MIN(n, cap);
	got = pread(k->fd, out, (size_t)n, (off_t)at);
	return got > 0 ? (size_t)got : 0;
}
