// SPDX-License-Identifier: Apache-2.0
/* net/conduit.h - a pipe between two descriptors, one of them a socket: bytes pass through it without being
 * copied.
 *
 * It holds one piece of at most `size` bytes: CONDUIT_NARROW, and after CONDUIT_LONG bytes as much as it may
 * grow to. So only long bodies get a large pipe, and a body whose reader is slow holds no more than before.
 * The owner drains it before filling it again: EAGAIN then always means the source, and a slow destination
 * stops the source. Nothing here waits. Draining into a closed socket raises SIGPIPE, for which there is no
 * flag: conduit_open() refuses where SIGPIPE would end the program.
 *
 * The kernel limits the pipes of one user to 64 MiB together (fs.pipe-user-pages-soft). There are no more
 * than that allows. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/own.h"

#define CONDUIT_NARROW ((size_t)64 * 1024) /* what pipes have */
#define CONDUIT_WIDE ((size_t)256 * 1024)  /* for long bodies: all that a unix socket has at once */
#define CONDUIT_HUGE ((size_t)1024 * 1024) /* the most that a user gets: for few, through which much goes */
#define CONDUIT_LONG ((uint64_t)1024 * 1024)

struct conduit {
	int rd, wr; /* -1: not open */
	size_t size;
	size_t most;     /* that it may grow to */
	uint64_t passed; /* bytes that went in, until it has grown */
	size_t held;     /* bytes in it */
};

#define CONDUIT_INIT ((struct conduit){ .rd = -1, .wr = -1 })

static inline bool conduit_is_open(const struct conduit *c)
{
	return c->rd >= 0;
}

int conduit_open(struct conduit *c, size_t most); /* 0, also if it is; -1 and errno: copy */
void conduit_close(struct conduit *c);            /* with what is in it; fine when not open */

/* splice(2), one of the two being a pipe, without waiting and without EINTR. */
ssize_t splice_now(int from, int to, size_t n);

/* Up to N bytes of FROM into the empty conduit, like read(2). EINVAL: a descriptor that cannot be spliced. */
ssize_t conduit_fill(struct conduit *c, int from, uint64_t n);
/* Of what is in it as much as TO takes now, like write(2). */
ssize_t conduit_drain(struct conduit *c, int to);
