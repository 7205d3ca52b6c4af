// SPDX-License-Identifier: Apache-2.0
/* What a sandbox may reach, and the credentials that are put into its requests. */
#include "base/err.h"
#include "client/create_body.h"
#include "client/model.h"
#include "client/op.h"
#include "client/sandbox.h"
#include "net/http/url.h"

#include "base/banned.h"

#define PATH_ARENA_MAX ((size_t)64 * 1024)

static const struct model_field rule_fields[] = {
	MODEL(struct osb_rule, action, MODEL_STRING, "action", .required = true),
	MODEL(struct osb_rule, target, MODEL_STRING, "target", .required = true),
};
static const struct model rule_model = MODEL_OF(struct osb_rule, rule_fields);

static const struct model_field policy_fields[] = {
	MODEL(struct osb_policy, default_action, MODEL_STRING, "defaultAction"),
	MODEL(struct osb_policy, egress, MODEL_OBJECTS, "egress", .n = offsetof(struct osb_policy, n_egress), .model = &rule_model),
};
static const struct model policy_model = MODEL_OF(struct osb_policy, policy_fields);

static const struct model_field policy_status_fields[] = {
	MODEL(struct osb_policy_status, status, MODEL_STRING, "status"),
	MODEL(struct osb_policy_status, mode, MODEL_STRING, "mode"),
	MODEL(struct osb_policy_status, enforcement_mode, MODEL_STRING, "enforcementMode"),
	MODEL(struct osb_policy_status, reason, MODEL_STRING, "reason"),
	MODEL(struct osb_policy_status, policy, MODEL_OBJECT, "policy", .model = &policy_model),
};
static const struct model policy_status_model = MODEL_OF(struct osb_policy_status, policy_status_fields);

static void put_rules(struct json_out *o, const struct osb_rule *rules, size_t n)
{
	json_open(o, '[');
	for (size_t i = 0; i < n; i++)
		body_rule(o, &rules[i]);
	json_close(o, ']');
}

static int ask_policy(struct op *op, const char *method)
{
	op_send(op, &(struct ask){ .to = &op->sandbox->egress, .method = method, .path = "/policy", .model = &policy_status_model });
	return op_run(op);
}

int osb_egress_get(struct osb_sandbox *s, struct osb_policy_status **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "get policy", ret);

	return op ? ask_policy(op, "GET") : -1;
}

int osb_egress_put(struct osb_sandbox *s, const struct osb_policy *policy, struct osb_policy_status **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "set policy", ret);

	if (!op)
		return -1;
	if (!op_need(op, policy, "the policy is missing"))
		return op_run(op);
	body_policy(op_body(op), NULL, policy);
	return ask_policy(op, "PUT");
}

int osb_egress_patch(struct osb_sandbox *s, const struct osb_rule *rules, size_t n, struct osb_policy_status **ret,
		     struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "patch policy", ret);

	if (!op)
		return -1;
	put_rules(op_body(op), rules, n);
	return ask_policy(op, "PATCH");
}

int osb_egress_delete(struct osb_sandbox *s, const struct osb_strings *targets, struct osb_policy_status **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "delete rules", ret);
	struct json_out *o;

	if (!op)
		return -1;
	o = op_body(op);
	json_open(o, '[');
	for (size_t i = 0; targets && i < targets->n; i++)
		json_cstr(o, targets->items[i] ? targets->items[i] : "");
	json_close(o, ']');
	return ask_policy(op, "DELETE");
}

/* ---- the vault ---- */

/* "", or segments that lead nowhere else. */
static bool is_below(struct str path)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(PATH_ARENA_MAX);
	struct url_segments it = url_segments(path);
	struct str raw, text;

	if (path.n > 0 && path.p[0] != '/')
		return false;
	while (url_segment_next(&it, &raw))
		if (url_segment_decode(raw, &a, &text, &(struct err){ 0 }) < 0)
			return false;
	return !it.trailing_slash;
}

static void on_vault(struct op *op, const struct op_answer *a)
{
	op_answered(op, a, a->body.n > 0 ? &json_model : NULL);
}

int osb_vault(struct osb_sandbox *s, const char *method, const char *path, const char *body, struct osb_bytes **ret, struct osb_call *call)
{
	struct op *op = op_begin_in(s, call, "credential vault", ret);

	if (!op)
		return -1;
	if (!op_need(op, method && http_is_token(str_of(method)), "the method is none") || !op_need(op, is_below(str_of(path)), "the path is none"))
		return op_run(op);
	op_send(op, &(struct ask){ .to = &s->egress, .method = method, .path = op_text(op, "/credential-vault%s", path ? path : ""),
				   .bytes = str_of(body), .on_answer = on_vault });
	return op_run(op);
}
