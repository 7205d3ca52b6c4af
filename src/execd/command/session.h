// SPDX-License-Identifier: Apache-2.0
/* execd/command/session.h - sessions: shells that keep their state between runs.
 *
 * A session is one bash (sh where there is none) that reads commands from us. It evaluates them itself, so
 * variables, functions, options, traps, descriptors and the directory persist. After each run it writes its
 * state to an unnamed file. A run that ends the shell itself (exit, exec, a timeout) loses only its own
 * changes: the next run starts a new shell with that state. sh keeps exported variables and the directory.
 *
 * Runs of one session are sequential. Programs see none of our descriptors, which are closed during a run. A
 * run whose reader disconnects is killed, with all that it started. */
#pragma once
#include <stdint.h>

#include "base/arena.h"
#include "base/random.h"
#include "base/str.h"
#include "base/uuid.h"
#include "execd/command/execution.h"

struct env;
struct err;
struct identity;
struct init;
struct leaf;
struct reply;
struct session;

#define SESSIONS_MAX 64
#define SESSION_QUEUE_MAX 16 /* runs of one session, with the one that runs; of all EXECD_RUNS_MAX */
#define SESSION_TIMEOUT_MS (UINT64_C(24) * 3600 * 1000)

struct sessions {
	struct execution_host host;
	struct init *init;
	const struct leaf *leaf;
	const char *temp_dir;
	struct random_pool random;
	struct session *first;
	unsigned n;
};

void sessions_done(struct sessions *ss); /* ends none of them */
void sessions_signal(struct sessions *ss, int signo); /* to all shells and what they run */

struct session_spec {
	const char *shell;     /* its path */
	const struct env *env; /* copied; names that a shell could not have are left out */
	const char *cwd;       /* absolute */
	const struct identity *as; /* copied; NULL: who we are */
};

/* No process is started yet. ERR_LIMIT: there are too many. */
struct session *session_new(struct sessions *ss, const struct session_spec *sp, struct err *e);
struct session *session_find(const struct sessions *ss, struct str id);
const char *session_id(const struct session *s);
void session_delete(struct session *s); /* and whatever it runs; streams end with that */

/* Answers with the events of the run. -1 before anything was answered; ERR_LIMIT: too many wait. CWD:
 * absolute, or NULL. */
struct session_command {
	struct str text;
	const char *cwd;
	uint64_t timeout_ms; /* 0: SESSION_TIMEOUT_MS */
};
int session_run(struct session *s, const struct session_command *cmd, struct reply *rp, struct err *e);
