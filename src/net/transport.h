// SPDX-License-Identifier: Apache-2.0
/* net/transport.h - one connected byte stream: a socket, or TLS over one.
 *
 * All calls are non-blocking and return -1 with errno EAGAIN when they would have to wait. Other modules own
 * a transport by pointer and close it exactly once. sendfile(2) has no way to suppress SIGPIPE: programs
 * ignore it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/own.h"

struct err;
struct transport;

struct transport_ops {
	const char *name; /* "tcp", "tls" */
	ssize_t (*recv)(struct transport *t, void *p, size_t n); /* 0: the peer ended its side */
	/* more: a hint that more follows */
	ssize_t (*send)(struct transport *t, const struct iovec *iov, int n, bool more);
	/* advances *offset; 0: file ended */
	ssize_t (*send_file)(struct transport *t, int fd, off_t *offset, size_t n);
	void (*shut)(struct transport *t);                       /* end our side, after all that was sent */
	void (*close)(struct transport *t);                      /* frees T and its descriptor */
	/* What to wait for (IO_IN, IO_OUT) when the caller wants WANT, and what a readiness means to the
	 * caller: TLS may have to write in order to read. */
	unsigned (*interest)(const struct transport *t, unsigned want);
	unsigned (*readiness)(const struct transport *t, unsigned ready);
	/* bytes can be received without the descriptor being ready */
	bool (*has_pending)(const struct transport *t);
	/* more than errno says about why it is broken, or ""; NULL: never */
	const char *(*failure)(const struct transport *t);
};

struct transport {
	const struct transport_ops *ops;
	int fd;
	bool is_plain; /* the descriptor may be used directly, with splice for instance */
	bool is_filtered; /* but not for receiving: what comes must go through recv() */
	void (*on_close)(void *arg); /* called once when it closes, whatever its owner then; NULL: none */
	void *on_close_arg;
};

/* Takes a connected, non-blocking socket. On failure the descriptor stays the caller's. */
struct transport *transport_plain(int fd, struct err *e);

void transport_close(struct transport *t); /* NULL is fine */
DEFINE_AUTO(struct transport *, transport_close)

/* How a listener turns an accepted descriptor into a transport; TLS listeners have their own. */
struct transport_maker {
	struct transport *(*make)(void *ctx, int fd, struct err *e);
	void *ctx;
};
