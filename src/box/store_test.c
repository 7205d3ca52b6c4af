// SPDX-License-Identifier: Apache-2.0
#include "box/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <linux/btrfs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>

#include "sys/root_test.h"

#include "sys/image_test.h"

#include "base/clock.h"

#include "base/banned.h"

#define MIB (UINT64_C(1) << 20)

/* A state directory, in mounts of our own. */
static int prepare(struct image *i)
{
	int r = access(IMAGE_MKFS, X_OK) < 0 || access("/dev/loop-control", W_OK) < 0 ? CHILD_CANNOT : image_make(i);

	return r;
}

static bool fill(int dir, const char *name)
{
	AUTO_FD fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	static const char block[65536];

	while (fd >= 0 && write(fd, block, sizeof(block)) > 0)
		;
	return errno == EDQUOT;
}

static int image_store(void *arg)
{
	struct image i;
	struct err e = { 0 };
	struct box_store s = BOX_STORE_INIT;
	struct box_store_spec spec = { .state_dir = i.dir, .size_bytes = STORE_SIZE_MIN };
	uint64_t used;
	int r = prepare(&i), disk;

	(void)arg;
	if (r != 0)
		return r;
	CHECK_OK(box_store_open(&s, &spec, &e), &e);
	CHECK(box_store_has_limits(&s) && strcmp(box_store_driver(&s), "btrfs") == 0);
	disk = box_disk_make(&s, "b1", 8 * MIB, &e);
	CHECK_OK(disk, &e);
	CHECK(box_disk_make(&s, "b1", 8 * MIB, &e) < 0 && e.code == ERR_CONFLICT);
	CHECK(fill(disk, "f"));
	CHECK_OK(box_disk_usage(&s, "b1", &used, &e), &e);
	CHECK(used > 7 * MIB && used <= 8 * MIB);
	CHECK_OK(box_disk_limit(&s, "b1", 16 * MIB, &e), &e);
	CHECK(fill(disk, "g"));
	CHECK_OK(box_disk_usage(&s, "b1", &used, &e), &e);
	CHECK(used > 15 * MIB && used <= 16 * MIB);
	(void)close(disk);
	box_store_done(&s); /* another maker finds it as it was, larger if it says so */
	spec.size_bytes = 2 * STORE_SIZE_MIN;
	CHECK_OK(box_store_open(&s, &spec, &e), &e);
	CHECK_OK(box_disk_usage(&s, "b1", &used, &e), &e);
	CHECK(used > 15 * MIB && used <= 16 * MIB);
	CHECK_OK(box_disk_remove(&s, "b1", &e), &e);
	CHECK_OK(box_disk_remove(&s, "b1", &e), &e);
	CHECK(box_disk_usage(&s, "b1", &used, &e) < 0 && e.code == ERR_NOT_FOUND);
	CHECK(mkdirat(s.disks, "b2", 0700) == 0); /* no disk, but its name */
	CHECK_OK(box_disk_remove(&s, "b2", &e), &e);
	CHECK(faccessat(s.disks, "b2", F_OK, 0) < 0);
	box_store_done(&s);
	return image_remove(&i) < 0;
}

static void disks_in_an_image_have_limits_and_outlive_their_maker(void **state)
{
	(void)state;
	WITH_IMAGE(image_store);
}

static int growing_store(void *arg)
{
	struct image i;
	struct err e = { 0 };
	struct box_store s = BOX_STORE_INIT;
	struct box_store_spec spec = { .state_dir = i.dir, .size_bytes = STORE_SIZE_MIN };
	struct statvfs small, large, same;
	int r = prepare(&i);

	(void)arg;
	if (r != 0)
		return r;
	CHECK_OK(box_store_open(&s, &spec, &e), &e);
	CHECK(fstatvfs(s.disks, &small) == 0);
	box_store_done(&s);
	spec.size_bytes = 4 * STORE_SIZE_MIN;
	CHECK_OK(box_store_open(&s, &spec, &e), &e);
	CHECK(fstatvfs(s.disks, &large) == 0);
	CHECK(large.f_blocks == 4 * small.f_blocks);
	box_store_done(&s);
	spec.size_bytes = STORE_SIZE_MIN;
	CHECK_OK(box_store_open(&s, &spec, &e), &e);
	CHECK(fstatvfs(s.disks, &same) == 0 && same.f_blocks == large.f_blocks);
	box_store_done(&s);
	spec.size_bytes = STORE_SIZE_MIN - 1;
	CHECK(box_store_open(&s, &spec, &e) < 0 && e.code == ERR_INVALID);
	return image_remove(&i) < 0;
}

