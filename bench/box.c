// SPDX-License-Identifier: Apache-2.0
/* box [COUNT] - how long it takes to make a box, against the floor of the same run (lib/floor.h), and what a network adds to
 * it. Needs root. Both start the same init. */
#include <poll.h>

#include "box/host.h"
#include "box/slot.h"
#include "lib/floor.h"
#include "sys/mounts.h"

#include "base/banned.h"

#define COUNT_DEFAULT 200
#define COUNT_MAX 10000
#define PREFIX_FORMAT "osbb%d"
#define STORE_SIZE_BENCH (UINT64_C(4) << 30)

struct bench {
	char prefix[16];
	struct floor floor;
	struct box_host host;
	struct box_network network;
};

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t percentile(uint64_t *us, size_t n, unsigned p)
{
	qsort(us, n, sizeof(*us), compare);
	return us[MIN(n * p / 100, n - 1)];
}

/* ---- a box ---- */

struct times {
	uint64_t make[COUNT_MAX], wake[COUNT_MAX], destroy[COUNT_MAX];
};

static void box_once(const struct bench *b, unsigned number, struct times *t, size_t at)
{
	static const struct slot_layer layers[] = { { .name = "base" } };
	struct slot s = SLOT_INIT;
	struct err e = { 0 };
	AUTO_FD spec = memfd_sealed_bytes("spec", STR("{}"), &e);
	struct slot_order order = { .limits = SLOT_LIMITS_DEFAULT, .layers = layers, .n_layers = 1, .spec = spec,
				    .hostname = "box" };
	uint64_t began = clock_mono_us();
	struct pollfd p;
	pid_t pid;

	if (slot_make(&b->host, number, NULL, &s, &e) < 0)
		die("slot", &e);
	t->make[at] = clock_mono_us() - began;
	if (b->host.network.is_on)
		order.address = box_network_address(&b->host.network, number);
	pid = s.pid;
	p = (struct pollfd){ .fd = s.control, .events = POLLIN };
	(void)poll(&p, 1, 40); /* the child parks itself meanwhile: slots are made ahead of time */
	began = clock_mono_us();
	if (slot_wake(&b->host, &s, &order, 5000, &e) < 0)
		die("wake", &e);
	t->wake[at] = clock_mono_us() - began;
	began = clock_mono_us();
	if (slot_destroy(&b->host, &s, &e) < 0)
		die("destroy", &e);
	t->destroy[at] = clock_mono_us() - began;
	(void)waitpid(pid, NULL, 0);
}

/* ---- the program ---- */

static void prepare(struct bench *b)
{
	char dir[] = "/tmp/box_bench.XXXXXX", path[BOX_PATH_MAX + 8];
	struct box_host_spec spec = { .prefix = b->prefix, .state_dir = dir, .execd_path = FLOOR_INIT,
				      .disk_size_bytes = STORE_SIZE_BENCH };
	struct err e = { 0 };

	(void)snprintf(b->prefix, sizeof(b->prefix), PREFIX_FORMAT, (int)getpid()); /* others may measure, too */
	if (!mkdtemp(dir) || chmod(dir, 0755) < 0)
		die("make a folder", NULL);
	if (unshare(CLONE_NEWNS) < 0 || mount_slave_all(&e) < 0) /* the store is mounted for us alone */
		die("leave the host's mounts", NULL);
	floor_open(&b->floor, dir);
	if (box_host_open(&b->host, &spec, &e) < 0)
		die("host", &e);
	(void)snprintf(path, sizeof(path), "%s/base", b->host.layers_path);
	if (mkdir(path, 0755) < 0)
		die(path, NULL);
	if (box_network_open(&b->network, &(struct box_network_spec){ .prefix = b->prefix, .state_dir = dir }, &e) < 0)
		(void)fprintf(stderr, "bench: %s: measured without\n", e.msg);
}

static void clean_up(struct bench *b)
{
	int tmp = open("/tmp", O_PATH | O_CLOEXEC);
	struct err e = { 0 };

	if (b->network.is_on && box_network_remove(&b->network, &e) < 0)
		die("clean up", &e);
	if (cgroup_remove_top(&b->host.layout, b->prefix, 5000, &e) < 0)
		die("clean up", &e);
	box_host_done(&b->host);
	if (tree_remove(tmp, b->floor.dir + sizeof("/tmp/") - 1, &e) < 0)
		die("clean up", &e);
	(void)close(b->floor.init);
	(void)close(tmp);
}

static void report_to(const char *name, uint64_t us, const char *baseline, uint64_t floor_us, const char *goal)
{
	printf("{\"name\":\"%s\",\"value\":%.3f,\"unit\":\"ms\",\"baseline\":\"%s\",\"baseline_value\":%.3f,\"ratio\":%.3f,"
	       "\"goal\":%s}\n",
	       name, (double)us / 1000, baseline, (double)floor_us / 1000, (double)us / (double)floor_us, goal);
}

static void report(const char *name, uint64_t us, uint64_t floor_us, const char *goal)
{
	report_to(name, us, "floor", floor_us, goal);
}

int main(int argc, char **argv)
{
	static struct bench b;
	static uint64_t floor_us[COUNT_MAX];
	static struct times plain, linked;
	uint64_t count = COUNT_DEFAULT;

	if (argc > 2 || (argc == 2 && !str_to_u64(str_of(argv[1]), 1, COUNT_MAX, &count))) {
		(void)fprintf(stderr, "usage: box [COUNT]\n");
		return 2;
	}
	if (geteuid() != 0) {
		(void)fprintf(stderr, "bench: box needs root, skipped\n");
		return 0;
	}
	prepare(&b);
	for (size_t i = 0; i < count; i++) {
		floor_us[i] = floor_once(&b.floor);
		box_once(&b, (unsigned)i % 100, &plain, i);
		if (!b.network.is_on)
			continue;
		b.host.network = b.network;
		box_once(&b, (unsigned)i % 100, &linked, i);
		b.host.network.is_on = false;
	}
	clean_up(&b);
	report("box.wake.p50", percentile(plain.wake, count, 50), percentile(floor_us, count, 50), "1.0");
	report("box.wake.p99", percentile(plain.wake, count, 99), percentile(floor_us, count, 99), "2.0");
	report("box.slot.p50", percentile(plain.make, count, 50), percentile(floor_us, count, 50), "null");
	report("box.destroy.p50", percentile(plain.destroy, count, 50), percentile(floor_us, count, 50), "null");
	if (!b.network.is_on)
		return 0;
	report_to("box.network.wake.p50", percentile(linked.wake, count, 50), "no network", percentile(plain.wake, count, 50), "null");
	report_to("box.network.slot.p50", percentile(linked.make, count, 50), "no network", percentile(plain.make, count, 50), "null");
	report_to("box.network.destroy.p50", percentile(linked.destroy, count, 50), "no network", percentile(plain.destroy, count, 50),
		  "null");
	return 0;
}
