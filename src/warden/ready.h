// SPDX-License-Identifier: Apache-2.0
/* warden/ready.h - slots made in advance, and the numbers that all boxes have.
 *
 * Creates have priority: slots are made while none is in progress, or when few are left, with the limits of
 * the last request. A create that finds no slot waits in a queue. Most slots are eager (box/slot.h), prepared
 * for boxes like the recent ones; the others fit any box. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct box;
struct err;
struct slot;
struct slot_guess;
struct warden;

/* A number that names nothing; -1 when there is none. Free again only when nothing that it names is left. */
int number_take(struct warden *w, struct err *e);
void number_free(struct warden *w, unsigned number); /* as soon as nobody's rules have its address */
void number_freed(struct warden *w, unsigned number);

int ready_open(struct warden *w, struct err *e); /* and begins to make some */
/* The number is the caller's with it. False: there is none. */
bool ready_take(struct warden *w, const struct slot_guess *like, struct slot *ret);
/* A box like this one was made: the next slots are made for that. */
void ready_guess(struct warden *w, const struct slot_guess *like);
/* Leads to box_start() or box_fail_start(), later. */
void ready_wait(struct warden *w, struct box *b);
void ready_forget(struct warden *w, struct box *b); /* it waits no more */
void ready_note(struct warden *w); /* a create begins or ends */
void ready_done(struct warden *w); /* destroys them, waiting for it */
