// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"

#include "base/banned.h"

#define DEFAULT_COLUMNS 80
#define DEFAULT_ROWS 24

const char terminal_reset[] = "\033[?1049l\033[?1000l\033[?1002l\033[?1003l\033[?1006l\033[?2004l\033[?1l\033>\033[?25h\033[0m\r\n";

bool terminal_is(int fd)
{
	return isatty(fd) == 1;
}

int terminal_raw(struct terminal *t, int fd, struct err *e)
{
	struct termios raw;

	if (tcgetattr(fd, &t->was) < 0)
		return err_sys(e, errno, "read the terminal's settings");
	raw = t->was;
	cfmakeraw(&raw);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	/* What was typed before stays: it is for what is about to run. */
	if (tcsetattr(fd, TCSADRAIN, &raw) < 0)
		return err_sys(e, errno, "set the terminal raw");
	t->fd = fd;
	return 0;
}

void terminal_restore(struct terminal *t)
{
	if (t->fd >= 0)
		(void)tcsetattr(t->fd, TCSADRAIN, &t->was); /* it may be gone, and a callback is needed */
	t->fd = -1;
}

bool terminal_size(int fd, unsigned *ret_columns, unsigned *ret_rows)
{
	struct winsize w = { 0 };

	*ret_columns = DEFAULT_COLUMNS;
	*ret_rows = DEFAULT_ROWS;
	if (ioctl(fd, TIOCGWINSZ, &w) < 0 || w.ws_col == 0 || w.ws_row == 0)
		return false;
	*ret_columns = w.ws_col;
	*ret_rows = w.ws_row;
	return true;
}

int terminal_suspend(struct terminal *t, struct err *e)
{
	int fd = t->fd;

	terminal_restore(t);
	(void)raise(SIGSTOP); /* SIGTSTP is blocked for the descriptor that it is read from */
	return fd < 0 ? 0 : terminal_raw(t, fd, e);
}
