// SPDX-License-Identifier: Apache-2.0
/* sys/cgroup_gauges.h - limits and usage of a group, read through descriptors, for a process that cannot see
 * the group's files.
 *
 * The texts show by themselves whether v1 or v2 wrote them, so a reader needs only the descriptors. */
#pragma once
#include <stdint.h>

#include "base/own.h"
#include "base/str.h"

struct cgroup;
struct err;

enum cgroup_gauge {
	CGROUP_GAUGE_MEMORY,       /* memory.current, memory.usage_in_bytes */
	CGROUP_GAUGE_MEMORY_LIMIT, /* memory.max, memory.limit_in_bytes */
	CGROUP_GAUGE_MEMORY_STAT,  /* memory.stat */
	CGROUP_GAUGE_CPU,          /* cpu.stat, cpuacct.usage */
	CGROUP_GAUGE_CPU_QUOTA,    /* cpu.max, cpu.cfs_quota_us */
	CGROUP_GAUGE_CPU_PERIOD,   /* cpu.max once more, cpu.cfs_period_us */
	CGROUP_GAUGES,
};

struct cgroup_gauges {
	int fds[CGROUP_GAUGES]; /* -1: not there */
};

#define CGROUP_GAUGES_INIT ((struct cgroup_gauges){ { -1, -1, -1, -1, -1, -1 } })

/* Memory of one group, CPU time of another. All of them, or an error. */
int cgroup_gauges_open(const struct cgroup *memory, const struct cgroup *cpu, struct cgroup_gauges *ret,
		       struct err *e);
/* Of the group that this process is in, as far as they can be found. */
void cgroup_gauges_open_own(struct cgroup_gauges *ret);
void cgroup_gauges_done(struct cgroup_gauges *g);
DEFINE_AUTO_DONE(struct cgroup_gauges, cgroup_gauges_done)

enum {
	CGROUP_HAS_MEMORY = 1,
	CGROUP_HAS_MEMORY_LIMIT = 2,
	CGROUP_HAS_CPU = 4,
	CGROUP_HAS_CPU_LIMIT = 8,
};

struct cgroup_usage {
	unsigned has; /* bits of what is known; a limit that is none is not */
	uint64_t memory_bytes; /* without files that could be dropped at once */
	uint64_t memory_limit_bytes;
	uint64_t cpu_us;
	uint64_t cpu_limit_milli; /* thousandths of a CPU */
};

void cgroup_gauges_read(const struct cgroup_gauges *g, struct cgroup_usage *ret);
/* The same from texts, empty where there is none. Pure. */
void cgroup_gauges_parse(const struct str texts[CGROUP_GAUGES], struct cgroup_usage *ret);
