// SPDX-License-Identifier: Apache-2.0
#include "egress/question.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "egress/cache.h"
#include "egress/egress.h"
#include "egress/resolver.h"
#include "egress/sandbox.h"
#include "egress/upstream.h"
#include "egress/webhook.h"
#include "net/dns.h"

#include "base/banned.h"

#define META_TYPES 128 /* from here to ANY they ask for something else than records */

struct question {
	struct question *prev, *next; /* of the sandbox */
	struct sandbox *sandbox;
	struct asker who;
	struct dns_query query; /* its view of the question is of `text` */
	char text[HOST_NAME_LEN_MAX + 8];
	struct lookup *lookup;
	unsigned learning; /* asked of the warden, and not answered */
	bool has_failed;
	struct buf reply;
};

/* ---- life ---- */

static void question_free(struct question *q)
{
	struct sandbox *s = q->sandbox;

	*(q->prev ? &q->prev->next : &s->questions) = q->next;
	if (q->next)
		q->next->prev = q->prev;
	s->n_questions--;
	upstream_cancel(q->lookup);
	if (q->learning > 0)
		link_forget(s->egress->link, q);
	buf_done(&q->reply);
	free(q);
}

void questions_drop(struct sandbox *s)
{
	while (s->questions)
		question_free(s->questions);
}

void question_drop_who(struct sandbox *s, const void *who)
{
	struct question *next;

	for (struct question *q = s->questions; q; q = next) {
		next = q->next;
		if (q->who.who == who)
			question_free(q);
	}
}

static struct question *question_new(struct sandbox *s, const struct dns_query *query, const struct asker *who)
{
	struct question *q = s->n_questions < QUESTIONS_MAX ? calloc(1, sizeof(*q)) : NULL;

	if (!q)
		return NULL;
	q->sandbox = s;
	q->who = *who;
	q->query = *query;
	memcpy(q->text, query->question.p, MIN(query->question.n, sizeof(q->text)));
	q->query.question.p = q->text;
	q->reply = BUF_INIT(DNS_MESSAGE_MAX);
	q->next = s->questions;
	if (q->next)
		q->next->prev = q;
	s->questions = q;
	s->n_questions++;
	return q;
}

/* ---- answers ---- */

static size_t room_of(const struct dns_query *query, bool is_tcp)
{
	return is_tcp ? DNS_MESSAGE_MAX : query->udp_max;
}

/* Without records, to who has not waited yet. */
static void answer_at_once(const struct dns_query *query, unsigned rcode, const struct asker *who)
{
	AUTO(buf_done) struct buf b = BUF_INIT(DNS_MESSAGE_MAX);

	dns_reply_write(query, rcode, NULL, 0, room_of(query, who->is_tcp), &b);
	who->answer(b.failed ? (struct str){ 0 } : buf_str(&b), who->who);
}

/* With what is in q->reply, or that it failed. */
static void question_end(struct question *q)
{
	struct asker who = q->who;
	struct buf reply = q->reply;

	q->reply = BUF_INIT(DNS_MESSAGE_MAX);
	if (q->has_failed || reply.n == 0) {
		q->sandbox->counts.failed++;
		q->sandbox->egress->counts.failed++;
		buf_clear(&reply);
		dns_reply_write(&q->query, DNS_SERVFAIL, NULL, 0, room_of(&q->query, who.is_tcp), &reply);
	}
	question_free(q);
	who.answer(reply.failed ? (struct str){ 0 } : buf_str(&reply), who.who);
	buf_done(&reply);
}

static void deny(struct sandbox *s, const char *name, const char *why)
{
	s->counts.denied++;
	s->egress->counts.denied++;
	sandbox_log(s, &(struct activity_event){ .kind = ACTIVITY_DNS, .target = name, .why = why });
	if (s->egress->webhook && name[0])
		webhook_denied(s->egress->webhook, s->id, name);
}

/* ---- what an answer lets a sandbox reach ---- */

static void unlearn(struct question *q)
{
	struct learned_pair *p;
	struct str key;

	for (size_t i = 0; (p = map_next(&q->sandbox->learned.pairs, &i, &key));)
		if (strcmp(p->name, q->query.name) == 0)
			p->kernel_ms = 0, p->n_ports = 0;
}

static void on_learned(const struct err *e, void *arg)
{
	struct question *q = arg;

	if (e) {
		log_warn("an address is not let through", LOG_S("sandbox_id", q->sandbox->id), LOG_ERR(e));
		unlearn(q);
		q->has_failed = true;
	}
	if (--q->learning == 0)
		question_end(q);
}

