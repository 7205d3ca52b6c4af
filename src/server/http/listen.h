// SPDX-License-Identifier: Apache-2.0
/* server/http/listen.h - listening sockets for a host and port. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"
#include "net/addr.h"

struct err;

#define LISTEN_ADDRESSES_MAX 4

/* Where to listen. A name ("localhost") may stand for several addresses. */
struct listen_plan {
	struct addr addrs[LISTEN_ADDRESSES_MAX];
	size_t n;
	bool is_loopback; /* all of them */
};

/* HOST is an address or a name, which is looked up: this may block. */
int listen_resolve(const char *host, unsigned port, struct listen_plan *ret_plan, struct err *e);

/* One socket per address. Of several, an address that this machine does not have is left out. On failure none
 * is open. The caller owns fds[0 .. *ret_n). */
int listen_open(const struct listen_plan *plan, int backlog, int fds[LISTEN_ADDRESSES_MAX], size_t *ret_n,
		struct err *e);
