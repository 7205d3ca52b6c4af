// SPDX-License-Identifier: Apache-2.0
/* egress/learned.h - which names a sandbox has resolved to which addresses, and until when they are valid
 * (W7, E13). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "access/policy.h"
#include "base/map.h"

struct err;

#define LEARNED_MAX 4096 /* pairs of one sandbox */
#define LEARNED_SLACK_S 60
#define LEARNED_MIN_S 60
#define LEARNED_MAX_S 360

struct learned_pair {
	uint32_t address;   /* in network order; the key begins here */
	char name[HOST_NAME_LEN_MAX + 1];
	uint64_t until_ms;  /* of loop time; it lasts longer while there are flows */
	uint64_t kernel_ms; /* until when packets to `ports` pass; 0: nothing was let through */
	unsigned flows;
	size_t n_ports;
	uint16_t ports[POLICY_PORTS_MAX]; /* that were let through */
};

struct learned {
	struct map pairs;
};

/* How long an answer with this TTL counts, in seconds: 10, 120 and 9999 make 70, 180 and 360. */
unsigned learned_seconds(uint32_t ttl);

void learned_done(struct learned *l);
struct learned_pair *learned_find(const struct learned *l, const char *name, uint32_t address);
/* The pair, made when it was not there. ERR_LIMIT, when all pairs still count. */
struct learned_pair *learned_put(struct learned *l, const char *name, uint32_t address, uint64_t now_ms,
				 struct err *e);
void learned_sweep(struct learned *l, uint64_t now_ms);
/* Whether another name than P's still needs this port of P's address. */
bool learned_shares(const struct learned *l, const struct learned_pair *p, uint16_t port);
