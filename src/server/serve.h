// SPDX-License-Identifier: Apache-2.0
/* server/serve.h - the server from its first socket to its last answer. */
#pragma once
#include "server/config.h"

struct asset;
struct err;
struct loop;
struct runtime;

enum { /* what the program exits with when serving failed */
	SERVE_FAILED = 1,
	SERVE_DAMAGED = 3, /* the database */
	SERVE_RUNNING = 4, /* another server has the state directory */
};

struct serve_spec {
	struct config *config; /* its key is wiped once a digest is made of it */
	const char *const *env;
	const struct asset *(*find_asset)(const char *name);
	/* What sandboxes run on. NULL: there are none, and their routes do not exist. */
	struct runtime *(*make_runtime)(struct loop *l, const struct config *c, struct err *e);
	int *ret_status; /* set on failure; may be NULL */
};

/* Runs until SIGTERM or SIGINT: then no more connections are taken, requests in progress get limits.drain_seconds,
 * and it returns 0. A second signal ends it at once, which is -1 with ERR_UNAVAILABLE. SIGHUP opens the log and
 * reads the certificate anew.
 * Nothing is left half-started when it fails. The calling process must have one thread and have called
 * signals_prepare(). */
int serve(const struct serve_spec *spec, struct err *e);

/* Raises the soft descriptor limit to the hard one. The connections that there can be: WANTED, or less. */
#define SERVE_FDS_RESERVED 256 /* for everything but connections */
int serve_connection_limit(unsigned wanted, unsigned *ret_connections, struct err *e);
