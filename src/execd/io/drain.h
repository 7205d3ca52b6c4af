// SPDX-License-Identifier: Apache-2.0
/* execd/io/drain.h - pipes that nobody reads any more but somebody still writes to.
 *
 * What a command leaves running in the background goes on writing to the command's pipe. Closing that would end it
 * (SIGPIPE), and leaving it full would stop it; so it is read and dropped, slowly, so that a program which
 * does nothing but write costs next to no CPU time of ours. */
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
	char scratch[DRAIN_PIECE]; /* for whoever reads to drop */
};

void drains_init(struct drains *ds, struct loop *l, size_t max);
void drains_done(struct drains *ds);

/* Takes *FD, the non-blocking read end of a pipe, until its end. Out of memory it is closed. */
void drains_take(struct drains *ds, int *fd);
