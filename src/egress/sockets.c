// SPDX-License-Identifier: Apache-2.0
#include "egress/sockets.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "sys/passing.h"

#include "base/banned.h"

_Static_assert(SOCKETS_AHEAD <= PASSING_FDS_MAX, "they come in one message");

struct pool {
	int fds[2 * SOCKETS_AHEAD];
	size_t n;
	bool is_asked;
};

struct sockets {
	int fd;
	struct pool streams, datagrams;
};

static struct pool *pool_of(struct sockets *s, uint32_t type)
{
	return type == SOCK_STREAM ? &s->streams : &s->datagrams;
}

/* ---- what is asked for ---- */

static int ask(struct sockets *s, uint32_t type, struct err *e)
{
	const struct sockets_message m = { .type = type, .n = SOCKETS_AHEAD };
	int k = passing_send(s->fd, &m, sizeof(m), NULL, 0, e);

	if (k < 0)
		return -1;
	pool_of(s, type)->is_asked |= k > 0;
	return 0;
}

/* 1: some have come, 0: none has, -1. */
static int receive(struct sockets *s, struct err *e)
{
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct sockets_message m = { 0 };
	int k = passing_recv(s->fd, &m, sizeof(m), SOCKETS_AHEAD, &got, e);
	struct pool *p;

	if (k == PASSING_END)
		return err_set(e, ERR_UNAVAILABLE, "the keeper is gone");
	if (k != PASSING_MESSAGE)
		return k < 0 ? -1 : 0;
	if (got.n != sizeof(m) || (m.type != SOCK_STREAM && m.type != SOCK_DGRAM))
		return err_set(e, ERR_INVALID, "malformed message from the keeper");
	p = pool_of(s, m.type);
	p->is_asked = false;
	for (size_t i = 0; i < got.n_fds && p->n < ARRAY_LEN(p->fds); i++)
		p->fds[p->n++] = take_fd(&got.fds[i]);
	return 1;
}

/* One that is there, or comes in time. */
static int take(struct sockets *s, uint32_t type, struct err *e)
{
	struct pollfd ready = { .fd = s->fd, .events = POLLIN };
	struct pool *p = pool_of(s, type);
	int k;

	while ((k = receive(s, e)) > 0)
		;
	if (k < 0 || (p->n <= SOCKETS_AHEAD / 2 && !p->is_asked && ask(s, type, e) < 0))
		return -1;
	while (p->n == 0) {
		if (poll(&ready, 1, SOCKETS_WAIT_MS) <= 0)
			return err_set(e, ERR_TIMEOUT, "the keeper makes no socket");
		if (receive(s, e) < 0)
			return -1;
	}
	return p->fds[--p->n];
}

/* ---- for whoever sends ---- */

int sockets_make(struct sockets *s, int family, int type, struct err *e)
{
	int fd;

	if (s && family != AF_INET)
		return err_set(e, ERR_UNAVAILABLE, "nothing but IPv4 leaves a sidecar");
	if (s)
		return take(s, (uint32_t)type, e);
	fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return fd < 0 ? err_sys(e, errno, "create socket") : fd;
}

struct dial *sockets_dial(struct sockets *s, struct loop *l, const struct sockaddr *to, socklen_t to_len, unsigned timeout_ms,
			  dial_fn *fn, void *arg, struct err *e)
{
	AUTO_FD fd = sockets_make(s, to->sa_family, SOCK_STREAM, e);

	return fd < 0 ? NULL : dial_fd(l, &fd, to, to_len, timeout_ms, fn, arg, e);
}

struct sockets *sockets_new(int *fd, struct err *e)
{
	struct sockets *s = calloc(1, sizeof(*s));

	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	s->fd = take_fd(fd);
	return s;
}

static void pool_close(struct pool *p)
{
	while (p->n > 0)
		(void)close(p->fds[--p->n]);
}

void sockets_free(struct sockets *s)
{
	if (!s)
		return;
	pool_close(&s->streams);
	pool_close(&s->datagrams);
	closep(&s->fd);
	free(s);
}

/* ---- the keeper's side ---- */

static int make_marked(uint32_t type, uint32_t mark)
{
	AUTO_FD fd = socket(AF_INET, (int)type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 || setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0 ? -1 : take_fd(&fd);
}

/* As many as there can be: with none at all it would be asked again at once, and again. */
static int answer(int fd, const struct sockets_message *m, uint32_t mark, struct err *e)
{
	int fds[SOCKETS_AHEAD];
	struct sockets_message back = { .type = m->type };
	int r;

	while (back.n < m->n && (fds[back.n] = make_marked(m->type, mark)) >= 0)
		back.n++;
	if (back.n == 0)
		return err_sys(e, errno, "make a socket for egress");
	r = passing_send(fd, &back, sizeof(back), fds, back.n, e);
	for (uint32_t i = 0; i < back.n; i++)
		(void)close(fds[i]);
	if (r == 0)
		return err_set(e, ERR_LIMIT, "egress does not take its sockets");
	return r < 0 ? -1 : 0;
}

int sockets_serve(int fd, uint32_t mark, struct err *e)
{
	struct sockets_message m = { 0 };

	for (;;) {
		AUTO(passed_done) struct passed got = PASSED_INIT;
		int k = passing_recv(fd, &m, sizeof(m), 0, &got, e);

		if (k == PASSING_NONE)
			return 0;
		if (k == PASSING_END)
			return err_set(e, ERR_UNAVAILABLE, "egress has ended");
		if (k < 0)
			return -1;
		if (got.n != sizeof(m) || (m.type != SOCK_STREAM && m.type != SOCK_DGRAM) || m.n < 1 || m.n > SOCKETS_AHEAD)
			return err_set(e, ERR_INVALID, "malformed request from egress");
		if (answer(fd, &m, mark, e) < 0)
			return -1;
	}
}
