// SPDX-License-Identifier: Apache-2.0
/* The commands of osb, and the way from words to one of them. */
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/cmd/cmd_sandbox.h"
#include "cli/commands.h"
#include "cli/commands_more.h"

#include "base/banned.h"

#define HELP_MAX ((size_t)256 * 1024)

static const char *const protocols[] = { "http", "https", NULL };

static const struct opt options[] = {
	OPT(struct cli, flags.api_key, OPT_STRING, "api-key", 0, "KEY", "API key of the server."),
	OPT(struct cli, flags.domain, OPT_STRING, "domain", 0, "HOST:PORT",
	    "Address of the server, with or without a scheme. Default: localhost:8080."),
	OPT(struct cli, flags.protocol, OPT_STRING, "protocol", 0, "PROTOCOL", "Protocol of the server.",
	    .choices = protocols),
	OPT(struct cli, flags.request_timeout_s, OPT_INT, "request-timeout", 0, "SECONDS",
	    "Timeout for an answer; 0: the default.", .min = 0, .max = 86400),
	OPT(struct cli, flags.use_server_proxy, OPT_TOGGLE, "use-server-proxy", 0, NULL,
	    "Reach sandboxes through the server, not by addresses of their own."),
	OPT(struct cli, flags.config, OPT_STRING, "config", 0, "FILE", "Read the settings from FILE.", .is_file = true),
	OPT(struct cli, is_verbose, OPT_FLAG, "verbose", 'v', NULL, "Print more to standard error."),
	OPT(struct cli, is_plain, OPT_FLAG, "no-color", 0, NULL, "No colours, no pictures, and JSON in ASCII."),
	{ 0 },
};

static const struct opt_section sections[] = {
	{ "ENVIRONMENT", "OPEN_SANDBOX_API_KEY, OPEN_SANDBOX_DOMAIN, OPEN_SANDBOX_PROTOCOL", "As the options of these names." },
	{ "ENVIRONMENT", "OPEN_SANDBOX_REQUEST_TIMEOUT", "Whole seconds; anything else is ignored." },
	{ "ENVIRONMENT", "OPEN_SANDBOX_USE_SERVER_PROXY", "1, true, yes or on; 0, false, no or off; anything else is ignored." },
	{ "ENVIRONMENT", "NO_COLOR", "Set and not empty: no colours." },
	{ "FILES", "~/.opensandbox/config.toml",
	  "Settings, see 'osb config'. Options precede the environment, which precedes the file." },
	{ "EXIT STATUS", "0", "It is done." },
	{ "EXIT STATUS", "1", "It failed; standard error says why, and what to do next." },
	{ "EXIT STATUS", "2", "Wrong command line." },
	{ "EXIT STATUS", "other", "Of a program that was run in a sandbox: its own status." },
	{ 0 },
};

