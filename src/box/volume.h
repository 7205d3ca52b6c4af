// SPDX-License-Identifier: Apache-2.0
/* box/volume.h - volumes: folders and files that outlive a sandbox, or that several sandboxes share.
 *
 * A volume is opened once, outside the box, into a detached mount: private, nosuid, nodev, read-only if
 * requested, shown with the ids of the box. The box's child attaches that descriptor; the path is never
 * resolved again. There are two kinds:
 *
 *     host    in one of the folders that the operator has listed. Its owner is the root of the sandbox. All other users
 *             of the sandbox have ids on the disk that no account of the host has, the same ones in every sandbox. Files
 *             of other owners belong to nobody inside.
 *     named   the folder "data" of a disk of the store, with its quota. Ids on the disk are those inside.
 *
 * Mounts below a volume are not part of it. Names of named volumes in disks/:
 *
 *     vol-ID           complete
 *     new-vol-RANDOM   being made; renamed once it is synced
 *     gone-vol-...     being removed; the rest is its id
 *
 * Everything here may block: for worker processes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct box_store;
struct err;
struct wire_volume;

/* Above those of all boxes and images: see box/slot.h. */
#define VOLUME_ID_BASE (UINT64_C(20480) * 65536)

/* Returns the mount. Of a volume of the host PREFIX is its folder's path. What is missing on the way to it is
 * made, for the owner of what it is made in. STATE is our own state directory, which no sandbox gets, nor a
 * folder above it. `sys` of an error is an enum wire_volume_fault, if any fits; then the words are fit for a
 * client. */
struct volume_spec {
	const struct wire_volume *volume;
	const char *prefix;
	const struct box_store *store;
	const char *state_dir;
	uint64_t id_base; /* of the box */
};
int volume_open(const struct volume_spec *spec, struct err *e);

/* ---- named ones ---- */

/* LIMIT_BYTES 0: none, which is refused where there are limits; another number where there are none is
 * ERR_UNAVAILABLE with EDQUOT in `sys`. When it succeeds the volume is on the disk, whatever happens. One
 * that is there stays as it is. */
int volume_make(const struct box_store *s, const char *id, uint64_t limit_bytes, struct err *e);
/* Until it succeeds something may be left, and who asks again goes on with that. Not there is removed
 * already. */
int volume_remove(const struct box_store *s, const char *id, struct err *e);
/* The id of the volume that NAME, of a disk, is of; NULL: of none. */
const char *volume_id_of(const char *name);
/* Removes what others were cut off in making or removing, if it was last changed before BEFORE_US (see
 * box_layers_sweep()). */
int volumes_sweep(const struct box_store *s, int64_t before_us, struct err *e);

/* ---- in the box's child ---- */

/* Puts the mount at PATH in the root, which is resolved there, following symlinks; what is missing is made,
 * for the box's own root. Nothing is put on or into what STAGE has made of proc, sys and dev, by whatever
 * name. */
int volume_place(int root, int stage, int mount, const char *path, uint64_t id_base, struct err *e);
