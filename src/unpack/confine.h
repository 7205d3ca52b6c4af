// SPDX-License-Identifier: Apache-2.0
/* unpack/confine.h - from host root to a process that can do nothing but fill one directory (P1).
 *
 * Afterwards: root of the given user namespace with CHOWN, DAC_OVERRIDE, FOWNER and FSETID, own network, ipc,
 * uts, cgroup and mount namespaces that it has no rights over, "/" and the working directory are the target,
 * no_new_privs, and a filter that knows no open() but openat2(): libraries cannot load anything from the
 * files that were just unpacked. */
#pragma once
#include <stdbool.h>

#include "sys/seccomp.h"

struct err;

struct confine_spec {
	int target, userns;
	int map;      /* what the target is shown through; -1: like USERNS */
	/* nothing is made there: the mount is read-only, and of the rights DAC_READ_SEARCH alone is left */
	bool reads;
};

/* Returns a descriptor of the target as the new root. */
int confine(const struct confine_spec *spec, struct err *e);

/* The filter's policy, for its test. RULES is where its rules are put. */
#define CONFINE_RULES_MAX 96
struct seccomp_policy confine_policy(bool reads, struct seccomp_rule rules[CONFINE_RULES_MAX]);
