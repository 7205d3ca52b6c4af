// SPDX-License-Identifier: Apache-2.0
/* box/slot.h - the part of a box that can be made before the request for it.
 *
 * A slot has an id range with its user namespace, a network namespace with its link, control groups, a disk
 * with its quota, the socket that execd will listen on, and a parked child that has done everything that does
 * not depend on the image. It is woken once and destroyed after use. Its number is part of all of its
 * names. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/own.h"
#include "base/str.h"
#include "sys/cgroup.h"

struct box_host;
struct err;

#define SLOT_NUMBER_MAX 16384 /* of boxes on one host: with 65,536 ids each, what fits below 2^31 from the base on */
#define SLOT_ID_BASE (16 * 65536) /* the first multiple of 65,536 from 1,000,000 on */
#define SLOT_LAYERS_MAX 256 /* 128 of an image, snapshots above them, the one of the host */
#define SLOT_LAYER_NAME_MAX 71 /* "sha256-" and 64 digits */

/* What a sandbox may use (L1 to L3). A slot has some already: a request that asks for the same costs
 * nothing. */
struct slot_limits {
	uint64_t memory_bytes, cpu_milli, pids;
	uint64_t disk_bytes; /* of an order, 0: the default */
};
#define SLOT_LIMITS_DEFAULT \
	((struct slot_limits){ .memory_bytes = UINT64_C(512) << 20, .cpu_milli = 1000, .pids = 4096, \
			       .disk_bytes = UINT64_C(10) << 30 })

/* What the request is likely to ask for, because the last one did: the slot is made for that, and an order of
 * something else costs it more. */
struct slot_guess {
	struct slot_limits limits;
	/* of an image that is this layer alone, of which there is never another by that name; "": none */
	char layer[SLOT_LAYER_NAME_MAX + 1];
	bool has_host_usr;
	bool has_address;
	/* with a layer: the child becomes execd at once, and waits there. It can be nothing else then */
	bool is_eager;
};
#define SLOT_GUESS_DEFAULT ((struct slot_guess){ .limits = SLOT_LIMITS_DEFAULT })

#define SLOT_EAGER_SPEC_MAX 32768 /* bytes of a spec that an eager one can be given: what fits into any pipe */

struct slot {
	unsigned number;
	uint64_t id_base;
	int userns, netns;
	struct cgroup group, init, user;
	int dir;      /* boxes/NUMBER: what is written about the box, its logs, its socket */
	int listener; /* execd's socket, bound in the box's network */
	int pidfd;    /* the child: parked, then PID 1 */
	pid_t pid;
	uint64_t pid_start; /* of its child, for callers that want to know it again; 0: nobody looked */
	int control;  /* to the parked child */
	int spec, ready; /* of an eager one: where its execd reads from, and says that it is ready; -1 */
	struct slot_guess made_for;
	struct slot_limits limits; /* that its groups and its disk have now */
};

#define SLOT_INIT \
	((struct slot){ .userns = -1, .netns = -1, .group = CGROUP_INIT, .init = CGROUP_INIT, .user = CGROUP_INIT, .dir = -1, \
			.listener = -1, .pidfd = -1, .control = -1, .spec = -1, .ready = -1 })

void slot_name(unsigned number, char out[16]); /* of its folder and its control group */

/* GUESS: NULL for the default. */
int slot_make(const struct box_host *h, unsigned number, const struct slot_guess *guess, struct slot *ret,
	      struct err *e);

/* but for limits, and whether they are eager */
bool slot_is_alike(const struct slot_guess *a, const struct slot_guess *b);
/* Whether it can become a box like LIKE, of which `is_eager` says that an eager one would do: no volumes, a
 * short spec. */
bool slot_fits(const struct slot *s, const struct slot_guess *like);

/* For passing a slot on: where its descriptors are, and what is left to set right in the process that gets
 * it. */
