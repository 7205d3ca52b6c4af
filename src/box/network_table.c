// SPDX-License-Identifier: Apache-2.0
/* The rules. A packet from a box meets, in this order:
 *
 *     first      before connections are looked at: it must have the address of its link (W1) and a class, which becomes its mark
 *     redirects  port 53 goes to the resolver (W6), 80 and 443 of a guarded box to the relay unless a rule is about the address
 *     local      what reaches the host is one of these, or dropped (W3)
 *     forward    what leaves: nothing that W4 lists, no more flows than W10 allows, and what the class allows
 *     leaving    as from the host itself
 *
 * and an answer to it `returns` (the mark that leads to boxes) and `back`. Everything ends in a drop; packets of others meet no
 * more than a comparison of names. */
#include <arpa/inet.h>

#include "access/resolvers.h"
#include "base/buf.h"
#include "base/err.h"
#include "box/network.h"
#include "box/network_rules.h"

#include "base/banned.h"

#define BOXES_MAX "65536"    /* elements that a set has for boxes: more than there are boxes */
#define LEARNED_MAX "1048576"

void network_resolvers_write(const char *table, struct buf *out)
{
	buf_addf(out, "add element inet %s resolvers { ", table);
	resolver_networks_write(out);
	buf_addf(out, " }\n");
}

static void write_sets(const struct box_network *n, struct buf *out)
{
	buf_addf(out, "table inet %s {\n", n->table);
	buf_addf(out, "	set pairs { type ifname . ipv4_addr; size " BOXES_MAX "; }\n"
		      "	map classes { type ipv4_addr : mark; size " BOXES_MAX "; }\n"
		      "	set allowed { type ipv4_addr . ipv4_addr; flags interval; }\n"
		      "	set denied { type ipv4_addr . ipv4_addr; flags interval; }\n"
		      "	set learned { type ipv4_addr . ipv4_addr . inet_service; size " LEARNED_MAX "; flags timeout; }\n"
		      "	set opened { type ipv4_addr; flags interval; auto-merge; }\n"
		      "	set reserved { type ipv4_addr; flags interval; auto-merge; }\n"
		      "	set resolvers { type ipv4_addr; flags interval; auto-merge; }\n"
		      "	set uplinks { type ifname; }\n"
		      "	set rates { type ipv4_addr; size " BOXES_MAX "; flags dynamic,timeout; timeout 1m; }\n"
		      "	set pings { type ipv4_addr; size " BOXES_MAX "; flags dynamic,timeout; timeout 1m; }\n"
		      "	set drops { type ipv4_addr; size " BOXES_MAX "; flags dynamic; }\n"
		      "	set queries { type ipv4_addr; size " BOXES_MAX "; flags dynamic,timeout; timeout 1m; }\n"
		      "	set flows { type ipv4_addr; size " BOXES_MAX "; flags dynamic; }\n");
	buf_addf(out, "	chain first { type filter hook prerouting priority -310; policy accept; }\n"
		      "	chain redirects { type nat hook prerouting priority -100; policy accept; }\n"
		      "	chain returns { type filter hook prerouting priority -90; policy accept; }\n"
		      "	chain local { type filter hook input priority -10; policy accept; }\n"
		      "	chain forward { type filter hook forward priority -10; policy accept; }\n"
		      "	chain leaving { type nat hook postrouting priority 100; policy accept; }\n"
		      "	chain strangers { }\n	chain from_box { }\n	chain redirect_box { }\n	chain to_host { }\n"
		      "	chain refused { }\n	chain limits { }\n	chain out { }\n	chain back { }\n	chain open { }\n	chain loose { }\n"
		      "	chain guarded { }\n}\n");
	/* The same text is written over what an earlier start has left: rules are replaced, elements of boxes stay. */
	buf_addf(out, "flush table inet %s\nflush set inet %s reserved\nflush set inet %s opened\nflush set inet %s resolvers\n", n->table, n->table,
		 n->table, n->table);
	network_resolvers_write(n->table, out);
	buf_addf(out, "add element inet %s reserved { " NETWORK_RESERVED " }\n", n->table);
	for (size_t i = 0; i < n->n_opened; i++) {
		char net[ROUTE_NET_TEXT];

		route_net_write(&n->opened[i], net);
		buf_addf(out, "add element inet %s opened { %s }\n", n->table, net);
	}
}

