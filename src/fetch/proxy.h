// SPDX-License-Identifier: Apache-2.0
/* fetch/proxy.h - which requests use the operator's proxy, and what then remains of I4.
 *
 * A proxy resolves names itself, so addresses of W4 can be refused only where they are written out in a URL.
 * The proxy's operator is responsible for the rest. The proxy's own address is not checked. */
#pragma once
#include <stdbool.h>

struct err;
struct order;
struct registry_rule;
struct target;

/* Whether T is asked by the order's proxy: there is one, and no entry of noProxy means the host. */
bool proxy_is_for(const struct order *o, const struct target *t);

/* ERR_DENIED: T names an address, or "localhost", that is not to be connected to. RULE is the registry's, or
 * NULL. */
int proxy_check(const struct order *o, const struct target *t, const struct registry_rule *rule,
		struct err *e);

/* An entry of noProxy: a host, ".domain" or "*.domain" for all below it, or "*". */
bool proxy_entry_has(const char *entry, const char *host);
