// SPDX-License-Identifier: Apache-2.0
/* sys/fd.h - descriptors, and small files read or replaced whole. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

struct buf;
struct err;

int fd_set_nonblock(int fd, bool on, struct err *e);
int fd_set_cloexec(int fd, bool on, struct err *e);

/* Both go on after EINTR. On a non-blocking descriptor that is not ready they fail (e->sys is EAGAIN), with
 * part of the bytes moved: they are for files, pipes and sockets that may block. */
int fd_write_all(int fd, const void *p, size_t n, struct err *e);
/* Appends everything up to EOF; ERR_LIMIT beyond MAX bytes or the ceiling of B. */
int fd_read_all(int fd, size_t max, struct buf *b, struct err *e);

/* Appends the content of a regular file of at most MAX bytes; anything but a regular file is ERR_INVALID, and
 * nothing blocks on a FIFO or device. Symlinks are followed: for paths of our own. On failure B may hold a
 * part. */
int fd_read_file(int dirfd, const char *path, size_t max, struct buf *b, struct err *e);

/* Writes a temporary file, syncs it, gives it MODE whatever the umask, renames it to NAME (one component, in
 * DIRFD) and syncs the directory: after a crash there is the old content or the new. On failure the old one
 * remains, except that a failing sync of the directory leaves the new one in place. */
int file_replace(int dirfd, const char *name, struct str bytes, mode_t mode, struct err *e);

/* Closes every descriptor from MIN on, or marks them close-on-exec. Usable between fork and exec: no heap.
 * Kernels without close_range() get the same through /proc/self/fd. */
int close_from(unsigned min, struct err *e);
int cloexec_from(unsigned min, struct err *e);
/* Closes every descriptor from 3 on but these, of which some may be -1; sorts them. No heap either. Needs
 * Linux 5.9. */
int close_others(int *keep, size_t n, struct err *e);

uint64_t fd_limit(void); /* how many descriptors this process may have: the soft RLIMIT_NOFILE */

/* A wake-up between threads or processes: any number of raises before a take count as one. */
int event_open(struct err *e);
void event_raise(int fd);
bool event_take(int fd); /* false when it was not raised; never blocks */
