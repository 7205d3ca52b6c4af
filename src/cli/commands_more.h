// SPDX-License-Identifier: Apache-2.0
/* cli/commands_more.h - commands that the published CLI does not have, and helpers that they share. Their
 * rows are in tree.c. */
#pragma once
#include "base/opt.h"

struct file_transfer;
struct cli;
struct osb_bytes;
struct osb_call;
struct osb_client;

/* ---- groups ---- */
extern const struct opt_command cli_code_commands[];
extern const struct opt_command cli_image_commands[];
extern const struct opt_command cli_pool_commands[];
extern const struct opt_command cli_snapshot_commands[];
extern const struct opt_command cli_volume_commands[];

/* ---- commands that stand alone ---- */
extern const struct opt cli_run_opts[], cli_shell_opts[], cli_cp_opts[], cli_logs_opts[], cli_top_opts[],
	cli_fork_opts[],
	cli_rollback_opts[], cli_metadata_opts[], cli_up_opts[], cli_down_opts[];
int cmd_run(int argc, char **argv, void *arg);
int cmd_shell(int argc, char **argv, void *arg);
int cmd_cp(int argc, char **argv, void *arg);
int cmd_logs(int argc, char **argv, void *arg);
int cmd_top(int argc, char **argv, void *arg);
int cmd_fork(int argc, char **argv, void *arg);
int cmd_rollback(int argc, char **argv, void *arg);
int cmd_metadata(int argc, char **argv, void *arg);
int cmd_network(int argc, char **argv, void *arg);
int cmd_doctor(int argc, char **argv, void *arg);
int cmd_up(int argc, char **argv, void *arg);
int cmd_down(int argc, char **argv, void *arg);

/* ---- what they share ---- */

/* A command that removes each of its operands; WHAT they are, for the result: [{"image": "x", "status":
 * "removed"}]. The first that fails ends it, after what was removed has been shown. */
typedef int more_remove_fn(struct cli *cli, const char *name, struct osb_call *call);
int more_remove(struct cli *cli, int argc, char **argv, const char *what, more_remove_fn *fn);

/* A command that shows {"items": [...]} of the API: as it is, or as a table (see api_rows()); TITLE is what
 * there are. */
typedef int more_list_fn(struct osb_client *c, struct osb_bytes **ret, struct osb_call *call);
int more_list(struct cli *cli, int argc, char **argv, more_list_fn *fn, const char *const *paths,
	      const char *const *columns,
	      const char *title);
int more_show_items(struct cli *cli, const struct osb_bytes *answer, const char *const *paths,
		    const char *const *columns,
		    const char *title);

/* After an operation that took its body from T, or gave it one: BEGUN is what cli_wait() returned. CLI_OK, or
 * why not has been said. */
int more_carried(struct cli *cli, const struct file_transfer *t, int begun);
/* The end of a command that writes what the server sends to T. */
int more_save(struct cli *cli, struct file_transfer *t, int begun);
