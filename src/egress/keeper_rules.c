// SPDX-License-Identifier: Apache-2.0
#include "egress/keeper_rules.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>

#include "access/resolvers.h"
#include "base/err.h"
#include "base/own.h"
#include "net/reserved.h"
#include "sys/conntrack.h"
#include "sys/nft.h"

#include "base/banned.h"

/* Keys of the table's sets: `allow_v4` and `deny_v4`, which have the family before the address because only keys of several parts
 * can be intervals through sys/nft.h; and `dyn_allow_v4`. */
struct net_key {
	uint8_t family, pad[3];
	uint32_t to;
};
struct learned_key {
	uint32_t to;
	uint16_t port, pad;
};

static const char *const classes[] = { "guarded", "loose", "open" };

/* ---- elements ---- */

static void add_net(struct nft_batch *batch, const struct egress_net *net)
{
	const uint32_t rest = net->prefix == 32 ? 0 : htonl(UINT32_MAX >> net->prefix);
	const struct net_key low = { .family = NFPROTO_IPV4, .to = net->address };
	const struct net_key high = { .family = NFPROTO_IPV4, .to = net->address | rest };

	nft_add(batch, net->is_allowed ? "allow_v4" : "deny_v4", &(struct nft_element){ .key = &low, .n_key = sizeof(low), .end = &high });
}

static const char *class_of(const struct egress_message *m)
{
	if (m->allows == EGRESS_REST_DENIED)
		return "guarded";
	if (m->allows == EGRESS_REST_NOT_RESOLVERS)
		return "loose";
	for (size_t i = 0; i < m->n_rules; i++)
		if (!m->rules[i].is_allowed)
			return "loose";
	return "open";
}

static int set_rules(struct keeper_rules *r, const struct egress_message *m, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch batch = NFT_BATCH_INIT(r->table);
	const uint8_t family = NFPROTO_IPV4;

	nft_flush(&batch, "allow_v4");
	nft_flush(&batch, "deny_v4");
	for (size_t i = 0; i < ARRAY_LEN(classes); i++)
		nft_flush(&batch, classes[i]);
	nft_add(&batch, class_of(m), &(struct nft_element){ .key = &family, .n_key = sizeof(family) });
	for (size_t i = 0; i < m->n_rules; i++)
		add_net(&batch, &m->rules[i]);
	if (nft_commit(&r->nft, &batch, e) < 0)
		return err_wrap(e, "set the rules");
	r->is_known = true;
	r->allows = m->allows != EGRESS_REST_DENIED;
	r->is_loose = m->allows == EGRESS_REST_NOT_RESOLVERS;
	r->n_rules = m->n_rules;
	memcpy(r->rules, m->rules, m->n_rules * sizeof(r->rules[0]));
	return keeper_rules_end_flows(r, e);
}

/* One that is there lasts from now on: only one that is new has a new time. */
static int change_learned(struct keeper_rules *r, const struct egress_message *m, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch batch = NFT_BATCH_INIT(r->table);

	for (size_t i = 0; i < EGRESS_PORTS_MAX && m->ports[i]; i++) {
		const struct learned_key key = { .to = m->net.address, .port = htons(m->ports[i]) };
		const struct nft_element el = { .key = &key, .n_key = sizeof(key), .timeout_ms = (uint64_t)m->seconds * 1000 };

		if (nft_delete_if(&batch, &r->nft, "dyn_allow_v4", &(struct nft_element){ .key = &key, .n_key = sizeof(key) }, e) < 0)
			return -1;
		if (m->call == EGRESS_LEARN)
			nft_add(&batch, "dyn_allow_v4", &el);
	}
	return nft_commit(&r->nft, &batch, e);
}

int keeper_rules_forget(struct keeper_rules *r, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch batch = NFT_BATCH_INIT(r->table);

	nft_flush(&batch, "dyn_allow_v4");
	return nft_commit(&r->nft, &batch, e);
}

/* ---- flows ---- */

struct review {
	struct keeper_rules *rules;
	struct own_addresses own;
	const struct egress_net *net; /* CUT: those to it; NULL: those that the rules forbid */
};

static bool is_own(const struct review *v, uint32_t address)
{
	const struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { address } };

	return ntohl(address) >> 24 == 127 || own_addresses_have(&v->own, (const struct sockaddr *)&in);
}

static bool is_learned(struct keeper_rules *r, const struct conntrack_flow *f)
{
	const struct learned_key key = { .to = f->to, .port = htons(f->port) };

	return f->protocol == IPPROTO_TCP && nft_has(&r->nft, r->table, "dyn_allow_v4", &(struct nft_element){ .key = &key, .n_key = sizeof(key) },
						     &(struct err){ 0 }) == 1; /* what cannot be looked up is not there */
}

/* As the table says about the first packet of a flow, of which those to the resolver and the relay are egress's to end. */
static bool is_forbidden(const struct conntrack_flow *f, void *arg)
{
	const struct review *v = arg;
	struct keeper_rules *r = v->rules;
	bool is_allowed = r->allows, has_rule = false;

	if (!is_own(v, f->source) || f->mark == r->mark || is_own(v, f->to) || (is_own(v, f->answers_from) && r->is_known))
		return false;
	if (v->net)
		return egress_net_has(v->net, f->to);
	if (!r->is_known || (f->protocol == IPPROTO_ICMP && !r->allows))
		return true;
	for (size_t i = 0; i < r->n_rules; i++) {
		if (!egress_net_has(&r->rules[i], f->to))
			continue;
		if (!r->rules[i].is_allowed)
			return true;
		is_allowed = has_rule = true;
	}
	if (is_allowed && !has_rule && r->is_loose && f->port == 443 && resolver_is_address(f->to))
		return true;
	return !is_allowed && !is_learned(r, f);
}

static int end_flows(struct keeper_rules *r, const struct egress_net *net, struct err *e)
{
	struct review v = { .rules = r, .own = OWN_ADDRESSES_INIT, .net = net };
	int k = own_addresses_read(&v.own, e);

	if (k == 0)
		k = conntrack_end(&r->flows, 0, is_forbidden, &v, NULL, e);
	own_addresses_done(&v.own);
	return k;
}

int keeper_rules_end_flows(struct keeper_rules *r, struct err *e)
{
	return end_flows(r, NULL, e);
}

/* ---- life ---- */

int keeper_rules_apply(struct keeper_rules *r, const struct egress_message *m, struct err *e)
{
	switch ((enum egress_call)m->call) {
	case EGRESS_RULES: return set_rules(r, m, e);
	case EGRESS_LEARN:
	case EGRESS_FORGET: return change_learned(r, m, e);
	case EGRESS_CUT: return end_flows(r, &m->net, e);
	case EGRESS_HELLO:
	case EGRESS_BIND:
	case EGRESS_SYNCED:
	case EGRESS_UNBIND:
	case EGRESS_DONE:
	case EGRESS_BOUND: break; /* not from egress, or done */
	}
	return err_set(e, ERR_INVALID, "no such call");
}

int keeper_rules_open(struct keeper_rules *r, const char *table, uint32_t mark, struct err *e)
{
	r->table = table;
	r->mark = mark;
	return nft_open(&r->nft, -1, e) < 0 ? -1 : netlink_open(&r->flows, NETLINK_NETFILTER, -1, e);
}

void keeper_rules_done(struct keeper_rules *r)
{
	netlink_done(&r->nft);
	netlink_done(&r->flows);
}
