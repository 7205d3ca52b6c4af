// SPDX-License-Identifier: Apache-2.0
/* warden/snapshot.h - layers that are a copy of a box's disk at one moment.
 *
 * Dirty data of the box is written back while it still runs. Then the box is frozen, its disk cloned, and the
 * box thawed. A paused box stays paused. A file in the folder of the box records that it is frozen for a
 * snapshot only, so the next warden thaws it if this one is killed. A layer exists completely or not at all.
 * The server knows its owner and the layers below it. It cannot be removed while a box uses it. */
#pragma once
#include <stdbool.h>

#include "box/wire.h"

struct box;
struct box_host;
struct err;
struct slot;
struct snapshot_removal;
struct ticket;
struct warden;

#define SNAPSHOT_INTENT_NAME "snapshot" /* in the folder of a box */

/* All of these answer the ticket, sooner or later. */
void snapshot_take(struct box *b, const struct wire_request *rq, const struct ticket *t);
void snapshot_layer_remove(struct warden *w, const struct wire_request *rq, const struct ticket *t);
void snapshots_list(struct warden *w, const struct ticket *t);

bool snapshot_is_going(const struct warden *w, const char *layer); /* it is being removed */

/* Lets a box that an earlier warden has frozen for a snapshot go on. 0: it has not. */
int snapshot_let_go(const struct box_host *h, const struct slot *s, struct err *e);
/* It goes on whatever froze it, with several tries. */
int snapshot_thaw(const struct box_host *h, const struct slot *s, struct err *e);

void snapshot_forget(struct box *b); /* without a reply */
void snapshots_done(struct warden *w);
