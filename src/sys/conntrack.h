// SPDX-License-Identifier: Apache-2.0
/* sys/conntrack.h - ends connections that the kernel tracks, selected by their source address. Packets of a
 * tracked connection are not checked against the rules again. IPv4 only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct netlink;

#define CONNTRACK_ENDED_MAX 65536 /* of one call */

struct conntrack_flow {
	uint32_t source, to;  /* in network order: as they were sent, before any translation */
	uint32_t answers_from; /* who the answers come from: another than `to` when it was redirected */
	uint32_t mark;        /* of the connection, as rules have set it; 0: none */
	uint16_t port;        /* where to, in the host's order; 0: it has none */
	uint8_t protocol;     /* IPPROTO_... */
};

/* True: it is to end. */
typedef bool conntrack_fn(const struct conntrack_flow *f, void *arg);

/* NL is a socket of NETLINK_NETFILTER. FN is asked about each connection from SOURCE (0: from anywhere);
 * NULL: all of them end. The kernel looks through its whole table, which takes tens of milliseconds. *ret_n
 * (or NULL): how many did. Those that have ended meanwhile by themselves count, too. */
int conntrack_end(struct netlink *nl, uint32_t source, conntrack_fn *fn, void *arg, size_t *ret_n,
		  struct err *e);
