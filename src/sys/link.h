// SPDX-License-Identifier: Apache-2.0
/* sys/link.h - network links, their addresses and routes, over a NETLINK_ROUTE socket (sys/netlink.h): what
 * is asked concerns the network namespace in which that socket was born. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct netlink;

#define LINK_NAME_MAX 15 /* bytes */
#define LINK_MAC_BYTES 6
#define LINK_LIST_TRIES 16

/* One end of a pair. */
struct link_end {
	const char *name;
	int netns;                   /* where it shall be; -1: where the socket is */
	uint8_t mac[LINK_MAC_BYTES]; /* all zero: the kernel's choice */
	uint32_t group;              /* a number of the maker's, for link_list(); 0: none */
};

/* Two links that are each other's wire, both down. MTU 0: the kernel's default. They are made where they
 * belong, in one step; deleting one, or the end of its namespace, deletes both. */
int link_make_veth(struct netlink *nl, const struct link_end *a, const struct link_end *b, uint32_t mtu,
		   struct err *e);

int link_index(struct netlink *nl, const char *name, struct err *e); /* from 1 on; ERR_NOT_FOUND */
int link_delete(struct netlink *nl, int index, struct err *e);
int link_set_up(struct netlink *nl, int index, bool up, struct err *e);
/* Up, and without asking for addresses: each end of a pair takes what the other sends when both have the same
 * one. */
int link_set_up_noarp(struct netlink *nl, int index, struct err *e);

/* A setting of IPv4 for one link: what is below /proc/sys/net/ipv4/conf/NAME/, in one message. */
struct link_setting {
	uint16_t number; /* IPV4_DEVCONF_..., of linux/ip.h */
	uint32_t value;
};
int link_set_ipv4(struct netlink *nl, int index, const struct link_setting *settings, size_t n,
		  struct err *e);

/* An address or a network. */
struct link_ip {
	int family; /* AF_INET or AF_INET6; 0: none */
	uint8_t bytes[16];
	uint8_t prefix; /* bits */
};

/* IPv6 addresses are usable at once: no duplicate is looked for. */
int link_add_address(struct netlink *nl, int index, const struct link_ip *ip, struct err *e);

struct link_route {
	struct link_ip to;  /* of the default route: family, no bytes, prefix 0 */
	struct link_ip via; /* family 0: TO is on the link */
	bool is_onlink;     /* VIA is on the link though no route says so */
	int index;
};

/* ERR_CONFLICT when there is one to the same place. */
int link_add_route(struct netlink *nl, const struct link_route *route, struct err *e);

struct link_row {
	int index;
	bool is_up;
	bool has_carrier; /* the other end of a pair is up, too */
	char name[LINK_NAME_MAX + 1];
	char kind[16]; /* "veth", or "" */
	uint8_t mac[LINK_MAC_BYTES];
	uint32_t group;
	uint64_t rx_bytes, tx_bytes, rx_packets, tx_packets;
};

/* One by its name; ERR_NOT_FOUND. */
int link_find(struct netlink *nl, const char *name, struct link_row *ret, struct err *e);
int link_by_index(struct netlink *nl, int index, struct link_row *ret, struct err *e);

/* The links whose names start with PREFIX; *ret_n of them. ERR_LIMIT when there are more than CAP. */
int link_list(struct netlink *nl, const char *prefix, struct link_row *rows, size_t cap, size_t *ret_n,
	      struct err *e);
