// SPDX-License-Identifier: Apache-2.0
/* execd/code/code_warm.h - a Python process with preloaded modules, from which new contexts are forked.
 *
 * It runs no user code, so its forks share only the imported modules. It is made a moment after the first
 * context that had to start without it, for the environment and user of that context. A context with another
 * environment starts its own interpreter; after two such contexts in a row the warm process is replaced by
 * one for them. Its memory is charged to the sandbox. It ends when no fork was needed for a while.
 *
 * EXECD_CODE_WARM in the environment of execd names modules to import ("numpy,pandas"), or is "off". */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "execd/code/code_driver.h"
#include "execd/env.h"
#include "execd/init.h"
#include "execd/users.h"

struct code_ends;

#define CODE_WARM_AFTER_MS 200
#define CODE_WARM_IDLE_MS (5 * 60 * 1000)
#define CODE_WARM_START_MS 60000 /* for the imports */
#define CODE_WARM_FAILURES_MAX 3 /* then it is left alone */
#define CODE_WARM_MODULES_MAX 1024

enum code_warm_state { CODE_WARM_NONE, CODE_WARM_WANTED, CODE_WARM_STARTING, CODE_WARM_IMPORTING,
		       CODE_WARM_READY };

struct code_warm {
	const struct code_host *host;
	enum code_warm_state state;
	unsigned failures;
	unsigned orders; /* since a context was last started that could not be a fork */
	struct arena arena; /* for what it is made with */
	size_t granted;
	struct env env;
	struct identity as;
	struct code_spec spec;
	struct child child;
	int control;
	struct io io;
	struct timer timer;
	struct buf in;
	size_t left; /* bytes of a message that nobody reads */
};

int code_warm_init(struct code_warm *w, const struct code_host *host, struct err *e);
void code_warm_done(struct code_warm *w);

void code_warm_want(struct code_warm *w, const struct code_spec *sp);
/* Orders a fork for SP; its ends are the caller's. Its first message tells who it is (sys/passing.h). False:
 * start one otherwise. */
bool code_warm_order(struct code_warm *w, const struct code_spec *sp, struct code_ends *ret);
void code_warm_drop(struct code_warm *w); /* it does not do what it should */
