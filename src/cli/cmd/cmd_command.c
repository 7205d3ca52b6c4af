// SPDX-License-Identifier: Apache-2.0
/* osb command, osb command session */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/stream.h"
#include "cli/values.h"

#include "base/banned.h"

#define COMMAND_MAX ((size_t)4 * 1024 * 1024)

/* ---- run ------------------------------------------------------------------------------------------------- */

struct run_options {
	const char *output, *workdir, *timeout;
	bool background;
};

#define OPT_WORKDIR(type_) OPT(type_, workdir, OPT_STRING, "workdir", 'w', "FOLDER", "Working directory.")
#define OPT_TIMEOUT(type_) OPT(type_, timeout, OPT_STRING, "timeout", 't', "DURATION", "End it after this long: 30s, 5m.")

static const struct opt run_opts[] = {
	OPT(struct run_options, background, OPT_FLAG, "background", 'd', NULL, "Do not wait for it; its id is shown."),
	OPT_WORKDIR(struct run_options),
	OPT_TIMEOUT(struct run_options),
	OPT_OUTPUT(struct run_options, output_table_raw),
	{ 0 },
};

static const struct opt session_run_opts[] = {
	OPT_WORKDIR(struct run_options),
	OPT_TIMEOUT(struct run_options),
	OPT_OUTPUT(struct run_options, output_raw),
	{ 0 },
};

/* The words from FIRST on, as one for a shell. -1: return cli->status. */
static int make_command(struct cli *cli, const struct run_options *o, int first, struct buf *text, struct osb_command *ret)
{
	unsigned ms = 0;

	if (cli_milliseconds(cli, o->timeout, &ms) < 0)
		return -1;
	value_quote(cli->operands + first, cli->n_operands - first, text);
	if (text->failed)
		return cli_fail(cli, "the command is too long"), -1;
	*ret = (struct osb_command){ .size = sizeof(*ret), .command = buf_z(text), .working_directory = o->workdir, .timeout_ms = ms,
				     .background = o->background, .skip_accumulation = true };
	return 0;
}

static int refuse_format(struct cli *cli, const char *format, const char *allowed)
{
	return cli_fail(cli, "This command does not support `-o %s`. Allowed values: %s.", format, allowed);
}

