// SPDX-License-Identifier: Apache-2.0
/* server/model/pool.h - warm pools: sandboxes that are made before anybody asks for them.
 *
 * What waits in a pool is an ordinary sandbox (server/model/sandbox.h) with row.is_idle: it runs, has no expiry, and is nobody's, so
 * no client can see it. Whoever names the pool in a create gets the one that has waited longest, after it has answered /ping and
 * after the commit that makes it theirs. From then on it is as any other and never comes back; it counts in its pool
 * until it is removed. One that has ended or does not answer is replaced.
 *
 * A pool has a template, a document from which the order for its sandboxes is made, and four numbers. When fewer than bufferMin
 * wait, or are being made, more are made until their number is in the middle of bufferMin and bufferMax; also as long as there
 * are fewer than poolMin in all. More than bufferMax never wait for long, and there are never more than poolMax in all. Refilling
 * makes one at a time in each pool, and gives way to the creates of clients.
 *
 * Callbacks come from the loop, never from the functions below, and exactly once; pools_stop() alone calls those that are owed,
 * with 503. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "base/str.h"
#include "server/model/sandbox.h"
#include "server/store/store.h"

struct err;
struct plane;
struct pool;
struct pools;

#define POOLS_MAX 256
#define POOL_REVISION_LEN 16

struct pools_spec {
	struct plane *plane; /* its store is open, its sandboxes follow */
};

struct pools *pools_new(const struct pools_spec *spec, enum store_fault *ret_fault, struct err *e); /* reads the store */
/* After the sandboxes have been compared with the runtime: takes in those that wait, removes those that cannot. */
void pools_recovered(struct pools *p);
void pools_found(struct pools *p, struct sandbox *sb); /* the same of one that is found later */
void pools_stop(struct pools *p); /* before the sandboxes go; NULL is fine */
void pools_free(struct pools *p); /* after them; NULL is fine */
DEFINE_AUTO(struct pools *, pools_free)

/* For sandboxes_spec. */
void pools_gone(struct pools *p, struct sandbox *sb);
void pools_ended(struct pools *p, struct sandbox *sb);

/* ---- reading ---- */

struct pool_view {
	const char *name;
	struct pool_capacity capacity;
	int64_t created_us;
	size_t total, allocated, available;
	const char *revision; /* of the template */
};

struct pool *pools_find(const struct pools *p, struct str name); /* or NULL */
struct pool *pools_next(const struct pools *p, const struct pool *after); /* in the order of their making; NULL: the first */
void pool_show(const struct pool *pool, struct pool_view *ret);
/* What its sandboxes are made by; NULL: F says why none can be made at the moment. */
const struct sandbox_order *pool_order(struct pool *pool, struct fault *f);

/* ---- changes ---- */

typedef void pool_fn(struct pool *pool, const struct fault *f, void *arg); /* POOL is NULL on failure, and when it was deleted */

struct pool_order {
	const char *name;
	struct str template;
	struct pool_capacity capacity;
};

/* 0: FN will be told. -1: F. */
int pools_create(struct pools *p, const struct pool_order *order, pool_fn *fn, void *arg, struct fault *f);
int pool_resize(struct pool *pool, const struct pool_capacity *capacity, pool_fn *fn, void *arg, struct fault *f);
/* Those that wait are removed, those that were handed out live on. */
int pool_delete(struct pool *pool, pool_fn *fn, void *arg, struct fault *f);

/* A sandbox from the pool for whoever ORDER speaks for, or, when none waits, a new one. ORDER has everything that a create's has.
 * Returns as sandboxes_create() does, but for *ret, which is NULL when nobody knows yet which it will be. */
int pool_take(struct pool *pool, const struct sandbox_order *order, sandbox_fn *fn, void *arg, struct sandbox **ret,
	      struct fault *f);

/* A client asks for something that is more urgent than refilling. */
void pools_give_way(struct pools *p);
