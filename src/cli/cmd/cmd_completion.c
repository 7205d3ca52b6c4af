// SPDX-License-Identifier: Apache-2.0
/* osb completion, osb man: what the tables of options are good for besides parsing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "sys/fd.h"

#include "base/banned.h"

#define TEXT_MAX ((size_t)4 * 1024 * 1024)
#define PAGE_DATE "2026-06-15"
#define PAGE_SOURCE "opensandbox " OPENSANDBOX_VERSION
#define SANDBOXES_MAX 200 /* that a shell is offered */

const struct opt completion_opts[] = { { 0 } };

struct man_options {
	const char *all;
};
const struct opt man_opts[] = {
	OPT(struct man_options, all, OPT_STRING, "all", 0, "FOLDER", "Write the pages of all commands into FOLDER.", .is_file = true),
	{ 0 },
};

/* ---- completion ------------------------------------------------------------------------------------------ */

/* Shells expand what they are offered, bash with all that "$(...)" can do: an id that is more than a plain word is not offered. */
static bool is_plain_word(const char *id)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

	return id[0] && id[0] != '-' && id[strspn(id, plain)] == '\0';
}

static int print_sandboxes(struct cli *cli)
{
	AUTO(osb_free) struct osb_sandboxes *found = NULL;
	const struct osb_list filter = { .size = sizeof(filter), .page_size = SANDBOXES_MAX };

	if (!cli_client(cli) || cli_wait(cli, NULL, osb_sandbox_list(cli->client, &filter, &found, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	for (size_t i = 0; i < found->n; i++)
		if (is_plain_word(found->items[i].id))
			(void)output_line(&cli->out, str_of(found->items[i].id));
	return CLI_OK;
}

int completion_run(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	struct cli *cli = arg;
	struct err e = { 0 };

	if (!cli_begin_local(cli, argc, argv, NULL)) /* a broken settings file does not keep a shell from starting */
		return cli->status;
	if (str_is(str_of(cli->operands[0]), "sandboxes"))
		return settings_load(&cli->flags, cli->env, &cli->arena, &cli->settings, &e) < 0 ? cli_fail_err(cli, &e)
												 : print_sandboxes(cli);
	if (opt_completion(cli->operands[0], cli->program, &text, &e) < 0)
		return cli_fail_usage(cli, &e);
	return output_bytes(&cli->out, buf_str(&text)) == 0 ? CLI_OK : CLI_FAILED;
}

/* ---- manual pages ---------------------------------------------------------------------------------------- */

static int write_page(int dirfd, const struct opt_command *c, const char *path, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	char name[CLI_PATH_SIZE + sizeof(".1")];

	(void)snprintf(name, sizeof(name), "%s.1", path); /* both hold CLI_PATH_SIZE */
	for (char *p = name; *p; p++)
		if (*p == ' ')
			*p = '-';
	opt_man(c, path, PAGE_DATE, PAGE_SOURCE, &text);
	if (text.failed)
		return err_set(e, ERR_LIMIT, "page '%s' too long", name);
	return file_replace(dirfd, name, buf_str(&text), 0644, e);
}

static int write_pages(int dirfd, const struct opt_command *c, const char *path, struct err *e)
{
	char below[CLI_PATH_SIZE];

	if (write_page(dirfd, c, path, e) < 0)
		return -1;
	for (const struct opt_command *sub = c->commands; sub && sub->name; sub++) {
		(void)snprintf(below, sizeof(below), "%s %s", path, sub->name);
		if (write_pages(dirfd, sub, below, e) < 0)
			return -1;
	}
	return 0;
}

static int write_all(struct cli *cli, const char *folder)
{
	struct err e = { 0 };
	AUTO_FD dirfd = -1;

	if (mkdir(folder, 0755) < 0 && errno != EEXIST)
		return cli_fail(cli, "cannot make '%s': %m", folder);
	dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return cli_fail(cli, "cannot open '%s': %m", folder);
	return write_pages(dirfd, cli->program, cli->program->name, &e) < 0 ? cli_fail_err(cli, &e) : CLI_OK;
}

/* The reader of manuals, with the page as its input. False: there is none. */
static bool show_page(struct str page)
{
	int fds[2], status = 0;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0) {
		if (dup2(fds[0], STDIN_FILENO) >= 0)
			(void)execlp("man", "man", "-l", "-", (char *)NULL);
		_exit(127);
	}
	(void)close(fds[0]);
	if (pid > 0)
		(void)fd_write_all(fds[1], page.p, page.n, &(struct err){ 0 }); /* who reads half of it has read enough */
	(void)close(fds[1]);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) != 127;
}

static const struct opt_command *find_page(const struct opt_command *c, char *const *words, int n, struct buf *path)
{
	buf_addf(path, "%s", c->name);
	for (int i = 0; i < n; i++) {
		const struct opt_command *sub = c->commands;

		while (sub && sub->name && !str_is(str_of(sub->name), words[i]))
			sub++;
		if (!sub || !sub->name)
			return NULL;
		buf_addf(path, " %s", sub->name);
		c = sub;
	}
	return c;
}

int man_run(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf path = BUF_INIT(CLI_PATH_SIZE), page = BUF_INIT(TEXT_MAX), text = BUF_INIT(TEXT_MAX);
	struct man_options o = { 0 };
	const struct opt_command *c;
	struct cli *cli = arg;

	if (!cli_begin_local(cli, argc, argv, &o))
		return cli->status;
	if (o.all)
		return write_all(cli, o.all);
	c = find_page(cli->program, cli->operands, cli->n_operands, &path);
	if (!c)
		return cli_usage(cli, "there is no such command; 'osb --help' shows those that there are");
	opt_man(c, buf_z(&path), PAGE_DATE, PAGE_SOURCE, &page);
	if (isatty(STDOUT_FILENO) && show_page(buf_str(&page)))
		return CLI_OK;
	if (isatty(STDOUT_FILENO))
		opt_help(c, buf_z(&path), &text);
	return output_bytes(&cli->out, text.n > 0 ? buf_str(&text) : buf_str(&page)) == 0 ? CLI_OK : CLI_FAILED;
}
