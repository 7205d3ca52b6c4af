// SPDX-License-Identifier: Apache-2.0
/* ingress/intents.h - reports to servers, through a list in Redis, which sandboxes are used.
 *
 * It never delays a request: reports that cannot be sent are dropped and counted. A sandbox is reported once
 * per interval, which begins when Redis has accepted the report, so that a failed one is repeated with the
 * next request. */
#pragma once
#include <stdint.h>

#include "base/own.h"
#include "base/str.h"

struct err;
struct intents;
struct loop;

#define INTENTS_SANDBOXES_MAX 65536 /* whose last time is remembered */

struct intents_spec {
	struct loop *loop;
	const char *dsn, *queue;
	uint64_t queue_max;   /* entries; 0: no ceiling */
	uint64_t interval_ms; /* 0: each request is reported */
};

struct intents_counts {
	uint64_t sent, failed, dropped;
};

struct intents *intents_new(const struct intents_spec *spec, struct err *e); /* looks a name up: may block */
void intents_free(struct intents *n); /* NULL is fine */
DEFINE_AUTO(struct intents *, intents_free)

/* URI: the request's; empty: absent. N may be NULL: nothing is reported. */
void intents_note(struct intents *n, struct str id, unsigned port, struct str uri);
struct intents_counts intents_counts(const struct intents *n); /* all 0 for NULL */
