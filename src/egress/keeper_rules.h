// SPDX-License-Identifier: Apache-2.0
/* egress/keeper_rules.h - decisions of egress about the only sandbox of a network, as elements of the
 * sidecar's table (sidecar_table.c), and the flows that they end. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "box/egress_wire.h"
#include "sys/netlink.h"

struct err;

struct keeper_rules {
	struct netlink nft, flows;
	const char *table;
	uint32_t mark; /* of egress's own flows, which no rule is about */
	bool is_known;  /* RULES has arrived; before that nothing passes */
	bool allows, is_loose;
	struct egress_net rules[EGRESS_RULES_MAX];
	size_t n_rules;
};
#define KEEPER_RULES_INIT ((struct keeper_rules){ .nft = NETLINK_INIT, .flows = NETLINK_INIT })

int keeper_rules_open(struct keeper_rules *r, const char *table, uint32_t mark, struct err *e);
void keeper_rules_done(struct keeper_rules *r);
/* RULES, LEARN, FORGET or CUT; M is checked. */
int keeper_rules_apply(struct keeper_rules *r, const struct egress_message *m, struct err *e);
int keeper_rules_forget(struct keeper_rules *r, struct err *e);    /* all that was learned */
int keeper_rules_end_flows(struct keeper_rules *r, struct err *e); /* those that could not begin now */
