// SPDX-License-Identifier: Apache-2.0
/* execd/proxy.h - ANY /proxy/{port}/{path...}: services on the sandbox's loopback, and WebSockets there.
 *
 * A client names only the port, never an address. Each request has a connection of its own. */
#pragma once
#include <stddef.h>

struct loop;
struct budget;
struct proxied;

#define PROXIED_MAX 128 /* requests and tunnels in progress */
/* Taken from the budget: what a call holds at most, the rest of it that must stay for others, and what a
 * tunnel holds beyond the share of the connection that it was. */
#define PROXIED_MEMORY ((size_t)80 * 1024)
#define PROXIED_RESERVE ((size_t)2 * 1024 * 1024)
#define PROXIED_TUNNEL_MEMORY ((size_t)16 * 1024)

struct proxy {
	struct loop *loop;
	struct budget *budget;
	unsigned own_port; /* 0: we listen on none */
	struct proxied *first;
	unsigned n;
};

void proxy_stop_tunnels(struct proxy *p); /* they have no end of their own */
void proxy_done(struct proxy *p);         /* ends all */
