// SPDX-License-Identifier: Apache-2.0
#include "net/dial.h"

#include <fcntl.h>
#include <netinet/tcp.h>

#include "base/err.h"
#include "net/addr.h"
#include "net/loop.h"
#include "net/transport.h"

#include "base/banned.h"

/* A unix socket whose listener is busy says EAGAIN and nothing tells when to try again. */
#define RETRY_MS 5

struct dial {
	struct loop *loop;
	int fd;
	struct addr to;
	dial_fn *fn;
	void *arg;
	struct transport_maker maker; /* make is NULL: plain */
	struct io io;
	struct timer timeout, retry;
	struct deferred later;
	int failed; /* errno, for on_later() */
};

static void dial_free(struct dial *d)
{
	defer_cancel(&d->later);
	timer_done(&d->timeout);
	timer_done(&d->retry);
	io_del(&d->io);
	closep(&d->fd);
	free(d);
}

void dial_cancel(struct dial *d)
{
	if (d)
		dial_free(d);
}

static void dial_finish(struct dial *d, struct transport *t, const struct err *e)
{
	dial_fn *fn = d->fn;
	void *arg = d->arg;

	dial_free(d);
	fn(t, e, arg);
}

static void dial_fail(struct dial *d, int sys)
{
	char text[ADDR_TEXT_MAX];
	struct err e = { 0 };

	(void)err_sys(&e, sys, "connect to '%s'", sockaddr_format(&d->to.sa, d->to.len, text));
	dial_finish(d, NULL, &e);
}

/* A TCP socket that dials a free local port can meet itself, when the kernel picks that same port for it. */
static bool is_connected_to_itself(const struct dial *d)
{
	struct addr self = { .len = sizeof(struct sockaddr_un) }, peer = { .len = sizeof(struct sockaddr_un) };

	if (d->to.sa.sa_family == AF_UNIX || getsockname(d->fd, &self.sa, &self.len) < 0 ||
	    getpeername(d->fd, &peer.sa, &peer.len) < 0)
		return false;
	return self.len == peer.len && memcmp(&self.sa, &peer.sa, self.len) == 0;
}

static void dial_connected(struct dial *d)
{
	int on = 1;
	struct transport *t;
	struct err e = { 0 };

	if (is_connected_to_itself(d)) {
		dial_fail(d, ECONNREFUSED);
		return;
	}
	if (d->to.sa.sa_family != AF_UNIX)
		(void)setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	io_del(&d->io);
	t = d->maker.make ? d->maker.make(d->maker.ctx, d->fd, &e) : transport_plain(d->fd, &e);
	if (t)
		d->fd = -1; /* the transport's from here */
	dial_finish(d, t, t ? NULL : &e);
}

static void on_io(unsigned ready, void *arg)
{
	struct dial *d = arg;
	int sys = 0;
	socklen_t n = sizeof(sys);

	(void)ready;
	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &sys, &n) < 0)
		sys = errno;
	if (sys != 0)
		dial_fail(d, sys);
	else
		dial_connected(d);
}

static void on_timeout(void *arg)
{
	dial_fail(arg, ETIMEDOUT);
}

static void on_later(void *arg)
{
	struct dial *d = arg;

	if (d->failed != 0)
		dial_fail(d, d->failed);
	else
		dial_connected(d);
}

static void dial_try(void *arg)
{
	struct dial *d = arg;
	struct err scratch;
	int r = connect(d->fd, &d->to.sa, d->to.len);

	d->failed = r < 0 ? errno : 0;
	if (d->failed == EAGAIN && d->to.sa.sa_family == AF_UNIX) {
		timer_in(&d->retry, RETRY_MS);
		return;
	}
	if (d->failed == EINPROGRESS || d->failed == EINTR) {
		if (io_add(&d->io, d->loop, d->fd, IO_OUT, on_io, d, "dial", &scratch) == 0)
			return;
		d->failed = ENOMEM;
	}
	defer(&d->later, d->loop, on_later, d, "dial");
}

static int dial_socket(struct dial *d, int given, struct err *e)
{
	int flags;

	if (given < 0) {
		d->fd = socket(d->to.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		return d->fd < 0 ? err_sys(e, errno, "create socket") : 0;
	}
	flags = fcntl(given, F_GETFL);
	if (flags < 0 || fcntl(given, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_sys(e, errno, "make socket non-blocking");
	return 0;
}

struct dial *dial_start(struct loop *l, const struct dial_spec *spec, dial_fn *fn, void *arg, struct err *e)
{
	AUTO(dial_cancel) struct dial *d = calloc(1, sizeof(*d));

	if (!d) {
		(void)err_no_memory(e);
		return NULL;
	}
	d->loop = l;
	d->fd = -1;
	d->fn = fn;
	d->arg = arg;
	if (spec->maker)
		d->maker = *spec->maker;
	if (spec->to_len < sizeof(sa_family_t) || spec->to_len > sizeof(struct sockaddr_un)) {
		(void)err_set(e, ERR_INVALID, "an address of %u bytes", spec->to_len);
		return NULL;
	}
	memcpy(&d->to.sa, spec->to, spec->to_len);
	d->to.len = spec->to_len;
	if (timer_init(&d->timeout, l, on_timeout, d, "dial timeout", e) < 0 ||
	    timer_init(&d->retry, l, dial_try, d, "dial again", e) < 0 || dial_socket(d, spec->fd, e) < 0)
		return NULL;
	if (spec->fd >= 0)
		d->fd = spec->fd;
	timer_in(&d->timeout, spec->timeout_ms ? spec->timeout_ms : DIAL_TIMEOUT_MS);
	dial_try(d);
	return take_ptr(&d);
}

struct dial *dial_unix(struct loop *l, const char *path, unsigned timeout_ms, dial_fn *fn, void *arg, struct err *e)
{
	struct addr to;
	struct dial_spec spec = { .fd = -1, .to = &to.sa, .timeout_ms = timeout_ms };

	if (sockaddr_unix(path, &to, e) < 0)
		return NULL;
	spec.to_len = to.len;
	return dial_start(l, &spec, fn, arg, e);
}

struct dial *dial_fd(struct loop *l, int *fd, const struct sockaddr *to, socklen_t to_len, unsigned timeout_ms,
		     dial_fn *fn, void *arg, struct err *e)
{
	struct dial_spec spec = { .fd = *fd, .to = to, .to_len = to_len, .timeout_ms = timeout_ms };
	struct dial *d = dial_start(l, &spec, fn, arg, e);

	if (d)
		*fd = -1;
	return d;
}
