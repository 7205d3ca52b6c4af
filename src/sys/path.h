// SPDX-License-Identifier: Apache-2.0
/* sys/path.h - paths that cannot leave their root.
 *
 * The kernel's openat2() does the resolution. Without it everything here that opens fails with
 * ERR_UNAVAILABLE, "the kernel lacks openat2": there is no fallback that would be as safe. */
#pragma once
#include <sys/types.h>

#include "base/str.h"

struct buf;
struct err;

#define PATH_BYTES_MAX 4095
#define PATH_COMPONENT_MAX 255
#define ROOT_OPEN_TRIES 64 /* a guest that renames all the time makes the kernel give up; we do so too, in the end */

/* Opens PATH as a process with ROOTFD for its root would see it: symlinks, also absolute ones, and ".." stay
 * inside; magic links (/proc/PID/fd/N, .../root) are refused. Whatever a guest put there, nothing blocks and
 * no terminal becomes ours: O_NONBLOCK and O_NOCTTY are added (not to O_PATH), O_CLOEXEC always. The caller
 * adds O_NOFOLLOW when the last component must not be a symlink, and looks at the type with fstat(). */
int root_open(int rootfd, const char *path, int flags, mode_t mode, struct err *e);

/* The same for a relative path without any symlink or a ".." that leaves ROOTFD: ERR_DENIED or
 * ERR_INVALID. */
int root_open_beneath(int rootfd, const char *path, int flags, mode_t mode, struct err *e);

/* Makes the directory and those above it, in ROOTFD; those that exist stay as they are. Symlinks are followed
 * as in root_open(), a dangling one is an error; for each of them and each ".." the way is gone again from
 * the root, so there is a ceiling. MODE is subject to the umask. */
#define ROOT_TURNS_MAX 64 /* symlinks and ".." on one path */
int root_mkdirs(int rootfd, const char *path, mode_t mode, struct err *e);

/* Makes the folders above PATH that are missing, with MODE whatever the umask is. PATH is an operator's. */
int path_make_parents(const char *path, mode_t mode, struct err *e);

/* A path from a request: not empty, no NUL, at most PATH_BYTES_MAX bytes, components of at most
 * PATH_COMPONENT_MAX (O3). */
int path_check(struct str path, struct err *e);

/* Appends PATH, which must be absolute and pass path_check(), without "//", "." and "..": by its text alone,
 * no file is looked at, so it is for names and comparisons, never a substitute for root_open(). */
int path_clean(struct str path, struct buf *out, struct err *e);
