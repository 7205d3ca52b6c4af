// SPDX-License-Identifier: Apache-2.0
/* execd/command/command.h - commands: a shell each, in a process group of its own, and a record of it.
 *
 * A command in the foreground is streamed as events until it ends (execution.h). One in the background is
 * answered when it has started. Both have a record (history.h) from before they start, with all of their
 * output: a client that disconnects loses nothing. Processes that a command leaves running are not killed;
 * output of the background is still recorded. */
#pragma once
#include <stdint.h>

#include "base/random.h"
#include "execd/command/execution.h"
#include "execd/command/history.h"

struct command;
struct env;
struct err;
struct identity;
struct init;
struct leaf;
struct reply;

#define COMMANDS_LINGERING_MAX 64 /* that have ended, with their pipe still open in other processes */
#define COMMAND_WAITERS_MAX 16    /* interrupts of one command at the same time */
#define COMMAND_GRACE_MS 3000     /* from SIGTERM to SIGKILL */

struct commands {
	struct execution_host host;
	struct init *init;
	const struct leaf *leaf;
	struct random_pool random;
	struct history history;
	struct command *first;
	unsigned n, max;     /* running */
	unsigned lingering;
};

/* The fields but for the list and the history's are the caller's to set. */
void commands_done(struct commands *cs); /* ends none of them */
void commands_signal(struct commands *cs, int signo); /* to all */

struct command_spec {
	const char *path;  /* of the program */
	char *const *argv;
	char *const *envp;
	struct str content;        /* to be remembered */
	int cwd_fd;                /* -1: ours */
	const struct identity *as; /* NULL: who we are */
	struct str input;          /* what it reads as its standard input; empty: there is none */
	uint64_t timeout_ms;       /* 0: none */
	bool is_background;
};

/* Starts it and answers with its events. -1 before anything was answered: too many, no memory, no room for
 * the input. That it cannot be started is an event. */
int command_run(struct commands *cs, const struct command_spec *sp, struct reply *rp, struct err *e);

/* Ends a command, SIGTERM first, and answers 200 when it has ended. ERR_NOT_FOUND, or ERR_CONFLICT for one
 * that does not run. */
int command_interrupt(struct commands *cs, struct str id, struct reply *rp, struct err *e);
