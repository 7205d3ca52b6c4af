// SPDX-License-Identifier: Apache-2.0
/* The pool as all threads see it. */
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include "base/err.h"
#include "base/json_out.h"
#include "base/uuid.h"
#include "client/client_impl.h"
#include "client/model.h"
#include "client/pool_copy.h"
#include "client/pool_impl.h"

#include "base/banned.h"

#define SPEC_MAX ((size_t)4 * 1024 * 1024)
#define DAY_S 86400
#define MIN_REMAINING_S 60

/* ---- jobs ---- */

static void wake(const struct osb_pool *p)
{
	const uint64_t one = 1;

	(void)!write(p->wake_fd, &one, sizeof(one)); /* one that is full is awake */
}

void pool_job_finish(struct pool_job *job, const struct osb_error *e)
{
	struct osb_pool *p = job->pool;
	const uint64_t one = 1;
	bool is_ours;

	pthread_mutex_lock(&p->mutex);
	if (e)
		job->error = *e;
	job->is_done = true;
	if (job->notify_fd >= 0)
		(void)!write(job->notify_fd, &one, sizeof(one));
	is_ours = job->is_abandoned;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->mutex);
	if (is_ours)
		free(job);
}

bool pool_post(struct osb_pool *p, struct pool_job *job, struct osb_error *e)
{
	bool has_thread;

	job->pool = p;
	pthread_mutex_lock(&p->mutex);
	has_thread = p->has_thread;
	if (has_thread) {
		*p->last = job;
		p->last = &job->next;
	}
	pthread_mutex_unlock(&p->mutex);
	if (has_thread)
		wake(p);
	else
		error_set(e, OSB_POOL, "POOL_NOT_RUNNING", "the pool has been freed");
	return has_thread;
}

/* The answer, in *job. */
static int pool_job_wait(struct osb_pool *p, struct pool_job *job, struct osb_error *e)
{
	struct osb_error scratch;

	if (!e)
		e = &scratch;
	*e = (struct osb_error){ 0 };
	job->notify_fd = -1;
	if (pthread_equal(pthread_self(), p->thread)) { /* in `prepare`: it would wait for itself */
		error_set(e, OSB_INVALID, NULL, "the pool's own thread cannot wait for the pool");
		return -1;
	}
	if (!pool_post(p, job, e))
		return -1;
	pthread_mutex_lock(&p->mutex);
	while (!job->is_done)
		pthread_cond_wait(&p->changed, &p->mutex);
	pthread_mutex_unlock(&p->mutex);
	*e = job->error;
	return e->kind == OSB_OK ? 0 : -1;
}

void pool_drop(struct osb_pool *p, const char *id)
{
	struct pool_job *job = calloc(1, sizeof(*job));

	if (!job)
		return; /* it ends by its timeout */
	*job = (struct pool_job){ .kind = JOB_DROP, .is_abandoned = true, .notify_fd = -1 };
	(void)snprintf(job->id, sizeof(job->id), "%s", id);
	if (!pool_post(p, job, &(struct osb_error){ 0 }))
		free(job);
}

void pool_store_error(struct osb_error *e, const struct err *why)
{
	*e = (struct osb_error){ 0 };
	error_set(e, OSB_POOL, "POOL_STATE_STORE_UNAVAILABLE", "the pool's state cannot be reached: %s", why->msg);
}

/* ---- options ---- */

static int check(const struct osb_pool_options *o, struct err *e)
{
	if (!o->name || str_trim(str_of(o->name)).n == 0)
		return err_set(e, ERR_INVALID, "the pool's name is missing");
	if (!o->spec || !o->spec->image || !*o->spec->image)
		return err_set(e, ERR_INVALID, "the image is missing");
	if (o->spec->snapshot_id)
		return err_set(e, ERR_INVALID, "a pool of snapshots is not to be had");
	if (o->max_idle > POOL_IDLE_CEILING)
		return err_set(e, ERR_INVALID, "more than %d in a pool", POOL_IDLE_CEILING);
	if (o->idle_timeout_s < 0 || o->idle_timeout_s > INT64_C(1) << 32 || o->min_remaining_s < 0 || o->min_remaining_s > INT64_C(1) << 32)
		return err_set(e, ERR_INVALID, "a time that is none");
	if (o->owner_id && strlen(o->owner_id) > POOL_OWNER_MAX)
		return err_set(e, ERR_INVALID, "an owner's id of more than %d bytes", POOL_OWNER_MAX);
	return 0;
}

static int make_owner(struct osb_pool *p, const char *given, struct err *e)
{
	char id[UUID_LEN + 1];

	if (!given && uuid_text(NULL, id, e) < 0)
		return -1;
	p->owner = given ? arena_dup(&p->arena, str_of(given)) : arena_printf(&p->arena, "pool-owner-%s", id);
	return p->owner ? 0 : err_no_memory(e);
}

