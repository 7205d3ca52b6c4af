// SPDX-License-Identifier: Apache-2.0
/* egress/guard.h - the client's side of a connection to port 80: every request is checked before it is
 * forwarded.
 *
 * Otherwise a connection that was allowed for one host could send requests for other hosts of the same
 * server. A request that is not HTTP/1 in origin form with one Host fails with EPROTO; a host that is not
 * allowed with EACCES. Another protocol is relayed only after the server has accepted an upgrade (101) in
 * reply to the first request. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

struct err;
struct transport;

#define GUARD_HELD_MAX (32 * 1024) /* bytes that wait to be understood */

/* HOST is as it was written, with its port. */
typedef bool guard_fn(struct str host, void *arg);

/* INNER is taken on success; EARLY are bytes received of it already. */
struct transport *guard_new(struct transport *inner, struct str early, guard_fn *may_pass, void *arg,
			    struct err *e);

/* The name in a Host of plain HTTP ("a.test", "a.test:80"): as host_name() writes it. False: it is none. */
bool guard_host(struct str host, unsigned port, char *out);
