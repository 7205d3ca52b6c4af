// SPDX-License-Identifier: Apache-2.0
/* access/renew_intent.h - the message by which a gateway reports, through a queue, that a sandbox was used.
 * Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct buf;
struct err;

#define RENEW_INTENT_MAX (16 * 1024) /* bytes of one */
#define RENEW_INTENT_AGE_S 300       /* an older one is of no use any more */

struct renew_intent {
	struct str id;
	int64_t observed_us;    /* since 1970 */
	unsigned port;          /* 0: absent */
	struct str request_uri; /* empty: absent */
};

/* {"sandbox_id":...,"observed_at":...,"port":...,"request_uri":...} */
bool renew_intent_write(const struct renew_intent *in, struct buf *b);

struct arena;
/* Strings are in A or in TEXT. ERR_INVALID. */
int renew_intent_read(struct str text, struct arena *a, struct renew_intent *ret, struct err *e);
