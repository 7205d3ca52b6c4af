// SPDX-License-Identifier: Apache-2.0
/* The pool's thread: it does the jobs that others give it while it waits for whatever it waits for. */
#include <stdio.h>
#include <sys/eventfd.h>

#include "base/err.h"
#include "client/client_impl.h"
#include "client/pool_impl.h"

#include "base/banned.h"

#define TURN_AGAIN_US 50000

static void set_state(struct osb_pool *p, enum osb_pool_state state)
{
	pthread_mutex_lock(&p->mutex);
	p->state = state;
	pthread_mutex_unlock(&p->mutex);
}

static bool pool_is_running(struct osb_pool *p)
{
	bool is_running;

	pthread_mutex_lock(&p->mutex);
	is_running = p->state == OSB_POOL_RUNNING;
	pthread_mutex_unlock(&p->mutex);
	return is_running && !p->stops;
}

static void finish_store(struct pool_job *job, const struct err *why)
{
	struct osb_error e;

	if (why)
		pool_store_error(&e, why);
	pool_job_finish(job, why ? &e : NULL);
}

/* ---- killing ---- */

static void kill_next(struct osb_pool *p);

static void count_kill(struct pool_job *job)
{
	if (job && --job->n_kills == 0)
		pool_job_finish(job, NULL);
}

/* What could not be killed ends by its timeout. */
static void on_killed(struct osb_call *call, void *arg)
{
	struct pool_kill *k = arg;
	struct osb_pool *p = k->pool;

	osb_call_free(call);
	count_kill(k->job);
	free(k);
	p->n_killing--;
	kill_next(p);
}

static void kill_next(struct osb_pool *p)
{
	while (p->kills && p->n_killing < POOL_KILLS_AT_ONCE) {
		struct pool_kill *k = p->kills;

		p->kills = k->next;
		if (!p->kills)
			p->last_kill = &p->kills;
		k->call = osb_call_new(p->client);
		if (k->call)
			osb_call_on_done(k->call, on_killed, k);
		p->n_killing++;
		if (k->call && osb_sandbox_kill(p->client, k->id, k->call) == 0)
			continue;
		p->n_killing--; /* no memory, or the client closes: nobody calls back */
		osb_call_free(k->call);
		count_kill(k->job);
		free(k);
	}
}

void pool_kill(struct osb_pool *p, const char *id, struct pool_job *job)
{
	struct pool_kill *k = calloc(1, sizeof(*k));

	if (!k) {
		count_kill(job);
		return;
	}
	k->pool = p;
	k->job = job;
	(void)snprintf(k->id, sizeof(k->id), "%s", id);
	*p->last_kill = k;
	p->last_kill = &k->next;
	kill_next(p);
}

static void kill_dropped(struct osb_pool *p, const struct pool_answer *a)
{
	for (size_t i = 0; i < a->n; i++)
		pool_kill(p, a->entries[i].id, NULL);
}

/* ---- jobs ---- */

static void on_simple(const struct pool_answer *a, const struct err *e, void *arg)
{
	(void)a;
	finish_store(arg, e);
}

static void on_setup(const struct pool_answer *a, const struct err *e, void *arg)
{
	struct pool_job *job = arg;
	struct osb_pool *p = job->pool;

	(void)a;
	p->next_fill_ms = loop_now_ms(p->client->loop) + (p->first_max_idle > 0 ? 0 : p->reconcile_ms);
	set_state(p, e ? OSB_POOL_STOPPED : OSB_POOL_RUNNING);
	finish_store(job, e);
}

static void start(struct osb_pool *p, struct pool_job *job)
{
	const struct pool_order o = { .kind = POOL_SETUP, .number = p->first_max_idle, .ttl_ms = 1000 * p->idle_timeout_s };
	struct osb_error e = { 0 };

	if (p->stops) {
		error_set(&e, OSB_POOL, "POOL_NOT_RUNNING", "the pool is being shut down");
		pool_job_finish(job, &e);
		return;
	}
	if (p->state == OSB_POOL_RUNNING || p->state == OSB_POOL_STARTING) { /* nobody else writes it */
		pool_job_finish(job, NULL);
		return;
	}
	set_state(p, OSB_POOL_STARTING);
	pool_store_order(p->store, &o, on_setup, job);
}

