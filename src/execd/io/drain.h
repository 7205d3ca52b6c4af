// SPDX-License-Identifier: Apache-2.0
/* execd/io/drain.h - pipes without a reader that programs still write to.
 *
 * Background processes of a command keep writing to the command's pipe. Closing it would kill them (SIGPIPE),
 * and a full pipe would stop them. So it is read and the data dropped, slowly, so that a program that only
 * writes costs execd almost no CPU time. */
#pragma once
#include <stddef.h>

#include "net/loop.h"

#define DRAIN_PIECE (64 * 1024)
#define DRAIN_REST_MS 20 /* after each piece */

struct drain;
struct drains {
	struct loop *loop;
	struct drain *newest, *oldest;
	size_t n, max;             /* one more ends the oldest */
	char scratch[DRAIN_PIECE]; /* for data that is read and dropped */
};

void drains_init(struct drains *ds, struct loop *l, size_t max);
void drains_done(struct drains *ds);

/* Takes *FD, the non-blocking read end of a pipe, until its end. Out of memory it is closed. */
void drains_take(struct drains *ds, int *fd);
