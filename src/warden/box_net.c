// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "access/resolvers.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/own.h"
#include "sys/conntrack.h"
#include "sys/nft.h"
#include "warden/box.h"
#include "warden/flows.h"
#include "warden/network.h"
#include "warden/warden.h"

#include "base/banned.h"

#define LEARNED_FIRST 16
#define LEARNED_FEW 16 /* each is looked for before it is removed */

/* Keys of the table's sets (box/network_table.c). */
struct net_key {
	uint32_t source, to;
};
struct learned_key {
	uint32_t source, to;
	uint16_t port, pad;
};

/* ---- its life ---- */

static int make(struct box *b, enum wire_network kind, struct err *e)
{
	b->net = calloc(1, sizeof(*b->net));
	if (!b->net)
		return err_no_memory(e);
	*b->net = (struct box_net){ .kind = kind, .policy = -1 };
	return 0;
}

int box_net_keep(struct box *b, enum wire_network kind, int policy, struct err *e)
{
	const struct network *n = &b->w->network;

	if (kind == WIRE_NET_NONE)
		return 0;
	if (!n->is_on && n->why.code != ERR_NONE)
		return err_sys(e, ENETDOWN, "sandboxes have no network here (%s)", n->why.msg);
	if (!n->is_on || n->is_refused)
		return err_sys(e, ENETDOWN, "networks are turned off here");
	if (kind == WIRE_NET_POLICY && n->listener < 0)
		return err_sys(e, ENETDOWN, "no policy can be enforced here");
	if (make(b, kind, e) < 0)
		return -1;
	if (policy < 0)
		return 0;
	b->net->policy = fcntl(policy, F_DUPFD_CLOEXEC, 3);
	return b->net->policy < 0 ? err_sys(e, errno, "keep the policy of the sandbox") : 0;
}

/* The box has a slot: from now on its address is known. */
static void box_net_place(struct box *b)
{
	b->net->address = box_network_address(&b->w->host.network, b->slot.number);
	b->w->network.boxes[b->slot.number] = b;
}

/* Egress is asked as soon as it is there; what the kernel has is found by network_take_up(). */
void box_net_adopt(struct box *b)
{
	struct err e = { 0 };

	if (b->file.network == WIRE_NET_NONE || !b->w->network.is_on || b->slot.pidfd < 0)
		return;
	if (make(b, b->file.network, &e) < 0) {
		log_error("a sandbox stays without rules, and with that closed", LOG_S("id", b->file.id), LOG_ERR(&e));
		return;
	}
	b->net->is_bound = true;
	box_net_place(b);
}

int box_net_bind(struct box *b, struct err *e)
{
	struct network *n = &b->w->network;
	struct egress_message open = { .allows = EGRESS_REST_ALLOWED };

	if (b->net->is_bound || b->net->serial > 0)
		return 0;
	box_net_place(b);
	if (n->listener < 0) {
		b->net->is_bound = true;
		return box_net_set_rules(b, &open, e);
	}
	b->net->serial = ++n->last_serial;
	KILL_POINT("warden.bind.asked");
	egress_bind(b->w, b);
	return 0;
}

bool box_net_is_pending(const struct box *b)
{
	return b->net && !b->net->is_bound;
}

/* A loop that was held up comes by here before it has read what egress has answered meanwhile. */
bool box_net_waits_on(struct box *b)
{
	if (b->file.stage != BOX_STARTING || !b->is_waking || !box_net_is_pending(b) || b->net->is_late || !b->w->network.egress)
		return false;
	b->net->is_late = true;
	timer_in(&b->timer, NETWORK_LATE_MS);
	return true;
}

/* ---- elements ---- */

static struct nft_element class_element(const uint32_t *address, const uint32_t *class)
{
	return (struct nft_element){ .key = address, .n_key = sizeof(*address), .value = class, .n_value = class ? sizeof(*class) : 0 };
}

static void change_rule(struct nft_batch *batch, const struct box_net *net, const struct egress_net *r, bool add)
{
	const uint32_t rest = r->prefix == 32 ? 0 : htonl(UINT32_MAX >> r->prefix);
	const struct net_key low = { net->address, r->address }, high = { net->address, r->address | rest };
	const struct nft_element el = { .key = &low, .n_key = sizeof(low), .end = &high };

	if (add)
		nft_add(batch, r->is_allowed ? "allowed" : "denied", &el);
	else
		nft_delete(batch, r->is_allowed ? "allowed" : "denied", &el);
}

