// SPDX-License-Identifier: Apache-2.0
#include "cli/copy/file_transfer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/cli.h"

#include "base/banned.h"

void file_transfer_done(struct file_transfer *t)
{
	progress_clear(&t->own_bar);
	landing_done(&t->landing);
	if (t->owns_fd)
		closep(&t->fd);
	*t = FILE_TRANSFER_INIT;
}

int file_transfer_open_in(struct file_transfer *t, const struct cli *cli, const char *path, struct str what,
		     bool is_quiet, struct err *e)
{
	struct stat st;

	t->cli = cli;
	t->owns_fd = strcmp(path, "-") != 0;
	t->fd = t->owns_fd ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : STDIN_FILENO;
	if (t->fd < 0 || fstat(t->fd, &st) < 0)
		return err_sys(e, errno, "open '%s'", path);
	if (S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' is a folder", path);
	t->what = what;
	t->bar = &t->own_bar;
	progress_init(t->bar, STDERR_FILENO, is_quiet, what, S_ISREG(st.st_mode) ? (uint64_t)st.st_size : PROGRESS_UNKNOWN);
	return 0;
}

int64_t file_transfer_size(const struct file_transfer *t)
{
	struct stat st;

	return fstat(t->fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : -1;
}

int file_transfer_open_out(struct file_transfer *t, const struct cli *cli, const char *path, struct str what,
			   uint64_t total, bool is_quiet, struct err *e)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	t->cli = cli;
	t->what = what;
	t->bar = &t->own_bar;
	progress_init(t->bar, STDERR_FILENO, is_quiet, what, total);
	if (strcmp(path, "-") == 0) {
		t->fd = STDOUT_FILENO;
		return 0;
	}
	{
		AUTO(free) char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
		AUTO_FD dir = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

		if (!folder)
			return err_no_memory(e);
		if (dir < 0)
			return err_sys(e, errno, "open the folder '%s'", folder);
		if (landing_open(&t->landing, dir, name, e) < 0)
			return -1;
	}
	t->fd = t->landing.fd;
	return 0;
}

int file_transfer_finish(struct file_transfer *t, unsigned mode, struct err *e)
{
	progress_clear(&t->own_bar);
	return t->landing.fd < 0 ? 0 : landing_land(&t->landing, mode, e);
}

static bool is_interrupted(const struct file_transfer *t)
{
	return t->cli && t->cli->interrupts > 0;
}

long file_transfer_read(char *out, size_t max, void *arg)
{
	struct file_transfer *t = arg;
	ssize_t n;

	do
		n = read(t->fd, out, max);
	while (n < 0 && errno == EINTR && !is_interrupted(t));
	if (n < 0)
		return err_sys(&t->why, errno, "read '%.*s'", STR_ARG(t->what));
	t->done += (uint64_t)n;
	progress_add(t->bar, (uint64_t)n);
	return n;
}

int file_transfer_write(const char *data, size_t n, void *arg)
{
	struct file_transfer *t = arg;
	uint64_t left = t->limit - t->done;

	if (n > left) {
		t->is_cut = true;
		n = (size_t)left;
	}
	while (n > 0) {
		ssize_t done = write(t->fd, data, n);

		if (done < 0 && errno == EINTR && !is_interrupted(t))
			continue;
		if (done < 0)
			return err_sys(&t->why, errno, "write '%.*s'", STR_ARG(t->what));
		t->done += (uint64_t)done;
		progress_add(t->bar, (uint64_t)done);
		data += done;
		n -= (size_t)done;
	}
	return t->is_cut ? -1 : 0;
}
