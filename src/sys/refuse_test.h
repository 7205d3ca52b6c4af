// SPDX-License-Identifier: Apache-2.0
/* sys/refuse_test.h - for tests: kernels that lack a system call, and calls that are interrupted. */
#pragma once
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static inline int refuse_load(struct sock_filter *filter, size_t n)
{
	struct sock_fprog program = { .len = (unsigned short)n, .filter = filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* From now on, and for good, NR fails with ENOSYS in this process. */
static inline int refuse_syscall(unsigned nr)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return refuse_load(filter, sizeof(filter) / sizeof(filter[0]));
}

/* The same for a flag that the kernel is too old for: EINVAL when argument ARG (from 0) has one of BITS
 * in its low half. */
static inline int refuse_flag(unsigned nr, unsigned arg, unsigned bits)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(offsetof(struct seccomp_data, args) + 8 * arg)),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return refuse_load(filter, sizeof(filter) / sizeof(filter[0]));
}

static inline void interrupted(int signo)
{
	(void)signo;
}

/* From now on a signal interrupts whatever blocks, every 2 ms. */
static inline int interrupt_often(void)
{
	struct sigaction sa = { .sa_handler = interrupted }; /* no SA_RESTART */
	struct itimerval often = { { 0, 2000 }, { 0, 2000 } };

	return sigaction(SIGALRM, &sa, NULL) < 0 ? -1 : setitimer(ITIMER_REAL, &often, NULL);
}

/* FN's result (0 to 255) in a child of its own, or -1 when the child was killed. */
static inline int in_child(int (*fn)(void *arg), void *arg)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(fn(arg));
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}
