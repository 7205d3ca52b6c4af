// SPDX-License-Identifier: Apache-2.0
/* egress/upstream.h - queries the operator's resolvers: over UDP, from a new port with a new id for each try;
 * over TCP when the answer is truncated. A resolver that does not answer is asked last for a while. It then
 * also gets each query, so that its recovery is noticed without delaying a client. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/addr.h"
#include "net/dns.h"

struct err;
struct loop;
struct lookup;
struct random_pool;
struct sockets;
struct upstream;

#define UPSTREAM_TOTAL_MS 5000  /* for an answer, all tries together */
#define UPSTREAM_TRY_MS 1500    /* for one try, before the next one begins */
#define UPSTREAM_TRIES_MAX 6
#define UPSTREAM_SICK_MS 10000
#define UPSTREAM_LOOKUPS_MAX 4096
#define UPSTREAM_ANSWER_MAX (128 * 1024) /* bytes of memory for what is read of one answer */

/* ANSWER (valid during the call) is whole and has rcode NOERROR or NXDOMAIN; or it is NULL and E gives the
 * reason. The lookup is gone. */
typedef void lookup_fn(const struct dns_answer *answer, const struct err *e, void *arg);

/* TO is copied. RANDOM and SOCKETS (or NULL) are the caller's, and outlive it. */
struct upstream *upstream_new(struct loop *l, const struct addr *to, size_t n, struct random_pool *random,
			      struct sockets *sockets,
			      struct err *e);
/* Others from now on; what has been asked is still waited for. Whether they are others. */
bool upstream_set(struct upstream *u, const struct addr *to, size_t n);
void upstream_free(struct upstream *u); /* its lookups must have ended; NULL is fine */

struct lookup *lookup_start(struct upstream *u, const char *name, uint16_t type, lookup_fn *fn, void *arg,
			    struct err *e);
void upstream_cancel(struct lookup *q); /* NULL is fine */

struct upstream_counts {
	uint64_t asked, answered, failed, over_tcp;
	uint64_t total_us; /* that the answered ones took */
	size_t waiting, healthy, known;
};
struct upstream_counts upstream_counts(const struct upstream *u);
