// SPDX-License-Identifier: Apache-2.0
#include "sys/route.h"

#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/str.h"
#include "sys/netlink.h"

#include "base/banned.h"

#define LIST_TRIES 16

/* ---- networks ---- */

static uint32_t mask_of(uint8_t prefix)
{
	return prefix == 0 ? 0 : htonl(UINT32_MAX << (32 - prefix));
}

bool route_net_has(const struct route_net *net, uint32_t address)
{
	return ((address ^ net->address) & mask_of(net->prefix)) == 0;
}

bool route_nets_overlap(const struct route_net *a, const struct route_net *b)
{
	return a->prefix < b->prefix ? route_net_has(a, b->address) : route_net_has(b, a->address);
}

int route_net_parse(const char *text, struct route_net *ret, struct err *e)
{
	struct route_net net = { .prefix = 32 };
	struct str head, tail;
	char address[INET_ADDRSTRLEN];
	uint64_t prefix = 32;
	bool has_prefix = str_cut(str_of(text), '/', &head, &tail);

	if (head.n >= sizeof(address) || (has_prefix && !str_to_u64(tail, 0, 32, &prefix)))
		return err_set(e, ERR_INVALID, "'%.40s' is no network such as 10.0.0.0/8", text);
	(void)snprintf(address, sizeof(address), "%.*s", STR_ARG(head));
	net.prefix = (uint8_t)prefix;
	if (inet_pton(AF_INET, address, &net.address) != 1 || (net.address & ~mask_of(net.prefix)) != 0)
		return err_set(e, ERR_INVALID, "'%.40s' is no network such as 10.0.0.0/8", text);
	*ret = net;
	return 0;
}

void route_net_write(const struct route_net *net, char out[ROUTE_NET_TEXT])
{
	char address[INET_ADDRSTRLEN];

	(void)inet_ntop(AF_INET, &net->address, address, sizeof(address));
	(void)snprintf(out, ROUTE_NET_TEXT, "%s/%u", address, net->prefix);
}

/* ---- addresses ---- */

static int change_address(struct netlink *nl, uint16_t type, uint16_t flags, int index, uint32_t address, const char *label,
			  struct err *e)
{
	const struct ifaddrmsg head = { .ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_scope = RT_SCOPE_HOST,
					.ifa_index = (uint32_t)index };
	struct netlink_msg m;

	netlink_msg_init(&m);
	netlink_begin(&m, type, NLM_F_ACK | flags, &head, sizeof(head));
	netlink_put(&m, IFA_LOCAL, &address, sizeof(address));
	netlink_put(&m, IFA_ADDRESS, &address, sizeof(address));
	if (label)
		netlink_put_z(&m, IFA_LABEL, label);
	return netlink_request(nl, &m, e);
}

int route_add_address(struct netlink *nl, int index, uint32_t address, const char *label, struct err *e)
{
	if (strlen(label) > ROUTE_LABEL_MAX)
		return err_set(e, ERR_INVALID, "label '%.20s' is longer than %d bytes", label, ROUTE_LABEL_MAX);
	if (change_address(nl, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, index, address, label, e) < 0)
		return err_wrap(e, "add address '%s'", label);
	return 0;
}

int route_delete_address(struct netlink *nl, int index, uint32_t address, struct err *e)
{
	if (change_address(nl, RTM_DELADDR, 0, index, address, NULL, e) < 0 && e->sys != EADDRNOTAVAIL && e->sys != ENODEV)
		return err_wrap(e, "delete an address of link %d", index);
	return 0;
}

/* ---- listing ---- */

struct listing {
	route_address_fn *address;
	route_row_fn *row;
	void *arg;
	bool is_over;
	uint32_t table; /* of the routes; 0: any */
};

static uint32_t find_u32(struct str attrs, uint16_t type)
{
	struct str v;
	uint32_t n = 0;

	if (netlink_find(attrs, type, &v) && v.n == sizeof(n))
		memcpy(&n, v.p, sizeof(n));
	return n;
}

static int take_address(uint16_t type, struct str body, void *arg, struct err *e)
{
	struct listing *l = arg;
	struct route_address a = { 0 };
	struct ifaddrmsg head;
	struct str attrs, v;
	int r;

	if (type != RTM_NEWADDR || body.n < sizeof(head) || l->is_over)
		return 0;
	memcpy(&head, body.p, sizeof(head));
	attrs = str_skip(body, sizeof(head));
	if (head.ifa_family != AF_INET)
		return 0;
	a.address = find_u32(attrs, IFA_LOCAL);
	a.prefix = head.ifa_prefixlen;
	a.index = (int)head.ifa_index;
	if (netlink_find(attrs, IFA_LABEL, &v))
		(void)snprintf(a.label, sizeof(a.label), "%.*s", (int)strnlen(v.p, v.n), v.p); /* the kernel's are as short */
	r = l->address(&a, l->arg, e);
	l->is_over = r != 0;
	return r < 0 ? -1 : 0;
}

