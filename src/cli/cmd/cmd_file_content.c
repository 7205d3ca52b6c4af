// SPDX-License-Identifier: Apache-2.0
/* osb file cat, write, upload, download */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/cmd/cmd_file.h"
#include "cli/copy/copy_local.h"
#include "cli/encoding.h"
#include "cli/local_file.h"
#include "sys/fd.h"

#include "base/banned.h"

#define CONTENT_MAX ((size_t)1024 * 1024 * 1024) /* of what is held in memory */
#define NEW_FILE_MODE 0666 /* before the umask */

/* ---- cat ------------------------------------------------------------------------------------------------- */

struct cat_options {
	const char *output, *encoding;
};

const struct opt file_cat_opts[] = {
	OPT(struct cat_options, encoding, OPT_STRING, "encoding", 0, "NAME",
	    "Encoding. Default: utf-8, which is not checked."),
	OPT_OUTPUT(struct cat_options, output_raw),
	{ 0 },
};

static int to_stdout(const char *data, size_t n, void *arg)
{
	return output_bytes(arg, (struct str){ data, n });
}

static int cat_converted(struct cli *cli, struct osb_sandbox *s, const char *encoding)
{
	AUTO(buf_done) struct buf text = BUF_INIT(CONTENT_MAX);
	AUTO(osb_free) struct osb_bytes *bytes = NULL;
	struct err e = { 0 };

	if (cli_wait(cli, NULL, osb_file_read(s, cli->operands[1], NULL, &bytes, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	if (encoding_convert(encoding, "UTF-8", (struct str){ bytes->data, bytes->n }, &text, &e) < 0)
		return cli_fail_err(cli, &e);
	return output_bytes(&cli->out, buf_str(&text)) == 0 ? CLI_OK : CLI_FAILED;
}

int file_cat(int argc, char **argv, void *arg)
{
	struct cat_options o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s;

	s = cli_begin_in(cli, argc, argv, &o);
	if (!s)
		return cli->status;
	if (o.encoding && !encoding_is_utf8(o.encoding))
		return cat_converted(cli, s, o.encoding);
	if (cli_wait(cli, NULL, osb_file_download(s, cli->operands[1], NULL, to_stdout, &cli->out, cli_call(cli))) < 0)
		return cli->out.is_failed ? CLI_FAILED : cli_fail_call(cli);
	return CLI_OK;
}

/* ---- write ----------------------------------------------------------------------------------------------- */

struct write_options {
	const char *output, *content, *encoding, *mode, *owner, *group;
};

const struct opt file_write_opts[] = {
	OPT(struct write_options, content, OPT_STRING, "content", 'c', "TEXT",
	    "File contents. Default: standard input."),
	OPT(struct write_options, encoding, OPT_STRING, "encoding", 0, "NAME", "Encoding. Default: utf-8."),
	OPT(struct write_options, mode, OPT_STRING, "mode", 0, "MODE", "Its permissions: 755."),
	OPT(struct write_options, owner, OPT_STRING, "owner", 0, "NAME", "Whose it is."),
	OPT(struct write_options, group, OPT_STRING, "group", 0, "NAME", "Group."),
	OPT_OUTPUT(struct write_options, output_table),
	{ 0 },
};

/* What is to be written, in its encoding. */
static int gather_content(const struct write_options *o, struct buf *ret, struct err *e)
{
	AUTO(buf_done) struct buf text = BUF_INIT(CONTENT_MAX);
	bool is_utf8 = !o->encoding || encoding_is_utf8(o->encoding);

	if (!o->content && local_read(NULL, CONTENT_MAX, is_utf8 ? ret : &text, e) < 0)
		return -1;
	if (o->content)
		buf_addf(is_utf8 ? ret : &text, "%s", o->content);
	if (ret->failed || text.failed)
		return err_set(e, ERR_LIMIT, "the content is too long; 'osb file upload' has no limit");
	return is_utf8 ? 0 : encoding_convert("UTF-8", o->encoding, buf_str(&text), ret, e);
}

int file_write(int argc, char **argv, void *arg)
{
	AUTO(buf_done) struct buf content = BUF_INIT(CONTENT_MAX);
	struct write_options o = { 0 };
	struct cli *cli = arg;
	struct osb_entry entry;
	struct osb_sandbox *s;
	struct err e = { 0 };
	int mode;

	if (!cli_begin(cli, argc, argv, &o) || file_mode(cli, o.mode, &mode) < 0)
		return cli->status;
	if (gather_content(&o, &content, &e) < 0)
		return cli_fail_err(cli, &e);
	s = cli_connect(cli, cli->operands[0]);
	if (!s)
		return cli->status;
	entry = (struct osb_entry){ cli->operands[1], o.owner, o.group, mode };
	if (cli_wait(cli, NULL, osb_file_write(s, &entry, buf_z(&content), content.n, cli_call(cli))) < 0)
		return cli_fail_call(cli);
	return cli_success(cli, "Written: %s", cli->operands[1]);
}

/* ---- upload ---------------------------------------------------------------------------------------------- */

/* A local file that is read or written; what went wrong with it is kept for the end. */
struct local {
	int fd;
	struct err e;
};

static long read_local(char *out, size_t max, void *arg)
{
	struct local *l = arg;
	ssize_t n;

	do
		n = read(l->fd, out, max);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		(void)err_sys(&l->e, errno, "read the local file");
	return n;
}

int file_upload(int argc, char **argv, void *arg)
{
	struct osb_entry entry = { .mode = FILE_MODE_DEFAULT };
	struct only_output o = { 0 };
	struct cli *cli = arg;
	struct local l = { 0 };
	struct osb_sandbox *s;
	AUTO_FD fd = -1;
	struct stat st;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	if (stat(cli->operands[1], &st) < 0)
		return cli_usage(cli, "path '%s' does not exist", cli->operands[1]);
	fd = open(cli->operands[1], O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || S_ISDIR(st.st_mode))
		return cli_fail(cli, "cannot read '%s': %s; 'osb cp' copies folders", cli->operands[1],
				fd < 0 ? strerror(errno) : "it is a folder");
	s = cli_connect(cli, cli->operands[0]);
	if (!s)
		return cli->status;
	l.fd = fd;
	entry.path = cli->operands[2];
	if (cli_wait(cli, "Uploading...",
		     osb_file_upload(s, &entry, S_ISREG(st.st_mode) ? st.st_size : -1, read_local, &l, cli_call(cli))) < 0)
		return l.e.code ? cli_fail_err(cli, &l.e) : cli_fail_call(cli);
	return cli_success(cli, "Uploaded: %s → %s", cli->operands[1], cli->operands[2]);
}

/* ---- download -------------------------------------------------------------------------------------------- */

static int write_local(const char *data, size_t n, void *arg)
{
	struct local *l = arg;

	return fd_write_all(l->fd, data, n, &l->e) < 0 ? err_wrap(&l->e, "write the local file") : 0;
}

static int download_to(struct cli *cli, struct osb_sandbox *s, int fd)
{
	struct local l = { .fd = fd };

	if (cli_wait(cli, "Downloading...", osb_file_download(s, cli->operands[1], NULL, write_local, &l, cli_call(cli))) == 0)
		return CLI_OK;
	return l.e.code ? cli_fail_err(cli, &l.e) : cli_fail_call(cli);
}

/* The mode of what is there, or that of any new file. */
static unsigned mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_mode & 0777 : NEW_FILE_MODE & ~local_mask();
}

static int open_landing(const char *path, struct landing *l, struct err *e)
{
	const char *slash = strrchr(path, '/');
	AUTO(free) char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	AUTO_FD dirfd = -1;

	if (!folder)
		return err_no_memory(e);
	dirfd = copy_local_top(folder, e);
	return dirfd < 0 ? -1 : landing_open(l, dirfd, slash ? slash + 1 : path, e);
}

static int download_whole(struct cli *cli, struct osb_sandbox *s, const char *local)
{
	AUTO(landing_done) struct landing l = LANDING_INIT;
	AUTO(free) char *real = realpath(local, NULL); /* a link stays, and what it points to is replaced */
	const char *path = real ? real : local;
	struct err e = { 0 };
	int status;

	if (open_landing(path, &l, &e) < 0)
		return cli_fail_err(cli, &e);
	status = download_to(cli, s, l.fd);
	if (status == CLI_OK && landing_land(&l, mode_of(path), &e) < 0)
		status = cli_fail_err(cli, &e);
	return status;
}

int file_download(int argc, char **argv, void *arg)
{
	struct only_output o = { 0 };
	struct cli *cli = arg;
	struct osb_sandbox *s;
	struct err e = { 0 };
	AUTO_FD special = -1;
	int status;

	if (!cli_begin(cli, argc, argv, &o))
		return cli->status;
	special = local_open_special(cli->operands[2], &e);
	if (special < 0 && e.code != ERR_NONE)
		return cli_fail_err(cli, &e);
	s = cli_connect(cli, cli->operands[0]);
	if (!s)
		return cli->status;
	status = special >= 0 ? download_to(cli, s, special) : download_whole(cli, s, cli->operands[2]);
	return status == CLI_OK ? cli_success(cli, "Downloaded: %s → %s", cli->operands[1], cli->operands[2]) : status;
}
