// SPDX-License-Identifier: Apache-2.0
/* egress/resolv.h - the upstream resolvers, from options and from resolv.conf. */
#pragma once
#include <stddef.h>

#include "base/str.h"
#include "net/addr.h"

struct err;

#define RESOLV_CONF "/etc/resolv.conf"
#define RESOLV_CONF_MAX ((size_t)64 * 1024)

/* "192.0.2.53", "192.0.2.53:5353", "2001:db8::53", "[2001:db8::53]", "[2001:db8::53]:53"; port 53 when there
 * is none. ERR_INVALID. */
int resolv_address(struct str text, struct addr *ret, struct err *e);
/* Those of a resolv.conf, each once, in their order, the loopback's last: they may be nobody's. How many. */
size_t resolv_parse(struct str text, struct addr *out, size_t max);
int resolv_read(struct addr *out, size_t max, size_t *ret_n, struct err *e); /* RESOLV_CONF as it is now */
/* Adds A unless it is there or OUT is full. */
void resolv_add(struct addr *out, size_t *n, size_t max, const struct addr *a);
