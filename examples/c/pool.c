// SPDX-License-Identifier: Apache-2.0
/* Takes sandboxes from a pool that makes them ahead of time, with something in them already.
 *
 *     cc -o pool pool.c $(pkg-config --cflags --libs opensandbox)
 *     OPEN_SANDBOX_DOMAIN=localhost:8080 OPEN_SANDBOX_API_KEY=... ./pool
 *
 * With OPENSANDBOX_REDIS_URL set, programs of this and of other languages share the pool. */
#include <err.h>
#include <opensandbox.h>
#include <stdio.h>
#include <stdlib.h>

/* Comes from the pool's own thread, and may take its time. */
static int prepare(struct osb_sandbox *s, void *arg)
{
	(void)arg;
	return osb_file_write(s, &(struct osb_entry){ .path = "/tmp/greeting" }, "hello", 5, NULL);
}

static int use_one(struct osb_pool *pool, struct osb_client *c, int i)
{
	struct osb_sandbox *s = NULL;
	struct osb_bytes *greeting = NULL;
	int status = -1;

	if (osb_pool_acquire(pool, c, 300, OSB_POOL_DIRECT_CREATE, &s, NULL) < 0)
		return -1;
	if (osb_file_read(s, "/tmp/greeting", NULL, &greeting, NULL) == 0) {
		printf("sandbox %d: %s\n", i, greeting->data);
		status = 0;
	}
	osb_free(greeting);
	if (osb_sandbox_kill(c, osb_sandbox_id(s), NULL) < 0) /* they are not given back */
		status = -1;
	osb_sandbox_free(s);
	return status;
}

int main(void)
{
	const struct osb_create spec = { .size = sizeof(spec), .image = "host" };
	const struct osb_pool_options options = { .size = sizeof(options), .name = "example", .max_idle = 2, .spec = &spec, .prepare = prepare,
						  .reconcile_ms = 200, .connection = &OSB_OPTIONS,
						  .redis_url = getenv("OPENSANDBOX_REDIS_URL") };
	struct osb_error e;
	struct osb_client *c = osb_client_new(&OSB_OPTIONS, &e);
	struct osb_pool *pool = c ? osb_pool_new(&options, &e) : NULL;
	struct osb_pool_snapshot *now = NULL;
	int status = 0;

	if (!pool || osb_pool_start(pool, &e) < 0)
		errx(1, "%s", e.message);
	do { /* not needed: acquire makes one itself if none waits, but that one has no greeting */
		osb_free(now);
		if (osb_pool_snapshot(pool, &now, &e) < 0)
			errx(1, "%s", e.message);
	} while (now->n_idle < 2);
	osb_free(now);
	for (int i = 0; i < 2; i++)
		if (use_one(pool, c, i) < 0) {
			warnx("%s", osb_client_error(c)->message);
			status = 1;
		}
	if (osb_pool_shutdown(pool, true, &e) < 0 || osb_pool_release_all_idle(pool, &e) < 0)
		warnx("%s", e.message);
	osb_pool_free(pool);
	osb_client_free(c);
	return status;
}
