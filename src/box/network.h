// SPDX-License-Identifier: Apache-2.0
/* box/network.h - the network of boxes: links, addresses, routes and rules.
 *
 * Each box has one end of a veth pair, "eth0". The name and address of the host's end follow from the number
 * of its slot. Both ends have the same hardware address and use no ARP. There is no bridge: packets are
 * routed. One nf_tables table (network_table.c) decides what may pass. It is written as a whole when the
 * warden starts; afterwards only elements of its sets change, through sys/nft.h.
 *
 * Without that table nothing passes. The routes to boxes are in a routing table of their own, which applies
 * only to packets with NETWORK_MARK, and only our rules set the mark. The kernel drops packets from a box for
 * which it finds no return route (rp_filter). So a host whose rules were flushed is closed to boxes, and the
 * boxes to the world.
 *
 * Several processes use it, each with sockets of its own: this struct is plain data. Only the warden changes
 * elements.
 *
 *     range      the addresses of all boxes of one state directory: 10.X.0.0/17 or 10.X.128.0/17, whichever is free
 *     gateway    its first address, on the host's lo, labelled with our prefix: this claims the range
 *     box N      the address of the range with the number N + 2 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/link.h"
#include "sys/route.h"

struct buf;
struct err;
struct netlink;

#define NETWORK_PREFIX_MAX 10 /* of names: "_" and a number follow, a link's name has 15 bytes */
#define NETWORK_RANGE_BITS 17 /* the longest prefix of a range that has an address for every box */
#define NETWORK_OPENED_MAX 64
#define NETWORK_LINKS_MS 3000
#define NETWORK_RESOLVER_PORT 10053 /* on the gateway: where egress hears all that boxes send to port 53 */
#define NETWORK_RELAY_PORT 10080    /* and what guarded boxes send to ports 80 and 443 of addresses that no rule is about */

/* What a packet of ours has, and in two more bits the class of the box that it comes from. */
#define NETWORK_MARK UINT32_C(0x01000000)
enum network_class {
	NETWORK_CLOSED = 0,          /* nothing passes */
	NETWORK_OPEN = 0x03000000,   /* the public Internet */
	NETWORK_LOOSE = 0x05000000,  /* that, without what is denied */
	NETWORK_GUARDED = 0x07000000, /* what is allowed, and no more */
};

struct box_network_spec {
	const char *prefix;
	const char *state_dir; /* the range that was chosen is noted in it */
	const char *range;     /* "10.1.0.0/17"; NULL: whichever is free */
	const char *const *opened; /* networks of W4 that boxes may reach */
	size_t n_opened;
};

struct box_network {
	bool is_on;
	char prefix[NETWORK_PREFIX_MAX + 1];
	char table[32];          /* of nf_tables */
	uint32_t owner;          /* the group of our links: the state directory's number */
	uint32_t routes;         /* the routing table with the ways to boxes */
	struct route_net range;
	uint32_t gateway;
	struct route_net opened[NETWORK_OPENED_MAX];
	size_t n_opened;
	int n_rules;             /* of the table, as it was written */
};

/* Claims a range and writes the table: at first, or again over what an earlier process has left, elements
 * stay. ERR_UNAVAILABLE names what this host lacks. */
int box_network_open(struct box_network *n, const struct box_network_spec *spec, struct err *e);
/* Whether an earlier start has left one under this prefix, for boxes that may still run: 1, 0, -1. */
int box_network_is_there(const char *prefix, struct err *e);
/* All that there is besides boxes. ERR_CONFLICT: there are some, or links that are still being taken down
 * after NETWORK_LINKS_MS. */
int box_network_remove(const struct box_network *n, struct err *e);

/* Somebody else may remove rules, addresses and routes, change links, or start Docker. Looking is quick: 1,
 * all is as it should be; 0, something needs box_network_repair(), which may wait for programs. NFT is the
 * caller's: closing such a socket waits for what was deleted through others. Elements of sets are gone when
 * the table was. */
int box_network_check(const struct box_network *n, struct netlink *nft, struct err *e);
int box_network_repair(struct box_network *n, struct err *e);
bool box_network_has_program(void); /* nft, which makes the rules */
/* For a process in a network of its own: whether the rules can be had. */
int box_network_try(struct err *e);

uint32_t box_network_address(const struct box_network *n, unsigned number);
int box_network_number(const struct box_network *n, uint32_t address); /* -1: no box has it */
void box_network_link(const struct box_network *n, unsigned number, char out[LINK_NAME_MAX + 1]);

/* Which address may come by which link: a key of the set `pairs`, to be there before the link is. */
struct network_pair {
	char link[16];
	uint32_t address;
};
void box_network_pair(const struct box_network *n, unsigned number, struct network_pair *ret);

/* The network of a box. */
struct box_inside {
	int netns;
	int proc; /* to set it by, see netns_set() */
	struct netlink *links;
};

/* Gives the box of this number its link: up, and closed. */
int box_network_attach(const struct box_network *n, unsigned number, const struct box_inside *inside,
		       struct err *e);
/* Deletes the link, if it is there. It goes with the box's network anyway, which the kernel takes down some
 * time after its last user; to wait for that, or to have it deleted, costs tens of milliseconds. Until it is
 * gone it leads nowhere, and box_network_attach() deletes it when the number comes round before. */
int box_network_detach(const struct box_network *n, unsigned number, struct err *e);
/* Somebody else may take either end of a link down, delete it, or the route to it. Marks in BROKEN those of
 * WANT, both of which are by number and have SLOT_NUMBER_MAX bytes, that are not as box_network_attach() made
 * them; the way to the range as a whole is put back. */
int box_network_find_broken(const struct box_network *n, const unsigned char *want, unsigned char *broken,
			    struct err *e);
/* Puts such a one right: up and with its route, or a new one into the same network. */
int box_network_mend(const struct box_network *n, unsigned number, int netns, struct err *e);
/* The numbers that links of ours have, on the heap. */
int box_network_list(const struct box_network *n, unsigned **ret, size_t *ret_n, struct err *e);
/* A box that is to have its own loopback alone: what leads out of NETNS is turned off. */
int box_network_turn_off(int netns, struct err *e);

/* The text of the table, for `nft -f -`. */
void box_network_table(const struct box_network *n, struct buf *out);