#define SLOT_FDS_MAX (8 + 3 * CGROUP_HIERARCHIES_MAX)
size_t slot_fds(struct slot *s, int *ret[SLOT_FDS_MAX]);
void slot_set_layout(struct slot *s, const struct cgroup_layout *l);

/* A directory of the host that is the lowest layer: opened by its path, because only a mount of its own
 * namespace can be shown with other ids, and then it must be the one that was meant. Mounts below it are not
 * part of it: their places are empty directories. */
struct slot_dir {
	const char *path; /* absolute, shorter than BOX_PATH_MAX; NULL: none */
	dev_t dev;
	ino_t ino;
};

struct slot_layer {
	char name[SLOT_LAYER_NAME_MAX + 1]; /* in the host's layers/ */
	/* what its files' ids start at on the disk: 0 for images, the range of the box that a snapshot is
	 * of */
	uint64_t id_base;
	bool is_disk;     /* the snapshot of a disk (box/disk.h): its "upper" is the layer */
};

/* A volume that is open (box/volume.h), and where it goes in the box. Those in others come behind them. */
#define SLOT_VOLUMES_MAX 16
#define SLOT_MOUNT_PATH_MAX 1023
struct slot_volume {
	int mount;
	const char *path;
};

struct slot_order {
	struct slot_limits limits;
	const struct slot_layer *layers; /* the uppermost first */
	size_t n_layers;
	struct slot_dir dir; /* below them */
	/* the host's own /usr, below all layers, which are like its disk then (box/disk.h) */
	bool has_host_usr;
	int spec;          /* sealed description for execd, handed on unread */
	const char *hostname;
	/* of its network (box/network.h), in network order; 0: its own loopback is all that it has */
	uint32_t address;
	const struct slot_volume *volumes;
	size_t n_volumes;
};

/* Sets the limits and wakes the child. A limit that cannot be enforced is ERR_UNAVAILABLE; for the disk see
 * box_disk_limit(). Returns the end of a pipe, non-blocking: once it is readable, ask
 * slot_wake_finish(). */
int slot_wake_start(const struct box_host *h, struct slot *s, const struct slot_order *order, struct err *e);
/* 1 once execd says that it listens and the entrypoint runs, 0 not yet, -1. The error of the child, up to
 * exec, is the error here. */
int slot_wake_finish(const struct slot *s, int ready, struct err *e);
/* -1: why its child has ended, as far as that said so */
int slot_failure(const struct slot *s, struct err *e);
/* Both, waiting in between. */
int slot_wake(const struct box_host *h, struct slot *s, const struct slot_order *order, int timeout_ms,
	      struct err *e);

/* Keeps only the descriptors that a running box needs: its network, its folder, its PID 1. Groups are opened
 * anew where they are needed. A host has thousands of boxes, and a v1 group is nine descriptors. */
void slot_settle(struct slot *s);

/* A box that runs already, as slot_settle() leaves one, by its number and the pidfd of its PID 1, which is
 * taken. -1 for PIDFD: one that has ended, of which only the folder is opened. */
int slot_open(const struct box_host *h, unsigned number, int pidfd, struct slot *ret, struct err *e);

/* All of these block, for seconds at worst. */
int slot_freeze(const struct box_host *h, const struct slot *s, struct err *e);
int slot_thaw(const struct box_host *h, const struct slot *s, struct err *e);
/* 1, 0 or -1: at once, this one */
int slot_is_frozen(const struct box_host *h, const struct slot *s, struct err *e);
/* every process, until none is left */
int slot_kill(const struct box_host *h, const struct slot *s, struct err *e);

/* Ends every process and removes all that the slot has. Works on what is left of a half-made one, on one of
 * which only the number is known, and again. Who called clone still has to collect the child. */
int slot_destroy(const struct box_host *h, struct slot *s, struct err *e);
void slot_done(struct slot *s); /* closes descriptors; the box goes on */
DEFINE_AUTO_DONE(struct slot, slot_done)
