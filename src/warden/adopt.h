// SPDX-License-Identifier: Apache-2.0
/* warden/adopt.h - adopts or removes what earlier wardens have left (S3, S6).
 *
 * A box is alive when its file is of this boot and its PID 1 is the process that the file names, by pid and
 * start time. A box that was acknowledged and has ended since keeps its row. Everything else with one of our
 * numbers, as a folder or a control group, is removed in the background. Files that cannot be read now are
 * left alone, and their number is not used. */
#pragma once
#include <stddef.h>

struct err;
struct warden;

/* Marks in FOUND, which has SLOT_NUMBER_MAX bytes, every number that something of a box has: whoever it
 * is. */
int adopt_find(const struct warden *w, unsigned char *found, struct err *e);
int adopt_all(struct warden *w, size_t *ret_alive, struct err *e);
