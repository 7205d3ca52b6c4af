// SPDX-License-Identifier: Apache-2.0
/* box/park.h - the parked child: it prepares everything that does not depend on the image, waits, and becomes
 * the box's PID 1. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box/host.h"
#include "box/slot.h"
#include "sys/cgroup_gauges.h"

/* The order in one packet. The descriptors that go with it, in this order: spec, the writing end of the ready
 * pipe, the mounts of the volumes. */
struct park_order {
	/* of what is sent of this struct: up to the last volume. Both ends are the same program */
	uint32_t size;
	uint32_t n_layers, n_volumes;
	bool has_host_usr;
	uint32_t address; /* 0: no network, and files for names are the image's */
	char hostname[64];
	uint64_t dir_dev, dir_ino;
	char dir[BOX_PATH_MAX]; /* of the host, below the layers; "": none */
	/* As many layers as there are, and behind the last one where the volumes go. */
	union {
		struct slot_layer layers[SLOT_LAYERS_MAX];
		char bytes[SLOT_LAYERS_MAX * sizeof(struct slot_layer) + SLOT_VOLUMES_MAX * (size_t)(SLOT_MOUNT_PATH_MAX + 1)];
	} list;
};
#define PARK_VOLUME_AT(n_layers_, i_) ((n_layers_) * sizeof(struct slot_layer) + (i_) * (size_t)(SLOT_MOUNT_PATH_MAX + 1))
#define PARK_ORDER_SIZE(n_layers_, n_volumes_) (offsetof(struct park_order, list) + PARK_VOLUME_AT(n_layers_, n_volumes_))

enum { PARK_FD_SPEC, PARK_FD_READY, PARK_FDS };

/* What execd writes to, open from the start: a new file costs a create more than all that goes into it. */
enum { PARK_FILE_STATE, PARK_FILE_LOG0, PARK_FILE_LOG1, PARK_FILES };

/* What the parked child has from its parent. */
struct park {
	const struct box_host *host;
	const struct slot *slot;
	/* to enter its groups: the one of all, where it has no leaves, and where commands and execd are */
	struct cgroup_entry whole, user, init;
	int oom; /* counter of the former's kills */
	struct cgroup_gauges gauges;
	const int *files; /* PARK_FILES of them */
	const struct slot_guess *guess;
	int control; /* the child's end */
	int spec, ready; /* of an eager one: what execd reads from and writes to; -1 */
};

/* Runs in the child that namespace_clone() made; never returns. With an eager guess it waits for no order:
 * what else execd has to know comes to it as execd. A failure is sent through `control` as a struct err. */
_Noreturn void park_run(const struct park *p);
