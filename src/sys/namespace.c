// SPDX-License-Identifier: Apache-2.0
#include "sys/namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/fd.h"

#include "base/banned.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif
#define CLONE_PIDFD_FLAG 0x1000ULL
#define CLONE_INTO_CGROUP_FLAG 0x200000000ULL
#define FDINFO_BYTES_MAX 4096

/* The kernel's struct clone_args up to Linux 5.7: linux/sched.h clashes with libc's sched.h. */
struct clone_args_v2 {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};
#define CLONE_ARGS_V0_BYTES offsetof(struct clone_args_v2, set_tid)

/* `get` is the number of the PIDFD_GET_..._NAMESPACE request (Linux 6.11). */
static const struct kind {
	const char *name;
	int clone_flag;
	unsigned get;
} kinds[] = {
	[NAMESPACE_USER] = { "user", CLONE_NEWUSER, _IO(0xff, 9) },
	[NAMESPACE_MOUNT] = { "mnt", CLONE_NEWNS, _IO(0xff, 3) },
	[NAMESPACE_PID] = { "pid", CLONE_NEWPID, _IO(0xff, 5) },
	[NAMESPACE_NET] = { "net", CLONE_NEWNET, _IO(0xff, 4) },
	[NAMESPACE_IPC] = { "ipc", CLONE_NEWIPC, _IO(0xff, 2) },
	[NAMESPACE_UTS] = { "uts", CLONE_NEWUTS, _IO(0xff, 10) },
	[NAMESPACE_CGROUP] = { "cgroup", CLONE_NEWCGROUP, _IO(0xff, 1) },
	[NAMESPACE_TIME] = { "time", CLONE_NEWTIME, _IO(0xff, 7) },
};

pid_t namespace_clone(uint64_t flags, int cgroup, int *ret_pidfd, struct err *e)
{
	int pidfd = -1;
	struct clone_args_v2 args = {
		.flags = flags | CLONE_PIDFD_FLAG | (cgroup >= 0 ? CLONE_INTO_CGROUP_FLAG : 0),
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = flags & CLONE_PARENT ? 0 : SIGCHLD, /* then it is as with this process itself */
		.cgroup = cgroup >= 0 ? (uint64_t)cgroup : 0,
	};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, cgroup >= 0 ? sizeof(args) : CLONE_ARGS_V0_BYTES);

	if (pid < 0)
		return err_sys(e, errno, "clone into new namespaces");
	if (pid > 0)
		*ret_pidfd = pidfd;
	return pid;
}

/* ---- descriptors --------------------------------------------------------------------------------------- */

/* The number behind a pidfd as our /proc shows it: -1 once the process was collected, 0 in a foreign one. */
static int pid_of(int pidfd, pid_t *ret, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(FDINFO_BYTES_MAX);
	char path[64];
	struct str rest, line, key, value;
	int64_t pid = 0;

	(void)snprintf(path, sizeof(path), "/proc/thread-self/fdinfo/%d", pidfd);
	if (fd_read_file(AT_FDCWD, path, FDINFO_BYTES_MAX, &b, e) < 0)
		return -1;
	rest = buf_str(&b);
	while (str_cut(rest, '\n', &line, &rest))
		if (str_cut(line, ':', &key, &value) && str_is(key, "Pid"))
			(void)str_to_i64(str_trim(value), -1, INT32_MAX, &pid);
	if (pid <= 0)
		return err_sys(e, ESRCH, "the process of a pidfd");
	*ret = (pid_t)pid;
	return 0;
}

/* The number may be another's by the time it is used; so the pidfd is asked afterwards whether its process, which
 * then had the number all the time, is still there. */
static int open_by_number(int pidfd, enum namespace_kind kind, struct err *e)
{
	AUTO_FD fd = -1;
	char path[64];
	pid_t pid = 0;

	if (pid_of(pidfd, &pid, e) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kinds[kind].name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "open '%s'", path);
	if (syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0)
		return err_sys(e, errno, "the process of a pidfd");
	return take_fd(&fd);
}

/* ENOTTY and EINVAL: before Linux 6.11. EOPNOTSUPP: a kernel without this kind, where /proc says it better. */
int namespace_of_process(int pidfd, enum namespace_kind kind, struct err *e)
{
	int fd = ioctl(pidfd, kinds[kind].get, 0);

	if (fd < 0 && (errno == ENOTTY || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS))
		fd = open_by_number(pidfd, kind, e);
	else if (fd < 0)
		(void)err_sys(e, errno, "ask a pidfd");
	return fd < 0 ? err_wrap(e, "take the %s namespace of a process", kinds[kind].name) : fd;
}

int namespace_of_self(enum namespace_kind kind, struct err *e)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/thread-self/ns/%s", kinds[kind].name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, errno, "open '%s'", path) : fd;
}

int namespace_enter(int fd, enum namespace_kind kind, struct err *e)
{
	if (setns(fd, kinds[kind].clone_flag) < 0)
		return err_sys(e, errno, "enter a %s namespace", kinds[kind].name);
	return 0;
}

void namespace_come_back(int home, enum namespace_kind kind)
{
	struct err e;

	if (namespace_enter(home, kind, &e) == 0)
		return;
	(void)fprintf(stderr, "cannot come back: %s\n", e.msg);
	abort();
}

int namespace_set_hostname(int pidfd, const char *hostname, struct err *e)
{
	AUTO_FD home = namespace_of_self(NAMESPACE_UTS, e);
	AUTO_FD there = home < 0 ? -1 : namespace_of_process(pidfd, NAMESPACE_UTS, e);
	int r;

	if (there < 0 || namespace_enter(there, NAMESPACE_UTS, e) < 0)
		return -1;
	r = sethostname(hostname, strlen(hostname)) < 0 ? err_sys(e, errno, "set the host name") : 0;
	namespace_come_back(home, NAMESPACE_UTS);
	return r;
}
