// SPDX-License-Identifier: Apache-2.0
#include "sys/cgroup_impl.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "sys/cgroup_parse.h"
#include "sys/fd.h"

#include "base/banned.h"

#define VALUE_MAX 128   /* bytes of what is written to one file */
#define EVENT_POLL_MS 200

/* Once a group is removed its directory is empty, and what was open before answers ENODEV. */
static bool is_gone(int sys)
{
	return sys == ENOENT || sys == ENODEV;
}

/* ---- files --------------------------------------------------------------------------------------------- */

/* The kernel takes each write() as a whole value; O_TRUNC matters in the trees of tests only. */
int cg_write(int dir, const char *file, const char *text, struct err *e)
{
	AUTO_FD fd = -1;
	ssize_t n;

	fd = openat(dir, file, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && is_gone(errno))
		return 0;
	if (fd < 0)
		return err_sys(e, errno, "open '%s'", file);
	do
		n = write(fd, text, strlen(text));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == ENODEV)
		return 0;
	return n < 0 ? err_sys(e, errno, "write '%s' to '%s'", text, file) : 1;
}

int cg_writef(int dir, const char *file, struct err *e, const char *fmt, ...)
{
	char text[VALUE_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text))
		return err_set(e, ERR_INTERNAL, "value for '%s' is too long", file);
	return cg_write(dir, file, text, e);
}

int cg_read(int dir, const char *file, struct buf *b, struct err *e)
{
	struct err failed = { 0 };

	if (fd_read_file(dir, file, CGROUP_FILE_MAX, b, &failed) == 0)
		return 1;
	if (is_gone(failed.sys))
		return 0;
	*e = failed;
	return -1;
}

int cg_read_number(int dir, const char *file, uint64_t *ret, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	int r = cg_read(dir, file, &b, e);

	if (r <= 0)
		return r;
	if (!cgroup_parse_number(buf_str(&b), ret))
		return err_set(e, ERR_IO, "'%s' has no number", file);
	return 1;
}

int cg_read_key(int dir, const char *file, const char *key, uint64_t *ret, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	int r = cg_read(dir, file, &b, e);

	if (r <= 0)
		return r;
	return cgroup_parse_key(buf_str(&b), key, ret) ? 1 : 0;
}

bool cg_has(int dir, const char *file)
{
	return faccessat(dir, file, F_OK, 0) == 0;
}

/* ---- directories --------------------------------------------------------------------------------------- */

int cg_open_dir(int parent, const char *name, struct err *e)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? err_sys(e, errno, "open group '%s'", name) : fd;
}

int cg_make_dir(int parent, const char *name, struct err *e)
{
	if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make group '%s'", name);
	return cg_open_dir(parent, name, e);
}

const char *cg_next_group(DIR *d)
{
	struct dirent *entry;
	struct stat st;

	while ((entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		if (entry->d_type == DT_DIR)
			return entry->d_name;
		if (entry->d_type == DT_UNKNOWN && fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode))
			return entry->d_name;
	}
	return NULL;
}

static void close_dirp(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

static int walk(int dir, unsigned depth, cg_walk_fn fn, void *arg, struct err *e)
{
	__attribute__((cleanup(close_dirp))) DIR *d = NULL;
	AUTO_FD again = -1;
	const char *name;
	int r = 0;

	if (depth > CGROUP_DEPTH_MAX)
		return err_set(e, ERR_LIMIT, "more than %d groups below each other", CGROUP_DEPTH_MAX);
	again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (again < 0 && is_gone(errno))
		return 0;
	d = again < 0 ? NULL : fdopendir(again);
	if (!d)
		return err_sys(e, errno, "list groups");
	(void)take_fd(&again); /* it is D's now */
	while (r == 0 && (name = cg_next_group(d))) {
		AUTO_FD child = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

		if (child < 0 && is_gone(errno))
			continue;
		r = child < 0 ? err_sys(e, errno, "open group '%s'", name) : walk(child, depth + 1, fn, arg, e);
	}
	return r == 0 ? fn(dir, arg, e) : r;
}

int cg_walk(int dir, cg_walk_fn fn, void *arg, struct err *e)
{
	return walk(dir, 0, fn, arg, e);
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

uint64_t cg_deadline(int timeout_ms)
{
	return clock_mono_ms() + (uint64_t)MAX(timeout_ms, 0);
}

bool cg_pause(unsigned *delay_ms, uint64_t deadline)
{
	struct timespec t = { 0 };
	uint64_t now = clock_mono_ms();

	if (now >= deadline)
		return false;
	*delay_ms = *delay_ms == 0 ? 1 : MIN(*delay_ms * 2, (unsigned)CGROUP_POLL_MS);
	t.tv_nsec = (long)MIN((uint64_t)*delay_ms, deadline - now) * 1000000;
	(void)nanosleep(&t, NULL); /* woken early is only another look */
	return true;
}

/* 1 it says so, 0 not yet, -1. */
static int event_is(int fd, const char *key, uint64_t want, struct err *e)
{
	char text[256];
	uint64_t v = 0;
	ssize_t n;

	do
		n = pread(fd, text, sizeof(text), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0 && !is_gone(errno))
		return err_sys(e, errno, "read 'cgroup.events'");
	if (n >= 0 && !cgroup_parse_key((struct str){ text, (size_t)n }, key, &v))
		return err_set(e, ERR_UNAVAILABLE, "'cgroup.events' has no '%s'", key);
	return v == want;
}

int cg_wait_event(int dir, const char *key, uint64_t want, uint64_t deadline, struct err *e)
{
	AUTO_FD fd = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 && is_gone(errno))
		return want == 0;
	if (fd < 0)
		return err_sys(e, errno, "open 'cgroup.events'");
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLPRI };
		int r = event_is(fd, key, want, e);
		uint64_t now = clock_mono_ms();

		if (r != 0 || now >= deadline)
			return r;
		(void)poll(&p, 1, (int)MIN(deadline - now, (uint64_t)EVENT_POLL_MS));
	}
}
