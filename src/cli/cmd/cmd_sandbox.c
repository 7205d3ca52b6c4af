// SPDX-License-Identifier: Apache-2.0
/* osb sandbox: list, get, kill, pause, resume, renew, endpoint, health. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/rfc3339.h"
#include "cli/cli.h"
#include "cli/cmd/cmd_sandbox.h"
#include "cli/commands.h"
#include "cli/values.h"

#include "base/banned.h"

#define ROWS_MAX ((size_t)16 * 1024 * 1024)

/* ---- list ------------------------------------------------------------------------------------------------ */

struct list_options {
	const char *output;
	struct opt_list states, metadata;
	int64_t page, page_size;
};

const struct opt sandbox_list_opts[] = {
	OPT(struct list_options, states, OPT_LIST, "state", 's', "STATE", "Only sandboxes in this state: Running, Paused, ..."),
	OPT(struct list_options, metadata, OPT_LIST, "metadata", 'm', "KEY=VALUE",
	    "Only sandboxes with this metadata."),
	OPT(struct list_options, page, OPT_INT, "page", 0, "NUMBER", "Page number, from 1.", .min = 1,
	    .max = INT64_MAX),
	OPT(struct list_options, page_size, OPT_INT, "page-size", 0, "NUMBER", "Entries per page.", .min = 1,
	    .max = INT64_MAX),
	OPT_OUTPUT(struct list_options, output_table),
	{ 0 },
};

static const char *const states[] = { "Failed", "Paused", "Pausing", "Pending", "Running", "Stopping", "Terminated", "Unknown" };

/* States as the server spells them, in place. */
static int spell_states(struct opt_list *list, struct err *e)
{
	for (size_t i = 0; i < list->n; i++) {
		size_t k = 0;

		while (k < ARRAY_LEN(states) && !str_eq_nocase(str_trim(str_of(list->items[i])), str_of(states[k])))
			k++;
		if (k == ARRAY_LEN(states))
			return err_set(e, ERR_INVALID, "invalid sandbox state '%s'; there are Failed, Paused, Pausing, Pending, Running, "
				       "Stopping, Terminated and Unknown", list->items[i]);
		list->items[i] = states[k];
	}
	return 0;
}

/* People see a state and an image, where scripts get objects. */
static const struct json *flatten(struct cli *cli, const struct json *info, bool with_reason)
{
	const struct json *status = json_get(info, "status"), *image = json_get(info, "image");
	AUTO(buf_done) struct buf b = BUF_INIT(ROWS_MAX);
	struct json_out o = json_out(&b);

	json_open(&o, '{');
	for (const struct json *v = json_first(info); v; v = v->next) {
		json_key_str(&o, v->key);
		if (v == status)
			json_tree(&o, json_get(status, "state"));
		else if (v == image && v->type == JSON_OBJECT)
			json_tree(&o, json_get(image, "image"));
		else
			json_tree(&o, v);
	}
	if (with_reason && json_text(status, "reason").n > 0)
		json_key(&o, "status_reason"), json_str(&o, json_text(status, "reason"));
	if (with_reason && json_text(status, "message").n > 0)
		json_key(&o, "status_message"), json_str(&o, json_text(status, "message"));
	json_close(&o, '}');
	return cli_parse(cli, buf_str(&b));
}

static int show_list(struct cli *cli, const struct json *found)
{
	static const char *const columns[] = { "id", "status", "image", "created_at", "expires_at", NULL };
	struct json rows = { .type = JSON_ARRAY };

	if (!output_is_people(&cli->out))
		return cli_show(cli, found, NULL);
	for (const struct json *v = json_first(json_get(found, "items")); v; v = v->next) {
		const struct json *row = flatten(cli, v, false);
		struct json *copy = row ? arena_alloc(&cli->arena, sizeof(*copy)) : NULL;

		if (!copy)
			return CLI_FAILED;
		*copy = *row;
		json_append(&rows, copy);
	}
	if (rows.kids.n == 0)
		return output_info(&cli->out, "No sandboxes found.") == 0 ? CLI_OK : CLI_FAILED;
	return cli_show_rows(cli, &rows, columns, "Sandboxes");
}

