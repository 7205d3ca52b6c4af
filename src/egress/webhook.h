// SPDX-License-Identifier: Apache-2.0
/* egress/webhook.h - reports denied names to a receiver of the operator, one POST for each, independently of
 * all decisions.
 *
 * When the queue is full, further reports are dropped and counted. Its own traffic is not subject to
 * policies. */
#pragma once
#include "base/own.h"

struct egress;
struct err;
struct webhook;

#define WEBHOOK_QUEUE_MAX 256
#define WEBHOOK_TIMEOUT_MS 5000 /* of one delivery, all of it */
#define WEBHOOK_RETRIES 3 /* after a failure to reach it, or a 5xx: 1, 2 and 4 s later */

struct webhook *webhook_new(struct egress *g, const char *url, struct err *e);
void webhook_free(struct webhook *w); /* NULL is fine */
void webhook_denied(struct webhook *w, const char *sandbox_id, const char *name);
