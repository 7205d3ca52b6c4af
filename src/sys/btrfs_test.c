// SPDX-License-Identifier: Apache-2.0
#include "sys/btrfs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <linux/btrfs.h>
#include <sys/ioctl.h>

#include "sys/root_test.h"

#include "sys/image_test.h"

#include "base/banned.h"

#define MIB (1 << 20)
#define LEAF 65536 /* what some small files may take at most */

/* A mounted btrfs. */
static int prepare_bare(struct image *i, struct btrfs *b)
{
	struct err e = { 0 };
	int r = image_make(i), root;

	if (r == 0)
		r = image_format(i);
	if (r != 0)
		return r;
	root = image_mount(i, &e);
	if (root < 0)
		return CHILD_CANNOT;
	CHECK_OK(btrfs_open(b, root, &e), &e);
	CHECK(strlen(b->id) == 36);
	return 0;
}

/* With quotas. */
static int prepare(struct image *i, struct btrfs *b)
{
	struct err e = { 0 };
	int r = prepare_bare(i, b);

	if (r != 0)
		return r;
	CHECK_OK(btrfs_quota_enable(b, &e), &e);
	return 0;
}

/* With those that an older kernel has. */
static int prepare_full(struct image *i, struct btrfs *b)
{
	struct btrfs_ioctl_quota_ctl_args on = { .cmd = BTRFS_QUOTA_CTL_ENABLE };
	enum btrfs_quota quota;
	bool is_stale;
	struct err e = { 0 };
	int r = prepare_bare(i, b);

	if (r != 0)
		return r;
	CHECK_OK(btrfs_quota_read(b, &quota, &is_stale, &e), &e);
	CHECK(quota == BTRFS_QUOTA_OFF);
	CHECK(ioctl(b->fd, BTRFS_IOC_QUOTA_CTL, &on) == 0);
	CHECK_OK(btrfs_quota_rescan(b, &e), &e);
	CHECK_OK(btrfs_quota_read(b, &quota, &is_stale, &e), &e);
	CHECK(quota == BTRFS_QUOTA_FULL && !is_stale);
	return 0;
}

static int finish(struct image *i, struct btrfs *b)
{
	(void)close(b->fd);
	return image_remove(i) < 0;
}

/* How many bytes can be written until it is full, or -1 when something else is wrong. */
static int64_t fill(int dir, const char *name)
{
	AUTO_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	static char block[65536];
	int64_t total = 0;
	ssize_t n;

	memset(block, 'x', sizeof(block));
	while ((n = write(fd, block, sizeof(block))) > 0)
		total += n;
	return errno == EDQUOT ? total : -1;
}

