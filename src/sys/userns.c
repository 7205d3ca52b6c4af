// SPDX-License-Identifier: Apache-2.0
#include "sys/userns.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/own.h"
#include "base/str.h"
#include "sys/fd.h"
#include "sys/namespace.h"
#include "sys/process.h"

#include "base/banned.h"

#define END_TIMEOUT_MS 10000 /* of a child that was killed */

int userns_check_base(uint64_t base, struct err *e)
{
	if (base < USERNS_BASE_MIN || base > USERNS_BASE_MAX || base % USERNS_IDS != 0)
		return err_set(e, ERR_INVALID, "id range from %llu on: not a multiple of %d from %d to %d",
			       (unsigned long long)base, USERNS_IDS, USERNS_BASE_MIN, USERNS_BASE_MAX);
	return 0;
}

/* Settings and maps take one write(): a second one would be another value. */
static int write_setting(int dirfd, const char *path, const char *value, struct err *e)
{
	AUTO_FD fd = -1;
	ssize_t n;

	fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "open '%s'", path);
	n = write(fd, value, strlen(value));
	if (n != (ssize_t)strlen(value))
		return err_sys(e, n < 0 ? errno : EIO, "write '%s' to '%s'", value, path);
	return 0;
}

/* ---- in the child -------------------------------------------------------------------------------------- */

/* /proc/sys/user shows each process the settings of its own namespace. */
static int forbid_namespaces(struct err *e)
{
	static const char *const names[] = {
		"max_user_namespaces", "max_mnt_namespaces", "max_pid_namespaces",    "max_net_namespaces",
		"max_ipc_namespaces",  "max_uts_namespaces", "max_cgroup_namespaces", "max_time_namespaces",
	};
	AUTO_FD dir = -1;
	struct err why;

	dir = open("/proc/sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, errno, "open '/proc/sys/user'");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (write_setting(dir, names[i], "0", &why) == 0)
			continue;
		/* Time namespaces came with Linux 5.6, their setting with them: what is unknown cannot be made. */
		if (why.sys == ENOENT && str_is(str_of(names[i]), "max_time_namespaces"))
			continue;
		*e = why;
		return -1;
	}
	return 0;
}

/* What is effective goes with root's effective id; what is permitted stays while the real one is root's. */
static int regain_capabilities(struct err *e)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3, .pid = 0 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data) < 0)
		return err_sys(e, errno, "read capabilities");
	for (size_t i = 0; i < ARRAY_LEN(data); i++)
		data[i].effective = data[i].permitted;
	return syscall(SYS_capset, &header, data) < 0 ? err_sys(e, errno, "regain capabilities") : 0;
}

/* The kernel counts inotify instances, queued signals, message queues and processes of a user namespace for the user
 * who made it, too. Made by root, all namespaces would share root's limits, and one could use them up for all others
 * and the host: each is made by its own first id. */
static int make_owned(uint64_t base, struct err *e)
{
	if (syscall(SYS_setresuid, -1, (uid_t)base, -1) < 0)
		return err_sys(e, errno, "become user %llu", (unsigned long long)base);
	if (regain_capabilities(e) < 0)
		return -1;
	return unshare(CLONE_NEWUSER) < 0 ? err_sys(e, errno, "unshare") : 0;
}

/* Holds: the caller's memory and descriptors, its ids, and all capabilities in the new user namespace alone. Reports,
 * waits for its maps, forbids, reports, and stays until its namespace was taken or the parent is gone. */
static _Noreturn void child(int sock, uint64_t base)
{
	struct err e = { 0 };
	char byte;

	(void)make_owned(base, &e);
	(void)send(sock, &e, sizeof(e), MSG_NOSIGNAL);
	if (recv(sock, &byte, 1, 0) != 1)
		_exit(1);
	(void)forbid_namespaces(&e);
	(void)send(sock, &e, sizeof(e), MSG_NOSIGNAL);
	(void)recv(sock, &byte, 1, 0);
	_exit(0);
}

/* ---- in the parent ------------------------------------------------------------------------------------- */

