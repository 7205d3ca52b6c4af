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

/* Keys of the table's sets (box/network_table.c). */
struct net_key {
	uint32_t source, to;
};
struct learned_key {
	uint32_t source, to;
	uint16_t port, pad;
};

/* ---- its life ---- */

static void build_close(struct change *c, struct change_plan *p);
static void on_closed(struct change *c, const struct err *failure);

static int make(struct box *b, enum wire_network kind, struct err *e)
{
	b->net = calloc(1, sizeof(*b->net));
	if (!b->net)
		return err_no_memory(e);
	*b->net = (struct box_net){ .w = b->w, .box = b, .kind = kind, .policy = -1,
				    .close = { .build = build_close, .done = on_closed, .arg = b->net } };
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
	b->net->number = b->slot.number;
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

	if (b->net->is_bound || b->net->is_opening || b->net->serial > 0)
		return 0;
	box_net_place(b);
	if (n->listener < 0) {
		b->net->is_opening = true;
		return box_net_set_rules(b, &open, e) < 0 ? -1 : 0;
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

static void delete_learned(struct nft_batch *batch, const struct box_net *net, const struct learned *l)
{
	const struct learned_key key = { net->address, l->address, htons(l->port), 0 };

	nft_delete(batch, "learned", &(struct nft_element){ .key = &key, .n_key = sizeof(key) });
}

/* ---- changes ---- */

/* What somebody asks for. A box that is gone by then has none of it: its own last change comes after this one. */
struct net_change {
	struct change change;
	struct box_net *net;
	const char *what;
	uint64_t serial, egress; /* to answer, and which one of those that there were */
	enum network_class class;
	struct egress_net *rules;
	size_t n_rules;
	struct learned learned[EGRESS_PORTS_MAX];
	size_t n_learned;
};

typedef void build_fn(struct change *c, struct change_plan *p);
typedef void done_fn(struct change *c, const struct err *failure);

static struct net_change *change_new(struct box *b, const char *what, uint64_t serial, build_fn *build, done_fn *done, struct err *e)
{
	struct net_change *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)err_no_memory(e);
		return NULL;
	}
	*c = (struct net_change){ .change = { .build = build, .done = done, .arg = c }, .net = b->net, .what = what, .serial = serial,
				  .egress = b->w->network.n_egress };
	return c;
}

static bool is_egress_there(const struct net_change *c)
{
	return c->egress == c->net->w->network.n_egress;
}

static void tell_failure(const struct net_change *c, const struct err *failure)
{
	if (c->net->box)
		log_warn(c->what, LOG_S("id", c->net->box->file.id), LOG_ERR(failure));
}

/* Told, and egress may go on. */
static void change_end(struct net_change *c, const struct err *failure)
{
	struct warden *w = c->net->w;

	if (!w->network.changer.is_over) {
		if (failure)
			tell_failure(c, failure);
		if (c->serial > 0 && is_egress_there(c))
			egress_answer(w, c->serial, failure);
		egress_go_on(w, c->egress);
	}
	free(c->rules);
	free(c);
}

