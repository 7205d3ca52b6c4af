// SPDX-License-Identifier: Apache-2.0
/* sys/caps.h - capability sets of the calling thread, as masks: bit N is the capability with number N.
 * Securebits are left alone. Nothing here but caps_read() uses the heap. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

struct err;

struct caps {
	uint64_t inheritable, permitted, effective, bounding, ambient;
};

/* Drops whatever MASK does not have from the bounding set, up to the last capability that the kernel knows.
 * Needs SETPCAP. For good: what was dropped does not come back by any exec. */
int caps_bound(uint64_t mask, struct err *e);

/* Permitted and effective become exactly MASK, inheritable and ambient empty. ERR_DENIED when MASK has a
 * capability that is not permitted now. */
int caps_set(uint64_t mask, struct err *e);

/* Effective becomes all that is permitted: what a change of the effective or the file system id has taken
 * comes back. */
int caps_regain(struct err *e);

/* Both, in the order that works: SETPCAP is needed for the first and may be gone after the second. */
int caps_limit(uint64_t mask, struct err *e);

/* What /proc says about PID; 0 is the calling thread. */
int caps_read(pid_t pid, struct caps *ret, struct err *e);
