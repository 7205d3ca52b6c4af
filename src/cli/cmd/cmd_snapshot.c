// SPDX-License-Identifier: Apache-2.0
/* osb snapshot, osb fork, osb rollback: the files of a sandbox, kept and multiplied. */
#include <stdio.h>
#include <time.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/api_tree.h"
#include "cli/cli.h"
#include "cli/commands_more.h"
#include "cli/copy/copy.h"
#include "cli/copy/file_transfer.h"
#include "cli/values.h"

#include "base/banned.h"

#define POLL_NS 50000000L
#define PAGE_MAX 200

struct snapshot_options {
	const char *output, *name, *sandbox, *timeout;
	struct opt_list states, env, metadata, resource;
	int64_t count, page, page_size;
	bool no_wait, quiet;
};

#define OUTPUT OPT_OUTPUT(struct snapshot_options, output_table)
#define NAME(help_) OPT(struct snapshot_options, name, OPT_STRING, "name", 0, "NAME", help_)
#define QUIET OPT(struct snapshot_options, quiet, OPT_FLAG, "quiet", 'q', NULL, "Show no progress.")
#define ENV OPT(struct snapshot_options, env, OPT_LIST, "env", 'e', "KEY=VALUE", "Set a variable of the environment.")
#define NEW_SANDBOX \
	OPT(struct snapshot_options, timeout, OPT_STRING, "timeout", 't', "DURATION", "End it after DURATION ('10m', '2h'), or 'none'."), ENV, \
	OPT(struct snapshot_options, metadata, OPT_LIST, "metadata", 'm', "KEY=VALUE", "Add metadata."), \
	OPT(struct snapshot_options, resource, OPT_LIST, "resource", 0, "KEY=VALUE", "Limit it: 'cpu=2', 'memory=1Gi'.")

static const struct opt create_opts[] = {
	NAME("Call it NAME."), OPT(struct snapshot_options, no_wait, OPT_FLAG, "no-wait", 0, NULL, "Do not wait until it is ready."), OUTPUT, { 0 },
};
static const struct opt list_opts[] = {
	OPT(struct snapshot_options, sandbox, OPT_STRING, "sandbox", 's', "SANDBOX", "Only those of SANDBOX."),
	OPT(struct snapshot_options, states, OPT_LIST, "state", 0, "STATE", "Only those in STATE: Creating, Ready, Deleting, Failed."),
	OPT(struct snapshot_options, page, OPT_INT, "page", 0, "N", "The Nth page.", .min = 1, .max = INT32_MAX),
	OPT(struct snapshot_options, page_size, OPT_INT, "page-size", 0, "N", "N on a page.", .min = 1, .max = PAGE_MAX),
	OUTPUT, { 0 },
};
static const struct opt export_opts[] = { QUIET, { 0 } };
static const struct opt import_opts[] = { NAME("Call it NAME."), QUIET, OUTPUT, { 0 } };
static const struct opt restore_opts[] = { NEW_SANDBOX, OUTPUT, { 0 } };

const struct opt cli_fork_opts[] = {
	OPT(struct snapshot_options, count, OPT_INT, "count", 'n', "N", "Make N of them.", .min = 1, .max = 100), NEW_SANDBOX,
	NAME("Keep what they begin with as a snapshot called NAME."), OUTPUT, { 0 },
};
const struct opt cli_rollback_opts[] = { ENV, OUTPUT, { 0 } };

static const char *const snapshot_paths[] = { "id", "name", "sandbox_id", "status.state", "size_bytes", "created_at", NULL };
static const char *const snapshot_columns[] = { "id", "name", "sandbox_id", "status", "size", "created_at", NULL };

static int show_snapshot(struct cli *cli, const struct osb_snapshot *s, const char *title)
{
	const struct json *v = cli_tree(cli, s);

	if (v && output_is_people(&cli->out))
		v = api_row(cli, v, snapshot_paths, snapshot_columns);
	return cli_show_panel(cli, v, title);
}

/* ---- create ---- */

/* Asks until it is no longer being made. */
static int wait_ready(struct cli *cli, struct osb_snapshot **s)
{
	while (str_is(str_of((*s)->status.state), "Creating")) {
		struct osb_snapshot *next = NULL;

		(void)nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL); /* Ctrl-C makes it shorter, and ends the next call */
		if (cli_wait(cli, "Taking snapshot...", osb_snapshot_get(cli->client, (*s)->id, &next, cli_call(cli))) < 0)
			return cli_fail_call(cli);
		osb_free(*s);
		*s = next;
	}
	if (!str_is(str_of((*s)->status.state), "Failed"))
		return CLI_OK;
	return cli_fail(cli, "the snapshot failed: %s", (*s)->status.message ? (*s)->status.message : "the server does not say why");
}