/* PROC is a directory to which the path of PID is relative. */
static int write_maps(int proc, pid_t pid, uint64_t inside, uint64_t outside, struct err *e)
{
	static const char *const names[] = { "uid_map", "gid_map" };
	char path[64], map[64];

	(void)snprintf(map, sizeof(map), "%llu %llu %d\n", (unsigned long long)inside, (unsigned long long)outside, USERNS_IDS);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "%d/%s", (int)pid, names[i]);
		if (write_setting(proc, path, map, e) < 0)
			return -1;
	}
	return 0;
}

/* One step of the child is done when this returns 0. */
static int await_child(int sock, struct err *e)
{
	struct err report;
	ssize_t n;

	do
		n = recv(sock, &report, sizeof(report), 0);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(report))
		return err_set(e, ERR_INTERNAL, "the child ended without a report");
	if (report.code != ERR_NONE) {
		*e = report;
		return -1;
	}
	return 0;
}

static int take_namespace(pid_t pid, int pidfd, int sock, uint64_t base, struct err *e)
{
	AUTO_FD proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (proc < 0)
		return err_sys(e, errno, "open '/proc'");
	if (await_child(sock, e) < 0 || write_maps(proc, pid, 0, base, e) < 0)
		return -1;
	if (send(sock, "m", 1, MSG_NOSIGNAL) != 1)
		return err_sys(e, errno, "wake the child");
	if (await_child(sock, e) < 0)
		return -1;
	return namespace_of_process(pidfd, NAMESPACE_USER, e);
}

/* Signals are blocked over the clone: a handler of the parent must not run in the child. */
static pid_t clone_child(int socks[2], uint64_t base, int *ret_pidfd, struct err *e)
{
	sigset_t all, before;
	pid_t pid;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = namespace_clone(0, -1, ret_pidfd, e);
	if (pid == 0) {
		(void)close(socks[0]); /* or the end of the parent would never be seen */
		child(socks[1], base);
	}
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pid;
}

int userns_make(uint64_t base, struct err *e)
{
	AUTO_FD ours = -1;
	AUTO_FD theirs = -1;
	AUTO_FD pidfd = -1;
	AUTO_FD fd = -1;
	struct process_end end;
	int socks[2];
	pid_t pid;

	if (userns_check_base(base, e) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
		return err_sys(e, errno, "make a user namespace: socket pair");
	ours = socks[0];
	theirs = socks[1];
	pid = clone_child(socks, base, &pidfd, e);
	if (pid < 0)
		return err_wrap(e, "make a user namespace");
	(void)close(take_fd(&theirs));
	fd = take_namespace(pid, pidfd, ours, base, e);
	/* Without its collection a zombie would stay: the error of that is worse than a namespace we could use. */
	if (process_kill_and_wait(pidfd, END_TIMEOUT_MS, &end, fd < 0 ? &(struct err){ 0 } : e) < 0)
		return err_wrap(e, "make a user namespace");
	return fd < 0 ? err_wrap(e, "make a user namespace") : take_fd(&fd);
}

/* ---- maps alone ---- */

/* Holds: the caller's memory and descriptors, and all capabilities in the new user namespace alone. Does nothing. */
static _Noreturn void stay(void)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (;;)
		(void)pause();
}

int userns_map(int proc, uint64_t from, uint64_t to, struct err *e)
{
	AUTO_FD pidfd = -1;
	AUTO_FD fd = -1;
	struct process_end end;
	pid_t pid;

	if (userns_check_base(from, e) < 0 || userns_check_base(to, e) < 0)
		return -1;
	pid = namespace_clone(CLONE_NEWUSER, -1, &pidfd, e);
	if (pid == 0)
		stay();
	if (pid < 0)
		return err_wrap(e, "make a map of ids");
	if (write_maps(proc, pid, from, to, e) == 0)
		fd = namespace_of_process(pidfd, NAMESPACE_USER, e);
	if (process_kill_and_wait(pidfd, END_TIMEOUT_MS, &end, fd < 0 ? &(struct err){ 0 } : e) < 0)
		return err_wrap(e, "make a map of ids");
	return fd < 0 ? err_wrap(e, "make a map of ids") : take_fd(&fd);
}
