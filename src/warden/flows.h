// SPDX-License-Identifier: Apache-2.0
/* warden/flows.h - ends connections: those that a box may no longer have, and all of a removed box.
 *
 * The kernel searches its whole table for them. So a worker does it, once for all requests that arrived
 * meanwhile. Removed boxes do not wait for it; their numbers are collected for FLOWS_PAUSE_MS. The worker is
 * a copy of this process and knows boxes and rules as of its start; later changes request another run. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "box/egress_wire.h"
#include "net/loop.h"
#include "warden/worker.h"

struct box;
struct err;
struct flow_job;
struct warden;

struct flows {
	struct flow_job *asked, *running;
	struct worker worker;
	struct timer later; /* nobody waits for those of boxes that are gone */
	bool is_late;
};
#define FLOWS_PAUSE_MS 1000
#define FLOWS_INIT ((struct flows){ .worker = WORKER_INIT })

/* Of those that the rules of B forbid (NET: NULL), or of those to NET. SERIAL, unless it is 0, is answered to
 * egress when it is done. Without memory for it nothing is answered, and egress is told so at once. */
int flows_end(struct box *b, const struct egress_net *net, uint64_t serial, struct err *e);
/* The number of a box that is gone: free once nothing that it had is known any more. */
void flows_retire(struct warden *w, unsigned number);
/* At the start, waiting for it: of boxes that there are no more. */
int flows_end_strays(struct warden *w, struct err *e);
int flows_open(struct warden *w, struct err *e);
void flows_done(struct warden *w);
