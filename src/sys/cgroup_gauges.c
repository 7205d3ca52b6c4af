// SPDX-License-Identifier: Apache-2.0
#include "sys/cgroup_gauges.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/cgroup.h"
#include "sys/cgroup_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

#define GAUGE_TEXT_MAX 8192           /* memory.stat has some 60 lines */
#define NO_LIMIT (UINT64_C(1) << 60) /* v1 writes a number of this size for none */
#define OWN_TEXT_MAX (64 * 1024)

/* ---- reading ---- */

static void parse_memory(const struct str *texts, struct cgroup_usage *u)
{
	uint64_t used, limit, idle = 0;

	if (cgroup_parse_number(texts[CGROUP_GAUGE_MEMORY], &used)) {
		if (!cgroup_parse_key(texts[CGROUP_GAUGE_MEMORY_STAT], "total_inactive_file", &idle))
			(void)cgroup_parse_key(texts[CGROUP_GAUGE_MEMORY_STAT], "inactive_file", &idle);
		u->memory_bytes = used - MIN(used, idle);
		u->has |= CGROUP_HAS_MEMORY;
	}
	if (cgroup_parse_number(texts[CGROUP_GAUGE_MEMORY_LIMIT], &limit) && limit < NO_LIMIT) {
		u->memory_limit_bytes = limit;
		u->has |= CGROUP_HAS_MEMORY_LIMIT;
	}
}

/* v2: "50000 100000" or "max 100000" in one file; v1: "50000" or "-1", and the period in the other. */
static void parse_quota(struct str quota, struct str period, struct cgroup_usage *u)
{
	struct str text = str_trim(quota), first, second;
	uint64_t q, p;

	if (!str_cut(text, ' ', &first, &second))
		second = str_trim(period);
	if (!str_to_u64(first, 1, UINT32_MAX, &q) || !str_to_u64(second, 1, UINT32_MAX, &p))
		return;
	u->cpu_limit_milli = MAX(q * 1000 / p, UINT64_C(1));
	if (q % 2 == 1 && p == CG_CAPPED_PERIOD_US)
		u->cpu_limit_milli = CG_CAPPED_MILLI(q); /* which is not for long */
	u->has |= CGROUP_HAS_CPU_LIMIT;
}

void cgroup_gauges_parse(const struct str texts[CGROUP_GAUGES], struct cgroup_usage *ret)
{
	struct cgroup_usage u = { 0 };
	uint64_t ns;

	parse_memory(texts, &u);
	if (cgroup_parse_key(texts[CGROUP_GAUGE_CPU], "usage_usec", &u.cpu_us)) {
		u.has |= CGROUP_HAS_CPU;
	} else if (cgroup_parse_number(texts[CGROUP_GAUGE_CPU], &ns)) {
		u.cpu_us = ns / 1000;
		u.has |= CGROUP_HAS_CPU;
	}
	parse_quota(texts[CGROUP_GAUGE_CPU_QUOTA], texts[CGROUP_GAUGE_CPU_PERIOD], &u);
	*ret = u;
}

void cgroup_gauges_read(const struct cgroup_gauges *g, struct cgroup_usage *ret)
{
	char room[CGROUP_GAUGES][GAUGE_TEXT_MAX];
	struct str texts[CGROUP_GAUGES];

	for (int i = 0; i < CGROUP_GAUGES; i++) {
		ssize_t n = g->fds[i] >= 0 ? pread(g->fds[i], room[i], sizeof(room[i]), 0) : 0;

		texts[i] = (struct str){ room[i], n > 0 ? (size_t)n : 0 };
	}
	cgroup_gauges_parse(texts, ret);
}

void cgroup_gauges_done(struct cgroup_gauges *g)
{
	for (int i = 0; i < CGROUP_GAUGES; i++)
		closep(&g->fds[i]);
	*g = CGROUP_GAUGES_INIT;
}

/* ---- opening ---- */

