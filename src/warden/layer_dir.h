// SPDX-License-Identifier: Apache-2.0
/* warden/layer_dir.h - the host's layers/: a name appears when everything below it is on the disk.
 *
 *     sha256-DIGEST   the layer of an operator's tar, and
 *     tar-DIGEST      a symlink to one of these (tar_layer.h)
 *     blob-DIGEST     a layer of an image (blob_layer.h); removed when the server asks for it, never otherwise
 *     new-NAME-RANDOM being unpacked; becomes a layer by a rename
 *     gone-RANDOM     being removed
 *
 * There is no other record of layers. So after a crash nothing needs repair; unfinished names are removed. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "box/slot.h"

struct err;

/* Of a folder of a layer, "y": nothing below it is seen. */
#define LAYER_OPAQUE_ATTR "trusted.overlay.opaque"

int layer_dir_open(const char *path, struct err *e);
bool layer_dir_has(int layers, const char *name); /* as a directory */

struct layer_draft { /* one that is being made */
	int layers; /* the caller's */
	int target; /* an empty directory of ours */
	char temp[SLOT_LAYER_NAME_MAX + 1];
};
#define LAYER_DRAFT_INIT ((struct layer_draft){ .layers = -1, .target = -1 })

/* PREFIX: "new-tar-" and the like. */
int layer_draft_make(struct layer_draft *d, int layers, const char *prefix, struct err *e);
/* Gives it its name, after its bytes are on the disk. When there is one of that name already, that one
 * counts. */
int layer_draft_publish(const struct layer_draft *d, const char *name, struct err *e);
void layer_draft_done(struct layer_draft *d); /* what is left of it goes, or is left to the next sweep */
DEFINE_AUTO_DONE(struct layer_draft, layer_draft_done)

/* Takes NAME away, at once and without waiting; not there is fine. */
int layer_retire(int layers, const char *name, struct err *e);
/* Takes everything away that nobody uses: drafts, and of tars what IS_USED denies. Nothing may be being made
 * meanwhile, by this process. *ret_n is how many there are to remove. */
typedef bool layer_used_fn(const char *name, void *arg);
int layers_retire(const char *layers_path, layer_used_fn *is_used, void *arg, unsigned *ret_n, struct err *e);
/* Removes what was taken away. Blocks. */
int layers_remove(const char *layers_path, struct err *e);
/* The same, and drafts, of what was last changed before BEFORE_US (time of day). In a worker. */
int layers_sweep_old(const char *layers_path, int64_t before_us, struct err *e);