static int take_options(struct osb_pool *p, const struct osb_pool_options *o, struct err *e)
{
	if (check(o, e) < 0 || make_owner(p, o->owner_id, e) < 0)
		return -1;
	p->name = arena_dup(&p->arena, str_of(o->name));
	if (!p->name || create_copy(&p->arena, o->spec, &p->spec) < 0)
		return err_set(e, ERR_LIMIT, "the create options exceed %zu bytes, or there is no memory",
			       SPEC_MAX);
	p->first_max_idle = o->max_idle;
	p->warmup = o->warmup_concurrency ? o->warmup_concurrency : MAX((o->max_idle + 4) / 5, 1U);
	p->lock_ttl_ms = o->lock_ttl_ms ? o->lock_ttl_ms : 60000;
	p->reconcile_ms = o->reconcile_ms ? o->reconcile_ms : 30000;
	p->drain_ms = o->drain_ms ? o->drain_ms : 30000;
	p->degraded_after = o->degraded_threshold ? o->degraded_threshold : 3;
	p->idle_timeout_s = o->idle_timeout_s ? o->idle_timeout_s : DAY_S;
	p->min_remaining_ms = 1000 * (o->min_remaining_s ? o->min_remaining_s : MIN((int64_t)MIN_REMAINING_S, p->idle_timeout_s / 2));
	if (p->min_remaining_ms >= 1000 * p->idle_timeout_s)
		return err_set(e, ERR_INVALID, "what one must have left is more than it has at first");
	p->spec.timeout_s = p->idle_timeout_s;
	p->is_shared = o->redis_url;
	p->prepare = o->prepare;
	p->prepare_arg = o->prepare_arg;
	return 0;
}

/* ---- life ---- */

static void pool_destroy(struct osb_pool *p)
{
	if (p->client)
		io_del(&p->wake);
	pool_store_free(p->store);
	osb_client_free(p->client);
	closep(&p->wake_fd);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->mutex);
	arena_done(&p->arena);
	free(p);
}

/* Signals are for the threads of the program. */
static int start_thread(struct osb_pool *p, struct err *e)
{
	sigset_t all, before;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	p->has_thread = true;
	r = pthread_create(&p->thread, NULL, pool_main, p);
	p->has_thread = r == 0;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r == 0 ? 0 : err_sys(e, r, "start a thread");
}

static int pool_open(struct osb_pool *p, const struct osb_pool_options *o, struct osb_error *failure, struct err *e)
{
	struct pool_store_spec store = { .name = o->name, .prefix = o->key_prefix, .redis_url = o->redis_url };

	if (take_options(p, o, e) < 0)
		return -1;
	p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->wake_fd < 0)
		return err_sys(e, errno, "create eventfd");
	p->client = osb_client_new(o->connection, failure);
	if (!p->client)
		return -1;
	p->store = pool_store_new(p->client->loop, &store, e);
	if (!p->store || io_add(&p->wake, p->client->loop, p->wake_fd, IO_IN, pool_on_wake, p, "pool", e) < 0)
		return -1;
	return start_thread(p, e);
}

struct osb_pool *osb_pool_new(const struct osb_pool_options *options, struct osb_error *e)
{
	struct osb_pool *p = calloc(1, sizeof(*p));
	struct osb_error scratch, failure = { 0 };
	struct osb_pool_options o;
	struct err why = { 0 };

	if (!e)
		e = &scratch;
	*e = (struct osb_error){ 0 };
	struct_take(&o, sizeof(o), options, options ? options->size : 0, sizeof(o));
	if (!p) {
		error_set(e, OSB_MEMORY, NULL, "make pool: out of memory");
		return NULL;
	}
	p->arena = ARENA_INIT(SPEC_MAX);
	p->wake_fd = -1;
	p->last = &p->first;
	p->last_kill = &p->kills;
	(void)pthread_mutex_init(&p->mutex, NULL);
	(void)pthread_cond_init(&p->changed, NULL);
	if (pool_open(p, &o, &failure, &why) == 0)
		return p;
	if (failure.kind != OSB_OK)
		*e = failure;
	else
		error_set(e, why.code == ERR_INVALID ? OSB_INVALID : OSB_LOCAL, NULL, "make pool: %s", why.msg);
	pool_destroy(p);
	return NULL;
}

void pool_leave(struct osb_pool *p)
{
	bool is_last;

	pthread_mutex_lock(&p->mutex);
	p->in_flight--;
	is_last = p->is_freed && p->in_flight == 0;
	wake(p); /* while it cannot be freed */
	pthread_mutex_unlock(&p->mutex);
	if (is_last)
		pool_destroy(p);
}

void osb_pool_free(struct osb_pool *p)
{
	struct pool_job job = { .kind = JOB_SHUTDOWN, .number = 1 }; /* for good */
	bool is_last;

	if (!p)
		return;
	(void)pool_job_wait(p, &job, NULL);
	(void)pthread_join(p->thread, NULL);
	pthread_mutex_lock(&p->mutex);
	p->is_freed = true;
	is_last = p->in_flight == 0;
	pthread_mutex_unlock(&p->mutex);
	if (is_last)
		pool_destroy(p);
}

