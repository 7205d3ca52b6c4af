// SPDX-License-Identifier: Apache-2.0
/* sys/process_stat.h - fields of /proc/PID/stat. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

struct err;

struct process_stat {
	uint64_t start;        /* in ticks since boot: with its number it names one process of this boot */
	/* CPU time of the children that it has collected, with that of theirs; exact to two ticks */
	uint64_t collected_us;
};

int process_stat_read(pid_t pid, struct process_stat *ret, struct err *e);
int process_stat_parse(struct str text, struct process_stat *ret, struct err *e);
