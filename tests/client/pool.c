// SPDX-License-Identifier: Apache-2.0
/* The pool on the client's side: filled, taken from by several threads at once, resized, shut down.
 *
 *     pool DOMAIN KEY
 *
 * With REDIS_URL in the environment its state is there, and a second pool of the same name takes part. */
#include <pthread.h>

#include "trying.h"

#include "base/banned.h"

#define THREADS 4
#define EACH 3

static struct osb_options options;
static unsigned prepared;
static struct osb_pool *filling;
static const char *name;

static int prepare(struct osb_sandbox *s, void *arg)
{
	struct osb_execution *x = NULL;
	struct osb_error e;

	if (osb_command_run(s, &(struct osb_command){ .command = "echo ready > /tmp/prepared" }, NULL, NULL, &x, NULL) < 0)
		return -1;
	osb_free(x);
	if (filling)
		CHECK(osb_pool_resize(filling, 1, &e) < 0 && e.kind == OSB_INVALID); /* it would wait for itself */
	__atomic_add_fetch((unsigned *)arg, 1, __ATOMIC_SEQ_CST);
	return 0;
}

static struct osb_pool *new_pool(unsigned max_idle)
{
	const struct osb_create spec = { .image = "host" };
	const struct osb_pool_options o = { .size = sizeof(o), .name = name, .max_idle = max_idle, .connection = &options, .spec = &spec,
					    .redis_url = getenv("REDIS_URL"), .reconcile_ms = 100, .warmup_concurrency = 2,
					    .idle_timeout_s = 600, .prepare = prepare, .prepare_arg = &prepared };
	struct osb_error e;
	struct osb_pool *p = osb_pool_new(&o, &e);

	if (!p)
		errx(1, "%s", e.message);
	return p;
}

static void until_idle(struct osb_pool *p, size_t n)
{
	uint64_t until = now_ms() + 60000;
	struct osb_pool_snapshot *s = NULL;
	struct osb_error e;

	for (;;) {
		if (osb_pool_snapshot(p, &s, &e) < 0)
			errx(1, "%s", e.message);
		if (s->n_idle == n)
			break;
		if (now_ms() > until)
			errx(1, "%zu idle, not %zu: %s", s->n_idle, n, s->last_error ? s->last_error : "");
		osb_free(s);
		usleep(20000);
	}
	show("snapshot", s);
	osb_free(s);
}

/* ---- one thread ---- */

static void life(void)
{
	struct osb_pool *p = new_pool(3);
	struct osb_pool_snapshot *snapshot = NULL;
	struct osb_execution *x = NULL;
	struct osb_sandbox_info *info = NULL;
	struct osb_sandbox *s = NULL;
	struct osb_error e;

	FAILS(osb_pool_acquire(p, client, 0, OSB_POOL_DIRECT_CREATE, &s, call), OSB_POOL, 0);
	CHECK(same(error()->code, "POOL_NOT_RUNNING"));
	CHECK(osb_pool_snapshot(p, &snapshot, &e) == 0 && snapshot->state == OSB_POOL_NOT_STARTED && snapshot->health == OSB_POOL_HEALTH_STOPPED);
	osb_free(snapshot);
	filling = p;
	CHECK(osb_pool_start(p, &e) == 0 && osb_pool_start(p, NULL) == 0);
	until_idle(p, 3);
	MUST(osb_pool_acquire(p, client, 300, OSB_POOL_FAIL_FAST, &s, call));
	CHECK(osb_sandbox_client(s) == client);
	MUST(osb_command_run(s, &(struct osb_command){ .command = "cat /tmp/prepared" }, NULL, NULL, &x, call));
	CHECK(same(x->stdout_text, "ready"));
	osb_free(x);
	MUST(osb_sandbox_get(client, osb_sandbox_id(s), &info, call));
	CHECK(osb_time_ms(info->expires_at) < (int64_t)time(NULL) * 1000 + 310000);
	osb_free(info);
	kill_and_free(s);
	until_idle(p, 3);
	CHECK(osb_pool_resize(p, 1, &e) == 0);
	until_idle(p, 1);
	CHECK(osb_pool_resize(p, 0, &e) == 0);
	until_idle(p, 0);
	FAILS(osb_pool_acquire(p, client, 0, OSB_POOL_FAIL_FAST, &s, call), OSB_POOL, 0);
	CHECK(same(error()->code, "POOL_EMPTY"));
	MUST(osb_pool_acquire(p, client, 200, OSB_POOL_DIRECT_CREATE, &s, call));
	kill_and_free(s);
	CHECK(osb_pool_resize(p, 2, &e) == 0);
	until_idle(p, 2);
	CHECK(osb_pool_shutdown(p, true, &e) == 0 && osb_pool_shutdown(p, true, &e) == 0);
	CHECK(osb_pool_snapshot(p, &snapshot, &e) == 0 && snapshot->state == OSB_POOL_STOPPED && snapshot->n_idle == 2);
	osb_free(snapshot);
	CHECK(osb_pool_release_all_idle(p, &e) == 2);
	CHECK(osb_pool_resize(p, 1000000, &e) < 0 && e.kind == OSB_INVALID);
	CHECK(osb_pool_start(p, &e) == 0); /* once more, with the size of the options */
	until_idle(p, 3);
	CHECK(osb_pool_shutdown(p, false, NULL) == 0 && osb_pool_release_all_idle(p, NULL) == 3);
	osb_pool_free(p);
	filling = NULL;
}

