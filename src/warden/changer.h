// SPDX-License-Identifier: Apache-2.0
/* warden/changer.h - the process that changes elements of the network's rules, one change after the other.
 *
 * The kernel makes who changes rules wait for whoever else does so on this host, however long that takes: to empty one large
 * set of somebody's is enough for a quarter of a minute, and nothing ends the wait. So the loop asks for changes, a copy of the
 * warden makes them in the order in which they were asked for, and the loop hears of it. What a change consists of is decided
 * when it has its turn, with everything before it done: `build` then sees what the kernel has.
 *
 * When the changer dies, the change that it was at is made again by the next one. What is deleted twice is left out, and what
 * is added twice stays as it is. It dies with the warden; the kernel drops what such a process still waits for. */
#pragma once
#include <stdbool.h>

#include "net/loop.h"
#include "sys/nft.h"

struct err;
struct shared_order;

#define CHANGE_FORGET_MAX 256

struct change_plan {
	struct nft_batch batch; /* deletions of what is not there are left out */
	unsigned forget[CHANGE_FORGET_MAX]; /* numbers of which nothing stays, done before; none when there are 0 */
	unsigned n_forget;
};

/* Embedded in whoever asks, who keeps it until it is done. */
struct change {
	struct change *next;
	bool is_asked;
	void (*build)(struct change *c, struct change_plan *p); /* nothing at all is fine */
	void (*done)(struct change *c, const struct err *failure); /* NULL: it holds. May free it or ask for it again */
	void *arg;
};

/* In the changer. */
typedef int change_forget_fn(unsigned number, void *arg, struct err *e);

struct changer {
	struct loop *loop;
	const char *table;
	change_forget_fn *forget;
	void *arg;
	int pidfd, socket; /* -1: does not run */
	struct io io;
	struct timer again; /* it could not be started */
	struct deferred next;
	struct shared_order *order;
	struct change *first, *last, *running;
	bool is_sent;
	bool is_over; /* DONE is called for the last time */
};

#define CHANGER_INIT ((struct changer){ .pidfd = -1, .socket = -1 })

int changer_open(struct changer *c, struct loop *l, const char *table, change_forget_fn *forget, void *arg, struct err *e);
/* DONE is called later, from the loop, and never from here. One that is asked for already stays where it is. */
void changer_ask(struct changer *c, struct change *what);
/* What was asked for and is not done fails; is_over is set. Fine when not open. */
void changer_done(struct changer *c);