static const struct opt_command commands[] = {
	{ .name = "run", .summary = "run one command in a new sandbox", .operands = "IMAGE [--] COMMAND...", .opts = cli_run_opts,
	  .max_operands = OPT_OPERANDS_ANY, .stops_at_operand = true, .run = cmd_run,
	  .about = "Makes a sandbox, runs COMMAND in it with the standard streams of osb for its own, deletes the sandbox, and exits with "
		   "the status of COMMAND: 124 if it took too long, 125 if there was no sandbox for it, 128 and the number of the signal "
		   "that ended it. Ctrl-C and SIGTERM end it and delete the sandbox; if osb is killed, the sandbox ends by itself in five "
		   "minutes. Without a COMMAND, on a terminal, it is a shell." },
	{ .name = "shell", .summary = "open a shell in a sandbox", .operands = "SANDBOX [--] [COMMAND...]",
	  .opts = cli_shell_opts, .min_operands = 1,
	  .max_operands = OPT_OPERANDS_ANY, .stops_at_operand = true, CLI_COMPLETES_SANDBOX, .run = cmd_shell,
	  .about = "Runs a shell, or COMMAND, on a terminal in SANDBOX, and exits with its status.\n\n"
		   "At the beginning of a line '~.' leaves and ends it, '~d' leaves it running to come back to, '~?' lists these." },
	{ .name = "cp", .summary = "copy files and folders from or to a sandbox", .operands = "SOURCE... TARGET", .opts = cli_cp_opts,
	  .min_operands = 2, .max_operands = OPT_OPERANDS_ANY, .run = cmd_cp,
	  .about = "SANDBOX:PATH is in a sandbox, any other path is here, and '-' is a standard stream. A folder is copied with all that is in "
		   "it; FOLDER/. is only what is in it. If TARGET is a folder, or ends with '/', things go into it. Modes are kept, and "
		   "links stay links.\n\n"
		   "A copy from a sandbox never writes outside TARGET." },
	{ .name = "logs", .summary = "output of the first program of a sandbox", .operands = "SANDBOX",
	  .opts = cli_logs_opts,
	  .min_operands = 1, .max_operands = 1, CLI_COMPLETES_SANDBOX, .run = cmd_logs },
	{ .name = "top", .summary = "all sandboxes and what they use, live", .opts = cli_top_opts, .run = cmd_top,
	  .about = "Keys: q quits; c, m and a sort by CPU, memory and age." },
	{ .name = "ps", .summary = "list sandboxes", .opts = sandbox_list_opts, .run = sandbox_list, .about = "The same as 'osb sandbox list'." },
	{ .name = "rm", .summary = "end sandboxes", .operands = "SANDBOX...", .opts = cli_table_opts, .min_operands = 1,
	  .max_operands = OPT_OPERANDS_ANY, CLI_COMPLETES_SANDBOX, .run = sandbox_kill, .about = "The same as 'osb sandbox kill'." },
	{ .name = "sandbox", .summary = "make, list, look at and end sandboxes", .commands = sandbox_commands },
	{ .name = "command", .summary = "run commands in a sandbox", .commands = command_commands },
	{ .name = "file", .summary = "read, write, move and find files of a sandbox", .commands = file_commands },
	{ .name = "egress", .summary = "network policy of a sandbox", .commands = egress_commands },
	{ .name = "credential-vault", .summary = "secrets that a sandbox uses without seeing them",
	  .commands = vault_commands },
	{ .name = "code", .summary = "run programs in an interpreter", .commands = cli_code_commands },
	{ .name = "image", .summary = "images that the server has", .commands = cli_image_commands },
	{ .name = "snapshot", .summary = "snapshots: saved files of a sandbox",
	  .commands = cli_snapshot_commands },
	{ .name = "fork", .summary = "create sandboxes with the files of another", .operands = "SANDBOX",
	  .opts = cli_fork_opts,
	  .min_operands = 1, .max_operands = 1, CLI_COMPLETES_SANDBOX, .run = cmd_fork },
	{ .name = "rollback", .summary = "return a sandbox to a snapshot", .operands = "SANDBOX SNAPSHOT",
	  .opts = cli_rollback_opts,
	  .min_operands = 2, .max_operands = 2, CLI_COMPLETES_SANDBOX, .run = cmd_rollback,
	  .about = "Its processes end, its files become those of the snapshot, and it starts anew, with the same id. Variables of its "
		   "environment are not kept anywhere: --env names those that it has from then on." },
	{ .name = "pool", .summary = "pools of idle sandboxes", .commands = cli_pool_commands },
	{ .name = "volume", .summary = "volumes: disks that outlive sandboxes",
	  .commands = cli_volume_commands },
	{ .name = "network", .summary = "targets that a sandbox tried to reach", .operands = "SANDBOX",
	  .opts = cli_table_opts, .min_operands = 1,
	  .max_operands = 1, CLI_COMPLETES_SANDBOX, .run = cmd_network },
	{ .name = "metadata", .summary = "show or change metadata of a sandbox",
	  .operands = "SANDBOX [KEY=VALUE|KEY-]...",
	  .opts = cli_metadata_opts, .min_operands = 1, .max_operands = OPT_OPERANDS_ANY, CLI_COMPLETES_SANDBOX, .run = cmd_metadata,
	  .about = "KEY=VALUE sets KEY, KEY- removes it." },
	{ .name = "diagnostics", .summary = "logs and events of a sandbox", .commands = diagnostics_commands },
	{ .name = "devops", .summary = "the same as plain text, in its older form", .commands = devops_commands },
	{ .name = "up", .summary = "start a server on this machine", .opts = cli_up_opts, .run = cmd_up,
	  .about = "Starts the opensandbox-server that is installed beside osb, in the background, with a configuration and a key of its own "
		   "in ~/.opensandbox, waits until it answers, and points the settings at it. If it runs already, it says so. Needs root." },
	{ .name = "down", .summary = "stop the server that 'osb up' started", .opts = cli_down_opts,
	  .run = cmd_down,
	  .about = "Deletes its sandboxes, then ends it. With --keep they go on, and the next 'osb up' finds them. No other server is touched." },
	{ .name = "doctor", .summary = "check settings, server and this machine", .opts = cli_table_opts,
	  .run = cmd_doctor,
	  .about = "Looks at the settings, the server and the key, and at this machine where a server is installed." },
	{ .name = "config", .summary = "the settings of osb itself", .commands = config_commands },
	{ .name = "skills", .summary = "guides for coding assistants", .commands = skills_commands },
	{ .name = "mcp", .summary = "MCP server, so that models can use sandboxes",
	  .operands = "[serve | install CLIENT...]",
	  .opts = mcp_opts, .max_operands = OPT_OPERANDS_ANY, .run = mcp_run,
	  .about = "Speaks the Model Context Protocol over standard input and output, or over HTTP. 'osb mcp install' prints what a client "
		   "needs in its configuration to start it, or writes it there." },
	{ .name = "completion", .summary = "print a completion script", .operands = "bash|zsh|fish|sandboxes", .opts = completion_opts,
	  .min_operands = 1, .max_operands = 1, .run = completion_run,
	  .about = "Prints a script for the shell to source: eval \"$(osb completion bash)\". With 'sandboxes' it prints the ids of all "
		   "sandboxes, which is what these scripts ask for." },
	{ .name = "man", .summary = "show or write manual pages", .operands = "[COMMAND...]", .opts = man_opts,
	  .max_operands = OPT_DEPTH_MAX, .run = man_run,
	  .about = "Shows the page of a command ('osb man sandbox create'), or of osb. Where it is no terminal that reads it, the page "
		   "comes as its source." },
	{ 0 },
};

