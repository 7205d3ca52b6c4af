// SPDX-License-Identifier: Apache-2.0
/* sys/cgroup_parse.h - the texts that the kernel writes about control groups.
 *
 * All of it is pure: a view in, values out, nothing allocated. Lines that are malformed are passed over,
 * since a newer kernel may write more than we know. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

enum cgroup_controller {
	CGROUP_MEMORY,
	CGROUP_CPU,
	CGROUP_CPUACCT, /* v1 only; v2 counts in every group */
	CGROUP_PIDS,
	CGROUP_IO,      /* "blkio" on v1 */
	CGROUP_HUGETLB,
	CGROUP_DEVICES, /* a controller on v1, a program attached to the group on v2 */
	CGROUP_FREEZER, /* a controller on v1, part of every group on v2 */
	CGROUP_CONTROLLERS,
};

#define CGROUP_BIT(controller) (1U << (controller))
#define CGROUP_ALL (CGROUP_BIT(CGROUP_CONTROLLERS) - 1)
#define CGROUP_MOUNT_MAX 255  /* bytes of a mount point, and of a path below it */
#define CGROUP_FIELD_MAX 4096 /* bytes of one word in these files */

const char *cgroup_controller_name(enum cgroup_controller c, bool is_v2); /* "io", "blkio" */

/* The controllers among NAMES, which SEP separates: "cpu,cpuacct", "cpu memory\n". */
unsigned cgroup_parse_names(struct str names, char sep, bool is_v2);

struct cgroup_mount {
	bool is_v2;
	bool is_read_only;
	unsigned controllers;            /* of a v1 hierarchy: those of ours that it has, at least one */
	unsigned major, minor;           /* of the file system, as in st_dev of its files */
	char root[CGROUP_MOUNT_MAX + 1]; /* the group that is seen at `place` */
	char place[CGROUP_MOUNT_MAX + 1];
};

/* The next cgroup mount in a mountinfo file, and *in after it; false at the end. v1 hierarchies without any
 * controller of ours and mounts with longer names are passed over. */
bool cgroup_next_mount(struct str *in, struct cgroup_mount *ret);

/* Of /proc/PID/cgroup: the group in the v2 hierarchy, "/a/b". */
bool cgroup_parse_own(struct str text, struct str *ret_path);

/* Of /proc/cgroups: the controllers that the kernel has, and those that are not disabled at boot. */
void cgroup_parse_kernel(struct str text, unsigned *ret_known, unsigned *ret_enabled);

/* Of files with lines "key value": cpu.stat, memory.events, cgroup.events, memory.oom_control. */
bool cgroup_parse_key(struct str text, const char *key, uint64_t *ret);

/* Of cpu.pressure: the total of its line "some avg10=0.00 avg60=0.00 avg300=0.00 total=123". */
bool cgroup_parse_pressure(struct str text, uint64_t *ret_us);

/* Of files with one number; "max" is UINT64_MAX. */
bool cgroup_parse_number(struct str text, uint64_t *ret);

/* The next process of cgroup.procs. A process that has no number in our pid namespace reads as 0: passed
 * over. */
bool cgroup_next_pid(struct str *in, pid_t *ret);

/* Bytes moved, summed over devices (saturating): io.stat, and blkio.throttle.io_service_bytes*. */
void cgroup_parse_io(struct str text, bool is_v2, uint64_t *ret_read, uint64_t *ret_written);
