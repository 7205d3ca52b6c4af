// SPDX-License-Identifier: Apache-2.0
/* The rules of a sidecar. A packet of the sandbox, or of egress itself, which has the mark, meets in this order:
 *
 *     first      connections are known, nothing is translated yet: what may leave is decided here, by where it was sent
 *     redirects  port 53 goes to the resolver (W6), 80 and 443 of a guarded sandbox to the relay unless a rule is about the address;
 *                before anybody else's translation, and there is one for each connection (E26)
 *     last       what should have been redirected, and was not, goes nowhere
 *
 * and what comes in meets `arrivals`.
 *
 * Nothing is forwarded and nothing but the loopback speaks IPv6. Without an element in `guarded`, `loose` or `open` nothing leaves. */
#include <arpa/inet.h>

#include "egress/sidecar.h"

#include "base/buf.h"
#include "box/network_rules.h"

#include "base/banned.h"

static void write_net(const char *set, const uint8_t address[4], unsigned prefix, struct buf *out)
{
	char text[INET_ADDRSTRLEN];

	(void)inet_ntop(AF_INET, address, text, sizeof(text));
	buf_addf(out, "add element inet " SIDECAR_TABLE " %s { %s/%u }\n", set, text, prefix);
}

/* Written over what an earlier start has left: rules are replaced, what holds for the sandbox stays. */
static void write_sets(const struct sidecar *s, struct buf *out)
{
	const struct egress_options *o = &s->egress;
	char text[INET_ADDRSTRLEN];

	buf_addf(out, "table inet " SIDECAR_TABLE " {\n"
		      "	set guarded { typeof meta nfproto; }\n"
		      "	set loose { typeof meta nfproto; }\n"
		      "	set open { typeof meta nfproto; }\n"
		      "	set allow_v4 { typeof meta nfproto . ip daddr; flags interval; }\n"
		      "	set deny_v4 { typeof meta nfproto . ip daddr; flags interval; }\n"
		      "	set dyn_allow_v4 { type ipv4_addr . inet_service; size 65536; flags timeout; }\n"
		      "	set upstreams { type ipv4_addr . inet_service; }\n"
		      "	set opened { type ipv4_addr; flags interval; auto-merge; }\n"
		      "	set reserved { type ipv4_addr; flags interval; auto-merge; }\n"
		      "	set resolvers { type ipv4_addr; flags interval; auto-merge; }\n"
		      "	set flows { typeof meta nfproto; size 4; flags dynamic; }\n"
		      "	chain first { type filter hook output priority -160; policy accept; }\n"
		      "	chain redirects { type nat hook output priority -150; policy accept; }\n"
		      "	chain last { type filter hook output priority 0; policy accept; }\n"
		      "	chain arrivals { type filter hook input priority -160; policy accept; }\n"
		      "	chain forward { type filter hook forward priority -10; policy accept; }\n"
		      "	chain own { }\n	chain limits { }\n	chain opened_ones { }\n	chain guarded_ones { }\n	chain loose_ones { }\n}\n"
		      "flush table inet " SIDECAR_TABLE "\nflush set inet " SIDECAR_TABLE " upstreams\n"
		      "flush set inet " SIDECAR_TABLE " opened\nflush set inet " SIDECAR_TABLE " reserved\n"
		      "flush set inet " SIDECAR_TABLE " resolvers\n"
		      "add element inet " SIDECAR_TABLE " reserved { " NETWORK_RESERVED " }\n");
	network_resolvers_write(SIDECAR_TABLE, out);
	for (size_t i = 0; i < o->n_upstreams; i++)
		buf_addf(out, "add element inet " SIDECAR_TABLE " upstreams { %s . %u }\n",
			 inet_ntop(AF_INET, &o->upstreams[i].in.sin_addr, text, sizeof(text)), ntohs(o->upstreams[i].in.sin_port));
	for (size_t i = 0; i < o->n_opened; i++)
		write_net("opened", o->opened[i].bytes, o->opened[i].prefix, out);
	for (size_t i = 0; i < s->n_resolvers; i++)
		write_net("resolvers", s->resolvers[i].bytes, s->resolvers[i].prefix, out);
}

