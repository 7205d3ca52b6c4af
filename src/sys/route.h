// SPDX-License-Identifier: Apache-2.0
/* sys/route.h - IPv4 addresses with a label, routes in tables of our own, and rules that select these tables,
 * over a NETLINK_ROUTE socket (sys/netlink.h). Addresses are in network order. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct netlink;

struct route_net {
	uint32_t address;
	uint8_t prefix; /* bits */
};

bool route_nets_overlap(const struct route_net *a, const struct route_net *b);
bool route_net_has(const struct route_net *net, uint32_t address);
/* "10.0.0.0/8", or an address; ERR_INVALID, also when bits behind the prefix are set. */
int route_net_parse(const char *text, struct route_net *ret, struct err *e);
#define ROUTE_NET_TEXT 20
void route_net_write(const struct route_net *net, char out[ROUTE_NET_TEXT]);

/* ---- addresses ---- */

#define ROUTE_LABEL_MAX 15 /* bytes: the link's name, ':' and a word */

/* An address for this host alone, on the link INDEX: it is nobody's source unless a socket is bound to it.
 * ERR_CONFLICT: it is there already. */
int route_add_address(struct netlink *nl, int index, uint32_t address, const char *label, struct err *e);
/* not there is fine */
int route_delete_address(struct netlink *nl, int index, uint32_t address, struct err *e);

struct route_address {
	uint32_t address;
	uint8_t prefix;
	int index;
	char label[ROUTE_LABEL_MAX + 1];
};
/* not 0 ends the listing */
typedef int route_address_fn(const struct route_address *a, void *arg, struct err *e);
int route_list_addresses(struct netlink *nl, route_address_fn *fn, void *arg, struct err *e);

/* ---- routes and rules: adding what is there and deleting what is not are fine ---- */

#define ROUTE_PROTOCOL 111 /* whose they are, as the kernel notes it */

enum route_kind { ROUTE_LINK, ROUTE_UNREACHABLE };
struct route {
	enum route_kind kind;
	struct route_net to;
	int index;      /* of ROUTE_LINK */
	uint32_t table; /* 0: the main one */
};
int route_add(struct netlink *nl, const struct route *r, struct err *e);
int route_delete(struct netlink *nl, const struct route *r, struct err *e);

/* Packets with all bits of MARK that go to a network find their way in TABLE. */
struct route_rule {
	struct route_net to;
	uint32_t mark, table, priority;
};
int route_add_rule(struct netlink *nl, const struct route_rule *r, struct err *e);
int route_delete_rule(struct netlink *nl, const struct route_rule *r, struct err *e);

/* The networks that this host has routes to, other than by default ones, and the links of all of them. */
struct route_row {
	struct route_net to;
	int index;        /* 0: none */
	uint8_t protocol; /* ROUTE_PROTOCOL: one of ours */
	uint32_t table;
};
typedef int route_row_fn(const struct route_row *r, void *arg, struct err *e);
/* 0: of all tables */
int route_list(struct netlink *nl, uint32_t table, route_row_fn *fn, void *arg, struct err *e);
#define ROUTE_TABLE_MAIN 254