/* What lasts long enough for who keeps the answer for TTL seconds needs no more. */
static bool is_let_through(const struct learned_pair *p, const uint16_t *ports, size_t n, uint64_t now, uint32_t ttl)
{
	return p->kernel_ms >= now + ((uint64_t)ttl + LEARNED_SLACK_S / 2) * 1000 && n == p->n_ports &&
	       memcmp(p->ports, ports, n * sizeof(*ports)) == 0;
}

static int let_through(struct question *q, struct learned_pair *p, uint32_t ttl, struct err *e)
{
	struct sandbox *s = q->sandbox;
	struct egress_message *m = &s->egress->out;
	uint64_t now = loop_now_ms(s->egress->loop);
	uint16_t ports[POLICY_PORTS_MAX];
	size_t n = sandbox_kernel_ports(s, p->name, ports);

	if (n == 0 || is_let_through(p, ports, n, now, ttl))
		return 0;
	memset(m, 0, offsetof(struct egress_message, rules));
	m->call = EGRESS_LEARN;
	m->address = s->address;
	m->net = (struct egress_net){ .address = p->address, .prefix = 32 };
	m->seconds = (uint32_t)((p->until_ms - now + 999) / 1000);
	memcpy(m->ports, ports, n * sizeof(*ports));
	if (link_ask(s->egress->link, m, on_learned, q, e) < 0)
		return -1;
	q->learning++;
	p->kernel_ms = p->until_ms;
	p->n_ports = n;
	memcpy(p->ports, ports, n * sizeof(*ports));
	s->egress->counts.learned++;
	return 0;
}

/* False: the address is not for this sandbox. */
static bool learn(struct question *q, uint32_t address, uint32_t ttl)
{
	const struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { address } };
	struct sandbox *s = q->sandbox;
	const struct policy_rule *r = operator_rules_address(&s->egress->operator_rules, s->policy,
							     (const struct sockaddr *)&in);
	uint64_t now = loop_now_ms(s->egress->loop), until = now + (uint64_t)learned_seconds(ttl) * 1000;
	struct learned_pair *p;
	struct err e = { 0 };

	if (!egress_is_public(s->egress, address) || (r && r->action == POLICY_DENY))
		return false;
	p = learned_put(&s->learned, q->query.name, address, now, &e);
	if (p && p->until_ms < until)
		p->until_ms = until;
	if (!p || (sandbox_is_guarded(s) && !r && let_through(q, p, ttl, &e) < 0)) {
		log_warn("an address is not let through", LOG_S("sandbox_id", s->id), LOG_ERR(&e));
		q->has_failed = true;
	}
	return true;
}

/* ---- from an upstream's answer to ours ---- */

static bool is_not_denied(const char *name, void *arg)
{
	const struct question *q = arg;

	return strcmp(name, q->query.name) == 0 ||
		!operator_rules_deny_name(&q->sandbox->egress->operator_rules, q->sandbox->policy, name);
}

static uint32_t ttl_of(const struct dns_record *r, uint32_t age_s)
{
	return MIN(r->ttl > age_s ? r->ttl - age_s : 0, (uint32_t)TTL_MAX);
}

/* The aliases on the way to LAST, in order. */
static size_t copy_chain(const struct dns_answer *a, const char *from, const char *last, uint32_t age_s, struct dns_record *out)
{
	size_t n = 0;

	while (strcmp(from, last) != 0 && n < DNS_CHAIN_MAX) {
		const struct dns_record *r = NULL;

		for (size_t i = 0; i < a->n && !r; i++)
			if (a->records[i].type == DNS_CNAME && strcmp(a->records[i].owner, from) == 0)
				r = &a->records[i];
		if (!r)
			break;
		out[n] = *r;
		out[n++].ttl = ttl_of(r, age_s);
		from = r->target;
	}
	return n;
}

/* What of A goes to the sandbox. *ret_address is the first one. */
static size_t choose(struct question *q, const struct dns_answer *a, const char *last, uint32_t age_s, struct dns_record *out,
		     uint32_t *ret_address)
{
	size_t n = copy_chain(a, q->query.name, last, age_s, out);

	for (size_t i = 0; i < a->n && n < DNS_RECORDS_MAX; i++) {
		const struct dns_record *r = &a->records[i];
		uint32_t address = 0;

		if (r->type != q->query.type || r->type == DNS_CNAME || strcmp(r->owner, last) != 0)
			continue;
		if (r->type == DNS_A) {
			memcpy(&address, r->rdata.p, 4);
			if (!learn(q, address, ttl_of(r, age_s)))
				continue;
			if (*ret_address == 0)
				*ret_address = address;
		}
		out[n] = *r;
		out[n++].ttl = ttl_of(r, age_s);
	}
	return n;
}

