// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <linux/audit.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/seccomp_sim.h"
#include "unpack/confine.h"

#include "base/banned.h"

static uint32_t action_of(const struct seccomp_program *program, const struct seccomp_data *d)
{
	uint32_t action = 0;

	assert_int_equal(seccomp_simulate(program, d, NULL, &action, &(struct err){ 0 }), 0);
	return action;
}

static void the_filter_knows_making_files_and_nothing_else(void **state)
{
	static struct seccomp_program program;
	struct seccomp_rule rules[CONFINE_RULES_MAX];
	const struct seccomp_policy policy = confine_policy(false, rules);
	static const uint32_t denied[] = {
		__NR_openat, __NR_execve, __NR_execveat, __NR_clone, __NR_socket, __NR_connect, __NR_mount, __NR_ptrace, __NR_kill,
		__NR_unshare, __NR_setns, __NR_chroot, __NR_bpf, __NR_renameat2, __NR_pidfd_open, __NR_setxattr, __NR_ioctl,
	};
	static const struct {
		uint32_t nr;
		int arg;
		uint64_t value;
		uint32_t want;
	} cases[] = {
		{ __NR_openat2, 0, 0, SECCOMP_RET_ALLOW },
		{ __NR_mknodat, 2, S_IFIFO | 0644, SECCOMP_RET_ALLOW },
		{ __NR_mknodat, 2, S_IFCHR, SECCOMP_RET_ALLOW }, /* of number 0: a whiteout */
		{ __NR_mknodat, 2, S_IFBLK, SECCOMP_FAIL(EPERM) },
		{ __NR_mknodat, 2, 0644, SECCOMP_FAIL(EPERM) },
		{ __NR_mmap, 2, PROT_READ | PROT_WRITE, SECCOMP_RET_ALLOW },
		{ __NR_mmap, 2, PROT_READ | PROT_EXEC, SECCOMP_FAIL(EPERM) },
		{ __NR_mprotect, 2, PROT_EXEC, SECCOMP_FAIL(EPERM) },
	};

	(void)state;
	assert_int_equal(seccomp_compile(&policy, &program, &(struct err){ 0 }), 0);
	for (size_t i = 0; i < ARRAY_LEN(denied); i++) {
		struct seccomp_data d = { .nr = (int)denied[i], .arch = policy.arch };

		assert_int_equal(action_of(&program, &d), SECCOMP_FAIL(EPERM));
	}
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct seccomp_data d = { .nr = (int)cases[i].nr, .arch = policy.arch };

		d.args[cases[i].arg] = cases[i].value;
		assert_int_equal(action_of(&program, &d), cases[i].want);
	}
	assert_int_equal(action_of(&program, &(struct seccomp_data){ .nr = __NR_mknodat, .arch = policy.arch,
								     .args = { 0, 0, S_IFCHR | 0644, 0x103 } }),
			 SECCOMP_FAIL(EPERM));
	assert_int_equal(action_of(&program, &(struct seccomp_data){ .nr = 3, .arch = AUDIT_ARCH_I386 }),
			 SECCOMP_RET_KILL_PROCESS);
}

static void who_packs_makes_nothing(void **state)
{
	static struct seccomp_program program;
	struct seccomp_rule rules[CONFINE_RULES_MAX];
	const struct seccomp_policy policy = confine_policy(true, rules);
	static const uint32_t denied[] = {
		__NR_openat, __NR_mkdirat, __NR_symlinkat, __NR_linkat, __NR_unlinkat, __NR_mknodat, __NR_fchown, __NR_fchmod,
		__NR_utimensat, __NR_fsetxattr, __NR_execve, __NR_socket, __NR_mount, __NR_renameat2, __NR_ioctl, __NR_open_by_handle_at,
	};
	static const uint32_t allowed[] = { __NR_openat2, __NR_getdents64, __NR_readlinkat, __NR_fgetxattr, __NR_flistxattr, __NR_pwrite64 };

	(void)state;
	assert_int_equal(seccomp_compile(&policy, &program, &(struct err){ 0 }), 0);
	for (size_t i = 0; i < ARRAY_LEN(denied); i++)
		assert_int_equal(action_of(&program, &(struct seccomp_data){ .nr = (int)denied[i], .arch = policy.arch }), SECCOMP_FAIL(EPERM));
	for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
		assert_int_equal(action_of(&program, &(struct seccomp_data){ .nr = (int)allowed[i], .arch = policy.arch }), SECCOMP_RET_ALLOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_filter_knows_making_files_and_nothing_else),
		cmocka_unit_test(who_packs_makes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