static void add_learned(struct nft_batch *batch, const struct box_net *net, const struct learned *l, uint64_t ms)
{
	const struct learned_key key = { net->address, l->address, htons(l->port), 0 };

	nft_add(batch, "learned", &(struct nft_element){ .key = &key, .n_key = sizeof(key), .timeout_ms = ms });
}

/* Time may have run out a moment ago. */
static int delete_learned(struct nft_batch *batch, struct box *b, const struct learned *l, struct err *e)
{
	const struct learned_key key = { b->net->address, l->address, htons(l->port), 0 };

	return nft_delete_if(batch, &b->w->network.nft, "learned", &(struct nft_element){ .key = &key, .n_key = sizeof(key) }, e);
}

/* ---- rules ---- */

static int compare_nets(const void *a, const void *b)
{
	const struct egress_net *x = a, *y = b;
	uint32_t p = ntohl(x->address), q = ntohl(y->address);

	if (x->is_allowed != y->is_allowed)
		return x->is_allowed - y->is_allowed;
	if (p != q)
		return p < q ? -1 : 1;
	return x->prefix - y->prefix;
}

/* Sorted; of those in others of their kind nothing is left: the kernel's intervals must not overlap. */
static size_t tidy(struct egress_net *rules, size_t n)
{
	size_t kept = 0;

	if (n > 0)
		qsort(rules, n, sizeof(rules[0]), compare_nets);
	for (size_t i = 0; i < n; i++) {
		const struct egress_net *last = kept > 0 ? &rules[kept - 1] : NULL;

		if (!last || last->is_allowed != rules[i].is_allowed || !egress_net_has(last, rules[i].address))
			rules[kept++] = rules[i];
	}
	return kept;
}

void box_net_sort(struct box *b)
{
	b->net->n_rules = tidy(b->net->rules, b->net->n_rules);
}

/* What is in A alone, both of which are tidy. */
static void change_missing(struct nft_batch *batch, const struct box_net *net, const struct egress_net *a, size_t n_a,
			   const struct egress_net *b, size_t n_b, bool add)
{
	size_t k = 0;

	for (size_t i = 0; i < n_a; i++) {
		while (k < n_b && compare_nets(&b[k], &a[i]) < 0)
			k++;
		if (k == n_b || compare_nets(&b[k], &a[i]) != 0)
			change_rule(batch, net, &a[i], add);
	}
}

static enum network_class class_of(uint32_t rest, const struct egress_net *rules, size_t n)
{
	if (rest == EGRESS_REST_DENIED)
		return NETWORK_GUARDED;
	if (rest == EGRESS_REST_NOT_RESOLVERS)
		return NETWORK_LOOSE;
	for (size_t i = 0; i < n; i++)
		if (!rules[i].is_allowed)
			return NETWORK_LOOSE;
	return NETWORK_OPEN;
}

static bool is_learned(const struct box_net *net, uint32_t address, uint16_t port)
{
	for (size_t i = 0; i < net->n_learned; i++)
		if (net->learned[i].address == address && net->learned[i].port == port)
			return true;
	return false;
}

/* As the rules of the table say about the first packet of a flow. */
bool box_net_forbids(const struct box *b, const struct conntrack_flow *f)
{
	const struct box_net *net = b->net;
	bool is_allowed = net->class != NETWORK_GUARDED, has_rule = false;

	if (f->answers_from == b->w->host.network.gateway)
		return false; /* egress has the other end */
	if (f->protocol == IPPROTO_ICMP && net->class == NETWORK_GUARDED)
		return true;
	for (size_t i = 0; i < net->n_rules; i++) {
		if (!egress_net_has(&net->rules[i], f->to))
			continue;
		if (!net->rules[i].is_allowed)
			return true;
		is_allowed = has_rule = true;
	}
	if (is_allowed && !has_rule && net->class == NETWORK_LOOSE && f->port == 443 && resolver_is_address(f->to))
		return true;
	return !is_allowed && !(f->protocol == IPPROTO_TCP && is_learned(net, f->to, f->port));
}

static int commit_rules(struct box *b, enum network_class class, const struct egress_net *rules, size_t n, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch batch = NFT_BATCH_INIT(b->w->host.network.table);
	const struct box_net *net = b->net;
	const uint32_t mark = class;
	const struct nft_element old = class_element(&net->address, NULL), new = class_element(&net->address, &mark);

	change_missing(&batch, net, net->rules, net->n_rules, rules, n, false);
	change_missing(&batch, net, rules, n, net->rules, net->n_rules, true);
	if (net->class != class) {
		if (net->class != NETWORK_CLOSED)
			nft_delete(&batch, "classes", &old);
		nft_add(&batch, "classes", &new);
	}
	return nft_commit(&b->w->network.nft, &batch, e);
}

