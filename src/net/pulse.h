// SPDX-License-Identifier: Apache-2.0
/* net/pulse.h - the heartbeat of a program, for the process that started it.
 *
 * The loop writes a byte into a pipe once in PULSE_MS. A program that is stopped, or whose loop is blocked,
 * writes nothing; so the supervisor can tell it from an idle program. */
#pragma once
#include "net/loop.h"

#define PULSE_MS 1000

struct err;

struct pulse {
	int fd;
	struct timer timer;
};

#define PULSE_INIT ((struct pulse){ .fd = -1 })

/* Begins with the first byte. FD, the end of a pipe that is written to, is taken on success; it is made
 * non-blocking. */
int pulse_start(struct pulse *p, struct loop *l, int *fd, struct err *e);
void pulse_done(struct pulse *p); /* fine when it was not started */
