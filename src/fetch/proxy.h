// SPDX-License-Identifier: Apache-2.0
/* fetch/proxy.h - which requests go by the operator's proxy, and what of I4 is left then.
 *
 * A proxy resolves names itself: the addresses that W4 names cannot be kept out here any more, but for those that are written
 * out in a URL. What a proxy leads to is up to its operator. The proxy's own address is the operator's word, and not judged. */
#pragma once
#include <stdbool.h>

struct err;
struct order;
struct registry_rule;
struct target;

/* Whether T is asked by the order's proxy: there is one, and no entry of noProxy means the host. */
bool proxy_is_for(const struct order *o, const struct target *t);

/* ERR_DENIED: T names an address, or "localhost", that is not to be connected to. RULE is the registry's, or NULL. */
int proxy_check(const struct order *o, const struct target *t, const struct registry_rule *rule, struct err *e);

/* An entry of noProxy: a host, ".domain" or "*.domain" for all below it, or "*". */
bool proxy_entry_has(const char *entry, const char *host);
