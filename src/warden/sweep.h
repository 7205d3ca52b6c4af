// SPDX-License-Identifier: Apache-2.0
/* warden/sweep.h - removes leftovers while the warden runs: resources of a worker that was killed alone.
 *
 * A start removes all of them (adopt.h). This module does the same from time to time, and soon after a
 * failure. A worker reads what exists and applies two rules:
 *
 *   - names of unfinished work (new-..., gone-..., part-...) are leftovers when they were last changed before
 *     the oldest worker that may use them was started;
 *   - resources with the number of a box (folder, disk, groups, link, elements of the rules) are leftovers when
 *     the number is free, because a number is taken before anything uses it and freed after everything is gone.
 *     One that was freed while the worker read may have been found before. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "box/slot.h"
#include "net/loop.h"
#include "warden/worker.h"

struct err;
struct warden;

#define SWEEP_MS 10000
#define SWEEP_SOON_MS 1500 /* longer than SWEEP_MARGIN_US */
#define SWEEP_MARGIN_US 1000000 /* files are dated by a clock that ticks */
#define SWEEP_NUMBERS_MAX 64 /* of one turn; what is left has its turn soon */

struct sweep {
	struct workers pool;
	struct worker worker;
	struct timer timer;
	unsigned char *found; /* by number, in memory that the worker shares */
	bool was_freed[SLOT_NUMBER_MAX]; /* since the worker began */
	int64_t layers_us, disks_us; /* what was last changed before is nobody's */
};

int sweep_open(struct warden *w, struct err *e);
void sweep_done(struct warden *w);
void sweep_note_freed(struct warden *w, unsigned number);
void sweep_soon(struct warden *w); /* something has failed that may have left something */
bool sweep_is_busy(const struct warden *w);
