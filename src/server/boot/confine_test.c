// SPDX-License-Identifier: Apache-2.0
/* P1, P2: the policy of the process that speaks HTTP, in the simulator. */
#include "server/boot/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "box/filter.h"
#include "sys/root_test.h"
#include "sys/seccomp_sim.h"

#include "base/banned.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define FOREIGN AUDIT_ARCH_I386
#else
#define ARCH AUDIT_ARCH_AARCH64
#define FOREIGN AUDIT_ARCH_ARM
#endif

struct fixture {
	struct seccomp_program program;
	struct seccomp_program sandbox; /* what programs of sandboxes may do */
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct err e = { 0 };

	*state = f;
	return f && confine_compile(&f->program, &e) == 0 && filter_compile(FILTER_NATIVE, &f->sandbox, &e) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

static uint32_t ask(const struct seccomp_program *p, uint32_t arch, uint32_t nr, uint64_t args)
{
	struct seccomp_data d = { .nr = (int)nr, .arch = arch, .args = { args, args, args, args, args, args } };
	struct err e = { 0 };
	uint32_t action = 0;

	if (seccomp_simulate(p, &d, NULL, &action, &e) < 0)
		fail_msg("%s", e.msg);
	return action;
}

static void check_all(const struct fixture *f, const char *const *names, size_t n, uint32_t want)
{
	for (size_t i = 0; i < n; i++) {
		int nr = filter_number(FILTER_NATIVE, names[i]);
		uint32_t got = nr < 0 ? want : ask(&f->program, ARCH, (uint32_t)nr, 0);

		if (got != want)
			fail_msg("%s: %#x, not %#x", names[i], got, want);
	}
}

static void a_server_starts_nothing_traces_nobody_and_stays_who_it_is(void **state)
{
	static const char *const names[] = {
		"execve", "execveat", "process_vm_readv", "process_vm_writev", "pidfd_send_signal", "chroot", "mknod", "mknodat",
		"chown", "fchown", "lchown", "fchownat", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid",
		"setfsuid", "setfsgid", "setgroups", "capset", "personality", "setxattr", "shmget", "semget", "msgget", "mq_open",
		"name_to_handle_at", "io_setup", "io_submit", "mount", "umount2", "setns", "unshare", "pivot_root", "bpf",
		"perf_event_open", "keyctl", "userfaultfd", "io_uring_setup", "open_by_handle_at", "pidfd_getfd", "reboot",
		"init_module", "kexec_load", "syslog",
#ifndef __SANITIZE_ADDRESS__ /* whose leak checker traces */
		"ptrace",
#endif
	};

	check_all(*state, names, ARRAY_LEN(names), SECCOMP_FAIL(EPERM));
}

static void a_server_can_serve(void **state)
{
	static const char *const names[] = {
		"read", "write", "writev", "openat", "openat2", "close", "fstat", "newfstatat", "statx", "lseek", "mprotect", "munmap",
		"brk", "madvise", "epoll_ctl", "epoll_pwait", "accept4", "bind", "listen", "connect", "sendmsg", "recvmsg",
		"getsockopt", "setsockopt", "shutdown", "splice", "fcntl", "fsync", "fdatasync", "ftruncate", "pwrite64", "pread64",
		"unlinkat", "renameat2", "mkdirat", "futex", "clock_gettime", "getrandom", "exit_group", "rt_sigprocmask", "prctl",
		"kill", "getpid", "getppid", "dup3", "pipe2", "eventfd2", "signalfd4", "timerfd_create",
	};

	check_all(*state, names, ARRAY_LEN(names), SECCOMP_RET_ALLOW);
}

/* Whatever the table of sandboxes becomes: what it does not let through, the server does not get either. */
static void a_server_may_do_no_more_than_a_sandbox(void **state)
{
	static const uint64_t args[] = { 0, 1, 3, 0xffffffff, UINT64_MAX };
	struct fixture *f = *state;
	unsigned fewer = 0;

	for (uint32_t nr = 0; nr < 1024; nr++) {
		for (size_t i = 0; i < ARRAY_LEN(args); i++) {
			uint32_t ours = ask(&f->program, ARCH, nr, args[i]), theirs = ask(&f->sandbox, ARCH, nr, args[i]);

			if (ours == SECCOMP_RET_ALLOW)
				assert_int_equal(theirs, SECCOMP_RET_ALLOW);
			fewer += ours != theirs;
		}
	}
	assert_true(fewer > 100);
}

static void a_foreign_abi_ends_it(void **state)
{
	struct fixture *f = *state;

	for (uint32_t nr = 0; nr < 1024; nr++)
		assert_int_equal(ask(&f->program, FOREIGN, nr, 0), SECCOMP_RET_KILL_PROCESS);
#if defined(__x86_64__)
	for (uint32_t nr = 0; nr < 1024; nr++)
		assert_int_equal(ask(&f->program, ARCH, nr | SECCOMP_X32_BIT, 0), SECCOMP_RET_KILL_PROCESS);
#endif
}

/* The same, by the kernel. */
static int try_as_the_server(void *arg)
{
	static char *const argv[] = { (char *)(uintptr_t)"true", NULL };
	struct err e = { 0 };

	(void)arg;
	CHECK_OK(confine_server(61184, 61184, &e), &e);
	CHECK(getuid() == 61184 && geteuid() == 61184 && getgid() == 61184 && getgroups(0, NULL) == 0);
	CHECK(execve("/bin/true", argv, argv + 1) < 0 && errno == EPERM);
	CHECK(setuid(0) < 0 && errno == EPERM && setgid(0) < 0 && errno == EPERM);
	CHECK(chroot("/") < 0 && errno == EPERM && kill(getppid(), 0) < 0 && errno == EPERM);
	CHECK(open("/etc/shadow", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
	CHECK(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP) < 0 && errno == EPERM);
	CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
	return 0;
}

static void the_kernel_agrees(void **state)
{
	(void)state;
	NEEDS_ROOT(0);
	assert_int_equal(in_child(try_as_the_server, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_starts_nothing_traces_nobody_and_stays_who_it_is),
		cmocka_unit_test(a_server_can_serve),
		cmocka_unit_test(a_server_may_do_no_more_than_a_sandbox),
		cmocka_unit_test(a_foreign_abi_ends_it),
		cmocka_unit_test(the_kernel_agrees),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
