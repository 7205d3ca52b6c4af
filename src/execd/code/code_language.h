// SPDX-License-Identifier: Apache-2.0
/* execd/code/code_language.h - languages that need only an interpreter and a program of ours, and how to
 * start them. */
#pragma once
#include <stdbool.h>

#include "base/str.h"
#include "execd/init.h"

struct arena;
struct code_host;
struct code_spec;
struct err;

#define CODE_SEND_BUFFER (48 * 1024) /* of our end, as the kernel counts it: what waits there is ours by its account */
#define CODE_STATE_FD 249   /* in a shell: the file that its state is kept in */
#define CODE_NULL_FD 248    /* and the null device */

struct code_language {
	const char *name;
	const char *programs[3]; /* the first that is there is taken; ends with NULL */
	/* what it is started with: reads its program from our socket, "%zu" bytes, and runs it */
	const char *flag, *boot;
	const struct str *text;
	int control;             /* in the program: our socket */
	bool has_name;    /* the language is an argument of its program, which runs several */
	/* a process that ends costs a run at most: what runs before have left is in a file */
	bool keeps_state;
	bool can_be_warm;
};

const struct code_language *code_language_of(const char *name); /* or NULL */

/* The interpreter, or NULL: there is none. */
const char *code_language_program(const struct code_language *l, const struct code_spec *sp, struct arena *a);

/* Our ends: a socket, and what the program writes to its descriptors 1 and 2. None of them blocks. */
struct code_ends {
	int control, out[2];
};
#define CODE_ENDS_INIT ((struct code_ends){ .control = -1, .out = { -1, -1 } })
void code_ends_done(struct code_ends *ends);
DEFINE_AUTO_DONE(struct code_ends, code_ends_done)

/* Both sides of them. */
int code_ends_open(struct code_ends *ours, struct code_ends *theirs, struct err *e);

/* Starts the interpreter with its program. *ret is the caller's. STATE_FD: -1, or the file of a language that
 * keeps one. */
struct code_start {
	const struct code_language *language;
	const struct code_spec *spec;
	int state_fd;
	const struct child_ops *ops;
	void *arg;
};
int code_start(struct child *c, const struct code_host *host, const struct code_start *st,
	       struct code_ends *ret, struct err *e);
