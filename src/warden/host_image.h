// SPDX-License-Identifier: Apache-2.0
/* warden/host_image.h - the image "host": the host's own programs under a small clean root.
 *
 * The layer contains everything outside /usr, below DISK_ROOT (box/disk.h): links into /usr as on the host, a
 * generated /etc with the few files that programs need, and empty directories. Nothing comes from /root,
 * /home or /var. Of /etc and /usr only files appear that every user of the host may read: root of a box owns
 * root's files in /usr, so whiteouts hide the others (sys/closed_files.h). The layer is made at each start,
 * because the host may have changed; boxes keep the layer that they were made with. */
#pragma once
#include <stdbool.h>

#include "box/slot.h"

struct box_host;
struct err;

#define HOST_IMAGE_PREFIX "host-"
#define HOST_IMAGE_BYTES_MAX (16 * 1024 * 1024) /* of what is copied from the host's /etc */
#define HOST_IMAGE_ENTRIES_MAX 8192
#define HOST_IMAGE_HIDDEN_MAX 65536

int host_image_make(const struct box_host *h, char ret_layer[SLOT_LAYER_NAME_MAX + 1], struct err *e);

/* Removes the layers of earlier starts, but for those that IS_USED says a box still has. */
typedef bool host_image_used_fn(const char *layer, void *arg);
int host_image_sweep(const struct box_host *h, host_image_used_fn *is_used, void *arg, struct err *e);
