// SPDX-License-Identifier: Apache-2.0
/* osb config: these commands work also with a file that cannot be read as settings, so that it can be mended. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/config_edit.h"
#include "cli/copy/copy_local.h"
#include "sys/fd.h"

#include "base/banned.h"

#define NEW_MODE 0600 /* there may be a key in it */
#define TREE_MAX ((size_t)64 * 1024)

int config_write_file(const char *path, struct str text, mode_t mode, struct err *e)
{
	AUTO(free) char *real = realpath(path, NULL);
	const char *at = real ? real : path, *slash = strrchr(at, '/');
	AUTO(free) char *folder = slash ? strndup(at, slash == at ? 1 : (size_t)(slash - at)) : strdup(".");
	AUTO_FD dirfd = -1;

	if (!folder)
		return err_no_memory(e);
	dirfd = copy_local_top(folder, e);
	return dirfd < 0 ? -1 : file_replace(dirfd, slash ? slash + 1 : at, text, mode, e);
}

/* ---- init ------------------------------------------------------------------------------------------------ */

struct init_options {
	const char *output;
	bool force;
};

static const struct opt init_opts[] = {
	OPT(struct init_options, force, OPT_FLAG, "force", 0, NULL, "Replace a file that exists."),
	OPT_OUTPUT(struct init_options, output_table),
	{ 0 },
};

static int config_init(int argc, char **argv, void *arg)
{
	struct init_options o = { 0 };
	struct cli *cli = arg;
	struct err e = { 0 };
	struct stat st;

	if (!cli_begin_local(cli, argc, argv, &o))
		return cli->status;
	if (!o.force && stat(cli->settings.path, &st) == 0)
		return output_warning(&cli->out, "Config file already exists at %s. Use --force to overwrite.", cli->settings.path) == 0
			       ? CLI_OK
			       : CLI_FAILED;
	if (config_write_file(cli->settings.path, str_of(config_template), NEW_MODE, &e) < 0)
		return cli_fail_err(cli, &e);
	return cli_success(cli, "Config file created: %s", cli->settings.path);
}

/* ---- show ------------------------------------------------------------------------------------------------ */

/* Enough to tell two keys apart, and no more. */
static const char *mask(struct cli *cli, const char *key)
{
	size_t n = key ? strlen(key) : 0;
	char *copy = key ? arena_strndup(&cli->arena, key, n) : NULL;

	for (size_t i = n > 4 ? 2 : 0; copy && i < (n > 4 ? n - 2 : n); i++)
		copy[i] = '*';
	return copy;
}

static const struct json *settings_tree(struct cli *cli, const struct settings *s)
{
	AUTO(buf_done) struct buf b = BUF_INIT(TREE_MAX);
	struct json_out o = json_out(&b);

	json_open(&o, '{');
	json_key(&o, "api_key"), json_cstr(&o, mask(cli, s->api_key));
	json_key(&o, "domain"), json_cstr(&o, s->domain);
	json_key(&o, "protocol"), json_cstr(&o, s->protocol);
	json_key(&o, "request_timeout"), json_int(&o, s->request_timeout_s);
	json_key(&o, "use_server_proxy"), json_bool(&o, s->use_server_proxy);
	json_key(&o, "color"), json_bool(&o, s->color);
	json_key(&o, "default_image"), json_cstr(&o, s->default_image);
	json_key(&o, "default_timeout"), json_cstr(&o, s->default_timeout);
	json_key(&o, "config_path"), json_cstr(&o, s->path);
	json_key(&o, "config_file_exists"), json_bool(&o, s->file_exists);
	json_close(&o, '}');
	return cli_parse(cli, buf_str(&b));
}

static int config_show(int argc, char **argv, void *arg)
{
	struct only_output o = { 0 };
	struct cli *cli = arg;
	struct settings s;
	struct err e = { 0 };

	if (!cli_begin_local(cli, argc, argv, &o))
		return cli->status;
	if (settings_load(&cli->flags, cli->env, &cli->arena, &s, &e) < 0)
		return cli_fail_err(cli, &e);
	return cli_show(cli, settings_tree(cli, &s), "Resolved Configuration");
}

/* ---- set ------------------------------------------------------------------------------------------------- */

static int config_set(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf old = BUF_INIT(SETTINGS_FILE_MAX), new = BUF_INIT(SETTINGS_FILE_MAX);
	struct only_output o = { 0 };
	struct str section, field;
	struct cli *cli = arg;
	struct err e = { 0 };
	struct stat st;

	if (!cli_begin_local(cli, argc, argv, &o))
		return cli->status;
	if (stat(cli->settings.path, &st) < 0)
		return cli_fail(cli, "Config file not found: %s. Run 'osb config init' first.", cli->settings.path);
	if (!str_cut(str_of(cli->operands[0]), '.', &section, &field))
		return cli_fail(cli, "Key must be in 'section.field' format (e.g. connection.domain).");
	if (fd_read_file(AT_FDCWD, cli->settings.path, SETTINGS_FILE_MAX, &old, &e) < 0)
		return cli_fail_err(cli, &e);
	config_edit(buf_str(&old), section, field, str_of(cli->operands[1]), &new);
	if (new.failed)
		return cli_fail(cli, "the settings become too long");
	if (settings_check(buf_str(&new), &cli->arena, &e) < 0)
		return cli_fail(cli, "that would make the settings unreadable: %s", e.msg);
	if (str_is(str_of(cli->operands[0]), "connection.api_key"))
		st.st_mode &= NEW_MODE; /* whoever made the file did not know of this */
	if (config_write_file(cli->settings.path, buf_str(&new), st.st_mode & 0777, &e) < 0)
		return cli_fail_err(cli, &e);
	return cli_success(cli, "Set %s = %s", cli->operands[0], cli->operands[1]);
}

const struct opt_command config_commands[] = {
	{ .name = "init", .summary = "write a settings file with every key in it", .opts = init_opts, .run = config_init },
	{ .name = "show", .summary = "show the settings in effect", .opts = cli_table_opts, .run = config_show,
	  .about = "The result of options, environment and file. The key is not shown." },
	{ .name = "set", .summary = "change one of the settings", .opts = cli_table_opts, .run = config_set, .operands = "SECTION.FIELD VALUE",
	  .min_operands = 2, .max_operands = 2 },
	{ 0 },
};