/* One that was killed behind the pool's back is no answer. */
static void stale(void)
{
	struct osb_pool *p = new_pool(1);
	struct osb_pool_snapshot *snapshot = NULL;
	struct osb_sandbox *s = NULL;
	struct osb_error e;

	CHECK(osb_pool_start(p, &e) == 0);
	until_idle(p, 1);
	CHECK(osb_pool_resize(p, 0, &e) == 0 && osb_pool_snapshot(p, &snapshot, &e) == 0);
	if (snapshot->n_idle == 1) {
		MUST(osb_sandbox_kill(client, snapshot->idle[0].id, call));
		MUST(osb_pool_acquire(p, client, 0, OSB_POOL_DIRECT_CREATE, &s, call));
		CHECK(strcmp(osb_sandbox_id(s), snapshot->idle[0].id) != 0);
		kill_and_free(s);
	}
	osb_free(snapshot);
	(void)osb_pool_shutdown(p, true, NULL);
	(void)osb_pool_release_all_idle(p, NULL);
	osb_pool_free(p);
}

/* ---- several ---- */

static char taken[THREADS * EACH][128];

static void *take_some(void *arg)
{
	struct osb_pool *p = ((void **)arg)[0];
	char(*ids)[128] = ((void **)arg)[1];
	struct osb_client *own = osb_client_new(&options, NULL);

	for (int i = 0; own && i < EACH; i++) {
		struct osb_sandbox *s = NULL;

		if (osb_pool_acquire(p, own, 0, OSB_POOL_DIRECT_CREATE, &s, NULL) < 0)
			errx(1, "thread: %s", osb_client_error(own)->message);
		(void)snprintf(ids[i], sizeof(ids[i]), "%s", osb_sandbox_id(s));
		if (osb_sandbox_kill(own, ids[i], NULL) < 0)
			errx(1, "thread: %s", osb_client_error(own)->message);
		osb_sandbox_free(s);
	}
	osb_client_free(own);
	return NULL;
}