static const struct {
	enum cgroup_controller controller;
	const char *v1, *v2;
} files[CGROUP_GAUGES] = {
	[CGROUP_GAUGE_MEMORY] = { CGROUP_MEMORY, "memory.usage_in_bytes", "memory.current" },
	[CGROUP_GAUGE_MEMORY_LIMIT] = { CGROUP_MEMORY, "memory.limit_in_bytes", "memory.max" },
	[CGROUP_GAUGE_MEMORY_STAT] = { CGROUP_MEMORY, "memory.stat", "memory.stat" },
	[CGROUP_GAUGE_CPU] = { CGROUP_CPUACCT, "cpuacct.usage", "cpu.stat" },
	[CGROUP_GAUGE_CPU_QUOTA] = { CGROUP_CPU, "cpu.cfs_quota_us", "cpu.max" },
	[CGROUP_GAUGE_CPU_PERIOD] = { CGROUP_CPU, "cpu.cfs_period_us", "cpu.max" },
};

int cgroup_gauges_open(const struct cgroup *memory, const struct cgroup *cpu, struct cgroup_gauges *ret, struct err *e)
{
	AUTO(cgroup_gauges_done) struct cgroup_gauges g = CGROUP_GAUGES_INIT;

	for (int i = 0; i < CGROUP_GAUGES; i++) {
		const struct cgroup *of = files[i].controller == CGROUP_MEMORY ? memory : cpu;
		const char *name = cg_is_v2(of, files[i].controller) ? files[i].v2 : files[i].v1;
		int dir = cg_dir_for(of, files[i].controller);

		if (dir < 0)
			return err_set(e, ERR_UNAVAILABLE, "measure group '%s': no hierarchy can", of->path);
		g.fds[i] = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (g.fds[i] < 0)
			return err_sys(e, errno, "open '%s' of group '%s'", name, of->path);
	}
	*ret = g;
	g = CGROUP_GAUGES_INIT;
	return 0;
}

/* ---- our own ---- */

/* "4:memory:/a/b", "0::/a/b": the path in the hierarchy of that mount. */
static bool own_path(struct str text, const struct cgroup_mount *m, struct str *ret)
{
	struct str line, number, names, path;

	if (m->is_v2)
		return cgroup_parse_own(text, ret);
	while (text.n > 0) {
		(void)str_cut(text, '\n', &line, &text);
		if (!str_cut(line, ':', &number, &line) || !str_cut(line, ':', &names, &path))
			continue;
		if (cgroup_parse_names(names, ',', false) & m->controllers) {
			*ret = path;
			return true;
		}
	}
	return false;
}

/* What is mounted may be a part of the hierarchy, the one that we are in. */
static int open_own_dir(const struct cgroup_mount *m, struct str path)
{
	char place[2 * CGROUP_MOUNT_MAX + 2];
	struct str root = str_of(m->root);

	if (root.n > 1 && str_starts(path, root))
		path = str_skip(path, root.n);
	if (snprintf(place, sizeof(place), "%s%.*s", m->place, STR_ARG(path)) >= (int)sizeof(place))
		return -1;
	return open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void open_of_mount(const struct cgroup_mount *m, int dir, struct cgroup_gauges *g)
{
	for (int i = 0; i < CGROUP_GAUGES; i++)
		if (g->fds[i] < 0 && (m->is_v2 || (m->controllers & CGROUP_BIT(files[i].controller))))
			g->fds[i] = openat(dir, m->is_v2 ? files[i].v2 : files[i].v1, O_RDONLY | O_CLOEXEC);
}

void cgroup_gauges_open_own(struct cgroup_gauges *ret)
{
	AUTO(buf_done) struct buf mounts = BUF_INIT(CGROUP_TEXT_MAX);
	AUTO(buf_done) struct buf own = BUF_INIT(OWN_TEXT_MAX);
	struct err ignored = { 0 }; /* then there are none */
	struct cgroup_mount m;
	struct str in, path;

	*ret = CGROUP_GAUGES_INIT;
	if (fd_read_file(AT_FDCWD, "/proc/self/mountinfo", CGROUP_TEXT_MAX, &mounts, &ignored) < 0 ||
	    fd_read_file(AT_FDCWD, "/proc/self/cgroup", OWN_TEXT_MAX, &own, &ignored) < 0)
		return;
	in = buf_str(&mounts);
	/* The v1 hierarchies come first: on a hybrid host they have the controllers. */
	for (int want_v2 = 0; want_v2 < 2; want_v2++, in = buf_str(&mounts))
		while (cgroup_next_mount(&in, &m)) {
			AUTO_FD dir = m.is_v2 == want_v2 && own_path(buf_str(&own), &m, &path) ? open_own_dir(&m, path) : -1;

			if (dir >= 0)
				open_of_mount(&m, dir, ret);
		}
}
