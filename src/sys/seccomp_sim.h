// SPDX-License-Identifier: Apache-2.0
/* sys/seccomp_sim.h - runs filters without the kernel, for tests and fuzzing. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sys/seccomp.h"

/* The action that PROGRAM returns for the call D. Understands what seccomp_compile() may emit: loads of words
 * of the data, AND, jumps on a constant, returns; anything else, a jump out of the program and a load from
 * outside the data are ERR_INVALID. COUNTS, unless NULL, has a counter for each instruction, of how often it
 * was executed. */
int seccomp_simulate(const struct seccomp_program *program, const struct seccomp_data *d, unsigned *counts,
		     uint32_t *ret_action, struct err *e);

/* The same answer straight from the policy, which must be a valid one: what the program has to do. */
uint32_t seccomp_judge(const struct seccomp_policy *policy, const struct seccomp_data *d);
