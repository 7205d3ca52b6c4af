// SPDX-License-Identifier: Apache-2.0
/* osb diagnostics, and its older form, osb devops */
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/commands.h"

#include "base/banned.h"

struct scope_options {
	const char *output, *scope;
};

static const struct opt scope_opts[] = {
	OPT(struct scope_options, scope, OPT_STRING, "scope", 's', "SCOPE",
	    "Logs: lifecycle or container. Events: lifecycle or runtime. Or all.", .is_required = true),
	OPT_OUTPUT(struct scope_options, output_raw_table),
	{ 0 },
};

static int show_diagnostics(int argc, char **argv, struct cli *cli, const char *kind, const char *title)
{
	AUTO(osb_free) struct osb_diagnostics *d = NULL;
	struct scope_options o = { 0 };
	const char *text;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (!cli_client(cli) || cli_wait(cli, NULL, osb_diagnostics(cli->client, cli->operands[0], kind, o.scope, &d, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	if (cli->out.format != OUTPUT_RAW)
		return cli_show(cli, cli_tree(cli, d), title);
	text = str_is(str_of(d->delivery), "inline") ? d->content ? d->content : "" : d->content_url;
	if (!text)
		return cli_fail(cli, "the answer has neither a content nor a place where it is");
	return output_line(&cli->out, str_of(text)) == 0 ? CLI_OK : CLI_FAILED;
}

static int diagnostics_logs(int argc, char **argv, void *arg)
{
	return show_diagnostics(argc, argv, arg, "logs", "Diagnostic Logs");
}

static int diagnostics_events(int argc, char **argv, void *arg)
{
	return show_diagnostics(argc, argv, arg, "events", "Diagnostic Events");
}

#define ONE_SANDBOX .operands = "SANDBOX", .min_operands = 1, .max_operands = 1, CLI_COMPLETES_SANDBOX

const struct opt_command diagnostics_commands[] = {
	{ .name = "logs", .summary = "show logs about a sandbox", .opts = scope_opts, .run = diagnostics_logs,
	  ONE_SANDBOX },
	{ .name = "events", .summary = "show events of a sandbox", .opts = scope_opts,
	  .run = diagnostics_events, ONE_SANDBOX },
	{ 0 },
};

/* ---- devops ---------------------------------------------------------------------------------------------- */

struct devops_options {
	const char *output, *since;
	int64_t tail, limit;
};

#define OPT_TAIL(help_) OPT(struct devops_options, tail, OPT_INT, "tail", 'n', "LINES", help_)

static const struct opt devops_logs_opts[] = {
	OPT_TAIL("The last so many lines: 100."),
	OPT(struct devops_options, since, OPT_STRING, "since", 's', "DURATION",
	    "Only newer entries: 10m, 1h."),
	OPT_OUTPUT(struct devops_options, output_raw),
	{ 0 },
};
static const struct opt devops_events_opts[] = {
	OPT(struct devops_options, limit, OPT_INT, "limit", 'l', "NUMBER", "Maximum number. Default: 50."),
	OPT_OUTPUT(struct devops_options, output_raw),
	{ 0 },
};
static const struct opt devops_summary_opts[] = {
	OPT_TAIL("The last so many lines of the logs: 50."),
	OPT(struct devops_options, limit, OPT_INT, "event-limit", 0, "NUMBER",
	    "Maximum number of events. Default: 20."),
	OPT_OUTPUT(struct devops_options, output_raw),
	{ 0 },
};

static int show_text(struct cli *cli, const char *kind, const struct osb_map *query)
{
	AUTO(osb_free) struct osb_bytes *text = NULL;

	if (!cli_client(cli))
		return cli->status;
	if (cli_wait(cli, NULL, osb_diagnostics_text(cli->client, cli->operands[0], kind, query, &text, cli_call(cli))) == 0)
		return output_line(&cli->out, (struct str){ text->data, text->n }) == 0 ? CLI_OK : CLI_FAILED;
	if (cli_error(cli)->http_status == 404)
		return cli_fail(cli, "Sandbox '%s' not found. 'osb sandbox list' shows those that there are.", cli->operands[0]);
	return cli_fail_call(cli);
}

static void number(char out[24], int64_t v)
{
	(void)snprintf(out, 24, "%" PRId64, v); /* fits */
}

static int devops_logs(int argc, char **argv, void *arg)
{
	struct devops_options o = { .tail = 100 };
	struct osb_pair query[2] = { { "tail", NULL }, { "since", NULL } };
	struct cli *cli = arg;
	char tail[24];

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	(void)fprintf(stderr, "Warning: `osb devops logs` is deprecated. Use `osb diagnostics logs`.\n");
	number(tail, o.tail);
	query[0].value = tail;
	query[1].value = o.since;
	return show_text(cli, "logs", &(struct osb_map){ query, o.since && *o.since ? 2 : 1 });
}

static int devops_inspect(int argc, char **argv, void *arg)
{
	struct only_output o = { 0 };
	struct cli *cli = arg;

	return cli_begin(cli, argc, argv, &o) ? show_text(cli, "inspect", NULL) : cli->status;
}

static int devops_events(int argc, char **argv, void *arg)
{
	struct devops_options o = { .limit = 50 };
	struct cli *cli = arg;
	char limit[24];

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	(void)fprintf(stderr, "Warning: `osb devops events` is deprecated. Use `osb diagnostics events`.\n");
	number(limit, o.limit);
	return show_text(cli, "events", &(struct osb_map){ &(struct osb_pair){ "limit", limit }, 1 });
}

static int devops_summary(int argc, char **argv, void *arg)
{
	struct devops_options o = { .tail = 50, .limit = 20 };
	char tail[24], limit[24];
	const struct osb_pair query[] = { { "tail", tail }, { "event_limit", limit } };
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	number(tail, o.tail);
	number(limit, o.limit);
	return show_text(cli, "summary", &(struct osb_map){ query, 2 });
}

const struct opt_command devops_commands[] = {
	{ .name = "logs", .summary = "use 'osb diagnostics logs' instead", .opts = devops_logs_opts, .run = devops_logs, ONE_SANDBOX },
	{ .name = "inspect", .summary = "show the server's record of a sandbox", .opts = cli_raw_opts,
	  .run = devops_inspect,
	  ONE_SANDBOX },
	{ .name = "events", .summary = "use 'osb diagnostics events' instead", .opts = devops_events_opts, .run = devops_events,
	  ONE_SANDBOX },
	{ .name = "summary", .summary = "show all of it at once", .opts = devops_summary_opts, .run = devops_summary, ONE_SANDBOX },
	{ 0 },
};
