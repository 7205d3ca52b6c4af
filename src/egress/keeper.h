// SPDX-License-Identifier: Apache-2.0
/* egress/keeper.h - the process of a sidecar that has CAP_NET_ADMIN: it writes the rules, applies the
 * requests of egress (box/egress_wire.h), makes its sockets (sockets.h), and restarts it. It has no other
 * input.
 *
 * The rules exist before egress starts, and stay when the keeper ends: a sandbox that outlives it reaches
 * nothing new. Flows that are older than the rules, or that a change forbids, are ended. A process with
 * CAP_NET_ADMIN in the sandbox's network can remove the rules until the next check (KEEPER_CHECK_MS); a
 * sandbox must not have that capability, nor CAP_NET_RAW. */
#pragma once
#include <signal.h>

struct egress_options;
struct err;
struct sidecar;

#define KEEPER_CHECK_MS 2000
#define KEEPER_AGAIN_MS 100 /* before egress is started again; doubled each time that it did not last KEEPER_STABLE_MS, */
#define KEEPER_AGAIN_MAX_MS 5000
#define KEEPER_STABLE_MS 60000

/* RUN is what the other process does: its status. Until a signal of SET says so; -1: what is asked
 * for cannot be enforced. Everything but CAP_NET_ADMIN must have been given up before. */
int keeper_run(struct sidecar *s, const sigset_t *set, int (*run)(const struct egress_options *o),
	       struct err *e);
