// SPDX-License-Identifier: Apache-2.0
/* server/proxy/renewals.h - takes renewals that gateways have seen from a queue in Redis, and extends lives by them.
 *
 * What is there extends a life as a request through our own proxy does: only if the sandbox was made so, and not more often
 * than its interval, whatever the gateway does. Without Redis nothing is lost but these: it is tried again every second. */
#pragma once
#include "base/own.h"

struct config_renew_intent;
struct err;
struct plane;
struct renewals;

/* NULL: E, a DSN that cannot be read. */
struct renewals *renewals_new(struct plane *p, const struct config_renew_intent *config, struct err *e);
void renewals_free(struct renewals *r); /* before the plane; NULL is fine */
DEFINE_AUTO(struct renewals *, renewals_free)
