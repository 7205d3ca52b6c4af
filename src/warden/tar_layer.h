// SPDX-License-Identifier: Apache-2.0
/* warden/tar_layer.h - the layer of a tar: unpacked once, named after what is in it.
 *
 * Names in the host's layers/:
 *
 *     sha256-DIGEST   a layer, complete; the digest is that of the tar file
 *     tar-DIGEST      a symlink to one of these, for a path with the numbers of its file (device, inode, size, times): a
 *                     file that has not changed is not read again, one that has is another image
 *     new-tar-RANDOM  being unpacked; becomes a layer by its name alone, after its bytes are on the disk
 *     gone-RANDOM     being removed
 *
 * Nothing else is kept about them, so there is nothing to repair after a crash but names to sweep. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "box/slot.h"

struct err;

/* The layer of the file at PATH, whose numbers are ST: 1; 0 when it has to be made; -1. */
int tar_layer_find(int layers, const char *path, const struct stat *st, char ret[SLOT_LAYER_NAME_MAX + 1], struct err *e);

struct tar_layer_spec {
	const char *layers_path, *path;
	const char *unpack; /* the program */
	uint64_t id_base;   /* of ids that are nobody else's while this runs */
};

/* Makes it. Blocks as long as reading the file twice takes and unpacking it, in a process that may be killed at any
 * moment. ERR_INVALID is the tar's own fault, and its words name no path of the host. */
int tar_layer_make(const struct tar_layer_spec *spec, struct err *e);

/* Takes everything out of layers/ that nobody uses, at once and without waiting: IS_USED is asked about layers and symlinks
 * by their names. Nothing may be being made meanwhile, by this process. *ret_n is how many there are to remove. */
typedef bool tar_layer_used_fn(const char *name, void *arg);
int tar_layers_retire(const char *layers_path, tar_layer_used_fn *is_used, void *arg, unsigned *ret_n, struct err *e);
/* Removes what was taken out. Blocks. */
int tar_layers_remove(const char *layers_path, struct err *e);

/* The name of the symlink for such a file. */
void tar_layer_key(const char *path, const struct stat *st, char ret[SLOT_LAYER_NAME_MAX + 1]);
