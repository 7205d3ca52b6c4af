// SPDX-License-Identifier: Apache-2.0
#include "net/transport.h"

#include <stdint.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "base/err.h"
#include "net/loop.h"

#include "base/banned.h"

static ssize_t plain_recv(struct transport *t, void *p, size_t n)
{
	ssize_t got;

	do
		got = recv(t->fd, p, n, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	return got;
}

static ssize_t plain_send(struct transport *t, const struct iovec *iov, int n, bool more)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n };
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
	ssize_t sent;

	do
		sent = n == 1 ? send(t->fd, iov->iov_base, iov->iov_len, flags) : sendmsg(t->fd, &msg, flags);
	while (sent < 0 && errno == EINTR);
	return sent;
}

static ssize_t plain_send_file(struct transport *t, int fd, off_t *offset, size_t n)
{
	ssize_t sent;

	do
		sent = sendfile(t->fd, fd, offset, n);
	while (sent < 0 && errno == EINTR);
	return sent;
}

static void plain_shut(struct transport *t)
{
	(void)shutdown(t->fd, SHUT_WR);
}

static void plain_close(struct transport *t)
{
	(void)close(t->fd);
	free(t);
}

static unsigned plain_same(const struct transport *t, unsigned bits)
{
	(void)t;
	return bits;
}

static bool plain_has_pending(const struct transport *t)
{
	(void)t;
	return false;
}

struct transport *transport_plain(int fd, struct err *e)
{
	static const struct transport_ops plain_ops = {
		.name = "tcp",
		.recv = plain_recv,
		.send = plain_send,
		.send_file = plain_send_file,
		.shut = plain_shut,
		.close = plain_close,
		.interest = plain_same,
		.readiness = plain_same,
		.has_pending = plain_has_pending,
	};
	struct transport *t = malloc(sizeof(*t));

	if (!t) {
		(void)err_no_memory(e);
		return NULL;
	}
	*t = (struct transport){ .ops = &plain_ops, .fd = fd, .is_plain = true };
	return t;
}

void transport_close(struct transport *t)
{
	void (*on_close)(void *) = t ? t->on_close : NULL;
	void *arg = t ? t->on_close_arg : NULL;

	if (t)
		t->ops->close(t);
	if (on_close)
		on_close(arg);
}
