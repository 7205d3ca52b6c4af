// SPDX-License-Identifier: Apache-2.0
/* execd/command.h - commands in progress: a shell, its two pipes, and the event stream that they become.
 *
 * The process decides: when it ends, what is in the pipes by then is sent, then its end, and the stream closes, whoever
 * else still holds the pipes. A reader who is slow makes the command wait, through full pipes; one who goes away
 * does not end it: it runs on and what it writes is dropped. */
#pragma once
#include <stdint.h>

#include "base/random.h"
#include "net/loop.h"

struct budget;
struct command;
struct drains;
struct env;
struct err;
struct identity;
struct init;
struct leaf;
struct reply;

#define COMMAND_LINE_BASE ((size_t)4 * 1024)    /* input of one pipe that needs no grant of the budget */
#define COMMAND_READ ((size_t)64 * 1024)        /* and this is asked for, to read in larger pieces */
#define COMMAND_LINE_MAX ((size_t)1024 * 1024)  /* a longer line is split; without a grant a shorter one, too */
#define COMMAND_OUT_BASE ((size_t)32 * 1024)    /* events on their way that need no grant */
#define COMMAND_PING_MS 3000

struct commands {
	struct loop *loop;
	struct init *init;
	struct budget *budget;
	struct drains *drains;
	const struct leaf *leaf;
	struct random_pool random;
	struct command *first;
	unsigned n, max;
};

/* The fields but for the list are the caller's to set. */
void commands_done(struct commands *cs); /* ends none of them */
void commands_signal(struct commands *cs, int signo); /* to all */

struct command_spec {
	const char *path;  /* of the program */
	char *const *argv;
	char *const *envp;
	int cwd_fd;                /* -1: ours */
	const struct identity *as; /* NULL: who we are */
	uint64_t timeout_ms;       /* 0: none */
};

/* Starts it and answers with its events. -1 before anything was answered: too many, no memory. That it cannot be
 * started is an event. */
int command_run(struct commands *cs, const struct command_spec *sp, struct reply *rp, struct err *e);
