// SPDX-License-Identifier: Apache-2.0
/* egress/sandbox.h - the sandboxes that the warden has announced, and their policies.
 *
 * A policy is in force when the warden has applied its networks. In the same step, learned addresses and
 * flows that it no longer allows are removed. Only then is it saved and reported as in force (E24). Changes
 * of one sandbox are sequential. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box/egress_wire.h"
#include "egress/activity.h"
#include "egress/learned.h"

struct change;
struct egress;
struct err;
struct flow;
struct policy;
struct question;
struct tcp_client;

#define QUERIES_PER_S 50
#define QUERIES_BURST 200
#define CHANGES_MAX 16 /* that wait */
#define LINES_PER_MIN 120 /* of one sandbox in the log: its activity has the rest */

struct sandbox_counts {
	uint64_t queries, allowed, denied, throttled, failed; /* names */
	uint64_t flows, flows_denied, flows_cut;
	uint64_t sent_bytes, received_bytes; /* through the relay */
};

struct sandbox {
	struct egress *egress;
	char id[WIRE_ID_SIZE];
	uint32_t address;       /* in network order */
	struct policy *policy;  /* NULL: none is in force yet, and everything is denied */
	bool is_told;           /* since the warden was last connected */
	bool is_awaited;        /* its first policy is on its way: one of egress->n_awaited */
	struct learned learned;
	struct activity activity;
	struct sandbox_counts counts;
	double tokens;          /* queries that it may send at once */
	uint64_t tokens_ms;     /* when they were counted */
	uint64_t lines_ms;      /* the minute that its lines in the log are counted for, */
	unsigned lines;         /* those, */
	uint64_t unlogged;      /* and what was left out since the last one */
	struct change *changes; /* the first is at work */
	size_t n_changes;
	struct question *questions; /* that are being asked */
	size_t n_questions;
	struct flow *flows;
	size_t n_flows;
	struct tcp_client *clients;
	size_t n_clients;
};

/* From the link. FD is the text of a new one's policy, or -1. */
void sandbox_bind(struct egress *g, const struct egress_message *m, int *fd);
void sandbox_unbind(struct egress *g, const char *id);
void sandbox_settle(struct sandbox *s);  /* its first policy is in force, or cannot be */
void sandboxes_begin(struct egress *g);  /* the warden is new and announces everything again */
void sandboxes_synced(struct egress *g); /* sandboxes that it did not announce are gone */
void sandboxes_drop(struct egress *g);

struct sandbox *sandbox_by_id(const struct egress *g, struct str id);
struct sandbox *sandbox_by_address(const struct egress *g, uint32_t address);

/* the operator's lists are others: each policy is put in force anew */
void sandboxes_again(struct egress *g);

/* Whether the sandbox may reach this address at this port because it has asked for NAME; else *ret_why. */
bool sandbox_may_reach(const struct sandbox *s, const char *name, uint32_t address, uint16_t port,
		       const char **ret_why);
bool sandbox_is_guarded(const struct sandbox *s); /* what no rule is about is denied */

/* The ports at which packets to what NAME is resolved to must pass: those that no connection through the
 * relay needs. */
size_t sandbox_kernel_ports(const struct sandbox *s, const char *name, uint16_t out[POLICY_PORTS_MAX]);

bool sandbox_take_token(struct sandbox *s);
/* into its activity, and the log when it is new */
void sandbox_log(struct sandbox *s, const struct activity_event *ev);
