// SPDX-License-Identifier: Apache-2.0
/* server/model/pool_impl.h - what the pool*.c files share. Nothing else includes it. */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/kill_point.h"
#include "base/list.h"
#include "base/random.h"
#include "base/uuid.h"
#include "net/loop.h"
#include "server/model/plane.h"
#include "server/model/pool.h"

#define POOL_ARENA_MAX ((size_t)8 * 1024 * 1024)

enum member_state {
	MEMBER_MAKING,   /* for the pool */
	MEMBER_IDLE,     /* may be handed out */
	MEMBER_RESERVED, /* somebody is about to get it */
	MEMBER_TAKEN,    /* somebody's */
	MEMBER_LEAVING,  /* was never anybody's, and is being removed */
	MEMBER_STATES,
};

struct member { /* a sandbox in its pool */
	struct list_node at; /* those that are idle, the one that waits longest first; or all others */
	struct pool *pool;
	struct sandbox *sb;
	enum member_state state;
	struct http_fetch *ping; /* or NULL */
	bool is_late;            /* of one that is being made: we were told that its image takes long, and will be told no more */
	uint64_t made_ms;        /* 0: before this server started */
	uint64_t pinged_ms;      /* when it was last asked */
	struct take *take;       /* of one that is reserved */
};

struct pool {
	struct list_node at;
	struct pools *set;
	char id[UUID_LEN + 1];
	char *name;
	char *template;
	size_t template_n;
	struct pool_capacity capacity;
	int64_t created_us;
	char revision[POOL_REVISION_LEN + 1];
	bool is_pending; /* not committed yet: the name is taken, and that is all */
	bool is_deleted; /* out of the set; it goes with its last member and the last who takes */
	struct arena arena; /* of the order */
	struct sandbox_order order;
	bool has_order;
	struct list idle, others;
	size_t count[MEMBER_STATES];
	size_t n_takes;
	bool is_filling;
	uint64_t not_before_ms; /* nothing is made before: it failed */
	unsigned retry_ms;      /* after the last making that failed; 0: it did not */
	unsigned young_ms;      /* after the last that was made and did not live; 0: it did */
};

/* A change that waits for its commit. */
struct pool_change {
	struct list_node at;
	struct pools *set;
	char id[UUID_LEN + 1];
	struct pool_capacity capacity;
	pool_fn *fn;
	void *arg;
};

struct pools {
	struct pools_spec spec;
	struct loop *loop;
	struct store *store;
	struct list pools;
	struct list changes;
	struct list takes;
	struct random_pool random;
	struct timer tick, check;
	size_t n_making;
	uint64_t asked_ms;   /* when a client last asked for a sandbox */
	uint64_t waiting_ms; /* since when refilling gives way; 0: it does not */
	bool is_stopping;
};

static inline struct sandboxes *sandboxes_of(const struct pools *p)
{
	return p->spec.plane->sandboxes;
}

static inline const char *code_prefix(const struct pools *p)
{
	return p->spec.plane->spec.runtime->code_prefix;
}

static inline size_t pool_total(const struct pool *pool)
{
	size_t n = 0;

	for (unsigned i = 0; i < MEMBER_STATES; i++)
		n += pool->count[i];
	return n;
}

/* pool.c */
struct pool *pools_find_id(const struct pools *p, const char *id); /* NULL: there is none, or it was deleted */
void pool_unref(struct pool *pool); /* frees it if it is deleted and nobody has to do with it any more */

/* pool_member.c */
struct member *member_new(struct pool *pool, struct sandbox *sb, enum member_state state); /* NULL: no memory */
void member_free(struct member *m);
void member_set(struct member *m, enum member_state state);
void member_remove(struct member *m);
int member_ping(struct member *m, struct err *e); /* what comes of it goes to its take, if there is one */
void pools_check(void *arg); /* asks those that wait whether they are well */

/* pool_refill.c */
void pools_tick(void *arg);
void pools_poke(struct pools *p);
void pool_died_young(struct pool *pool); /* nothing is made for a while, and for longer each time */
void pool_drain(struct pool *pool);

/* pool_take.c */
void take_pinged(struct take *t, bool is_known, bool is_well); /* its member answered, or not */
void take_bereaved(struct take *t);                            /* its member is gone */
void takes_stop(struct pools *p);
