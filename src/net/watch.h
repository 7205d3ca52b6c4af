// SPDX-License-Identifier: Apache-2.0
/* net/watch.h - a transport on the loop: calls back when it can be read or written.
 *
 * It is the struct io of transports. It hides three things from its owner: which direction TLS needs in order
 * to read or write, bytes that are buffered in a transport and not in its descriptor, and the hang-up that a
 * descriptor keeps reporting when nothing is wanted from it. FN is called from the loop only, never from
 * watch_want(). */
#pragma once
#include "net/loop.h"

struct err;
struct transport;

struct watch {
	struct io io; /* not added while a dead descriptor has nothing wanted from it */
	struct deferred again;
	struct loop *loop;    /* NULL: not started */
	struct transport *t;  /* not owned */
	unsigned want;        /* IO_IN and IO_OUT, as the owner sees it */
	io_fn *fn;
	void *arg;
	const char *name;
};

int watch_start(struct watch *w, struct loop *l, struct transport *t, io_fn *fn, void *arg, const char *name,
		struct err *e);

/* To be called at the end of every callback, changed or not: the transport's own needs may have changed. */
void watch_want(struct watch *w, unsigned want);

void watch_stop(struct watch *w); /* before closing the transport; fine when not started */
