// SPDX-License-Identifier: Apache-2.0
#include "sys/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/refuse_test.h"

#include "base/banned.h"

static void blocked_signals_are_read_in_turn(void **state)
{
	sigset_t set = SIGNALS(SIGTERM, SIGUSR1);
	struct err e = { 0 };
	AUTO_FD fd = -1;
	int signo = 0;
	pid_t sender = 0;

	(void)state;
	assert_int_equal(signals_block(&set, &e), 0);
	fd = signals_open(&set, &e);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(signals_read(fd, &signo, &sender, &e), 0);
	assert_int_equal(kill(getpid(), SIGTERM), 0); /* would end the test if it were not blocked */
	assert_int_equal(kill(getpid(), SIGTERM), 0);
	assert_int_equal(signals_read(fd, &signo, &sender, &e), 1);
	assert_int_equal(signo, SIGTERM);
	assert_int_equal(sender, getpid());
	assert_int_equal(signals_read(fd, &signo, NULL, &e), 0);
	assert_int_equal(kill(getpid(), SIGUSR1), 0);
	assert_int_equal(signals_read(fd, &signo, NULL, &e), 1);
	assert_int_equal(signo, SIGUSR1);
}

static void a_set_has_what_was_listed(void **state)
{
	sigset_t set = SIGNALS(SIGINT, SIGCHLD);

	(void)state;
	assert_int_equal(sigismember(&set, SIGINT), 1);
	assert_int_equal(sigismember(&set, SIGCHLD), 1);
	assert_int_equal(sigismember(&set, SIGTERM), 0);
}

static void bad_descriptors_are_errors(void **state)
{
	struct err e = { 0 };
	int ends[2], signo;

	(void)state;
	assert_int_equal(signals_read(-1, &signo, NULL, &e), -1);
	assert_int_equal(e.sys, EBADF);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(signals_read(ends[0], &signo, NULL, &e), -1); /* not a signalfd */
	assert_int_equal(e.code, ERR_INTERNAL);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

/* What a stranger may make the kernel deliver, with no pid in it. */
static void only_kill_tells_who_sent_it(void **state)
{
	sigset_t set = SIGNALS(SIGUSR1), before;
	siginfo_t forged = { .si_signo = SIGUSR1, .si_code = SI_QUEUE };
	struct err e = { 0 };
	pid_t sender = 0;
	int signo = 0, ends[2];
	AUTO_FD fd = -1;

	(void)state;
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, &before), 0);
	fd = signals_open(&set, &e);
	assert_int_equal(syscall(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, &forged), 0);
	assert_int_equal(signals_read(fd, &signo, &sender, &e), 1);
	assert_int_equal(sender, SIGNALS_SENDER_UNKNOWN);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(fcntl(ends[0], F_SETOWN, getpid()), 0);
	assert_int_equal(fcntl(ends[0], F_SETSIG, SIGUSR1), 0);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_ASYNC), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(signals_read(fd, &signo, &sender, &e), 1);
	assert_int_equal(sender, SIGNALS_SENDER_UNKNOWN);
	(void)close(ends[0]);
	(void)close(ends[1]);
	assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

static int open_without_signalfd(void *arg)
{
	sigset_t set = SIGNALS(SIGINT);
	struct err e = { 0 };

	(void)arg;
	if (refuse_syscall(SYS_signalfd4) < 0)
		return 1;
	return signals_open(&set, &e) < 0 && e.sys == ENOSYS ? 0 : 2;
}

static void a_missing_signalfd_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(in_child(open_without_signalfd, NULL), 0);
}

static int dispositions_after_a_bad_start(void *arg)
{
	static const int signos[] = { SIGCHLD, SIGPIPE, SIGXFSZ };
	struct sigaction sa = { .sa_handler = SIG_IGN, .sa_flags = SA_NOCLDWAIT };

	(void)arg;
	(void)sigaction(SIGCHLD, &sa, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)signal(SIGXFSZ, SIG_DFL);
	signals_prepare();
	for (size_t i = 0; i < ARRAY_LEN(signos); i++)
		if (sigaction(signos[i], NULL, &sa) < 0 || sa.sa_handler != (i == 0 ? SIG_DFL : SIG_IGN) ||
		    sa.sa_flags & SA_NOCLDWAIT)
			return 1 + (int)i;
	return 0;
}

static void a_program_starts_with_the_dispositions_it_needs(void **state)
{
	(void)state;
	assert_int_equal(in_child(dispositions_after_a_bad_start, NULL), 0);
}

static int dispositions_of_a_daemon(void *arg)
{
	static const int ignored[] = { SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGPWR }, kept[] = { SIGTERM, SIGINT, SIGCHLD, SIGTSTP };
	struct sigaction sa;

	(void)arg;
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		(void)signal(kept[i], SIG_DFL); /* a shell starts programs in the background without SIGINT */
	signals_prepare_daemon();
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		if (sigaction(ignored[i], NULL, &sa) < 0 || sa.sa_handler != SIG_IGN)
			return 1 + (int)i;
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (sigaction(kept[i], NULL, &sa) < 0 || sa.sa_handler != SIG_DFL)
			return 32 + (int)i;
	return 0;
}

static void a_daemon_ignores_what_it_has_no_use_for(void **state)
{
	(void)state;
	assert_int_equal(in_child(dispositions_of_a_daemon, NULL), 0);
}

/* As the kernel has it: libc does not tell of all of them. */
static unsigned long handler_of(int signo)
{
	unsigned long action[4] = { 0 };

	(void)syscall(SYS_rt_sigaction, signo, NULL, action, 8);
	return action[0];
}

static int forgotten(void *arg)
{
	const unsigned long ignored[4] = { 1 }; /* SIG_IGN */
	sigset_t set = SIGNALS(SIGUSR2), now;

	(void)arg;
	(void)signal(SIGUSR1, SIG_IGN);
	(void)syscall(SYS_rt_sigaction, 32, ignored, NULL, 8); /* libc would not */
	(void)signals_block(&set, &(struct err){ 0 });
	if (handler_of(SIGUSR1) != 1 || handler_of(32) != 1)
		return 1;
	signals_forget();
	(void)sigprocmask(SIG_SETMASK, NULL, &now);
	return handler_of(SIGUSR1) == 0 && handler_of(32) == 0 && !sigismember(&now, SIGUSR2) ? 0 : 2;
}

static void a_child_can_forget_all_of_them(void **state)
{
	(void)state;
	assert_int_equal(in_child(forgotten, NULL), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_daemon_ignores_what_it_has_no_use_for),
		cmocka_unit_test(a_child_can_forget_all_of_them),
		cmocka_unit_test(blocked_signals_are_read_in_turn),
		cmocka_unit_test(a_set_has_what_was_listed),
		cmocka_unit_test(bad_descriptors_are_errors),
		cmocka_unit_test(only_kill_tells_who_sent_it),
		cmocka_unit_test(a_missing_signalfd_is_an_error),
		cmocka_unit_test(a_program_starts_with_the_dispositions_it_needs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