static int run_background(struct cli *cli, struct osb_sandbox *s, const struct osb_command *command)
{
	AUTO(osb_free) struct osb_execution *x = NULL;

	if (cli_wait(cli, NULL, osb_command_run(s, command, NULL, NULL, &x, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_show_panel(cli, cli_object(cli, "execution_id", x->id, "sandbox_id", cli->operands[0], "mode", "background", NULL),
			      "Background Command Started");
}

/* A terminal's session makes the folder that it begins in; a command is to fail where there is none. */
static bool has_folder(struct cli *cli, struct osb_sandbox *s, const char *path)
{
	const struct osb_strings paths = { .items = &path, .n = 1 };
	AUTO(osb_free) struct osb_files *files = NULL;

	if (!path)
		return true;
	if (cli_wait(cli, NULL, osb_file_info(s, &paths, &files, cli_call(cli))) < 0)
		return (void)cli_fail_call(cli), false;
	if (files->n == 1 && files->items[0].type && str_is(str_of(files->items[0].type), "file"))
		return (void)cli_fail(cli, "'%s' is no folder", path), false;
	return true;
}

static int command_run(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf text = BUF_INIT(COMMAND_MAX);
	struct run_options o = { 0 };
	struct osb_command command;
	struct cli *cli = arg;
	struct osb_sandbox *s;

	if (!cli_begin(cli, argc, argv, &o) || make_command(cli, &o, 1, &text, &command) < 0)
		return cli->status;
	if (o.output && o.background && cli->out.format == OUTPUT_RAW)
		return refuse_format(cli, o.output, "table, json, yaml");
	if (o.output && !o.background && cli->out.format != OUTPUT_RAW)
		return refuse_format(cli, o.output, "raw");
	s = cli_connect(cli, cli->operands[0]);
	if (!s)
		return cli->status;
	if (o.background)
		return run_background(cli, s, &command);
	return has_folder(cli, s, o.workdir) ? stream_command(cli, s, &command) : cli->status;
}

/* ---- status, logs, interrupt ----------------------------------------------------------------------------- */

static int command_status(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_command_status *status = NULL;
	struct only_output o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s;

	s = cli_begin_in(cli, argc, argv, &o);
	if (!s)
		return cli->status;
	if (cli_wait(cli, NULL, osb_command_status(s, cli->operands[1], &status, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_show(cli, cli_tree(cli, status), "Command Status");
}

struct logs_options {
	const char *output;
	int64_t cursor;
};

static const struct opt logs_opts[] = {
	OPT(struct logs_options, cursor, OPT_INT, "cursor", 0, "NUMBER",
	    "Only output after this cursor, from the previous answer."),
	OPT_OUTPUT(struct logs_options, output_table_raw),
	{ 0 },
};

static int command_logs(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_command_logs *logs = NULL;
	struct logs_options o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s;
	struct str content;

	s = cli_begin_in(cli, argc, argv, &o);
	if (!s)
		return cli->status;
	if (cli_wait(cli, NULL, osb_command_logs(s, cli->operands[1], o.cursor, &logs, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	if (!output_is_people(&cli->out))
		return cli_show(cli, cli_tree(cli, logs), NULL);
	content = (struct str){ logs->content, logs->n_content };
	if (cli->out.format == OUTPUT_RAW)
		return output_line(&cli->out, content) == 0 ? CLI_OK : CLI_FAILED;
	return output_text_panel(&cli->out, content, "Command Logs") == 0 ? CLI_OK : CLI_FAILED;
}

static int command_interrupt(int argc, char **argv, void *arg)
{
	struct only_output o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s;

	s = cli_begin_in(cli, argc, argv, &o);
	if (!s)
		return cli->status;
	if (cli_wait(cli, NULL, osb_command_interrupt(s, cli->operands[1], cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_success(cli, "Interrupted: %s", cli->operands[1]);
}

/* ---- sessions -------------------------------------------------------------------------------------------- */

static const struct opt session_create_opts[] = {
	OPT_WORKDIR(struct run_options),
	OPT_OUTPUT(struct run_options, output_table),
	{ 0 },
};

static int session_create(int argc, char **argv, void *arg)
{
	AUTO(osb_free) struct osb_session *session = NULL;
	struct run_options o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s;

	s = cli_begin_in(cli, argc, argv, &o);
	if (!s)
		return cli->status;
	if (cli_wait(cli, NULL, osb_session_create(s, o.workdir, &session, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_show_panel(cli, cli_object(cli, "sandbox_id", cli->operands[0], "session_id", session->id, "working_directory", o.workdir,
					      NULL),
			      "Session Created");
}

static int session_run(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf text = BUF_INIT(COMMAND_MAX);
	struct run_options o = { 0 };
	struct osb_command command;
	struct cli *cli = arg;
	struct osb_sandbox *s;

	if (!cli_begin(cli, argc, argv, &o) || make_command(cli, &o, 2, &text, &command) < 0)
		return cli->status;
	s = cli_connect(cli, cli->operands[0]);
	return s ? stream_session(cli, s, cli->operands[1], &command) : cli->status;
}

static int session_delete(int argc, char **argv, void *arg)
{
	struct only_output o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s;

	s = cli_begin_in(cli, argc, argv, &o);
	if (!s)
		return cli->status;
	if (cli_wait(cli, NULL, osb_session_delete(s, cli->operands[1], cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_success(cli, "Deleted session: %s", cli->operands[1]);
}

/* ---- the groups ------------------------------------------------------------------------------------------ */

#define EXECUTION .operands = "SANDBOX EXECUTION", .min_operands = 2, .max_operands = 2, CLI_COMPLETES_SANDBOX
#define PAYLOAD "Options of osb stand before '--', what follows it is the command's own. "
#define OWN_STATUS "The status is the command's."

static const struct opt_command session_commands[] = {
	{ .name = "create", .summary = "start a session: a shell that keeps its state",
	  .opts = session_create_opts, .run = session_create,
	  .operands = "SANDBOX", .min_operands = 1, .max_operands = 1, CLI_COMPLETES_SANDBOX },
	{ .name = "run", .summary = "run a command in a session", .opts = session_run_opts,
	  .run = session_run,
	  .operands = "SANDBOX SESSION -- COMMAND...", .min_operands = 3, .max_operands = OPT_OPERANDS_ANY, CLI_COMPLETES_SANDBOX,
	  .about = PAYLOAD OWN_STATUS },
	{ .name = "delete", .summary = "end a session", .opts = cli_table_opts, .run = session_delete,
	  .operands = "SANDBOX SESSION", .min_operands = 2, .max_operands = 2, CLI_COMPLETES_SANDBOX },
	{ 0 },
};

const struct opt_command command_commands[] = {
	{ .name = "run", .summary = "run a command", .opts = run_opts, .run = command_run, .operands = "SANDBOX -- COMMAND...",
	  .min_operands = 2, .max_operands = OPT_OPERANDS_ANY, CLI_COMPLETES_SANDBOX, .about = PAYLOAD OWN_STATUS },
	{ .name = "status", .summary = "show the state of a command", .opts = cli_table_opts,
	  .run = command_status, EXECUTION },
	{ .name = "logs", .summary = "show the output of a background command", .opts = logs_opts,
	  .run = command_logs, EXECUTION },
	{ .name = "interrupt", .summary = "interrupt a command", .opts = cli_table_opts, .run = command_interrupt, EXECUTION },
	{ .name = "session", .summary = "sessions: shells that keep their state between commands",
	  .commands = session_commands },
	{ 0 },
};
