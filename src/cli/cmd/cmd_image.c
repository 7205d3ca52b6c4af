// SPDX-License-Identifier: Apache-2.0
/* osb image: images that the server has. */
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/commands_more.h"
#include "cli/copy/copy.h"
#include "cli/copy/file_transfer.h"
#include "cli/progress.h"
#include "sys/fd.h"

#include "base/banned.h"

#define PASSWORD_MAX 8192
#define NOTE_SIZE 160

struct image_options {
	const char *output, *platform, *username, *name;
	bool password_stdin, quiet;
};

#define OUTPUT OPT_OUTPUT(struct image_options, output_table)
#define QUIET OPT(struct image_options, quiet, OPT_FLAG, "quiet", 'q', NULL, "Show no progress.")
#define WHICH \
	OPT(struct image_options, platform, OPT_STRING, "platform", 0, "OS/ARCH", "Use the image for OS/ARCH. Default: the server's."), \
	OPT(struct image_options, username, OPT_STRING, "username", 'u', "NAME", "Log in to the registry as NAME."), \
	OPT(struct image_options, password_stdin, OPT_FLAG, "password-stdin", 0, NULL, "Read the password from standard input.")

static const struct opt pull_opts[] = { WHICH, QUIET, OUTPUT, { 0 } };
static const struct opt save_opts[] = { WHICH, QUIET, { 0 } };
static const struct opt load_opts[] = {
	OPT(struct image_options, name, OPT_STRING, "name", 0, "IMAGE",
	    "Name the image IMAGE, whatever its name in the archive."), QUIET, OUTPUT, { 0 },
};

/* ---- which image ---- */

static int read_password(const struct image_options *o, struct buf *out, struct err *e)
{
	if (o->password_stdin != (o->username != NULL))
		return err_set(e, ERR_INVALID, "--username and --password-stdin go together");
	if (!o->password_stdin)
		return 0;
	if (fd_read_all(STDIN_FILENO, PASSWORD_MAX, out, e) < 0)
		return err_wrap(e, "read the password");
	while (out->n > 0 && (out->p[out->n - 1] == '\n' || out->p[out->n - 1] == '\r'))
		out->p[--out->n] = '\0';
	return 0;
}

static int read_which(struct cli *cli, const struct image_options *o, struct buf *password, struct osb_pull *ret, struct err *e)
{
	struct str os, arch;

	*ret = (struct osb_pull){ .size = sizeof(*ret), .image = cli->operands[0], .username = o->username };
	if (read_password(o, password, e) < 0)
		return -1;
	if (o->username)
		ret->password = buf_z(password);
	if (!o->platform)
		return 0;
	if (!str_cut(str_of(o->platform), '/', &os, &arch) || os.n == 0 || arch.n == 0)
		return err_set(e, ERR_INVALID, "--platform: 'linux/amd64' is one");
	ret->platform.os = arena_dup(&cli->arena, os);
	ret->platform.arch = arena_dup(&cli->arena, arch);
	return ret->platform.os && ret->platform.arch ? 0 : err_no_memory(e);
}

/* ---- pull ---- */

struct pull_bar {
	struct progress bar;
	char note[NOTE_SIZE];
};

static void on_progress(const struct osb_progress *p, void *arg)
{
	struct pull_bar *b = arg;

	if (p->total_bytes > 0) {
		b->bar.note = STR("");
		b->bar.total = (uint64_t)p->total_bytes;
		progress_set(&b->bar, p->done_bytes > 0 ? (uint64_t)p->done_bytes : 0);
	} else if (p->status) {
		(void)snprintf(b->note, sizeof(b->note), "%s", p->status);
		progress_say(&b->bar, str_of(b->note));
	}
}

