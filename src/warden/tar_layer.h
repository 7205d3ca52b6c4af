// SPDX-License-Identifier: Apache-2.0
/* warden/tar_layer.h - the layer of an operator's tar, unpacked once, named after its content ("sha256-" and
 * the digest of the file).
 *
 * For a path with the numbers of its file (device, inode, size, times) a symlink "tar-..." leads to its
 * layer: an unchanged file is not read again, a changed one is another image. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "box/slot.h"

struct box_store;
struct err;

/* The layer of the file at PATH, whose numbers are ST: 1; 0 when it has to be made; -1. */
int tar_layer_find(int layers, const char *path, const struct stat *st, char ret[SLOT_LAYER_NAME_MAX + 1],
		   struct err *e);

struct tar_layer_spec {
	const char *layers_path, *path;
	const char *unpack; /* the program */
	const struct box_store *store; /* that the layers are in */
	uint64_t id_base;   /* of ids that are nobody else's while this runs */
};

/* Makes it. Blocks as long as reading the file twice takes and unpacking it, in a process that may be killed
 * at any moment. ERR_INVALID is the tar's own fault, and its words name no path of the host. */
int tar_layer_make(const struct tar_layer_spec *spec, struct err *e);

/* The name of the symlink for such a file. */
void tar_layer_key(const char *path, const struct stat *st, char ret[SLOT_LAYER_NAME_MAX + 1]);
