// SPDX-License-Identifier: Apache-2.0
/* sys/process.h - starts programs and follows them by pidfd.
 *
 *     char *argv[] = { "/usr/bin/true", NULL };
 *     struct spawn_spec sp = SPAWN_INIT(argv[0], argv);
 *     AUTO_FD pidfd = -1;
 *
 *     sp.out = pipe_write_end;
 *     pidfd = process_spawn(&sp, NULL, e);
 *
 * A process is its pidfd: poll() it for the end, collect it with process_wait(), signal it with
 * process_signal(). The number is for display. Who holds a pidfd of a child must collect it once.
 *
 * A program that was started with SIGCHLD ignored has no children to collect: main() calls signals_prepare()
 * of sys/signals.h first. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

struct err;

#define SPAWN_FDS_MAX 16
#define SPAWN_FD_NUMBER_MAX 255
#define SPAWN_KEEP_UMASK ((mode_t)-1)

/* The descriptor FD of the parent is NUMBER (3 to SPAWN_FD_NUMBER_MAX) in the program. */
struct spawn_fd {
	int fd, number;
};

struct spawn_limit {
	int resource; /* RLIMIT_... */
	struct rlimit value;
};

/* Runs last in the child, in its final ids and directory, right before exec: -1 with E set means "never ran".
 * It may use system calls, its argument and err_set()/err_sys(), which use no heap; no allocation, no locks,
 * no stdio, no logging. Descriptors of the parent are still open there, at their numbers, unless one of `fds`
 * took the number; all of them are close-on-exec. */
typedef int (*spawn_setup_fn)(void *arg, struct err *e);

struct spawn_spec {
	const char *path;       /* no search in $PATH */
	char *const *argv;      /* ends with NULL */
	char *const *envp;      /* NULL: empty environment */
	const char *cwd;        /* NULL: stays; entered with the child's ids */
	int cwd_fd;             /* or this directory, -1: none; a relative `cwd` starts from it */
	int in, out, err;       /* -1: `null` */
	int null;               /* -1: /dev/null, opened by the child */
	const struct spawn_fd *fds;
	size_t n_fds;           /* at most SPAWN_FDS_MAX */
	const struct spawn_limit *limits;
	size_t n_limits;
	bool keep_ids;          /* false: change to uid and gid, with no supplementary groups */
	uid_t uid;
	gid_t gid;
	bool new_session;       /* setsid() */
	bool new_group;         /* setpgid(0, 0); included in new_session */
	int death_signal;       /* when the *thread* that spawned ends; 0: none */
	mode_t umask;
	spawn_setup_fn setup;   /* or NULL */
	void *setup_arg;
};

#define SPAWN_INIT(path_, argv_) \
	((struct spawn_spec){ \
		.path = (path_), .argv = (argv_), .cwd_fd = -1, .in = -1, .out = -1, .err = -1, .null = -1, \
		.keep_ids = true, .umask = SPAWN_KEEP_UMASK })

/* Returns the pidfd once the program runs; a failure on the way, up to exec itself, is the error here: "start
 * '/bin/x': exec: No such file or directory". Signal dispositions are reset and no signal is blocked in the
 * program; it has descriptors 0, 1, 2 and those of `fds`, no others. *ret_pid may be NULL. */
int process_spawn(const struct spawn_spec *sp, pid_t *ret_pid, struct err *e);

struct process_end {
	bool by_signal;
	bool dumped_core;
	int code; /* exit status, or the signal's number */
};

/* Collects the process. TIMEOUT_MS < 0 waits as long as it takes; ERR_TIMEOUT when it still runs by then. */
int process_wait(int pidfd, int timeout_ms, struct process_end *ret, struct err *e);

/* ERR_NOT_FOUND once it has been collected. */
int process_signal(int pidfd, int signo, struct err *e);

/* SIGKILL, then process_wait(). */
int process_kill_and_wait(int pidfd, int timeout_ms, struct process_end *ret, struct err *e);