static void threads(void)
{
	struct osb_pool *p = new_pool(4), *twin = getenv("REDIS_URL") ? new_pool(4) : NULL;
	void *args[THREADS][2];
	pthread_t all[THREADS];

	CHECK(osb_pool_start(p, NULL) == 0 && (!twin || osb_pool_start(twin, NULL) == 0));
	until_idle(p, 4);
	for (int i = 0; i < THREADS; i++) {
		args[i][0] = twin && i % 2 ? twin : p;
		args[i][1] = taken + i * EACH;
		CHECK(pthread_create(&all[i], NULL, take_some, args[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(all[i], NULL) == 0);
	for (int i = 0; i < THREADS * EACH; i++)
		for (int k = 0; k < i; k++)
			CHECK(strcmp(taken[i], taken[k]) != 0);
	until_idle(p, 4);
	CHECK(osb_pool_shutdown(p, false, NULL) == 0 && (!twin || osb_pool_shutdown(twin, false, NULL) == 0));
	CHECK(osb_pool_release_all_idle(p, NULL) == 4);
	osb_pool_free(twin);
	osb_pool_free(p);
}

/* ---- what ends in the middle ---- */

static void ends(void)
{
	struct osb_call *other = osb_call_new(client);
	struct osb_pool *p = new_pool(2);
	bool is_told = false;
	struct osb_sandbox *s = NULL;
	struct osb_error e;

	CHECK(other && osb_pool_start(p, &e) == 0);
	osb_call_on_done(other, on_done, &is_told);
	for (int turns = 0; turns < 8; turns++) { /* at each step of the way */
		until_idle(p, 2);
		is_told = false;
		CHECK(osb_pool_acquire(p, client, 100, OSB_POOL_DIRECT_CREATE, &s, other) == 0);
		for (int i = 0; i < turns; i++)
			turn(3);
		osb_call_cancel(other);
		while (!is_told)
			turn(1000);
		if (s)
			kill_and_free(s);
		s = NULL;
	}
	is_told = false;
	CHECK(osb_pool_acquire(p, client, 0, OSB_POOL_DIRECT_CREATE, &s, other) == 0);
	osb_call_free(other);
	CHECK(osb_pool_shutdown(p, true, &e) == 0);
	(void)osb_pool_release_all_idle(p, NULL);
	osb_pool_free(p); /* and what acquires had in hand is dropped by then */
	CHECK(!is_told);
	p = new_pool(3);
	CHECK(osb_pool_start(p, NULL) == 0);
	for (int i = 0; i < 3; i++)
		usleep(10000);
	CHECK(osb_pool_shutdown(p, false, NULL) == 0); /* while it makes some */
	(void)osb_pool_release_all_idle(p, NULL);
	osb_pool_free(p);
}

static void mistakes(void)
{
	const struct osb_create spec = { .image = "host" }, snapshot = { .image = "host", .snapshot_id = "x" };
	struct osb_pool_options o = { .size = sizeof(o), .max_idle = 1, .connection = &options, .spec = &spec };
	struct osb_error e;

	CHECK(!osb_pool_new(&o, &e) && e.kind == OSB_INVALID);
	o.name = "x";
	o.spec = &snapshot;
	CHECK(!osb_pool_new(&o, &e) && e.kind == OSB_INVALID);
	o.spec = &spec;
	o.idle_timeout_s = 100;
	o.min_remaining_s = 100;
	CHECK(!osb_pool_new(&o, &e) && e.kind == OSB_INVALID);
	o.min_remaining_s = 0;
	o.redis_url = "unix:///nonexistent/socket";
	{
		struct osb_pool *p = osb_pool_new(&o, &e);

		CHECK(p && osb_pool_start(p, &e) < 0 && e.kind == OSB_POOL && same(e.code, "POOL_STATE_STORE_UNAVAILABLE"));
		osb_pool_free(p);
	}
}

static void everything(void)
{
	mistakes();
	life();
	stale();
	threads();
	ends();
}

int main(int argc, char **argv)
{
	static char text[64];

	(void)snprintf(text, sizeof(text), "c pool %d", (int)getpid());
	name = text;
	if (argc != 3)
		errx(2, "usage: pool DOMAIN KEY");
	options = OSB_OPTIONS;
	options.domain = argv[1];
	options.api_key = argv[2];
	options.use_server_proxy = getenv("USE_SERVER_PROXY");
	return try_both(argc, argv, everything);
}
