// SPDX-License-Identifier: Apache-2.0
/* sys/cgroup_limits.h - resource limits of a group. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup;
struct err;

#define CGROUP_UNLIMITED UINT64_MAX
#define CGROUP_WEIGHT_MAX 10000
#define CGROUP_CPU_MILLI_MAX 10000000

/* 0 and false leave things as they are. */
struct cgroup_limits {
	uint64_t memory_bytes;
	uint64_t cpu_milli;  /* 1000: one CPU. On v1 the kernel refuses more than the group above has */
	uint64_t cpu_weight; /* 1 to CGROUP_WEIGHT_MAX, 100 is the default of the kernel */
	uint64_t io_weight;  /* the same */
	uint64_t pids;
	/* buffers of sockets, which v1 does not count as memory; on v2 they are, and this says nothing */
	uint64_t socket_bytes;
	bool no_swap;        /* on v1 memory and swap together are limited to what memory is */
	bool no_hugetlb;
	bool oom_whole;      /* running out of memory kills all of the group instead of one process */
};

enum {
	CGROUP_LIMIT_MEMORY = 1 << 0,
	CGROUP_LIMIT_SWAP = 1 << 1,
	CGROUP_LIMIT_CPU = 1 << 2,
	CGROUP_LIMIT_CPU_WEIGHT = 1 << 3,
	CGROUP_LIMIT_PIDS = 1 << 4,
	CGROUP_LIMIT_IO_WEIGHT = 1 << 5,
	CGROUP_LIMIT_HUGETLB = 1 << 6,
	CGROUP_LIMIT_OOM_WHOLE = 1 << 7,
	CGROUP_LIMIT_SOCKETS = 1 << 8,
};

const char *cgroup_limit_name(unsigned bit); /* "memory", "io weight", ... */

/* Sets what L asks for. *ret_lacking gets the bits of those that this host has no means to enforce: whether
 * to go on without them is the caller's decision. Lowering memory below what is used fails on v1
 * (ERR_CONFLICT) and kills on v2. */
int cgroup_limit(const struct cgroup *g, const struct cgroup_limits *l, unsigned *ret_lacking, struct err *e);

/* With LOW, the group NAME below PARENT runs only when no other group there wants to, and every other group
 * preempts it. Without LOW it has normal priority. Its limits do not change. 1 done, 0 the group is gone or
 * this host cannot, -1. */
int cgroup_set_low_priority(const struct cgroup *parent, const char *name, bool low, struct err *e);

/* With CAPPED, the group gets a tenth of its CPU limit, in short turns, so that others do not wait longer.
 * Without CAPPED it gets all of its limit again. The quota itself records which it is (an odd number), so any
 * later process can undo the cap. 1 done, 0 the group is gone, has no limit, or one that is too small for a
 * tenth, -1. */
int cgroup_cap_cpu(const struct cgroup *parent, const char *name, bool capped, struct err *e);

/* ---- devices --------------------------------------------------------------------------------------------- */

#define CGROUP_DEVICES_MAX 64
#define CGROUP_DEVICE_ANY UINT32_MAX /* for a number */

enum { CGROUP_DEVICE_MAKE = 1, CGROUP_DEVICE_READ = 2, CGROUP_DEVICE_WRITE = 4 };

struct cgroup_device {
	char type;      /* 'c' or 'b' */
	uint32_t major, minor;
	unsigned access; /* CGROUP_DEVICE_... */
};

/* From now on processes of the group, and of groups below it, may use the devices of the list and no others.
 * Call it before groups are made below (v1 insists); again with the same list is fine at any time.
 * ERR_UNAVAILABLE when the host has no means for it. */
int cgroup_limit_devices(const struct cgroup *g, const struct cgroup_device *list, size_t n, struct err *e);
