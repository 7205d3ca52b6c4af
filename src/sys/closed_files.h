// SPDX-License-Identifier: Apache-2.0
/* sys/closed_files.h - what of a folder is not open to every user of the host, by its mode.
 *
 * A file is, when others may read it; a program that runs with its owner's rights (setuid) also when they may only run it. A folder is,
 * when others may list and enter it; of one that is not, nothing below is looked at. Symlinks are always open. */
#pragma once
struct err;
struct stat;

#define CLOSED_FILES_DEPTH_MAX 128
#define CLOSED_FILES_ENTRIES_MAX 8000000L /* looked at */

/* PATH is below the folder. Not 0: the search ends with that. */
typedef int closed_file_fn(const char *path, const struct stat *st, void *arg, struct err *e);

/* In DIR, which is read through a mount of its own: what is mounted over it, or below, is not seen. Needs root. */
int closed_files_find(int dir, closed_file_fn *fn, void *arg, struct err *e);
