// SPDX-License-Identifier: Apache-2.0
/* net/http/test_server.h - for tests: a server on a unix socket, a clock that is turned by hand, raw
 * clients. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"
#include "net/http/server.h"
#include "net/loop.h"

struct rig {
	struct loop *loop;
	struct http_server *server;
	struct http_service service;
	struct sockaddr_un address;
	socklen_t address_len;
	uint64_t now_ms;
};

static inline uint64_t rig_now(void *arg)
{
	return ((struct rig *)arg)->now_ms;
}

static inline int rig_listener(struct rig *r)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	r->address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	/* An abstract name of the kernel's choosing: nothing to clean up. */
	assert_int_equal(bind(fd, (struct sockaddr *)&r->address, sizeof(sa_family_t)), 0);
	r->address_len = sizeof(r->address);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&r->address, &r->address_len), 0);
	assert_int_equal(listen(fd, 128), 0);
	return fd;
}

static inline void rig_start(struct rig *r, const struct route *routes, const struct http_limits *limits)
{
	struct err e = { 0 };
	int fd;

	r->now_ms = 1000000;
	r->service.routes = routes;
	r->loop = loop_new(&e);
	assert_non_null(r->loop);
	loop_set_clock(r->loop, rig_now, r);
	r->server = http_server_new(r->loop, &r->service, limits ? limits : &HTTP_LIMITS, &e);
	assert_non_null(r->server);
	fd = rig_listener(r);
	assert_int_equal(http_server_listen(r->server, &fd, NULL, &e), 0);
}

static inline void rig_stop(struct rig *r)
{
	http_server_free(r->server);
	loop_free(r->loop);
}

/* Enough turns for everything that can happen without the clock moving. */
static inline void rig_turn(struct rig *r)
{
	for (int i = 0; i < 8; i++)
		assert_int_equal(loop_turn(r->loop, 0, &(struct err){ 0 }), 0);
}

static inline void rig_wait(struct rig *r, uint64_t ms)
{
	r->now_ms += ms;
	rig_turn(r);
}

static inline int rig_connect(struct rig *r)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&r->address, r->address_len), 0);
	rig_turn(r);
	return fd;
}

static inline void rig_send(struct rig *r, int fd, struct str s)
{
	while (s.n > 0) {
		ssize_t n = send(fd, s.p, s.n, MSG_NOSIGNAL);

		if (n > 0)
			s = str_skip(s, (size_t)n);
		else
			assert_true(errno == EAGAIN || errno == EPIPE);
		rig_turn(r);
		if (n < 0 && errno == EPIPE)
			return;
	}
}

/* What the server has said so far; true when it also ended the connection. */
static inline bool rig_recv(struct rig *r, int fd, struct buf *b)
{
	ssize_t n;

	do {
		char piece[65536];

		rig_turn(r);
		n = recv(fd, piece, sizeof(piece), 0);
		if (n > 0)
			assert_true(buf_add(b, piece, (size_t)n));
	} while (n > 0);
	return n == 0 || errno == ECONNRESET;
}

static inline unsigned rig_count(const struct buf *b, const char *what)
{
	unsigned n = 0;

	for (const char *p = buf_z(b); (p = strstr(p, what)); p++)
		n++;
	return n;
}

/* Sends TEXT on a new connection; what comes back, and whether the server ended it. */
static inline bool rig_talk(struct rig *r, struct str text, struct buf *answer)
{
	AUTO_FD fd = rig_connect(r);

	rig_send(r, fd, text);
	return rig_recv(r, fd, answer);
}

static inline void rig_begins(const struct buf *b, const char *want)
{
	if (!str_starts(buf_str(b), str_of(want)))
		fail_msg("expected '%s', got '%.200s'", want, buf_z(b));
}
