// SPDX-License-Identifier: Apache-2.0
/* sys/seccomp.h - a policy for system calls, as data, and its compiler to the kernel's classic BPF.
 *
 * What a policy says of one call:
 * 1. a foreign ABI (another audit architecture; x32 where there is one) gets `foreign`;
 * 2. a number without a rule gets `unknown`;
 * 3. otherwise the first case of its rule all of whose tests hold decides, or the rule's own action.
 *
 * Actions are the kernel's: SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS, SECCOMP_FAIL(errno). SECCOMP_FAIL(0)
 * answers success and does nothing.
 *
 *     static const struct seccomp_case no_inet[] = {
 *             { { { SECCOMP_ONE_OF, .arg = 0, .mask = SECCOMP_INT, .n = 2, .values = { AF_INET, AF_INET6 } } },
 *               SECCOMP_FAIL(EAFNOSUPPORT) },
 *     };
 *     { .nr = __NR_socket, .action = SECCOMP_RET_ALLOW, .cases = no_inet, .n_cases = 1 }
 *
 * Each process pays for a filter when it is loaded and with each call, so the program is a binary search over
 * ranges of numbers that share an answer. */
#pragma once
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define SECCOMP_FAIL(errno_) (SECCOMP_RET_ERRNO | (errno_))
#define SECCOMP_NR_MAX 0xffffu      /* of a rule; far above what kernels have */
#define SECCOMP_X32_BIT 0x40000000u /* in the numbers of x86-64's second ABI */

/* What of an argument is looked at. The kernel truncates an int before it uses it: upper bits that a caller
 * sets must not make it a different number for us. Pointers and longs are compared whole. */
#define SECCOMP_INT 0xffffffffu
#define SECCOMP_LONG UINT64_MAX

enum seccomp_op {
	SECCOMP_NO_TEST, /* always holds; ends the tests of a case */
	SECCOMP_ONE_OF,  /* args[arg] & mask is one of the values */
	SECCOMP_NONE_OF,
};

#define SECCOMP_VALUES_MAX 8
#define SECCOMP_TESTS_MAX 3

struct seccomp_test {
	enum seccomp_op op;
	uint8_t arg;   /* 0 to 5 */
	uint8_t n;     /* values, 1 to SECCOMP_VALUES_MAX */
	uint64_t mask; /* not 0 */
	uint64_t values[SECCOMP_VALUES_MAX]; /* no bits outside the mask */
};

struct seccomp_case {
	struct seccomp_test tests[SECCOMP_TESTS_MAX]; /* all of them must hold; at least one */
	uint32_t action;
};

struct seccomp_rule {
	uint32_t nr;
	uint32_t action; /* when no case decides */
	const struct seccomp_case *cases;
	size_t n_cases;
};

#define SECCOMP_RULES_MAX 1024
#define SECCOMP_CASES_MAX 64 /* of one rule */

struct seccomp_policy {
	uint32_t arch; /* AUDIT_ARCH_...: 64 bits, little-endian */
	/* Numbers with SECCOMP_X32_BIT are of a foreign ABI. All but -1, which is how a debugger skips a
	 * call. */
	bool has_x32;
	uint32_t foreign, unknown; /* actions */
	const struct seccomp_rule *rules; /* in any order, one for a number */
	size_t n_rules;
};

/* Plain data, made ahead of time. */
struct seccomp_program {
	size_t n;
	struct sock_filter code[BPF_MAXINSNS];
};

/* The same policy always gives the same program. ERR_INVALID for a policy that breaks the rules above,
 * ERR_LIMIT when the program would be longer than the kernel takes. */
int seccomp_compile(const struct seccomp_policy *policy, struct seccomp_program *ret, struct err *e);

/* Puts this process (the calling thread) under the program, for good. Usable between fork and exec: no heap.
 * no_new_privs must be set: ERR_DENIED otherwise, also where the kernel would let a privileged caller
 * pass. */
int seccomp_load(const struct seccomp_program *program, struct err *e);
