// SPDX-License-Identifier: Apache-2.0
/* server/runtime/kind.h - a kind of runtime: what the supervisor does for it with root's rights, and how the server makes one.
 *
 * The supervisor prepares it, starts its children and starts them again, and knows nothing else of them. What it prepared is
 * released in the server, which is a copy of the supervisor, before that reads a byte of anybody's. */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/own.h"

struct config;
struct err;
struct loop;
struct runtime;

/* What a kind has prepared on this host; its own state follows. */
struct runtime_host {
	uid_t uid; /* that the server runs with */
	gid_t gid;
	char state_dir[PATH_MAX];  /* of the server's own files */
	bool has_network;          /* sandboxes can have one */
	const char *network_lacks; /* see runtime.h */
	int kill_points;           /* of test builds, for children; else -1 */
};

/* A program that runs for as long as the supervisor does. */
struct runtime_child {
	const char *name;
	unsigned silent_max_s; /* seconds without a sign of life (net/pulse.h), after which it is killed and started anew */
	unsigned stop_ms;      /* that its own end takes */
	/* Its pidfd. PULSE is where its signs of life go. */
	int (*start)(struct runtime_host *h, int pulse, struct err *e);
};

/* A program that is started for each connection to a socket: what is said there is for it alone. */
struct runtime_helper {
	const char *name; /* NULL: there is none */
	int listener;
	/* Its pidfd in *ret_pidfd; unchanged: nobody connects any more. */
	int (*start)(struct runtime_host *h, int *ret_pidfd, struct err *e);
};

#define RUNTIME_CHILDREN_MAX 4

struct runtime_children {
	struct runtime_child items[RUNTIME_CHILDREN_MAX]; /* the order in which they end: the last first */
	size_t n;
	struct runtime_helper helper;
};

struct runtime_start { /* of the runtime, in the server */
	struct loop *loop;
	const struct config *config;
	const char *state_dir; /* as above, like the others */
	bool has_network;
	const char *network_lacks;
	bool is_job; /* of the operator's, beside no server: see boot/serve.h */
};

struct runtime_kind {
	const char *name; /* runtime.type */
	/* Before anything is started. IS_JOB as above. *ret_is_taken: it failed because another server runs there. */
	struct runtime_host *(*prepare)(const struct config *c, bool is_job, bool *ret_is_taken, struct err *e);
	void (*release)(struct runtime_host *h); /* and frees it. NULL is fine */
	void (*children)(struct runtime_host *h, struct runtime_children *ret);
	struct runtime *(*make)(const struct runtime_start *start, struct err *e);
};
