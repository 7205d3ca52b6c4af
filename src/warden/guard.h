// SPDX-License-Identifier: Apache-2.0
/* warden/guard.h - runs box/store_guard.h for the disk that all boxes are on. */
#pragma once
#include "box/store_guard.h"
#include "net/loop.h"
#include "warden/worker.h"

struct err;
struct warden;

/* Between two looks; fewer milliseconds when less is left, since somebody may be filling it. */
#define GUARD_LOOK_MS 250
#define GUARD_CLOSE_LOOK_MS 50

struct guard {
	struct store_guard state;
	struct store_plan plan; /* that the worker is at */
	bool is_settling;       /* the last one was a trim */
	bool is_told;           /* that nothing is left */
	bool is_wanted;         /* a request was refused */
	struct timer timer;
	struct workers pool;
	struct worker worker;
};

int guard_open(struct warden *w, struct err *e);
/* Before anything is begun that takes room: see box_store_check_room(). Who was refused may soon ask again:
 * what others have removed becomes free at once then, and not with the next commit, on a btrfs of the
 * operator's as well. */
int guard_check(struct warden *w, struct err *e);
void guard_done(struct warden *w);