static void write_first(const struct sidecar *s, uint32_t mark, struct buf *out)
{
	buf_addf(out, "	chain first {\n"
		      "		oifname \"lo\" accept\n"
		      "		meta nfproto ipv6 drop\n"
		      "		ct state established accept\n"
		      "		meta l4proto icmp ct state related accept\n"
		      "		ct state != new drop\n"
		      "		meta mark 0x%08x goto own\n"
		      "		meta l4proto != { tcp, udp, icmp } drop\n"
		      "		jump limits\n"
		      "		meta l4proto { tcp, udp } th dport 53 accept\n"
		      "		meta l4proto { tcp, udp } th dport { 137, 853, 5353, 5355 } drop\n"
		      "		ip daddr @reserved ip daddr != @opened drop\n"
		      "		fib daddr type != unicast drop\n", mark);
	if (s->blocks_443 && s->n_resolvers > 0)
		buf_addf(out, "		meta l4proto { tcp, udp } th dport 443 ip daddr @resolvers drop\n");
	else if (s->blocks_443)
		buf_addf(out, "		meta l4proto { tcp, udp } th dport 443 meta nfproto != @guarded drop\n");
	buf_addf(out, "		meta nfproto @guarded goto guarded_ones\n"
		      "		meta nfproto @loose goto loose_ones\n"
		      "		meta nfproto @open goto opened_ones\n"
		      "		drop\n	}\n");
	buf_addf(out, "	chain limits {\n"
		      "		limit rate over 500/second burst 500 packets drop\n"
		      "		add @flows { meta nfproto ct count over 4096 } drop\n	}\n");
	/* Who took egress over can reach its resolvers and the web of the public Internet, no more. */
	buf_addf(out, "	chain own {\n"
		      "		ct mark set 0x%08x\n"
		      "		meta l4proto { tcp, udp } ip daddr . th dport @upstreams accept\n"
		      "		ip daddr @reserved ip daddr != @opened drop\n"
		      "		fib daddr type != unicast drop\n"
		      "		meta l4proto tcp accept\n"
		      "		drop\n	}\n", mark);
}

static void write_classes(struct buf *out)
{
	buf_addf(out, "	chain opened_ones {\n"
		      "		meta l4proto { tcp, udp } accept\n"
		      "		icmp type echo-request limit rate 10/second burst 10 packets accept\n"
		      "		drop\n	}\n"
		      "	chain loose_ones {\n"
		      "		meta nfproto . ip daddr @deny_v4 drop\n"
		      "		meta nfproto . ip daddr @allow_v4 goto opened_ones\n"
		      "		meta l4proto { tcp, udp } th dport 443 ip daddr @resolvers drop\n"
		      "		goto opened_ones\n	}\n"
		      "	chain guarded_ones {\n"
		      "		meta nfproto . ip daddr @deny_v4 drop\n"
		      "		meta l4proto { tcp, udp } meta nfproto . ip daddr @allow_v4 accept\n"
		      "		ip daddr . tcp dport @dyn_allow_v4 accept\n"
		      "		tcp dport { 80, 443 } accept\n" /* to the relay: `last` sees to that */
		      "		drop\n	}\n");
}

static void write_redirects(uint32_t mark, struct buf *out)
{
	/* To where it goes already: nobody else's translation comes after one. */
	buf_addf(out, "	chain redirects {\n"
		      "		meta mark 0x%08x oifname != \"lo\" dnat ip to ip daddr\n"
		      "		meta mark 0x%08x accept\n"
		      "		meta l4proto { tcp, udp } th dport 53 redirect to :%d\n"
		      "		oifname \"lo\" accept\n"
		      "		meta nfproto != @guarded accept\n"
		      "		ip daddr @reserved ip daddr != @opened accept\n"
		      "		fib daddr type != unicast accept\n"
		      "		meta nfproto . ip daddr @deny_v4 accept\n"
		      "		meta nfproto . ip daddr @allow_v4 accept\n"
		      "		tcp dport { 80, 443 } redirect to :%d\n	}\n", mark, mark, SIDECAR_RESOLVER_PORT, SIDECAR_RELAY_PORT);
	/* The way out is the one of before a redirect, so the address tells. */
	buf_addf(out, "	chain last {\n"
		      "		ip daddr 127.0.0.0/8 accept\n"
		      "		oifname \"lo\" accept\n"
		      "		ct state established accept\n"
		      "		meta mark 0x%08x accept\n"
		      "		meta l4proto { tcp, udp } th dport 53 drop\n"
		      "		meta nfproto @guarded tcp dport { 80, 443 } meta nfproto . ip daddr != @allow_v4 drop\n	}\n", mark);
	buf_addf(out, "	chain forward { drop; }\n");
	/* A flow that was ended here goes on at its other side, and what comes from there must not begin it anew: answers to it would
	 * pass. So connections begin with a SYN, and nobody but an open sandbox is sent datagrams that it has not asked for. */
	buf_addf(out, "	chain arrivals {\n"
		      "		iifname \"lo\" accept\n"
		      "		ct state new tcp flags & (fin|syn|rst|ack) != syn drop\n"
		      "		ct state new meta l4proto udp meta nfproto != @open drop\n	}\n");
}

void sidecar_table(const struct sidecar *s, uint32_t mark, struct buf *out)
{
	write_sets(s, out);
	buf_addf(out, "table inet " SIDECAR_TABLE " {\n");
	write_first(s, mark, out);
	write_classes(out);
	write_redirects(mark, out);
	buf_addf(out, "}\n");
}
