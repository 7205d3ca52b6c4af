// SPDX-License-Identifier: Apache-2.0
/* sys/namespace.h - namespaces as descriptors: made with a process, taken from one, entered, compared. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

struct err;

enum namespace_kind {
	NAMESPACE_USER,
	NAMESPACE_MOUNT,
	NAMESPACE_PID,
	NAMESPACE_NET,
	NAMESPACE_IPC,
	NAMESPACE_UTS,
	NAMESPACE_CGROUP,
	NAMESPACE_TIME,
	NAMESPACE_KINDS,
};

/* A child in the new namespaces of FLAGS (CLONE_NEW...), and from birth in the cgroup v2 directory CGROUP
 * unless it is -1. Returns its pid, 0 in the child, -1; its pidfd is close-on-exec and the parent's to close
 * after it has collected the child. Memory is copied as by fork(), but fork handlers of libraries do not run:
 * for processes with one thread. With CLONE_PARENT the child is our parent's, to be collected there. Kernels
 * without clone3() (before Linux 5.3; 5.7 for CGROUP) are ERR_UNAVAILABLE or ERR_LIMIT. */
pid_t namespace_clone(uint64_t flags, int cgroup, int *ret_pidfd, struct err *e);

/* A descriptor of the namespace that the process or the calling thread is in. It keeps the namespace alive. A
 * process that ended has none any more: ERR_NOT_FOUND. */
int namespace_of_process(int pidfd, enum namespace_kind kind, struct err *e);
int namespace_of_self(enum namespace_kind kind, struct err *e);

/* The calling thread joins; a pid namespace holds for its future children. A descriptor of another kind is
 * ERR_INVALID. */
int namespace_enter(int fd, enum namespace_kind kind, struct err *e);
/* Back HOME. Should that fail, the process ends: it must not go on in a foreign one. */
void namespace_come_back(int home, enum namespace_kind kind);

/* Of the uts namespace that the process is in. */
int namespace_set_hostname(int pidfd, const char *hostname, struct err *e);
