// SPDX-License-Identifier: Apache-2.0
/* Part of every unit test that runs under qemu-user. It replaces, at link time, the functions that reach what qemu-user does not
 * emulate, and reports for each test what was tried in vain, by the test or one of its children:
 *
 *     # not emulated: openat2: files_have_content_mode_and_time
 *
 * tools/check counts a test that fails after such a line as skipped, because nothing follows from its failure. */
#include <errno.h>
#include <linux/netlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

/* What is missing in some version of qemu-user. A test that fails for want of anything else has failed. */
static const struct {
	const char *name;
	long nr; /* of the system call, or of the one that comes closest */
} things[] = {
	{ "bpf", SYS_bpf },
	{ "clone3", SYS_clone3 },
	{ "close_range", SYS_close_range },
	{ "execve of a program for aarch64", SYS_execve },
	{ "execveat", SYS_execveat },
	{ "fsopen", SYS_fsopen },
	{ "io_uring_setup", SYS_io_uring_setup },
	{ "keyctl", SYS_keyctl },
	{ "landlock", SYS_landlock_create_ruleset },
	{ "mount_setattr", SYS_mount_setattr },
	{ "netlink of netfilter", SYS_socket },
	{ "open_tree", SYS_open_tree },
	{ "openat2", SYS_openat2 },
	{ "seccomp", SYS_seccomp },
	{ "setsockopt of SO_MARK", SYS_setsockopt },
};

/* These cannot find out themselves: qemu-user answers, but with something else than the kernel. */
static const struct {
	const char *test, *why;
} wrong[] = {
	{ "too_many_descriptors_are_refused_and_closed", "closing the descriptors of a message that was cut" },
	{ "what_children_used_counts_once_they_are_collected", "times in /proc/self/stat" },
	{ "addresses_routes_and_rules_come_and_go", "netlink messages about rules for routes" },
	{ "a_fork_bomb_stays_in_its_limit_and_dies_at_once", "processes without threads of the emulator" },
	{ "a_fork_bomb_dies_without_the_kernels_own_kill_too", "processes without threads of the emulator" },
};

static struct {
	const struct CMUnitTest *tests;
	size_t n_begun;
	_Atomic bool *missed; /* for each thing; shared with children */
} run;

int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *const tests, const size_t n, CMFixtureFunction up,
				   CMFixtureFunction down);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *const tests, const size_t n, CMFixtureFunction up,
				   CMFixtureFunction down);
long __real_syscall(long nr, ...);
long __wrap_syscall(long nr, ...);
int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...);
int __real_execve(const char *path, char *const argv[], char *const envp[]);
int __wrap_execve(const char *path, char *const argv[], char *const envp[]);
int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t n);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t n);

/* ---- what is tried in vain --------------------------------------------------------------------------------- */

static void miss(long nr)
{
	for (size_t i = 0; run.missed && i < ARRAY_LEN(things); i++)
		if (things[i].nr == nr)
			run.missed[i] = true;
}

/* Six arguments always, as in the C library: what the caller did not give, the kernel does not look at. */
long __wrap_syscall(long nr, ...)
{
	long args[6], rc;
	va_list ap;

	va_start(ap, nr);
	for (size_t i = 0; i < ARRAY_LEN(args); i++)
		args[i] = va_arg(ap, long);
	va_end(ap);
	rc = __real_syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]);
	if (rc < 0 && errno == ENOSYS)
		miss(nr);
	return rc;
}

int __wrap_prctl(int option, ...)
{
	unsigned long args[4];
	va_list ap;
	int rc;

	va_start(ap, option);
	for (size_t i = 0; i < ARRAY_LEN(args); i++)
		args[i] = va_arg(ap, unsigned long);
	va_end(ap);
	rc = __real_prctl(option, args[0], args[1], args[2], args[3]);
	if (rc < 0 && errno == EINVAL && option == PR_SET_SECCOMP)
		miss(SYS_seccomp);
	return rc;
}

int __wrap_execve(const char *path, char *const argv[], char *const envp[])
{
	int rc = __real_execve(path, argv, envp);

	if (errno == ENOEXEC)
		miss(SYS_execve);
	return rc;
}

int __wrap_socket(int family, int type, int protocol)
{
	int rc = __real_socket(family, type, protocol);

	if (rc < 0 && errno == EPROTONOSUPPORT && family == AF_NETLINK && protocol == NETLINK_NETFILTER)
		miss(SYS_socket);
	return rc;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t n)
{
	int rc = __real_setsockopt(fd, level, name, value, n);

	if (rc < 0 && errno == ENOPROTOOPT && level == SOL_SOCKET && name == SO_MARK)
		miss(SYS_setsockopt);
	return rc;
}

/* ---- which test it was ------------------------------------------------------------------------------------- */

/* Of a test that runs in several ways, all: their names end with " (WAY)". */
static const char *why_wrong(const char *test)
{
	size_t n = strcspn(test, " ");

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		if (strlen(wrong[i].test) == n && strncmp(wrong[i].test, test, n) == 0)
			return wrong[i].why;
	return NULL;
}

static void report(const char *what)
{
	(void)printf("# not emulated: %s: %s\n", what, run.tests[run.n_begun - 1].name);
}

static void report_last(void)
{
	for (size_t i = 0; run.n_begun > 0 && i < ARRAY_LEN(things); i++)
		if (run.missed[i])
			report(things[i].name);
	(void)fflush(stdout); /* children would write it again */
}

/* cmocka calls this before each test, in their order. */
static int begin(void **state)
{
	const struct CMUnitTest *test = &run.tests[run.n_begun];

	report_last();
	run.n_begun++;
	for (size_t i = 0; i < ARRAY_LEN(things); i++)
		run.missed[i] = false;
	return test->setup_func ? test->setup_func(state) : 0;
}

static void skip_it(void **state)
{
	(void)state;
	report(why_wrong(run.tests[run.n_begun - 1].name));
	skip();
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *const tests, const size_t n, CMFixtureFunction up,
				   CMFixtureFunction down)
{
	struct CMUnitTest *copies = calloc(n, sizeof(*copies));
	int failed;

	run.missed = mmap(NULL, sizeof(*run.missed) * ARRAY_LEN(things), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!copies || run.missed == MAP_FAILED)
		abort();
	run.tests = tests;
	run.n_begun = 0;
	for (size_t i = 0; i < n; i++) {
		copies[i] = tests[i];
		copies[i].setup_func = begin;
		if (why_wrong(tests[i].name))
			copies[i].test_func = skip_it;
	}
	failed = __real__cmocka_run_group_tests(name, copies, n, up, down);
	report_last();
	free(copies);
	return failed;
}
