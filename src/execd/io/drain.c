// SPDX-License-Identifier: Apache-2.0
#include "execd/io/drain.h"

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

struct drain {
	struct drains *of;
	struct drain *newer, *older;
	struct io io;
	struct timer rest;
	int fd;
};

void drains_init(struct drains *ds, struct loop *l, size_t max)
{
	ds->loop = l;
	ds->newest = ds->oldest = NULL;
	ds->n = 0;
	ds->max = max;
}

static void drain_free(struct drain *d)
{
	struct drains *ds = d->of;

	*(d->newer ? &d->newer->older : &ds->newest) = d->older;
	*(d->older ? &d->older->newer : &ds->oldest) = d->newer;
	ds->n--;
	io_del(&d->io);
	timer_done(&d->rest);
	closep(&d->fd);
	free(d);
}

void drains_done(struct drains *ds)
{
	while (ds->newest)
		drain_free(ds->newest);
}

static void on_rested(void *arg)
{
	struct drain *d = arg;

	io_want(&d->io, IO_IN);
}

static void on_readable(unsigned ready, void *arg)
{
	struct drain *d = arg;
	ssize_t n = read(d->fd, d->of->scratch, sizeof(d->of->scratch));

	(void)ready;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		drain_free(d);
		return;
	}
	io_want(&d->io, 0);
	timer_in(&d->rest, DRAIN_REST_MS);
}

void drains_take(struct drains *ds, int *fd)
{
	AUTO_FD own = take_fd(fd);
	struct drain *d;
	struct err ignored = { 0 }; /* it is closed then */

	if (ds->n >= ds->max)
		drain_free(ds->oldest);
	d = calloc(1, sizeof(*d));
	if (!d)
		return;
	if (timer_init(&d->rest, ds->loop, on_rested, d, "drain", &ignored) < 0 ||
	    io_add(&d->io, ds->loop, own, IO_IN, on_readable, d, "drain", &ignored) < 0) {
		timer_done(&d->rest);
		free(d);
		return;
	}
	d->of = ds;
	d->fd = take_fd(&own);
	d->older = ds->newest;
	*(d->older ? &d->older->newer : &ds->oldest) = d;
	ds->newest = d;
	ds->n++;
}
