// SPDX-License-Identifier: Apache-2.0
/* sys/mounts.h - detached mounts: a mount is a descriptor until it is moved to its place.
 *
 *     struct mount_option options[] = { MOUNT_TEXT("mode", "755"), MOUNT_TEXT("size", "64k") };
 *     struct mount_spec sp = { "tmpfs", NULL, options, 2, MOUNT_NOSUID | MOUNT_NOEXEC };
 *     AUTO_FD fd = -1;
 *
 *     fd = mount_make(&sp, e);
 *     if (fd < 0 || mount_move(fd, target_dirfd, e) < 0)
 *         return -1;
 *
 * A mount that was never moved ends with its last descriptor. After the move, the descriptor is still the
 * root of the mount. Nothing here uses the heap. Kernels without these calls (before Linux 5.2; 5.12 for
 * changes) fail with ERR_UNAVAILABLE. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;

/* The kernel's MOUNT_ATTR_ values. */
enum mount_attr_bits {
	MOUNT_RO = 0x1,
	MOUNT_NOSUID = 0x2,
	MOUNT_NODEV = 0x4,
	MOUNT_NOEXEC = 0x8,
	MOUNT_NOSYMFOLLOW = 0x200000,
};

#define MOUNT_OPTION_MAX 255 /* bytes of a text value: fsconfig() takes no more, so long paths go by descriptor */

enum mount_option_kind { MOUNT_OPTION_FLAG, MOUNT_OPTION_TEXT, MOUNT_OPTION_FD };

struct mount_option {
	const char *key;
	enum mount_option_kind kind;
	const char *text;
	int fd;
};

#define MOUNT_FLAG(key_) ((struct mount_option){ .key = (key_), .kind = MOUNT_OPTION_FLAG, .fd = -1 })
#define MOUNT_TEXT(key_, text_) \
	((struct mount_option){ .key = (key_), .kind = MOUNT_OPTION_TEXT, .text = (text_), .fd = -1 })
/* A directory of an overlay, since Linux 6.13; for all kernels see sys/overlay.h. */
#define MOUNT_DIR(key_, fd_) ((struct mount_option){ .key = (key_), .kind = MOUNT_OPTION_FD, .fd = (fd_) })

struct mount_spec {
	const char *fs;     /* "tmpfs", "proc", "sysfs", "devpts", "mqueue", "overlay", ... */
	const char *source; /* what mountinfo shows; NULL: the name of the file system */
	const struct mount_option *options;
	size_t n_options;
	unsigned attrs; /* MOUNT_RO | ... of the mount, not of the file system behind it */
};

/* A new file system, as a detached mount. What the file system itself says about a refusal is in the
 * error. */
int mount_make(const struct mount_spec *sp, struct err *e);

/* A detached copy of the mount at PATH below DIRFD ("": DIRFD itself, which may be O_PATH) from that
 * directory or file on; with all mounts below it when WHOLE. A symlink at the end is not followed. */
int mount_clone(int dirfd, const char *path, bool whole, struct err *e);

/* The mount that is at DIRFD/PATH, to be moved elsewhere. */
int mount_open(int dirfd, const char *path, struct err *e);

/* The root of the mount, attached or not, at the directory or file TARGET. It may be O_PATH. */
int mount_move(int fd, int target, struct err *e);

/* The same, at PATH below DIRFD; a symlink at the end is not followed. 1 done, 0 there is nothing, -1. */
int mount_move_to(int fd, int dirfd, const char *path, struct err *e);

/* Adds ATTRS to the mount whose root FD is, with those below it when WHOLE: then all of them change or
 * none. */
int mount_restrict(int fd, unsigned attrs, bool whole, struct err *e);

/* From now on the ids of USERNS are shown as those that the files have on disk, and the other way round: id 0
 * on disk belongs to the root of USERNS. Once per mount, and only before it has a place. */
int mount_idmap(int fd, int userns, bool whole, struct err *e);

/* No mount event reaches the mount whose root FD is, and none leaves it. */
int mount_private(int fd, struct err *e);
/* No mount event of this namespace reaches another one from now on, and none comes in. */
int mount_private_all(struct err *e);
/* The same, but what is mounted and unmounted outside is still seen here. */
int mount_slave_all(struct err *e);

/* ROOT, the root of an attached mount, becomes "/" and the working directory of this process; the old root
 * and all mounts on it are detached. Descriptors that are still open keep what they refer to. */
int mount_pivot(int root, struct err *e);

/* Takes the topmost mount at PATH and all below it out of sight; it ends with its last user. A symlink at the
 * end of PATH is not followed. ERR_INVALID when there is no mount. */
int mount_detach(const char *path, struct err *e);
