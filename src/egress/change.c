// SPDX-License-Identifier: Apache-2.0
#include "egress/change.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "egress/egress.h"
#include "egress/flow.h"
#include "egress/sandbox.h"
#include "egress/state.h"

#include "base/banned.h"

#define CUTS_MAX 16 /* addresses whose flows are ended one by one; of more, all flows are, and those that are allowed begin anew */

struct change {
	struct change *next;
	struct sandbox *sandbox;
	struct change_spec spec;
	unsigned asked; /* of the warden, and not answered */
	bool is_written; /* beside the file of the one in force */
	bool has_failed;
	struct err err;
	uint32_t cuts[CUTS_MAX];
	size_t n_cuts; /* may be more than there is room for */
};

static void change_begin(struct change *c);

/* ---- the end ---- */

/* Nothing that who asked has said is wrong, whatever the reason is called where it arose. */
static int not_in_force(struct err *e, const char *what)
{
	if (e->code != ERR_UNAVAILABLE && e->code != ERR_TIMEOUT)
		e->code = ERR_IO;
	return err_wrap(e, "failed to %s policy", what);
}

static void tell_bound(const struct change *c, const struct err *e)
{
	struct egress *g = c->sandbox->egress;
	struct egress_message *m = &g->out;

	memset(m, 0, offsetof(struct egress_message, rules));
	m->call = EGRESS_BOUND;
	m->serial = c->spec.bind_serial;
	m->address = c->sandbox->address;
	memcpy(m->id, c->sandbox->id, sizeof(m->id));
	if (e) {
		m->failed = 1;
		m->err = *e;
	}
	(void)link_tell(g->link, m, &(struct err){ 0 }); /* a warden that is gone asks again */
}

/* Takes C from the list, which it is the first of, and begins with the next. */
static void change_end(struct change *c, const struct err *e)
{
	struct sandbox *s = c->sandbox;
	struct change_spec spec = c->spec;
	struct err why = e ? *e : (struct err){ 0 };

	if (c->is_written)
		state_forget(&s->egress->options.state, s->id);
	if (spec.bind_serial)
		tell_bound(c, e);
	s->changes = c->next;
	s->n_changes--;
	policy_free(spec.policy);
	free(c);
	if (spec.bind_serial)
		sandbox_settle(s);
	if (s->changes)
		change_begin(s->changes);
	if (spec.done)
		spec.done(e ? &why : NULL, spec.arg);
}

/* The new policy is in force, and something that it forbids could not be forgotten or ended. With a new connection to the warden
 * nothing is left that was learned, and the rules, which are told anew, end flows. */
static void begin_anew(struct egress *g, struct err *e)
{
	(void)not_in_force(e, "apply nftables");
	(void)err_wrap(e, "the new policy holds, but what it forbids may go on for a moment");
	link_renew(g->link, e);
}

/* In force. */
static void change_finish(struct change *c)
{
	struct sandbox *s = c->sandbox;
	struct err e = { 0 };

	if (c->is_written && state_replace(&s->egress->options.state, s->id, &e) < 0) {
		(void)not_in_force(&e, "persist");
		change_end(c, &e);
		return;
	}
	c->is_written = false;
	if (!c->has_failed) {
		change_end(c, NULL);
		return;
	}
	e = c->err;
	if (c->spec.bind_serial) /* that was the beginning, and has nothing to take back */
		(void)not_in_force(&e, "apply nftables");
	else
		begin_anew(s->egress, &e);
	change_end(c, &e);
}

static void on_part(const struct err *e, void *arg)
{
	struct change *c = arg;

	if (e) {
		c->has_failed = true;
		c->err = *e;
	}
	if (--c->asked == 0)
		change_finish(c);
}

/* ---- what is forgotten, let through and cut ---- */

static struct egress_message *message(struct change *c, enum egress_call call, uint32_t address, uint8_t prefix)
{
	struct egress_message *m = &c->sandbox->egress->out;

	memset(m, 0, offsetof(struct egress_message, rules));
	m->call = call;
	m->address = c->sandbox->address;
	m->net = (struct egress_net){ .address = address, .prefix = prefix };
	return m;
}

static void ask(struct change *c, struct egress_message *m)
{
	struct err e = { 0 };

	if (link_ask(c->sandbox->egress->link, m, on_part, c, &e) == 0) {
		c->asked++;
		return;
	}
	c->has_failed = true;
	c->err = e;
}

