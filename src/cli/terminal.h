// SPDX-License-Identifier: Apache-2.0
/* cli/terminal.h - the user's terminal: raw mode, its size, and restoring it.
 *
 * A caller that makes it raw blocks the signals that end programs (TERMINAL_SIGNALS), reads them from a
 * descriptor, and restores the terminal before it ends: then only SIGKILL can leave it raw. */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <termios.h>

#include "base/own.h"

struct err;

#define TERMINAL_SIGNALS SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH

struct terminal {
	int fd; /* -1: not raw now */
	struct termios was;
};

#define TERMINAL_INIT ((struct terminal){ .fd = -1 })

bool terminal_is(int fd);
/* Nothing is echoed, collected into lines, changed, or turned into a signal from now on. */
int terminal_raw(struct terminal *t, int fd, struct err *e);
void terminal_restore(struct terminal *t); /* fine when it is not raw */
DEFINE_AUTO_DONE(struct terminal, terminal_restore)

/* False and 80 by 24 where there is no terminal, or it does not know. */
bool terminal_size(int fd, unsigned *ret_columns, unsigned *ret_rows);

/* What takes back everything that a program which could not clean up may have asked of a terminal: the other
 * screen, a hidden cursor, reports of the mouse, bracketed paste, colours; and a new line, so that nothing is
 * written over. */
extern const char terminal_reset[];

/* Stops this process as the terminal's SIGTSTP would have, and comes back when it goes on. The terminal is
 * the shell's meanwhile, and raw again afterwards if it was. */
int terminal_suspend(struct terminal *t, struct err *e);
