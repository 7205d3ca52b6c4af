// SPDX-License-Identifier: Apache-2.0
/* Sandboxes from outside: made, found, looked at, ended. */
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "client/opensandbox.h"
#include "mcp/call.h"
#include "mcp/engine.h"
#include "mcp/handles.h"
#include "mcp/map_args.h"

#include "base/banned.h"

#define PROGRESS_ALL 1.0

/* ---- one that is there now: {"sandbox_id", "info"} ---- */

static enum step tell_made(struct call *c, struct err *e)
{
	const struct osb_error *why = osb_call_error(c->op);

	c->made_here = false; /* from here on it has an owner: who knows its id */
	if (why->kind != OSB_OK)
		return (enum step)err_set(e, ERR_UNAVAILABLE, "sandbox '%s' is there, but it cannot be looked at: %s",
					  osb_sandbox_id(c->handle->sandbox), why->message);
	mcp_call_progress(c, 1.0, PROGRESS_ALL, "Done");
	return STEP_DONE;
}

static enum step ask_about_made(struct call *c, struct err *e)
{
	if (mcp_call_take_made(c, e) != STEP_DONE)
		return STEP_FAILED;
	mcp_call_progress(c, 0.8, PROGRESS_ALL, "Fetching sandbox info");
	c->takes_failure = true;
	(void)osb_sandbox_get(c->engine->client, osb_sandbox_id(c->handle->sandbox), &c->result.info, c->op);
	return mcp_call_then(c, tell_made);
}

int sandbox_create_finish(struct call *c, struct json_out *o, struct err *e)
{
	AUTO(free) char *info = osb_to_json(c->result.info);

	if (!info)
		return err_no_memory(e);
	json_open(o, '{');
	json_key(o, "sandbox_id"), json_cstr(o, osb_sandbox_id(c->handle->sandbox));
	json_key(o, "info"), json_raw(o, str_of(info));
	json_close(o, '}');
	return 0;
}

enum step sandbox_create_begin(struct call *c, struct err *e)
{
	const struct args *a = &c->args;
	struct osb_policy policy;
	struct osb_create create = {
		.size = sizeof(create),
		.image = a->image,
		.image_username = a->auth_username,
		.image_password = a->auth_password,
		.timeout_s = args_seconds(a->timeout_seconds),
		.entrypoint = args_strings(&a->entrypoint),
		.env = args_map(&a->env),
		.metadata = args_map(&a->metadata),
		.extensions = args_map(&a->extensions),
		.resource = args_map(&a->resource),
		.skip_health_check = a->skip_health_check,
		.ready_timeout_ms = args_ms(a->ready_timeout_seconds),
		.poll_ms = (unsigned)a->health_check_polling_interval_ms,
	};

	if (!a->auth_username != !a->auth_password)
		return (enum step)err_set(e, ERR_INVALID, "auth_username and auth_password go together");
	if (args_policy(c, &policy, e) < 0)
		return STEP_FAILED;
	create.network_policy = a->has_network_policy ? &policy : NULL;
	mcp_call_progress(c, 0.1, PROGRESS_ALL, "Validating input");
	mcp_call_progress(c, 0.3, PROGRESS_ALL, "Creating sandbox");
	c->made_here = true;
	(void)osb_sandbox_create(c->engine->client, &create, &c->made, c->op);
	return mcp_call_then(c, ask_about_made);
}

enum step sandbox_from_snapshot_begin(struct call *c, struct err *e)
{
	const struct args *a = &c->args;
	struct osb_policy policy;
	struct osb_create create = {
		.size = sizeof(create),
		.snapshot_id = a->snapshot_id,
		.timeout_s = args_seconds(a->timeout_seconds),
		.env = args_map(&a->env),
		.metadata = args_map(&a->metadata),
		.resource = args_map(&a->resource),
		.ready_timeout_ms = args_ms(a->ready_timeout_seconds),
	};

	if (args_policy(c, &policy, e) < 0)
		return STEP_FAILED;
	create.network_policy = a->has_network_policy ? &policy : NULL;
	c->made_here = true;
	(void)osb_sandbox_create(c->engine->client, &create, &c->made, c->op);
	return mcp_call_then(c, ask_about_made);
}

