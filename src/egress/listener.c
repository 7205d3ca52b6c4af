// SPDX-License-Identifier: Apache-2.0
#include "egress/listener.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/fd.h"

#include "base/banned.h"

#define PER_TURN 64 /* connections, before others have their turn */

static void on_again(void *arg)
{
	struct listener *l = arg;

	if (l->fd >= 0)
		io_want(&l->io, IO_IN);
}

static void on_accept(unsigned ready, void *arg)
{
	struct listener *l = arg;

	(void)ready;
	for (unsigned i = 0; i < PER_TURN && l->fd >= 0; i++) {
		struct sockaddr_in from = { 0 };
		socklen_t len = sizeof(from);
		AUTO_FD fd = accept4(l->fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
			continue;
		if (fd < 0 && errno != EAGAIN) {
			io_want(&l->io, 0);
			timer_in(&l->again, LISTENER_REST_MS);
		}
		if (fd < 0)
			return;
		if (from.sin_family == AF_INET)
			l->fn(&fd, &from, l->arg);
	}
}

int listener_init(struct listener *l, struct loop *loop, listener_fn *fn, void *arg, const char *name, struct err *e)
{
	*l = (struct listener){ .loop = loop, .fd = -1, .fn = fn, .arg = arg, .name = name };
	return timer_init(&l->again, loop, on_again, l, name, e);
}

int listener_take(struct listener *l, int *fd, struct err *e)
{
	if (fd_set_nonblock(*fd, true, e) < 0)
		return -1;
	io_del(&l->io);
	closep(&l->fd);
	l->fd = -1;
	if (io_add(&l->io, l->loop, *fd, IO_IN, on_accept, l, l->name, e) < 0)
		return -1;
	l->fd = take_fd(fd);
	return 0;
}

void listener_done(struct listener *l)
{
	if (!l->loop)
		return;
	io_del(&l->io);
	timer_done(&l->again);
	closep(&l->fd);
}
