// SPDX-License-Identifier: Apache-2.0
/* warden/warden.h - the root process that owns the boxes: state that its parts share.
 *
 * peer.h talks to the server, calls.h executes its requests, box.h is one box from creation to removal,
 * network.h applies network rules, ready.h keeps slots for the next boxes, adopt.h adopts boxes of an earlier
 * warden. Everything runs on one loop; work that may block runs in a worker. Killing this process loses
 * nothing that was acknowledged and ends no sandbox. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "box/host.h"
#include "box/slot.h"
#include "net/loop.h"
#include "net/pulse.h"
#include "warden/box_file.h"
#include "warden/cpu_throttle.h"
#include "warden/guard.h"
#include "warden/images.h"
#include "warden/maker.h"
#include "warden/network.h"
#include "warden/sweep.h"
#include "warden/volumes.h"
#include "warden/worker.h"

struct box;
struct err;
struct images;
struct layer_add;
struct layer_pack;
struct parked;
struct peer;
struct snapshot_removal;

struct warden_spec {
	const char *state_dir, *prefix, *execd;
	int listener;     /* SEQPACKET, listening; taken */
	int pulse;        /* see net/pulse.h; -1: none. Taken */
	int64_t server_uid; /* user that may send requests, besides root; -1: none */
	unsigned slots;   /* kept ready */
	struct images_spec images; /* as the operator lists them */
	struct volumes_spec volumes;
	struct network_spec network;
	uint64_t disk_size_bytes, disk_reserve_bytes; /* see box/store.h */
	bool no_disk_limit;
};

struct warden {
	struct loop *loop;
	struct pulse pulse;
	struct box_host host;
	bool has_host;
	int lock; /* of the state directory */
	bool is_locked_out; /* it could not be had: another warden runs there */
	struct workers workers;  /* for requests that clients wait for */
	struct workers freezers; /* for pauses: few, since each waits for busy processes to have their turn */
	struct workers removers; /* few: they wait for the same locks of the kernel that creates need */
	char boot[BOOT_ID_SIZE];
	char host_layer[SLOT_LAYER_NAME_MAX + 1];
	struct images *images;
	struct layer_add *adds; /* layers that are being added */
	struct layer_pack *packs; /* that are being packed */
	struct workers unpackers;
	struct volumes *volumes;
	struct network network;
	struct worker layers; /* removes those of earlier starts */
	bool has_old_layers;  /* there may be more to remove when it is done */
	struct snapshot_removal *snapshot_removals;

	struct map by_id; /* boxes that have one */
	struct box *boxes;
	bool is_taken[SLOT_NUMBER_MAX]; /* numbers, until everything that they name is gone */
	unsigned next_number;
	bool has_unknown; /* boxes that could not be adopted and are left alone: they may use any layer */

	struct maker maker; /* one: a second makes latency worse on two CPUs, and rates no better */
	struct parked *parked; /* slots that wait */
	unsigned n_parked, want_parked;
	struct box *waiting; /* creates that wait for one, the oldest first */
	unsigned n_waiting;
	unsigned n_starting; /* boxes that have one and are not ready */
	struct slot_guess guess; /* what the last box was made with: likely the next one, too */
	struct slot_guess eager; /* what eager slots are made for; without a layer there are none */
	unsigned n_unlike;       /* boxes in a row that were made of something else */
	struct timer refill;
	uint64_t refill_pause_ms; /* longer with each failure */

	struct cpu_throttles throttles;
	struct sweep sweep;
	struct guard guard;

	int listener;
	struct io accept;
	struct timer accept_again;
	int64_t server_uid;
	struct peer *peers;
	unsigned n_peers;
	uint64_t last_peer;

	int signals;
	struct io signal;
	bool is_stopping;
	size_t pending; /* requests without an answer */
	struct timer stop_by;

	struct buf problems; /* what this host lacks, a line each, when that is why warden_open() failed */
};

/* Takes up what is there, proves that this host can hold boxes and is ready to be asked. */
int warden_open(struct warden *w, const struct warden_spec *spec, struct err *e);
int warden_run(struct warden *w, struct err *e); /* until SIGTERM or SIGINT */
void warden_done(struct warden *w); /* boxes go on */

/* A box is gone that had LAYER: nobody may need that one any more. */
void warden_layer_unused(struct warden *w, const char *layer);
/* Lets an orderly stop go on once nothing is pending and no removal in progress. */
void warden_answered(struct warden *w);
