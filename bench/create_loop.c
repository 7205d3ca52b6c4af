// SPDX-License-Identifier: Apache-2.0
/* create_loop PORT latency ROUNDS
 * create_loop PORT rate ROUNDS SECONDS
 * create_loop PORT fill COUNT
 * create_loop PORT probe COUNT
 * create_loop PORT exec COUNT ID
 * create_loop PORT pool ROUNDS NAME
 *
 * The client of bench-create, bench-density, bench-neighbour and bench-pool. It prints what it has taken, a line for each: "create 1830" are
 * microseconds, "create.rate 210.5" are sandboxes a second. Ours and what they are measured against take turns in short
 * batches, so that all of them share the machine's moods. Needs root, for the floor. */
#include <spawn.h>

#include "base/buf.h"
#include "lib/client.h"
#include "lib/floor.h"

#include "base/banned.h"

#define BATCH 10
#define WORKERS 8
#define COUNT_MAX 100000
#define QUIET_US 50000 /* for a slot to be made, or to go */
#define WAIT_US 10000 /* between two looks at a pool */
#define WAIT_MAX 3000
#define SANDBOX \
	"{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"tail\",\"-f\",\"/dev/null\"],\"timeout\":3600," \
	"\"resourceLimits\":{\"cpu\":\"1\",\"memory\":\"2Gi\"}}"

struct sandbox {
	char id[64];
	char token[128]; /* a header, for execd */
};

static void say(const char *name, uint64_t us)
{
	printf("%s %llu\n", name, (unsigned long long)us);
}

/* ---- ours ---- */

static void expect(const struct client *c, unsigned status, const char *what)
{
	if (c->status == status)
		return;
	(void)fprintf(stderr, "bench: %s: status %u: %.*s\n", what, c->status, STR_ARG(str_first(c->body, 400)));
	exit(1);
}

/* From the first byte of the request to the last of the 202 that says Running. */
static uint64_t create_as(struct client *c, struct sandbox *s, const char *body)
{
	uint64_t began = clock_mono_us(), took;
	char state[32];

	(void)client_call(c, "POST", "/v1/sandboxes", "", body);
	took = clock_mono_us() - began;
	expect(c, 202, "create");
	client_string(c, "id", s->id, sizeof(s->id));
	client_string(c, "state", state, sizeof(state));
	if (strcmp(state, "Running") != 0)
		client_die("the new sandbox does not run");
	return took;
}

static uint64_t create(struct client *c, struct sandbox *s)
{
	return create_as(c, s, SANDBOX);
}

static void destroy(struct client *c, const struct sandbox *s)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s", s->id);
	(void)client_call(c, "DELETE", path, "", "");
	expect(c, 204, "delete");
}

/* The token is what an SDK asks for once per sandbox. */
static void find_token(struct client *c, struct sandbox *s)
{
	char path[128], token[80];

	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/endpoints/44772", s->id);
	(void)client_call(c, "GET", path, "", "");
	expect(c, 200, "endpoint");
	client_string(c, "X-EXECD-ACCESS-TOKEN", token, sizeof(token));
	(void)snprintf(s->token, sizeof(s->token), "X-EXECD-ACCESS-TOKEN: %s\r\n", token);
}

static void run_true(struct client *c, const struct sandbox *s)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/proxy/44772/command", s->id);
	(void)client_call(c, "POST", path, s->token, "{\"command\":\"true\"}");
	expect(c, 200, "command");
}

static void batch_of_creates(struct client *c)
{
	for (int i = 0; i < BATCH; i++) {
		struct sandbox s;
		uint64_t began;

		say("create", create(c, &s));
		began = clock_mono_us();
		destroy(c, &s);
		say("delete", clock_mono_us() - began);
	}
}

static void batch_of_cycles(struct client *c)
{
	for (int i = 0; i < BATCH; i++) {
		uint64_t began = clock_mono_us();
		struct sandbox s;

		(void)create(c, &s);
		find_token(c, &s);
		run_true(c, &s);
		destroy(c, &s);
		say("cycle", clock_mono_us() - began);
	}
}

/* ---- theirs ---- */

