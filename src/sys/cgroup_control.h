// SPDX-License-Identifier: Apache-2.0
/* sys/cgroup_control.h - freezing, killing and emptying whole groups, with all groups below them.
 *
 * All of these block, up to their timeout: on an event loop they belong to a worker. A group that is gone is
 * empty. */
#pragma once
#include <sys/types.h>

struct cgroup;
struct err;

/* Returns once no process of the group runs any more. On ERR_TIMEOUT (a process is stuck in the kernel) the
 * group is thawed again. */
int cgroup_freeze(const struct cgroup *g, int timeout_ms, struct err *e);
int cgroup_thaw(const struct cgroup *g, int timeout_ms, struct err *e);

/* SIGKILL for every process, whether frozen, forking or being attached, until none is left: ERR_TIMEOUT when
 * some are. Killed processes still have to be collected by their parent. */
int cgroup_kill(const struct cgroup *g, int timeout_ms, struct err *e);

/* FN for each process of the group and of those below it, as the list is now; stops at the first that is not
 * 0 and returns that. 0 at the end, -1. */
typedef int cgroup_process_fn(pid_t pid, void *arg, struct err *e);
int cgroup_each_process(const struct cgroup *g, cgroup_process_fn *fn, void *arg, struct err *e);
