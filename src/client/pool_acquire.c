// SPDX-License-Identifier: Apache-2.0
/* Taking a sandbox out of a pool: an operation of the caller's client that asks the pool's thread for an id, connects to that
 * one, and makes a new one by itself if there is none. */
#include <stdio.h>
#include <sys/eventfd.h>

#include "base/err.h"
#include "client/client_impl.h"
#include "client/op.h"
#include "client/pool_impl.h"

#include "base/banned.h"

struct acquire {
	struct osb_pool *pool; /* NULL: not counted */
	struct pool_job *job;  /* the pool's answer is waited for */
	int fd;                /* that tells of it */
	struct io io;
	struct osb_call *call; /* of what is under way here */
	struct osb_sandbox *sandbox;
	char id[POOL_ID_MAX + 1]; /* was taken, or made, and is nobody's yet */
	bool is_new;
	enum osb_pool_policy policy;
	int64_t timeout_s;
};

/* ---- the end ---- */

/* An answer that nobody has seen yet goes back to the pool, to be dropped. */
static void leave_job(struct acquire *a)
{
	struct osb_pool *p = a->pool;
	struct pool_job *job = take_ptr(&a->job);
	bool is_done;

	if (!job)
		return;
	pthread_mutex_lock(&p->mutex);
	is_done = job->is_done;
	job->is_abandoned = true;
	job->notify_fd = -1;
	pthread_mutex_unlock(&p->mutex);
	if (!is_done)
		return;
	if (*job->id)
		pool_drop(p, job->id);
	free(job);
}

static void on_end(struct op *op)
{
	struct acquire *a = op->state;

	leave_job(a);
	io_del(&a->io);
	closep(&a->fd);
	a->fd = -1;
	osb_call_free(take_ptr(&a->call));
	osb_sandbox_free(take_ptr(&a->sandbox));
	if (a->pool && *a->id)
		pool_drop(a->pool, a->id);
	if (a->pool)
		pool_leave(take_ptr(&a->pool));
}

static void free_sandbox(void *s)
{
	osb_sandbox_free(s);
}

static void succeed(struct op *op)
{
	struct acquire *a = op->state;

	a->id[0] = '\0';
	op_result(op, take_ptr(&a->sandbox), free_sandbox);
	op_done(op);
}

/* ---- the steps ---- */

static void on_renewed(struct osb_call *call, void *arg);

static void set_timeout(struct op *op)
{
	struct acquire *a = op->state;

	if (a->timeout_s <= 0) {
		succeed(op);
		return;
	}
	osb_call_on_done(a->call, on_renewed, op);
	(void)osb_sandbox_renew(op->client, a->id, a->timeout_s, NULL, a->call);
}

static void on_created(struct osb_call *call, void *arg)
{
	struct op *op = arg;
	struct acquire *a = op->state;

	if (!a->sandbox) {
		op_fail_as(op, osb_call_error(call));
		return;
	}
	(void)snprintf(a->id, sizeof(a->id), "%s", osb_sandbox_id(a->sandbox));
	set_timeout(op);
}

/* None waits, or it is none: WHY. */
static void make_one(struct op *op, const char *code, const char *why)
{
	struct acquire *a = op->state;

	if (a->policy == OSB_POOL_FAIL_FAST) {
		op_fail(op, OSB_POOL, code, "%s", why);
		return;
	}
	a->is_new = true;
	osb_call_on_done(a->call, on_created, op);
	(void)osb_sandbox_create(op->client, &a->pool->spec, &a->sandbox, a->call);
}

static void give_up_idle(struct op *op, const struct osb_error *e)
{
	struct acquire *a = op->state;
	char why[sizeof(e->message)];

	(void)snprintf(why, sizeof(why), "one that waited does not answer: %.400s", e->message);
	osb_sandbox_free(take_ptr(&a->sandbox));
	pool_drop(a->pool, a->id);
	a->id[0] = '\0';
	make_one(op, "POOL_ACQUIRE_FAILED", why);
}

static void on_renewed(struct osb_call *call, void *arg)
{
	struct op *op = arg;
	const struct acquire *a = op->state;
	const struct osb_error *e = osb_call_error(call);

	if (e->kind == OSB_OK)
		succeed(op);
	else if (a->is_new)
		op_fail_as(op, e);
	else
		give_up_idle(op, e);
}

static void on_connected(struct osb_call *call, void *arg)
{
	struct op *op = arg;
	const struct acquire *a = op->state;

	if (a->sandbox)
		set_timeout(op);
	else
		give_up_idle(op, osb_call_error(call));
}

static void on_taken(unsigned ready, void *arg)
{
	struct op *op = arg;
	struct acquire *a = op->state;
	struct pool_job *job = a->job;
	bool is_done;

	(void)ready;
	pthread_mutex_lock(&a->pool->mutex);
	is_done = job->is_done;
	pthread_mutex_unlock(&a->pool->mutex);
	if (!is_done)
		return;
	a->job = NULL;
	io_del(&a->io);
	memcpy(a->id, job->id, sizeof(a->id));
	if (job->error.kind != OSB_OK) {
		op_fail_as(op, &job->error);
	} else if (!*a->id) {
		make_one(op, "POOL_EMPTY", "the pool is empty");
	} else {
		osb_call_on_done(a->call, on_connected, op);
		(void)osb_sandbox_connect(op->client, a->id, NULL, &a->sandbox, a->call);
	}
	free(job);
}

/* ---- the beginning ---- */

static bool join(struct op *op, struct acquire *a, struct osb_pool *p)
{
	bool is_running;

	pthread_mutex_lock(&p->mutex);
	is_running = p->state == OSB_POOL_RUNNING;
	p->in_flight += is_running;
	pthread_mutex_unlock(&p->mutex);
	if (is_running)
		a->pool = p;
	else
		op_fail(op, OSB_POOL, "POOL_NOT_RUNNING", "the pool does not run");
	return is_running;
}

static void begin(struct op *op, struct acquire *a)
{
	const struct osb_call *own = container_of(op, struct osb_call, op);
	struct pool_job *job = calloc(1, sizeof(*job));
	struct osb_error gone = { 0 };
	struct err e = { 0 };

	a->call = osb_call_new(op->client);
	a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!job || !a->call || a->fd < 0 || io_add(&a->io, op->client->loop, a->fd, IO_IN, on_taken, op, "acquire", &e) < 0) {
		free(job);
		op_no_memory(op);
		return;
	}
	osb_call_set_request_id(a->call, own->request_id);
	*job = (struct pool_job){ .kind = JOB_TAKE, .notify_fd = a->fd };
	if (pool_post(a->pool, job, &gone)) {
		a->job = job;
		return;
	}
	free(job);
	op_fail_as(op, &gone);
}

int osb_pool_acquire(struct osb_pool *p, struct osb_client *c, int64_t timeout_s, enum osb_pool_policy policy, struct osb_sandbox **ret,
		     struct osb_call *call)
{
	struct op *op = op_begin(c, call, "acquire sandbox", ret);
	struct acquire *a;

	if (!op)
		return -1;
	a = op_alloc(op, sizeof(*a));
	if (!a)
		return op_run(op);
	*a = (struct acquire){ .fd = -1, .policy = policy, .timeout_s = timeout_s };
	op->state = a;
	op->on_end = on_end;
	if (op_need(op, timeout_s >= 0, "the timeout is below 0") && join(op, a, p))
		begin(op, a);
	return op_run(op);
}