enum step sandbox_connect_begin(struct call *c, struct err *e)
{
	const struct osb_connect how = {
		.size = sizeof(how),
		.skip_health_check = c->args.skip_health_check,
		.ready_timeout_ms = args_ms(c->args.connect_timeout_seconds),
		.poll_ms = (unsigned)c->args.health_check_polling_interval_ms,
	};

	(void)e;
	(void)osb_sandbox_connect(c->engine->client, c->args.sandbox_id, &how, &c->made, c->op);
	return mcp_call_then(c, ask_about_made);
}

enum step sandbox_resume_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_sandbox_resume(c->engine->client, c->args.sandbox_id, NULL, &c->made, c->op);
	return mcp_call_then(c, ask_about_made);
}

/* ---- its life ---- */

static enum step forget_killed(struct call *c, struct err *e)
{
	(void)e;
	handles_drop(&c->engine->handles, c->args.sandbox_id);
	return STEP_DONE;
}

enum step sandbox_kill_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_sandbox_kill(c->engine->client, c->args.sandbox_id, c->op);
	return mcp_call_then(c, forget_killed);
}

enum step sandbox_pause_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_sandbox_pause(c->engine->client, c->args.sandbox_id, c->op);
	return mcp_call_then(c, NULL);
}

enum step sandbox_renew_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_sandbox_renew(c->engine->client, c->args.sandbox_id, args_seconds(c->args.timeout_seconds), &c->result.expiry, c->op);
	return mcp_call_then(c, NULL);
}

/* ---- looking ---- */

enum step sandbox_get_info_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_sandbox_get(c->engine->client, c->args.sandbox_id, &c->result.info, c->op);
	return mcp_call_then(c, NULL);
}

static enum step listed(struct call *c, struct err *e)
{
	(void)e;
	mcp_call_progress(c, 1.0, PROGRESS_ALL, "Done");
	return STEP_DONE;
}

enum step sandbox_list_begin(struct call *c, struct err *e)
{
	const struct args_filter *f = &c->args.filter;
	const struct osb_list filter = {
		.size = sizeof(filter),
		.states = args_strings(&f->states),
		.metadata = args_map(&f->metadata),
		.page = f->page,
		.page_size = f->page_size,
	};

	(void)e;
	mcp_call_progress(c, 0.1, PROGRESS_ALL, "Listing sandboxes");
	(void)osb_sandbox_list(c->engine->client, &filter, &c->result.sandboxes, c->op);
	return mcp_call_then(c, listed);
}

int sandbox_list_finish(struct call *c, struct json_out *o, struct err *e)
{
	return args_write_page(c, "sandbox_infos", true, o, e);
}

enum step sandbox_get_metrics_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_metrics_get(c->handle->sandbox, &c->result.metrics, c->op);
	return mcp_call_then(c, NULL);
}

enum step sandbox_get_endpoint_begin(struct call *c, struct err *e)
{
	(void)e;
	(void)osb_sandbox_endpoint(c->engine->client, c->args.sandbox_id, (unsigned)c->args.port, 0, &c->result.endpoint, c->op);
	return mcp_call_then(c, NULL);
}

static enum step pinged(struct call *c, struct err *e)
{
	(void)e;
	c->is_healthy = osb_call_error(c->op)->kind == OSB_OK;
	return STEP_DONE;
}

enum step sandbox_healthcheck_begin(struct call *c, struct err *e)
{
	(void)e;
	c->takes_failure = true; /* one that does not answer is an answer */
	(void)osb_sandbox_ping(c->handle->sandbox, c->op);
	return mcp_call_then(c, pinged);
}

int sandbox_healthcheck_finish(struct call *c, struct json_out *o, struct err *e)
{
	(void)e;
	json_open(o, '{');
	json_key(o, "sandbox_id"), json_cstr(o, c->args.sandbox_id);
	json_key(o, "healthy"), json_bool(o, c->is_healthy);
	json_close(o, '}');
	return 0;
}
