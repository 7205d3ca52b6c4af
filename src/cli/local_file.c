// SPDX-License-Identifier: Apache-2.0
#include "cli/local_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/fd.h"

#include "base/banned.h"

int local_read(const char *path, size_t max, struct buf *out, struct err *e)
{
	AUTO_FD fd = -1;

	if (!path || str_is(str_of(path), "-")) {
		if (isatty(STDIN_FILENO))
			(void)fprintf(stderr, "Reading from standard input, up to Ctrl-D:\n");
		return fd_read_all(STDIN_FILENO, max, out, e) < 0 ? err_wrap(e, "standard input") : 0;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY); /* a pipe is fine: that is what <(...) of a shell is */
	if (fd < 0)
		return err_sys(e, errno, "open '%s'", path);
	return fd_read_all(fd, max, out, e) < 0 ? err_wrap(e, "read '%s'", path) : 0;
}

int local_open_special(const char *path, struct err *e)
{
	struct stat st;
	int fd;

	if (stat(path, &st) < 0 || S_ISREG(st.st_mode))
		return -1;
	if (S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "'%s' is a folder", path);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? err_sys(e, errno, "open '%s'", path) : fd;
}

unsigned local_mask(void)
{
	mode_t mask = umask(0);

	(void)umask(mask);
	return mask;
}
