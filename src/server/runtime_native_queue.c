// SPDX-License-Identifier: Apache-2.0
/* Messages for the warden that its socket has no room for: a thousand requests into sandboxes in one turn are a thousand dials.
 * Only those without descriptors wait here; they leave in their order as soon as there is room. */
#include "server/runtime_native_impl.h"
#include "sys/passing.h"

#include "base/banned.h"

#define QUEUE_MAX 16384 /* messages */

struct unsent {
	struct unsent *next;
	size_t size;
	char bytes[];
};

static void arm(struct native *n)
{
	if (n->io.loop)
		io_want(&n->io, n->unsent ? IO_IN | IO_OUT : IO_IN);
}

static void drop_first(struct native *n)
{
	struct unsent *m = n->unsent;

	n->unsent = m->next;
	if (!n->unsent)
		n->last_unsent = NULL;
	n->n_unsent--;
	free(m);
}

void native_queue_drop(struct native *n)
{
	while (n->unsent)
		drop_first(n);
}

/* A connection that is broken is found out by whoever reads from it. */
void native_queue_flush(struct native *n)
{
	struct err e = { 0 };

	while (n->unsent && passing_send(n->fd, n->unsent->bytes, n->unsent->size, NULL, 0, &e) != 0)
		drop_first(n);
	arm(n);
}

int native_queue(struct native *n, const void *bytes, size_t size, struct err *e)
{
	struct unsent *m = n->n_unsent < QUEUE_MAX ? malloc(sizeof(*m) + size) : NULL;

	if (!m)
		return err_set(e, ERR_UNAVAILABLE, "the warden is busy");
	m->next = NULL;
	m->size = size;
	memcpy(m->bytes, bytes, size);
	*(n->last_unsent ? &n->last_unsent->next : &n->unsent) = m;
	n->last_unsent = m;
	n->n_unsent++;
	arm(n);
	return 0;
}