static void run_bwrap(void)
{
	static const char *const argv[] = {
		"bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib",
		"/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--", "true", NULL,
	};
	pid_t pid;
	int status;

	if (posix_spawnp(&pid, "bwrap", NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0 ||
	    waitpid(pid, &status, 0) != pid || status != 0)
		client_die("bwrap failed");
}

static void batch_of_bwraps(void)
{
	for (int i = 0; i < BATCH; i++) {
		uint64_t began = clock_mono_us();

		run_bwrap();
		say("bwrap", clock_mono_us() - began);
	}
}

static void batch_of_floors(struct floor *f)
{
	for (int i = 0; i < BATCH; i++)
		say("floor", floor_once(f));
}

/* Creates and floors alone. */
static void floors(unsigned port, struct floor *f, uint64_t rounds)
{
	struct client c;

	client_open(&c, port);
	for (uint64_t i = 0; i < rounds; i++) {
		batch_of_floors(f);
		batch_of_creates(&c);
	}
	client_close(&c);
}

static void latency(unsigned port, struct floor *f, uint64_t rounds)
{
	struct client c;

	client_open(&c, port);
	for (uint64_t i = 0; i < rounds; i++) {
		batch_of_floors(f);
		batch_of_creates(&c);
		batch_of_bwraps();
		batch_of_cycles(&c);
	}
	client_close(&c);
}

/* ---- many at once ---- */

static uint64_t make_ours(unsigned port, uint64_t until_us)
{
	struct client c;
	uint64_t n = 0;

	client_open(&c, port);
	for (; clock_mono_us() < until_us; n++) {
		struct sandbox s;

		(void)create(&c, &s);
		destroy(&c, &s);
	}
	client_close(&c);
	return n;
}

static uint64_t make_floors(const struct floor *f, unsigned worker, uint64_t until_us)
{
	struct floor own = *f;
	uint64_t n = 0;

	(void)snprintf(own.dir, sizeof(own.dir), "%.100s/%u", f->dir, worker);
	if (mkdir(own.dir, 0755) < 0)
		die(own.dir, NULL);
	floor_spread(own.dir);
	for (; clock_mono_us() < until_us; n++)
		(void)floor_once(&own);
	if (rmdir(own.dir) < 0)
		die(own.dir, NULL);
	return n;
}

/* PORT 0: the floor. Sandboxes made in a second by all workers together. */
static double rate_of(unsigned port, const struct floor *f, uint64_t seconds)
{
	uint64_t until = clock_mono_us() + seconds * 1000000, sum = 0, n;
	int ends[2], status;

	if (pipe2(ends, O_CLOEXEC) < 0)
		die("pipe", NULL);
	for (unsigned i = 0; i < WORKERS; i++) {
		if (fork() == 0) {
			n = port ? make_ours(port, until) : make_floors(f, i, until);
			_exit(write(ends[1], &n, sizeof(n)) != (ssize_t)sizeof(n));
		}
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		if (wait(&status) < 0 || status != 0 || read(ends[0], &n, sizeof(n)) != (ssize_t)sizeof(n))
			client_die("a worker failed");
		sum += n;
	}
	(void)close(ends[0]);
	(void)close(ends[1]);
	return (double)sum / (double)seconds;
}

static void rate(unsigned port, const struct floor *f, uint64_t rounds, uint64_t seconds)
{
	for (uint64_t i = 0; i < rounds; i++) {
		printf("floor.rate %.1f\n", rate_of(0, f, seconds));
		printf("create.rate %.1f\n", rate_of(port, f, seconds));
		(void)fflush(stdout);
	}
}

/* ---- filling a host ---- */

static void fill(unsigned port, uint64_t count)
{
	struct sandbox s;
	struct client c;

	client_open(&c, port);
	for (uint64_t i = 0; i < count; i++) {
		(void)create(&c, &s);
		printf("id %s\n", s.id);
	}
	client_close(&c);
}

static void time_get(struct client *c, const char *name, const char *path)
{
	uint64_t began = clock_mono_us();

	(void)client_call(c, "GET", path, "", "");
	expect(c, 200, name);
	say(name, clock_mono_us() - began);
}

/* One of each kind, COUNT times, on a host where nothing else goes on: the slot of the sandbox that is removed is made anew
 * before the next turn. */
static void probe(unsigned port, uint64_t count)
{
	struct sandbox s;
	struct client c;
	char path[128];

	client_open(&c, port);
	for (uint64_t i = 0; i < count; i++) {
		say("create", create(&c, &s));
		(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s", s.id);
		(void)usleep(QUIET_US);
		time_get(&c, "get", path);
		time_get(&c, "list", "/v1/sandboxes?pageSize=20");
		destroy(&c, &s);
		(void)usleep(QUIET_US);
	}
	client_close(&c);
}

/* ---- living beside others ---- */

/* A command in sandbox ID, and then the server's health, COUNT times. */
static void exec_beside(unsigned port, uint64_t count, const char *id)
{
	struct sandbox s;
	struct client c;

	client_open(&c, port);
	(void)snprintf(s.id, sizeof(s.id), "%s", id);
	find_token(&c, &s);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t began = clock_mono_us();

		run_true(&c, &s);
		say("exec", clock_mono_us() - began);
		began = clock_mono_us();
		(void)client_call(&c, "GET", "/health", "", "");
		expect(&c, 200, "health");
		say("health", clock_mono_us() - began);
	}
	client_close(&c);
}

/* ---- those that wait ---- */

/* Until a batch of them does, and nothing is being made. */
static void wait_full(struct client *c, const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "/v1/pools/%s", name);
	for (int i = 0; i < WAIT_MAX; i++) {
		uint64_t available, total;

		(void)client_call(c, "GET", path, "", "");
		expect(c, 200, "pool");
		available = client_number(c, "available");
		total = client_number(c, "total");
		if (available >= BATCH && available == total)
			return;
		(void)usleep(WAIT_US);
	}
	client_die("the pool does not fill");
}