static int take_route(uint16_t type, struct str body, void *arg, struct err *e)
{
	struct listing *l = arg;
	struct route_row row = { 0 };
	struct rtmsg head;
	struct str attrs;
	int r;

	if (type != RTM_NEWROUTE || body.n < sizeof(head) || l->is_over)
		return 0;
	memcpy(&head, body.p, sizeof(head));
	attrs = str_skip(body, sizeof(head));
	if (head.rtm_family != AF_INET)
		return 0;
	row = (struct route_row){ .to = { find_u32(attrs, RTA_DST), head.rtm_dst_len }, .index = (int)find_u32(attrs, RTA_OIF),
				  .protocol = head.rtm_protocol, .table = find_u32(attrs, RTA_TABLE) };
	if (l->table != 0 && row.table != l->table)
		return 0;
	r = l->row(&row, l->arg, e);
	l->is_over = r != 0;
	return r < 0 ? -1 : 0;
}

/* A table that changes meanwhile is listed anew: whoever is told of a row must take it twice. */
static int list(struct netlink *nl, uint16_t type, const void *head, size_t n, netlink_row_fn take, struct listing *l, struct err *e)
{
	struct err why = { 0 };
	struct netlink_msg m;

	for (int i = 0; i < LIST_TRIES; i++) {
		netlink_msg_init(&m);
		netlink_begin(&m, type, 0, head, n);
		if (netlink_dump(nl, &m, take, l, &why) == 0 || l->is_over)
			return 0;
		if (why.sys == ENOENT) /* of a table that has none */
			return 0;
		if (why.sys != EAGAIN)
			break;
	}
	*e = why;
	return -1;
}

int route_list_addresses(struct netlink *nl, route_address_fn *fn, void *arg, struct err *e)
{
	const struct ifaddrmsg head = { .ifa_family = AF_INET };
	struct listing l = { .address = fn, .arg = arg };

	return list(nl, RTM_GETADDR, &head, sizeof(head), take_address, &l, e) < 0 ? err_wrap(e, "list addresses") : 0;
}

int route_list(struct netlink *nl, uint32_t table, route_row_fn *fn, void *arg, struct err *e)
{
	/* The head has a byte for the table, which would name another one than a larger number does: all are listed then. */
	const struct rtmsg head = { .rtm_family = AF_INET, .rtm_table = table <= UINT8_MAX ? (uint8_t)table : 0 };
	struct listing l = { .row = fn, .arg = arg, .table = table };

	return list(nl, RTM_GETROUTE, &head, sizeof(head), take_route, &l, e) < 0 ? err_wrap(e, "list routes") : 0;
}

/* ---- routes ---- */

static int change_route(struct netlink *nl, uint16_t type, uint16_t flags, const struct route *r, struct err *e)
{
	const struct rtmsg head = {
		.rtm_family = AF_INET,
		.rtm_dst_len = r->to.prefix,
		.rtm_protocol = ROUTE_PROTOCOL,
		.rtm_scope = r->kind == ROUTE_LINK ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE,
		.rtm_type = r->kind == ROUTE_LINK ? RTN_UNICAST : RTN_UNREACHABLE,
	};
	struct netlink_msg m;

	netlink_msg_init(&m);
	netlink_begin(&m, type, NLM_F_ACK | flags, &head, sizeof(head));
	netlink_put(&m, RTA_DST, &r->to.address, sizeof(r->to.address));
	netlink_put_u32(&m, RTA_TABLE, r->table ? r->table : RT_TABLE_MAIN);
	if (r->kind == ROUTE_LINK)
		netlink_put_u32(&m, RTA_OIF, (uint32_t)r->index);
	return netlink_request(nl, &m, e);
}

int route_add(struct netlink *nl, const struct route *r, struct err *e)
{
	if (change_route(nl, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, r, e) < 0 && e->sys != EEXIST)
		return err_wrap(e, "add a route");
	return 0;
}

int route_delete(struct netlink *nl, const struct route *r, struct err *e)
{
	if (change_route(nl, RTM_DELROUTE, 0, r, e) < 0 && e->sys != ESRCH)
		return err_wrap(e, "delete a route");
	return 0;
}

static int change_rule(struct netlink *nl, uint16_t type, uint16_t flags, const struct route_rule *r, struct err *e)
{
	const struct fib_rule_hdr head = { .family = AF_INET, .dst_len = r->to.prefix, .action = FR_ACT_TO_TBL };
	const uint8_t protocol = ROUTE_PROTOCOL;
	struct netlink_msg m;

	netlink_msg_init(&m);
	netlink_begin(&m, type, NLM_F_ACK | flags, &head, sizeof(head));
	netlink_put(&m, FRA_DST, &r->to.address, sizeof(r->to.address));
	netlink_put_u32(&m, FRA_PRIORITY, r->priority);
	netlink_put_u32(&m, FRA_FWMARK, r->mark);
	netlink_put_u32(&m, FRA_FWMASK, r->mark);
	netlink_put_u32(&m, FRA_TABLE, r->table);
	netlink_put(&m, FRA_PROTOCOL, &protocol, sizeof(protocol));
	return netlink_request(nl, &m, e);
}

int route_add_rule(struct netlink *nl, const struct route_rule *r, struct err *e)
{
	if (change_rule(nl, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, r, e) < 0 && e->sys != EEXIST)
		return err_wrap(e, "add a rule for routes");
	return 0;
}

int route_delete_rule(struct netlink *nl, const struct route_rule *r, struct err *e)
{
	if (change_rule(nl, RTM_DELRULE, 0, r, e) < 0 && e->sys != ENOENT)
		return err_wrap(e, "delete a rule for routes");
	return 0;
}
