// SPDX-License-Identifier: Apache-2.0
/* What a create says about the network. */
#include "access/policy.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_out.h"
#include "server/api/create.h"
#include "server/model/capability.h"
#include "server/model/snapshot.h"

#include "base/banned.h"

#define INVALID(f, ...) fault_set((f), 400, "SANDBOX", "INVALID_PARAMETER", __VA_ARGS__)

static void write_policy(const struct create_policy *p, struct buf *b)
{
	const struct create_rule *rules = p->egress.items;
	struct json_out o = json_out(b);

	json_open(&o, '{');
	if (p->default_action)
		json_key(&o, "defaultAction"), json_cstr(&o, p->default_action);
	json_key(&o, "egress"), json_open(&o, '[');
	for (size_t i = 0; i < p->egress.n; i++) {
		json_open(&o, '{');
		json_key(&o, "action"), json_cstr(&o, rules[i].action);
		json_key(&o, "target"), json_cstr(&o, rules[i].target);
		json_close(&o, '}');
	}
	json_close(&o, ']');
	json_close(&o, '}');
}

/* Read by the code that will keep it, so that nothing is taken here that is refused there. */
static int check_policy(const struct create_request *rq, const struct create_rules *rules, struct arena *a,
			struct sandbox_order *o, struct fault *f)
{
	size_t max = rules->max_rules > 0 ? rules->max_rules : POLICY_RULES_MAX;
	AUTO(buf_done) struct buf asked = BUF_INIT(2 * RUNTIME_POLICY_MAX);
	AUTO(buf_done) struct buf text = BUF_INIT(RUNTIME_POLICY_MAX);
	AUTO(policy_free) struct policy *p = NULL;
	struct err e = { 0 };

	if (rq->policy.egress.n > max)
		return INVALID(f, "networkPolicy.egress: more than %zu rules", max);
	write_policy(&rq->policy, &asked);
	p = asked.failed ? NULL : policy_parse((struct str){ asked.p, asked.n }, max, &e);
	if (!p && e.code == ERR_INVALID)
		return INVALID(f, "networkPolicy.%s", e.msg);
	if (p)
		policy_write(p, &text);
	o->policy = p && !text.failed ? arena_strndup(a, text.p, text.n) : NULL;
	o->network = RUNTIME_NET_POLICY;
	return o->policy ? 0 : fault_set(f, 503, NULL, "UNAVAILABLE", "out of memory");
}

static const char *asked_mode(const struct create_request *rq)
{
	for (size_t i = 0; i < rq->extensions.n; i++)
		if (strcmp(rq->extensions.items[i].key, CREATE_NETWORK_KEY) == 0)
			return rq->extensions.items[i].value;
	return NULL;
}

/* From a snapshot: what its source was kept from reaching. One that could reach everything is as every new one. */
static void inherit(const struct create_rules *rules, struct sandbox_order *o)
{
	const struct snapshot *sn = o->snapshot && rules->snapshots ? snapshots_find(rules->snapshots, str_of(o->snapshot)) : NULL;

	if (!sn || !sn->row.knows_network || sn->row.network == RUNTIME_NET_OPEN)
		return;
	o->network = sn->row.network;
	o->policy = sn->row.policy;
}

/* What it is where no policy is asked for. */
static int check_mode(const char *mode, const struct create_rules *rules, struct sandbox_order *o, struct fault *f)
{
	if (!mode && rules->source) {
		o->inherits = true;
		o->network = rules->source->network;
		o->policy = rules->source->policy;
		return 0;
	}
	o->network = runtime_has_network(rules->runtime, rules->network) ? rules->network : RUNTIME_NET_NONE;
	if (!mode) {
		inherit(rules, o);
		return 0;
	}
	if (strcmp(mode, "none") != 0 && strcmp(mode, "default") != 0)
		return INVALID(f, "extensions." CREATE_NETWORK_KEY ": must be 'default' or 'none'");
	o->network = strcmp(mode, "none") == 0 ? RUNTIME_NET_NONE : RUNTIME_NET_OPEN;
	return 0;
}

int create_check_network(const struct create_request *rq, const struct create_rules *rules, struct arena *a,
			 struct sandbox_order *o, struct fault *f)
{
	const char *mode = asked_mode(rq);

	if (check_mode(mode, rules, o, f) < 0)
		return -1;
	if (rq->has_network_policy && mode && o->network == RUNTIME_NET_NONE)
		return INVALID(f, "networkPolicy: cannot be used with extensions." CREATE_NETWORK_KEY " 'none'");
	if (rq->has_network_policy && check_policy(rq, rules, a, o, f) < 0)
		return -1;
	o->inherits = o->inherits && !rq->has_network_policy;
	if (runtime_has_network(rules->runtime, o->network))
		return 0;
	return capability_missing(rules->runtime, CAPABILITY_NETWORK, rq->has_network_policy ? "networkPolicy" :
				  mode ? "extensions." CREATE_NETWORK_KEY : "the source's network", f);
}
