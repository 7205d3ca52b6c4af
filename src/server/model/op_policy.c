// SPDX-License-Identifier: Apache-2.0
/* Reading what a sandbox may reach by now. */
#include "access/policy.h"
#include "base/log.h"
#include "server/model/sandbox_impl.h"

#include "base/banned.h"

/* Nobody keeps one for what has ended long ago: then the record has the last that is known. */
bool policy_is_unknown(const struct box *b, const struct runtime_failure *failure, struct fault *f)
{
	if (!failure || failure->err.code == ERR_NOT_FOUND)
		return false;
	log_warn("a policy cannot be read", LOG_S("id", b->id), LOG_ERR(&failure->err));
	(void)fault_of_runtime(f, b->pub.set->spec.runtime, failure);
	return true;
}

bool policy_is_own(const struct box *b, struct str text)
{
	AUTO(policy_free) struct policy *p = NULL;

	if (b->pub.row.network == RUNTIME_NET_POLICY)
		return true;
	p = policy_parse(text, POLICY_RULES_MAX, &(struct err){ 0 });
	return !p || strcmp(policy_mode(p), "allow_all") != 0;
}

/* The record has it as well, from now on. Should the store not take it, egress has it still. */
static void keep_policy(struct box *b, struct str text)
{
	const struct sandbox_row *r = &b->pub.row;
	struct box_stack stack = { r->snapshot, r->base, RUNTIME_NET_POLICY, NULL };
	struct arena a = ARENA_INIT(BOX_ARENA_MAX);
	struct store_tx *tx;

	stack.policy = arena_dup(&a, text);
	if (stack.policy && (!r->policy || strcmp(r->policy, stack.policy) != 0) && box_set_stack(b, &stack, &(struct err){ 0 }) == 0) {
		tx = store_tx_new();
		store_tx_spec(tx, r);
		(void)store_submit(b->pub.set->spec.store, tx, NULL, NULL, &(struct err){ 0 });
		sandbox_record_changed(b);
	}
	arena_done(&a);
}

static void on_policy(struct str text, bool is_cut, const struct runtime_failure *failure, void *arg)
{
	struct op *op = arg;
	struct box *b = box_of_op(op);
	struct fault f;

	(void)is_cut;
	if (policy_is_unknown(b, failure, &f)) {
		op_finish(op, &f);
		return;
	}
	b->pub.policy_now = failure || !policy_is_own(b, text) ? (struct str){ 0 } : text;
	if (b->pub.policy_now.n > 0)
		keep_policy(b, text);
	op_succeed(op);
}

static void read_policy_ask(struct op *op)
{
	struct box *b = box_of_op(op);
	struct runtime *rt = box_runtime(b);

	b->pub.policy_now = (struct str){ 0 };
	if (b->pub.row.network != RUNTIME_NET_NONE && rt->ops->policy)
		rt->ops->policy(rt, b->id, on_policy, op);
	else
		op_succeed(op);
}

static const struct op_type read_policy_type = {
	.name = "read policy", .size = sizeof(struct op),
	.ask = read_policy_ask,
};

int sandbox_read_policy(struct sandbox *sb, sandbox_fn *fn, void *arg, struct fault *f)
{
	struct op_queue *q = &box_of(sb)->queue;
	struct op *op = op_admit(sb->set, q, &read_policy_type, fn, arg, f);

	if (!op)
		return -1;
	op_add(q, op);
	return 0;
}
