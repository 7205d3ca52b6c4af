// SPDX-License-Identifier: Apache-2.0
/* Real boxes, looked at from outside. Needs root and the static init that `make musl` builds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/err.h"
#include "box/disk.h"
#include "box/host.h"
#include "box/slot.h"
#include "sys/caps.h"
#include "sys/fd.h"
#include "sys/inode_test.h"
#include "sys/memfd.h"
#include "sys/mounts.h"
#include "sys/namespace.h"
#include "sys/tree.h"

#include "base/banned.h"

#define INIT "build/musl/bin/floor-init"

struct fixture {
	char dir[64], prefix[32];
	struct box_host host;
	struct slot slot;
	pid_t pid;
};

static bool can_run(void)
{
	return geteuid() == 0 && access(INIT, X_OK) == 0;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct box_host_spec spec = { .prefix = f->prefix, .state_dir = f->dir, .execd_path = INIT,
				      .disk_size_bytes = STORE_SIZE_MIN };
	char path[128];
	struct err e = { 0 };

	f->slot = SLOT_INIT;
	f->host = BOX_HOST_INIT;
	*state = f;
	if (!can_run())
		return 0;
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/slot_test.XXXXXX");
	(void)snprintf(f->prefix, sizeof(f->prefix), "osbtest%d", (int)getpid());
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(unshare(CLONE_NEWNS), 0); /* the store is mounted for us alone */
	assert_int_equal(mount_slave_all(&e), 0);
	if (box_host_open(&f->host, &spec, &e) < 0)
		fail_msg("%s", e.msg);
	(void)snprintf(path, sizeof(path), "%.64s/base", f->host.layers_path);
	assert_int_equal(mkdir(path, 0755), 0);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	int tmp = open("/tmp", O_PATH | O_CLOEXEC);
	struct err e = { 0 };

	if (can_run()) {
		assert_int_equal(slot_destroy(&f->host, &f->slot, &e), 0);
		if (f->pid > 0)
			(void)waitpid(f->pid, NULL, 0);
		assert_int_equal(cgroup_remove_top(&f->host.layout, f->prefix, 5000, &e), 0);
		box_host_done(&f->host);
		assert_int_equal(tree_remove(tmp, f->dir + sizeof("/tmp/") - 1, &e), 0);
	}
	(void)close(tmp);
	free(f);
	return 0;
}

static void start(struct fixture *f)
{
	static const struct slot_layer layers[] = { { .name = "base" } };
	struct err e = { 0 };
	AUTO_FD spec = memfd_sealed_bytes("spec", STR("{}"), &e);
	struct slot_order order = { .limits = { 64 << 20, 500, 50, 32 << 20 }, .layers = layers, .n_layers = 1, .spec = spec,
				    .hostname = "box" };

	if (slot_make(&f->host, 3, NULL, &f->slot, &e) < 0)
		fail_msg("%s", e.msg);
	f->pid = f->slot.pid;
	if (slot_wake(&f->host, &f->slot, &order, 10000, &e) < 0)
		fail_msg("%s", e.msg);
}

static void read_proc(struct fixture *f, const char *file, struct buf *b)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)f->pid, file);
	assert_int_equal(fd_read_file(AT_FDCWD, path, 65536, b, &(struct err){ 0 }), 0);
}

static void every_namespace_is_its_own(void **state) /* N1 */
{
	struct fixture *f = *state;
	static const enum namespace_kind kinds[] = { NAMESPACE_USER, NAMESPACE_MOUNT, NAMESPACE_PID, NAMESPACE_NET,
						     NAMESPACE_IPC,  NAMESPACE_UTS,   NAMESPACE_CGROUP };

	if (!can_run())
		skip();
	start(f);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		AUTO_FD theirs = namespace_of_process(f->slot.pidfd, kinds[i], &(struct err){ 0 });
		AUTO_FD ours = namespace_of_self(kinds[i], &(struct err){ 0 });

		assert_true(theirs >= 0 && ours >= 0);
		assert_int_not_equal(inode_of(theirs), inode_of(ours));
	}
}