static void an_image_grows_and_never_shrinks(void **state)
{
	(void)state;
	WITH_IMAGE(growing_store);
}

/* What a killed maker leaves is neither used nor in the way. */
static int half_made_store(void *arg)
{
	struct image i;
	struct err e = { 0 };
	struct box_store s = BOX_STORE_INIT;
	struct box_store_spec spec = { .state_dir = i.dir, .size_bytes = STORE_SIZE_MIN };
	int r = prepare(&i), dir, file;

	(void)arg;
	if (r != 0)
		return r;
	dir = open(i.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	file = openat(dir, "disk.img.new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(write(file, "half", 4) == 4);
	CHECK_OK(box_store_open(&s, &spec, &e), &e);
	CHECK(faccessat(dir, "disk.img.new", F_OK, 0) < 0);
	box_store_done(&s);
	CHECK(unlinkat(dir, "disk.img", 0) == 0); /* and one that is none is named */
	file = openat(dir, "disk.img", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(ftruncate(file, (off_t)STORE_SIZE_MIN) == 0);
	CHECK(box_store_open(&s, &spec, &e) < 0 && strstr(e.msg, "--unsafe-no-disk-limit") && strstr(e.msg, "'disk.img' on '/dev/loop"));
	(void)close(file);
	(void)close(dir);
	return image_remove(&i) < 0;
}

static void a_half_made_image_is_made_anew_and_a_broken_one_refused(void **state)
{
	(void)state;
	WITH_IMAGE(half_made_store);
}

/* The state directory is on a btrfs with quotas: no image is needed. */
static int store_in_place(void *arg)
{
	struct image i;
	struct btrfs b;
	struct err e = { 0 };
	struct box_store s = BOX_STORE_INIT;
	struct box_store_spec spec = { .state_dir = i.at };
	struct btrfs_ioctl_quota_ctl_args off = { .cmd = BTRFS_QUOTA_CTL_DISABLE };
	int r = prepare(&i), root, disk;

	(void)arg;
	if (r == 0)
		r = image_format(&i);
	if (r != 0)
		return r;
	root = image_mount(&i, &e);
	CHECK_OK(root, &e);
	CHECK_OK(btrfs_open(&b, root, &e), &e);
	CHECK_OK(btrfs_quota_enable(&b, &e), &e);
	CHECK_OK(box_store_open(&s, &spec, &e), &e);
	CHECK(box_store_has_limits(&s) && faccessat(root, "disk.img", F_OK, 0) < 0);
	disk = box_disk_make(&s, "b1", 8 * MIB, &e);
	CHECK_OK(disk, &e);
	CHECK(fill(disk, "f"));
	CHECK_OK(box_disk_remove(&s, "b1", &e), &e);
	(void)close(disk);
	CHECK(ioctl(root, BTRFS_IOC_QUOTA_CTL, &off) == 0); /* under our feet */
	CHECK(box_disk_make(&s, "b2", 8 * MIB, &e) < 0 && e.sys == ENOTCONN);
	CHECK_OK(box_disk_remove(&s, "b2", &e), &e);
	(void)close(root);
	box_store_done(&s);
	return image_remove(&i) < 0;
}

static void a_btrfs_with_quotas_is_used_in_place(void **state)
{
	(void)state;
	WITH_IMAGE(store_in_place);
}

static void plain_folders_have_no_limit_and_say_so(void **state)
{
	char dir[] = "/tmp/store_test.XXXXXX";
	AUTO(box_store_done) struct box_store s = BOX_STORE_INIT;
	AUTO_FD tmp = open("/tmp", O_PATH | O_CLOEXEC);
	AUTO_FD disk = -1;
	struct err e = { 0 };
	uint64_t used = 1;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(box_store_open(&s, &(struct box_store_spec){ .state_dir = dir, .is_unlimited = true }, &e), 0);
	assert_false(box_store_has_limits(&s));
	disk = box_disk_make(&s, "b1", 8 * MIB, &e);
	assert_true(disk >= 0);
	assert_int_equal(box_disk_limit(&s, "b1", 8 * MIB, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	assert_int_equal(e.sys, EDQUOT);
	assert_int_equal(box_disk_usage(&s, "b1", &used, &e), 0);
	assert_int_equal(used, 0);
	assert_int_equal(box_disk_remove(&s, "b1", &e), 0);
	assert_int_equal(faccessat(s.disks, "b1", F_OK, 0), -1);
	assert_int_equal(tree_remove(tmp, dir + sizeof("/tmp/") - 1, &e), 0);
}

#define BASE (UINT64_C(17) << 16)

/* A disk with something in it, cloned: what is written afterwards is not in the clone. */
static int clone_on(const struct box_store *s)
{
	struct err e = { 0 };
	AUTO_FD layers = open(s->layers_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD disk = box_disk_make(s, "b1", 64 * MIB, &e);
	struct stat st;
	uint64_t base = 0;

	CHECK_OK(disk, &e);
	CHECK(mkdirat(disk, "upper", 0755) == 0 && mkdirat(disk, "upper/d", 0700) == 0);
	CHECK(fchownat(disk, "upper", BASE + 1000, BASE, 0) == 0); /* the box's root gave it away */
	CHECK_OK(box_disk_flush(s, "b1", &e), &e);
	CHECK_OK(box_disk_clone(s, "b1", "snap-1", &e), &e);
	CHECK(mkdirat(disk, "upper/later", 0700) == 0);
	CHECK_OK(box_disk_clone_finish(s, "snap-1", &e), &e);
	CHECK(box_disk_clone(s, "b1", "snap-1", &e) < 0 && e.code == ERR_CONFLICT);
	CHECK(fstatat(layers, "snap-1/upper/d", &st, 0) == 0 && S_ISDIR(st.st_mode));
	CHECK(fstatat(layers, "snap-1/upper/later", &st, 0) < 0);
	CHECK_OK(box_layer_id_base(s, "snap-1", &base, &e), &e);
	CHECK(base == BASE);
	CHECK(box_layer_id_base(s, "snap-2", &base, &e) < 0 && e.code == ERR_NOT_FOUND);
	CHECK_OK(box_disk_remove(s, "b1", &e), &e);
	CHECK(fstatat(layers, "snap-1/upper/d", &st, 0) == 0);
	CHECK(mkdirat(layers, "part-snap-3", 0700) == 0 && mkdirat(layers, "part-snap-3/x", 0700) == 0);
	CHECK_OK(box_layers_sweep(s, clock_wall_us() - US_PER_S, &e), &e); /* it is too young */
	CHECK(fstatat(layers, "part-snap-3", &st, 0) == 0);
	CHECK_OK(box_layers_sweep(s, STORE_ALL, &e), &e);
	CHECK(fstatat(layers, "part-snap-3", &st, 0) < 0 && fstatat(layers, "snap-1", &st, 0) == 0);
	CHECK_OK(box_layer_remove(s, "snap-1", &e), &e);
	CHECK_OK(box_layer_remove(s, "snap-1", &e), &e);
	CHECK(fstatat(layers, "snap-1", &st, 0) < 0);
	return 0;
}

/* The disk of a box that had the host's /usr in an overlay of its own. */
static int clone_old(const struct box_store *s, const char *name, const char *layer)
{
	struct err e = { 0 };
	AUTO_FD disk = box_disk_make(s, name, 64 * MIB, &e);

	CHECK_OK(disk, &e);
	CHECK(mkdirat(disk, "upper", 0755) == 0 && mkdirat(disk, "upper/root", 0700) == 0);
	CHECK(mkdirat(disk, "usr-upper", 0755) == 0 && mkdirat(disk, "usr-upper/bin", 0700) == 0);
	CHECK_OK(box_disk_clone(s, name, layer, &e), &e);
	CHECK_OK(box_disk_clone_finish(s, layer, &e), &e);
	CHECK_OK(box_disk_remove(s, name, &e), &e);
	return 0;
}

static int nothing(int layer)
{
	(void)layer;
	return 0;
}

static int cut_off(int layer)
{
	return renameat(layer, "upper", layer, "usr-upper/.root");
}

static int own_root(int layer)
{
	return mkdirat(layer, "usr-upper/.root", 0755) < 0 ? -1 : mkdirat(layer, "usr-upper/.root/mine", 0755);
}

static int join_on(const struct box_store *s)
{
	static int (*const changes[])(int) = { nothing, cut_off, own_root };
	AUTO_FD layers = open(s->layers_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e = { 0 };
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		AUTO_FD layer = -1;

		CHECK(clone_old(s, "b2", "snap-2") == 0);
		layer = openat(layers, "snap-2", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(!box_store_has_limits(s) || btrfs_set_writable(layer, true, &e) == 0);
		CHECK(changes[i](layer) == 0);
		CHECK_OK(box_layer_join(s, "snap-2", &e), &e);
		CHECK_OK(box_layer_join(s, "snap-2", &e), &e); /* nothing is left to do */
		CHECK(fstatat(layers, "snap-2/upper/bin", &st, 0) == 0 && fstatat(layers, "snap-2/upper/.root/root", &st, 0) == 0);
		CHECK(fstatat(layers, "snap-2/usr-upper", &st, 0) < 0 && fstatat(layers, "snap-2/upper/.root/mine", &st, 0) < 0);
		CHECK(!box_store_has_limits(s) || (mkdirat(layers, "snap-2/more", 0700) < 0 && errno == EROFS));
		CHECK_OK(box_layer_remove(s, "snap-2", &e), &e);
	}
	CHECK(box_layer_join(s, "snap-2", &e) < 0 && e.code == ERR_NOT_FOUND);
	return 0;
}

static int clones_in_an_image(void *arg)
{
	struct image i;
	struct err e = { 0 };
	struct box_store s = BOX_STORE_INIT;
	struct box_store_spec spec = { .state_dir = i.dir, .size_bytes = STORE_SIZE_MIN };
	int r = prepare(&i);

	(void)arg;
	if (r != 0)
		return r;
	CHECK_OK(box_store_open(&s, &spec, &e), &e);
	CHECK(clone_on(&s) == 0 && join_on(&s) == 0);
	box_store_done(&s);
	return image_remove(&i) < 0;
}

static void clones_of_btrfs_disks_stay_and_old_ones_are_joined(void **state)
{
	(void)state;
	WITH_IMAGE(clones_in_an_image);
}

static void clones_of_plain_folders_stay_and_old_ones_are_joined(void **state)
{
	char dir[] = "/tmp/store_test.XXXXXX";
	AUTO(box_store_done) struct box_store s = BOX_STORE_INIT;
	AUTO_FD tmp = open("/tmp", O_PATH | O_CLOEXEC);
	struct err e = { 0 };

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_non_null(mkdtemp(dir));
	assert_int_equal(box_store_open(&s, &(struct box_store_spec){ .state_dir = dir, .is_unlimited = true }, &e), 0);
	assert_int_equal(clone_on(&s), 0);
	assert_int_equal(join_on(&s), 0);
	assert_int_equal(tree_remove(tmp, dir + sizeof("/tmp/") - 1, &e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(disks_in_an_image_have_limits_and_outlive_their_maker),
		cmocka_unit_test(an_image_grows_and_never_shrinks),
		cmocka_unit_test(a_half_made_image_is_made_anew_and_a_broken_one_refused),
		cmocka_unit_test(a_btrfs_with_quotas_is_used_in_place),
		cmocka_unit_test(plain_folders_have_no_limit_and_say_so),
		cmocka_unit_test(clones_of_btrfs_disks_stay_and_old_ones_are_joined),
		cmocka_unit_test(clones_of_plain_folders_stay_and_old_ones_are_joined),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
