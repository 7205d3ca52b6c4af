// SPDX-License-Identifier: Apache-2.0
/* client/pool_impl.h - shared by the files of the pool: pool.c has the functions for all threads,
 * pool_acquire.c the acquire operation, pool_thread.c the pool's thread and its jobs, pool_fill.c the
 * periodic work of that thread.
 *
 * Everything under "the thread's" is used by the pool's thread only: its client, its store, creates and
 * kills. Other threads put jobs into its queue. The mutex guards the queue, the jobs' answers and the data
 * that all threads may read. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "client/opensandbox.h"
#include "client/pool_store.h"
#include "net/loop.h"

#define POOL_IDLE_CEILING 10000
#define POOL_KILLS_AT_ONCE 8
#define POOL_STOP_MS 10000 /* for what is under way when it stops */
#define POOL_BACKOFF_MS UINT64_C(30000)
#define POOL_BACKOFF_MAX_MS (UINT64_C(24) * 3600 * 1000)

enum pool_job_kind { JOB_START, JOB_TAKE, JOB_DROP, JOB_RESIZE, JOB_RELEASE, JOB_LOOK, JOB_SHUTDOWN };

struct pool_job {
	struct osb_pool *pool;
	struct pool_job *next;
	enum pool_job_kind kind;
	int64_t number;           /* of RESIZE; in the end the answer */
	bool is_graceful;         /* of SHUTDOWN */
	char id[POOL_ID_MAX + 1]; /* of DROP; of TAKE the answer */
	struct pool_entry *entries; /* of LOOK, to be freed */
	size_t n;
	struct osb_error error;
	unsigned n_kills;  /* of RELEASE: the thread's */
	bool is_done;
	bool is_abandoned; /* its owner is gone: the thread frees it */
	int notify_fd;     /* an eventfd for the answer, or -1 */
};

struct pool_kill {
	struct pool_kill *next;
	struct osb_pool *pool;
	struct pool_job *job; /* that counts it, or NULL */
	struct osb_call *call;
	char id[POOL_ID_MAX + 1];
};

struct osb_pool {
	/* never changed after osb_pool_new() */
	struct arena arena;
	struct osb_create spec;
	const char *name, *owner;
	unsigned warmup, lock_ttl_ms, reconcile_ms, drain_ms, degraded_after;
	int64_t first_max_idle, idle_timeout_s, min_remaining_ms;
	osb_prepare_fn *prepare;
	void *prepare_arg;
	bool is_shared; /* its state is Redis's */
	int wake_fd;
	pthread_t thread;

	/* guarded */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct pool_job *first, **last;
	enum osb_pool_state state;
	bool is_degraded, has_thread, is_freed;
	unsigned in_flight; /* acquires */
	size_t failures;
	char last_error[256]; /* "": none */

	/* the thread's */
	struct osb_client *client;
	struct pool_store *store;
	struct io wake;
	bool stops, ends;
	uint64_t next_fill_ms, backoff_until_ms;
	unsigned backoffs;
	struct pool_job *shutdown; /* those that wait for its end */
	struct pool_kill *kills, **last_kill; /* that wait */
	unsigned n_killing;
};

/* pool.c */
void pool_leave(struct osb_pool *p); /* an acquire is over: the last one may have to free it */
bool pool_post(struct osb_pool *p, struct pool_job *job, struct osb_error *e); /* false: there is no thread */
void pool_job_finish(struct pool_job *job, const struct osb_error *e); /* E NULL: well. By the thread */
void pool_drop(struct osb_pool *p, const char *id);                    /* out of the store, and killed */
void pool_store_error(struct osb_error *e, const struct err *why);

/* pool_thread.c */
void *pool_main(void *pool);
void pool_on_wake(unsigned ready, void *pool); /* there are jobs */
void pool_turn(struct osb_pool *p, int wait_ms);
void pool_kill(struct osb_pool *p, const char *id, struct pool_job *job);
/* waits; no entries */
int pool_ask(struct osb_pool *p, const struct pool_order *o, struct pool_answer *ret, struct err *e);

/* pool_fill.c: one round, if it is this pool's turn. */
void pool_fill(struct osb_pool *p);