/* Nothing passes without the table, and what is kept here is put into the next one: nobody has to wait for that. */
static bool is_table_lost(struct warden *w, const struct err *why)
{
	struct err e = { 0 };

	if (why->sys != ENOENT || nft_count_rules(&w->network.nft, w->host.network.table, &e) >= 0 || e.sys != ENOENT)
		return false;
	log_warn("rules are kept until the table of the network is back");
	network_look_soon(w);
	return true;
}

int box_net_set_rules(struct box *b, const struct egress_message *m, struct err *e)
{
	AUTO(free) struct egress_net *rules = NULL;
	struct box_net *net = b->net;
	enum network_class class;
	bool had_rules = net->class != NETWORK_CLOSED;
	size_t n = m->n_rules;

	if (n > 0) {
		rules = malloc(n * sizeof(rules[0]));
		if (!rules)
			return err_no_memory(e);
		memcpy(rules, m->rules, n * sizeof(rules[0]));
		n = tidy(rules, n);
	}
	class = class_of(m->allows, rules, n);
	if (commit_rules(b, class, rules, n, e) < 0 && !is_table_lost(b->w, e))
		return err_wrap(e, "set the rules of sandbox '%s'", b->file.id);
	KILL_POINT("warden.rules.set");
	free(net->rules);
	net->rules = take_ptr(&rules);
	net->n_rules = n;
	net->class = class;
	if (!had_rules)
		return 0;
	return flows_end(b, NULL, m->serial, e) < 0 ? -1 : BOX_NET_LATER;
}

/* ---- learned addresses ---- */

static void drop_expired(struct box_net *net, uint64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < net->n_learned; i++)
		if (net->learned[i].until_ms > now)
			net->learned[kept++] = net->learned[i];
	net->n_learned = kept;
}

static int note_learned(struct box_net *net, const struct learned *l, struct err *e)
{
	struct learned *more;
	size_t cap = net->cap_learned ? net->cap_learned * 2 : LEARNED_FIRST;

	for (size_t i = 0; i < net->n_learned; i++)
		if (net->learned[i].address == l->address && net->learned[i].port == l->port) {
			net->learned[i].until_ms = l->until_ms;
			return 0;
		}
	if (net->n_learned == NETWORK_LEARNED_MAX)
		return err_set(e, ERR_LIMIT, "more than %d addresses are known to a sandbox", NETWORK_LEARNED_MAX);
	if (net->n_learned == net->cap_learned) {
		more = reallocarray(net->learned, cap, sizeof(*more));
		if (!more)
			return err_no_memory(e);
		net->learned = more;
		net->cap_learned = cap;
	}
	net->learned[net->n_learned++] = *l;
	return 0;
}

/* Time is given anew by a deletion and an addition in one step; when it runs out between two of our own, by the addition alone. */
static int extend(struct box *b, const struct learned *l, uint64_t ms, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch batch = NFT_BATCH_INIT(b->w->host.network.table);

	if (is_learned(b->net, l->address, l->port) && delete_learned(&batch, b, l, e) < 0)
		return -1;
	add_learned(&batch, b->net, l, ms);
	if (nft_commit(&b->w->network.nft, &batch, e) == 0)
		return 0;
	if (e->sys != ENOENT)
		return -1;
	add_learned(&batch, b->net, l, ms);
	return nft_commit(&b->w->network.nft, &batch, e);
}

int box_net_learn(struct box *b, const struct egress_message *m, struct err *e)
{
	const uint64_t now = loop_now_ms(b->w->loop), ms = (uint64_t)m->seconds * 1000;

	drop_expired(b->net, now);
	for (size_t i = 0; i < EGRESS_PORTS_MAX && m->ports[i]; i++) {
		const struct learned l = { .address = m->net.address, .port = m->ports[i], .until_ms = now + ms };

		if (extend(b, &l, ms, e) < 0 || note_learned(b->net, &l, e) < 0)
			return -1;
	}
	return 0;
}

static int forget_one(struct box *b, const struct learned *l, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch batch = NFT_BATCH_INIT(b->w->host.network.table);
	struct box_net *net = b->net;

	if (delete_learned(&batch, b, l, e) < 0 || (nft_commit(&b->w->network.nft, &batch, e) < 0 && e->sys != ENOENT))
		return -1;
	for (size_t i = 0; i < net->n_learned; i++)
		if (net->learned[i].address == l->address && net->learned[i].port == l->port) {
			net->learned[i] = net->learned[--net->n_learned];
			break;
		}
	return 0;
}

