// SPDX-License-Identifier: Apache-2.0
#include "sys/cgroup_control.h"

#include <signal.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "sys/cgroup.h"
#include "sys/cgroup_impl.h"

#include "base/banned.h"

#define KILL_BATCH 64        /* processes held by pidfd at a time */
#define KILL_ROUND_MS 100    /* between two rounds of killing */
#define KILL_FREEZE_MS 500   /* a process that does not freeze by then is killed as it is */

/* Of the hierarchy that freezes and kills. */
static int cg_control_dir(const struct cgroup *g, bool *ret_is_v2)
{
	int i = g->layout->where[CGROUP_FREEZER];

	if (i < 0 && g->layout->n > 0 && g->layout->at[0].is_v2)
		i = 0; /* a v2 that cannot freeze still knows who is in it */
	*ret_is_v2 = i >= 0 && g->layout->at[i].is_v2;
	return i < 0 ? -1 : g->dirs[i];
}

static int need_control_dir(const struct cgroup *g, bool *ret_is_v2, struct err *e)
{
	int dir = cg_control_dir(g, ret_is_v2);

	return dir < 0 ? err_set(e, ERR_UNAVAILABLE, "group '%s': no hierarchy can freeze or kill", g->path) : dir;
}

/* ---- freezing ------------------------------------------------------------------------------------------ */

/* v1 goes through FREEZING and may stay there until it is told again. 1 it is so, 0 not by the deadline, -1. */
static int set_state_v1(int dir, const char *want, uint64_t deadline, struct err *e)
{
	unsigned delay_ms = 0;

	do {
		AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
		int r = cg_write(dir, "freezer.state", want, e);

		if (r > 0)
			r = cg_read(dir, "freezer.state", &b, e);
		if (r < 0)
			return -1;
		if (r == 0 || str_is(str_trim(buf_str(&b)), want))
			return 1; /* or it is gone */
	} while (cg_pause(&delay_ms, deadline));
	return 0;
}

static int set_frozen(int dir, bool is_v2, bool frozen, uint64_t deadline, struct err *e)
{
	int r;

	if (!is_v2)
		return set_state_v1(dir, frozen ? "FROZEN" : "THAWED", deadline, e);
	r = cg_write(dir, "cgroup.freeze", frozen ? "1" : "0", e);
	if (r <= 0)
		return r < 0 ? -1 : 1; /* it is gone */
	return cg_wait_event(dir, "frozen", frozen, deadline, e);
}

static int freeze_or_thaw(const struct cgroup *g, bool frozen, int timeout_ms, struct err *e)
{
	struct err scratch = { 0 };
	bool is_v2;
	int dir = need_control_dir(g, &is_v2, e), r;

	if (dir < 0)
		return -1;
	if (g->layout->where[CGROUP_FREEZER] < 0)
		return err_set(e, ERR_UNAVAILABLE, "group '%s': this host cannot freeze", g->path);
	r = set_frozen(dir, is_v2, frozen, cg_deadline(timeout_ms), e);
	if (r > 0)
		return 0;
	if (r == 0)
		(void)err_set(e, ERR_TIMEOUT, "not within %d ms", timeout_ms);
	if (frozen)
		(void)set_frozen(dir, is_v2, false, cg_deadline(0), &scratch); /* nobody asked for half of it */
	return err_wrap(e, "%s group '%s'", frozen ? "freeze" : "thaw", g->path);
}

int cgroup_freeze(const struct cgroup *g, int timeout_ms, struct err *e)
{
	return freeze_or_thaw(g, true, timeout_ms, e);
}

int cgroup_thaw(const struct cgroup *g, int timeout_ms, struct err *e)
{
	return freeze_or_thaw(g, false, timeout_ms, e);
}

/* As much of the list as fits: who reads it looks again anyway. */
static int read_procs(int dir, struct buf *b, struct err *e)
{
	struct err failed = { 0 };

	if (cg_read(dir, "cgroup.procs", b, &failed) >= 0 || failed.code == ERR_LIMIT)
		return 0;
	*e = failed;
	return -1;
}

/* ---- who is in it ---------------------------------------------------------------------------------------- */

struct each {
	cgroup_process_fn *fn;
	void *arg;
};

static int each_process(int dir, void *arg, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	const struct each *each = arg;
	struct str rest, line;
	int r = 0;

	if (read_procs(dir, &b, e) < 0)
		return -1;
	for (rest = buf_str(&b); rest.n > 0 && r == 0;) {
		uint64_t pid;

		(void)str_cut(rest, '\n', &line, &rest);
		if (str_to_u64(line, 1, INT32_MAX, &pid)) /* 0 is one of another pid namespace */
			r = each->fn((pid_t)pid, each->arg, e);
	}
	return r;
}

