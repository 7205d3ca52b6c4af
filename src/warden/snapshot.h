// SPDX-License-Identifier: Apache-2.0
/* warden/snapshot.h - layers that are the disk of a box as it was at one moment.
 *
 * What the box has not written back yet is written back while it still runs; then it is frozen, its disk cloned, and it goes
 * on. One that is paused stays so. A file in the folder of the box says that it is frozen for this and nothing else: a
 * warden that is killed meanwhile leaves that to the next one, which lets the box go on. A layer is there whole or not at
 * all. Whose it is and what it stands on is the server's business; it cannot be removed while a box stands on it. */
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

void snapshot_forget(struct box *b); /* nobody is answered any more */
void snapshots_done(struct warden *w);
