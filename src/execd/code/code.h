// SPDX-License-Identifier: Apache-2.0
/* execd/code/code.h - contexts: interpreters that keep their state between runs of code.
 *
 * A context has a driver (code_driver.h) until the driver dies; then the stream of the current run reports
 * it, and the next run gets a new driver, without the state. Runs of one context are sequential, those of
 * different ones parallel. A run continues when its client disconnects. A context that has run nothing for
 * its idle time is deleted. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "base/str.h"
#include "execd/code/code_driver.h"

struct arena;
struct code_context;
struct err;
struct json_out;
struct reply;

#define CODE_CONTEXTS_MAX 32
#define CODE_QUEUE_MAX 16 /* runs of one context, with the one that runs; of all EXECD_RUNS_MAX */
#define CODE_IDLE_S (24 * 3600) /* unless EXECD_CODE_IDLE says otherwise */

struct codes {
	struct code_host host;
	struct random_pool random;
	struct code_context *first;
	struct code_run *ending; /* that have ended, and are being read */
	unsigned n;
	uint64_t idle_ms;
	bool is_stopping;
};

void codes_done(struct codes *cs);
void codes_stop(struct codes *cs); /* deletes all of them, and makes no more */

/* SP is copied. NULL with an error: ERR_LIMIT, there are too many; ERR_NOT_FOUND, nothing here runs this
 * language. */
struct code_context *code_context_new(struct codes *cs, const struct code_spec *sp, bool is_default,
				      struct err *e);
struct code_context *code_context_find(const struct codes *cs, struct str id);
/* The one that runs without a context share. KERNEL: NULL, or empty: none was asked for. */
struct code_context *code_context_default(const struct codes *cs, const char *language, const char *kernel);
void code_context_delete(struct code_context *c); /* with all that it runs; streams end with that */
void code_contexts_delete(struct codes *cs, struct str language);

void code_context_write(const struct code_context *c, struct json_out *o);
void code_contexts_write(const struct codes *cs, struct str language, struct json_out *o); /* empty: all */

/* Answers when it can run code, or cannot: 200 with the context, 500. Once per context, right after its
 * making. */
int code_context_answer(struct code_context *c, struct reply *rp, struct err *e);

/* Answers with the events of the run. -1 before anything was answered; ERR_LIMIT: too many wait. */
int code_context_run(struct code_context *c, struct str code, struct reply *rp, struct err *e);
void code_context_interrupt(struct code_context *c);