int cgroup_each_process(const struct cgroup *g, cgroup_process_fn *fn, void *arg, struct err *e)
{
	struct each each = { fn, arg };
	bool is_v2;
	int dir = need_control_dir(g, &is_v2, e);

	return dir < 0 ? -1 : cg_walk(dir, each_process, &each, e);
}

/* ---- being empty --------------------------------------------------------------------------------------- */

static int has_processes(int dir, void *arg, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);

	(void)arg;
	return read_procs(dir, &b, e) < 0 ? -1 : b.n > 0;
}

/* 1, 0 or -1. */
static int is_empty(int dir, bool is_v2, struct err *e)
{
	int r = is_v2 ? cg_wait_event(dir, "populated", 0, 0, e) : cg_walk(dir, has_processes, NULL, e);

	return is_v2 || r < 0 ? r : !r;
}

static int wait_empty(int dir, bool is_v2, uint64_t deadline, struct err *e)
{
	unsigned delay_ms = 0;
	int r;

	if (is_v2)
		return cg_wait_event(dir, "populated", 0, deadline, e);
	do
		r = is_empty(dir, false, e);
	while (r == 0 && cg_pause(&delay_ms, deadline));
	return r;
}

/* ---- killing ------------------------------------------------------------------------------------------- */

struct listed_process {
	pid_t pid;
	int pidfd;
};

static bool is_listed(struct str list, pid_t pid)
{
	pid_t other;

	while (cgroup_next_pid(&list, &other))
		if (other == pid)
			return true;
	return false;
}

/* A number may have passed on to a stranger since the list was read. So processes are held by pidfd first and
 * looked up in a second list: whoever has the number then is in the group, and if that is not whom we hold,
 * ours is gone and the signal goes nowhere. */
static int kill_still_listed(int dir, struct listed_process *found, size_t n, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	int r = read_procs(dir, &b, e);

	for (size_t i = 0; i < n; i++) {
		if (found[i].pidfd >= 0 && is_listed(buf_str(&b), found[i].pid))
			(void)syscall(SYS_pidfd_send_signal, found[i].pidfd, SIGKILL, NULL, 0);
		closep(&found[i].pidfd);
	}
	return r;
}

static int kill_listed(int dir, void *arg, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(CGROUP_FILE_MAX);
	struct listed_process found[KILL_BATCH];
	struct str in;
	bool more = true;

	(void)arg;
	if (read_procs(dir, &b, e) < 0)
		return -1;
	in = buf_str(&b);
	while (more) {
		size_t n = 0;

		while (n < KILL_BATCH && (more = cgroup_next_pid(&in, &found[n].pid))) {
			found[n].pidfd = (int)syscall(SYS_pidfd_open, found[n].pid, 0);
			n++;
		}
		if (n > 0 && kill_still_listed(dir, found, n, e) < 0)
			return -1;
	}
	return 0;
}

/* Frozen first, so that nobody forks faster than we read; thawed, because v1's frozen do not die. */
static int kill_round(const struct cgroup *g, int dir, bool is_v2, struct err *e)
{
	bool can_freeze = g->layout->where[CGROUP_FREEZER] >= 0;
	struct err scratch = { 0 };
	int r;

	if (is_v2 && g->layout->has_kill)
		return cg_write(dir, "cgroup.kill", "1", e) < 0 ? -1 : 0;
	if (can_freeze)
		(void)set_frozen(dir, is_v2, true, cg_deadline(KILL_FREEZE_MS), &scratch); /* then as they are */
	r = cg_walk(dir, kill_listed, NULL, e);
	if (can_freeze && set_frozen(dir, is_v2, false, cg_deadline(KILL_ROUND_MS), e) < 0)
		return -1;
	return r;
}

int cgroup_kill(const struct cgroup *g, int timeout_ms, struct err *e)
{
	uint64_t deadline = cg_deadline(timeout_ms);
	bool is_v2;
	int dir = need_control_dir(g, &is_v2, e), r;

	if (dir < 0)
		return -1;
	do {
		r = is_empty(dir, is_v2, e);
		if (r == 0)
			r = kill_round(g, dir, is_v2, e);
		if (r == 0)
			r = wait_empty(dir, is_v2, MIN(deadline, cg_deadline(KILL_ROUND_MS)), e);
	} while (r == 0 && clock_mono_ms() < deadline);
	if (r == 0)
		return err_set(e, ERR_TIMEOUT, "group '%s' still has processes after %d ms", g->path, timeout_ms);
	return r < 0 ? err_wrap(e, "kill group '%s'", g->path) : 0;
}
