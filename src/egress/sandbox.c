// SPDX-License-Identifier: Apache-2.0
#include "egress/sandbox.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/own.h"
#include "egress/cache.h"
#include "egress/change.h"
#include "egress/egress.h"
#include "egress/flow.h"
#include "egress/resolver.h"
#include "egress/state.h"
#include "sys/fd.h"

#include "base/banned.h"

#define POLICY_BYTES_MAX (1024 * 1024) /* of the text that comes with a create */

/* ---- the table ---- */

struct sandbox *sandbox_by_id(const struct egress *g, struct str id)
{
	return map_get(&g->by_id, id);
}

struct sandbox *sandbox_by_address(const struct egress *g, uint32_t address)
{
	if (g->options.is_sidecar)
		address = EGRESS_ONLY; /* the sockets are bound to the loopback: nobody else can send to them */
	return map_get(&g->by_address, (struct str){ (const char *)&address, sizeof(address) });
}

static void sandbox_await(struct sandbox *s)
{
	if (!s->is_awaited && !s->policy) {
		s->is_awaited = true;
		s->egress->n_awaited++;
	}
}

void sandbox_settle(struct sandbox *s)
{
	if (!s->is_awaited)
		return;
	s->is_awaited = false;
	s->egress->n_awaited--;
	egress_listen(s->egress);
}

/* Everything of it ends; its file stays. */
static void sandbox_remove(struct sandbox *s)
{
	struct egress *g = s->egress;

	(void)map_del(&g->by_id, str_of(s->id));
	(void)map_del(&g->by_address, (struct str){ (const char *)&s->address, sizeof(s->address) });
	resolver_drop(s);
	flows_drop(s);
	changes_drop(s);
	cache_drop(g->cache, s->address);
	learned_done(&s->learned);
	activity_done(&s->activity);
	policy_free(s->policy);
	sandbox_settle(s);
	free(s);
}

static struct sandbox *sandbox_new(struct egress *g, const char *id, uint32_t address, struct err *e)
{
	struct sandbox *s;

	if (g->by_id.n >= SANDBOXES_MAX) {
		(void)err_set(e, ERR_LIMIT, "more than %d sandboxes", SANDBOXES_MAX);
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		(void)err_no_memory(e);
		return NULL;
	}
	s->egress = g;
	s->address = address;
	s->tokens = QUERIES_BURST;
	s->tokens_ms = loop_now_ms(g->loop);
	memcpy(s->id, id, strlen(id)); /* the message was checked: it ends */
	if (map_put(&g->by_id, str_of(s->id), s) &&
	    map_put(&g->by_address, (struct str){ (const char *)&s->address, sizeof(s->address) }, s))
		return s;
	sandbox_remove(s);
	(void)err_no_memory(e);
	return NULL;
}

void sandboxes_drop(struct egress *g)
{
	struct sandbox *s;
	struct str key;

	for (size_t i = 0; (s = map_next(&g->by_id, &i, &key)); i = 0)
		sandbox_remove(s);
	map_done(&g->by_id);
	map_done(&g->by_address);
}

/* ---- what the warden tells ---- */

static struct policy *policy_of_fd(const struct egress *g, int fd, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(POLICY_BYTES_MAX);

	if (lseek(fd, 0, SEEK_SET) < 0) {
		(void)err_sys(e, errno, "read the policy");
		return NULL;
	}
	return fd_read_all(fd, POLICY_BYTES_MAX, &b, e) < 0 ? NULL : policy_parse(buf_str(&b), g->options.max_rules, e);
}

/* The one that it had before we came. Of a sandbox that has one, what cannot be read denies everything. */
static struct policy *policy_of_file(const struct egress *g, const struct egress_message *m, struct err *e)
{
	bool is_there = false;
	struct policy *p = state_load(&g->options.state, m->id, &is_there, e);

	if (p)
		return p;
	if (!is_there && m->network == WIRE_NET_OPEN)
		return policy_allow_all(e);
	log_warn("the policy of a sandbox is lost, everything is denied", LOG_S("sandbox_id", m->id), LOG_ERR(e));
	return policy_parse(STR(""), 0, e);
}

