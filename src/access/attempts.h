// SPDX-License-Identifier: Apache-2.0
/* access/attempts.h - counts failed guesses and limits them.
 *
 * Failures are counted per target and peer, and per target: one peer gets ATTEMPTS_PEER_MAX in each window,
 * all peers together ATTEMPTS_ALL_MAX. IPv6 peers are counted by /64. Memory is fixed; when the table is
 * full, the pairs with the fewest failures are dropped first. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/str.h"

struct attempts;
struct err;

#define ATTEMPTS_WINDOW_MS 60000
#define ATTEMPTS_PEER_MAX 20
#define ATTEMPTS_ALL_MAX 600

struct attempts *attempts_new(struct err *e);
void attempts_free(struct attempts *a); /* NULL is fine */
DEFINE_AUTO(struct attempts *, attempts_free)

/* Whether PEER (NULL, or no address: an unknown one) has used up its guesses at WHAT. */
bool attempts_exceeded(const struct attempts *a, struct str what, const struct sockaddr *peer,
		       uint64_t now_ms);
void attempts_failed(struct attempts *a, struct str what, const struct sockaddr *peer, uint64_t now_ms);
