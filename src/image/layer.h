// SPDX-License-Identifier: Apache-2.0
/* image/layer.h - a sink for image/tar.h that creates files below a directory.
 *
 * Every path is resolved in-root: symlinks of the archive may lead anywhere within the root and nowhere else,
 * and the last component is never followed. Of entries with the same name the last one is kept, except that a
 * directory is replaced by nothing else. Directories that the archive omits are created, and count. Files are
 * opened with openat2() alone, so that a process confined to this call can do nothing more.
 *
 * Whiteouts become the device 0:0 that overlays expect, which needs no privilege. They concern lower layers
 * only: an entry of that name in the same archive stays, in either order, and a directory of that name is
 * opaque. Marking a directory as opaque needs a privilege that the unpacker must not have: another process
 * does that (`mark`). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/own.h"
#include "image/dir_times.h"
#include "image/entry.h"
#include "image/tar.h"

/* Makes the directory DIR, open for reading, opaque. */
typedef int layer_mark_fn(int dir, void *arg, struct err *e);

struct layer {
	layer_mark_fn *mark;
	void *mark_arg;
	struct dir_times times;
	int root;        /* the caller's */
	int parent;      /* of the last entry: the next one is most likely beside it */
	int file;        /* the file or directory at hand, or -1 */
	bool replaced;   /* the one at hand took a place, which may be on the way to `parent` */
	bool is_opaque;  /* the place was a whiteout's */
	uint64_t left;   /* entries that may still be made */
	struct entry at; /* the one at hand */
	char parent_path[PATH_BYTES_MAX + 1];
};

/* MARK may be NULL where there are no whiteouts (ENTRY_TAR). */
void layer_init(struct layer *l, int root, uint64_t entries_max, layer_mark_fn *mark, void *arg);
void layer_done(struct layer *l);
DEFINE_AUTO_DONE(struct layer, layer_done)

/* After the last entry: what had to wait until then, which are the times of directories. */
int layer_finish(struct layer *l, struct err *e);

extern const struct tar_sink layer_sink; /* its argument is the struct layer */
