// SPDX-License-Identifier: Apache-2.0
/* client/host_lookup.h - looks up the addresses of a name in a thread, because the C library's resolver
 * blocks.
 *
 * The thread blocks every signal and touches only its lookup. A cancelled lookup continues until the resolver
 * returns, and then frees its memory; so there may be as many threads as cancelled lookups. */
#pragma once
#include <stddef.h>

#include "net/addr.h"

struct err;
struct host_lookup;
struct loop;

#define HOST_ADDRESSES_MAX 8

/* N addresses, in the order of preference, valid during the call; or none, and E gives the reason. The lookup
 * is gone already. */
typedef void host_lookup_fn(const struct addr *addresses, size_t n, const struct err *e, void *arg);

/* HOST is a name; it is copied. */
struct host_lookup *host_lookup_start(struct loop *l, const char *host, unsigned port, host_lookup_fn *fn,
				      void *arg,
				      struct err *e);
void host_lookup_cancel(struct host_lookup *h); /* NULL is fine */

/* What needs no lookup: numeric addresses, and localhost, which is this machine whatever a resolver says (RFC
 * 6761). The number of addresses, or 0. */
size_t host_known(const char *host, unsigned port, struct addr out[HOST_ADDRESSES_MAX]);
