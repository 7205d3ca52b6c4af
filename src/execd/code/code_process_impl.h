// SPDX-License-Identifier: Apache-2.0
/* execd/code/code_process_impl.h - what the files of the driver for processes share: code_process.c starts,
 * watches and ends them, code_process_in.c reads what they say. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "execd/code/code_driver.h"
#include "execd/init.h"
#include "net/loop.h"
#include "sys/process.h"

struct code_language;

#define PROCESS_IN_BASE ((size_t)4 * 1024)   /* of messages, without a grant */
#define PROCESS_PIPE_BASE ((size_t)2 * 1024) /* of what a pipe gave and nobody has taken yet */
#define PROCESS_SILENT_MS 1000               /* for a process that has closed its socket to end */
#define PROCESS_HALF_MS 1000                 /* between looks at a process that owes the rest of a message */
#define PROCESS_HALF_MAX 10                  /* looks. Counted, so that a frozen sandbox is not in debt */

struct code_pipe {
	struct code_driver *of;
	int fd; /* -1: at its end */
	struct io io;
	struct buf in;
	bool is_bounded; /* `left` bytes of it still count */
	size_t left;
};

struct code_driver {
	struct code_context *context;
	const struct code_host *host;
	const struct code_spec *spec;
	const struct code_language *language;
	struct child child;
	int state_fd;
	int control; /* -1: it was closed */
	struct io control_io;
	struct code_pipe pipes[2];
	struct timer limit, rest, half;
	struct deferred again;

	struct buf in; /* of messages */
	size_t granted;
	size_t left;   /* bytes of a message that is being passed on, or skipped */
	char left_type;
	bool is_half;       /* a message has begun that is not complete: looked at from time to time */
	unsigned n_silent;  /* how many times in a row nothing of it came and the process slept */
	uint64_t used;      /* of CPU time when it was looked at, in ticks */
	struct buf out; /* code on its way */
	size_t out_at, out_granted;

	bool is_warm;   /* a fork, whose pid its first message tells */
	bool is_up;     /* it was ready once */
	bool is_running, has_begun, wants_interrupt;
	bool is_finishing; /* the run is over but for what is in the pipes */
	bool is_blocked;   /* there is no room for what comes next */
	bool is_resting;   /* it said much that nobody waits for */
	bool is_dead, is_told;
	int status;        /* of a shell's run */
	uint64_t oom_before;
	char words[256];   /* the last of what it wrote before it was ready */
	size_t n_words;
	struct process_end end;
	struct err why;    /* it is of no use any more; or ERR_NONE */
};

static inline struct loop *process_loop(const struct code_driver *d)
{
	return d->host->host.loop;
}

static inline struct budget *process_budget(const struct code_driver *d)
{
	return d->host->host.budget;
}

/* ---- code_process_in.c ---- */

/* One message, or a piece of one. False: more bytes are needed, or there is no room, or it is over. */
bool process_take_next(struct code_driver *d);
bool process_fill_control(struct code_driver *d); /* true: there are more bytes of messages */
bool process_step_pipes(struct code_driver *d);   /* true: something came, or was taken */
void process_bound_pipes(struct code_driver *d);  /* what is in the pipes now is all that counts */
void process_control_ended(struct code_driver *d);
void process_in_release(struct code_driver *d);

/* A message that has begun has to end: to be called after each turn, and by d->half. */
void process_watch_half(struct code_driver *d);
void process_on_half(void *arg);

/* ---- code_process.c ---- */

extern const struct child_ops process_child_ops;
void process_start_cold(struct code_driver *d); /* instead of a fork that does not come */
