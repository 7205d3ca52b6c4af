// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/err.h"
#include "base/own.h"
#include "box/store_impl.h"
#include "sys/loopdev.h"
#include "sys/mounts.h"
#include "sys/process.h"

#include "base/banned.h"

#define NEW_NAME STORE_IMAGE_NAME ".new"
#define MKFS_MS 60000
#define SIZE_STEP (UINT64_C(4) << 20) /* sizes are multiples of it */

/* ---- making ---- */

static const char *find_mkfs(void)
{
	static const char *const places[] = { "/usr/sbin/mkfs.btrfs", "/sbin/mkfs.btrfs", "/usr/bin/mkfs.btrfs" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (access(places[i], X_OK) == 0)
			return places[i];
	return NULL;
}

/* What it said, on one line. */
static void read_said(int fd, char out[160])
{
	ssize_t n = pread(fd, out, 159, 0);

	out[n > 0 ? n : 0] = '\0';
	for (char *p = out; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = ' ';
}

/* One copy of the metadata: a limit is for what a box holds, and the disk below decides about copies. */
static int run_mkfs(int file, struct err *e)
{
	static char quiet[] = "-q", metadata[] = "-m", data[] = "-d", single[] = "single", path[] = "/proc/self/fd/3";
	const char *program = find_mkfs();
	char *argv[] = { NULL, quiet, metadata, single, data, single, path, NULL };
	AUTO_FD said = memfd_create("mkfs", MFD_CLOEXEC);
	AUTO_FD pidfd = -1;
	struct spawn_spec sp;
	struct process_end end;
	char text[160];

	if (!program)
		return err_set(e, ERR_UNAVAILABLE, "mkfs.btrfs is missing: install btrfs-progs");
	argv[0] = (char *)(uintptr_t)program;
	sp = SPAWN_INIT(program, argv);
	sp.fds = &(struct spawn_fd){ file, 3 };
	sp.n_fds = 1;
	sp.err = said;
	sp.death_signal = SIGKILL;
	pidfd = process_spawn(&sp, NULL, e);
	if (pidfd < 0)
		return -1;
	if (process_wait(pidfd, MKFS_MS, &end, e) < 0) {
		(void)process_kill_and_wait(pidfd, -1, &end, &(struct err){ 0 });
		return err_wrap(e, "mkfs.btrfs");
	}
	read_said(said, text);
	if (end.by_signal || end.code != 0)
		return err_set(e, ERR_IO, "mkfs.btrfs failed with %d: %s", end.code, text);
	return 0;
}

static int default_size(int state, uint64_t *ret, struct err *e)
{
	struct statvfs st;
	uint64_t bytes;

	if (fstatvfs(state, &st) < 0)
		return err_sys(e, errno, "ask how much is free");
	if (__builtin_mul_overflow((uint64_t)st.f_bavail, (uint64_t)st.f_frsize, &bytes) || bytes > STORE_SIZE_MAX)
		bytes = STORE_SIZE_MAX;
	bytes = bytes / 5 * 4;
	if (bytes < STORE_SIZE_MIN)
		return err_set(e, ERR_LIMIT, "of %llu MiB that are needed at least, four fifths of what is free are %llu",
			       (unsigned long long)(STORE_SIZE_MIN >> 20), (unsigned long long)(bytes >> 20));
	*ret = bytes;
	return 0;
}

/* Copies on write twice are no use: a btrfs below is told to write in place. Others do not know the flag. */
static void avoid_copies(int file)
{
	int flags = 0;

	if (ioctl(file, FS_IOC_GETFLAGS, &flags) < 0)
		return;
	flags |= FS_NOCOW_FL;
	(void)ioctl(file, FS_IOC_SETFLAGS, &flags);
}

/* Under another name until it is complete. */
static int make_image(int state, uint64_t size, struct err *e)
{
	AUTO_FD file = -1;

	if (size == 0 && default_size(state, &size, e) < 0)
		return -1;
	if (unlinkat(state, NEW_NAME, 0) < 0 && errno != ENOENT)
		return err_sys(e, errno, "remove '" NEW_NAME "'");
	file = openat(state, NEW_NAME, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file < 0)
		return err_sys(e, errno, "make '" NEW_NAME "'");
	avoid_copies(file);
	if (ftruncate(file, (off_t)(size / SIZE_STEP * SIZE_STEP)) < 0)
		return err_sys(e, errno, "size '" NEW_NAME "'");
	if (run_mkfs(file, e) < 0) {
		(void)unlinkat(state, NEW_NAME, 0); /* the next start would do it */
		return -1;
	}
	if (fsync(file) < 0 || renameat(state, NEW_NAME, state, STORE_IMAGE_NAME) < 0 || fsync(state) < 0)
		return err_sys(e, errno, "put '" STORE_IMAGE_NAME "' in its place");
	return 0;
}

/* ---- using ---- */

static int open_image(int state, uint64_t want, struct err *e)
{
	AUTO_FD file = openat(state, STORE_IMAGE_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (file < 0 && errno == ENOENT) {
		if (make_image(state, want, e) < 0)
			return -1;
		file = openat(state, STORE_IMAGE_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	}
	if (file < 0)
		return err_sys(e, errno, "open '" STORE_IMAGE_NAME "'");
	if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "'" STORE_IMAGE_NAME "' is no file");
	want = want / SIZE_STEP * SIZE_STEP;
	if ((uint64_t)st.st_size < want && ftruncate(file, (off_t)want) < 0)
		return err_sys(e, errno, "grow '" STORE_IMAGE_NAME "'");
	return take_fd(&file);
}

/* nodatacow: overwriting takes no second copy, which the quota would count until the next commit, and no checksums, which it
 * does not count at all. What boxes write does not outlive them, and layers have digests that they were checked against.
 * nodiscard: box/store_guard.h gives back what is freed. */
static int mount_device(const char *device, const char *at, struct err *e)
{
	const struct mount_option options[] = { MOUNT_FLAG("nodatacow"), MOUNT_FLAG("nodiscard") };
	const struct mount_spec spec = { "btrfs", device, options, ARRAY_LEN(options), MOUNT_NOSUID | MOUNT_NODEV };
	AUTO_FD target = open(at, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD mount = -1;
	int root;

	if (target < 0)
		return err_sys(e, errno, "open '%s'", at);
	mount = mount_make(&spec, e);
	if (mount < 0 || mount_move(mount, target, e) < 0)
		return err_wrap(e, "'" STORE_IMAGE_NAME "' on '%s'", device);
	root = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? err_sys(e, errno, "open '%s'", at) : root;
}

int box_store_image_mount(struct box_store *s, const struct box_store_spec *spec, struct err *e)
{
	AUTO_FD state = open(spec->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD file = state < 0 ? err_sys(e, errno, "open '%s'", spec->state_dir) : open_image(state, spec->size_bytes, e);
	AUTO_FD device = -1;
	AUTO_FD root = -1;
	char path[LOOPDEV_PATH_MAX];
	struct btrfs fs;
	uint64_t size;

	if (file < 0)
		return -1;
	device = loopdev_attach(file, path, e);
	if (device < 0 || loopdev_resize(device, &size, e) < 0)
		return -1;
	root = mount_device(path, s->mounted_at, e);
	if (root < 0)
		return -1;
	if (btrfs_open(&fs, root, e) < 0 || btrfs_grow(&fs, size, e) < 0) {
		(void)mount_detach(s->mounted_at, &(struct err){ 0 });
		return -1;
	}
	s->image = take_fd(&file);
	btrfs_trees_step(&fs);
	return take_fd(&root);
}
