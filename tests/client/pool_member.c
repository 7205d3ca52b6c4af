// SPDX-License-Identifier: Apache-2.0
/* A member of a pool whose state is in Redis, for tests that have members of other languages.
 *
 *     pool_member DOMAIN KEY REDIS_URL NAME MAX_IDLE
 *
 * Each line of its input is an order: "acquire", "snapshot", "resize N", "release", "shutdown"; each is answered with a line. */
#include "base/str.h"
#include "trying.h"

#include "base/banned.h"

static struct osb_pool *pool;

static void acquire(void)
{
	struct osb_sandbox *s = NULL;

	if (osb_pool_acquire(pool, client, 300, OSB_POOL_FAIL_FAST, &s, NULL) < 0) {
		printf("failed %s\n", osb_client_error(client)->code);
		return;
	}
	printf("%s\n", osb_sandbox_id(s));
	osb_sandbox_free(s);
}

static void snapshot(struct osb_error *e)
{
	struct osb_pool_snapshot *s = NULL;
	char *json;

	if (osb_pool_snapshot(pool, &s, e) < 0) {
		printf("failed %s\n", e->code);
		return;
	}
	json = osb_to_json(s);
	puts(json ? json : "");
	free(json);
	osb_free(s);
}

static void follow(const char *order)
{
	struct osb_error e = { .kind = OSB_OK };
	uint64_t n;

	if (same(order, "acquire"))
		acquire();
	else if (same(order, "snapshot"))
		snapshot(&e);
	else if (str_starts(str_of(order), STR("resize ")) && str_to_u64(str_of(order + 7), 0, 1000, &n))
		printf("%d\n", osb_pool_resize(pool, (unsigned)n, &e));
	else if (same(order, "release"))
		printf("%d\n", osb_pool_release_all_idle(pool, &e));
	else if (same(order, "shutdown"))
		printf("%d\n", osb_pool_shutdown(pool, true, &e));
	else
		errx(2, "no such order: %s", order);
	(void)fflush(stdout);
}

int main(int argc, char **argv)
{
	const struct osb_create spec = { .image = "host" };
	struct osb_options options = OSB_OPTIONS;
	struct osb_pool_options o = { .size = sizeof(o), .connection = &options, .spec = &spec, .reconcile_ms = 100, .warmup_concurrency = 2,
				      .idle_timeout_s = 600 };
	struct osb_error e;
	char line[256];
	uint64_t n;

	if (argc != 6 || !str_to_u64(str_of(argv[5]), 0, 1000, &n))
		errx(2, "usage: pool_member DOMAIN KEY REDIS_URL NAME MAX_IDLE");
	options.domain = argv[1];
	options.api_key = argv[2];
	o.redis_url = argv[3];
	o.name = argv[4];
	o.max_idle = (unsigned)n;
	client = osb_client_new(&options, &e);
	pool = client ? osb_pool_new(&o, &e) : NULL;
	if (!pool || osb_pool_start(pool, &e) < 0)
		errx(1, "%s", e.message);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		follow(line);
	}
	osb_pool_free(pool);
	osb_client_free(client);
	return 0;
}