static void on_taken(const struct pool_answer *a, const struct err *e, void *arg)
{
	struct pool_job *job = arg;
	struct osb_pool *p = job->pool;
	bool is_unwanted;

	if (a) {
		kill_dropped(p, a);
		pthread_mutex_lock(&p->mutex);
		is_unwanted = job->is_abandoned;
		memcpy(job->id, a->id, sizeof(job->id));
		pthread_mutex_unlock(&p->mutex);
		if (is_unwanted && *a->id)
			pool_kill(p, a->id, NULL);
	}
	finish_store(job, e);
}

static void on_removed(const struct pool_answer *a, const struct err *e, void *arg)
{
	struct pool_job *job = arg;

	(void)a;
	pool_kill(job->pool, job->id, NULL); /* whatever the store says of it */
	finish_store(job, e);
}

/* One after the other, until there is none; each is killed meanwhile. */
static void on_released(const struct pool_answer *a, const struct err *e, void *arg)
{
	struct pool_job *job = arg;
	struct osb_pool *p = job->pool;

	if (a && (*a->id || a->n > 0)) {
		kill_dropped(p, a);
		if (*a->id) {
			job->number++;
			job->n_kills++;
			pool_kill(p, a->id, job);
		}
		pool_store_order(p->store, &(struct pool_order){ .kind = POOL_TAKE }, on_released, job);
		return;
	}
	if (e)
		pool_store_error(&job->error, e);
	count_kill(job); /* the one that stood for this */
}

static void on_looked(const struct pool_answer *a, const struct err *e, void *arg)
{
	struct pool_job *job = arg;
	struct pool_entry *copy = a ? reallocarray(NULL, a->n + 1, sizeof(*copy)) : NULL;
	struct err why = { 0 };

	if (a && copy) {
		if (a->n > 0)
			memcpy(copy, a->entries, a->n * sizeof(*copy));
		job->entries = copy;
		job->n = a->n;
		job->number = a->number >= 0 ? a->number : job->pool->first_max_idle;
	} else if (a) {
		(void)err_no_memory(&why);
	}
	finish_store(job, a && !copy ? &why : e);
}

/* What is under way is given up; the rest is pool_main()'s. */
static void shut_down(struct osb_pool *p, struct pool_job *job)
{
	job->next = p->shutdown;
	p->shutdown = job;
	p->stops = true;
	p->ends |= job->number == 1;
	if (p->state != OSB_POOL_STOPPED)
		set_state(p, OSB_POOL_DRAINING);
}

static void job_begin(struct osb_pool *p, struct pool_job *job)
{
	switch (job->kind) {
	case JOB_START:
		start(p, job);
		break;
	case JOB_TAKE:
		pool_store_order(p->store, &(struct pool_order){ .kind = POOL_TAKE, .ttl_ms = p->min_remaining_ms }, on_taken, job);
		break;
	case JOB_DROP:
		pool_store_order(p->store, &(struct pool_order){ .kind = POOL_REMOVE, .id = job->id }, on_removed, job);
		break;
	case JOB_RESIZE:
		pool_store_order(p->store, &(struct pool_order){ .kind = POOL_RESIZE, .number = job->number }, on_simple, job);
		break;
	case JOB_RELEASE:
		job->n_kills = 1;
		pool_store_order(p->store, &(struct pool_order){ .kind = POOL_TAKE }, on_released, job);
		break;
	case JOB_LOOK:
		pool_store_order(p->store, &(struct pool_order){ .kind = POOL_LOOK }, on_looked, job);
		break;
	case JOB_SHUTDOWN:
		shut_down(p, job);
		break;
	}
}

static struct pool_job *take_queue(struct osb_pool *p, bool goes_on)
{
	struct pool_job *first;

	pthread_mutex_lock(&p->mutex);
	first = p->first;
	p->first = NULL;
	p->last = &p->first;
	p->has_thread = goes_on;
	pthread_mutex_unlock(&p->mutex);
	return first;
}

void pool_on_wake(unsigned ready, void *arg)
{
	struct osb_pool *p = arg;
	struct pool_job *job, *next;
	eventfd_t count;

	(void)ready;
	(void)eventfd_read(p->wake_fd, &count);
	for (job = take_queue(p, true); job; job = next) {
		next = job->next;
		job->next = NULL;
		job_begin(p, job);
	}
}