/* Links of ours are told by their names; P is what those begin with. */
static void write_arrivals(const char *p, const char *range, const char *gateway, struct buf *out)
{
	buf_addf(out, "	chain first {\n		iifname \"%s_*\" jump from_box\n		ip daddr %s jump strangers\n	}\n", p, range);
	/* Nobody but their own answers reaches a box; "lo" is what the host sends itself. */
	buf_addf(out, "	chain strangers { iifname \"lo\" accept; drop; }\n");
	buf_addf(out, "	chain from_box {\n"
		      "		iifname . ip saddr != @pairs drop\n"
		      "		ether saddr != 02:00:00:00:00:01 drop\n"
		      "		meta l4proto != { tcp, udp, icmp } goto refused\n"
		      "		meta l4proto { tcp, udp } th dport { 137, 853, 5353, 5355 } goto refused\n"
		      "		meta mark set ip saddr map @classes accept\n"
		      "		drop\n	}\n");
	buf_addf(out, "	chain redirects { iifname \"%s_*\" jump redirect_box; }\n", p);
	buf_addf(out, "	chain redirect_box {\n"
		      "		meta l4proto { tcp, udp } th dport 53 dnat ip to %s:%d\n"
		      "		meta mark & 0x%08x != 0x%08x accept\n"
		      "		ip daddr @reserved ip daddr != @opened accept\n"
		      "		fib daddr type != unicast accept\n"
		      "		ip saddr . ip daddr @denied accept\n"
		      "		ip saddr . ip daddr @allowed accept\n"
		      "		tcp dport { 80, 443 } dnat ip to %s:%d\n	}\n",
		 gateway, NETWORK_RESOLVER_PORT, NETWORK_GUARDED, NETWORK_GUARDED, gateway, NETWORK_RELAY_PORT);
	buf_addf(out, "	chain returns {\n"
		      "		iifname != \"%s_*\" ip daddr %s ct state established,related meta mark set meta mark | 0x%08x\n	}\n",
		 p, range, NETWORK_MARK);
	buf_addf(out, "	chain local { iifname \"%s_*\" jump to_host; }\n", p);
	/* The resolver's own limit is lower (W6); a flood that is one flow to the kernel need not wake it for every packet.
	 * Only by way of `redirects`: who dials the relay itself has no address that it could be relayed to. */
	buf_addf(out, "	chain to_host {\n"
		      "		udp dport %d add @queries { ip saddr limit rate over 200/second burst 400 packets } drop\n"
		      "		ct state established accept\n"
		      "		ip daddr != %s goto refused\n"
		      "		ct status & dnat != dnat goto refused\n"
		      "		ct state != new drop\n"
		      "		jump limits\n"
		      "		udp dport %d accept\n"
		      "		tcp dport { %d, %d } accept\n"
		      "		goto refused\n	}\n",
		 NETWORK_RESOLVER_PORT, gateway, NETWORK_RESOLVER_PORT, NETWORK_RESOLVER_PORT, NETWORK_RELAY_PORT);
}

static void write_departures(const char *p, const char *range, struct buf *out)
{
	/* What a box has sent in vain is counted for it. */
	buf_addf(out, "	chain refused {\n"
		      "		add @drops { ip saddr counter }\n"
		      "		drop\n	}\n");
	buf_addf(out, "	chain limits {\n"
		      "		add @rates { ip saddr limit rate over 500/second burst 500 packets } goto refused\n"
		      "		add @flows { ip saddr ct count over 4096 } goto refused\n	}\n");
	/* What came in by a link whose forwarding is on for boxes alone is not forwarded for others. */
	buf_addf(out, "	chain forward {\n"
		      "		iifname \"%s_*\" jump out\n"
		      "		oifname \"%s_*\" jump back\n"
		      "		iifname @uplinks meta mark & 0x%08x == 0 drop\n	}\n", p, p, NETWORK_MARK);
	buf_addf(out, "	chain back { ct state established accept; meta l4proto icmp ct state related accept; drop; }\n");
	/* The host's own errors do not reach boxes, so nobody tells them of a smaller MTU further on. */
	buf_addf(out, "	chain out {\n"
		      "		ip daddr %s goto refused\n"
		      "		tcp flags syn tcp option maxseg size set rt mtu\n"
		      "		icmp type echo-request add @pings { ip saddr limit rate over 10/second burst 10 packets } drop\n"
		      "		ct state established accept\n"
		      "		ct state != new drop\n"
		      "		ip daddr @reserved ip daddr != @opened goto refused\n"
		      "		fib daddr type != unicast goto refused\n"
		      "		jump limits\n"
		      "		meta mark & 0x06000000 vmap { 0x02000000 : goto open, 0x04000000 : goto loose, 0x06000000 : goto guarded }\n"
		      "		goto refused\n	}\n", range);
	buf_addf(out, "	chain open {\n"
		      "		meta l4proto { tcp, udp } accept\n"
		      "		icmp type echo-request accept\n"
		      "		goto refused\n	}\n"
		      "	chain loose {\n"
		      "		ip saddr . ip daddr @denied goto refused\n"
		      "		meta l4proto { tcp, udp } th dport 443 ip daddr @resolvers ip saddr . ip daddr != @allowed goto refused\n"
		      "		goto open\n	}\n"
		      "	chain guarded {\n"
		      "		ip saddr . ip daddr @denied goto refused\n"
		      "		meta l4proto { tcp, udp } ip saddr . ip daddr @allowed accept\n"
		      "		ip saddr . ip daddr . tcp dport @learned accept\n"
		      "		goto refused\n	}\n");
	buf_addf(out, "	chain leaving {\n"
		      "		meta mark & 0x%08x != 0 ip saddr %s oifname != \"%s_*\" masquerade\n	}\n", NETWORK_MARK, range, p);
}

void box_network_table(const struct box_network *n, struct buf *out)
{
	char range[ROUTE_NET_TEXT], gateway[INET_ADDRSTRLEN];

	route_net_write(&n->range, range);
	(void)inet_ntop(AF_INET, &n->gateway, gateway, sizeof(gateway));
	write_sets(n, out);
	buf_addf(out, "table inet %s {\n", n->table);
	write_arrivals(n->prefix, range, gateway, out);
	write_departures(n->prefix, range, out);
	buf_addf(out, "}\n");
}
