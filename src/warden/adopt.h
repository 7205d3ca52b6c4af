// SPDX-License-Identifier: Apache-2.0
/* warden/adopt.h - what earlier wardens have left: taken up where it lives, removed where it does not (S3, S6).
 *
 * A box is alive when its file is of this boot and its PID 1 is the process that the file names, by number and start. One
 * that was acknowledged and has ended since keeps its row. Everything else that has a number of ours, as a folder or as a
 * control group, is removed in the background. What cannot be read now is neither: it is left alone, with its number. */
#pragma once
#include <stddef.h>

struct err;
struct warden;

/* Marks in FOUND, which has SLOT_NUMBER_MAX bytes, every number that something of a box has: whoever it is. */
int adopt_find(const struct warden *w, unsigned char *found, struct err *e);
int adopt_all(struct warden *w, size_t *ret_alive, struct err *e);
