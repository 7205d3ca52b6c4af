// SPDX-License-Identifier: Apache-2.0
/* box/disk.h - the layout of a box's disk, and of a layer that was one.
 *
 *     upper          the writable layer of the box
 *     upper/.root    of a box that has the host's /usr, which then is the rest of "upper"
 *     work           the work directory of overlayfs
 *
 * A box with the host's /usr has one overlay for both: the root of the overlay is /usr, and "/" is a folder
 * of it. All layers of such a box have the same layout: the one of the image `host`, and the disks of others
 * (docs/decisions/0057-one-overlay.md). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct err;

#define DISK_ROOT ".root"

/* Of the box that the layer is for: what is "/" in it, from "upper" or from the layer of an image on. */
static inline const char *disk_root(bool has_usr)
{
	return has_usr ? DISK_ROOT "/" : "";
}

/* Earlier versions had two overlays, and the one of /usr its writable layer here. */
#define DISK_OLD_USR "usr-upper"

/* Makes the folders, owned by the box's root OWNER, with the places of what every root has mounted. */
int disk_fill(int disk, uint64_t owner, bool has_usr, struct err *e);
/* The same disk for the other kind of box, before anybody has written to it. */
int disk_turn(int disk, uint64_t owner, bool has_usr, struct err *e);
/* What an earlier version has made for a box with the host's /usr becomes what it is now. Cut off, it goes on
 * the next time. */
int disk_join(int disk, struct err *e);
