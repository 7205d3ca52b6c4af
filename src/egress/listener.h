// SPDX-License-Identifier: Apache-2.0
/* egress/listener.h - accepts connections of sandboxes from a listening socket. When descriptors run out, it
 * pauses instead of spinning. */
#pragma once
#include <netinet/in.h>

#include "net/loop.h"

struct err;

#define LISTENER_REST_MS 100

/* FD is the callee's to take (take_fd()); what it does not take is closed. */
typedef void listener_fn(int *fd, const struct sockaddr_in *from, void *arg);

struct listener {
	struct loop *loop;
	int fd; /* -1: it does not listen */
	struct io io;
	struct timer again;
	listener_fn *fn;
	void *arg;
	const char *name;
};

int listener_init(struct listener *l, struct loop *loop, listener_fn *fn, void *arg, const char *name,
		  struct err *e);
/* From now on on this socket alone, which is taken on success. */
int listener_take(struct listener *l, int *fd, struct err *e);
void listener_done(struct listener *l); /* fine when it was not made */
