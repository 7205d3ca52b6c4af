// SPDX-License-Identifier: Apache-2.0
/* warden/maker.h - the process that makes slots.
 *
 * Making a slot takes milliseconds and waits for kernel locks, which would block the warden's loop. The maker
 * is a copy of the warden that takes orders one by one and ends with it. It keeps nothing: a slot's
 * descriptors go to the warden, and the parked child is a child of the warden from birth (CLONE_PARENT). When
 * the maker dies, the slots that it was asked for are reported as failed, and it is started again with the
 * next order. */
#pragma once
#include <stdbool.h>

#include "base/err.h"
#include "box/slot.h"
#include "net/loop.h"

struct box_host;

#define MAKER_ASKED_MAX 16

struct maker_order {
	unsigned number;
	struct slot_guess guess;
};

/* SLOT is taken; on failure it is NULL, and whatever the number names is to be swept. */
typedef void maker_fn(unsigned number, struct slot *slot, const struct err *failure, void *arg);

struct maker {
	const struct box_host *host;
	struct loop *loop;
	maker_fn *fn;
	void *arg;
	int pidfd, socket; /* -1: does not run */
	struct io io;
	struct maker_order asked[MAKER_ASKED_MAX]; /* the oldest first */
	unsigned n_asked;
	unsigned deaths; /* in a row, without a word in between */
	struct timer strangers; /* a child of a maker that died may be nobody's: collected later */
	bool (*is_known)(pid_t pid, void *arg); /* whether somebody else collects this child */
};

int maker_init(struct maker *m, const struct box_host *host, struct loop *l, maker_fn *fn,
	       bool (*is_known)(pid_t pid, void *arg), void *arg, struct err *e);
/* What an order does otherwise. A failure is not the end: the next order tries again. */
int maker_start(struct maker *m, struct err *e);
/* FN is called once, from the loop. Fewer than MAKER_ASKED_MAX may be on their way. */
int maker_ask(struct maker *m, unsigned number, const struct slot_guess *guess, struct err *e);
/* Ends it. What it was asked for is forgotten: *ret has the numbers, to be destroyed. */
size_t maker_done(struct maker *m, unsigned ret[MAKER_ASKED_MAX]);
