// SPDX-License-Identifier: Apache-2.0
/* cli/cli.h - what every command of osb uses: arguments, settings, a client and the output.
 *
 *     static int sandbox_get(int argc, char **argv, void *arg)
 *     {
 *             AUTO(osb_free) struct osb_sandbox_info *info = NULL;
 *             struct cli *cli = arg;
 *             struct only_output o = { 0 };
 *
 *             if (!cli_begin(cli, argc, argv, &o))             help was shown, or the arguments are wrong
 *                     return cli->status;
 *             if (!cli_client(cli) ||
 *                 cli_wait(cli, NULL, osb_sandbox_get(cli->client, cli->operands[0], &info, cli_call(cli))) < 0)
 *                     return cli_fail_call(cli);
 *             return cli_show(cli, cli_tree(cli, info), "Sandbox Info");
 *     }
 *
 * The result of a command is its exit status: 0, 1 (failed) or 2 (wrong command line), or that of the program
 * that it ran. */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/opt.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "client/opensandbox.h"

struct err;
struct json;

#define CLI_ARENA_MAX ((size_t)256 * 1024 * 1024)
#define CLI_PATH_SIZE 128

enum { CLI_OK, CLI_FAILED, CLI_USAGE };

struct cli {
	struct arena arena; /* for whatever lives as long as the command */
	const char *const *env;
	const struct opt_command *program, *command; /* the whole tree, and the row of the one that runs */
	char path[CLI_PATH_SIZE]; /* how it is called: "osb sandbox get" */
	struct settings_flags flags;
	bool is_verbose, is_plain;
	struct settings settings; /* after cli_begin() */
	struct output out;        /* after cli_begin() */
	char **operands;          /* ended by NULL */
	int n_operands;
	int status;                  /* to be returned when something below says that it is over */
	struct osb_client *client;   /* after cli_client() */
	struct osb_call *call;       /* of what is under way */
	volatile sig_atomic_t interrupts; /* how often it was told to end, by Ctrl-C or SIGTERM */
};

void cli_done(struct cli *cli);

/* Reads the words of the command by its table, the settings, and the output format from an option called
 * "output", whose first choice is the default. False: it is over, return cli->status. The other one does not
 * read the settings file. */
bool cli_begin(struct cli *cli, int argc, char **argv, void *values);
bool cli_begin_local(struct cli *cli, int argc, char **argv, void *values);

/* cli_begin(), and the sandbox that the first operand names, as cli_connect() has it. NULL: it is over. */
struct osb_sandbox *cli_begin_in(struct cli *cli, int argc, char **argv, void *values);

/* For commands whose options are -o alone. */
struct only_output {
	const char *output;
};
extern const struct opt cli_table_opts[], cli_raw_opts[];

/* The row for a table of options: OPT_OUTPUT(struct x, output_table). */
#define OPT_OUTPUT(type_, choices_) \
	OPT(type_, output, OPT_STRING, "output", 'o', "FORMAT", "Write the result as FORMAT.", .choices = (choices_), .ignores_case = true)
/* What the shell offers for an operand that is a sandbox. */
#define CLI_COMPLETES_SANDBOX .completes = "osb completion sandboxes"

/* The DURATION of an option, which may be NULL: then nothing is written. -1: it is none, return
 * cli->status. */
int cli_milliseconds(struct cli *cli, const char *duration, unsigned *ret_ms);

/* ---- the server ---- */

/* NULL: it has been said why, return cli->status. */
struct osb_client *cli_client(struct cli *cli);
/* A sandbox whose health nobody has looked at. NULL as above. It goes with the client. */
struct osb_sandbox *cli_connect(struct cli *cli, const char *id);
/* The call for the next operation. Ctrl-C cancels it. NULL without memory: the operation then does
 * without. */
struct osb_call *cli_call(struct cli *cli);
/* Waits for what cli_call() was given to, and says meanwhile what is DOING ("Creating sandbox...", or NULL).
 * BEGUN is what the operation returned. -1: cli_fail_call() tells why. */
int cli_wait(struct cli *cli, const char *doing, int begun);
const struct osb_error *cli_error(const struct cli *cli); /* of the last operation */

/* ---- trees ---- */

/* A result of the library, or text that is JSON, as a tree in the arena. NULL: out of memory or no JSON;
 * cli_show() copes. */
const struct json *cli_tree(struct cli *cli, const void *result);
const struct json *cli_parse(struct cli *cli, struct str json);
/* {"a": "x", "b": null}: cli_object(cli, "a", "x", "b", NULL, NULL), keys and values in turn, ended by
 * NULL. */
const struct json *cli_object_of(struct cli *cli, const char *const *words, size_t n);
#define CLI_WORDS(...) ((const char *const[]){ __VA_ARGS__ })
#define cli_object(cli_, ...) cli_object_of((cli_), CLI_WORDS(__VA_ARGS__), sizeof(CLI_WORDS(__VA_ARGS__)) / sizeof(const char *))

/* ---- the end of a command: all return its status ---- */

/* Results; V may be NULL after a failure of the above. */
int cli_show(struct cli *cli, const struct json *v, const char *title);
int cli_show_rows(struct cli *cli, const struct json *v, const char *const *columns, const char *title);
int cli_show_panel(struct cli *cli, const struct json *v, const char *title);
int cli_success(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

int cli_fail(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));  /* "Error: ..." */
/* and how it is written */
int cli_usage(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int cli_fail_err(struct cli *cli, const struct err *e);
int cli_fail_usage(struct cli *cli, const struct err *e);
int cli_fail_call(struct cli *cli); /* the last operation's error, or what has been said already */

/* Warns, on stderr, of a file of WHAT ("settings", "--token-file") that other users can read or change. */
void cli_warn_of_secret(const char *what, const char *path, bool has_secret);

static inline void osb_freep(void *p)
{
	osb_free(*(void **)p);
}
