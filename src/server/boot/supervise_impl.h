// SPDX-License-Identifier: Apache-2.0
/* server/boot/supervise_impl.h - what the supervise*.c files share. Nothing else includes it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/boot/serve.h"
#include "server/runtime/kind.h"

#define HELPERS_MAX 16 /* at once; who connects then waits in the socket */

struct child {
	struct runtime_child of; /* of the server: without a start */
	int pidfd; /* -1: does not run */
	uint64_t started_ms, again_ms;
	uint64_t kill_ms; /* it was told to end: when that was long enough. 0: it was not */
	unsigned pause_ms;
	int pulse;         /* read end of its signs of life; -1: none are awaited */
	bool is_heard;     /* there was one: from then on they are counted */
	unsigned silent_s; /* for so long there was none */
	uint64_t look_ms;  /* when to look again */
};

struct supervisor {
	pid_t pid;
	const struct serve_spec *spec;
	struct serve_sockets sockets; /* for clients */
	struct runtime_host *host; /* what the kind has prepared, */
	struct runtime_host about; /* and a copy, for what outlives that */
	struct child children[1 + RUNTIME_CHILDREN_MAX]; /* the server, and those of the kind */
	size_t n_children;
	struct runtime_helper helper;
	int helpers[HELPERS_MAX]; /* pidfds of those at work, or -1 */
	int signals;
	int ready; /* read end: a byte, once the server serves; then -1 */
	uint64_t begun_ms; /* 0: everything has been up */
	int kill_points; /* of test builds, else -1 */
	bool is_stopping;
	int status; /* to end with */
};

static inline bool is_job(const struct supervisor *s)
{
	return s->spec->job != NULL;
}

static inline struct child *server_of(struct supervisor *s)
{
	return &s->children[0];
}

static inline bool is_server(const struct supervisor *s, const struct child *c)
{
	return c == &s->children[0];
}

/* supervise_server.c */
int supervise_start_server(struct supervisor *s, struct err *e);
