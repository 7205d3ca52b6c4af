// SPDX-License-Identifier: Apache-2.0
/* warden/ready.h - slots that are made before they are asked for, and the numbers that all boxes have. */
#pragma once
struct err;
struct slot;
struct warden;

/* A number that names nothing; -1 when there is none. Free again only when nothing that it names is left. */
int number_take(struct warden *w, struct err *e);
void number_free(struct warden *w, unsigned number);

int ready_open(struct warden *w, struct err *e); /* and begins to make some */
/* One that was ready, or one made on the spot. The number is the caller's with it. */
int ready_take(struct warden *w, struct slot *ret, struct err *e);
void ready_done(struct warden *w); /* destroys them, waiting for it */
