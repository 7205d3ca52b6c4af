// SPDX-License-Identifier: Apache-2.0
/* egress/keeper.h - the process of a sidecar that has CAP_NET_ADMIN: writes the rules, puts into their sets what egress asks for
 * (box/egress_wire.h), makes its sockets (sockets.h), and starts it again when it ends. It hears nobody else.
 *
 * The rules are there before egress is, and stay when the keeper ends: a sandbox that outlives it reaches nothing new. Flows that
 * began before the rules, or that a change of them forbids, are ended. Who removes the rules, which needs CAP_NET_ADMIN in the
 * sandbox's network, opens it until the next look, KEEPER_CHECK_MS at most; a sandbox must not have that right, nor CAP_NET_RAW. */
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
int keeper_run(struct sidecar *s, const sigset_t *set, int (*run)(const struct egress_options *o), struct err *e);
