// SPDX-License-Identifier: Apache-2.0
#include "sys/cgroup_stats.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/cgroup.h"
#include "sys/cgroup_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

/* ---- numbers ------------------------------------------------------------------------------------------- */

/* Takes what a reader said (1 told, 0 not here, -1) into `has`. */
static int note(struct cgroup_stats *s, unsigned bit, int r)
{
	if (r > 0)
		s->has |= bit;
	return r < 0 ? -1 : 0;
}

/* "NAME/FILE" */
static int file_path(char *out, size_t size, const char *name, const char *file, struct err *e)
{
	int n = snprintf(out, size, "%s/%s", name, file);

	return n < 0 || (size_t)n >= size ? err_set(e, ERR_INVALID, "'%s' is not the name of a group", name) : 0;
}

static int cpu_usage(const struct cgroup *parent, const char *name, uint64_t *ret_us, struct err *e)
{
	int dir = cg_dir_for(parent, CGROUP_CPUACCT), r;
	char path[CGROUP_NAME_MAX + 16];
	bool is_v2 = cg_is_v2(parent, CGROUP_CPUACCT);
	uint64_t ns = 0;

	if (dir < 0)
		return 0;
	if (file_path(path, sizeof(path), name, is_v2 ? "cpu.stat" : "cpuacct.usage", e) < 0)
		return -1;
	if (is_v2)
		return cg_read_key(dir, path, "usage_usec", ret_us, e);
	r = cg_read_number(dir, path, &ns, e);
	if (r > 0)
		*ret_us = ns / 1000;
	return r;
}

/* 0 where nothing is known of it: kernels without PSI say EOPNOTSUPP. */
static uint64_t cpu_waited(const struct cgroup *parent, const char *name)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	char path[CGROUP_NAME_MAX + 16];
	uint64_t us = 0;

	if (cg_is_v2(parent, CGROUP_CPUACCT) && file_path(path, sizeof(path), name, "cpu.pressure", &(struct err){ 0 }) == 0 &&
	    cg_read(cg_dir_for(parent, CGROUP_CPUACCT), path, &b, &(struct err){ 0 }) > 0)
		(void)cgroup_parse_pressure(buf_str(&b), &us);
	return us;
}

int cgroup_cpu_read(const struct cgroup *parent, const char *name, struct cgroup_cpu *ret, struct err *e)
{
	int r = cpu_usage(parent, name, &ret->used_us, e);

	if (r > 0)
		ret->waited_us = cpu_waited(parent, name);
	return r;
}

int cgroup_pids_count(const struct cgroup *parent, const char *name, uint64_t *ret, struct err *e)
{
	int dir = cg_dir_for(parent, CGROUP_PIDS);
	char path[CGROUP_NAME_MAX + 16];

	if (dir < 0)
		return 0;
	return file_path(path, sizeof(path), name, "pids.current", e) < 0 ? -1 : cg_read_number(dir, path, ret, e);
}

static int read_cpu(const struct cgroup *g, struct cgroup_stats *s, struct err *e)
{
	return note(s, CGROUP_STAT_CPU, cpu_usage(g, ".", &s->cpu_usage_us, e));
}

/* v1 counts in the group that had the process, and there only. */
static int add_oom_kills(int dir, void *arg, struct err *e)
{
	uint64_t *sum = arg, here = 0;

	if (cg_read_key(dir, "memory.oom_control", "oom_kill", &here, e) < 0)
		return -1;
	*sum += here;
	return 0;
}

static int read_oom_kills(int dir, bool is_v2, uint64_t *ret, struct err *e)
{
	uint64_t sum = 0;
	int r;

	if (is_v2)
		return cg_read_key(dir, "memory.events", "oom_kill", ret, e);
	r = cg_read_key(dir, "memory.oom_control", "oom_kill", &sum, e); /* told since Linux 4.13 */
	sum = 0;
	if (r > 0 && cg_walk(dir, add_oom_kills, &sum, e) < 0)
		return -1;
	if (r > 0)
		*ret = sum;
	return r;
}

static int read_memory(const struct cgroup *g, struct cgroup_stats *s, struct err *e)
{
	int dir = cg_dir_for(g, CGROUP_MEMORY);
	bool is_v2 = cg_is_v2(g, CGROUP_MEMORY);
	const char *now = is_v2 ? "memory.current" : "memory.usage_in_bytes";
	const char *peak = is_v2 ? "memory.peak" : "memory.max_usage_in_bytes";

	if (dir < 0)
		return 0;
	if (note(s, CGROUP_STAT_MEMORY, cg_read_number(dir, now, &s->memory_bytes, e)) < 0 ||
	    note(s, CGROUP_STAT_MEMORY_PEAK, cg_read_number(dir, peak, &s->memory_peak_bytes, e)) < 0)
		return -1;
	return note(s, CGROUP_STAT_OOM_KILLS, read_oom_kills(dir, is_v2, &s->oom_kills, e));
}

static int read_pids(const struct cgroup *g, struct cgroup_stats *s, struct err *e)
{
	int dir = cg_dir_for(g, CGROUP_PIDS);

	if (dir < 0)
		return 0;
	if (note(s, CGROUP_STAT_PIDS, cg_read_number(dir, "pids.current", &s->pids, e)) < 0)
		return -1;
	return note(s, CGROUP_STAT_PIDS_PEAK, cg_read_number(dir, "pids.peak", &s->pids_peak, e));
}

static int read_io(const struct cgroup *g, struct cgroup_stats *s, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	int dir = cg_dir_for(g, CGROUP_IO), r;
	bool is_v2 = cg_is_v2(g, CGROUP_IO);

	if (dir < 0)
		return 0;
	r = cg_read(dir, is_v2 ? "io.stat" : "blkio.throttle.io_service_bytes_recursive", &b, e);
	if (r == 0 && !is_v2)
		r = cg_read(dir, "blkio.throttle.io_service_bytes", &b, e);
	if (r > 0)
		cgroup_parse_io(buf_str(&b), is_v2, &s->io_read_bytes, &s->io_written_bytes);
	return note(s, CGROUP_STAT_IO, r);
}

int cgroup_stats_read(const struct cgroup *g, struct cgroup_stats *ret, struct err *e)
{
	struct cgroup_stats s = { 0 };

	if (read_cpu(g, &s, e) < 0 || read_memory(g, &s, e) < 0 || read_pids(g, &s, e) < 0 || read_io(g, &s, e) < 0)
		return err_wrap(e, "statistics of group '%s'", g->path);
	*ret = s;
	return 0;
}

/* ---- word of kills ------------------------------------------------------------------------------------- */

int cgroup_oom_open(const struct cgroup *g, struct err *e)
{
	int dir = cg_dir_for(g, CGROUP_MEMORY), fd;
	const char *name = cg_is_v2(g, CGROUP_MEMORY) ? "memory.events" : "memory.oom_control";

	if (dir < 0)
		return err_set(e, ERR_UNAVAILABLE, "count kills in group '%s': no hierarchy can", g->path);
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_sys(e, errno, "open '%s' of group '%s'", name, g->path) : fd;
}

