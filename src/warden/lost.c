// SPDX-License-Identifier: Apache-2.0
#include "warden/lost.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/uuid.h"
#include "sys/cgroup_control.h"
#include "sys/fd.h"
#include "sys/link.h"
#include "sys/namespace.h"
#include "sys/netlink.h"
#include "sys/process_stat.h"
#include "warden/warden.h"

#include "base/banned.h"

#define STATUS_MAX ((size_t)64 * 1024)

/* ---- its processes ---- */

struct search {
	size_t n;  /* processes */
	pid_t pid; /* PID 1 of its namespace, or 0 */
};

/* "NSpid:\t4711\t1": the last number is the one in the innermost namespace. */
static bool is_first(pid_t pid)
{
	AUTO(buf_done) struct buf b = BUF_INIT(STATUS_MAX);
	struct str rest, line;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (fd_read_file(AT_FDCWD, path, STATUS_MAX, &b, &(struct err){ 0 }) < 0)
		return false;
	for (rest = buf_str(&b); rest.n > 0;) {
		(void)str_cut(rest, '\n', &line, &rest);
		if (str_starts(line, STR("NSpid:")))
			return str_ends(line, STR("\t1"));
	}
	return false;
}

static int on_process(pid_t pid, void *arg, struct err *e)
{
	struct search *s = arg;

	(void)e;
	s->n++;
	if (s->pid == 0 && is_first(pid))
		s->pid = pid;
	return s->n > 1 && s->pid != 0; /* enough is known */
}

/* ---- whose it is ---- */

/* A sandbox cannot change its hostname, which is its id. */
static int read_hostname(pid_t pid, char out[WIRE_ID_SIZE], struct err *e)
{
	AUTO_FD pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	AUTO_FD home = namespace_of_self(NAMESPACE_UTS, e);
	AUTO_FD there = -1;
	int r;

	if (pidfd < 0)
		return err_sys(e, errno, "open process %d", (int)pid);
	there = home < 0 ? -1 : namespace_of_process(pidfd, NAMESPACE_UTS, e);
	if (there < 0 || namespace_enter(there, NAMESPACE_UTS, e) < 0)
		return -1;
	r = gethostname(out, WIRE_ID_SIZE);
	namespace_come_back(home, NAMESPACE_UTS);
	out[WIRE_ID_SIZE - 1] = '\0';
	return r == 0 && id_valid(str_of(out)) ? 0 : err_set(e, ERR_INVALID, "the name of a box is no id");
}

static bool has_network(const struct warden *w, unsigned number)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	char name[LINK_NAME_MAX + 1];
	struct link_row row;
	struct err e;

	if (!w->host.network.is_on)
		return false;
	box_network_link(&w->host.network, number, name);
	return netlink_open(&nl, NETLINK_ROUTE, -1, &e) == 0 && link_find(&nl, name, &row, &e) == 0 && row.is_up;
}

int lost_identify(struct warden *w, unsigned number, struct box_file *ret, struct stack *ret_stack, struct err *e)
{
	AUTO(cgroup_done) struct cgroup g = CGROUP_INIT;
	struct process_stat stat;
	struct search s = { 0 };
	char name[16];

	slot_name(number, name);
	if (cgroup_open_for(&w->host.top, name, CGROUP_BIT(CGROUP_FREEZER), &g, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (cgroup_each_process(&g, on_process, &s, e) < 0)
		return -1;
	if (s.n < 2 || s.pid == 0)
		return 0;
	*ret = (struct box_file){ .stage = BOX_RUNNING, .pid = s.pid, .network = has_network(w, number) ? WIRE_NET_POLICY : WIRE_NET_NONE };
	if (process_stat_read(s.pid, &stat, e) < 0 || read_hostname(s.pid, ret->id, e) < 0)
		return -1;
	ret->pid_start = stat.start;
	memcpy(ret->boot, w->boot, sizeof(ret->boot));
	*ret_stack = (struct stack){ .is_unknown = true };
	return 1;
}
