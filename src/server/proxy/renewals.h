// SPDX-License-Identifier: Apache-2.0
/* server/proxy/renewals.h - extends lifetimes by reports of gateways, from a queue in Redis.
 *
 * A report has the effect of a request through our own proxy: only if the sandbox was created with renewal,
 * and at most once per interval. While Redis is down, only these reports are lost; the connection is retried
 * every second. */
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
