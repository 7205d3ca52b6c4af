// SPDX-License-Identifier: Apache-2.0
/* server/model/fork.h - several sandboxes from what one of them has at one moment.
 *
 * A layer is made of the source, which stands still for that once, and all the others stand on it. Unless it is to stay as a
 * snapshot, clients see none, and the layer goes with the last of them. They run all, or there is none of them. */
#pragma once
#include <stddef.h>

#include "server/model/sandbox.h"

struct snapshots;

#define FORKS_MAX 100 /* at a time */

/* IDS are those of the new sandboxes; or F. */
typedef void fork_fn(const char (*ids)[ID_MAX + 1], size_t n, const struct fault *f, void *arg);

struct fork_spec {
	struct snapshots *snapshots;
	struct sandboxes *sandboxes;
	struct sandbox *source;
	const struct sandbox_order *order; /* of each; its base is not looked at */
	const char *name; /* what they begin with stays as a snapshot of this name, Ready before they are made; NULL: none */
	size_t count; /* 1 to FORKS_MAX */
};

/* 0: FN will be told once. -1: F. */
int sandboxes_fork(const struct fork_spec *spec, fork_fn *fn, void *arg, struct fault *f);