/* The one that was kept, or FD's. Only what cannot be read at all ends it. */
static struct policy *policy_of_sidecar(const struct egress *g, const struct egress_message *m, int fd, struct err *e)
{
	bool is_there = false;
	struct policy *p = state_load(&g->options.state, m->id, &is_there, e);

	if (p || (is_there && e->sys != 0))
		return p;
	if (is_there)
		log_warn("the policy that was kept is none, the one of the start counts", LOG_ERR(e));
	return policy_of_fd(g, fd, e);
}

static struct sandbox *find_or_make(struct egress *g, const struct egress_message *m, struct err *e)
{
	struct sandbox *s = sandbox_by_id(g, str_of(m->id));
	struct sandbox *other = sandbox_by_address(g, m->address);

	if (s && s->address != m->address) {
		sandbox_remove(s);
		s = NULL;
	}
	if (other && other != s && sandbox_by_address(g, m->address) == other)
		sandbox_remove(other);
	return s ? s : sandbox_new(g, m->id, m->address, e);
}

/* The warden lets nothing through that it was told of before it was connected: it is told again with the rules. */
static void forget_kernel(struct sandbox *s)
{
	struct learned_pair *p;
	struct str key;

	for (size_t i = 0; (p = map_next(&s->learned.pairs, &i, &key));)
		p->kernel_ms = 0, p->n_ports = 0;
}

static int bind_sandbox(struct egress *g, const struct egress_message *m, int fd, struct err *e)
{
	struct sandbox *s = find_or_make(g, m, e);
	struct change_spec spec = { .bind_serial = m->serial, .is_new = fd >= 0 && !g->options.is_sidecar };

	if (!s)
		return -1;
	s->is_told = true;
	forget_kernel(s);
	if (fd >= 0)
		spec.policy = g->options.is_sidecar ? policy_of_sidecar(g, m, fd, e) : policy_of_fd(g, fd, e);
	else if (!s->policy && !s->changes)
		spec.policy = policy_of_file(g, m, e);
	if (!spec.policy && (fd >= 0 || (!s->policy && !s->changes)))
		return -1;
	sandbox_await(s);
	if (change_add(s, &spec, e) == 0)
		return 0;
	sandbox_settle(s);
	return -1;
}

void sandbox_bind(struct egress *g, const struct egress_message *m, int *fd)
{
	struct egress_message *out = &g->out;
	struct err e = { 0 };

	if (bind_sandbox(g, m, fd ? *fd : -1, &e) == 0)
		return;
	log_error("cannot bind a sandbox", LOG_S("sandbox_id", m->id), LOG_ERR(&e));
	memset(out, 0, offsetof(struct egress_message, rules));
	out->call = EGRESS_BOUND;
	out->serial = m->serial;
	out->address = m->address;
	out->failed = 1;
	out->err = e;
	memcpy(out->id, m->id, sizeof(out->id));
	(void)link_tell(g->link, out, &(struct err){ 0 }); /* a warden that is gone asks again */
}

void sandbox_unbind(struct egress *g, const char *id)
{
	struct sandbox *s = sandbox_by_id(g, str_of(id));

	if (s)
		sandbox_remove(s);
	state_remove(&g->options.state, id);
}

void sandboxes_begin(struct egress *g)
{
	struct sandbox *s;
	struct str key;

	for (size_t i = 0; (s = map_next(&g->by_id, &i, &key));)
		s->is_told = false;
}

static bool is_known(const char *id, void *arg)
{
	return sandbox_by_id(arg, str_of(id)) != NULL;
}

static struct sandbox *find_untold(const struct egress *g)
{
	struct sandbox *s;
	struct str key;

	for (size_t i = 0; (s = map_next(&g->by_id, &i, &key));)
		if (!s->is_told)
			return s;
	return NULL;
}

void sandboxes_synced(struct egress *g)
{
	struct sandbox *s;

	while ((s = find_untold(g)))
		sandbox_remove(s);
	g->is_synced = true;
	state_sweep(&g->options.state, is_known, g);
	log_info("the warden has announced all sandboxes", LOG_U("sandboxes", g->by_id.n));
}

/* ---- policies ---- */

