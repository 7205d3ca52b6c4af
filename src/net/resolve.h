// SPDX-License-Identifier: Apache-2.0
/* net/resolve.h - the address of a name, looked up while everybody waits: for what is done at the start. */
#pragma once
struct addr;
struct err;

/* HOST may be an address, too. The first that there is. */
int resolve_host(const char *host, unsigned port, struct addr *ret, struct err *e);
