// SPDX-License-Identifier: Apache-2.0
/* What a sandbox may reach, and what is wrong with one. */
#include "base/err.h"
#include "base/json_out.h"
#include "client/opensandbox.h"
#include "mcp/call.h"
#include "mcp/engine.h"
#include "mcp/handles.h"
#include "mcp/map_args.h"

#include "base/banned.h"

enum step egress_get_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_egress_get(c->handle->sandbox, &c->result.policy, c->op);
	return mcp_call_then(c, NULL);
}

int egress_get_finish(struct call *c, struct json_out *o, struct err *e)
{
	const struct osb_policy *p = &c->result.policy->policy;

	(void)e;
	json_open(o, '{');
	json_key(o, "default_action"), json_cstr(o, p->default_action ? p->default_action : "deny");
	json_key(o, "egress"), json_open(o, '[');
	for (size_t i = 0; i < p->n_egress; i++) {
		json_open(o, '{');
		json_key(o, "action"), json_cstr(o, p->egress[i].action);
		json_key(o, "target"), json_cstr(o, p->egress[i].target);
		json_close(o, '}');
	}
	json_close(o, ']');
	json_close(o, '}');
	return 0;
}

static enum step patched(struct call *c, struct err *e)
{
	return egress_get_begin(c, e); /* what is in force now */
}

enum step egress_patch_begin(struct call *c, struct err *e)
{
	const struct osb_rule *rules = args_rules(c, &c->args.rules, e);

	if (!rules)
		return STEP_FAILED;
	(void)osb_egress_patch(c->handle->sandbox, rules, c->args.rules.n, NULL, c->op);
	return mcp_call_then(c, patched);
}

/* ---- diagnostics ---- */

enum step sandbox_diagnostics_begin(struct call *c, struct err *e)
{
	const struct args *a = &c->args;

	(void)e;
	if (a->kind == DIAGNOSTICS_NETWORK)
		(void)osb_diagnostics_network(c->engine->client, a->sandbox_id, &c->result.bytes, c->op);
	else if (a->kind == DIAGNOSTICS_SUMMARY)
		(void)osb_diagnostics_text(c->engine->client, a->sandbox_id, "summary", NULL, &c->result.bytes, c->op);
	else
		(void)osb_diagnostics(c->engine->client, a->sandbox_id, args_diagnostics[a->kind], a->scope, &c->result.diagnostics, c->op);
	return mcp_call_then(c, NULL);
}

static struct str content_of(const struct call *c)
{
	if (c->args.kind == DIAGNOSTICS_NETWORK || c->args.kind == DIAGNOSTICS_SUMMARY)
		return (struct str){ c->result.bytes->data, c->result.bytes->n };
	if (c->result.diagnostics->content)
		return str_of(c->result.diagnostics->content);
	return str_of(c->result.diagnostics->content_url);
}

int sandbox_diagnostics_finish(struct call *c, struct json_out *o, struct err *e)
{
	size_t limit = c->engine->limits.output;
	struct str content = content_of(c);

	(void)e;
	if (!cut_middle(&c->text, content, limit))
		return err_set(e, ERR_LIMIT, "the diagnostics are too large");
	json_open(o, '{');
	json_key(o, "sandbox_id"), json_cstr(o, c->args.sandbox_id);
	json_key(o, "kind"), json_cstr(o, args_diagnostics[c->args.kind]);
	json_key(o, "content"), json_str(o, buf_str(&c->text));
	json_key(o, "note"), json_cstr(o, content.n > limit ? "cut in the middle: it was too long" : NULL);
	json_close(o, '}');
	return 0;
}