static int snapshot_create(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_snapshot *s = NULL;
	struct snapshot_options o = { 0 };
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (!cli_client(cli) ||
	    cli_wait(cli, "Taking snapshot...", osb_snapshot_create(cli->client, cli->operands[0], o.name, &s, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	if (!o.no_wait && wait_ready(cli, &s) != CLI_OK)
		return cli->status;
	return show_snapshot(cli, s, "Snapshot taken");
}

/* ---- ls, get, rm ---- */

static int snapshot_list(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_snapshots *found = NULL;
	struct snapshot_options o = { 0 };
	struct osb_snapshot_list filter = { .size = sizeof(filter) };
	const struct json *v;
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	filter.sandbox_id = o.sandbox;
	filter.states = (struct osb_strings){ o.states.items, o.states.n };
	filter.page = o.page;
	filter.page_size = o.page_size;
	if (!cli_client(cli) || cli_wait(cli, NULL, osb_snapshot_list(cli->client, &filter, &found, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	v = cli_tree(cli, found);
	if (!v || !output_is_people(&cli->out))
		return cli_show(cli, v, NULL);
	if (found->n == 0)
		return output_info(&cli->out, "No snapshots found.") < 0 ? CLI_FAILED : CLI_OK;
	return cli_show_rows(cli, api_rows(cli, json_get(v, "items"), snapshot_paths, snapshot_columns), snapshot_columns,
			     "Snapshots");
}

static int snapshot_get(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_snapshot *s = NULL;
	struct only_output o = { 0 };
	struct cli *cli = arg;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (!cli_client(cli) || cli_wait(cli, NULL, osb_snapshot_get(cli->client, cli->operands[0], &s, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_show(cli, cli_tree(cli, s), "Snapshot");
}

static int remove_snapshot(struct cli *cli, const char *id, struct osb_call *call)
{
	return osb_snapshot_delete(cli->client, id, call);
}

static int snapshot_remove(int argc, char **argv, void *arg)
{
	return more_remove(arg, argc, argv, "snapshot_id", remove_snapshot);
}

/* ---- export, import ---- */

static int snapshot_export(int argc, char **argv, void *arg)
{
	AUTO(file_transfer_done) struct file_transfer t = FILE_TRANSFER_INIT;
	struct snapshot_options o = { 0 };
	struct cli *cli = arg;
	struct err e = { 0 };

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (file_transfer_open_out(&t, cli, cli->operands[1], str_of(cli->operands[0]), PROGRESS_UNKNOWN,
				   o.quiet,
			      &e) < 0)
		return cli_fail_err(cli, &e);
	if (!cli_client(cli))
		return cli->status;
	return more_save(cli, &t, cli_wait(cli, NULL, osb_snapshot_export(cli->client, cli->operands[0],
									  file_transfer_write, &t,
										  cli_call(cli))));
}

static int snapshot_import(int argc, char **argv, void *arg)
{
	AUTO(file_transfer_done) struct file_transfer t = FILE_TRANSFER_INIT;
	AUTO(osb_free) struct osb_snapshot *s = NULL;
	struct snapshot_options o = { 0 };
	struct cli *cli = arg;
	struct err e = { 0 };
	int begun;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (file_transfer_open_in(&t, cli, cli->operands[0], copy_base_name(cli->operands[0]), o.quiet,
				  &e) < 0)
		return cli_fail_err(cli, &e);
	if (!cli_client(cli))
		return cli->status;
	begun = cli_wait(cli, NULL, osb_snapshot_import(cli->client, o.name, file_transfer_read, &t, &s,
							cli_call(cli)));
	if (more_carried(cli, &t, begun) != CLI_OK)
		return cli->status;
	return show_snapshot(cli, s, "Snapshot imported");
}

/* ---- what begins with one ---- */

static int read_timeout(const char *text, int64_t *ret_s, struct err *e)
{
	*ret_s = OSB_TTL_DEFAULT;
	if (text && value_duration_or_none(text, ret_s, e) < 0)
		return err_wrap(e, "--timeout");
	if (text && *ret_s == VALUES_NONE)
		*ret_s = OSB_TTL_NONE;
	return 0;
}

static int snapshot_restore(int argc, char **argv, void *arg)
{
	struct snapshot_options o = { 0 };
	struct osb_create create = { .size = sizeof(create) };
	struct osb_sandbox *s = NULL;
	struct cli *cli = arg;
	struct err e = { 0 };

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	create.snapshot_id = cli->operands[0];
	if (read_timeout(o.timeout, &create.timeout_s, &e) < 0 || value_pairs(&o.env, &cli->arena, &create.env, &e) < 0 ||
	    value_pairs(&o.metadata, &cli->arena, &create.metadata, &e) < 0 ||
	    value_pairs(&o.resource, &cli->arena, &create.resource, &e) < 0)
		return cli_fail_usage(cli, &e);
	if (!cli_client(cli) || cli_wait(cli, "Creating sandbox...", osb_sandbox_create(cli->client, &create, &s, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_show_panel(cli, cli_object(cli, "id", osb_sandbox_id(s), "snapshot_id", create.snapshot_id, "status", "created", NULL),
			      "Sandbox created");
}

int cmd_fork(int argc, char **argv, void *arg)
{
	static const char *const paths[] = { "id", "status.state", "created_at", "expires_at", NULL };
	static const char *const columns[] = { "id", "status", "created_at", "expires_at", NULL };
	AUTO(osb_free) struct osb_sandboxes *made = NULL;
	struct snapshot_options o = { 0 };
	struct osb_fork fork = { .size = sizeof(fork) };
	const struct json *v;
	struct cli *cli = arg;
	struct err e = { 0 };

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	fork.count = o.count;
	fork.name = o.name;
	if (read_timeout(o.timeout, &fork.timeout_s, &e) < 0 || value_pairs(&o.env, &cli->arena, &fork.env, &e) < 0 ||
	    value_pairs(&o.metadata, &cli->arena, &fork.metadata, &e) < 0 || value_pairs(&o.resource, &cli->arena, &fork.resource, &e) < 0)
		return cli_fail_usage(cli, &e);
	if (!cli_client(cli) ||
	    cli_wait(cli, "Forking sandbox...", osb_sandbox_fork(cli->client, cli->operands[0], &fork, &made, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	v = cli_tree(cli, made);
	if (!v || !output_is_people(&cli->out))
		return cli_show(cli, v, NULL);
	return cli_show_rows(cli, api_rows(cli, json_get(v, "items"), paths, columns), columns, "Forks");
}

int cmd_rollback(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_sandbox_info *info = NULL;
	struct snapshot_options o = { 0 };
	struct osb_map env;
	struct cli *cli = arg;
	struct err e = { 0 };

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (value_pairs(&o.env, &cli->arena, &env, &e) < 0)
		return cli_fail_usage(cli, &e);
	if (!cli_client(cli) ||
	    cli_wait(cli, "Rolling back...",
		     osb_sandbox_rollback(cli->client, cli->operands[0], cli->operands[1], &env, &info, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_success(cli, "Sandbox %s is back on snapshot %s", cli->operands[0], cli->operands[1]);
}

const struct opt_command cli_snapshot_commands[] = {
	{ .name = "create", .summary = "take a snapshot of a sandbox", .operands = "SANDBOX", .opts = create_opts, .min_operands = 1,
	  .max_operands = 1, CLI_COMPLETES_SANDBOX, .run = snapshot_create,
	  .about = "Saves the files of SANDBOX as they are now. Its programs are stopped for a moment." },
	{ .name = "ls", .summary = "list snapshots", .opts = list_opts, .run = snapshot_list },
	{ .name = "get", .summary = "show a snapshot", .operands = "SNAPSHOT", .opts = cli_table_opts, .min_operands = 1, .max_operands = 1,
	  .run = snapshot_get },
	{ .name = "rm", .summary = "delete snapshots", .operands = "SNAPSHOT...", .opts = cli_table_opts, .min_operands = 1,
	  .max_operands = OPT_OPERANDS_ANY, .run = snapshot_remove },
	{ .name = "export", .summary = "write a snapshot to an archive", .operands = "SNAPSHOT FILE|-", .opts = export_opts,
	  .min_operands = 2, .max_operands = 2, .run = snapshot_export, .about = "The archive is an OCI layout, as a tar, with all layers." },
	{ .name = "import", .summary = "import a snapshot from an archive", .operands = "FILE|-",
	  .opts = import_opts, .min_operands = 1,
	  .max_operands = 1, .run = snapshot_import },
	{ .name = "restore", .summary = "create a sandbox from a snapshot", .operands = "SNAPSHOT",
	  .opts = restore_opts,
	  .min_operands = 1, .max_operands = 1, .run = snapshot_restore },
	{ 0 },
};
