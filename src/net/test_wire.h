// SPDX-License-Identifier: Apache-2.0
/* net/test_wire.h - for tests: a loop whose clock is turned by hand, and the far ends of its connections. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */
#include <fcntl.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/loop.h"
#include "net/transport.h"

struct wire {
	struct loop *loop;
	uint64_t now_ms;
};

static inline uint64_t wire_now(void *arg)
{
	return ((struct wire *)arg)->now_ms;
}

static inline void wire_open(struct wire *w)
{
	struct err e = { 0 };

	w->now_ms = 1000000;
	w->loop = loop_new(&e);
	assert_non_null(w->loop);
	loop_set_clock(w->loop, wire_now, w);
}

static inline void wire_close(struct wire *w)
{
	loop_free(w->loop); /* asserts that no timer and no deferred work is left */
}

/* Enough turns for everything that can happen without the clock moving. */
static inline void wire_turn(struct wire *w)
{
	for (int i = 0; i < 8; i++)
		assert_int_equal(loop_turn(w->loop, 0, &(struct err){ 0 }), 0);
}

static inline void wire_wait(struct wire *w, uint64_t ms)
{
	w->now_ms += ms;
	wire_turn(w);
}

/* A transport, and the other end of its connection. */
static inline struct transport *wire_transport(int *ret_far)
{
	struct err e = { 0 };
	struct transport *t;
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
	t = transport_plain(fd[0], &e);
	assert_non_null(t);
	*ret_far = fd[1];
	return t;
}

static inline void wire_say(struct wire *w, int far, struct str s)
{
	while (s.n > 0) {
		ssize_t n = send(far, s.p, s.n, MSG_NOSIGNAL | MSG_DONTWAIT);

		assert_true(n > 0 || errno == EAGAIN);
		if (n > 0)
			s = str_skip(s, (size_t)n);
		wire_turn(w);
	}
}

/* Appends what has arrived at the far end; true when our side has ended. */
static inline bool wire_hear(struct wire *w, int far, struct buf *b)
{
	ssize_t n;

	do {
		char piece[65536];

		wire_turn(w);
		n = recv(far, piece, sizeof(piece), MSG_DONTWAIT);
		if (n > 0)
			assert_true(buf_add(b, piece, (size_t)n));
	} while (n > 0);
	return n == 0 || errno == ECONNRESET;
}
