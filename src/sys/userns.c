// SPDX-License-Identifier: Apache-2.0
#include "sys/userns.h"

#include <fcntl.h>
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
#include "sys/caps.h"
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

/* sys/user of a proc shows each process the settings of its own namespace. */
static int forbid_namespaces(int proc, struct err *e)
{
	static const char *const names[] = {
		"max_user_namespaces", "max_mnt_namespaces", "max_pid_namespaces",    "max_net_namespaces",
		"max_ipc_namespaces",  "max_uts_namespaces", "max_cgroup_namespaces", "max_time_namespaces",
	};
	AUTO_FD dir = -1;
	struct err why;

	dir = openat(proc, "sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);
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

/* The kernel counts inotify instances, queued signals, message queues and processes of a user namespace for the user
 * who made it, too. Made by root, all namespaces would share root's limits, and one could use them up for all others
 * and the host: each is made by its own first id. */
static int make_owned(uint64_t base, struct err *e)
{
	if (syscall(SYS_setresuid, -1, (uid_t)base, -1) < 0)
		return err_sys(e, errno, "become user %llu", (unsigned long long)base);
	if (caps_regain(e) < 0) /* what is effective went with root's effective id; what is permitted did not */
		return -1;
	return unshare(CLONE_NEWUSER) < 0 ? err_sys(e, errno, "unshare") : 0;
}

/* Holds: the caller's memory and descriptors, its ids, and all capabilities in the new user namespace alone. Forbids, for which no
 * id has to be mapped, reports, and stays until its namespace was taken or the parent is gone. */
static _Noreturn void child(int sock, int proc, uint64_t base)
{
	struct err e = { 0 };
	char byte;

	if (make_owned(base, &e) == 0)
		(void)forbid_namespaces(proc, &e);
	(void)send(sock, &e, sizeof(e), MSG_NOSIGNAL);
	(void)recv(sock, &byte, 1, 0);
	_exit(0);
}

/* ---- in the parent ------------------------------------------------------------------------------------- */

struct maps {
	char uids[96], gids[96]; /* up to three ranges each */
};

/* INSIDE.. are OUTSIDE.., users and groups alike. */
static void map_range(struct maps *m, uint64_t inside, uint64_t outside)
{
	(void)snprintf(m->uids, sizeof(m->uids), "%llu %llu %d\n", (unsigned long long)inside, (unsigned long long)outside,
		       USERNS_IDS);
	memcpy(m->gids, m->uids, sizeof(m->gids));
}

/* PROC is a directory to which the path of PID is relative. */
static int write_maps(int proc, pid_t pid, const struct maps *m, struct err *e)
{
	const struct {
		const char *name, *map;
	} files[] = { { "uid_map", m->uids }, { "gid_map", m->gids } };
	char path[64];

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		(void)snprintf(path, sizeof(path), "%d/%s", (int)pid, files[i].name);
		if (write_setting(proc, path, files[i].map, e) < 0)
			return -1;
	}
	return 0;
}

/* OWNER as BASE, and what is left of REST.. as the ids behind it. */
static void map_owner(char out[96], uint64_t owner, uint64_t base, uint64_t rest)
{
	uint64_t at = owner > rest && owner < rest + USERNS_IDS ? owner - rest : USERNS_IDS; /* its own place is taken */
	int n = snprintf(out, 96, "%llu %llu 1\n", (unsigned long long)owner, (unsigned long long)base);

	if (at > 1)
		n += snprintf(out + n, 96 - (size_t)n, "%llu %llu %llu\n", (unsigned long long)rest + 1,
			      (unsigned long long)base + 1, (unsigned long long)at - 1);
	if (at + 1 < USERNS_IDS)
		(void)snprintf(out + n, 96 - (size_t)n, "%llu %llu %llu\n", (unsigned long long)(rest + at + 1),
			       (unsigned long long)(base + at + 1), (unsigned long long)(USERNS_IDS - at - 1));
}

/* The child has done its part when this returns 0. */
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

static int take_namespace(int proc, pid_t pid, int pidfd, int sock, const struct maps *m, struct err *e)
{
	if (await_child(sock, e) < 0 || write_maps(proc, pid, m, e) < 0)
		return -1;
	return namespace_of_process(pidfd, NAMESPACE_USER, e);
}

/* Signals are blocked over the clone: a handler of the parent must not run in the child. */
static pid_t clone_child(int socks[2], int proc, uint64_t base, int *ret_pidfd, struct err *e)
{
	sigset_t all, before;
	pid_t pid;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = namespace_clone(0, -1, ret_pidfd, e);
	if (pid == 0) {
		(void)close(socks[0]); /* or the end of the parent would never be seen */
		child(socks[1], proc, base);
	}
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pid;
}

static int make_with(int proc, uint64_t base, const struct maps *m, struct err *e)
{
	AUTO_FD ours = -1;
	AUTO_FD theirs = -1;
	AUTO_FD pidfd = -1;
	AUTO_FD fd = -1;
	struct process_end end;
	int socks[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
		return err_sys(e, errno, "make a user namespace: socket pair");
	ours = socks[0];
	theirs = socks[1];
	pid = clone_child(socks, proc, base, &pidfd, e);
	if (pid < 0)
		return err_wrap(e, "make a user namespace");
	(void)close(take_fd(&theirs));
	fd = take_namespace(proc, pid, pidfd, ours, m, e);
	/* Without its collection a zombie would stay: the error of that is worse than a namespace we could use. */
	if (process_kill_and_wait(pidfd, END_TIMEOUT_MS, &end, fd < 0 ? &(struct err){ 0 } : e) < 0)
		return err_wrap(e, "make a user namespace");
	return fd < 0 ? err_wrap(e, "make a user namespace") : take_fd(&fd);
}

static int make(int proc, uint64_t base, const struct maps *m, struct err *e)
{
	AUTO_FD common = -1;

	if (proc >= 0)
		return make_with(proc, base, m, e);
	common = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return common < 0 ? err_sys(e, errno, "open '/proc'") : make_with(common, base, m, e);
}

int userns_make(int proc, uint64_t base, struct err *e)
{
	struct maps m;

	if (userns_check_base(base, e) < 0)
		return -1;
	map_range(&m, 0, base);
	return make(proc, base, &m, e);
}

int userns_make_for_owner(uint64_t base, uid_t uid, gid_t gid, uint64_t rest, struct err *e)
{
	struct maps m;

	if (userns_check_base(base, e) < 0 || userns_check_base(rest, e) < 0)
		return -1;
	if (uid == (uid_t)-1 || gid == (gid_t)-1)
		return err_set(e, ERR_INVALID, "an owner that is none");
	map_owner(m.uids, uid, base, rest);
	map_owner(m.gids, gid, base, rest);
	return make(-1, base, &m, e);
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
	struct maps m;
	pid_t pid;

	if (userns_check_base(from, e) < 0 || userns_check_base(to, e) < 0)
		return -1;
	map_range(&m, from, to);
	pid = namespace_clone(CLONE_NEWUSER, -1, &pidfd, e);
	if (pid == 0)
		stay();
	if (pid < 0)
		return err_wrap(e, "make a map of ids");
	if (write_maps(proc, pid, &m, e) == 0)
		fd = namespace_of_process(pidfd, NAMESPACE_USER, e);
	if (process_kill_and_wait(pidfd, END_TIMEOUT_MS, &end, fd < 0 ? &(struct err){ 0 } : e) < 0)
		return err_wrap(e, "make a map of ids");
	return fd < 0 ? err_wrap(e, "make a map of ids") : take_fd(&fd);
}