static void nothing_is_left_of_its_privileges(void **state) /* N2, C1, C2, F1 */
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf status = BUF_INIT(65536), map = BUF_INIT(4096);
	struct caps caps;

	if (!can_run())
		skip();
	start(f);
	assert_int_equal(caps_read(f->pid, &caps, &(struct err){ 0 }), 0);
	assert_int_equal(caps.permitted, 0x800405fb);
	assert_int_equal(caps.effective, 0x800405fb);
	assert_int_equal(caps.bounding, 0x800405fb);
	assert_int_equal(caps.inheritable | caps.ambient, 0);
	read_proc(f, "status", &status);
	assert_non_null(strstr(buf_z(&status), "\nNoNewPrivs:\t1\n"));
	assert_non_null(strstr(buf_z(&status), "\nSeccomp:\t2\n"));
	assert_non_null(strstr(buf_z(&status), "\nGroups:\t \n"));
	assert_non_null(strstr(buf_z(&status), "\nNSpid:"));
	read_proc(f, "uid_map", &map);
	assert_int_equal(f->slot.id_base, 16 * 65536 + 3 * 65536);
	assert_non_null(strstr(buf_z(&map), " 0    1245184      65536"));
}

static void check_mounts(struct fixture *f)
{
	AUTO(buf_done) struct buf b = BUF_INIT(65536);
	static const char *const wanted[] = {
		" / / rw,nosuid,nodev,relatime - overlay ", " /proc rw,nosuid,nodev,noexec,", " /sys ro,nosuid,nodev,noexec,",
		" /dev rw,nosuid,noexec,", " /dev/pts rw,nosuid,noexec,", " /dev/shm rw,nosuid,nodev,noexec,",
		" /dev/mqueue rw,nosuid,nodev,noexec,", "/mask/file /proc/keys ro,", " /proc/sys ro,", "/mask/folder /sys/firmware ro,",
	};

	start(f);
	read_proc(f, "mountinfo", &b);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (!strstr(buf_z(&b), wanted[i]))
			fail_msg("no '%s' in\n%s", wanted[i], buf_z(&b));
	assert_null(strstr(buf_z(&b), " /tmp ")); /* nothing of the host's tree */
	assert_null(strstr(buf_z(&b), " shared:"));
}

static void remove_box(struct fixture *f)
{
	struct err e = { 0 };

	assert_int_equal(slot_destroy(&f->host, &f->slot, &e), 0);
	(void)waitpid(f->pid, NULL, 0);
	f->slot.number = 3;
	f->pid = 0;
}

/* Once for each way to make an overlay that this kernel has: from the one on that was found, all that older ones have. */
static void by_every_way(struct fixture *f, void (*fn)(struct fixture *f))
{
	for (int way = (int)f->host.overlay_way; way < OVERLAY_WAYS; way++) {
		f->host.overlay_way = (enum overlay_way)way;
		fn(f);
	}
}

static void check_mounts_and_remove(struct fixture *f)
{
	check_mounts(f);
	remove_box(f);
}

static void mounts_are_as_they_must_be(void **state) /* R1, R3, R4, R5 */
{
	struct fixture *f = *state;

	if (!can_run())
		skip();
	by_every_way(f, check_mounts_and_remove);
}

