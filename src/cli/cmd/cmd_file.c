// SPDX-License-Identifier: Apache-2.0
/* osb file: all but what moves contents (cmd_file_content.c). */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "cli/cli.h"
#include "cli/cmd/cmd_file.h"
#include "cli/commands.h"
#include "cli/values.h"

#include "base/banned.h"

#define ROWS_MAX ((size_t)16 * 1024 * 1024)

static struct osb_strings paths_of(const struct cli *cli)
{
	return (struct osb_strings){ (const char *const *)(cli->operands + 1), (size_t)cli->n_operands - 1 };
}

/* [{"path": ..., "status": STATUS}] for all paths. */
static int show_paths(struct cli *cli, const char *status, const char *title)
{
	static const char *const columns[] = { "path", "status", NULL };
	AUTO(buf_done) struct buf b = BUF_INIT(ROWS_MAX);
	struct json_out o = json_out(&b);

	json_open(&o, '[');
	for (int i = 1; i < cli->n_operands; i++) {
		json_open(&o, '{');
		json_key(&o, "path"), json_cstr(&o, cli->operands[i]);
		json_key(&o, "status"), json_cstr(&o, status);
		json_close(&o, '}');
	}
	json_close(&o, ']');
	return cli_show_rows(cli, cli_parse(cli, buf_str(&b)), columns, title);
}

/* ---- rm, rmdir, mv --------------------------------------------------------------------------------------- */

typedef int delete_fn(struct osb_sandbox *s, const struct osb_strings *paths, struct osb_call *call);

