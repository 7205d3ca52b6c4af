// SPDX-License-Identifier: Apache-2.0
#include "sys/link.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/err.h"
#include "sys/netlink.h"

#include "base/banned.h"

static int check_name(const char *name, struct err *e)
{
	size_t n = strlen(name);

	if (n == 0 || n > LINK_NAME_MAX)
		return err_set(e, ERR_INVALID, "link name '%.*s': not of 1 to %d bytes", 64, name, LINK_NAME_MAX);
	return 0;
}

static bool is_zero(const uint8_t *p, size_t n)
{
	uint8_t all = 0;

	for (size_t i = 0; i < n; i++)
		all |= p[i];
	return all == 0;
}

/* ---- pairs --------------------------------------------------------------------------------------------- */

/* One queue each way: the kernel's default is one for every CPU, each with its files in /sys, and a pair takes no
 * lock to send. */
static void put_end(struct netlink_msg *m, const struct link_end *end, uint32_t mtu)
{
	netlink_put_z(m, IFLA_IFNAME, end->name);
	netlink_put_u32(m, IFLA_NUM_TX_QUEUES, 1);
	netlink_put_u32(m, IFLA_NUM_RX_QUEUES, 1);
	if (mtu > 0)
		netlink_put_u32(m, IFLA_MTU, mtu);
	if (!is_zero(end->mac, sizeof(end->mac)))
		netlink_put(m, IFLA_ADDRESS, end->mac, sizeof(end->mac));
	if (end->group > 0)
		netlink_put_u32(m, IFLA_GROUP, end->group);
	if (end->netns >= 0)
		netlink_put_u32(m, IFLA_NET_NS_FD, (uint32_t)end->netns);
}

int link_make_veth(struct netlink *nl, const struct link_end *a, const struct link_end *b, uint32_t mtu,
		   struct err *e)
{
	const struct ifinfomsg head = { .ifi_family = AF_UNSPEC };
	struct netlink_msg m;

