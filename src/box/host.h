// SPDX-License-Identifier: Apache-2.0
/* box/host.h - what all boxes of this host share: made once by the process that makes boxes, and read-only
 * afterwards. */
#pragma once
#include "base/own.h"
#include "box/filter.h"
#include "box/network.h"
#include "box/store.h"
#include "sys/cgroup.h"
#include "sys/overlay.h"

struct err;

#define BOX_PATH_MAX 1024
#define BOX_NAME_MAX 16

struct box_host_spec {
	const char *prefix;     /* of names in the kernel: "osb"; the owner tag of its control groups */
	const char *state_dir;  /* absolute; boxes/, stage/ and the store are made in it */
	const char *execd_path; /* the program that becomes PID 1 */
	uint64_t disk_size_bytes, disk_reserve_bytes; /* of the store, see there */
	bool no_disk_limit;
};

struct box_host {
	struct cgroup_layout layout;
	struct cgroup top; /* above all boxes */
	struct cgroup_entry shared; /* to be in it where boxes have no groups of their own */
	bool has_devices; /* it is limited to those of a box, and with it all that is below */
	struct seccomp_program filter;
	enum overlay_way overlay_way; /* that this kernel has */
	int execd; /* sealed copy */
	struct box_store store; /* their disks, and layers */
	struct box_network network; /* off: boxes have their own loopback alone */
	int boxes; /* directory: what is written about a box, per number */
	bool for_parent; /* the child of a slot is to be our parent's */
	/* A child in a mount namespace of its own needs the mounts of that one, so it opens these anew, by
	 * path. */
	char layers_path[BOX_PATH_MAX]; /* a layer per name */
	char boxes_path[BOX_PATH_MAX];
	char disks_path[BOX_PATH_MAX]; /* a disk per number */
	char stage_path[BOX_PATH_MAX]; /* see stage_prepare() */
	bool has_stage;
};

/* To those that a box has (V1): for a box's own group, where the top could not be limited. */
int box_host_limit_devices(const struct cgroup *g, struct err *e);

int box_host_open(struct box_host *h, const struct box_host_spec *spec, struct err *e);
void box_host_done(struct box_host *h); /* the groups, if empty, go too */
DEFINE_AUTO_DONE(struct box_host, box_host_done)
#define BOX_HOST_INIT ((struct box_host){ .top = CGROUP_INIT, .execd = -1, .store = BOX_STORE_INIT, .boxes = -1 })
