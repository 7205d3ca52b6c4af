// SPDX-License-Identifier: Apache-2.0
/* warden/snapshot_record.h - what the server wants to have back with a snapshot, should its database be lost: a file "record-..."
 * beside the layer "snap-...", kept unread (box/wire.h). It is there while the server wants it, and goes before its layer. */
#pragma once
#include <stdbool.h>

#include "box/wire.h"

struct buf;
struct err;
struct warden;

/* Of the snapshot that RQ names. SEALED holds it, WIRE_RECORD_MAX bytes at most; an empty one removes the one that there is.
 * ERR_NOT_FOUND: there is no such layer, or, when reading, no record. */
int snapshot_record_write(const struct warden *w, const struct wire_request *rq, int sealed, struct err *e);
int snapshot_record_read(const struct warden *w, const struct wire_request *rq, struct buf *text, struct err *e);

/* LAYERS: their directory; LAYER: a name as stack_layer_name() has it. */
bool snapshot_has_record(int layers, const char *layer);
int snapshot_record_remove(int layers, const char *layer, struct err *e);