/* Q may be gone afterwards. */
static void conclude(struct question *q, const struct dns_answer *a, uint32_t age_s)
{
	struct dns_record out[DNS_RECORDS_MAX + DNS_CHAIN_MAX];
	struct sandbox *s = q->sandbox;
	const char *last = dns_chain(a, q->query.name, is_not_denied, q);
	unsigned rcode = a->rcode;
	uint32_t address = 0;
	size_t n = 0;

	/* The policy may be another one by now. */
	if (!operator_rules_allow_name(&s->egress->operator_rules, s->policy, q->query.name) || !last) {
		deny(s, q->query.name, last ? "a denied name" : "an alias of a denied name");
		rcode = DNS_NXDOMAIN;
	} else {
		q->learning = 1; /* until all has been asked */
		n = choose(q, a, last, age_s, out, &address);
		q->learning--;
		s->counts.allowed++;
		sandbox_log(s, &(struct activity_event){ .kind = ACTIVITY_DNS, .is_allowed = true, .target = q->query.name,
							 .address = address });
	}
	dns_reply_write(&q->query, rcode, out, n, room_of(&q->query, q->who.is_tcp), &q->reply);
	if (q->learning == 0)
		question_end(q);
}

static void on_looked_up(const struct dns_answer *answer, const struct err *e, void *arg)
{
	struct question *q = arg;
	struct sandbox *s = q->sandbox;

	q->lookup = NULL;
	if (!answer) {
		log_debug("a name is not resolved", LOG_S("sandbox_id", s->id), LOG_S("name", q->query.name), LOG_ERR(e));
		question_end(q);
		return;
	}
	cache_put(s->egress->cache, s->address, q->query.name, q->query.type, answer, loop_now_ms(s->egress->loop));
	conclude(q, answer, 0);
}

static void conclude_cached(struct question *q, const struct cached *c)
{
	struct dns_answer a = { .rcode = c->rcode };

	a.n = MIN(c->n, (size_t)DNS_RECORDS_MAX);
	memcpy(a.records, c->records, a.n * sizeof(a.records[0]));
	conclude(q, &a, c->age_s);
}

/* ---- the decision ---- */

/* Whether nothing is there that a sandbox could use, whatever the upstream would say. */
static bool is_empty_type(const struct sandbox *s, uint16_t type)
{
	if (type == DNS_A)
		return false;
	if (type == DNS_AAAA || type == DNS_HTTPS || type == DNS_SVCB || type == DNS_NULL || type == DNS_ANY || type == DNS_OPT)
		return true;
	return sandbox_is_guarded(s) || (type >= META_TYPES && type < DNS_ANY) || type == 0;
}

/* -1: it goes to an upstream; else the code to answer with at once. */
static int decide(struct sandbox *s, const struct dns_query *query)
{
	if (!s->policy)
		return DNS_SERVFAIL; /* nothing was decided: no client may keep this as a denial, and nobody is told of one */
	if (!query->has_name || !operator_rules_allow_name(&s->egress->operator_rules, s->policy,
							   query->name)) {
		deny(s, query->has_name ? query->name : "", query->has_name ? "a denied name" : "no name that a host can have");
		return DNS_NXDOMAIN;
	}
	return is_empty_type(s, query->type) ? DNS_NOERROR : -1;
}

void question_ask(struct sandbox *s, struct str bytes, const struct asker *who)
{
	struct egress *g = s->egress;
	struct dns_query query;
	struct cached cached;
	struct err e = { 0 };
	struct question *q;
	int rcode;

	s->counts.queries++;
	g->counts.queries++;
	if (!sandbox_take_token(s)) {
		s->counts.throttled++;
		g->counts.throttled++;
		who->answer((struct str){ 0 }, who->who);
		return;
	}
	rcode = dns_query_parse(bytes, &query);
	if (rcode < 0) {
		who->answer((struct str){ 0 }, who->who);
		return;
	}
	if (rcode == DNS_NOERROR)
		rcode = decide(s, &query);
	q = rcode < 0 ? question_new(s, &query, who) : NULL;
	if (!q) {
		answer_at_once(&query, rcode < 0 ? DNS_SERVFAIL : (unsigned)rcode, who);
		return;
	}
	if (cache_get(g->cache, s->address, query.name, query.type, loop_now_ms(g->loop), &cached)) {
		conclude_cached(q, &cached);
		return;
	}
	q->lookup = lookup_start(g->upstream, query.name, query.type, on_looked_up, q, &e);
	if (!q->lookup)
		question_end(q);
}
