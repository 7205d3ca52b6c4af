// SPDX-License-Identifier: Apache-2.0
/* sys/tree_copy.h - copies a directory tree unchanged.
 *
 * Modes, owners, times, extended attributes, hard links and holes are preserved. Content is shared with the
 * original where the file system supports that, and copied otherwise. Symlinks are copied, not followed.
 * Device nodes are omitted, except overlay whiteouts. Nothing may change the original meanwhile. */
#pragma once
struct err;

#define TREE_COPY_DEPTH_MAX 256
#define TREE_COPY_ENTRIES_MAX 2000000

/* NAME (one component) of the directory FROM becomes NAME of the directory TO, where there is nothing of that
 * name. Mounts are not crossed (ERR_CONFLICT); ERR_LIMIT beyond the ceilings above. What was copied before a
 * failure is left there. While it runs, TO has another directory, ".links". */
int tree_copy(int from, int to, const char *name, struct err *e);
