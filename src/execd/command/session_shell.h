// SPDX-License-Identifier: Apache-2.0
/* execd/command/session_shell.h - the driver script of session shells, and our protocol with it.
 *
 * From shell_fds() on there are five descriptors. A plain sh cannot name descriptors from 10 on; in bash they
 * have high numbers that programs rarely use.
 *
 *     SHELL_SCRIPT  a file: the command to evaluate
 *     SHELL_STATE   a file: the state for the next shell
 *     SHELL_GO      a line for each command
 *     SHELL_DONE    its status: "7\n"
 *     SHELL_NULL    output of the driver that nobody sees */
#pragma once
#include <stdbool.h>

#include "base/str.h"

struct buf;

enum { SHELL_SCRIPT, SHELL_STATE, SHELL_GO, SHELL_DONE, SHELL_NULL };

int shell_fds(const char *shell);

/* The driver, for `-c`, by the name of the shell's program. */
const char *shell_driver(const char *shell);
bool shell_is_bash(const char *shell);

/* The state that a first shell begins with. */
void shell_first_state(struct buf *out, const char *cwd);

/* The command, in the directory CWD if there is one: where that cannot be entered, nothing is run. */
void shell_script(struct buf *out, struct str command, const char *cwd);
