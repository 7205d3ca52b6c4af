// SPDX-License-Identifier: Apache-2.0
/* box/stage.h - the mounts that every box has, made by its parked child before the image is known.
 *
 * They are made in directories that all children share, each in its own mount namespace, and moved into the
 * root when there is one. Everything is made outside the sandbox's user namespace, so that even a root with
 * all capabilities inside cannot change it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/overlay.h"

struct err;
struct slot_layer;

/* The places, and what hides things in /proc and /sys: on a small file system at PATH, an empty directory, in
 * this mount namespace, of which those of the children are copies. Sandboxes see of it what hides, which
 * nobody in them can open. */
int stage_prepare(const char *path, struct err *e);
/* The way to make overlays, tried on such a file system: once for all boxes. */
int stage_find_way(const char *path, enum overlay_way *ret, struct err *e);

struct stage_spec {
	int stage;       /* the root of what stage_prepare() made, in this namespace; it may be O_PATH */
	int layers;      /* the host's layers, shown with the box's ids as "layers" */
	int usr;         /* the host's /usr, shown likewise as "usr"; -1: none */
	int userns;
	uint64_t id_base;
};

/* Makes proc, sys and dev complete there; "root" is an empty directory. */
int stage_make(const struct stage_spec *spec, struct err *e);

struct stage_root {
	int stage;
	enum overlay_way way; /* that this kernel has */
	int dir; /* the box's disk */
	const char *work; /* a folder of it that no overlay has had */
	int store; /* the host's layers, with the ids that they have on the disk */
	uint64_t id_base; /* of the box */
	const struct slot_layer *layers;
	size_t n_layers;
	int image; /* a directory of the host below the layers, shown with the ids of `userns`; -1: none */
	int userns;
	bool has_usr; /* the host's, below the layers: see box/disk.h */
};

/* Makes the root and moves proc, sys and dev into it. Returns the root, attached and ready to pivot to.
 *
 * A layer that was the disk of another box is shown with this box's ids, by a mount of its own: on the disk
 * it keeps those of the range that it was made with. Who has that range today does not matter. Ids on a disk
 * are numbers, and nobody but the boxes that stand on the layer has a mount that leads to it. */
int stage_make_root(const struct stage_root *r, struct err *e);

/* Undoes it, so that another root can be made on the same stage: ROOT is taken. */
int stage_take_back(int stage, int root, struct err *e);
