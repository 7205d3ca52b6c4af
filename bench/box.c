// SPDX-License-Identifier: Apache-2.0
/* box [COUNT] - how long it takes to make a box, against the floor of the same run (lib/floor.h). Needs root. Both start the
 * same init. */
#include <poll.h>

#include "lib/floor.h"
#include "box/host.h"
#include "box/slot.h"
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

static uint64_t box_once(const struct bench *b, unsigned number, uint64_t *ret_make, uint64_t *ret_destroy)
{
	static const struct slot_layer layers[] = { { .name = "base" } };
	struct slot s = SLOT_INIT;
	struct err e = { 0 };
	AUTO_FD spec = memfd_sealed_bytes("spec", STR("{}"), &e);
	struct slot_order order = { .limits = SLOT_LIMITS_DEFAULT, .layers = layers, .n_layers = 1, .spec = spec,
				    .hostname = "box" };
	uint64_t began = clock_mono_us(), took;
	struct pollfd p;
	pid_t pid;

	if (slot_make(&b->host, number, NULL, &s, &e) < 0)
		die("slot", &e);
	*ret_make = clock_mono_us() - began;
	pid = s.pid;
	p = (struct pollfd){ .fd = s.control, .events = POLLIN };
	(void)poll(&p, 1, 40); /* the child parks itself meanwhile: slots are made ahead of time */
	began = clock_mono_us();
	if (slot_wake(&b->host, &s, &order, 5000, &e) < 0)
		die("wake", &e);
	took = clock_mono_us() - began;
	began = clock_mono_us();
	if (slot_destroy(&b->host, &s, &e) < 0)
		die("destroy", &e);
	*ret_destroy = clock_mono_us() - began;
	(void)waitpid(pid, NULL, 0);
	return took;
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
}

static void clean_up(struct bench *b)
{
	int tmp = open("/tmp", O_PATH | O_CLOEXEC);
	struct err e = { 0 };

	if (cgroup_remove_top(&b->host.layout, b->prefix, 5000, &e) < 0)
		die("clean up", &e);
	box_host_done(&b->host);
	if (tree_remove(tmp, b->floor.dir + sizeof("/tmp/") - 1, &e) < 0)
		die("clean up", &e);
	(void)close(b->floor.init);
	(void)close(tmp);
}

static void report(const char *name, uint64_t us, uint64_t floor_us, const char *goal)
{
	printf("{\"name\":\"%s\",\"value\":%.3f,\"unit\":\"ms\",\"baseline\":\"floor\",\"baseline_value\":%.3f,\"ratio\":%.3f,"
	       "\"goal\":%s}\n",
	       name, (double)us / 1000, (double)floor_us / 1000, (double)us / (double)floor_us, goal);
}

int main(int argc, char **argv)
{
	static struct bench b;
	static uint64_t floor_us[COUNT_MAX], wake_us[COUNT_MAX], make_us[COUNT_MAX], destroy_us[COUNT_MAX];
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
		wake_us[i] = box_once(&b, (unsigned)i % 100, &make_us[i], &destroy_us[i]);
	}
	clean_up(&b);
	report("box.wake.p50", percentile(wake_us, count, 50), percentile(floor_us, count, 50), "1.0");
	report("box.wake.p99", percentile(wake_us, count, 99), percentile(floor_us, count, 99), "2.0");
	report("box.slot.p50", percentile(make_us, count, 50), percentile(floor_us, count, 50), "null");
	report("box.destroy.p50", percentile(destroy_us, count, 50), percentile(floor_us, count, 50), "null");
	return 0;
}
