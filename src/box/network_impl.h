// SPDX-License-Identifier: Apache-2.0
/* box/network_impl.h - what the files of box/network.h share. */
#pragma once
#include "base/own.h"
#include "box/network.h"
#include "sys/netlink.h"

#define NETWORK_FIRST 2 /* of the range's addresses, the one of box 0 */

/* Sockets to the host's network. */
struct network_io {
	struct netlink links, nft;
};
#define NETWORK_IO_INIT ((struct network_io){ NETLINK_INIT, NETLINK_INIT })

/* network_range.c: whose we are, which range. */
int network_name(struct box_network *n, const struct box_network_spec *spec, struct err *e);
/* and claims it */
int network_choose(struct box_network *n, struct network_io *io, const struct box_network_spec *spec,
		   struct err *e);

struct network_gateway {
	const struct box_network *n;
	bool is_there;
};
int network_find_gateway(const struct route_address *a, void *arg, struct err *e); /* a route_address_fn */

/* network.c: adds the gateway to this host; ERR_CONFLICT: another process has it. */
int network_claim(const struct box_network *n, struct network_io *io, struct err *e);

/* network_uplinks.c: answers for boxes come in by the host's other links. Where the host forwards nothing,
 * that is turned on for these alone, and they are noted in the table, whose rules drop what else would be
 * forwarded now. Again: whatever changed. */
int network_open_uplinks(const struct box_network *n, struct network_io *io, struct err *e);
int network_close_uplinks(const struct box_network *n, struct network_io *io, struct err *e);

/* network_docker.c: Docker drops what is forwarded unless somebody lets it by: a rule of ours in the chain
 * that it leaves to others, tagged with our prefix. Nothing is done where that chain is not. */
int network_pass_docker(const struct box_network *n, struct network_io *io, struct err *e);
int network_leave_docker(const struct box_network *n, struct network_io *io, struct err *e);
int network_is_let_by(const struct box_network *n, struct network_io *io, struct err *e); /* 1, 0, -1 */

/* Runs a program of the system with IN (or -1) as its input: its status, or -1. Why it failed is told when it
 * says so. */
int network_run(const char *const *argv, int in, struct err *e);
