// SPDX-License-Identifier: Apache-2.0
/* cli/commands.h - the tree of commands: tree.c has a row for each group and for each command that stands
 * alone, the file cmd_X.c the rest. A row's run gets a struct cli (cli/cli.h) as its argument. */
#pragma once
#include "base/opt.h"

struct cli;

/* Finds the command that the words name and runs it; returns the exit status. */
int cli_run(struct cli *cli, int argc, char **argv);

/* ---- groups ---- */
extern const struct opt_command sandbox_commands[];
extern const struct opt_command command_commands[];
extern const struct opt_command file_commands[];
extern const struct opt_command egress_commands[];
extern const struct opt_command vault_commands[];
extern const struct opt_command config_commands[];
extern const struct opt_command diagnostics_commands[];
extern const struct opt_command devops_commands[];
extern const struct opt_command skills_commands[];

/* ---- commands that stand alone ---- */
extern const struct opt completion_opts[], man_opts[];
int completion_run(int argc, char **argv, void *arg);
int man_run(int argc, char **argv, void *arg);
extern const struct opt mcp_opts[];
int mcp_run(int argc, char **argv, void *arg);