void sandboxes_again(struct egress *g)
{
	struct sandbox *s;
	struct str key;
	struct err e;

	for (size_t i = 0; (s = map_next(&g->by_id, &i, &key));)
		if (s->policy && change_add(s, &(struct change_spec){ 0 }, &e) < 0)
			log_error("the operator's lists are not in force for a sandbox", LOG_S("sandbox_id", s->id), LOG_ERR(&e));
}

bool sandbox_is_guarded(const struct sandbox *s)
{
	return !s->policy || s->policy->fallback == POLICY_DENY;
}

size_t sandbox_kernel_ports(const struct sandbox *s, const char *name, uint16_t out[POLICY_PORTS_MAX])
{
	size_t n = operator_rules_ports(&s->egress->operator_rules, s->policy, name, out), kept = 0;

	for (size_t i = 0; i < n; i++)
		if (out[i] != 80 && out[i] != 443)
			out[kept++] = out[i];
	return kept;
}

bool sandbox_may_reach(const struct sandbox *s, const char *name, uint32_t address, uint16_t port, const char **ret_why)
{
	const struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { address } };
	const struct operator_rules *a = &s->egress->operator_rules;
	const struct learned_pair *p = learned_find(&s->learned, name, address);
	const struct policy_rule *r;
	uint16_t ports[POLICY_PORTS_MAX];
	size_t n;

	if (!s->policy)
		return *ret_why = "no policy is in force", false;
	if (!egress_is_public(s->egress, address))
		return *ret_why = "a private address", false;
	r = operator_rules_address(a, s->policy, (const struct sockaddr *)&in);
	if (r && r->action == POLICY_DENY)
		return *ret_why = "a denied address", false;
	if (!operator_rules_allow_name(a, s->policy, name))
		return *ret_why = "a denied name", false;
	if (!p || (p->until_ms <= loop_now_ms(s->egress->loop) && p->flows == 0))
		return *ret_why = "the name was not resolved to this address", false;
	n = operator_rules_ports(a, s->policy, name, ports);
	for (size_t i = 0; i < n; i++)
		if (ports[i] == port)
			return true;
	if (!sandbox_is_guarded(s))
		return true;
	return *ret_why = "a port that the name is not allowed with", false;
}

/* ---- accounts ---- */

bool sandbox_take_token(struct sandbox *s)
{
	uint64_t now = loop_now_ms(s->egress->loop);

	s->tokens += (double)(now - s->tokens_ms) * QUERIES_PER_S / 1000;
	s->tokens_ms = now;
	if (s->tokens > QUERIES_BURST)
		s->tokens = QUERIES_BURST;
	if (s->tokens < 1)
		return false;
	s->tokens -= 1;
	return true;
}

/* A sandbox that tries a new name each time would fill the log otherwise. */
static bool may_log(struct sandbox *s)
{
	uint64_t now = loop_now_ms(s->egress->loop);

	if (now - s->lines_ms >= 60000) {
		s->lines_ms = now;
		s->lines = 0;
	}
	if (s->lines < LINES_PER_MIN) {
		s->lines++;
		return true;
	}
	s->unlogged++;
	return false;
}

void sandbox_log(struct sandbox *s, const struct activity_event *ev)
{
	const struct policy *skip = s->egress->operator_rules.log_skip.rules;
	char text[INET_ADDRSTRLEN] = "";

	if (!activity_add(&s->activity, ev))
		return;
	if (!ev->is_allowed)
		denials_add(&s->egress->denials, s->id, ev);
	if (!log_enabled(LOG_LEVEL_INFO))
		return;
	if (ev->is_allowed && ev->target[0] && policy_match_name(skip, ev->target))
		return;
	if (ev->address)
		(void)inet_ntop(AF_INET, &ev->address, text, sizeof(text));
	if (!may_log(s))
		return;
	log_info(ev->is_allowed ? "egress allowed" : "egress denied",
		 LOG_S("opensandbox.event", ev->is_allowed ? "egress.outbound" : "egress.denied"), LOG_S("sandbox_id", s->id),
		 LOG_S("target.host", ev->target), LOG_S("target.ips", text), LOG_U("target.port", ev->port), LOG_S("reason", ev->why),
		 LOG_U("unlogged", s->unlogged));
	s->unlogged = 0;
}
