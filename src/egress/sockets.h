// SPDX-License-Identifier: Apache-2.0
/* egress/sockets.h - sockets for egress's own traffic.
 *
 * In a host's network any socket can be used, and SOCKETS is NULL. A sidecar shares the network of its
 * sandbox: only packets with the keeper's mark may leave as ours, and setting it needs a privilege. So the
 * keeper makes such sockets and passes them over, some of them in advance; when none is left, egress waits
 * for one, for SOCKETS_WAIT_MS at most. */
#pragma once
#include <stdint.h>
#include <sys/socket.h>

#include "base/own.h"
#include "net/dial.h"

struct err;
struct loop;
struct sockets;

#define SOCKETS_AHEAD 32 /* of each kind, and of one message */
#define SOCKETS_WAIT_MS 500

/* What is asked of the keeper, and comes back with as many sockets. */
struct sockets_message {
	uint32_t type; /* SOCK_STREAM or SOCK_DGRAM; IPv4 */
	uint32_t n;    /* 1 to SOCKETS_AHEAD */
};

struct sockets *sockets_new(int *fd, struct err *e); /* the connection (sys/passing.h) is taken on success */
void sockets_free(struct sockets *s);                /* NULL is fine */
DEFINE_AUTO(struct sockets *, sockets_free)

/* Not connected, non-blocking and close-on-exec. */
int sockets_make(struct sockets *s, int family, int type, struct err *e);
struct dial *sockets_dial(struct sockets *s, struct loop *l, const struct sockaddr *to, socklen_t to_len,
			  unsigned timeout_ms,
			  dial_fn *fn, void *arg, struct err *e);

/* The keeper's side: answers what was asked by now with sockets that have MARK. -1: the other side is gone,
 * or speaks nonsense. */
int sockets_serve(int fd, uint32_t mark, struct err *e);
