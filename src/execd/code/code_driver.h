// SPDX-License-Identifier: Apache-2.0
/* execd/code/code_driver.h - the interface between contexts (code.h) and the engines that run their code: a
 * child process with a program of ours (code_process.h), a Jupyter kernel, a Jupyter server.
 *
 * A driver knows nothing of requests, streams and ids of contexts. It is made by start(), calls code_ready()
 * once, gets one run() at a time, reports its output in order and ends it with code_done(). When its engine
 * is gone it calls code_died(), reports nothing further, and waits for end(). A run in progress then needs no
 * code_done(); the context informs its client, and makes a new driver for the next run.
 *
 * Calls never nest: a driver's functions are not called from within its reports, and it reports nothing from
 * within start(), run(), interrupt() and end(): failures there are returned, later ones come from the loop.
 * Only proceed() may report. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "execd/command/execution.h"
#include "execd/io/events.h"

struct code_context;
struct code_driver; /* the driver's own */
struct code_warm;
struct env;
struct err;
struct execd_config;
struct identity;
struct init;
struct leaf;

#define CODE_TEXT_MAX ((size_t)2 * 1024 * 1024)        /* of code */
#define CODE_RESULT_MAX ((size_t)5 * 512 * 1024)       /* all values of one result, with their names */
#define CODE_MIMES_MAX 32                              /* values of one result */
#define CODE_TRACE_MAX 256                             /* elements of a traceback */
#define CODE_ERROR_MAX ((size_t)256 * 1024)            /* bytes of an error: name, value and traceback */
#define CODE_START_MS 60000                            /* from start() to code_ready() */

/* What all contexts and drivers share; it stays. */
struct code_host {
	struct execution_host host; /* loop, budget, drains */
	struct init *init;
	const struct leaf *leaf; /* programs of contexts live there: launch_setup() */
	const struct execd_config *config;
	struct code_warm *warm; /* what new contexts may be forked from */
};

/* What a context was made with. It stays as long as the context does. */
struct code_spec {
	const char *language;      /* "python", ...: what the client wrote */
	const char *kernel;        /* the name of a kernelspec that the client asks for, or NULL */
	const struct env *env;     /* of its program */
	const char *cwd;           /* absolute; it was there when the context was made */
	const struct identity *as; /* user of its program; NULL: our own */
};

struct code_driver_type {
	const char *name; /* for logs */
	/* Whether it can run this: 1, 0, or -1 with an error. Looks at a few files at most. */
	int (*offers)(const struct code_host *host, const struct code_spec *sp, struct err *e);
	/* Begins to start: whoever needs time for that says code_ready() or code_died() later. NULL with an
	 * error. */
	struct code_driver *(*start)(struct code_context *c, const struct code_host *host,
				     const struct code_spec *sp, struct err *e);
	/* CODE is valid during the call, at most CODE_TEXT_MAX bytes of UTF-8, never empty. An error is told
	 * to the client. */
	int (*run)(struct code_driver *d, struct str code, struct err *e);
	void (*interrupt)(struct code_driver *d); /* of what runs; fine when nothing does any more */
	/* there is room again after code_output(), _result() or _error() had none */
	void (*proceed)(struct code_driver *d);
	/* ends what it drives, with all that this has started, and frees it */
	void (*end)(struct code_driver *d);
};

/* ---- what a driver tells ---- */

void code_ready(struct code_context *c);

/* Output of what runs. Returns how many bytes were taken: all of them when nobody listens or nothing runs.
 * The rest is to be offered again after proceed(): whoever writes it waits, meanwhile. Characters may be cut
 * anywhere, ill-formed bytes are fine. */
size_t code_output(struct code_context *c, enum event_stream stream, struct str bytes);

/* A value: of the last expression, or shown on the way. Values are text: binary ones in base64, JSON as such.
 * What exceeds the ceilings is left out, and the client is told. False: no room, offer it again after
 * proceed(). */
struct code_mime {
	struct str type; /* "text/plain" */
	struct str value;
};
struct code_result {
	const struct code_mime *mimes;
	size_t n;
	/* of executions in this context, as the language counts them; 0: not known, or not a last value */
	uint64_t count;
};
bool code_result(struct code_context *c, const struct code_result *r);

/* It failed. code_done() still follows. False as above. Beyond the ceilings it is cut. */
struct code_error {
	struct str name, value;
	const struct str *trace;
	size_t n_trace;
};
bool code_error(struct code_context *c, const struct code_error *er);

void code_done(struct code_context *c); /* the run is over */

/* What it drives is gone, or never came to be: WHY has the words for the client ("exit status 3"). */
void code_died(struct code_context *c, const struct err *why);

/* The drivers that there are; the first that offers is taken (code_drivers.c). */
extern const struct code_driver_type *const code_driver_types[]; /* ends with NULL */