static bool has_port(const uint16_t *ports, size_t n, uint16_t port)
{
	for (size_t i = 0; i < n; i++)
		if (ports[i] == port)
			return true;
	return false;
}

/* The ports of P that it no longer has. */
static void forget_ports(struct change *c, struct learned_pair *p, const uint16_t *want, size_t n)
{
	struct egress_message *m = message(c, EGRESS_FORGET, p->address, 32);
	size_t k = 0, kept = 0;

	for (size_t i = 0; i < p->n_ports; i++) {
		if (has_port(want, n, p->ports[i]))
			p->ports[kept++] = p->ports[i];
		else if (!learned_shares(&c->sandbox->learned, p, p->ports[i]) && k < EGRESS_PORTS_MAX)
			m->ports[k++] = p->ports[i];
	}
	p->n_ports = kept;
	if (k == 0)
		return;
	ask(c, m);
	if (c->n_cuts < CUTS_MAX)
		c->cuts[c->n_cuts] = p->address;
	c->n_cuts++;
	c->sandbox->egress->counts.forgotten++;
}

static void learn_ports(struct change *c, struct learned_pair *p, const uint16_t *want, size_t n)
{
	struct egress_message *m = message(c, EGRESS_LEARN, p->address, 32);
	uint64_t now = loop_now_ms(c->sandbox->egress->loop);
	size_t k = 0;

	if (p->until_ms <= now)
		return;
	for (size_t i = 0; i < n && k < EGRESS_PORTS_MAX; i++)
		if (!has_port(p->ports, p->n_ports, want[i]))
			m->ports[k++] = want[i];
	if (k == 0)
		return;
	m->seconds = (uint32_t)((p->until_ms - now) / 1000) + 1;
	memcpy(p->ports, want, n * sizeof(*want));
	p->n_ports = n;
	p->kernel_ms = p->until_ms;
	ask(c, m);
}

/* What was resolved before the change, by the rules after it. */
static void review_pair(struct change *c, struct learned_pair *p)
{
	const struct sandbox *s = c->sandbox;
	const struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { p->address } };
	const struct operator_rules *a = &s->egress->operator_rules;
	const struct policy_rule *r = operator_rules_address(a, s->policy, (const struct sockaddr *)&in);
	bool is_allowed = operator_rules_allow_name(a, s->policy, p->name) &&
		!(r && r->action == POLICY_DENY);
	uint16_t want[POLICY_PORTS_MAX];
	size_t n = 0;

	if (is_allowed && sandbox_is_guarded(s))
		n = sandbox_kernel_ports(s, p->name, want);
	if (sandbox_is_guarded(s) || !is_allowed)
		forget_ports(c, p, want, n);
	if (n > 0)
		learn_ports(c, p, want, n);
	if (!is_allowed)
		p->until_ms = 0;
}

/* Flows that no rule about networks allows any more the warden has ended with the rules. */
static void review(struct change *c)
{
	struct learned_pair *p;
	struct str key;

	for (size_t i = 0; (p = map_next(&c->sandbox->learned.pairs, &i, &key));)
		review_pair(c, p);
	flows_review(c->sandbox);
	if (c->n_cuts > CUTS_MAX)
		ask(c, message(c, EGRESS_CUT, 0, 0));
	for (size_t i = 0; i < c->n_cuts && c->n_cuts <= CUTS_MAX; i++)
		ask(c, message(c, EGRESS_CUT, c->cuts[i], 32));
}

/* ---- the networks of a policy ---- */

static int by_place(const void *a, const void *b)
{
	const struct egress_net *x = a, *y = b;
	uint32_t ax = ntohl(x->address), ay = ntohl(y->address);

	if (x->is_allowed != y->is_allowed)
		return x->is_allowed - y->is_allowed;
	if (ax != ay)
		return ax < ay ? -1 : 1;
	return x->prefix - y->prefix;
}

static bool is_within(const struct egress_net *in, const struct egress_net *of)
{
	uint32_t mask = of->prefix == 0 ? 0 : ~UINT32_C(0) << (32 - of->prefix);

	return in->is_allowed == of->is_allowed && in->prefix >= of->prefix && ((ntohl(in->address) ^ ntohl(of->address)) & mask) == 0;
}

static size_t add_networks(struct egress_net *out, size_t n, const struct policy *p)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct policy_rule *r = &p->rules[i];

		if (r->kind != POLICY_NET || r->family != AF_INET || r->is_reserved)
			continue;
		out[n] = (struct egress_net){ .prefix = r->prefix, .is_allowed = r->action == POLICY_ALLOW };
		memcpy(&out[n++].address, r->bytes, 4);
	}
	return n;
}