/* Whether there is somebody to change something for. */
static bool is_possible(const struct net_change *c, const struct err **failure, struct err *gone)
{
	if (!*failure && !c->net->box) {
		(void)err_set(gone, ERR_NOT_FOUND, "no sandbox has this address");
		*failure = gone;
	}
	return !*failure && !c->net->w->network.changer.is_over;
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

static void build_rules(struct change *change, struct change_plan *p)
{
	const struct net_change *c = change->arg;
	const struct box_net *net = c->net;
	const uint32_t mark = c->class;
	const struct nft_element old = class_element(&net->address, NULL), new = class_element(&net->address, &mark);

	if (!net->box)
		return;
	change_missing(&p->batch, net, net->rules, net->n_rules, c->rules, c->n_rules, false);
	change_missing(&p->batch, net, c->rules, c->n_rules, net->rules, net->n_rules, true);
	if (net->class == c->class)
		return;
	if (net->class != NETWORK_CLOSED)
		nft_delete(&p->batch, "classes", &old);
	nft_add(&p->batch, "classes", &new);
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

static void take_rules(struct net_change *c)
{
	struct box_net *net = c->net;

	free(net->rules);
	net->rules = take_ptr(&c->rules);
	net->n_rules = c->n_rules;
	net->class = c->class;
}

/* Without egress, it is all that the box waits for. */
static void opened(struct box_net *net, const struct err *failure)
{
	struct box *b = net->box;

	if (!net->is_opening || !b)
		return;
	net->is_opening = false;
	net->is_bound = !failure;
	if (b->file.stage == BOX_STARTING)
		box_bound(b, failure);
}

/* The change is told when the flows that it forbids have ended, too. */
static int end_flows(struct net_change *c, struct err *e)
{
	if (flows_end(c->net->box, NULL, is_egress_there(c) ? c->serial : 0, e) < 0)
		return -1;
	c->serial = 0;
	return 0;
}

static void on_rules(struct change *change, const struct err *failure)
{
	struct net_change *c = change->arg;
	struct box_net *net = c->net;
	bool had_rules = net->class != NETWORK_CLOSED;
	struct err e = { 0 };

	if (failure && net->box && !net->w->network.changer.is_over && is_table_lost(net->w, failure))
		failure = NULL;
	if (is_possible(c, &failure, &e)) {
		KILL_POINT("warden.rules.set");
		take_rules(c);
		if (had_rules && end_flows(c, &e) < 0)
			failure = &e;
	}
	if (!net->w->network.changer.is_over)
		opened(net, failure);
	change_end(c, failure);
}

int box_net_set_rules(struct box *b, const struct egress_message *m, struct err *e)
{
	struct net_change *c = change_new(b, "cannot set the rules of a sandbox", m->serial, build_rules, on_rules, e);

	if (!c)
		return -1;
	if (m->n_rules > 0) {
		c->rules = malloc(m->n_rules * sizeof(c->rules[0]));
		if (!c->rules) {
			free(c);
			return err_no_memory(e);
		}
		memcpy(c->rules, m->rules, m->n_rules * sizeof(c->rules[0]));
		c->n_rules = tidy(c->rules, m->n_rules);
	}
	c->class = class_of(m->allows, c->rules, c->n_rules);
	changer_ask(&b->w->network.changer, &c->change);
	return BOX_NET_CHANGES;
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

/* Of what egress says of one address. */
static struct net_change *learned_change(struct box *b, const struct egress_message *m, const char *what, build_fn *build, done_fn *done,
					 struct err *e)
{
	struct net_change *c = change_new(b, what, m->serial, build, done, e);
	const uint64_t until = loop_now_ms(b->w->loop) + (uint64_t)m->seconds * 1000;

	for (size_t i = 0; c && i < EGRESS_PORTS_MAX && m->ports[i]; i++)
		c->learned[c->n_learned++] = (struct learned){ .address = m->net.address, .port = m->ports[i], .until_ms = until };
	return c;
}

/* Time is given anew by a deletion and an addition in one step. */
static void build_learn(struct change *change, struct change_plan *p)
{
	const struct net_change *c = change->arg;
	const uint64_t now = loop_now_ms(c->net->w->loop);

	for (size_t i = 0; c->net->box && i < c->n_learned; i++) {
		const struct learned *l = &c->learned[i];

		if (is_learned(c->net, l->address, l->port))
			delete_learned(&p->batch, c->net, l);
		if (l->until_ms > now)
			add_learned(&p->batch, c->net, l, l->until_ms - now);
	}
}

static void on_learned(struct change *change, const struct err *failure)
{
	struct net_change *c = change->arg;
	struct err e = { 0 };

	for (size_t i = 0; is_possible(c, &failure, &e) && i < c->n_learned; i++)
		if (note_learned(c->net, &c->learned[i], &e) < 0)
			failure = &e;
	change_end(c, failure);
}

int box_net_learn(struct box *b, const struct egress_message *m, struct err *e)
{
	struct net_change *c = learned_change(b, m, "cannot let a sandbox reach an address", build_learn, on_learned, e);
	size_t more = 0;

	if (!c)
		return -1;
	drop_expired(b->net, loop_now_ms(b->w->loop));
	for (size_t i = 0; i < c->n_learned; i++)
		more += !is_learned(b->net, c->learned[i].address, c->learned[i].port);
	if (b->net->n_learned + more > NETWORK_LEARNED_MAX) {
		free(c);
		return err_set(e, ERR_LIMIT, "more than %d addresses are known to a sandbox", NETWORK_LEARNED_MAX);
	}
	changer_ask(&b->w->network.changer, &c->change);
	return BOX_NET_CHANGES;
}

static void build_forget(struct change *change, struct change_plan *p)
{
	const struct net_change *c = change->arg;

	for (size_t i = 0; c->net->box && i < c->n_learned; i++)
		delete_learned(&p->batch, c->net, &c->learned[i]);
}

static void drop_learned(struct box_net *net, const struct learned *l)
{
	for (size_t i = 0; i < net->n_learned; i++)
		if (net->learned[i].address == l->address && net->learned[i].port == l->port) {
			net->learned[i] = net->learned[--net->n_learned];
			return;
		}
}

static void on_forgotten(struct change *change, const struct err *failure)
{
	struct net_change *c = change->arg;
	struct err e = { 0 };

	for (size_t i = 0; is_possible(c, &failure, &e) && i < c->n_learned; i++)
		drop_learned(c->net, &c->learned[i]);
	change_end(c, failure);
}

int box_net_forget(struct box *b, const struct egress_message *m, struct err *e)
{
	struct net_change *c = learned_change(b, m, "cannot take an address from a sandbox", build_forget, on_forgotten, e);

	if (!c)
		return -1;
	changer_ask(&b->w->network.changer, &c->change);
	return BOX_NET_CHANGES;
}

static void build_forget_all(struct change *change, struct change_plan *p)
{
	const struct net_change *c = change->arg;

	for (size_t i = 0; c->net->box && i < c->net->n_learned; i++)
		delete_learned(&p->batch, c->net, &c->net->learned[i]);
}

/* Should it fail, they go when their time is over. */
static void on_all_forgotten(struct change *change, const struct err *failure)
{
	struct net_change *c = change->arg;
	struct err e = { 0 };

	if (is_possible(c, &failure, &e))
		c->net->n_learned = 0;
	c->egress = 0; /* nobody waits for it */
	change_end(c, failure);
}

void box_net_forget_all(struct box *b)
{
	struct err e = { 0 };
	struct net_change *c;

	if (b->net->n_learned == 0)
		return;
	c = change_new(b, "addresses are not forgotten", 0, build_forget_all, on_all_forgotten, &e);
	if (c)
		changer_ask(&b->w->network.changer, &c->change);
	else
		log_error("addresses are not forgotten", LOG_S("id", b->file.id), LOG_ERR(&e));
}

/* ---- flows ---- */

int box_net_cut(struct box *b, const struct egress_message *m, struct err *e)
{
	return flows_end(b, &m->net, m->serial, e) < 0 ? -1 : BOX_NET_LATER;
}

/* ---- the end, and putting back ---- */

static void net_free(struct box_net *net)
{
	closep(&net->policy);
	free(net->rules);
	free(net->learned);
	free(net);
}

static void build_close(struct change *change, struct change_plan *p)
{
	const struct box_net *net = change->arg;
	const struct nft_element class = class_element(&net->address, NULL);

	if (net->class != NETWORK_CLOSED)
		nft_delete(&p->batch, "classes", &class);
	for (size_t i = 0; i < net->n_rules; i++)
		change_rule(&p->batch, net, &net->rules[i], false);
	for (size_t i = 0; i < net->n_learned; i++)
		delete_learned(&p->batch, net, &net->learned[i]);
}

/* What does not go is looked for when the number leaves: nobody has it before. */
static void on_closed(struct change *change, const struct err *failure)
{
	struct box_net *net = change->arg;
	struct warden *w = net->w;

	if (!w->network.changer.is_over) {
		if (failure)
			log_error("cannot close the network of a sandbox yet, trying again", LOG_U("number", net->number), LOG_ERR(failure));
		KILL_POINT("warden.release.closed");
		w->network.has_rest[net->number] |= failure != NULL;
		w->network.is_closing[net->number] = 0;
		network_leave_on(w);
	}
	net_free(net);
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
	net_free(take_ptr(&b->net));
}

/* Its elements go after all changes that were asked for: they may be of those. */
void box_net_release(struct box *b)
{
	struct network *n = &b->w->network;
	struct box_net *net = b->net;

	if (!net || !net->address || !n->is_on || n->changer.is_over) {
		box_net_free(b);
		return;
	}
	egress_unbind(b->w, b);
	n->boxes[net->number] = NULL;
	n->is_closing[net->number] = 1;
	net->box = NULL;
	b->net = NULL;
	changer_ask(&n->changer, &net->close);
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
