// SPDX-License-Identifier: Apache-2.0
/* box [COUNT] - how long it takes to make a box, against the floor of the same run: clone3 with all seven namespaces
 * made fresh, id map, writable overlay, pivot_root, /proc and exec of a static init that writes one byte, in a straight
 * line. Needs root. Both start the same init. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/guest.h"
#include "box/host.h"
#include "box/slot.h"
#include "sys/memfd.h"
#include "sys/mounts.h"
#include "sys/namespace.h"
#include "sys/tree.h"

#include "base/banned.h"

#define INIT "build/musl/bin/floor-init"
#define COUNT_DEFAULT 200
#define COUNT_MAX 10000
#define PREFIX "osbbench"
#define STORE_SIZE_BENCH (UINT64_C(4) << 30)

struct bench {
	char dir[64];
	int init; /* sealed copy */
	struct box_host host;
};

static _Noreturn void die(const char *what, const struct err *e)
{
	(void)fprintf(stderr, "bench: %s: %s\n", what, e ? e->msg : strerror(errno));
	exit(1);
}

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

/* ---- the floor ---- */

static _Noreturn void floor_child(const struct bench *b, int go, int ready)
{
	char options[512], byte;
	const char *argv[] = { "init", NULL }, *envp[] = { NULL };

	(void)snprintf(options, sizeof(options), "lowerdir=%s/floor/lower,upperdir=%s/floor/upper,workdir=%s/floor/work,volatile",
		       b->dir, b->dir, b->dir);
	if (read(go, &byte, 1) != 1 || setresuid(0, 0, 0) < 0 || setresgid(0, 0, 0) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || chdir(b->dir) < 0 ||
	    mount("overlay", "floor/root", "overlay", MS_NOSUID | MS_NODEV, options) < 0 ||
	    mount("proc", "floor/root/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 || chdir("floor/root") < 0 ||
	    syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || dup2(ready, GUEST_FD_READY) < 0)
		_exit(1);
	(void)syscall(SYS_execveat, b->init, "", argv, envp, AT_EMPTY_PATH);
	_exit(2);
}

static void write_map(pid_t pid, const char *which)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, which);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0 1048576 65536", 15) != 15)
		die("write an id map", NULL);
	(void)close(fd);
}

static void floor_folders(const struct bench *b)
{
	static const char *const names[] = { "floor", "floor/lower", "floor/lower/proc", "floor/upper", "floor/work", "floor/root" };
	char path[128];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", b->dir, names[i]);
		if (mkdir(path, 0755) < 0 || chown(path, 1048576, 1048576) < 0)
			die(path, NULL);
	}
}

static uint64_t floor_once(const struct bench *b)
{
	uint64_t flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP;
	int go[2], ready[2], pidfd, dir = open(b->dir, O_PATH | O_CLOEXEC);
	struct err e = { 0 };
	uint64_t began, took;
	siginfo_t si;
	pid_t pid;
	char byte;

	floor_folders(b);
	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(ready, O_CLOEXEC) < 0)
		die("pipe", NULL);
	began = clock_mono_us();
	pid = namespace_clone(flags, -1, &pidfd, &e);
	if (pid == 0)
		floor_child(b, go[0], ready[1]);
	if (pid < 0)
		die("clone", &e);
	write_map(pid, "uid_map");
	write_map(pid, "gid_map");
	(void)close(ready[1]);
	if (write(go[1], "g", 1) != 1 || read(ready[0], &byte, 1) != 1)
		die("the floor's init did not start", NULL);
	took = clock_mono_us() - began;
	(void)kill(pid, SIGKILL);
	(void)waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED);
	for (int i = 0; i < 2; i++)
		(void)close(go[i]);
	(void)close(ready[0]);
	(void)close(pidfd);
	if (tree_remove(dir, "floor", &e) < 0)
		die("clean up", &e);
	(void)close(dir);
	return took;
}

/* ---- a box ---- */

static uint64_t box_once(const struct bench *b, unsigned number, uint64_t *ret_make, uint64_t *ret_destroy)
{
	static const char *const layers[] = { "base" };
	struct slot s = SLOT_INIT;
	struct err e = { 0 };
	AUTO_FD spec = memfd_sealed_bytes("spec", STR("{}"), &e);
	struct slot_order order = { .limits = SLOT_LIMITS_DEFAULT, .layers = layers, .n_layers = 1, .spec = spec,
				    .hostname = "box" };
	uint64_t began = clock_mono_us(), took;
	struct pollfd p;
	pid_t pid;

	if (slot_make(&b->host, number, &s, &e) < 0)
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
	struct box_host_spec spec = { .prefix = PREFIX, .state_dir = b->dir, .execd_path = INIT,
				      .disk_size_bytes = STORE_SIZE_BENCH };
	struct err e = { 0 };
	char path[128];
	int fd = open(INIT, O_RDONLY | O_CLOEXEC);

	(void)snprintf(b->dir, sizeof(b->dir), "/tmp/box_bench.XXXXXX");
	if (!mkdtemp(b->dir) || chmod(b->dir, 0755) < 0)
		die("make a folder", NULL);
	b->init = fd < 0 ? -1 : memfd_sealed_copy(fd, "init", 0, &e);
	if (b->init < 0)
		die(INIT, fd < 0 ? NULL : &e);
	(void)close(fd);
	if (unshare(CLONE_NEWNS) < 0 || mount_slave_all(&e) < 0) /* the store is mounted for us alone */
		die("leave the host's mounts", NULL);
	if (box_host_open(&b->host, &spec, &e) < 0)
		die("host", &e);
	(void)snprintf(path, sizeof(path), "%.64s/base", b->host.layers_path);
	if (mkdir(path, 0755) < 0)
		die(path, NULL);
}

static void clean_up(struct bench *b)
{
	int tmp = open("/tmp", O_PATH | O_CLOEXEC);
	struct err e = { 0 };

	if (cgroup_remove_top(&b->host.layout, PREFIX, 5000, &e) < 0)
		die("clean up", &e);
	box_host_done(&b->host);
	if (tree_remove(tmp, b->dir + sizeof("/tmp/") - 1, &e) < 0)
		die("clean up", &e);
	(void)close(b->init);
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
		floor_us[i] = floor_once(&b);
		wake_us[i] = box_once(&b, (unsigned)i % 100, &make_us[i], &destroy_us[i]);
	}
	clean_up(&b);
	report("box.wake.p50", percentile(wake_us, count, 50), percentile(floor_us, count, 50), "1.0");
	report("box.wake.p99", percentile(wake_us, count, 99), percentile(floor_us, count, 99), "2.0");
	report("box.slot.p50", percentile(make_us, count, 50), percentile(floor_us, count, 50), "null");
	report("box.destroy.p50", percentile(destroy_us, count, 50), percentile(floor_us, count, 50), "null");
	return 0;
}