/* The whole tree, with the options that stand before a command (of struct cli). */
static const struct opt_command cli_program = {
	.name = "osb",
	.summary = "manage sandboxes from a terminal",
	.about = "Talks to an OpenSandbox server. Options that are said here stand before the command's name, its own behind it.",
	.version = OPENSANDBOX_VERSION,
	.opts = options,
	.commands = commands,
	.sections = sections,
};

/* ---- the way to a command -------------------------------------------------------------------------------- */

static int help(struct cli *cli, FILE *to)
{
	AUTO(buf_done) struct buf text = BUF_INIT(HELP_MAX);

	if (cli->command == &cli_program)
		buf_addf(&text, "OpenSandbox v%s\n", OPENSANDBOX_VERSION);
	opt_help(cli->command, cli->path, &text);
	return !text.failed && fputs(buf_z(&text), to) >= 0 ? CLI_OK : CLI_FAILED;
}

/* A group alone explains itself; the program alone does so too, but nothing was asked of it. */
static int run_alone(struct cli *cli)
{
	if (cli->command != &cli_program)
		return help(cli, stdout);
	(void)help(cli, stderr);
	return CLI_USAGE;
}

static void path_add(struct cli *cli, const char *name)
{
	size_t n = strlen(cli->path);

	/* The names are ours and short: they fit. */
	(void)snprintf(cli->path + n, sizeof(cli->path) - n, "%s%s", n > 0 ? " " : "", name);
}

int cli_run(struct cli *cli, int argc, char **argv)
{
	struct opt_result r;
	struct err e = { 0 };

	cli->program = cli->command = &cli_program;
	cli->flags.use_server_proxy = -1;
	path_add(cli, cli_program.name);
	while (cli->command->commands) {
		if (opt_parse(cli->command, argc, argv, cli, &r, &e) < 0)
			return cli_fail_usage(cli, &e);
		if (r.action == OPT_HELP)
			return help(cli, stdout);
		if (r.action == OPT_VERSION)
			return printf("opensandbox, version %s\n", OPENSANDBOX_VERSION) < 0 ? CLI_FAILED : CLI_OK;
		if (!r.command)
			return run_alone(cli);
		cli->command = r.command;
		path_add(cli, r.command->name);
		argc = r.argc;
		argv = r.argv;
	}
	return cli->command->run(argc, argv, cli);
}
