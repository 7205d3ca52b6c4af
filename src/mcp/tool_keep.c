// SPDX-License-Identifier: Apache-2.0
/* Snapshots, copies, and the way back. */
#include "base/err.h"
#include "base/json_out.h"
#include "client/opensandbox.h"
#include "mcp/call.h"
#include "mcp/engine.h"
#include "mcp/handles.h"
#include "mcp/map_args.h"

#include "base/banned.h"

#define SNAPSHOT_POLL_MS 50
#define SNAPSHOT_POLLS_MAX 2400 /* two minutes */

/* ---- snapshots ---- */

static enum step look_again(struct call *c, struct err *e);

/* It is of use once it is ready, and that is a matter of milliseconds: so the tool waits for it. */
static enum step looked(struct call *c, struct err *e)
{
	const struct osb_snapshot *s = c->result.snapshot;

	if (strcmp(s->status.state, "Failed") == 0)
		return (enum step)err_set(e, ERR_IO, "snapshot '%s' failed: %s", s->id, s->status.message ? s->status.message : "no reason given");
	if (strcmp(s->status.state, "Creating") != 0 || ++c->polls > SNAPSHOT_POLLS_MAX)
		return STEP_DONE;
	return mcp_call_later(c, SNAPSHOT_POLL_MS, look_again);
}

static enum step look_again(struct call *c, struct err *e)
{
	const char *id = arena_strndup(&c->arena, c->result.snapshot->id, strlen(c->result.snapshot->id));

	if (!id)
		return (enum step)err_no_memory(e);
	mcp_call_drop_result(c);
	(void)osb_snapshot_get(c->engine->client, id, &c->result.snapshot, c->op);
	return mcp_call_then(c, looked);
}

enum step snapshot_create_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_snapshot_create(c->engine->client, c->args.sandbox_id, c->args.name, &c->result.snapshot, c->op);
	return mcp_call_then(c, looked);
}

enum step snapshot_list_begin(struct call *c, struct err *e)
{
	const struct osb_snapshot_list filter = { .size = sizeof(filter), .sandbox_id = c->args.sandbox_id };

	(void)e;
	(void)osb_snapshot_list(c->engine->client, &filter, &c->result.snapshots, c->op);
	return mcp_call_then(c, NULL);
}

int snapshot_list_finish(struct call *c, struct json_out *o, struct err *e)
{
	return args_write_page(c, "snapshots", true, o, e);
}

enum step snapshot_delete_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_snapshot_delete(c->engine->client, c->args.snapshot_id, c->op);
	return mcp_call_then(c, NULL);
}

/* ---- copies ---- */

enum step sandbox_fork_begin(struct call *c, struct err *e)
{
	const struct args *a = &c->args;
	struct osb_policy policy;
	struct osb_fork how = {
		.size = sizeof(how),
		.count = a->count,
		.timeout_s = args_seconds(a->timeout_seconds),
		.env = args_map(&a->env),
		.metadata = args_map(&a->metadata),
		.resource = args_map(&a->resource),
		.name = a->name,
	};

	if (args_policy(c, &policy, e) < 0)
		return STEP_FAILED;
	how.network_policy = a->has_network_policy ? &policy : NULL;
	(void)osb_sandbox_fork(c->engine->client, a->sandbox_id, &how, &c->result.sandboxes, c->op);
	return mcp_call_then(c, NULL);
}

int sandbox_fork_finish(struct call *c, struct json_out *o, struct err *e)
{
	return args_write_page(c, "sandbox_infos", false, o, e);
}

static enum step rolled_back(struct call *c, struct err *e)
{
	(void)e;
	/* its inside is another one now: the next tool connects anew */
	handles_drop(&c->engine->handles, c->args.sandbox_id);
	(void)osb_sandbox_connect(c->engine->client, c->args.sandbox_id, NULL, &c->made, c->op);
	return mcp_call_then(c, mcp_call_take_made);
}

enum step sandbox_rollback_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_sandbox_rollback(c->engine->client, c->args.sandbox_id, c->args.snapshot_id, NULL, &c->result.info, c->op);
	return mcp_call_then(c, rolled_back);
}
