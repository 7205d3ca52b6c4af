// SPDX-License-Identifier: Apache-2.0
/* server/native/children.h - the programs of the native runtime, as the supervisor starts them (runtime/kind.h): the warden with
 * root's rights, opensandbox-egress as a user without any, and an opensandbox-fetch for each order of the server. */
#pragma once
#include "server/native/host.h"
#include "server/runtime/kind.h"

struct native_children {
	struct runtime_host rt;
	struct native_host host;
	const struct config *config; /* borrowed */
};

static inline struct native_children *native_children_of(struct runtime_host *h)
{
	return container_of(h, struct native_children, rt);
}

int native_start_warden(struct runtime_host *h, int pulse, struct err *e); /* their pidfds */
int native_start_egress(struct runtime_host *h, int pulse, struct err *e);
int native_start_fetcher(struct runtime_host *h, int *ret_pidfd, struct err *e);
