// SPDX-License-Identifier: Apache-2.0
/* Messages for the warden that its socket has no room for: a thousand requests into sandboxes in one turn are a thousand dials.
 * They leave in their order as soon as there is room, with descriptors of their own. */
#include "server/native/native_impl.h"

#include "base/banned.h"

#define QUEUE_MAX 16384 /* messages */

static void arm(struct native *n)
{
	if (n->io.loop)
		io_want(&n->io, message_queue_is_empty(&n->unsent) ? IO_IN : IO_IN | IO_OUT);
}

void native_queue_drop(struct native *n)
{
	message_queue_done(&n->unsent);
}

/* A connection that is broken is found out by whoever reads from it. */
void native_queue_flush(struct native *n)
{
	struct err e = { 0 };

	while (message_queue_flush(&n->unsent, n->fd, &e) < 0)
		;
	arm(n);
}

int native_queue(struct native *n, const void *bytes, size_t size, const int *fds, size_t n_fds, struct err *e)
{
	if (n->unsent.messages.n >= QUEUE_MAX || message_queue_add(&n->unsent, bytes, size, fds, n_fds, e) < 0)
		return err_set(e, ERR_UNAVAILABLE, "the warden is busy");
	arm(n);
	return 0;
}
