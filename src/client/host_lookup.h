// SPDX-License-Identifier: Apache-2.0
/* client/host_lookup.h - the addresses of a name, looked up by a thread of its own, because the C library's resolver waits.
 *
 * The thread blocks every signal and touches nothing but its lookup. One that is cancelled goes on until the resolver gives
 * up, and then frees what is left; so the process may have as many of these threads as it has cancelled lookups. */
#pragma once
#include <stddef.h>

#include "net/addr.h"

struct err;
struct host_lookup;
struct loop;

#define HOST_ADDRESSES_MAX 8

/* N addresses, in the order of preference, valid during the call; or none, and E gives the reason. The lookup is gone already. */
typedef void host_lookup_fn(const struct addr *addresses, size_t n, const struct err *e, void *arg);

/* HOST is a name; it is copied. */
struct host_lookup *host_lookup_start(struct loop *l, const char *host, unsigned port, host_lookup_fn *fn, void *arg,
				      struct err *e);
void host_lookup_cancel(struct host_lookup *h); /* NULL is fine */

/* What needs no lookup: numeric addresses, and localhost, which is this machine whatever a resolver says (RFC 6761). The number
 * of addresses, or 0. */
size_t host_known(const char *host, unsigned port, struct addr out[HOST_ADDRESSES_MAX]);
