// SPDX-License-Identifier: Apache-2.0
/* cli/local_server.h - the server that `osb up` started.
 *
 * The child records its identity (pid, start time and boot id) before it becomes the server. So a running
 * server is always known, and a reused pid is never mistaken for it. */
#pragma once
#include <sys/types.h>

#include "base/own.h"
#include "base/str.h"

struct err;

#define LOCAL_RECORD "server.run"
#define LOCAL_ADDRESS_MAX 300

struct local_server {
	int pidfd; /* -1: none */
	pid_t pid;
	char address[LOCAL_ADDRESS_MAX]; /* "127.0.0.1:8080" */
};

#define LOCAL_SERVER_INIT ((struct local_server){ .pidfd = -1 })
void local_server_done(struct local_server *s); /* lets go of it */
DEFINE_AUTO_DONE(struct local_server, local_server_done)

/* 1 and the one that DIRFD's record tells of, 0 if there is none or it does not run any more, -1. */
int local_server_find(int dirfd, struct local_server *ret, struct err *e);

/* Of several that come at once, one goes on: until it has started a server, or DIRFD is closed, which must be
 * nobody else's. */
int local_server_lock(int dirfd, struct err *e);

struct local_start {
	const char *program;
	char *const *argv, *const *envp;
	const char *address; /* where it will serve */
	int log;             /* its standard error */
};
/* It runs when this returns; whether it serves is to be seen. ERR_CONFLICT: there is one. */
int local_server_start(int dirfd, const struct local_start *how, struct local_server *ret, struct err *e);

/* SIGTERM, and waits until it is gone; ERR_TIMEOUT. The record goes with it. */
int local_server_stop(int dirfd, struct local_server *s, int timeout_ms, struct err *e);
int local_server_wait(const struct local_server *s, int timeout_ms); /* 1: it has ended, 0: it runs */

/* ---- the record ---- */

/* Pure. TEXT: "osb 1 BOOT ADDRESS", a new line, and /proc/PID/stat of the process as the kernel writes it. */
struct local_record {
	struct str boot, address;
	pid_t pid;
	uint64_t start; /* ticks since the boot */
};
int local_record_parse(struct str text, struct local_record *ret, struct err *e);
