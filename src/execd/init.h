// SPDX-License-Identifier: Apache-2.0
/* execd/init.h - the duties of PID 1: reaping processes, and telling signals from inside from those from
 * outside.
 *
 * Every process that ends is reaped, ours or re-parented to us; the owner of a struct child is notified. As
 * PID 1, a signal is accepted if a process outside the pid namespace sent it; the kernel then reports pid 0.
 * Signals that a process of the sandbox sends, or makes the kernel send, are ignored. When execd is not PID
 * 1, all signals are accepted. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#include "net/loop.h"
#include "sys/process.h"

struct err;
struct child;

struct init {
	struct loop *loop;
	struct child *children;
	int signal_fd;
	int null_fd; /* /dev/null from before any program ran: later the name is the sandbox's to change */
	struct io io;
	struct deferred again;
	bool is_pid1;
	void (*stop)(int signo, void *arg); /* SIGTERM or SIGINT that counts */
	void *arg;
};

#define INIT_INIT ((struct init){ .signal_fd = -1, .null_fd = -1 })

int init_open(struct init *in, struct loop *l, void (*stop)(int signo, void *arg), void *arg, struct err *e);
void init_done(struct init *in); /* children are forgotten, not ended */

/* What the sandbox's root must not be able to do to PID 1: not dumpable, and a saved group id that no program
 * has, so that prlimit() and ptrace() see a stranger; both ask for all three group ids to be the same. Needs
 * SETGID. */
int init_protect(struct err *e);

/* ---- children ---- */

/* Each is called at most once, from the loop: either failed, or started and later ended. The child may be
 * started anew or freed from `failed` and `ended`. */
struct child_ops {
	void (*started)(void *arg);                            /* it runs the program; or NULL */
	void (*failed)(const struct err *why, void *arg);      /* it never did */
	void (*ended)(const struct process_end *end, void *arg);
};

struct child {
	struct init *init; /* NULL: not running */
	struct child *prev, *next;
	pid_t pid;
	int report;
	struct io io;
	bool has_started;
	const struct child_ops *ops;
	void *arg;
};

/* Forks and returns: the way to exec is not waited for, it may lead through a cgroup without memory or time
 * left. SP is not needed afterwards; -1 for a stream of it means our null_fd. -1: there is no process. */
int child_start(struct child *c, struct init *in, const struct spawn_spec *sp, const struct child_ops *ops,
		void *arg,
		struct err *e);

/* A process that was started by another one and then left to us (in the sandbox all are, elsewhere those of
 * our children): PID is told when it ends. -1: it has ended already. */
int child_adopt(struct child *c, struct init *in, pid_t pid, const struct child_ops *ops, void *arg,
		struct err *e);

/* To the process and its group, which it leads (spawn_spec.new_session). Fine when it has ended. */
void child_signal(const struct child *c, int signo);
void child_forget(struct child *c); /* it is reaped when it ends, without a callback */
