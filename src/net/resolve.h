// SPDX-License-Identifier: Apache-2.0
/* net/resolve.h - a blocking lookup of a host name, for use at start only. */
#pragma once
struct addr;
struct err;

/* HOST may be an address, too. The first that there is. */
int resolve_host(const char *host, unsigned port, struct addr *ret, struct err *e);
