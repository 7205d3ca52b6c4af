// SPDX-License-Identifier: Apache-2.0
/* warden/box.h - one box, from its request to its complete removal.
 *
 *     STARTING -> RUNNING (or paused) -> OVER -> REMOVING        and to REMOVING from anywhere
 *
 * A box that waits for its image or for a slot is STARTING without a slot: only this struct exists.
 *
 * Each stage is in the box's file before it is acted upon or reported. A box that failed to start is removed
 * first; then the failure is reported. A box that is OVER keeps its files until it is removed. A removal is
 * reported when PID 1, and so every process, is dead; the remaining resources are removed in the background,
 * with retries, until their absence is proven. */
#pragma once
#include <stdbool.h>

#include "base/err.h"
#include "box/slot.h"
#include "net/loop.h"
#include "warden/box_file.h"
#include "warden/cpu_throttle.h"
#include "warden/images.h"
#include "warden/peer.h"
#include "warden/stack.h"
#include "warden/worker.h"

struct box_net;
struct box_volumes;
struct snapshot;
struct warden;
struct waiter;

#define BOX_WAKE_MS 10000
#define BOX_SLOT_MS 60000 /* for its turn, when many are asked for at once */
#define BOX_IMAGE_MS 530000 /* for its image: all together just less than who asks for a box waits for it */
#define BOX_WAITERS_MAX 64 /* removes of one box that are answered together */

/* Descriptors that came with a create: for execd, and for the box's folder. */
struct box_fds {
	int spec, record;
};

/* A create that waits for its image, or then for a slot. */
struct waiting_create {
	struct wire_request rq;
	struct box_fds fds;
	struct image_wait wait;
};

typedef void box_fn(struct box *b);

struct box {
	struct warden *w;
	struct box *prev, *next;
	struct box_file file; /* stage and all; without an id: only something to remove */
	struct stack stack;   /* above its image */
	bool has_slot;
	struct slot slot;
	struct waiting_create *create; /* or NULL */
	struct box_net *net; /* what it has of the network, or NULL */
	struct box_volumes *volumes; /* STARTING: those that it is to have, or NULL */
	bool is_paused;
	struct slot_guess like; /* STARTING: what it is, for slots */
	bool is_waiting; /* STARTING: for a slot, so far it has none */
	bool is_waking;  /* STARTING: it has one */
	struct box *next_waiting;
	bool has_ended;  /* its PID 1, and with that every process */
	/* REMOVING: its mount namespace, so that its PID 1 does not have to take it down before it is dead */
	int mounts;
	bool needs_kill; /* it is over: what is left of its processes is to end */
	int ready;       /* STARTING: execd's word will come here */
	struct io ready_io, end_io;
	struct timer timer; /* STARTING: the deadline; afterwards: the next try */
	struct worker worker;
	struct snapshot *snapshot; /* that the worker takes, or NULL */
	/* RUNNING: a worker that froze it was cut off, and it could not be let go on yet */
	bool needs_thaw;
	uint64_t pause_ms;         /* when it was asked for */
	unsigned thaws;            /* workers in a row that failed to resume it */
	box_fn *thawed;            /* what comes after it was let go on, or NULL */
	struct cpu_throttle throttle;
	unsigned tries;
	struct err failure; /* why it never started */
	struct waiter *waiters; /* for the worker, or for the end of it all */
	size_t n_waiters;
};

/* All of these answer the ticket, sooner or later. FDS are those of the request: the spec, the record, and a
 * policy if it has one. */
void box_create(struct warden *w, const struct wire_request *rq, const struct wire_volumes *volumes,
		const int *fds,
		const struct ticket *t);
void box_pause(struct box *b, const struct ticket *t);
void box_resume(struct box *b, const struct ticket *t);
void box_remove(struct box *b, const struct ticket *t);
bool box_stands_on(const struct box *b, const char *layer); /* as its image or above it */

/* For ready.c, of a box that waited for a slot, which is taken. */
void box_start(struct box *b, struct slot *slot);
void box_fail_start(struct box *b, const struct err *why);

/* What an earlier warden made: FILE says whose it is, STACK and SLOT are taken. ERR_CONFLICT when there is
 * one of that id. */
int box_take_up(struct warden *w, const struct box_file *file, struct stack *stack, struct slot *slot,
		bool is_paused, struct err *e);
/* Removes whatever has this number, in the background; SLOT is taken. ID (or NULL) is whose it was: who asks
 * for the removal of that one waits for this. */
void box_sweep_slot(struct warden *w, struct slot *slot, const char *id);
void box_sweep(struct warden *w, unsigned number, const char *id);
/* with elements of the rules that are not recorded */
void box_sweep_stray(struct warden *w, unsigned number);

enum wire_state box_state(const struct box *b);
void boxes_done(struct warden *w); /* forgets them all; they go on */
