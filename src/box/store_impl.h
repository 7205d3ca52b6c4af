// SPDX-License-Identifier: Apache-2.0
/* box/store_impl.h - what the files of the store share: its drivers. */
#pragma once
#include "box/store.h"

struct box_store_ops {
	const char *name;
	bool has_limits;
	int (*make)(const struct box_store *s, const char *name, uint64_t limit_bytes, struct err *e);
	int (*limit)(const struct box_store *s, const char *name, uint64_t limit_bytes, struct err *e);
	int (*usage)(const struct box_store *s, const char *name, uint64_t *ret_bytes, struct err *e);
	int (*remove)(const struct box_store *s, const char *name, struct err *e);
	/* The disk DISK, to be the layer LAYER; LAYERS is the folder. */
	int (*flush)(const struct box_store *s, int disk, int layers, const char *name, struct err *e);
	int (*clone)(const struct box_store *s, int disk, int layers, const char *layer, struct err *e);
	int (*finish)(int layers, const char *layer, struct err *e); /* NULL: it is finished already */
	int (*layer_set_writable)(int layer, bool writable, struct err *e); /* NULL: it is */
	int (*layer_remove)(const struct box_store *s, int layers, const char *layer, struct err *e);
};

#define STORE_PART "part-" /* before the names of layers that are not finished */

extern const struct box_store_ops box_store_directory_ops;

extern const struct box_store_ops box_store_btrfs_ops;

/* The file system that S->fs is on gets quotas that work, or is refused. */
int box_store_btrfs_prepare(struct box_store *s, struct err *e);

/* NAME in the root of an image of ours, for disks. */
int box_store_btrfs_make_folder(int root, const char *name, struct err *e);

#define STORE_IMAGE_NAME "disk.img"

/* Makes or grows the image and mounts it at S->mounted_at. Returns the root. */
int box_store_image_mount(struct box_store *s, const struct box_store_spec *spec, struct err *e);
