// SPDX-License-Identifier: Apache-2.0
/* sys/cgroup_devices.h - the two forms of a device list, for tests too. */
#pragma once
#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "sys/cgroup_limits.h"

struct err;

#define CG_PROGRAM_MAX (8 + 8 * CGROUP_DEVICES_MAX) /* instructions */

/* v2: the program, and attaching it to the group in DIR. Returns the number of instructions. */
size_t cg_devices_program(const struct cgroup_device *list, size_t count,
			  struct bpf_insn out[CG_PROGRAM_MAX]);
int cg_devices_limit_v2(int dir, const struct cgroup_device *list, size_t n, struct err *e);