	if (check_name(a->name, e) < 0 || check_name(b->name, e) < 0)
		return -1;
	netlink_msg_init(&m);
	netlink_begin(&m, RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	put_end(&m, a, mtu);
	netlink_nest(&m, IFLA_LINKINFO);
	netlink_put_z(&m, IFLA_INFO_KIND, "veth");
	netlink_nest(&m, IFLA_INFO_DATA);
	netlink_nest(&m, VETH_INFO_PEER);
	netlink_put_raw(&m, &head, sizeof(head));
	put_end(&m, b, mtu);
	netlink_unnest(&m);
	netlink_unnest(&m);
	netlink_unnest(&m);
	if (netlink_request(nl, &m, e) < 0)
		return err_wrap(e, "make links '%s' and '%s'", a->name, b->name);
	return 0;
}

/* ---- one link ------------------------------------------------------------------------------------------ */

int link_delete(struct netlink *nl, int index, struct err *e)
{
	const struct ifinfomsg head = { .ifi_index = index };
	struct netlink_msg m;

	/* Without an index the kernel would take the message for one about a group of links. */
	if (index <= 0)
		return err_set(e, ERR_INVALID, "delete link %d", index);
	netlink_msg_init(&m);
	netlink_begin(&m, RTM_DELLINK, NLM_F_ACK, &head, sizeof(head));
	return netlink_request(nl, &m, e) < 0 ? err_wrap(e, "delete link %d", index) : 0;
}

int link_set_up(struct netlink *nl, int index, bool up, struct err *e)
{
	const struct ifinfomsg head = { .ifi_index = index, .ifi_flags = up ? IFF_UP : 0, .ifi_change = IFF_UP };
	struct netlink_msg m;

	netlink_msg_init(&m);
	netlink_begin(&m, RTM_NEWLINK, NLM_F_ACK, &head, sizeof(head));
	if (netlink_request(nl, &m, e) < 0)
		return err_wrap(e, "turn link %d %s", index, up ? "up" : "down");
	return 0;
}

int link_set_up_noarp(struct netlink *nl, int index, struct err *e)
{
	const struct ifinfomsg head = { .ifi_index = index, .ifi_flags = IFF_UP | IFF_NOARP, .ifi_change = IFF_UP | IFF_NOARP };
	struct netlink_msg m;

	netlink_msg_init(&m);
	netlink_begin(&m, RTM_NEWLINK, NLM_F_ACK, &head, sizeof(head));
	return netlink_request(nl, &m, e) < 0 ? err_wrap(e, "turn link %d up", index) : 0;
}

int link_set_ipv4(struct netlink *nl, int index, const struct link_setting *settings, size_t n, struct err *e)
{
	const struct ifinfomsg head = { .ifi_index = index };
	struct netlink_msg m;

	netlink_msg_init(&m);
	netlink_begin(&m, RTM_SETLINK, NLM_F_ACK, &head, sizeof(head));
	netlink_nest(&m, IFLA_AF_SPEC);
	netlink_nest(&m, AF_INET);
	netlink_nest(&m, IFLA_INET_CONF);
	for (size_t i = 0; i < n; i++)
		netlink_put_u32(&m, settings[i].number, settings[i].value);
	netlink_unnest(&m);
	netlink_unnest(&m);
	netlink_unnest(&m);
	return netlink_request(nl, &m, e) < 0 ? err_wrap(e, "set up IPv4 of link %d", index) : 0;
}

/* ---- addresses and routes ------------------------------------------------------------------------------ */

/* Bytes of an address of its family, or 0. */
static size_t ip_bytes(const struct link_ip *ip)
{
	return ip->family == AF_INET ? 4 : ip->family == AF_INET6 ? 16 : 0;
}

static int check_ip(const struct link_ip *ip, struct err *e)
{
	if (ip_bytes(ip) == 0 || ip->prefix > 8 * ip_bytes(ip))
		return err_set(e, ERR_INVALID, "address of family %d with %u bits", ip->family, ip->prefix);
	return 0;
}

int link_add_address(struct netlink *nl, int index, const struct link_ip *ip, struct err *e)
{
	const struct ifaddrmsg head = {
		.ifa_family = (uint8_t)ip->family,
		.ifa_prefixlen = ip->prefix,
		.ifa_flags = ip->family == AF_INET6 ? IFA_F_NODAD : 0,
		.ifa_index = (uint32_t)index,
	};
	struct netlink_msg m;

	if (check_ip(ip, e) < 0)
		return -1;
	netlink_msg_init(&m);
	netlink_begin(&m, RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	netlink_put(&m, IFA_LOCAL, ip->bytes, ip_bytes(ip));
	netlink_put(&m, IFA_ADDRESS, ip->bytes, ip_bytes(ip));
	return netlink_request(nl, &m, e) < 0 ? err_wrap(e, "add an address to link %d", index) : 0;
}

int link_add_route(struct netlink *nl, const struct link_route *route, struct err *e)
{
	const bool has_via = route->via.family != 0;
	const struct rtmsg head = {
		.rtm_family = (uint8_t)route->to.family,
		.rtm_dst_len = route->to.prefix,
		.rtm_table = RT_TABLE_MAIN,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = has_via ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
		.rtm_type = RTN_UNICAST,
		.rtm_flags = route->is_onlink ? RTNH_F_ONLINK : 0,
	};
	struct netlink_msg m;

	if (check_ip(&route->to, e) < 0 || (has_via && check_ip(&route->via, e) < 0))
		return -1;
	if (has_via && route->via.family != route->to.family)
		return err_set(e, ERR_INVALID, "route by way of another family");
	netlink_msg_init(&m);
	netlink_begin(&m, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
	if (route->to.prefix > 0)
		netlink_put(&m, RTA_DST, route->to.bytes, ip_bytes(&route->to));
	if (has_via)
		netlink_put(&m, RTA_GATEWAY, route->via.bytes, ip_bytes(&route->via));
	netlink_put_u32(&m, RTA_OIF, (uint32_t)route->index);
	return netlink_request(nl, &m, e) < 0 ? err_wrap(e, "add a route to link %d", route->index) : 0;
}

/* ---- listing ------------------------------------------------------------------------------------------- */

struct listing {
	struct str prefix;
	struct link_row *rows;
	size_t cap, n;
};

/* Text of the kernel's, which ends with a NUL, into CAP bytes; cut when it is longer. */
static void copy_text(char *out, size_t cap, struct str s)
{
	size_t n = s.n > 0 ? strnlen(s.p, s.n) : 0;

	n = MIN(n, cap - 1);
	if (n > 0)
		memcpy(out, s.p, n);
	out[n] = '\0';
}

/* False for what is no link. */
static bool read_row(uint16_t type, struct str body, struct link_row *ret)
{
	struct link_row row = { 0 };
	struct rtnl_link_stats64 stats;
	struct ifinfomsg head;
	struct str attrs, v, kind;

	if (type != RTM_NEWLINK || body.n < sizeof(head))
		return false;
	memcpy(&head, body.p, sizeof(head));
	attrs = str_skip(body, sizeof(head));
	if (!netlink_find(attrs, IFLA_IFNAME, &v))
		return false;
	copy_text(row.name, sizeof(row.name), v);
	row.index = head.ifi_index;
	row.is_up = head.ifi_flags & IFF_UP;
	row.has_carrier = netlink_find(attrs, IFLA_CARRIER, &v) && v.n > 0 && v.p[0];
	if (netlink_find(attrs, IFLA_ADDRESS, &v) && v.n == sizeof(row.mac))
		memcpy(row.mac, v.p, sizeof(row.mac));
	if (netlink_find(attrs, IFLA_GROUP, &v) && v.n == sizeof(row.group))
		memcpy(&row.group, v.p, sizeof(row.group));
	if (netlink_find(attrs, IFLA_LINKINFO, &v) && netlink_find(v, IFLA_INFO_KIND, &kind))
		copy_text(row.kind, sizeof(row.kind), kind);
	if (netlink_find(attrs, IFLA_STATS64, &v) && v.n >= offsetof(struct rtnl_link_stats64, rx_errors)) {
		memcpy(&stats, v.p, offsetof(struct rtnl_link_stats64, rx_errors));
		row.rx_bytes = stats.rx_bytes;
		row.tx_bytes = stats.tx_bytes;
		row.rx_packets = stats.rx_packets;
		row.tx_packets = stats.tx_packets;
	}
	*ret = row;
	return true;
}

static int take_row(uint16_t type, struct str body, void *arg, struct err *e)
{
	struct listing *l = arg;
	struct link_row row;

	if (!read_row(type, body, &row) || !str_starts(str_of(row.name), l->prefix))
		return 0;
	if (l->n == l->cap)
		return err_set(e, ERR_LIMIT, "more than %zu links", l->cap);
	l->rows[l->n++] = row;
	return 0;
}

int link_list(struct netlink *nl, const char *prefix, struct link_row *rows, size_t cap, size_t *ret_n,
	      struct err *e)
{
	const struct ifinfomsg head = { .ifi_family = AF_UNSPEC };
	struct listing l = { .prefix = str_of(prefix), .rows = rows, .cap = cap };
	struct err why = { 0 };
	struct netlink_msg m;
	int r = -1;

	for (int i = 0; i < LINK_LIST_TRIES && r < 0; i++) {
		l.n = 0;
		netlink_msg_init(&m);
		netlink_begin(&m, RTM_GETLINK, 0, &head, sizeof(head));
		r = netlink_dump(nl, &m, take_row, &l, &why);
		if (r < 0 && why.sys != EAGAIN)
			break;
	}
	if (r < 0) {
		*e = why;
		return err_wrap(e, "list links");
	}
	*ret_n = l.n;
	return 0;
}

/* The kernel's answer to a question by name comes as a row before the acknowledgement; a listing of all links
 * would take longer the more there are. */
static int take_one(uint16_t type, struct str body, void *arg, struct err *e)
{
	(void)e;
	(void)read_row(type, body, arg);
	return 0;
}

static int ask_one(struct netlink *nl, struct netlink_msg *m, struct link_row *ret, struct err *e)
{
	struct link_row row = { 0 };

	if (netlink_ask(nl, m, take_one, &row, e) < 0)
		return e->sys == ENODEV ? err_set(e, ERR_NOT_FOUND, "there is no such link") : -1;
	if (row.index <= 0)
		return err_set(e, ERR_INTERNAL, "no row in the answer");
	*ret = row;
	return 0;
}

int link_find(struct netlink *nl, const char *name, struct link_row *ret, struct err *e)
{
	const struct ifinfomsg head = { .ifi_family = AF_UNSPEC };
	struct netlink_msg m;

	if (check_name(name, e) < 0)
		return -1;
	netlink_msg_init(&m);
	netlink_begin(&m, RTM_GETLINK, NLM_F_ACK, &head, sizeof(head));
	netlink_put_z(&m, IFLA_IFNAME, name);
	return ask_one(nl, &m, ret, e) < 0 ? err_wrap(e, "find link '%s'", name) : 0;
}

int link_by_index(struct netlink *nl, int index, struct link_row *ret, struct err *e)
{
	const struct ifinfomsg head = { .ifi_family = AF_UNSPEC, .ifi_index = index };
	struct netlink_msg m;

	netlink_msg_init(&m);
	netlink_begin(&m, RTM_GETLINK, NLM_F_ACK, &head, sizeof(head));
	return ask_one(nl, &m, ret, e) < 0 ? err_wrap(e, "find link %d", index) : 0;
}

/* Any socket can ask, and is told nothing else: a message would tell all about the link. */
int link_index(struct netlink *nl, const char *name, struct err *e)
{
	struct ifreq ask = { 0 };

	if (check_name(name, e) < 0)
		return -1;
	(void)snprintf(ask.ifr_name, sizeof(ask.ifr_name), "%s", name); /* not longer, it was checked */
	if (ioctl(nl->fd, SIOCGIFINDEX, &ask) == 0)
		return ask.ifr_ifindex;
	return errno == ENODEV ? err_set(e, ERR_NOT_FOUND, "there is no link '%s'", name) : err_sys(e, errno, "find link '%s'", name);
}
