// SPDX-License-Identifier: Apache-2.0
/* sys/tree.h - removes directory trees whose contents are hostile. */
#pragma once
struct err;

/* Removes NAME (one component, in DIRFD) with all that is in it. Symlinks are removed, not followed; mounts
 * are not crossed (ERR_CONFLICT). However deep the tree is, only a few descriptors and no recursion are used.
 * What is not there is removed already. */
int tree_remove(int dirfd, const char *name, struct err *e);
