// SPDX-License-Identifier: Apache-2.0
/* egress/guard.h - a client's side of a connection to port 80, of which each request is looked at before it goes on.
 *
 * A connection that was let through for one host could otherwise bring requests for others behind the first, to a server that has
 * them all. What is no HTTP/1 in origin form, with one Host, fails as EPROTO; what the host may not be, as EACCES. Bytes of another
 * protocol pass when the server has agreed to it (101), to the connection's first request. */
#pragma once
#include <stdbool.h>

#include "base/str.h"

struct err;
struct transport;

#define GUARD_HELD_MAX (32 * 1024) /* bytes that wait to be understood */

/* HOST is as it was written, with its port. */
typedef bool guard_fn(struct str host, void *arg);

/* INNER is taken on success; EARLY are bytes received of it already. */
struct transport *guard_new(struct transport *inner, struct str early, guard_fn *may_pass, void *arg, struct err *e);

/* The name in a Host of plain HTTP ("a.test", "a.test:80"): as host_name() writes it. False: it is none. */
bool guard_host(struct str host, unsigned port, char *out);
