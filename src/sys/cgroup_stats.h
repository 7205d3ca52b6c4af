// SPDX-License-Identifier: Apache-2.0
/* sys/cgroup_stats.h - usage of a group including its subgroups, and out-of-memory kills. */
#pragma once
#include <stdint.h>

#include "base/own.h"

struct cgroup;
struct err;

enum {
	CGROUP_STAT_CPU = 1 << 0,
	CGROUP_STAT_MEMORY = 1 << 1,
	CGROUP_STAT_MEMORY_PEAK = 1 << 2, /* v2: since Linux 5.19 */
	CGROUP_STAT_OOM_KILLS = 1 << 3,
	CGROUP_STAT_PIDS = 1 << 4,
	CGROUP_STAT_PIDS_PEAK = 1 << 5,   /* since Linux 6.1 */
	CGROUP_STAT_IO = 1 << 6,
};

struct cgroup_stats {
	unsigned has; /* bits of the fields that this host tells; others are 0 */
	uint64_t cpu_usage_us;
	uint64_t memory_bytes, memory_peak_bytes; /* with the page cache */
	uint64_t oom_kills;
	uint64_t pids, pids_peak;
	uint64_t io_read_bytes, io_written_bytes;
};

int cgroup_stats_read(const struct cgroup *g, struct cgroup_stats *ret, struct err *e);

/* CPU time of the group NAME below PARENT (".": PARENT itself): 1 told, 0 it is gone or this host does not
 * count it, -1. With both it is what the group would have used had there been nobody else. */
struct cgroup_cpu {
	uint64_t used_us;
	/* in which some of it had to wait; 0 where the kernel does not count that (v2 with PSI does) */
	uint64_t waited_us;
};
int cgroup_cpu_read(const struct cgroup *parent, const char *name, struct cgroup_cpu *ret, struct err *e);

/* Processes and threads in it. The same. */
int cgroup_pids_count(const struct cgroup *parent, const char *name, uint64_t *ret, struct err *e);

/* A file with a line "oom_kill N", for whoever may read it only through this descriptor. */
int cgroup_oom_open(const struct cgroup *g, struct err *e);
