// SPDX-License-Identifier: Apache-2.0
#include "sys/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/spawn_child.h"

#include "base/banned.h"

/* Linux 6.9; linux/pidfd.h may be older. */
/* First version of the kernel's struct clone_args: linux/sched.h clashes with libc's sched.h. */
struct clone_args_v0 {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};
#define CLONE_PIDFD_FLAG 0x1000

/* ---- start --------------------------------------------------------------------------------------------- */

static int check_spec(const struct spawn_spec *sp, struct err *e)
{
	if (sp->n_fds > SPAWN_FDS_MAX)
		return err_set(e, ERR_INVALID, "more than %d descriptors", SPAWN_FDS_MAX);
	for (size_t i = 0; i < sp->n_fds; i++) {
		int number = sp->fds[i].number;

		if (sp->fds[i].fd < 0 || number < 3 || number > SPAWN_FD_NUMBER_MAX)
			return err_set(e, ERR_INVALID, "descriptor %d as number %d", sp->fds[i].fd, number);
		for (size_t k = 0; k < i; k++)
			if (sp->fds[k].number == number)
				return err_set(e, ERR_INVALID, "descriptor number %d twice", number);
	}
	return 0;
}

/* The child's pid, 0 in the child, -1. Both ways share no memory with the child, so its stack may be ours. */
static pid_t fork_with_pidfd(int *ret_pidfd, struct err *e)
{
	AUTO_FD probe = -1;
	int pidfd = -1;
	struct clone_args_v0 args = {
		.flags = CLONE_PIDFD_FLAG,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (pid < 0 && errno != ENOSYS)
		return err_sys(e, errno, "clone");
	if (pid < 0) {
		/* Tried on ourselves first: nothing must run that we could not follow. */
		probe = (int)syscall(SYS_pidfd_open, getpid(), 0);
		if (probe < 0)
			return err_sys(e, errno, "the kernel lacks pidfd_open");
		pid = fork();
		if (pid < 0)
			return err_sys(e, errno, "fork");
		if (pid > 0)
			pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	}
	*ret_pidfd = pidfd;
	return pid;
}

/* Reads the child's report: 0 after EOF, which is the exec. */
static int read_report(int fd, const struct spawn_spec *sp, struct err *e)
{
	struct spawn_report report;
	ssize_t n;

	do
		n = read(fd, &report, sizeof(report));
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return 0;
	if (n != (ssize_t)sizeof(report))
		return err_set(e, ERR_INTERNAL, "report of the child cut short");
	return spawn_report_read(&report, sp, e);
}

/* All signals are blocked over the fork: a handler of ours must not run in the child. */
static pid_t fork_child(const struct spawn_spec *sp, int report, int *ret_pidfd, struct err *e)
{
	pid_t parent = getpid(), pid;
	sigset_t all, before;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork_with_pidfd(ret_pidfd, e);
	if (pid == 0)
		spawn_child(sp, parent, report);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return pid;
}

/* By its number, which cannot be another's: the child has not been collected. */
static int abandon(pid_t pid)
{
	siginfo_t si;

	(void)kill(pid, SIGKILL);
	while (waitid(P_PID, (id_t)pid, &si, WEXITED) < 0 && errno == EINTR)
		;
	return -1;
}

int process_spawn(const struct spawn_spec *sp, pid_t *ret_pid, struct err *e)
{
	AUTO_FD rd = -1;
	AUTO_FD wr = -1;
	AUTO_FD pidfd = -1;
	int ends[2];
	pid_t pid;

	if (check_spec(sp, e) < 0)
		return err_wrap(e, "start '%s'", sp->path);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "start '%s': create a pipe", sp->path);
	rd = ends[0];
	wr = ends[1];
	pid = fork_child(sp, wr, &pidfd, e);
	if (pid < 0)
		return err_wrap(e, "start '%s'", sp->path);
	if (pidfd < 0) {
		(void)err_sys(e, errno, "start '%s': open its pidfd", sp->path);
		return abandon(pid);
	}
	(void)close(take_fd(&wr));
	if (read_report(rd, sp, e) < 0) {
		(void)err_wrap(e, "start '%s'", sp->path);
		return abandon(pid);
	}
	if (ret_pid)
		*ret_pid = pid;
	return take_fd(&pidfd);
}

/* ---- afterwards ---------------------------------------------------------------------------------------- */

/* 0 when the process has ended. */
static int await(int pidfd, int timeout_ms, struct err *e)
{
	uint64_t deadline = clock_mono_ms() + (uint64_t)MAX(timeout_ms, 0);
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int r, left = timeout_ms;

	for (;;) {
		uint64_t now;

		r = poll(&p, 1, left);
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return err_sys(e, errno, "wait for a process");
		now = clock_mono_ms();
		if (timeout_ms >= 0 && (r == 0 || now >= deadline))
			return err_set(e, ERR_TIMEOUT, "process still runs after %d ms", timeout_ms);
		left = timeout_ms < 0 ? -1 : (int)(deadline - now);
	}
}

int process_wait(int pidfd, int timeout_ms, struct process_end *ret, struct err *e)
{
	siginfo_t si = { 0 };
	int r;

	if (await(pidfd, timeout_ms, e) < 0)
		return -1;
	do
		r = waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_sys(e, errno, "collect a process");
	*ret = (struct process_end){
		.by_signal = si.si_code != CLD_EXITED,
		.dumped_core = si.si_code == CLD_DUMPED,
		.code = si.si_status,
	};
	return 0;
}

int process_signal(int pidfd, int signo, struct err *e)
{
	if (syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0) < 0)
		return err_sys(e, errno, "send signal %d", signo);
	return 0;
}

int process_kill_and_wait(int pidfd, int timeout_ms, struct process_end *ret, struct err *e)
{
	if (process_signal(pidfd, SIGKILL, e) < 0)
		return -1;
	return process_wait(pidfd, timeout_ms, ret, e);
}
