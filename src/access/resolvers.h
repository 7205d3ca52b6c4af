// SPDX-License-Identifier: Apache-2.0
/* access/resolvers.h - public resolvers that answer DNS over HTTPS. A sandbox that reaches one can resolve
 * names that its policy denies (E18). The lists are data in resolvers.c; operators add names with
 * egress/operator_rules.h and deny further networks. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct buf;

/* NAME is lower case, without a last dot; what is below one of theirs is theirs, too. */
bool resolver_is_name(const char *name);
bool resolver_is_address(uint32_t address); /* IPv4, in network order */
/* The networks, as nft has elements of a set: "192.0.2.1, 198.51.100.0/24". */
void resolver_networks_write(struct buf *out);
