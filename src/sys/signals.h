// SPDX-License-Identifier: Apache-2.0
/* sys/signals.h - signals as a descriptor. There are no handlers: a program blocks its signals at start,
 * before any thread, and reads them in its loop. */
#pragma once
#include <signal.h>
#include <sys/types.h>

struct err;

/* First thing in the main() of each program: what it inherited about these signals is not what it needs.
 * SIGCHLD gets its default back (ignored, it makes the kernel collect children before process_wait() can);
 * SIGPIPE and SIGXFSZ are ignored, so that a peer that hung up or a file at its limit is an error of write()
 * and not our end. Programs that are started with process_spawn() have the defaults again. */
void signals_prepare(void);

/* The same for a program that others depend on. Signals that it has no use for, and that would end it, are
 * ignored: somebody who mistakes its number, or a script that tells all daemons to reopen their logs, must
 * not end sandboxes' connections. SIGHUP is among them: who wants it blocks it, and reads it then. What stays
 * are SIGTERM and SIGINT, those that stop and continue, and those that tell of a defect of the program
 * itself. */
void signals_prepare_daemon(void);

/* Every disposition is the default and nothing is blocked: for a child that is to be somebody else's. By the
 * kernel's own call, because libc keeps two signals to itself, which a parent may have ignored all the same.
 * No heap. */
void signals_forget(void);

/* SIGNALS(SIGTERM, SIGINT): a set of those. */
sigset_t signals_set(const int *list); /* ends with 0 */
#define SIGNALS(...) signals_set((const int[]){ __VA_ARGS__, 0 })

int signals_block(const sigset_t *set, struct err *e); /* in addition to what is blocked */
int signals_open(const sigset_t *set, struct err *e);  /* descriptor, non-blocking and close-on-exec */

/* 1 and the next signal with who sent it, 0 when there is none, -1. Signals of one number that come before
 * they are read count as one. *ret_sender may be NULL; it gets the pid, 0 for a process outside our pid
 * namespace, or SIGNALS_SENDER_UNKNOWN: the kernel sent it on somebody's behalf (F_SETOWN), or it was queued
 * with a sender of the sender's choice (sigqueue). */
#define SIGNALS_SENDER_UNKNOWN (-1)
int signals_read(int fd, int *ret_signo, pid_t *ret_sender, struct err *e);
