// SPDX-License-Identifier: Apache-2.0
/* Messages for the warden that its socket has no room for: a thousand requests into sandboxes in one turn are a thousand dials.
 * They leave in their order as soon as there is room, with descriptors of their own. */
#include <fcntl.h>

#include "server/native/native_impl.h"
#include "sys/passing.h"

#include "base/banned.h"

#define QUEUE_MAX 16384 /* messages */
#define FDS_MAX WIRE_FDS_MAX /* of a message */

struct unsent {
	struct unsent *next;
	int fds[FDS_MAX];
	size_t size, n_fds;
	char bytes[];
};

static void unsent_free(struct unsent *m)
{
	for (size_t i = 0; i < m->n_fds; i++)
		closep(&m->fds[i]);
	free(m);
}
DEFINE_AUTO(struct unsent *, unsent_free)

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
	unsent_free(m);
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

	while (n->unsent && passing_send(n->fd, n->unsent->bytes, n->unsent->size, n->unsent->fds, n->unsent->n_fds, &e) != 0)
		drop_first(n);
	arm(n);
}

static struct unsent *unsent_new(const void *bytes, size_t size, const int *fds, size_t n_fds)
{
	AUTO(unsent_free) struct unsent *m = calloc(1, sizeof(*m) + size);

	for (; m && m->n_fds < n_fds; m->n_fds++) {
		m->fds[m->n_fds] = fcntl(fds[m->n_fds], F_DUPFD_CLOEXEC, 0);
		if (m->fds[m->n_fds] < 0)
			return NULL;
	}
	if (!m)
		return NULL;
	m->size = size;
	memcpy(m->bytes, bytes, size);
	return take_ptr(&m);
}

int native_queue(struct native *n, const void *bytes, size_t size, const int *fds, size_t n_fds, struct err *e)
{
	struct unsent *m = n->n_unsent < QUEUE_MAX && n_fds <= FDS_MAX ? unsent_new(bytes, size, fds, n_fds) : NULL;

	if (!m)
		return err_set(e, ERR_UNAVAILABLE, "the warden is busy");
	*(n->last_unsent ? &n->last_unsent->next : &n->unsent) = m;
	n->last_unsent = m;
	n->n_unsent++;
	arm(n);
	return 0;
}
