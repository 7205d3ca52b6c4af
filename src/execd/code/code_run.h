// SPDX-License-Identifier: Apache-2.0
/* execd/code/code_run.h - one run of code as a stream of events: output, results, and the end.
 *
 * Output of one stream that arrives within a few milliseconds becomes one event; the first piece is sent at
 * once. A slow reader makes the code wait. A reader that disconnects does not end it: its further output is
 * dropped. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "execd/code/code_driver.h"
#include "net/loop.h"

struct codes;
struct err;
struct reply;

#define CODE_DIED_NAME "ContextDied" /* the error of a run whose context did not live to its end */
#define CODE_RUN_GATHER_MS 5 /* between two events of output, unless there is CODE_RUN_TEXT of it */
#define CODE_RUN_TEXT ((size_t)4 * 1024) /* of output, collected for an event */

struct code_run {
	struct code_run *next; /* its owner's, as the next two */
	struct code_context *context;
	struct codes *owner;
	const struct execution_host *host;
	struct reply *rp; /* NULL: no reader */
	struct outbox out;
	struct buf text;  /* output that is no event yet */
	enum event_stream text_kind;
	struct buf code;  /* what to run, until it is taken */
	size_t granted;   /* for that */
	struct timer ping, soon;
	struct deferred flush;
	uint64_t flushed_ms;
	uint64_t began_ms;
	bool has_begun;    /* the driver has it */
	bool is_interrupted; /* before it began */
	bool is_blocked;   /* the driver knows that there is no room */
	bool has_error;
	bool has_ended;
	bool has_terminal; /* the last event is in `out` */
	bool is_broken;    /* or would be, if there were memory for it */
	char why[512], more[64]; /* what happened to its context, if anything did; cut where it is long */
	void (*proceed)(void *arg); /* there is room again */
	void (*done)(void *arg);    /* it has ended and all has been said: the last call */
	void *arg;
};

/* Begins the answer with `init`, which tells ID, and `ping`; copies CODE. The last three fields are the
 * caller's to set afterwards. NULL with an error: nothing has been answered. */
struct code_run *code_run_new(const struct execution_host *host, struct str id, struct str code,
			      struct reply *rp, struct err *e);
void code_run_free(struct code_run *r); /* the stream, if there is one, is cut */
void code_run_forget_code(struct code_run *r);

/* As the functions of the same names in code_driver.h. */
size_t code_run_output(struct code_run *r, enum event_stream kind, struct str bytes);
bool code_run_result(struct code_run *r, const struct code_result *res);
bool code_run_error(struct code_run *r, const struct code_error *er);

/* It is over. `done` comes from the loop. */
void code_run_end(struct code_run *r);
/* Likewise, because of what happened to its context. */
void code_run_fail(struct code_run *r, const char *why, const char *more);
