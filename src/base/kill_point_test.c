// SPDX-License-Identifier: Apache-2.0
#include "base/kill_point.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

#ifdef KILL_POINTS
#define PASSERS 4
#define ROUNDS 60

struct gate {
	_Atomic uint32_t is_open;
};

/* In a process of its own, which PASSERS others work for: all come by at once. */
static void pass(int fd, struct gate *gate)
{
	kill_point_open(fd);
	for (int i = 0; i < PASSERS; i++) {
		if (fork() == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* who strikes waits for that */
			while (atomic_load(&gate->is_open) == 0)
				;
			kill_point("test.place");
			_exit(0);
		}
	}
	atomic_store(&gate->is_open, 1);
	while (wait(NULL) > 0)
		;
	_exit(0);
}

/* Until everybody who has an end of the pipe is gone: nobody of this round passes in the next. */
static void round_of(int fd, struct kill_switch *s, struct gate *gate)
{
	int ends[2], status;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	atomic_store(&gate->is_open, 0);
	atomic_store(&s->left, 1);
	pid = fork();
	if (pid == 0)
		pass(fd, gate);
	(void)close(ends[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(read(ends[0], &byte, 1), 0);
	(void)close(ends[0]);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(atomic_load(&s->left), 0);
}

static void many_who_pass_at_once_strike_once(void **state)
{
	AUTO_FD fd = memfd_create("switch", MFD_CLOEXEC);
	struct kill_switch *s;
	struct gate *gate;

	(void)state;
	assert_int_equal(ftruncate(fd, sizeof(*s)), 0);
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	gate = mmap(NULL, sizeof(*gate), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(s != MAP_FAILED && gate != MAP_FAILED);
	memcpy(s->name, "test.place", sizeof("test.place"));
	for (int i = 0; i < ROUNDS; i++)
		round_of(fd, s, gate);
	(void)munmap(s, sizeof(*s));
	(void)munmap(gate, sizeof(*gate));
}
#else
static void many_who_pass_at_once_strike_once(void **state)
{
	(void)state;
	skip(); /* this build has no such places */
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(many_who_pass_at_once_strike_once) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