static void batch_of_acquires(struct client *c, const char *name)
{
	struct sandbox taken[BATCH];
	char body[256];

	(void)snprintf(body, sizeof(body), "{\"extensions\":{\"poolRef\":\"%s\"},\"timeout\":3600}", name);
	wait_full(c, name);
	for (int i = 0; i < BATCH; i++)
		say("acquire", create_as(c, &taken[i], body));
	for (int i = 0; i < BATCH; i++)
		destroy(c, &taken[i]);
}

static void pool(unsigned port, uint64_t rounds, const char *name)
{
	struct client c;

	client_open(&c, port);
	for (uint64_t i = 0; i < rounds; i++) {
		batch_of_acquires(&c, name);
		wait_full(&c, name); /* refilling is no part of a create */
		batch_of_creates(&c);
	}
	client_close(&c);
}

/* ---- the program ---- */

static void with_floor(const char *mode, unsigned port, uint64_t rounds, uint64_t seconds)
{
	char dir[] = "/tmp/create_bench.XXXXXX";
	struct floor f;

	if (!mkdtemp(dir) || chmod(dir, 0755) < 0)
		die("make a folder", NULL);
	floor_open(&f, dir);
	if (strcmp(mode, "latency") == 0)
		latency(port, &f, rounds);
	else if (strcmp(mode, "floors") == 0)
		floors(port, &f, rounds);
	else
		rate(port, &f, rounds, seconds);
	if (rmdir(dir) < 0)
		die(dir, NULL);
}

static bool is_usage(int argc, char **argv, uint64_t *port, uint64_t *count, uint64_t *seconds)
{
	if (argc < 4 || !str_to_u64(str_of(argv[1]), 1, 65535, port) || !str_to_u64(str_of(argv[3]), 1, COUNT_MAX, count))
		return false;
	if (strcmp(argv[2], "rate") == 0)
		return argc == 5 && str_to_u64(str_of(argv[4]), 1, 60, seconds);
	if (strcmp(argv[2], "exec") == 0 || strcmp(argv[2], "pool") == 0)
		return argc == 5;
	return argc == 4 && (strcmp(argv[2], "latency") == 0 || strcmp(argv[2], "floors") == 0 ||
			     strcmp(argv[2], "fill") == 0 || strcmp(argv[2], "probe") == 0);
}

int main(int argc, char **argv)
{
	uint64_t port, count, seconds = 0;

	if (!is_usage(argc, argv, &port, &count, &seconds)) {
		(void)fprintf(stderr, "usage: create_loop PORT latency ROUNDS | floors ROUNDS | rate ROUNDS SECONDS | fill COUNT | probe COUNT | exec COUNT ID | pool ROUNDS NAME\n");
		return 2;
	}
	if (strcmp(argv[2], "fill") == 0)
		fill((unsigned)port, count);
	else if (strcmp(argv[2], "probe") == 0)
		probe((unsigned)port, count);
	else if (strcmp(argv[2], "exec") == 0)
		exec_beside((unsigned)port, count, argv[4]);
	else if (strcmp(argv[2], "pool") == 0)
		pool((unsigned)port, count, argv[4]);
	else
		with_floor(argv[2], (unsigned)port, count, seconds);
	return 0;
}
