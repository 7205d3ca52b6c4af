// SPDX-License-Identifier: Apache-2.0
#include "sys/loopdev.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "base/str.h"

#include "base/banned.h"

#define NUMBER_MAX ((1 << 20) - 1) /* the kernel's own */
#define ATTACH_TRIES 64    /* others look for free devices too */
#define BLOCK_SIZE_BYTES 4096 /* what btrfs uses, and what a file on any disk can be written in directly */

DEFINE_AUTO(DIR *, closedir)

static int open_device(uint64_t number, char path[LOOPDEV_PATH_MAX], struct err *e)
{
	struct stat st;
	AUTO_FD fd = -1;

	(void)snprintf(path, LOOPDEV_PATH_MAX, "/dev/loop%llu", (unsigned long long)number);
	fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "open '%s'", path);
	if (fstat(fd, &st) < 0 || !S_ISBLK(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' is no block device", path);
	return take_fd(&fd);
}

/* ---- finding ---- */

static bool has_file(int dev, const struct stat *file)
{
	struct loop_info64 info;

	/* A device that is on its way out has no status any more; one that we hold open does not go. */
	return ioctl(dev, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == (uint64_t)file->st_dev &&
	       info.lo_inode == (uint64_t)file->st_ino;
}

/* Whether it has some file: others need not even have a node in /dev. */
static bool is_bound(int blocks, const char *name)
{
	char path[64 + sizeof("/loop/backing_file")];

	(void)snprintf(path, sizeof(path), "%.64s/loop/backing_file", name); /* the name has been checked */
	return faccessat(blocks, path, F_OK, 0) == 0;
}

/* "loop7" is 7. */
static bool number_of(const char *name, uint64_t *ret)
{
	struct str s = str_of(name);

	return str_starts(s, STR("loop")) && str_to_u64(str_skip(s, 4), 0, NUMBER_MAX, ret);
}

/* One that cannot be opened may be the one: whoever went on without it would attach the file twice. */
int loopdev_find(int file, char path[LOOPDEV_PATH_MAX], struct err *e)
{
	AUTO(closedir) DIR *d = opendir("/sys/block");
	const struct dirent *entry;
	struct stat st;
	uint64_t number;

	if (!d || fstat(file, &st) < 0)
		return err_set(e, ERR_UNAVAILABLE, "cannot look for loop devices: errno %d", errno);
	while ((entry = readdir(d))) {
		AUTO_FD dev = -1;

		if (!number_of(entry->d_name, &number) || !is_bound(dirfd(d), entry->d_name))
			continue;
		dev = open_device(number, path, e);
		if (dev < 0) {
			e->code = ERR_UNAVAILABLE;
			return -1;
		}
		if (has_file(dev, &st))
			return take_fd(&dev);
	}
	return err_set(e, ERR_NOT_FOUND, "no loop device has the file");
}

/* ---- attaching ---- */

static int configure(int dev, int file)
{
	struct loop_config config = {
		.fd = (uint32_t)file, .block_size = BLOCK_SIZE_BYTES,
		.info = { .lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO },
	};

	if (ioctl(dev, LOOP_CONFIGURE, &config) == 0)
		return 0;
	if (errno != EINVAL)
		return -1;
	config.info.lo_flags = LO_FLAGS_AUTOCLEAR; /* the file cannot be written directly */
	return ioctl(dev, LOOP_CONFIGURE, &config);
}

static int attach(int file, char path[LOOPDEV_PATH_MAX], struct err *e)
{
	AUTO_FD control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (control < 0)
		return err_sys(e, errno, "open '/dev/loop-control'");
	for (int i = 0; i < ATTACH_TRIES; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		AUTO_FD dev = -1;

		if (number < 0)
			return err_sys(e, errno, "find a free loop device by '/dev/loop-control'");
		dev = open_device((uint64_t)number, path, e);
		if (dev < 0)
			return -1;
		if (configure(dev, file) == 0)
			return take_fd(&dev);
		if (errno == ENOTTY || errno == EINVAL)
			return err_set(e, ERR_UNAVAILABLE, "the kernel lacks LOOP_CONFIGURE");
		if (errno != EBUSY)
			return err_sys(e, errno, "attach a file to '%s'", path);
	}
	return err_set(e, ERR_UNAVAILABLE, "every free loop device was taken by another program");
}

int loopdev_attach(int file, char path[LOOPDEV_PATH_MAX], struct err *e)
{
	struct err why = { 0 };
	int dev = loopdev_find(file, path, &why);

	if (dev >= 0)
		return dev;
	if (why.code != ERR_NOT_FOUND) {
		*e = why;
		return -1;
	}
	return attach(file, path, e);
}

int loopdev_resize(int dev, uint64_t *ret_bytes, struct err *e)
{
	if (ioctl(dev, LOOP_SET_CAPACITY, 0) < 0)
		return err_sys(e, errno, "resize a loop device");
	return ioctl(dev, BLKGETSIZE64, ret_bytes) < 0 ? err_sys(e, errno, "ask for the size of a loop device") : 0;
}