/* ---- what it is asked ---- */

int osb_pool_start(struct osb_pool *p, struct osb_error *e)
{
	return pool_job_wait(p, &(struct pool_job){ .kind = JOB_START }, e);
}

int osb_pool_resize(struct osb_pool *p, unsigned max_idle, struct osb_error *e)
{
	if (max_idle > POOL_IDLE_CEILING) {
		if (e)
			*e = (struct osb_error){ 0 };
		if (e)
			error_set(e, OSB_INVALID, NULL, "resize pool: more than %d", POOL_IDLE_CEILING);
		return -1;
	}
	return pool_job_wait(p, &(struct pool_job){ .kind = JOB_RESIZE, .number = max_idle }, e);
}

int osb_pool_release_all_idle(struct osb_pool *p, struct osb_error *e)
{
	struct pool_job job = { .kind = JOB_RELEASE };

	return pool_job_wait(p, &job, e) < 0 ? -1 : (int)job.number;
}

int osb_pool_shutdown(struct osb_pool *p, bool graceful, struct osb_error *e)
{
	return pool_job_wait(p, &(struct pool_job){ .kind = JOB_SHUTDOWN, .is_graceful = graceful }, e);
}

/* ---- what it looks like ---- */

static void show_snapshot(struct json_out *o, const void *data)
{
	static const char *const states[] = { "NOT_STARTED", "STARTING", "RUNNING", "DRAINING", "STOPPED" };
	static const char *const healths[] = { "HEALTHY", "DEGRADED", "DRAINING", "STOPPED" };
	const struct osb_pool_snapshot *s = data;

	json_open(o, '{');
	json_key(o, "state"), json_cstr(o, healths[s->health]);
	json_key(o, "lifecycle_state"), json_cstr(o, states[s->state]);
	json_key(o, "idle_count"), json_uint(o, s->n_idle);
	json_key(o, "max_idle"), json_uint(o, s->max_idle);
	json_key(o, "failure_count"), json_uint(o, s->failures);
	json_key(o, "last_error"), json_cstr(o, s->last_error);
	json_key(o, "idle"), json_open(o, '[');
	for (size_t i = 0; i < s->n_idle; i++) {
		json_open(o, '{');
		json_key(o, "sandbox_id"), json_cstr(o, s->idle[i].id);
		json_key(o, "expires_ms"), json_int(o, s->idle[i].expires_ms);
		json_close(o, '}');
	}
	json_close(o, ']');
	json_close(o, '}');
}
static const struct model snapshot_of_pool = { .size = sizeof(struct osb_pool_snapshot), .show = show_snapshot };

static enum osb_pool_health health_of(const struct osb_pool *p)
{
	if (p->state == OSB_POOL_NOT_STARTED || p->state == OSB_POOL_STOPPED)
		return OSB_POOL_HEALTH_STOPPED;
	if (p->state == OSB_POOL_DRAINING)
		return OSB_POOL_HEALTH_DRAINING;
	return p->is_degraded ? OSB_POOL_DEGRADED : OSB_POOL_HEALTHY;
}

static bool fill_snapshot(struct osb_pool *p, const struct pool_job *job, struct osb_pool_snapshot *s)
{
	struct arena *a = result_arena(s);
	struct osb_pool_idle *idle = arena_array(a, job->n + 1, sizeof(*idle));
	bool is_good = idle;

	for (size_t i = 0; is_good && i < job->n; i++) {
		idle[i] = (struct osb_pool_idle){ arena_dup(a, str_of(job->entries[i].id)), job->entries[i].expires_ms };
		is_good = idle[i].id;
	}
	s->idle = idle;
	s->n_idle = job->n;
	s->max_idle = (size_t)job->number;
	pthread_mutex_lock(&p->mutex);
	s->state = p->state;
	s->health = health_of(p);
	s->failures = p->failures;
	if (*p->last_error) {
		s->last_error = arena_dup(a, str_of(p->last_error));
		is_good &= s->last_error != NULL;
	}
	pthread_mutex_unlock(&p->mutex);
	return is_good;
}

int osb_pool_snapshot(struct osb_pool *p, struct osb_pool_snapshot **ret, struct osb_error *e)
{
	struct pool_job job = { .kind = JOB_LOOK };
	struct osb_pool_snapshot *s;

	if (pool_job_wait(p, &job, e) < 0)
		return -1;
	s = result_new(&snapshot_of_pool, &(struct err){ 0 });
	if (s && fill_snapshot(p, &job, s)) {
		free(job.entries);
		*ret = s;
		return 0;
	}
	free(job.entries);
	osb_free(s);
	if (e)
		error_set(e, OSB_MEMORY, NULL, "look at pool: out of memory");
	return -1;
}
