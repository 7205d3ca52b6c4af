// SPDX-License-Identifier: Apache-2.0
#include "sys/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/own.h"
#include "base/random.h"

#include "base/banned.h"

#define READ_STEP 16384

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

static int change_flag(int fd, int get, int set, int flag, bool on)
{
	int old = fcntl(fd, get);
	int want = on ? old | flag : old & ~flag;

	if (old < 0)
		return -1;
	return old == want ? 0 : fcntl(fd, set, want);
}

int fd_set_nonblock(int fd, bool on, struct err *e)
{
	if (change_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on) < 0)
		return err_sys(e, errno, "set blocking mode of descriptor %d", fd);
	return 0;
}

int fd_set_cloexec(int fd, bool on, struct err *e)
{
	if (change_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on) < 0)
		return err_sys(e, errno, "set close-on-exec of descriptor %d", fd);
	return 0;
}

/* ---- bytes --------------------------------------------------------------------------------------------- */

int fd_write_all(int fd, const void *p, size_t n, struct err *e)
{
	const char *at = p;

	while (n > 0) {
		ssize_t r = write(fd, at, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, errno, "write");
		at += r;
		n -= (size_t)r;
	}
	return 0;
}

/* Once the room is used up a single byte tells the end from what is too large. */
int fd_read_all(int fd, size_t max, struct buf *b, struct err *e)
{
	size_t room = MIN(max, b->max - b->n), left = room;

	for (;;) {
		char extra = 0, *at = left > 0 ? buf_reserve(b, MIN(left, (size_t)READ_STEP)) : &extra;
		ssize_t r;

		if (!at)
			return err_no_memory(e);
		r = read(fd, at, left > 0 ? MIN(left, (size_t)READ_STEP) : 1);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, errno, "read");
		if (r == 0)
			return 0;
		if (left == 0)
			return err_set(e, ERR_LIMIT, "read: more than %zu bytes", room);
		buf_commit(b, (size_t)r);
		left -= (size_t)r;
	}
}

int fd_read_file(int dirfd, const char *path, size_t max, struct buf *b, struct err *e)
{
	AUTO_FD fd = -1;
	struct stat st;

	fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return err_sys(e, errno, "open '%s'", path);
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "stat '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' is not a regular file", path);
	if (fd_read_all(fd, max, b, e) < 0)
		return err_wrap(e, "'%s'", path);
	return 0;
}

/* ---- replacing a file ---------------------------------------------------------------------------------- */

static int write_temp(int dirfd, const char *temp, struct str bytes, mode_t mode, struct err *e)
{
	AUTO_FD fd = -1;

	fd = openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, errno, "create '%s'", temp);
	if (fd_write_all(fd, bytes.p, bytes.n, e) < 0)
		return -1;
	if (fchmod(fd, mode) < 0)
		return err_sys(e, errno, "set mode %04o", (unsigned)mode);
	return fsync(fd) < 0 ? err_sys(e, errno, "sync") : 0;
}

/* DIRFD may be O_PATH or AT_FDCWD, which fsync() does not take. */
static int sync_dir(int dirfd, struct err *e)
{
	AUTO_FD fd = -1;

	fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return err_sys(e, errno, "sync the directory");
	return 0;
}

int file_replace(int dirfd, const char *name, struct str bytes, mode_t mode, struct err *e)
{
	char temp[32] = ".new-";
	unsigned char id[8];

	if (*name == '\0' || strchr(name, '/') || str_is(str_of(name), ".") || str_is(str_of(name), ".."))
		return err_set(e, ERR_INVALID, "replace '%s': not the name of a file", name);
	if (random_bytes(id, sizeof(id), e) < 0)
		return err_wrap(e, "replace '%s'", name);
	hex_encode(temp + strlen(temp), id, sizeof(id));
	if (write_temp(dirfd, temp, bytes, mode, e) < 0) {
		(void)unlinkat(dirfd, temp, 0);
		return err_wrap(e, "replace '%s'", name);
	}
	if (renameat(dirfd, temp, dirfd, name) < 0) {
		(void)err_sys(e, errno, "replace '%s'", name);
		(void)unlinkat(dirfd, temp, 0);
		return -1;
	}
	if (sync_dir(dirfd, e) < 0)
		return err_wrap(e, "replace '%s'", name);
	return 0;
}

