// SPDX-License-Identifier: Apache-2.0
#include "net/watch.h"

#include "base/err.h"
#include "net/transport.h"

#include "base/banned.h"

static void on_io(unsigned ready, void *arg)
{
	struct watch *w = arg;

	ready = w->t->ops->readiness(w->t, ready) & (w->want | IO_ERR);
	if (w->want == 0) {
		if (ready & IO_ERR)
			io_del(&w->io); /* it would be reported again in every turn */
		return;
	}
	if (ready & IO_ERR)
		ready |= w->want; /* the next operation finds out what is wrong */
	if (ready)
		w->fn(ready, w->arg);
}

static void on_again(void *arg)
{
	struct watch *w = arg;

	if (w->want)
		w->fn(w->io.loop ? w->want & IO_IN : w->want, w->arg);
}

int watch_start(struct watch *w, struct loop *l, struct transport *t, io_fn *fn, void *arg, const char *name,
		struct err *e)
{
	*w = (struct watch){ .t = t, .fn = fn, .arg = arg, .name = name };
	if (io_add(&w->io, l, t->fd, 0, on_io, w, name, e) < 0)
		return -1;
	w->loop = l;
	return 0;
}

void watch_want(struct watch *w, unsigned want)
{
	w->want = want;
	if (!w->io.loop) {
		/* Taken out because it is dead. If it cannot be put back, its owner just tries: a dead descriptor
		 * makes nobody wait. */
		struct err scratch;

		if (want && io_add(&w->io, w->loop, w->t->fd, 0, on_io, w, w->name, &scratch) < 0)
			defer(&w->again, w->loop, on_again, w, w->name);
	}
	if (w->io.loop)
		io_want(&w->io, w->t->ops->interest(w->t, want));
	if ((want & IO_IN) && w->t->ops->has_pending(w->t))
		defer(&w->again, w->loop, on_again, w, w->name);
}

void watch_stop(struct watch *w)
{
	io_del(&w->io);
	defer_cancel(&w->again);
	w->loop = NULL;
}
