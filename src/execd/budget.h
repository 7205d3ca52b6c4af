// SPDX-License-Identifier: Apache-2.0
/* execd/budget.h - one account for all memory that peers can make grow.
 *
 * execd lives in a cgroup of 64 MiB and keeps its buffers below 48 together (L2). The worst case, all at
 * once:
 *
 *     connections       400 x (16 KiB head or input, 4 KiB for the request)                     7.9 MiB
 *     their output      400 x 32 KiB (the high-water mark of 16 KiB, and a slice of 16)        12.5 MiB
 *     commands, runs    320 x (2 x 4 KiB of input, 16 KiB of events) that need no grant         7.5 MiB
 *     records           1,000 x 2.5 KiB; drains, 1,024 x 0.3 KiB; children, timers, epoll       3.5 MiB
 *     workers           400 x 1.4 KiB; 16 uploads x (64 KiB of input, 32 of pipe)               2.1 MiB
 *     terminals         32 x 2 KiB: their rings are files                                       0.1 MiB
 *     code              32 contexts x (4 KiB of messages, 2 x 2 KiB of output)                  0.3 MiB
 *     one at a time     a body being decoded (4 MiB), a buffer being moved (2 MiB)              6.0 MiB
 *     this account      bodies on their way, long lines, larger reads, input of commands, clients
 *                       and commands of terminals, long messages of those, proxied requests,
 *                       code that waits, results of code, environments of contexts,
 *                       kernels and what they say                                               8.0 MiB
 *
 * 47.9 MiB. What is asked for beyond the account is refused, and each caller has a way to go on without: a
 * body, code or a command with input is answered 503, a line is split, a read is smaller, a terminal gets no
 * client, its message is too large, a request is not sent on, a result is left out by name.
 *
 * An upload of known length is passed from its socket to its pipe (32 places, each for at most the 32 KiB
 * that a socket allocates in one piece). That memory is the sender's and is not charged to us, like what
 * waits in a socket.
 *
 * The kernel charges us for what waits in our sockets: 400 x 32 KiB and 32 x 48 KiB, 14 MiB. Together with
 * the above that is below the 64. In a socket of a download these are pages of the file's cache, which we may
 * have read: of four long ones at once 1 MiB each. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define EXECD_CONNECTIONS_MAX 400
#define EXECD_HEAD_MAX ((size_t)16 * 1024)
#define EXECD_HIGH_WATER ((size_t)16 * 1024)
#define EXECD_SEND_BUFFER (32 * 1024)
#define EXECD_WIDE_FILES_MAX 4
#define EXECD_COMMANDS_MAX 256
#define EXECD_RUNS_MAX 64 /* of sessions and of code, waiting ones included */
#define EXECD_DRAINS_MAX 1024
#define EXECD_BUDGET ((size_t)8 * 1024 * 1024)
#define EXECD_BUDGET_NEEDS ((size_t)2 * 1024 * 1024) /* of it, for those who are refused without */

struct budget {
	size_t used, max;
	unsigned runs; /* of EXECD_RUNS_MAX */
};

static inline bool budget_take(struct budget *b, size_t n)
{
	if (n > b->max - b->used)
		return false;
	b->used += n;
	return true;
}

/* For what only makes something faster or nicer, which all commands together could want more of than there
 * is. */
static inline bool budget_take_spare(struct budget *b, size_t n)
{
	return b->max - b->used >= EXECD_BUDGET_NEEDS && n <= b->max - b->used - EXECD_BUDGET_NEEDS &&
		budget_take(b, n);
}

static inline void budget_give(struct budget *b, size_t n)
{
	b->used -= n;
}
