// SPDX-License-Identifier: Apache-2.0
#include "sys/signals.h"

#include <errno.h>
#include <stdint.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

#define SIGNAL_MAX 64

/* None of these can fail: the numbers exist, and all but SIGKILL and SIGSTOP may be changed. */
void signals_prepare(void)
{
	const struct sigaction by_default = { .sa_handler = SIG_DFL }, ignored = { .sa_handler = SIG_IGN };

	(void)sigaction(SIGCHLD, &by_default, NULL);
	(void)sigaction(SIGPIPE, &ignored, NULL);
	(void)sigaction(SIGXFSZ, &ignored, NULL);
}

void signals_prepare_daemon(void)
{
	static const int unused[] = { SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGIO, SIGPWR, SIGSTKFLT };
	const struct sigaction ignored = { .sa_handler = SIG_IGN };

	signals_prepare();
	for (size_t i = 0; i < ARRAY_LEN(unused); i++)
		(void)sigaction(unused[i], &ignored, NULL);
	for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
		(void)sigaction(i, &ignored, NULL);
}

/* As the kernel wants it: all zero is the default, without flags and with an empty mask. */
struct kernel_action {
	unsigned long handler, flags, restorer, mask;
};

void signals_forget(void)
{
	const struct kernel_action by_default = { 0 };
	const uint64_t none = 0;

	for (int i = 1; i <= SIGNAL_MAX; i++)
		(void)syscall(SYS_rt_sigaction, i, &by_default, NULL, sizeof(none)); /* SIGKILL and SIGSTOP need no change */
	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
}

sigset_t signals_set(const int *list)
{
	sigset_t set;

	(void)sigemptyset(&set);
	for (; *list; list++)
		(void)sigaddset(&set, *list);
	return set;
}

int signals_block(const sigset_t *set, struct err *e)
{
	int r = pthread_sigmask(SIG_BLOCK, set, NULL);

	return r != 0 ? err_sys(e, r, "block signals") : 0;
}

int signals_open(const sigset_t *set, struct err *e)
{
	int fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);

	return fd < 0 ? err_sys(e, errno, "create a signalfd") : fd;
}

/* The kernel fills in the sender of kill() and tgkill() itself, and lets nobody pretend to either. */
static pid_t sender_of(const struct signalfd_siginfo *si)
{
	return si->ssi_code == SI_USER || si->ssi_code == SI_TKILL ? (pid_t)si->ssi_pid : SIGNALS_SENDER_UNKNOWN;
}

int signals_read(int fd, int *ret_signo, pid_t *ret_sender, struct err *e)
{
	struct signalfd_siginfo si;
	ssize_t n;

	do
		n = read(fd, &si, sizeof(si));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n < 0)
		return err_sys(e, errno, "read a signal");
	if (n != (ssize_t)sizeof(si))
		return err_set(e, ERR_INTERNAL, "read a signal: %zd bytes", n);
	*ret_signo = (int)si.ssi_signo;
	if (ret_sender)
		*ret_sender = sender_of(&si);
	return 1;
}