static int delete_paths(struct cli *cli, int argc, char **argv, delete_fn *delete_all, const char *status, const char *title)
{
	struct only_output o = { 0 };
	struct osb_sandbox *s = cli_begin_in(cli, argc, argv, &o);
	struct osb_strings paths;

	if (!s)
		return cli->status;
	paths = paths_of(cli);
	if (cli_wait(cli, NULL, delete_all(s, &paths, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return show_paths(cli, status, title);
}

static int file_rm(int argc, char **argv, void *arg)
{
	return delete_paths(arg, argc, argv, osb_file_delete, "deleted", "Deleted Files");
}

static int file_rmdir(int argc, char **argv, void *arg)
{
	return delete_paths(arg, argc, argv, osb_directory_delete, "removed", "Removed Directories");
}

static int file_mv(int argc, char **argv, void *arg)
{
	struct only_output o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s = cli_begin_in(cli, argc, argv, &o);

	if (!s)
		return cli->status;
	if (cli_wait(cli, NULL, osb_file_move(s, &(struct osb_move){ cli->operands[1], cli->operands[2] }, 1, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_success(cli, "Moved: %s → %s", cli->operands[1], cli->operands[2]);
}

/* ---- mkdir, chmod ---------------------------------------------------------------------------------------- */

struct entry_options {
	const char *output, *mode, *owner, *group;
};

static const struct opt mkdir_opts[] = {
	OPT(struct entry_options, mode, OPT_STRING, "mode", 0, "MODE", "Its permissions: 755."),
	OPT(struct entry_options, owner, OPT_STRING, "owner", 0, "NAME", "Whose it is."),
	OPT(struct entry_options, group, OPT_STRING, "group", 0, "NAME", "Group."),
	OPT_OUTPUT(struct entry_options, output_table),
	{ 0 },
};
static const struct opt chmod_opts[] = {
	OPT(struct entry_options, mode, OPT_STRING, "mode", 0, "MODE", "The new permissions: 644.", .is_required = true),
	OPT(struct entry_options, owner, OPT_STRING, "owner", 0, "NAME", "New owner."),
	OPT(struct entry_options, group, OPT_STRING, "group", 0, "NAME", "New group."),
	OPT_OUTPUT(struct entry_options, output_table),
	{ 0 },
};

int file_mode(struct cli *cli, const char *text, int *ret)
{
	struct err e = { 0 };

	*ret = FILE_MODE_DEFAULT;
	if (text && value_mode(text, ret, &e) < 0) {
		(void)cli_fail_usage(cli, &e);
		return -1;
	}
	return 0;
}

static int file_mkdir(int argc, char **argv, void *arg)
{
	struct entry_options o = { 0 };
	struct osb_entry *entries;
	struct cli *cli = arg;
	struct osb_sandbox *s;
	size_t n;
	int mode;

	if (!cli_begin(cli, argc, argv, &o) || file_mode(cli, o.mode, &mode) < 0)
		return cli->status;
	s = cli_connect(cli, cli->operands[0]);
	if (!s)
		return cli->status;
	n = (size_t)cli->n_operands - 1;
	entries = arena_array(&cli->arena, n, sizeof(*entries));
	if (!entries)
		return cli_fail(cli, "out of memory");
	for (size_t i = 0; i < n; i++)
		entries[i] = (struct osb_entry){ cli->operands[i + 1], o.owner, o.group, mode };
	if (cli_wait(cli, NULL, osb_directory_create(s, entries, n, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return show_paths(cli, "created", "Created Directories");
}

static int file_chmod(int argc, char **argv, void *arg)
{
	struct entry_options o = { 0 };
	struct cli *cli = arg;
	struct osb_entry entry;
	struct osb_sandbox *s;
	int mode;

	if (!cli_begin(cli, argc, argv, &o) || file_mode(cli, o.mode, &mode) < 0)
		return cli->status;
	s = cli_connect(cli, cli->operands[0]);
	if (!s)
		return cli->status;
	entry = (struct osb_entry){ cli->operands[1], o.owner, o.group, mode };
	if (cli_wait(cli, NULL, osb_file_chmod(s, &entry, 1, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_success(cli, "Permissions set: %s", cli->operands[1]);
}

/* ---- search, info ---------------------------------------------------------------------------------------- */

struct search_options {
	const char *output, *pattern;
};

static const struct opt search_opts[] = {
	OPT(struct search_options, pattern, OPT_STRING, "pattern", 'p', "GLOB", "Pattern of names: *.py.",
	    .is_required = true),
	OPT_OUTPUT(struct search_options, output_table),
	{ 0 },
};

static int file_search(int argc, char **argv, void *arg)
{
	static const char *const columns[] = { "path", "size", "owner", NULL };
	AUTO(osb_free) struct osb_files *files = NULL;
	struct search_options o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s = cli_begin_in(cli, argc, argv, &o);

	if (!s)
		return cli->status;
	if (cli_wait(cli, NULL, osb_file_search(s, cli->operands[1], o.pattern, &files, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	if (files->n == 0 && output_is_people(&cli->out))
		return output_info(&cli->out, "No files found.") == 0 ? CLI_OK : CLI_FAILED;
	return cli_show_rows(cli, cli_tree(cli, files), columns, "Search Results");
}

static int file_info(int argc, char **argv, void *arg)
{
	static const char *const columns[] = { "path", "size", "mode", "owner", "group", "created_at", "modified_at", NULL };
	AUTO(osb_free) struct osb_files *files = NULL;
	struct only_output o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s = cli_begin_in(cli, argc, argv, &o);
	struct osb_strings paths;

	if (!s)
		return cli->status;
	paths = paths_of(cli);
	if (cli_wait(cli, NULL, osb_file_info(s, &paths, &files, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_show_rows(cli, cli_tree(cli, files), columns, "Path Info");
}

/* ---- replace --------------------------------------------------------------------------------------------- */

struct replace_options {
	const char *output, *old, *new;
};

static const struct opt replace_opts[] = {
	OPT(struct replace_options, old, OPT_STRING, "old", 0, "TEXT", "Text to replace, at all places.",
	    .is_required = true),
	OPT(struct replace_options, new, OPT_STRING, "new", 0, "TEXT", "Replacement text.",
	    .is_required = true),
	OPT_OUTPUT(struct replace_options, output_table),
	{ 0 },
};

static int file_replace_text(int argc, char **argv, void *arg)
{
	struct replace_options o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s = cli_begin_in(cli, argc, argv, &o);

	if (!s)
		return cli->status;
	if (cli_wait(cli, NULL, osb_file_replace(s, &(struct osb_replace){ cli->operands[1], o.old, o.new }, 1, NULL, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_success(cli, "Replaced in: %s", cli->operands[1]);
}

/* ---- the group ------------------------------------------------------------------------------------------- */

#define OPERANDS(text_, n_) .operands = (text_), .min_operands = (n_), .max_operands = (n_), CLI_COMPLETES_SANDBOX
#define MANY_PATHS .operands = "SANDBOX PATH...", .min_operands = 2, .max_operands = OPT_OPERANDS_ANY, CLI_COMPLETES_SANDBOX

const struct opt_command file_commands[] = {
	{ .name = "cat", .summary = "write a file to standard output", .opts = file_cat_opts, .run = file_cat, OPERANDS("SANDBOX PATH", 2) },
	{ .name = "write", .summary = "write text into a file", .opts = file_write_opts, .run = file_write, OPERANDS("SANDBOX PATH", 2) },
	{ .name = "upload", .summary = "copy a local file into a sandbox", .opts = cli_table_opts, .run = file_upload,
	  OPERANDS("SANDBOX LOCAL REMOTE", 3) },
	{ .name = "download", .summary = "copy a file out of a sandbox", .opts = cli_table_opts, .run = file_download,
	  OPERANDS("SANDBOX REMOTE LOCAL", 3), .about = "The local file is complete or absent." },
	{ .name = "rm", .summary = "remove files", .opts = cli_table_opts, .run = file_rm, MANY_PATHS },
	{ .name = "mv", .summary = "move a file", .opts = cli_table_opts, .run = file_mv, OPERANDS("SANDBOX SOURCE DESTINATION", 3) },
	{ .name = "mkdir", .summary = "make folders", .opts = mkdir_opts, .run = file_mkdir, MANY_PATHS },
	{ .name = "rmdir", .summary = "remove folders with all that is in them", .opts = cli_table_opts, .run = file_rmdir, MANY_PATHS },
	{ .name = "search", .summary = "find files by their names", .opts = search_opts, .run = file_search, OPERANDS("SANDBOX FOLDER", 2) },
	{ .name = "info", .summary = "show sizes, owners and permissions", .opts = cli_table_opts, .run = file_info, MANY_PATHS },
	{ .name = "chmod", .summary = "change the permissions of a file", .opts = chmod_opts, .run = file_chmod, OPERANDS("SANDBOX PATH", 2) },
	{ .name = "replace", .summary = "replace text in a file", .opts = replace_opts, .run = file_replace_text,
	  OPERANDS("SANDBOX PATH", 2) },
	{ 0 },
};
