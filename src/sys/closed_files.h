// SPDX-License-Identifier: Apache-2.0
/* sys/closed_files.h - finds files of a folder that not every user of the host may read, by their mode.
 *
 * A file is open when others may read it; a set-uid program also when others may only run it. A folder is
 * open when others may list and enter it; below a folder that is not open nothing is examined. Symlinks are
 * always open. */
#pragma once
struct err;
struct stat;

#define CLOSED_FILES_DEPTH_MAX 128
#define CLOSED_FILES_ENTRIES_MAX 8000000L /* looked at */

/* PATH is below the folder. Not 0: the search ends with that. */
typedef int closed_file_fn(const char *path, const struct stat *st, void *arg, struct err *e);

/* In DIR, which is read through a mount of its own: what is mounted over it, or below, is not seen. Needs
 * root. */
int closed_files_find(int dir, closed_file_fn *fn, void *arg, struct err *e);
