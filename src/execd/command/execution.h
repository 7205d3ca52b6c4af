// SPDX-License-Identifier: Apache-2.0
/* execd/command/execution.h - one run of a program as a stream of events: the output of two pipes, pings, and
 * the end.
 *
 * The owner starts the program, passes the read ends of the pipes, and reports when and how it ended. Data
 * that is in the pipes by then is sent, then the end, and the stream closes, even if other processes still
 * hold the pipes. A slow reader makes the program wait, through full pipes. A reader that disconnects does
 * not end the program; its output then goes to `tail` only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "execd/io/outbox.h"
#include "execd/io/stream.h"
#include "net/loop.h"
#include "sys/process.h"

struct reply;

#define EXECUTION_PING_MS 3000

/* What all of them share. */
struct execution_host {
	struct loop *loop;
	struct budget *budget;
	struct drains *drains;
};

struct execution {
	const struct execution_host *host;
	struct reply *rp; /* NULL: no reader */
	struct stream streams[2];
	struct outbox out;
	struct event_stamp stamp; /* of the texts being added */
	struct timer ping;
	uint64_t began_ms;
	bool has_ended;    /* or never began */
	bool has_terminal; /* the last event is in `out` */
	bool is_broken;    /* or would be, if there were memory for it */
	bool lingers;      /* set by the owner in `done`: it comes once more when the pipes end */
	int turn;          /* which stream comes first */
	struct process_end end;
	bool is_oom;
	struct err failure; /* why it never began */
	void (*gone)(void *arg); /* the reader went away before the end; or NULL */
	/* it has ended and nobody listens any more, or all has been said: the last call */
	void (*done)(void *arg);
	void *arg;
};

/* Begins the answer with the events `init` and `ping`. Answers nothing and returns -1 when it cannot. `done`,
 * `gone` and `arg` are the caller's to set afterwards. KEPT may be NULL. */
int execution_begin(struct execution *x, const struct execution_host *host, struct str id,
		    struct tail_file *tail, struct reply *rp,
		    struct err *e);
/* The same without a reader. */
int execution_begin_unheard(struct execution *x, const struct execution_host *host, struct tail_file *tail,
			    struct err *e);

/* Takes the read end of a pipe: 0 for what becomes stdout, 1 for stderr. One that is not given has nothing to
 * say. */
int execution_pipe(struct execution *x, int which, int fd, struct err *e);

/* It has ended, or never began. `done` may come from within. */
void execution_end(struct execution *x, const struct process_end *end, bool is_oom);
void execution_fail(struct execution *x, const struct err *why);
/* The same from where `done` must not come: it comes when the stream proceeds. */
void execution_fail_later(struct execution *x, const struct err *why);

/* Frees what it has; the stream, if there is one, is cut. Pipes are read to their ends elsewhere, unless
 * taken before. */
void execution_done(struct execution *x);