/* "base" and "other", each with a file of its name, in boxes with the host's /usr and in those without. */
static void make_images(const struct fixture *f)
{
	static const char *const names[] = { "base", "other" };
	AUTO_FD layers = open(f->host.layers_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		AUTO_FD layer = -1;
		char path[64];

		assert_true(mkdirat(layers, names[i], 0755) == 0 || errno == EEXIST);
		layer = openat(layers, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(mkdirat(layer, DISK_ROOT, 0755), 0);
		assert_int_equal(mkdirat(layer, DISK_ROOT "/usr", 0755), 0);
		(void)snprintf(path, sizeof(path), DISK_ROOT "/%s", names[i]);
		assert_int_equal(mknodat(layer, names[i], S_IFREG | 0644, 0), 0);
		assert_int_equal(mknodat(layer, path, S_IFREG | 0644, 0), 0);
	}
}

static int look(const struct fixture *f, const char *path, struct stat *st)
{
	char whole[128];

	(void)snprintf(whole, sizeof(whole), "/proc/%d/root/%s", (int)f->pid, path);
	return lstat(whole, st);
}

static size_t count_lines(const char *text, const char *part)
{
	size_t n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

/* Whatever a slot was made for, the box is what was ordered, and has no more mounts than any other. */
static void become_any_other(struct fixture *f)
{
	static const struct {
		const char *guess, *order;
		bool guess_usr, order_usr, is_eager;
	} rows[] = {
		{ "", "base", false, true, false },     { "base", "base", true, true, false },  { "base", "base", false, false, false },
		{ "base", "other", true, true, false }, { "base", "other", true, false, false }, { "other", "base", false, true, false },
		{ "", "base", true, true, true },       { "base", "base", true, true, true },   { "base", "base", false, false, true },
	};
	AUTO_FD spec = memfd_sealed_bytes("spec", STR("{}"), &(struct err){ 0 });
	size_t mounts[2] = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct slot_guess guess = { .limits = SLOT_LIMITS_DEFAULT, .has_host_usr = rows[i].guess_usr,
					    .is_eager = rows[i].is_eager };
		struct slot_layer layer = { 0 };
		struct slot_order order = { .limits = SLOT_LIMITS_DEFAULT, .layers = &layer, .n_layers = 1, .spec = spec,
					    .has_host_usr = rows[i].order_usr, .hostname = "box" };
		AUTO(buf_done) struct buf b = BUF_INIT(65536);
		const char *not_this = strcmp(rows[i].order, "base") == 0 ? "other" : "base";
		struct stat st;
		struct err e = { 0 };

		(void)snprintf(guess.layer, sizeof(guess.layer), "%s", rows[i].guess);
		(void)snprintf(layer.name, sizeof(layer.name), "%s", rows[i].order);
		if (slot_make(&f->host, 3, &guess, &f->slot, &e) < 0)
			fail_msg("%s", e.msg);
		f->pid = f->slot.pid;
		if (slot_wake(&f->host, &f->slot, &order, 10000, &e) < 0)
			fail_msg("row %zu: %s", i, e.msg);
		assert_int_equal(look(f, rows[i].order, &st), 0);
		assert_int_equal(st.st_uid, f->slot.id_base);
		assert_int_equal(look(f, not_this, &st), -1);
		assert_int_equal(look(f, "usr/bin", &st), rows[i].order_usr ? 0 : -1);
		assert_int_equal(look(f, "usr/" DISK_ROOT "/usr", &st), -1);
		read_proc(f, "mountinfo", &b);
		assert_non_null(strstr(buf_z(&b), "/mask/file /proc/keys ro,"));
		if (mounts[rows[i].order_usr] == 0)
			mounts[rows[i].order_usr] = count_lines(buf_z(&b), "\n");
		assert_int_equal(count_lines(buf_z(&b), "\n"), mounts[rows[i].order_usr]);
		remove_box(f);
	}
}

static void a_slot_for_one_image_becomes_any_other(void **state)
{
	struct fixture *f = *state;

	if (!can_run())
		skip();
	make_images(f);
	by_every_way(f, become_any_other);
}

/* "l0" to "l255", each with a file of its name. */
static void make_many(const struct fixture *f, struct slot_layer layers[SLOT_LAYERS_MAX])
{
	AUTO_FD dir = open(f->host.layers_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < SLOT_LAYERS_MAX; i++) {
		char path[64];

		(void)snprintf(layers[i].name, sizeof(layers[i].name), "l%zu", i);
		(void)snprintf(path, sizeof(path), "l%zu/l%zu", i, i);
		assert_true(mkdirat(dir, layers[i].name, 0755) == 0 || errno == EEXIST);
		assert_true(mknodat(dir, path, S_IFREG | 0644, 0) == 0 || errno == EEXIST);
	}
}

static void wake_on(struct fixture *f, const struct slot_layer *layers, size_t n)
{
	struct err e = { 0 };
	AUTO_FD spec = memfd_sealed_bytes("spec", STR("{}"), &e);
	struct slot_order order = { .limits = SLOT_LIMITS_DEFAULT, .layers = layers, .n_layers = n, .spec = spec, .hostname = "box" };

	if (slot_make(&f->host, 3, NULL, &f->slot, &e) < 0)
		fail_msg("%s", e.msg);
	f->pid = f->slot.pid;
	if (slot_wake(&f->host, &f->slot, &order, 10000, &e) < 0)
		fail_msg("%s", e.msg);
}

static void stand_on_many(struct fixture *f)
{
	static struct slot_layer layers[SLOT_LAYERS_MAX];
	struct stat st;

	make_many(f, layers);
	wake_on(f, layers, SLOT_LAYERS_MAX);
	for (size_t i = 0; i < SLOT_LAYERS_MAX; i++)
		assert_int_equal(look(f, layers[i].name, &st), 0);
	remove_box(f);
}

static void a_box_stands_on_as_many_layers_as_there_may_be(void **state) /* I2 */
{
	struct fixture *f = *state;

	if (!can_run())
		skip();
	by_every_way(f, stand_on_many);
}

/* From the top: l0 l1 l0 l2 l1 l2 l0, where l1 takes away what l0 has. */
static void a_layer_that_is_there_again_counts_where_it_is_uppermost(void **state)
{
	static const size_t order[][7] = { { 0, 1, 0, 2, 1, 2, 0 }, { 1, 0, 1, 0, 2, 0, 2 } };
	static struct slot_layer layers[SLOT_LAYERS_MAX];
	struct fixture *f = *state;
	struct slot_layer list[7];
	AUTO_FD dir = -1;
	struct stat st;

	if (!can_run())
		skip();
	make_many(f, layers);
	dir = open(f->host.layers_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mknodat(dir, "l1/l0", S_IFCHR, 0), 0);
	for (size_t row = 0; row < ARRAY_LEN(order); row++) {
		for (size_t i = 0; i < ARRAY_LEN(list); i++)
			list[i] = layers[order[row][i]];
		wake_on(f, list, ARRAY_LEN(list));
		assert_int_equal(look(f, "l0", &st), row == 0 ? 0 : -1);
		assert_int_equal(look(f, "l1", &st), 0);
		assert_int_equal(look(f, "l2", &st), 0);
		remove_box(f);
	}
}

/* What has become execd already is in its root, without any rights, and can be nothing else. */
static void an_eager_slot_is_what_it_was_made_for(void **state)
{
	struct fixture *f = *state;
	struct slot_guess guess = { .limits = SLOT_LIMITS_DEFAULT, .layer = "base", .is_eager = true };
	struct slot_guess like = guess, volumes = guess, other = guess, usr = guess, address = guess;
	struct slot_layer layer = { .name = "other" };
	AUTO_FD spec = memfd_sealed_bytes("spec", STR("{}"), &(struct err){ 0 });
	struct slot_order order = { .limits = SLOT_LIMITS_DEFAULT, .layers = &layer, .n_layers = 1, .spec = spec, .hostname = "box" };
	struct err e = { 0 };

	if (!can_run())
		skip();
	make_images(f);
	volumes.is_eager = false;
	(void)snprintf(other.layer, sizeof(other.layer), "other");
	usr.has_host_usr = address.has_address = true;
	assert_int_equal(slot_make(&f->host, 3, &guess, &f->slot, &e), 0);
	f->pid = f->slot.pid;
	assert_true(slot_fits(&f->slot, &like));
	assert_false(slot_fits(&f->slot, &volumes));
	assert_false(slot_fits(&f->slot, &other));
	assert_false(slot_fits(&f->slot, &usr));
	assert_false(slot_fits(&f->slot, &address));
	assert_int_equal(slot_wake(&f->host, &f->slot, &order, 10000, &e), -1);
	assert_non_null(strstr(e.msg, "not made for"));
}

static void a_frozen_box_stands_still(void **state)
{
	struct fixture *f = *state;

	if (!can_run())
		skip();
	start(f);
	assert_int_equal(slot_freeze(&f->host, &f->slot, &(struct err){ 0 }), 0);
	assert_int_equal(slot_is_frozen(&f->host, &f->slot, &(struct err){ 0 }), 1);
	assert_int_equal(slot_thaw(&f->host, &f->slot, &(struct err){ 0 }), 0);
	assert_int_equal(slot_is_frozen(&f->host, &f->slot, &(struct err){ 0 }), 0);
}

static void its_disk_holds_what_was_ordered(void **state) /* L3 */
{
	struct fixture *f = *state;
	static const char block[65536];
	uint64_t wrote = 0, used = 0;
	AUTO_FD file = -1;
	ssize_t n;

	if (!can_run())
		skip();
	start(f);
	file = openat(f->host.store.disks, "b3/upper/f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	while ((n = write(file, block, sizeof(block))) > 0)
		wrote += (uint64_t)n;
	assert_int_equal(errno, EDQUOT);
	assert_in_range(wrote, 31 << 20, 32 << 20);
	assert_int_equal(box_disk_usage(&f->host.store, "b3", &used, &(struct err){ 0 }), 0);
	assert_in_range(used, wrote, 32 << 20);
	assert_int_equal(slot_freeze(&f->host, &f->slot, &(struct err){ 0 }), 0); /* and is still in our hand */
}

static void a_layer_that_is_not_there_is_told(void **state)
{
	struct fixture *f = *state;
	static const struct slot_layer layers[] = { { .name = "nothing" } };
	struct err e = { 0 };
	AUTO_FD spec = -1;
	struct slot_order order = { .limits = { 64 << 20, 500, 50, 32 << 20 }, .layers = layers, .n_layers = 1, .hostname = "box" };

	if (!can_run())
		skip();
	spec = memfd_sealed_bytes("spec", STR("{}"), &e);
	order.spec = spec;
	assert_int_equal(slot_make(&f->host, 3, NULL, &f->slot, &e), 0);
	f->pid = f->slot.pid;
	assert_int_equal(slot_wake(&f->host, &f->slot, &order, 10000, &e), -1);
	assert_string_equal(e.msg, "open layer 'nothing': No such file or directory");
	assert_int_equal(e.code, ERR_NOT_FOUND);
}

/* A file of the box's user 1000 in FOLDER of a disk. */
static void put(const struct fixture *f, const char *path, uint64_t base)
{
	AUTO_FD fd = openat(f->host.store.disks, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);

	assert_true(fd >= 0);
	assert_int_equal(fchown(fd, (uid_t)base + 1000, (gid_t)base + 100), 0);
}

/* As it was when / and /usr had an overlay each. */
static void make_old(const struct fixture *f, const char *disk)
{
	AUTO_FD dir = openat(f->host.store.disks, disk, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(renameat(dir, "upper", dir, "usr-upper"), 0);
	assert_int_equal(renameat(dir, "usr-upper/" DISK_ROOT, dir, "upper"), 0);
}

static void stand_on_a_disk(struct fixture *f, bool is_old)
{
	struct slot_guess guess = { .limits = SLOT_LIMITS_DEFAULT, .has_host_usr = true };
	struct slot_layer layers[] = { { .name = "snap-1", .is_disk = true }, { .name = "base" } };
	struct err e = { 0 };
	struct slot first = SLOT_INIT;
	struct stat st;
	uint64_t base;
	AUTO_FD spec = memfd_sealed_bytes("spec", STR("{}"), &e);
	struct slot_order order = { .limits = { 64 << 20, 500, 50, 32 << 20 }, .layers = layers, .n_layers = 2, .spec = spec,
				    .has_host_usr = true, .hostname = "box" };

	if (!can_run())
		skip();
	make_images(f);
	assert_int_equal(slot_make(&f->host, 2, &guess, &first, &e), 0);
	base = first.id_base;
	put(f, "b2/upper/" DISK_ROOT "/file", base);
	put(f, "b2/upper/file", base);
	assert_int_equal(mknodat(f->host.store.disks, "b2/upper/share", S_IFCHR, 0), 0);
	assert_int_equal(fchmodat(f->host.store.disks, "b2/upper", 0711, 0), 0);
	assert_int_equal(fchmodat(f->host.store.disks, "b2/upper/" DISK_ROOT, 0751, 0), 0);
	if (is_old)
		make_old(f, "b2");
	assert_int_equal(box_disk_clone(&f->host.store, "b2", "snap-1", &e), 0);
	assert_int_equal(slot_destroy(&f->host, &first, &e), 0);
	(void)waitpid(first.pid, NULL, 0);
	for (int i = 0; i < 2; i++) /* and once more, when there is nothing to do */
		assert_int_equal(box_layer_join(&f->host.store, "snap-1", &e), 0);
	assert_int_equal(box_layer_id_base(&f->host.store, "snap-1", &layers[0].id_base, &e), 0);
	assert_int_equal(layers[0].id_base, base);

	assert_int_equal(slot_make(&f->host, 3, NULL, &f->slot, &e), 0);
	f->pid = f->slot.pid;
	if (slot_wake(&f->host, &f->slot, &order, 10000, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(look(f, "file", &st), 0);
	assert_int_equal(st.st_uid, f->slot.id_base + 1000);
	assert_int_equal(st.st_gid, f->slot.id_base + 100);
	assert_int_equal(look(f, "usr/file", &st), 0);
	assert_int_equal(st.st_uid, f->slot.id_base + 1000);
	assert_int_equal(look(f, "usr/bin", &st), 0);
	assert_int_equal(look(f, "usr/share", &st), -1);
	assert_int_equal(look(f, "usr", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0711);
	assert_int_equal(look(f, "", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0751);
	assert_int_equal(st.st_uid, f->slot.id_base);
}

static void a_box_on_the_disk_of_another_has_its_files_with_its_own_ids(void **state)
{
	stand_on_a_disk(*state, false);
}

static void so_has_one_by_the_mount_of_old_kernels(void **state)
{
	struct fixture *f = *state;

	f->host.overlay_way = OVERLAY_BY_MOUNT;
	stand_on_a_disk(f, false);
}

static void so_has_one_on_a_disk_of_an_earlier_version(void **state)
{
	stand_on_a_disk(*state, true);
}

static void an_unused_slot_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	char path[128];

	if (!can_run())
		skip();
	assert_int_equal(slot_make(&f->host, 3, NULL, &f->slot, &e), 0);
	f->pid = f->slot.pid;
	assert_int_equal(slot_destroy(&f->host, &f->slot, &e), 0);
	(void)snprintf(path, sizeof(path), "%s/boxes/b3", f->dir);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(faccessat(f->host.store.disks, "b3", F_OK, 0), -1);
	f->slot.number = 3;
	assert_int_equal(slot_destroy(&f->host, &f->slot, &e), 0); /* and again */
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_namespace_is_its_own),
		TEST(nothing_is_left_of_its_privileges),
		TEST(mounts_are_as_they_must_be),
		TEST(a_slot_for_one_image_becomes_any_other),
		TEST(a_box_stands_on_as_many_layers_as_there_may_be),
		TEST(a_layer_that_is_there_again_counts_where_it_is_uppermost),
		TEST(an_eager_slot_is_what_it_was_made_for),
		TEST(a_frozen_box_stands_still),
		TEST(its_disk_holds_what_was_ordered),
		TEST(a_layer_that_is_not_there_is_told),
		TEST(a_box_on_the_disk_of_another_has_its_files_with_its_own_ids),
		TEST(so_has_one_by_the_mount_of_old_kernels),
		TEST(so_has_one_on_a_disk_of_an_earlier_version),
		TEST(an_unused_slot_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