/* ---- all descriptors ----------------------------------------------------------------------------------- */

/* What getdents64() fills; libc's own readdir() needs the heap. */
struct kernel_dirent {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

static bool to_fd(const char *name, unsigned *ret)
{
	uint64_t v;

	if (!str_to_u64(str_of(name), 0, INT32_MAX, &v))
		return false; /* "." and ".." */
	*ret = (unsigned)v;
	return true;
}

/* One descriptor of the range. close() never fails in a way that leaves it open. */
static void drop(unsigned fd, bool by_exec)
{
	if (by_exec)
		(void)fcntl((int)fd, F_SETFD, FD_CLOEXEC);
	else
		(void)close((int)fd);
}

/* The kernel walks its table by number, so closing what was listed already does not disturb the listing. */
static int drop_listed(unsigned min, bool by_exec, struct err *e)
{
	_Alignas(struct kernel_dirent) char list[4096];
	AUTO_FD dir = -1;
	long n;

	dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, errno, "list descriptors in '/proc/self/fd'");
	while ((n = syscall(SYS_getdents64, dir, list, sizeof(list))) > 0) {
		for (long at = 0; at < n;) {
			const struct kernel_dirent *entry = (const void *)(list + at);
			unsigned fd;

			if (to_fd(entry->name, &fd) && fd >= min && fd != (unsigned)dir)
				drop(fd, by_exec);
			at += entry->len;
		}
	}
	return n < 0 ? err_sys(e, errno, "list descriptors in '/proc/self/fd'") : 0;
}

/* Any failure of close_range() leads to the list: ENOSYS, EINVAL for the flag (before Linux 5.11), and EPERM
 * from a seccomp filter that does not know it. */
static int drop_from(unsigned min, bool by_exec, struct err *e)
{
	if (syscall(SYS_close_range, min, ~0U, by_exec ? CLOSE_RANGE_CLOEXEC : 0) == 0)
		return 0;
	return drop_listed(min, by_exec, e);
}

int close_from(unsigned min, struct err *e)
{
	return drop_from(min, false, e);
}

int cloexec_from(unsigned min, struct err *e)
{
	return drop_from(min, true, e);
}

static int close_between(unsigned first, unsigned last, struct err *e)
{
	if (first <= last && syscall(SYS_close_range, first, last, 0) < 0)
		return err_sys(e, errno, "close descriptors");
	return 0;
}

int close_others(int *keep, size_t n, struct err *e)
{
	unsigned from = 3;

	for (size_t i = 1; i < n; i++) { /* they are few */
		int fd = keep[i];
		size_t at = i;

		for (; at > 0 && keep[at - 1] > fd; at--)
			keep[at] = keep[at - 1];
		keep[at] = fd;
	}
	for (size_t i = 0; i < n; i++) {
		if (keep[i] < (int)from)
			continue;
		if (close_between(from, (unsigned)keep[i] - 1, e) < 0)
			return -1;
		from = (unsigned)keep[i] + 1;
	}
	return close_between(from, ~0U, e);
}

uint64_t fd_limit(void)
{
	struct rlimit r = { 0 };

	(void)getrlimit(RLIMIT_NOFILE, &r); /* cannot fail for a valid resource */
	return r.rlim_cur;
}

/* ---- events -------------------------------------------------------------------------------------------- */

int event_open(struct err *e)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? err_sys(e, errno, "create an eventfd") : fd;
}

void event_raise(int fd)
{
	const uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		; /* EAGAIN: the counter is full, so it is raised already */
}

bool event_take(int fd)
{
	uint64_t count;
	ssize_t n;

	do
		n = read(fd, &count, sizeof(count));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(count);
}