/* ---- waiting ---- */

/* Whatever is wrong with a loop, what waits for it cannot be taken back: it goes on, but not in circles. */
void pool_turn(struct osb_pool *p, int wait_ms)
{
	struct err e = { 0 };

	if (client_turn(p->client, wait_ms, &e) < 0)
		(void)usleep(TURN_AGAIN_US);
}

struct waited {
	struct pool_answer answer;
	struct err e;
	bool is_done, failed;
};

static void on_waited(const struct pool_answer *a, const struct err *e, void *arg)
{
	struct waited *w = arg;

	w->is_done = true;
	w->failed = !a;
	if (a)
		w->answer = *a;
	else
		w->e = *e;
	w->answer.entries = NULL;
	w->answer.n = 0;
}

int pool_ask(struct osb_pool *p, const struct pool_order *o, struct pool_answer *ret, struct err *e)
{
	struct waited w = { 0 };

	pool_store_order(p->store, o, on_waited, &w);
	while (!w.is_done)
		pool_turn(p, -1);
	if (w.failed)
		*e = w.e;
	else if (ret)
		*ret = w.answer;
	return w.failed ? -1 : 0;
}

/* ---- the end ---- */

static bool has_acquires(struct osb_pool *p)
{
	bool has;

	pthread_mutex_lock(&p->mutex);
	has = p->in_flight > 0;
	pthread_mutex_unlock(&p->mutex);
	return has;
}

static void turn_until(struct osb_pool *p, uint64_t until_ms, bool (*goes_on)(struct osb_pool *p))
{
	while (goes_on(p) && loop_now_ms(p->client->loop) < until_ms)
		pool_turn(p, (int)MIN(until_ms - loop_now_ms(p->client->loop), UINT64_C(1000)));
}

static bool has_kills(struct osb_pool *p)
{
	return p->n_killing > 0 || p->kills;
}

/* When nobody is left who knows of them. */
static void kill_idle(struct osb_pool *p)
{
	struct pool_answer a;
	struct err e = { 0 };

	while (pool_ask(p, &(struct pool_order){ .kind = POOL_TAKE }, &a, &e) == 0 && *a.id)
		pool_kill(p, a.id, NULL);
}

static void stop(struct osb_pool *p)
{
	const struct pool_order unlock = { .kind = POOL_UNLOCK, .owner = p->owner };
	struct err e = { 0 };
	bool is_graceful = false;

	for (const struct pool_job *job = p->shutdown; job; job = job->next)
		is_graceful |= job->is_graceful;
	if (is_graceful)
		turn_until(p, loop_now_ms(p->client->loop) + p->drain_ms, has_acquires);
	(void)pool_ask(p, &unlock, NULL, &e); /* else it ends by itself */
	if (p->ends && !p->is_shared)
		kill_idle(p);
	turn_until(p, loop_now_ms(p->client->loop) + POOL_STOP_MS, has_kills);
	set_state(p, OSB_POOL_STOPPED);
	p->stops = false;
	while (p->shutdown) {
		struct pool_job *job = p->shutdown;

		p->shutdown = job->next;
		pool_job_finish(job, NULL);
	}
}

/* Those that came too late. */
static void refuse_rest(struct osb_pool *p)
{
	struct osb_error gone = { 0 };
	struct pool_job *job, *next;

	error_set(&gone, OSB_POOL, "POOL_NOT_RUNNING", "the pool has been freed");
	for (job = take_queue(p, false); job; job = next) {
		next = job->next;
		pool_job_finish(job, &gone);
	}
}

void *pool_main(void *arg)
{
	struct osb_pool *p = arg;

	while (!p->ends || p->stops) {
		bool is_running = pool_is_running(p);
		uint64_t now;

		loop_look_at_clock(p->client->loop);
		now = loop_now_ms(p->client->loop);
		if (p->stops) {
			stop(p);
		} else if (is_running && now >= p->next_fill_ms) {
			pool_fill(p);
			loop_look_at_clock(p->client->loop);
			p->next_fill_ms = loop_now_ms(p->client->loop) + p->reconcile_ms;
		} else {
			pool_turn(p, is_running ? (int)MIN(p->next_fill_ms - now, (uint64_t)INT32_MAX) : -1);
		}
	}
	io_del(&p->wake);
	refuse_rest(p);
	return NULL;
}
