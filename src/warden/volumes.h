// SPDX-License-Identifier: Apache-2.0
/* warden/volumes.h - volumes of boxes: creates and removes named ones, and opens those of a create.
 *
 * The folders of the host that sandboxes may use are the --volume-prefix of the command line, in their order.
 * All of it may wait for a disk, so it runs in workers. A file system of the host may hang for ever (a
 * network server): boxes with host volumes have workers of their own, and when all of these hang, only such
 * creates fail. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box/slot.h"
#include "box/wire.h"

struct box;
struct err;
struct ticket;
struct volumes;
struct warden;

#define VOLUME_PREFIXES_MAX 256
#define VOLUMES_OPEN_MS 20000 /* of one box */

struct volumes_spec {
	const char *const *prefixes; /* absolute; borrowed */
	size_t n;
	const char *state_dir;
};

/* And removes what an earlier warden was cut off in. */
int volumes_open(struct warden *w, const struct volumes_spec *spec, struct err *e);
void volumes_done(struct warden *w);
/* When the oldest worker that may be making or removing one was begun; see workers_begun_us(). */
int64_t volumes_begun_us(const struct warden *w);
bool volumes_are_busy(const struct warden *w);

/* WIRE_VOLUME_MAKE and WIRE_VOLUME_REMOVE: answers the ticket, later. */
void volume_call(struct warden *w, const struct wire_request *rq, const struct ticket *t);
void volumes_list(struct warden *w, const struct ticket *t); /* all named ones that there are */

/* ---- of one box ---- */

struct opening;

struct box_volumes {
	struct wire_volumes asked;
	struct opening *opening; /* in progress, or NULL */
	bool is_open;
	struct slot_volume list[SLOT_VOLUMES_MAX]; /* then */
};

/* Keeps what a create asks for, if it is anything. */
int box_volumes_keep(struct box *b, const struct wire_volumes *volumes, struct err *e);
/* Opens them for a box that has a slot. FN is told from the loop, unless they are freed before: a worker that
 * hangs is left to itself then. */
typedef void box_volumes_fn(struct box *b, const struct err *failure);
int box_volumes_open(struct box *b, box_volumes_fn *fn, struct err *e);
void box_volumes_free(struct box *b); /* closes them: the box has its own */
