// SPDX-License-Identifier: Apache-2.0
/* image/layer.h - a sink for image/tar.h that makes files below a directory.
 *
 * Every path is resolved in-root: symlinks of the archive may lead anywhere within it and nowhere else, and the last
 * component is never followed. Of entries with one name the last holds, except that a directory does not give way to
 * anything else. Directories that the archive leaves out are made, and count. Files are opened with openat2() alone, so
 * that a process which has just that can do this and nothing more. Times of directories are not kept. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/own.h"
#include "image/entry.h"
#include "image/tar.h"

struct layer {
	int root;        /* the caller's */
	int parent;      /* of the last entry: the next one is most likely beside it */
	int file;        /* the file or directory at hand, or -1 */
	bool replaced;   /* the one at hand took a place, which may be on the way to `parent` */
	uint64_t left;   /* entries that may still be made */
	struct entry at; /* the one at hand */
	char parent_path[PATH_BYTES_MAX + 1];
};

void layer_init(struct layer *l, int root, uint64_t entries_max);
void layer_done(struct layer *l);
DEFINE_AUTO_DONE(struct layer, layer_done)

extern const struct tar_sink layer_sink; /* its argument is the struct layer */
