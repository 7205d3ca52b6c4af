// SPDX-License-Identifier: Apache-2.0
/* net/dial.h - non-blocking connect.
 *
 * Every dial completes exactly once, from the loop and never during the call that began it, unless it is
 * cancelled. A dial that cannot begin returns NULL with an error. */
#pragma once
#include <sys/socket.h>

#include "base/own.h"

struct dial;
struct err;
struct loop;
struct transport;
struct transport_maker;

/* T belongs to the callee; or it is NULL and E gives the reason. The dial is gone already. */
typedef void dial_fn(struct transport *t, const struct err *e, void *arg);

struct dial_spec {
	int fd;                    /* an unconnected stream socket, taken on success; -1: one is made */
	const struct sockaddr *to; /* copied */
	socklen_t to_len;
	unsigned timeout_ms;       /* 0: DIAL_TIMEOUT_MS */
	const struct transport_maker *maker; /* copied; wraps the connected socket, for TLS; NULL: plain */
};
#define DIAL_TIMEOUT_MS 10000

struct dial *dial_start(struct loop *l, const struct dial_spec *spec, dial_fn *fn, void *arg, struct err *e);
void dial_cancel(struct dial *d); /* NULL is fine */
DEFINE_AUTO(struct dial *, dial_cancel)

struct dial *dial_unix(struct loop *l, const char *path, unsigned timeout_ms, dial_fn *fn, void *arg,
		       struct err *e);

/* Connects a socket that was made elsewhere, in another network namespace for instance. *fd is taken on
 * success. */
struct dial *dial_fd(struct loop *l, int *fd, const struct sockaddr *to, socklen_t to_len,
		     unsigned timeout_ms,
		     dial_fn *fn, void *arg, struct err *e);
