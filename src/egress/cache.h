// SPDX-License-Identifier: Apache-2.0
/* egress/cache.h - cached answers of upstreams, until their TTL ends. Each sandbox has its own cache, so that
 * the queries of one do not show in the response times of another (G3). */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/own.h"
#include "net/dns.h"

struct cache;
struct err;

#define CACHE_ANSWERS_MAX 8192 /* of all sandboxes; the one that was used the longest time ago makes room */
#define CACHE_OWN_MAX 512      /* of one */
#define CACHE_BYTES_MAX (8 * 1024) /* of one answer; larger ones are not kept */
#define CACHE_NEGATIVE_S 5     /* where nothing says how long something is not there */
#define CACHE_NEGATIVE_MAX_S 300

struct cached {
	unsigned rcode;
	uint32_t age_s; /* to be taken from the records' TTLs */
	const struct dns_record *records;
	size_t n;
};

struct cache *cache_new(struct err *e);
void cache_free(struct cache *c); /* NULL is fine */

bool cache_get(struct cache *c, uint32_t address, const char *name, uint16_t type, uint64_t now_ms,
	       struct cached *ret);
/* A copy; what cannot be kept is not. */
void cache_put(struct cache *c, uint32_t address, const char *name, uint16_t type,
	       const struct dns_answer *answer, uint64_t now_ms);
void cache_drop(struct cache *c, uint32_t address); /* all of one sandbox's */
