// SPDX-License-Identifier: Apache-2.0
/* box/network_rules.h - parts that the host's nf_tables table and a sidecar's table share. */
#pragma once
#include "base/str.h"

struct buf;
struct err;

/* W4, but for what is no unicast address anyway. */
#define NETWORK_RESERVED \
	"0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 168.63.129.16, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24, " \
	"192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/4, 240.0.0.0/4"

/* Elements of the set `resolvers` of TABLE: net/resolvers.h. */
void network_resolvers_write(const char *table, struct buf *out);

/* By `nft -f -`: all of RULES holds, or nothing was changed. ERR_UNAVAILABLE: the first line of what it
 * says. */
int network_rules_write(struct str rules, struct err *e);
