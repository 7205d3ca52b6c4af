// SPDX-License-Identifier: Apache-2.0
/* client/pool_store.h - state that the members of a pool share: idle sandboxes, their target number, and the
 * current filler.
 *
 * Two kinds: the memory of one pool, and Redis, where pools of other processes and languages use the same
 * keys:
 *
 *     <prefix>:{<base64url of the name>}:idle:list      a list of ids, the oldest first
 *                                       :idle:expires   a hash: id -> milliseconds since 1970
 *                                       :lock           the owner that fills it, with an expiry
 *                                       :maxIdle        a number
 *                                       :idleTtlMillis  of a sandbox that is put there
 *
 * Each operation is one atomic step. Times are those of the store. Used by one thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/str.h"

struct err;
struct loop;
struct pool_store;

#define POOL_NAME_MAX 255
#define POOL_PREFIX_MAX 255
#define POOL_OWNER_MAX 127
#define POOL_ID_MAX 127   /* of a sandbox; others are dropped */
#define POOL_LIST_MAX 1000 /* ids in one answer */
#define POOL_STORE_MS 5000 /* for Redis to answer */

enum pool_order_kind {
	POOL_SETUP,   /* number: how many; ttl_ms: of those that are put there */
	POOL_RESIZE,  /* number */
	POOL_TAKE,    /* ttl_ms: what one must have left -> id, or "" */
	POOL_PUT,     /* id */
	POOL_REMOVE,  /* id */
	/* owner, ttl_ms: becomes or stays the one who fills it -> number: 1, or 0: another one is */
	POOL_LOCK,
	POOL_UNLOCK,  /* owner */
	POOL_REAP,    /* ttl_ms: drops those who have less left */
	POOL_LOOK,    /* -> number: how many there should be, -1: not said; count; entries */
};

struct pool_order {
	enum pool_order_kind kind;
	int64_t number, ttl_ms;
	const char *id, *owner;
};

struct pool_entry {
	char id[POOL_ID_MAX + 1];
	int64_t expires_ms;
};

struct pool_answer {
	int64_t number, count;
	char id[POOL_ID_MAX + 1];
	/* of LOOK: who waits; of TAKE and REAP: who was dropped and lives. POOL_LIST_MAX at most */
	const struct pool_entry *entries;
	size_t n;
};

/* One of them; the answer is valid during the call. */
typedef void pool_answer_fn(const struct pool_answer *a, const struct err *e, void *arg);

struct pool_store_spec {
	const char *name;
	const char *prefix;    /* NULL: opensandbox:pool */
	const char *redis_url; /* NULL: memory */
};

/* How the two kinds are told apart: pool_store.c has the memory, pool_store_redis.c the other. */
struct pool_store_ops {
	void (*order)(struct pool_store *s, const struct pool_order *o, pool_answer_fn *fn, void *arg);
	void (*free)(struct pool_store *s);
};
struct pool_store {
	const struct pool_store_ops *ops;
};
struct pool_store *pool_store_redis(struct loop *l, const struct pool_store_spec *spec, struct err *e);

/* may look a name up, and wait for that */
struct pool_store *pool_store_new(struct loop *l, const struct pool_store_spec *spec, struct err *e);
void pool_store_free(struct pool_store *s); /* no callback comes any more; NULL is fine */
DEFINE_AUTO(struct pool_store *, pool_store_free)

/* FN is called exactly once: at once by memory, and if it could not be sent, else from the loop. */
void pool_store_order(struct pool_store *s, const struct pool_order *o, pool_answer_fn *fn, void *arg);

/* ---- of Redis, pure ---- */

/* The key of SUFFIX ("lock"). ERR_INVALID: a name or a prefix that is none. */
int pool_key(struct buf *out, const char *prefix, const char *name, const char *suffix, struct err *e);
/* What the scripts answer: "number count id" ("-": none), then lines of "id expires". -1: it is something
 * else. */
int pool_text_parse(struct str text, struct pool_answer *ret, struct pool_entry entries[POOL_LIST_MAX]);