/* Without those that are in others: sets of intervals have no place for them. */
static int collect_networks(const struct operator_rules *a, const struct policy *p, struct egress_message *m,
			    struct err *e)
{
	AUTO(free) struct egress_net *all = calloc(a->deny.rules->n + a->allow.rules->n + p->n + 1, sizeof(*all));
	size_t n = 0, kept = 0;

	if (!all)
		return err_no_memory(e);
	n = add_networks(all, n, a->deny.rules);
	n = add_networks(all, n, a->allow.rules);
	n = add_networks(all, n, p);
	qsort(all, n, sizeof(*all), by_place);
	for (size_t i = 0; i < n; i++) {
		if (kept > 0 && is_within(&all[i], &m->rules[kept - 1]))
			continue;
		if (kept == EGRESS_RULES_MAX)
			return err_set(e, ERR_LIMIT, "more than %d networks, with those of the operator's lists", EGRESS_RULES_MAX);
		m->rules[kept++] = all[i];
	}
	m->n_rules = (uint32_t)kept;
	return 0;
}

/* ---- the beginning ---- */

static void on_rules(const struct err *e, void *arg)
{
	struct change *c = arg;
	struct sandbox *s = c->sandbox;
	struct err why;

	if (e) {
		why = *e;
		(void)not_in_force(&why, "apply nftables");
		change_end(c, &why);
		return;
	}
	s->egress->counts.rules++;
	if (c->spec.policy) {
		policy_free(s->policy);
		s->policy = take_ptr(&c->spec.policy);
	}
	c->asked = 1; /* until all has been said */
	review(c);
	on_part(NULL, c);
}

/* 1: the warden was asked; 0: there is nothing to do; -1. */
static int change_run(struct change *c, struct err *e)
{
	struct sandbox *s = c->sandbox;
	struct egress_message *m;
	const struct policy *p;
	int k = 1;

	if (c->spec.make)
		k = c->spec.make(s->policy, &c->spec.policy, c->spec.arg, e);
	if (k <= 0)
		return k;
	if (c->spec.policy)
		egress_mark_open(s->egress, c->spec.policy);
	p = c->spec.policy ? c->spec.policy : s->policy;
	if (!p)
		return err_set(e, ERR_CONFLICT, "no policy was in force");
	m = message(c, EGRESS_RULES, 0, 0);
	if (p->fallback == POLICY_ALLOW)
		m->allows = operator_rules_default_is_allow(&s->egress->operator_rules, p) ?
			EGRESS_REST_NOT_RESOLVERS : EGRESS_REST_ALLOWED;
	if (collect_networks(&s->egress->operator_rules, p, m, e) < 0)
		return -1;
	if (c->spec.is_new && state_write(&s->egress->options.state, s->id, p, e) < 0)
		return not_in_force(e, "persist");
	c->is_written = c->spec.is_new;
	return link_ask(s->egress->link, m, on_rules, c, e) < 0 ? not_in_force(e, "apply nftables") : 1;
}

static void change_begin(struct change *c)
{
	struct err e = { 0 };
	int k = change_run(c, &e);

	if (k <= 0)
		change_end(c, k < 0 ? &e : NULL);
}

int change_add(struct sandbox *s, const struct change_spec *spec, struct err *e)
{
	struct change *c = s->n_changes < CHANGES_MAX ? calloc(1, sizeof(*c)) : NULL;
	struct change **at = &s->changes;

	if (!c) {
		policy_free(spec->policy);
		return s->n_changes < CHANGES_MAX ? err_no_memory(e) : err_set(e, ERR_CONFLICT, "too many changes at once");
	}
	c->sandbox = s;
	c->spec = *spec;
	while (*at)
		at = &(*at)->next;
	*at = c;
	if (s->n_changes++ == 0)
		change_begin(c);
	return 0;
}

void changes_drop(struct sandbox *s)
{
	const struct err gone = { .code = ERR_NOT_FOUND, .msg = "the sandbox is gone" };

	while (s->changes) {
		struct change *c = s->changes;

		link_forget(s->egress->link, c);
		s->changes = c->next;
		if (c->spec.done)
			c->spec.done(&gone, c->spec.arg);
		policy_free(c->spec.policy);
		free(c);
	}
	s->n_changes = 0;
}