int box_net_forget(struct box *b, const struct egress_message *m, struct err *e)
{
	for (size_t i = 0; i < EGRESS_PORTS_MAX && m->ports[i]; i++)
		if (forget_one(b, &(struct learned){ .address = m->net.address, .port = m->ports[i] }, e) < 0)
			return -1;
	return 0;
}

void box_net_forget_all(struct box *b)
{
	while (b->net->n_learned > 0) {
		const struct learned l = b->net->learned[b->net->n_learned - 1];
		size_t before = b->net->n_learned;
		struct err e = { 0 };

		if (forget_one(b, &l, &e) < 0)
			log_error("an address is not forgotten", LOG_S("id", b->file.id), LOG_ERR(&e));
		if (b->net->n_learned == before)
			return; /* it goes when its time is over */
	}
}

/* ---- flows ---- */

int box_net_cut(struct box *b, const struct egress_message *m, struct err *e)
{
	return flows_end(b, &m->net, m->serial, e) < 0 ? -1 : BOX_NET_LATER;
}

/* ---- the end, and putting back ---- */

/* Its class, without which nothing passes. */
static int close_box(struct box *b, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch batch = NFT_BATCH_INIT(b->w->host.network.table);
	const struct nft_element class = class_element(&b->net->address, NULL);

	if (b->net->class == NETWORK_CLOSED)
		return 0;
	nft_delete(&batch, "classes", &class);
	return nft_commit(&b->w->network.nft, &batch, e) < 0 && e->sys != ENOENT ? -1 : 0;
}

static int remove_rest(struct box *b, struct err *e)
{
	AUTO(nft_batch_done) struct nft_batch batch = NFT_BATCH_INIT(b->w->host.network.table);
	const struct box_net *net = b->net;

	for (size_t i = 0; i < net->n_rules; i++)
		change_rule(&batch, net, &net->rules[i], false);
	for (size_t i = 0; i < net->n_learned; i++)
		if (delete_learned(&batch, b, &net->learned[i], e) < 0)
			return -1;
	return nft_commit(&b->w->network.nft, &batch, e);
}

/* Few elements go at once. What are many, or do not go, are left to the worker that removes the box: it tries again until
 * none is left, and nobody has the address before. */
static void remove_elements(struct box *b)
{
	struct err e = { 0 };

	if (close_box(b, &e) < 0) {
		log_error("cannot close the network of a sandbox yet, trying again", LOG_S("id", b->file.id), LOG_ERR(&e));
		b->has_elements = true;
	}
	if (b->net->n_learned > LEARNED_FEW || remove_rest(b, &e) < 0)
		b->has_elements = true;
}

uint64_t box_net_refused(const struct box *b)
{
	const struct nft_element el = { .key = &b->net->address, .n_key = sizeof(b->net->address) };
	struct err e = { 0 };
	uint64_t n = 0;

	if (b->w->network.is_on && nft_packets(&b->w->network.nft, b->w->host.network.table, "drops", &el, &n, &e) < 0)
		log_debug("the packets of a sandbox cannot be counted", LOG_ERR(&e));
	return n;
}

void box_net_free(struct box *b)
{
	if (!b->net)
		return;
	if (b->net->address)
		b->w->network.boxes[b->slot.number] = NULL;
	closep(&b->net->policy);
	free(b->net->rules);
	free(b->net->learned);
	free(take_ptr(&b->net));
}

void box_net_release(struct box *b)
{
	if (b->net && b->net->address && b->w->network.is_on) {
		remove_elements(b);
		KILL_POINT("warden.release.closed");
		egress_unbind(b->w, b);
	}
	box_net_free(b);
}

void box_net_put_back(struct box *b, struct nft_batch *batch)
{
	const struct box_net *net = b->net;
	const uint64_t now = loop_now_ms(b->w->loop);
	const uint32_t mark = net->class;
	const struct nft_element class = class_element(&net->address, &mark);

	if (net->class == NETWORK_CLOSED)
		return;
	for (size_t i = 0; i < net->n_rules; i++)
		change_rule(batch, net, &net->rules[i], true);
	for (size_t i = 0; i < net->n_learned; i++)
		if (net->learned[i].until_ms > now)
			add_learned(batch, net, &net->learned[i], net->learned[i].until_ms - now);
	nft_add(batch, "classes", &class);
}
