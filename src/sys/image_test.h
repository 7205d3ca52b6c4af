// SPDX-License-Identifier: Apache-2.0
/* sys/image_test.h - for tests: a folder backed by a sparse file, as a btrfs where the host supports it.
 * Include it after root_test.h; everything runs in a child with mounts of its own (in_child). */
#pragma once
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/loopdev.h"
#include "sys/mounts.h"
#include "sys/process.h"
#include "sys/tree.h"

#define IMAGE_MKFS "/usr/sbin/mkfs.btrfs"
#define IMAGE_BYTES (512 << 20)

struct image {
	char dir[64], at[80]; /* at: where it is mounted */
	int file;
};

/* 0, or what the child of a test returns. */
static inline int image_make(struct image *i)
{
	char path[96];
	struct err e = { 0 };

	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK_OK(mount_slave_all(&e), &e);
	(void)snprintf(i->dir, sizeof(i->dir), "/tmp/image_test.XXXXXX");
	CHECK(mkdtemp(i->dir));
	(void)snprintf(i->at, sizeof(i->at), "%s/at", i->dir);
	(void)snprintf(path, sizeof(path), "%s/file", i->dir);
	CHECK(mkdir(i->at, 0700) == 0);
	i->file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(i->file >= 0 && ftruncate(i->file, IMAGE_BYTES) == 0);
	return 0;
}

static inline int image_format(const struct image *i)
{
	static char quiet[] = "-q", path[] = "/proc/self/fd/3", program[] = IMAGE_MKFS;
	char *argv[] = { program, quiet, path, NULL };
	struct spawn_fd fd = { i->file, 3 };
	struct spawn_spec sp = SPAWN_INIT(program, argv);
	struct process_end end;
	struct err e = { 0 };
	AUTO_FD pidfd = -1;

	if (access(program, X_OK) < 0)
		return CHILD_CANNOT;
	sp.fds = &fd;
	sp.n_fds = 1;
	pidfd = process_spawn(&sp, NULL, &e);
	CHECK_OK(pidfd, &e);
	CHECK_OK(process_wait(pidfd, 30000, &end, &e), &e);
	CHECK(!end.by_signal && end.code == 0);
	return 0;
}

/* Returns the root of the mounted image, or -1. */
static inline int image_mount(const struct image *i, struct err *e)
{
	char path[LOOPDEV_PATH_MAX];
	AUTO_FD dev = loopdev_attach(i->file, path, e);
	AUTO_FD target = open(i->at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD mount = dev < 0 ? -1 : mount_make(&(struct mount_spec){ "btrfs", path, NULL, 0, 0 }, e);

	return mount < 0 || mount_move(mount, target, e) < 0 ? -1 : open(i->at,
									 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static inline int image_remove(struct image *i)
{
	AUTO_FD tmp = open("/tmp", O_PATH | O_CLOEXEC);
	struct err e = { 0 };

	(void)close(i->file);
	(void)mount_detach(i->at, &e);
	return tree_remove(tmp, i->dir + sizeof("/tmp/") - 1, &e);
}

/* Runs TASK in a child with an image; skips where that cannot be. */
#define WITH_IMAGE(task) \
	do { \
		int r_; \
		NEEDS_ROOT(CLONE_NEWNS); \
		r_ = in_child(task, NULL); \
		if (r_ == CHILD_CANNOT) { \
			print_message("skipped: this host has no loop devices, btrfs or " IMAGE_MKFS "\n"); \
			skip(); \
		} \
		assert_int_equal(r_, 0); \
	} while (0)