int sandbox_list(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_sandboxes *found = NULL;
	struct osb_list filter = { .size = sizeof(filter) };
	struct list_options o = { 0 };
	struct cli *cli = arg;
	const struct json *v;
	struct err e = { 0 };

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (value_pairs(&o.metadata, &cli->arena, &filter.metadata, &e) < 0)
		return cli_fail_usage(cli, &e);
	if (spell_states(&o.states, &e) < 0)
		return cli_fail_err(cli, &e);
	filter.states = (struct osb_strings){ o.states.items, o.states.n };
	filter.page = o.page;
	filter.page_size = o.page_size;
	if (!cli_client(cli) ||
	    cli_wait(cli, "Fetching sandboxes...", osb_sandbox_list(cli->client, &filter, &found, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	v = cli_tree(cli, found);
	return v ? show_list(cli, v) : CLI_FAILED;
}

/* ---- get ------------------------------------------------------------------------------------------------- */

static int sandbox_get(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_sandbox_info *info = NULL;
	struct only_output o = { 0 };
	struct cli *cli = arg;
	const struct json *v;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (!cli_client(cli) || cli_wait(cli, NULL, osb_sandbox_get(cli->client, cli->operands[0], &info, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	v = cli_tree(cli, info);
	if (v && output_is_people(&cli->out))
		v = flatten(cli, v, true);
	return cli_show(cli, v, "Sandbox Info");
}

/* ---- kill ------------------------------------------------------------------------------------------------ */

int sandbox_kill(int argc, char **argv, void *arg)
{
	static const char *const columns[] = { "sandbox_id", "status", NULL };
	AUTO(buf_done) struct buf b = BUF_INIT(ROWS_MAX);
	struct json_out rows = json_out(&b);
	struct only_output o = { 0 };
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	json_open(&rows, '[');
	for (int i = 0; i < cli->n_operands; i++) {
		if (!cli_client(cli) ||
		    cli_wait(cli, "Killing sandbox...", osb_sandbox_kill(cli->client, cli->operands[i], cli_call(cli))) < 0)
			return cli_fail_call(cli);
		json_open(&rows, '{');
		json_key(&rows, "sandbox_id"), json_cstr(&rows, cli->operands[i]);
		json_key(&rows, "status"), json_cstr(&rows, "terminated");
		json_close(&rows, '}');
	}
	json_close(&rows, ']');
	return cli_show_rows(cli, cli_parse(cli, buf_str(&b)), columns, "Sandboxes");
}

/* ---- pause, resume, renew -------------------------------------------------------------------------------- */

static int sandbox_pause(int argc, char **argv, void *arg)
{
	struct only_output o = { 0 };
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (!cli_client(cli) ||
	    cli_wait(cli, "Pausing sandbox...", osb_sandbox_pause(cli->client, cli->operands[0], cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_success(cli, "Sandbox paused: %s", cli->operands[0]);
}

struct resume_options {
	const char *output, *timeout;
	bool skip_health_check;
};

static const struct opt resume_opts[] = {
	OPT(struct resume_options, skip_health_check, OPT_FLAG, "skip-health-check", 0, NULL,
	    "Do not wait until the sandbox answers."),
	OPT(struct resume_options, timeout, OPT_STRING, "resume-timeout", 0, "DURATION",
	    "Timeout for its first answer: 30s."),
	OPT_OUTPUT(struct resume_options, output_table),
	{ 0 },
};

static int sandbox_resume(int argc, char **argv, void *arg)
{
	struct osb_connect how = { .size = sizeof(how) };
	struct resume_options o = { 0 };
	struct osb_sandbox *s = NULL;
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (cli_milliseconds(cli, o.timeout, &how.ready_timeout_ms) < 0)
		return cli->status;
	how.skip_health_check = o.skip_health_check;
	if (!cli_client(cli) ||
	    cli_wait(cli, "Resuming sandbox...", osb_sandbox_resume(cli->client, cli->operands[0], &how, &s, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_success(cli, "Sandbox resumed: %s", cli->operands[0]);
}

struct renew_options {
	const char *output, *timeout;
};

static const struct opt renew_opts[] = {
	OPT(struct renew_options, timeout, OPT_STRING, "timeout", 't', "DURATION",
	    "New lifetime, from now: 30m, 2h.",
	    .is_required = true),
	OPT_OUTPUT(struct renew_options, output_table),
	{ 0 },
};

/* "2026-06-15 09:46:58.120431+00:00", with the fraction only if there is one: what scripts find in this place. */
static const char *spaced_time(struct cli *cli, const char *text)
{
	char out[RFC3339_SIZE];
	struct err e = { 0 };
	struct timespec t;
	size_t n;

	if (rfc3339_parse(str_of(text), 0, &t, &e) < 0)
		return text;
	n = rfc3339_format(t, out);
	out[10] = ' ';
	return arena_printf(&cli->arena, "%.*s+00:00", (int)n - 1, out);
}

static int sandbox_renew(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_expiry *expiry = NULL;
	struct renew_options o = { 0 };
	struct cli *cli = arg;
	struct err e = { 0 };
	int64_t s;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (value_duration(o.timeout, &s, &e) < 0)
		return cli_fail_usage(cli, &e);
	if (!cli_client(cli) ||
	    cli_wait(cli, "Renewing sandbox...", osb_sandbox_renew(cli->client, cli->operands[0], s, &expiry, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_show_panel(cli, cli_object(cli, "sandbox_id", cli->operands[0], "expires_at", spaced_time(cli, expiry->expires_at), NULL),
			      "Sandbox Renewed");
}

/* ---- endpoint, health ------------------------------------------------------------------------------------ */

struct endpoint_options {
	const char *output;
	int64_t port;
};

static const struct opt endpoint_opts[] = {
	OPT(struct endpoint_options, port, OPT_INT, "port", 'p', "PORT", "Path in the sandbox.", .min = 1,
	    .max = 65535,
	    .is_required = true),
	OPT_OUTPUT(struct endpoint_options, output_table),
	{ 0 },
};

/* The published tool knows no "url". */
static const struct json *without_url(struct cli *cli, const struct json *endpoint)
{
	AUTO(buf_done) struct buf b = BUF_INIT(ROWS_MAX);
	struct json_out o = json_out(&b);

	json_open(&o, '{');
	json_key(&o, "endpoint"), json_tree(&o, json_get(endpoint, "endpoint"));
	json_key(&o, "headers"), json_tree(&o, json_get(endpoint, "headers"));
	json_close(&o, '}');
	return cli_parse(cli, buf_str(&b));
}

static int sandbox_endpoint(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_endpoint *endpoint = NULL;
	struct endpoint_options o = { 0 };
	struct cli *cli = arg;
	const struct json *v;

	if (!cli_begin_in(cli, argc, argv, &o))
		return cli->status;
	if (cli_wait(cli, NULL, osb_sandbox_endpoint(cli->client, cli->operands[0], (unsigned)o.port, 0, &endpoint, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	v = cli_tree(cli, endpoint);
	return cli_show(cli, v ? without_url(cli, v) : NULL, "Sandbox Endpoint");
}

static int sandbox_health(int argc, char **argv, void *arg)
{
	struct only_output o = { 0 };
	struct cli *cli = arg;
	const char *id;
	struct osb_sandbox *s;
	bool is_well;

	s = cli_begin_in(cli, argc, argv, &o);
	if (!s)
		return cli->status;
	id = cli->operands[0];
	is_well = cli_wait(cli, NULL, osb_sandbox_ping(s, cli_call(cli))) == 0;
	if (!output_is_people(&cli->out)) {
		AUTO(buf_done) struct buf b = BUF_INIT(ROWS_MAX);
		struct json_out out = json_out(&b);

		json_open(&out, '{');
		json_key(&out, "sandbox_id"), json_cstr(&out, id);
		json_key(&out, "healthy"), json_bool(&out, is_well);
		json_close(&out, '}');
		return cli_show(cli, cli_parse(cli, buf_str(&b)), NULL);
	}
	if (is_well)
		return cli_success(cli, "Sandbox %s is healthy", id);
	return output_error(&cli->out, "Sandbox %s is unhealthy", id) == 0 ? CLI_OK : CLI_FAILED;
}

/* ---- the group ------------------------------------------------------------------------------------------- */

#define ONE_SANDBOX .operands = "SANDBOX", .min_operands = 1, .max_operands = 1, CLI_COMPLETES_SANDBOX

const struct opt_command sandbox_commands[] = {
	{ .name = "create", .summary = "make a sandbox", .opts = sandbox_create_opts, .run = sandbox_create,
	  .about = "Makes a sandbox from an image, waits until it answers and shows its id." },
	{ .name = "list", .summary = "list sandboxes", .opts = sandbox_list_opts, .run = sandbox_list },
	{ .name = "get", .summary = "show everything about a sandbox", .opts = cli_table_opts, .run = sandbox_get, ONE_SANDBOX },
	{ .name = "kill", .summary = "end sandboxes", .opts = cli_table_opts, .run = sandbox_kill, .operands = "SANDBOX...",
	  .min_operands = 1, .max_operands = OPT_OPERANDS_ANY, CLI_COMPLETES_SANDBOX,
	  .about = "Ends them one after the other, and stops at the first failure." },
	{ .name = "pause", .summary = "pause a sandbox", .opts = cli_table_opts, .run = sandbox_pause, ONE_SANDBOX },
	{ .name = "resume", .summary = "resume a paused sandbox", .opts = resume_opts, .run = sandbox_resume, ONE_SANDBOX },
	{ .name = "renew", .summary = "extend the lifetime of a sandbox", .opts = renew_opts,
	  .run = sandbox_renew, ONE_SANDBOX },
	{ .name = "endpoint", .summary = "show the address of a port of a sandbox", .opts = endpoint_opts,
	  .run = sandbox_endpoint,
	  ONE_SANDBOX },
	{ .name = "health", .summary = "check whether a sandbox answers", .opts = cli_table_opts,
	  .run = sandbox_health, ONE_SANDBOX,
	  .about = "The exit status is 0 even if it does not answer; see the output." },
	{ .name = "metrics", .summary = "show resource usage of a sandbox", .opts = sandbox_metrics_opts,
	  .run = sandbox_metrics, ONE_SANDBOX },
	{ 0 },
};