static int check_limits(int (*prepare_fn)(struct image *, struct btrfs *))
{
	struct image i;
	struct btrfs b;
	struct err e = { 0 };
	enum btrfs_quota quota;
	bool is_stale;
	uint64_t id, used;
	int64_t wrote;
	int r = prepare_fn(&i, &b), disk;

	if (r != 0)
		return r;
	CHECK_OK(btrfs_quota_read(&b, &quota, &is_stale, &e), &e);
	CHECK(quota != BTRFS_QUOTA_OFF && !is_stale);
	CHECK_OK(btrfs_subvolume_make(b.fd, "a", 8 * MIB, false, &e), &e);
	disk = openat(b.fd, "a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(btrfs_subvolume_id(disk, &id, &e), &e);
	CHECK(id >= 256);
	wrote = fill(disk, "f");
	CHECK(wrote > 7 * MIB && wrote <= 8 * MIB);
	CHECK_OK(btrfs_usage(&b, id, &used, &e), &e);
	CHECK(used >= (uint64_t)wrote && used <= 8 * MIB + LEAF);
	CHECK_OK(btrfs_limit(disk, 16 * MIB, &e), &e); /* room again */
	wrote = fill(disk, "g");
	CHECK(wrote > 7 * MIB && wrote <= 8 * MIB);
	CHECK(fill(b.fd, "outside") < 0 && errno == ENOSPC); /* which nothing limits but the image itself */
	(void)close(disk);
	return finish(&i, &b);
}

static int limits(void *arg)
{
	(void)arg;
	return check_limits(prepare);
}

static int full_limits(void *arg)
{
	(void)arg;
	return check_limits(prepare_full);
}

static void a_limit_holds_to_the_mebibyte_and_can_be_changed(void **state)
{
	(void)state;
	WITH_IMAGE(limits);
}

static void so_it_does_with_the_quotas_of_older_kernels(void **state)
{
	(void)state;
	WITH_IMAGE(full_limits);
}

static int removal(void *arg)
{
	struct image i;
	struct btrfs b;
	struct err e = { 0 };
	int r = prepare(&i, &b), disk;

	(void)arg;
	if (r != 0)
		return r;
	CHECK(btrfs_subvolume_remove(b.fd, "a", &e) < 0 && e.code == ERR_NOT_FOUND);
	CHECK(mkdirat(b.fd, "plain", 0700) == 0);
	CHECK(btrfs_subvolume_remove(b.fd, "plain", &e) < 0 && e.code == ERR_INVALID);
	CHECK(btrfs_subvolume_make(b.fd, "plain", MIB, false, &e) < 0 && e.code == ERR_CONFLICT);
	CHECK(btrfs_subvolume_make(b.fd, "a/b", MIB, false, &e) < 0 && e.code == ERR_INVALID);
	CHECK(btrfs_subvolume_make(b.fd, "", MIB, false, &e) < 0 && e.code == ERR_INVALID);
	CHECK_OK(btrfs_subvolume_make(b.fd, "a", MIB, false, &e), &e);
	disk = openat(b.fd, "a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(btrfs_subvolume_make(disk, "nested", MIB, false, &e), &e);
	CHECK(btrfs_subvolume_remove(b.fd, "a", &e) < 0 && e.code == ERR_CONFLICT);
	CHECK_OK(btrfs_subvolume_remove(disk, "nested", &e), &e);
	CHECK(fill(disk, "f") > 0);
	CHECK_OK(btrfs_subvolume_remove(b.fd, "a", &e), &e); /* full and open */
	CHECK(faccessat(b.fd, "a", F_OK, 0) < 0);
	(void)close(disk);
	return finish(&i, &b);
}

static void what_is_removed_is_a_subvolume_without_others(void **state)
{
	(void)state;
	WITH_IMAGE(removal);
}

/* A limit for all of them, with one that was there before. */
static int check_total(int (*begin)(struct image *, struct btrfs *))
{
	struct image i;
	struct btrfs b;
	struct btrfs_total total;
	enum btrfs_quota quota;
	bool is_stale;
	struct err e = { 0 };
	int r = begin(&i, &b), one, two;
	int64_t first, second;

	if (r != 0)
		return r;
	CHECK_OK(btrfs_subvolume_make(b.fd, "one", 64 * MIB, false, &e), &e);
	one = openat(b.fd, "one", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(close(openat(one, "before", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) == 0 && syncfs(one) == 0);
	for (int k = 0; k < 2; k++) /* the second time there is nothing to do */
		CHECK_OK(btrfs_total_make(&b, 0, &e), &e);
	CHECK_OK(btrfs_quota_read(&b, &quota, &is_stale, &e), &e);
	if (is_stale)
		CHECK_OK(btrfs_quota_rescan(&b, &e), &e);
	CHECK_OK(btrfs_subvolume_make(b.fd, "two", 64 * MIB, true, &e), &e);
	two = openat(b.fd, "two", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(btrfs_total_limit(&b, 32 * MIB, &e), &e);
	first = fill(one, "f");
	CHECK(first > 16 * MIB && first <= 32 * MIB);
	second = MAX(fill(two, "f"), 0); /* not even a name may fit */
	CHECK(first + second <= 32 * MIB && syncfs(two) == 0);
	CHECK_OK(btrfs_total_usage(&b, &total, &e), &e);
	CHECK(total.bytes + total.unwritten > 24 * MIB && total.bytes + total.unwritten <= 32 * MIB);
	CHECK_OK(btrfs_total_limit(&b, 48 * MIB, &e), &e);
	second += fill(two, "g");
	CHECK(second > 8 * MIB && first + second <= 48 * MIB && syncfs(two) == 0);
	CHECK_OK(btrfs_total_limit(&b, 1, &e), &e); /* nothing more, but what is there can go */
	CHECK(fill(two, "h") <= 0 && unlinkat(two, "g", 0) == 0 && unlinkat(one, "f", 0) == 0);
	(void)close(one);
	(void)close(two);
	return finish(&i, &b);
}

static int total(void *arg)
{
	(void)arg;
	return check_total(prepare);
}

static int full_total(void *arg)
{
	(void)arg;
	return check_total(prepare_full);
}

static void all_together_have_a_limit(void **state)
{
	(void)state;
	WITH_IMAGE(total);
}

static void so_they_have_with_the_quotas_of_older_kernels(void **state)
{
	(void)state;
	WITH_IMAGE(full_total);
}

/* Folders with names of 255 bytes down to where no path leads. Returns the last. */
static int go_deep(int dir)
{
	char name[256];
	int at = dup(dir);

	memset(name, 'n', 255);
	name[255] = '\0';
	for (int i = 0; at >= 0 && i < 20; i++) {
		int next = mkdirat(at, name, 0700) == 0 ? openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

		(void)close(at);
		at = next;
	}
	return at;
}

/* A subvolume, in it a folder, in that the next one. */
static int make_chain(int dir, unsigned depth, struct err *e)
{
	AUTO_FD at = dup(dir);

	for (unsigned i = 0; i < depth; i++) {
		int next;

		CHECK_OK(btrfs_subvolume_make(at, "sub", MIB, false, e), e);
		CHECK(mkdirat(at, "sub/d", 0700) == 0 && mkdirat(at, "sub/d/full", 0700) == 0);
		next = openat(at, "sub/d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		(void)close(at);
		at = next;
	}
	return 0;
}

static int set_read_only(int dir, const char *path)
{
	AUTO_FD fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -1 : btrfs_set_writable(fd, false, &(struct err){ 0 });
}

/* L6: whatever somebody has left in one. */
static int nested(void *arg)
{
	struct image i;
	struct btrfs b;
	struct err e = { 0 };
	int r = prepare(&i, &b), disk, deep;
	char name[16];

	(void)arg;
	if (r != 0)
		return r;
	CHECK_OK(btrfs_subvolume_make(b.fd, "a", 64 * MIB, false, &e), &e);
	disk = openat(b.fd, "a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(btrfs_nested_remove(&b, disk, &e), &e);
	deep = go_deep(disk);
	CHECK(deep >= 0);
	for (int k = 0; k < 100; k++) {
		(void)snprintf(name, sizeof(name), "n%d", k);
		CHECK_OK(btrfs_subvolume_make(k % 2 ? deep : disk, name, MIB, false, &e), &e);
	}
	CHECK(make_chain(disk, 30, &e) == 0 && make_chain(deep, 3, &e) == 0);
	CHECK(set_read_only(disk, "sub") == 0 && set_read_only(disk, "sub/d/sub/d/sub") == 0 && set_read_only(deep, "sub") == 0);
	CHECK(btrfs_subvolume_remove(b.fd, "a", &e) < 0 && e.code == ERR_CONFLICT);
	CHECK_OK(btrfs_nested_remove(&b, disk, &e), &e);
	CHECK_OK(btrfs_subvolume_remove(b.fd, "a", &e), &e);
	(void)close(deep);
	(void)close(disk);
	return finish(&i, &b);
}

static void subvolumes_within_others_are_removed_wherever_they_are(void **state)
{
	(void)state;
	WITH_IMAGE(nested);
}

/* Blocks that are shared keep the quota of who wrote them first, and nobody asks again when they go. */
static int sweep(void *arg)
{
	struct btrfs_ioctl_vol_args copy = { .name = "copy" };
	struct image i;
	struct btrfs b;
	struct err e = { 0 };
	uint64_t first, other, used;
	size_t removed = 0, now;
	int r = prepare(&i, &b), disk;

	(void)arg;
	if (r != 0)
		return r;
	CHECK_OK(btrfs_subvolume_make(b.fd, "a", 4 * MIB, false, &e), &e);
	CHECK_OK(btrfs_subvolume_make(b.fd, "other", 4 * MIB, false, &e), &e);
	disk = openat(b.fd, "other", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(btrfs_subvolume_id(disk, &other, &e), &e);
	(void)close(disk);
	disk = openat(b.fd, "a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(btrfs_subvolume_id(disk, &first, &e), &e);
	CHECK(fill(disk, "f") > 0 && syncfs(disk) == 0);
	copy.fd = disk;
	CHECK(ioctl(b.fd, BTRFS_IOC_SNAP_CREATE, &copy) == 0);
	(void)close(disk);
	CHECK_OK(btrfs_subvolume_remove(b.fd, "a", &e), &e);
	CHECK_OK(btrfs_quota_sweep(&b, UINT64_MAX, &now, &e), &e);
	CHECK_OK(btrfs_subvolume_remove(b.fd, "copy", &e), &e);
	for (int tries = 0; btrfs_usage(&b, first, &used, &e) == 0; tries++) {
		CHECK(tries < 200 && ioctl(b.fd, BTRFS_IOC_SYNC) == 0); /* lets the kernel take them apart */
		(void)usleep(50000);
		CHECK_OK(btrfs_quota_sweep(&b, UINT64_MAX, &now, &e), &e);
		removed += now;
	}
	CHECK(e.code == ERR_NOT_FOUND && removed <= 2);
	CHECK_OK(btrfs_usage(&b, other, &used, &e), &e);
	return finish(&i, &b);
}

static void quotas_of_subvolumes_that_are_gone_are_swept(void **state)
{
	(void)state;
	WITH_IMAGE(sweep);
}

static int grow(void *arg)
{
	struct image i;
	struct btrfs b;
	struct err e = { 0 };
	char path[LOOPDEV_PATH_MAX];
	uint64_t bytes;
	int64_t before, after;
	int r = prepare(&i, &b), dev;

	(void)arg;
	if (r != 0)
		return r;
	(void)fill(b.fd, "f");
	before = lseek(openat(b.fd, "f", O_RDONLY | O_CLOEXEC), 0, SEEK_END);
	CHECK(ftruncate(i.file, 2 * IMAGE_BYTES) == 0);
	dev = loopdev_find(i.file, path, &e);
	CHECK_OK(dev, &e);
	CHECK_OK(loopdev_resize(dev, &bytes, &e), &e);
	CHECK_OK(btrfs_grow(&b, bytes, &e), &e);
	CHECK_OK(btrfs_grow(&b, bytes, &e), &e);
	(void)fill(b.fd, "g");
	after = lseek(openat(b.fd, "g", O_RDONLY | O_CLOEXEC), 0, SEEK_END);
	CHECK(before > IMAGE_BYTES / 2 && after > IMAGE_BYTES / 2);
	(void)close(dev);
	return finish(&i, &b);
}

static void a_file_system_grows_with_its_device(void **state)
{
	(void)state;
	WITH_IMAGE(grow);
}

static void another_file_system_is_told_apart(void **state)
{
	AUTO_FD proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e = { 0 };
	struct btrfs b;

	(void)state;
	assert_int_equal(btrfs_open(&b, proc, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	assert_int_equal(btrfs_open(&b, -1, &e), -1);
	assert_int_equal(e.sys, EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_limit_holds_to_the_mebibyte_and_can_be_changed),
		cmocka_unit_test(so_it_does_with_the_quotas_of_older_kernels),
		cmocka_unit_test(what_is_removed_is_a_subvolume_without_others),
		cmocka_unit_test(all_together_have_a_limit),
		cmocka_unit_test(so_they_have_with_the_quotas_of_older_kernels),
		cmocka_unit_test(subvolumes_within_others_are_removed_wherever_they_are),
		cmocka_unit_test(quotas_of_subvolumes_that_are_gone_are_swept),
		cmocka_unit_test(a_file_system_grows_with_its_device),
		cmocka_unit_test(another_file_system_is_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
