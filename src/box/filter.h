// SPDX-License-Identifier: Apache-2.0
/* box/filter.h - the system call filter of sandboxes (F1 to F3, C5).
 *
 * An allow list. A call that is known and denied fails with EPERM. An unknown call, which is newer than this
 * table, fails with ENOSYS, as on an older kernel. A call through a foreign ABI (i386, x32, arm32) kills the
 * process. The numbers are part of the table, so it needs no recent kernel headers, and the policy of each
 * architecture can be checked on the other.
 *
 *     static struct seccomp_program program;               once, before the first sandbox
 *     filter_compile(FILTER_NATIVE, &program, e);
 *     seccomp_load(&program, e);                           in the child, last before exec */
#pragma once
#include <stddef.h>

#include "sys/seccomp.h"

enum filter_arch { FILTER_X86_64, FILTER_AARCH64 };

#if defined(__x86_64__)
#define FILTER_NATIVE FILTER_X86_64
#elif defined(__aarch64__)
#define FILTER_NATIVE FILTER_AARCH64
#else
#error "sandboxes have no system call table for this architecture"
#endif

int filter_compile(enum filter_arch arch, struct seccomp_program *ret, struct err *e);

/* The policy as data; RULES is where its rules are put. */
#define FILTER_RULES_MAX 400
struct seccomp_policy filter_policy(enum filter_arch arch, struct seccomp_rule rules[FILTER_RULES_MAX]);

/* Of a call in the table; -1 when there is none on this architecture. */
int filter_number(enum filter_arch arch, const char *name);
