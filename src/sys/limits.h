// SPDX-License-Identifier: Apache-2.0
/* sys/limits.h - resource limits of the calling process, from a table. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

struct err;

struct limit {
	int resource; /* RLIMIT_... */
	rlim_t value; /* soft and hard */
	/* the hard limit there is, when that is lower; false: it is raised, which needs the right to */
	bool or_less;
};

/* In this order, up to the first that fails. No heap: usable between fork and exec. */
int limits_apply(const struct limit *limits, size_t n, struct err *e);

/* The soft limit up to the hard one, as far as that goes. */
void limits_raise(int resource);
