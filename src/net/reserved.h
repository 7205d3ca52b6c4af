// SPDX-License-Identifier: Apache-2.0
/* net/reserved.h - addresses that are not on the public Internet (W4): private networks, this host and its
 * neighbours, metadata services of clouds, and addresses that embed one of these. */
#pragma once
#include <stdbool.h>
#include <sys/socket.h>

#include "base/own.h"

struct err;

/* By the list alone. What is neither IPv4 nor IPv6 is reserved, too. */
bool address_is_reserved(const struct sockaddr *sa);

/* The same of all addresses of a network: its first one and the bits that they share. */
bool network_is_reserved(const struct sockaddr *sa, unsigned bits);

/* The addresses that this host has now, which W4 counts among them. */
struct own_addresses {
	struct sockaddr_storage *items;
	size_t n;
};
#define OWN_ADDRESSES_INIT ((struct own_addresses){ 0 })

int own_addresses_read(struct own_addresses *ret, struct err *e);
bool own_addresses_have(const struct own_addresses *own, const struct sockaddr *sa); /* ports do not count */
void own_addresses_done(struct own_addresses *own);
DEFINE_AUTO_DONE(struct own_addresses, own_addresses_done)
