// SPDX-License-Identifier: Apache-2.0
/* ingress/lookup.h - a cache of what a provider has found.
 *
 * The place and the token of a sandbox do not change while it lives. So a result is used for LOOKUP_KEEP_MS
 * and refreshed in the background after LOOKUP_FRESH_MS. A negative result is used for LOOKUP_NO_MS only. */
#pragma once
#include "base/own.h"
#include "base/str.h"
#include "ingress/provider.h"

struct err;
struct loop;
struct lookup;
struct lookup_entry;

#define LOOKUP_FRESH_MS 1000
#define LOOKUP_KEEP_MS 30000
#define LOOKUP_NO_MS 250
#define LOOKUP_ENTRIES_MAX 65536
#define LOOKUP_SEARCHES_MAX 512 /* in progress */

/* Somebody who waits; embedded by its owner. */
struct lookup_waiter {
	struct lookup_waiter *prev, *next;
	struct lookup_entry *entry; /* NULL: does not wait */
	finding_fn *fn;
	void *arg;
};

struct lookup_counts {
	uint64_t asked, hits, failed;
	unsigned entries, searches; /* now */
};

struct lookup *lookup_new(struct loop *l, struct provider *p, struct err *e); /* P must outlive it */
void lookup_free(struct lookup *l); /* no callback comes any more; NULL is fine */
DEFINE_AUTO(struct lookup *, lookup_free)

/* 1: *ret, valid until the loop turns. 0: W's FN will be called from the loop, unless it is cancelled. -1: E.
 * ID is id_valid(). */
int lookup_find(struct lookup *l, struct str id, struct lookup_waiter *w, const struct finding **ret,
		struct err *e);
void lookup_cancel(struct lookup_waiter *w); /* fine when it does not wait */
struct lookup_counts lookup_counts(const struct lookup *l);
