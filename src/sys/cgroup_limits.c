// SPDX-License-Identifier: Apache-2.0
#include "sys/cgroup_limits.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/cgroup.h"
#include "sys/cgroup_impl.h"

#include "base/banned.h"

#define CPU_PERIOD_US 100000
#define CPU_SLOW_PERIOD_US 1000000 /* below 10 milli: the kernel takes no quota under 1 ms */
#define CPU_SLOW_MILLI 10
#define CPU_QUOTA_MIN_US 1000
#define SHARES_DEFAULT 1024        /* v1's number for weight 100 */
#define SHARES_MIN 2
#define BFQ_WEIGHT_MAX 1000

/* Setters return 1 when done, 0 when the host has no means, -1. */
typedef int (*set_fn)(int dir, const struct cgroup_limits *l, struct err *e);

/* A number, or the word for none. */
static int put(int dir, const char *file, uint64_t v, const char *none, struct err *e)
{
	return v == CGROUP_UNLIMITED ? cg_write(dir, file, none, e) : cg_writef(dir, file, e, "%" PRIu64, v);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static int memory_v2(int dir, const struct cgroup_limits *l, struct err *e)
{
	return put(dir, "memory.max", l->memory_bytes, "max", e);
}

/* Memory may not exceed memory and swap together, not even for a moment: where that one is in the way (EINVAL) it
 * is raised first. */
static int memory_v1(int dir, const struct cgroup_limits *l, struct err *e)
{
	struct err first = { 0 };
	int r = put(dir, "memory.limit_in_bytes", l->memory_bytes, "-1", &first);

	if (r >= 0)
		return r;
	if (first.sys == EINVAL && put(dir, "memory.memsw.limit_in_bytes", l->memory_bytes, "-1", e) > 0)
		return put(dir, "memory.limit_in_bytes", l->memory_bytes, "-1", e);
	*e = first;
	return -1;
}

static int swap_v2(int dir, const struct cgroup_limits *l, struct err *e)
{
	(void)l;
	return cg_write(dir, "memory.swap.max", "0", e);
}

/* What is limited together becomes as much as memory alone. Swappiness helps where that is not counted, but binds
 * nobody, so it does not count as enforced. */
static int swap_v1(int dir, const struct cgroup_limits *l, struct err *e)
{
	uint64_t limit = l->memory_bytes;
	int r = limit ? 1 : cg_read_number(dir, "memory.limit_in_bytes", &limit, e);

	if (r > 0)
		r = put(dir, "memory.memsw.limit_in_bytes", limit, "-1", e);
	if (r == 0)
		(void)cg_write(dir, "memory.swappiness", "0", &(struct err){ 0 });
	return r;
}

static int sockets_v2(int dir, const struct cgroup_limits *l, struct err *e)
{
	(void)dir;
	(void)l;
	(void)e;
	return 1;
}

/* Of all internet sockets, whatever the name says. They count from the first limit on, in this group alone. */
static int sockets_v1(int dir, const struct cgroup_limits *l, struct err *e)
{
	return put(dir, "memory.kmem.tcp.limit_in_bytes", l->socket_bytes, "-1", e);
}

static int oom_whole_v2(int dir, const struct cgroup_limits *l, struct err *e)
{
	(void)l;
	return cg_write(dir, "memory.oom.group", "1", e);
}

static int no_means(int dir, const struct cgroup_limits *l, struct err *e)
{
	(void)dir;
	(void)l;
	(void)e;
	return 0;
}

/* ---- cpu, processes, disk ------------------------------------------------------------------------------ */

static uint64_t cpu_period(const struct cgroup_limits *l)
{
	return l->cpu_milli < CPU_SLOW_MILLI ? CPU_SLOW_PERIOD_US : CPU_PERIOD_US;
}

static int cpu_v2(int dir, const struct cgroup_limits *l, struct err *e)
{
	uint64_t period = cpu_period(l);

	if (l->cpu_milli == CGROUP_UNLIMITED)
		return cg_writef(dir, "cpu.max", e, "max %" PRIu64, period);
	return cg_writef(dir, "cpu.max", e, "%" PRIu64 " %" PRIu64, l->cpu_milli * period / 1000, period);
}

/* The period changes without a quota in force, or the pair of old quota and new period might be refused. */
static int cpu_v1(int dir, const struct cgroup_limits *l, struct err *e)
{
	uint64_t period = cpu_period(l), old = 0;
	int r = cg_read_number(dir, "cpu.cfs_period_us", &old, e);

	if (r > 0 && old != period) {
		r = cg_write(dir, "cpu.cfs_quota_us", "-1", e);
		if (r > 0)
			r = cg_writef(dir, "cpu.cfs_period_us", e, "%" PRIu64, period);
	}
	if (r <= 0)
		return r;
	return put(dir, "cpu.cfs_quota_us", l->cpu_milli == CGROUP_UNLIMITED ? l->cpu_milli : l->cpu_milli * period / 1000,
		   "-1", e);
}

static int cpu_weight_v2(int dir, const struct cgroup_limits *l, struct err *e)
{
	return put(dir, "cpu.weight", l->cpu_weight, "100", e);
}

static int cpu_weight_v1(int dir, const struct cgroup_limits *l, struct err *e)
{
	return put(dir, "cpu.shares", MAX(l->cpu_weight * SHARES_DEFAULT / 100, (uint64_t)SHARES_MIN), "1024", e);
}

static int pids(int dir, const struct cgroup_limits *l, struct err *e)
{
	return put(dir, "pids.max", l->pids, "max", e);
}

/* BFQ, where it is the scheduler, goes to 1000 only. */
static int io_weight_v2(int dir, const struct cgroup_limits *l, struct err *e)
{
	int r = cg_writef(dir, "io.weight", e, "default %" PRIu64, l->io_weight);

	if (r == 0)
		r = put(dir, "io.bfq.weight", MIN(l->io_weight, (uint64_t)BFQ_WEIGHT_MAX), "100", e);
	return r;
}

static int io_weight_v1(int dir, const struct cgroup_limits *l, struct err *e)
{
	uint64_t weight = MIN(l->io_weight, (uint64_t)BFQ_WEIGHT_MAX);
	int r = put(dir, "blkio.bfq.weight", weight, "100", e);

	return r == 0 ? put(dir, "blkio.weight", MAX(weight, (uint64_t)10), "500", e) : r;
}

/* ---- huge pages ---------------------------------------------------------------------------------------- */

/* One file for each size of page, and one more for reservations of it. */
static int hugetlb(int dir, struct str suffix, struct err *e)
{
	AUTO_FD again = cg_open_dir(dir, ".", e);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	struct dirent *entry;
	int done = 0, r = 1;

	if (!d)
		return again < 0 ? -1 : err_sys(e, errno, "list files");
	(void)take_fd(&again);
	while (r >= 0 && (entry = readdir(d))) {
		struct str name = str_of(entry->d_name);

		if (!str_starts(name, STR("hugetlb.")) || !str_ends(name, suffix))
			continue;
		r = cg_write(dir, entry->d_name, "0", e);
		done |= r > 0;
	}
	(void)closedir(d);
	return r < 0 ? -1 : done;
}

static int hugetlb_v2(int dir, const struct cgroup_limits *l, struct err *e)
{
	(void)l;
	return hugetlb(dir, STR(".max"), e);
}

static int hugetlb_v1(int dir, const struct cgroup_limits *l, struct err *e)
{
	(void)l;
	return hugetlb(dir, STR(".limit_in_bytes"), e);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

/* Swap after memory: v1 takes its number from there. */
static const struct limit {
	unsigned bit;
	const char *name;
	enum cgroup_controller controller;
	set_fn v1, v2;
} limits[] = {
	{ CGROUP_LIMIT_MEMORY, "memory", CGROUP_MEMORY, memory_v1, memory_v2 },
	{ CGROUP_LIMIT_SWAP, "swap", CGROUP_MEMORY, swap_v1, swap_v2 },
	{ CGROUP_LIMIT_SOCKETS, "sockets", CGROUP_MEMORY, sockets_v1, sockets_v2 },
	{ CGROUP_LIMIT_OOM_WHOLE, "oom group", CGROUP_MEMORY, no_means, oom_whole_v2 },
	{ CGROUP_LIMIT_CPU, "cpu", CGROUP_CPU, cpu_v1, cpu_v2 },
	{ CGROUP_LIMIT_CPU_WEIGHT, "cpu weight", CGROUP_CPU, cpu_weight_v1, cpu_weight_v2 },
	{ CGROUP_LIMIT_PIDS, "pids", CGROUP_PIDS, pids, pids },
	{ CGROUP_LIMIT_IO_WEIGHT, "io weight", CGROUP_IO, io_weight_v1, io_weight_v2 },
	{ CGROUP_LIMIT_HUGETLB, "huge pages", CGROUP_HUGETLB, hugetlb_v1, hugetlb_v2 },
};

const char *cgroup_limit_name(unsigned bit)
{
	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		if (limits[i].bit == bit)
			return limits[i].name;
	return "unknown";
}

static unsigned asked(const struct cgroup_limits *l)
{
	return (l->memory_bytes ? CGROUP_LIMIT_MEMORY : 0) | (l->no_swap ? CGROUP_LIMIT_SWAP : 0) |
	       (l->socket_bytes ? CGROUP_LIMIT_SOCKETS : 0) | (l->oom_whole ? CGROUP_LIMIT_OOM_WHOLE : 0) |
	       (l->cpu_milli ? CGROUP_LIMIT_CPU : 0) |
	       (l->cpu_weight ? CGROUP_LIMIT_CPU_WEIGHT : 0) | (l->pids ? CGROUP_LIMIT_PIDS : 0) |
	       (l->io_weight ? CGROUP_LIMIT_IO_WEIGHT : 0) | (l->no_hugetlb ? CGROUP_LIMIT_HUGETLB : 0);
}

static int check(const struct cgroup_limits *l, struct err *e)
{
	if (l->cpu_milli > CGROUP_CPU_MILLI_MAX && l->cpu_milli != CGROUP_UNLIMITED)
		return err_set(e, ERR_INVALID, "more than %d milli-CPUs", CGROUP_CPU_MILLI_MAX);
	if (l->cpu_weight > CGROUP_WEIGHT_MAX || l->io_weight > CGROUP_WEIGHT_MAX)
		return err_set(e, ERR_INVALID, "a weight above %d", CGROUP_WEIGHT_MAX);
	return 0;
}

int cgroup_limit(const struct cgroup *g, const struct cgroup_limits *l, unsigned *ret_lacking, struct err *e)
{
	unsigned wanted = asked(l), lacking = 0;

	if (check(l, e) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		const struct limit *row = &limits[i];
		int dir = cg_dir_for(g, row->controller), r = 0;

		if (!(wanted & row->bit))
			continue;
		if (dir >= 0)
			r = (cg_is_v2(g, row->controller) ? row->v2 : row->v1)(dir, l, e);
		if (r < 0)
			return err_wrap(e, "limit %s of group '%s'", row->name, g->path);
		if (r == 0)
			lacking |= row->bit;
	}
	*ret_lacking = lacking;
	return 0;
}

/* ---- CPU priority ---- */

/* Kernels before 5.15 have no idle groups; there the group gets the smallest weight. */
int cgroup_set_low_priority(const struct cgroup *parent, const char *name, bool low, struct err *e)
{
	bool is_v2 = cg_is_v2(parent, CGROUP_CPU);
	int dir = cg_dir_for(parent, CGROUP_CPU), r;
	char path[CGROUP_NAME_MAX + 16];

	if (dir < 0)
		return 0;
	if (snprintf(path, sizeof(path), "%s/cpu.idle", name) >= (int)sizeof(path))
		return err_set(e, ERR_INVALID, "'%s' is not the name of a group", name);
	r = cg_write(dir, path, low ? "1" : "0", e);
	if (r != 0)
		return r;
	(void)snprintf(path, sizeof(path), "%s/%s", name, is_v2 ? "cpu.weight" : "cpu.shares"); /* fits, see above */
	if (is_v2)
		return cg_write(dir, path, low ? "1" : "100", e);
	return cg_writef(dir, path, e, "%d", low ? SHARES_MIN : SHARES_DEFAULT);
}

/* ---- CPU cap ---- */

static int read_quota(int dir, const char *path, uint64_t *ret, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	int r = cg_read(dir, path, &b, e);
	struct str first, rest;

	if (r <= 0)
		return r;
	(void)str_cut(str_trim(buf_str(&b)), ' ', &first, &rest); /* v2: "QUOTA PERIOD" */
	return str_to_u64(first, CPU_QUOTA_MIN_US, UINT32_MAX, ret); /* not of "max" and "-1" */
}

static int write_quota(const struct cgroup *parent, const char *name, uint64_t quota, uint64_t period,
		       bool capped,
		       struct err *e)
{
	int dir = cg_dir_for(parent, CGROUP_CPU), r;
	char path[CGROUP_NAME_MAX + 24];

	if (cg_is_v2(parent, CGROUP_CPU)) {
		(void)snprintf(path, sizeof(path), "%s/cpu.max", name);
		return cg_writef(dir, path, e, "%" PRIu64 " %" PRIu64, quota, period);
	}
	/* Between the two it has less than it will, not more. */
	for (int i = 0; i < 2; i++) {
		bool is_quota = (i == 0) == capped;

		(void)snprintf(path, sizeof(path), "%s/%s", name, is_quota ? "cpu.cfs_quota_us" : "cpu.cfs_period_us");
		r = cg_writef(dir, path, e, "%" PRIu64, is_quota ? quota : period);
		if (r <= 0)
			return r;
	}
	return 1;
}

int cgroup_cap_cpu(const struct cgroup *parent, const char *name, bool capped, struct err *e)
{
	char path[CGROUP_NAME_MAX + 24];
	uint64_t quota = 0;
	int dir = cg_dir_for(parent, CGROUP_CPU), r;
	int n = snprintf(path, sizeof(path), "%s/%s", name, cg_is_v2(parent, CGROUP_CPU) ? "cpu.max" : "cpu.cfs_quota_us");

	if (dir < 0)
		return 0;
	if (n < 0 || (size_t)n >= sizeof(path))
		return err_set(e, ERR_INVALID, "'%s' is not the name of a group", name);
	r = read_quota(dir, path, &quota, e);
	if (r <= 0 || (quota % 2 == 1) == capped)
		return r;
	if (!capped)
		return write_quota(parent, name, CG_CAPPED_MILLI(quota) * CPU_PERIOD_US / 1000, CPU_PERIOD_US,
				   capped, e);
	quota = CG_CAPPED_QUOTA(quota * 1000 / CPU_PERIOD_US);
	return quota < CPU_QUOTA_MIN_US ? 0 : write_quota(parent, name, quota, CG_CAPPED_PERIOD_US, capped,
							  e);
}