static int image_pull(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf password = BUF_INIT(PASSWORD_MAX + 1);
	struct image_options o = { 0 };
	struct cli *cli = arg;
	struct pull_bar bar;
	struct osb_pull pull;
	struct err e = { 0 };
	int begun;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (read_which(cli, &o, &password, &pull, &e) < 0)
		return cli_fail_usage(cli, &e);
	if (!cli_client(cli))
		return cli->status;
	progress_init(&bar.bar, STDERR_FILENO, o.quiet || !output_is_people(&cli->out), str_of(pull.image), PROGRESS_UNKNOWN);
	begun = cli_wait(cli, NULL, osb_image_pull(cli->client, &pull, on_progress, &bar, cli_call(cli)));
	progress_clear(&bar.bar);
	if (password.p)
		secret_wipe(password.p, password.n);
	return begun < 0 ? cli_fail_call(cli) : cli_success(cli, "Pulled: %s", pull.image);
}

/* ---- ls, rm ---- */

static const char *const image_paths[] = { "uri", "digest", "platform.arch", "size", NULL };
static const char *const image_columns[] = { "image", "digest", "arch", "size", NULL };

static int image_list(int argc, char **argv, void *arg)
{
	return more_list(arg, argc, argv, osb_image_list, image_paths, image_columns, "images");
}

static int remove_image(struct cli *cli, const char *name, struct osb_call *call)
{
	return osb_image_remove(cli->client, name, call);
}

static int image_remove(int argc, char **argv, void *arg)
{
	return more_remove(arg, argc, argv, "image", remove_image);
}

/* ---- load, save ---- */

static int image_load(int argc, char **argv, void *arg)
{
	AUTO(file_transfer_done) struct file_transfer t = FILE_TRANSFER_INIT;
	AUTO(osb_free) struct osb_bytes *answer = NULL;
	struct image_options o = { 0 };
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
	begun = cli_wait(cli, NULL, osb_image_load(cli->client, o.name, file_transfer_read, &t, &answer,
						   cli_call(cli)));
	if (more_carried(cli, &t, begun) != CLI_OK)
		return cli->status;
	return more_show_items(cli, answer, image_paths, image_columns, "images");
}

static int image_save(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf password = BUF_INIT(PASSWORD_MAX + 1);
	AUTO(file_transfer_done) struct file_transfer t = FILE_TRANSFER_INIT;
	struct image_options o = { 0 };
	struct cli *cli = arg;
	struct osb_pull pull;
	struct err e = { 0 };

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (read_which(cli, &o, &password, &pull, &e) < 0)
		return cli_fail_usage(cli, &e);
	if (file_transfer_open_out(&t, cli, cli->operands[1], str_of(pull.image), PROGRESS_UNKNOWN, o.quiet,
			      &e) < 0)
		return cli_fail_err(cli, &e);
	if (!cli_client(cli))
		return cli->status;
	return more_save(cli, &t, cli_wait(cli, NULL, osb_image_save(cli->client, &pull, file_transfer_write,
								     &t,
								     cli_call(cli))));
}

const struct opt_command cli_image_commands[] = {
	{ .name = "pull", .summary = "pull an image from its registry", .operands = "IMAGE", .opts = pull_opts, .min_operands = 1,
	  .max_operands = 1, .run = image_pull,
	  .about = "Asks the registry even if the image is present: its tag may have moved. Creates pull by themselves what is missing." },
	{ .name = "ls", .summary = "list the images that are present", .opts = cli_table_opts, .run = image_list },
	{ .name = "load", .summary = "load the images of an archive", .operands = "FILE|-", .opts = load_opts,
	  .min_operands = 1,
	  .max_operands = 1, .run = image_load,
	  .about = "FILE is a tar, compressed or not: an OCI layout, what 'docker save' wrote, or a root file system, which needs a name." },
	{ .name = "save", .summary = "write an image to an archive", .operands = "IMAGE FILE|-", .opts = save_opts, .min_operands = 2,
	  .max_operands = 2, .run = image_save, .about = "Writes an OCI layout, as a tar, that 'docker load' takes as well." },
	{ .name = "rm", .summary = "forget images", .operands = "IMAGE...", .opts = cli_table_opts, .min_operands = 1,
	  .max_operands = OPT_OPERANDS_ANY, .run = image_remove,
	  .about = "Running sandboxes continue, and layers in use are kept." },
	{ 0 },
};
