// SPDX-License-Identifier: Apache-2.0
/* execd/files/files_walk.h - walks a directory tree in order (O4).
 *
 * Names come in byte order, a directory before its entries; symlinks are reported and never entered. Entries
 * that disappear or cannot be read are skipped. Depth, number of names and time have limits: beyond each the
 * walk fails (ERR_LIMIT); it never ends early as if complete. */
#pragma once
#include <stddef.h>
#include <sys/stat.h>

#include "base/str.h"
#include "sys/path.h"

struct err;
struct task;

#define WALK_DEPTH_MAX 64
#define WALK_NAMES_MAX 100000
#define WALK_PATH_MAX (PATH_BYTES_MAX + (size_t)(WALK_DEPTH_MAX + 2) * (PATH_COMPONENT_MAX + 1))

/* PATH is absolute; its last part, from NAME_AT on, is relative to where the walk began. */
typedef int walk_fn(struct str path, size_t name_at, const struct stat *st, void *arg, struct err *e);

struct walk_spec {
	struct task *t;
	const char *path;  /* of where it begins, for the paths that are told */
	int dir;           /* and the same as a descriptor; taken */
	size_t depth;      /* 1: the entries of the directory alone */
	walk_fn *fn;
	void *arg;
};

int files_walk(const struct walk_spec *spec, struct err *e);
