// SPDX-License-Identifier: Apache-2.0
/* Volumes on folders of the test's own, as the box's ids see them. */
#include "box/volume.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "box/store.h"
#include "box/wire.h"
#include "sys/mounts.h"
#include "sys/path.h"
#include "sys/root_test.h"
#include "sys/tree.h"
#include "sys/userns.h"

#include "base/banned.h"

#define BASE (UINT64_C(28992) * 65536)
#define ID "0b8a7f9e-vol"

struct place {
	char top[64], prefix[96], state[96];
};

static int make_place(void **state)
{
	static struct place p;

	(void)snprintf(p.top, sizeof(p.top), "/tmp/volume_test.XXXXXX");
	*state = &p;
	if (!mkdtemp(p.top))
		return -1;
	(void)snprintf(p.prefix, sizeof(p.prefix), "%s/prefix", p.top);
	(void)snprintf(p.state, sizeof(p.state), "%s/state", p.top);
	return mkdir(p.prefix, 0755) == 0 && mkdir(p.state, 0700) == 0 ? 0 : -1;
}

static int remove_place(void **state)
{
	const struct place *p = *state;

	return tree_remove(AT_FDCWD, p->top, &(struct err){ 0 });
}

static int open_host(const struct place *p, const char *path, bool is_read_only, struct err *e)
{
	struct wire_volume v = { .kind = WIRE_VOLUME_HOST, .is_read_only = is_read_only };
	const struct volume_spec spec = { .volume = &v, .prefix = p->prefix, .state_dir = p->state, .id_base = BASE };

	(void)snprintf(v.path, sizeof(v.path), "%s", path);
	return volume_open(&spec, e);
}

static int write_as(int dir, const char *name, uint64_t id)
{
	int fd;

	(void)setfsgid((gid_t)id);
	(void)setfsuid((uid_t)id);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	(void)setfsuid(0);
	(void)setfsgid(0);
	if (fd >= 0)
		(void)close(fd);
	return fd < 0 ? -errno : 0;
}

static bool owner_is(int dir, const char *name, uint64_t uid, uint64_t gid)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == uid && st.st_gid == gid;
}

/* ---- of the host ---- */

static int see_owner(struct place *p, uid_t uid, gid_t gid)
{
	AUTO_FD dir = open(p->prefix, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e = { 0 };
	AUTO_FD mount = -1;

	CHECK(fchown(dir, uid, gid) == 0);
	mount = open_host(p, "", false, &e);
	CHECK_OK(mount, &e);
	CHECK(owner_is(mount, ".", BASE, BASE));
	CHECK(write_as(mount, "root", BASE) == 0 && owner_is(dir, "root", uid, gid) && owner_is(mount, "root", BASE, BASE));
	CHECK(fchmod(dir, 0777) == 0);
	CHECK(write_as(mount, "other", BASE + 1000) == 0);
	CHECK(owner_is(dir, "other", VOLUME_ID_BASE + 1000, VOLUME_ID_BASE + 1000)); /* nobody of the host */
	CHECK(owner_is(mount, "other", BASE + 1000, BASE + 1000));
	CHECK(write_as(mount, "stranger", 0) == -EOVERFLOW && write_as(mount, "stranger", uid + 7) == -EOVERFLOW);
	CHECK(write_as(dir, "foreign", 33) == 0 && owner_is(mount, "foreign", 65534, 65534));
	CHECK(fchownat(mount, "other", (uid_t)(BASE + 65535), (gid_t)BASE, 0) == 0);
	CHECK(owner_is(dir, "other", VOLUME_ID_BASE + 65535, gid));
	return 0;
}

static int see_roots(void *arg)
{
	return see_owner(arg, 0, 0);
}

static int see_users(void *arg)
{
	return see_owner(arg, 1000, 100);
}

/* One that a user of another sandbox has made. */
static int see_sandboxes(void *arg)
{
	return see_owner(arg, (uid_t)VOLUME_ID_BASE + 1, (gid_t)VOLUME_ID_BASE + 65534);
}

static void the_owner_of_the_folder_is_the_root_of_the_box(void **state)
{
	NEEDS_ROOT(CLONE_NEWNS | CLONE_NEWUSER);
	assert_int_equal(in_child(see_roots, *state), 0);
}

static void so_is_an_ordinary_user(void **state)
{
	NEEDS_ROOT(CLONE_NEWNS | CLONE_NEWUSER);
	assert_int_equal(in_child(see_users, *state), 0);
}

static void so_is_a_user_of_another_box(void **state)
{
	NEEDS_ROOT(CLONE_NEWNS | CLONE_NEWUSER);
	assert_int_equal(in_child(see_sandboxes, *state), 0);
}

static int see_made(void *arg)
{
	struct place *p = arg;
	AUTO_FD dir = open(p->prefix, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e = { 0 };
	AUTO_FD mount = -1;
	struct stat st;

	CHECK(fchown(dir, 1000, 100) == 0);
	mount = open_host(p, "a/b", false, &e);
	CHECK_OK(mount, &e);
	CHECK(owner_is(dir, "a", 1000, 100) && owner_is(dir, "a/b", 1000, 100) && owner_is(mount, ".", BASE, BASE));
	CHECK(fstatat(dir, "a/b", &st, 0) == 0 && (st.st_mode & 07777) == 0755);
	CHECK(umask(077) == 077); /* ours is as it was */
	return 0;
}

static void what_is_missing_is_made_for_the_owner_of_what_is_there(void **state)
{
	NEEDS_ROOT(CLONE_NEWNS | CLONE_NEWUSER);
	(void)umask(077);
	assert_int_equal(in_child(see_made, *state), 0);
}

static bool is_refused(const struct place *p, const char *path, int fault)
{
	struct err e = { 0 };
	AUTO_FD mount = open_host(p, path, false, &e);

	if (mount < 0 && e.code == ERR_INVALID && e.sys == fault && !strchr(e.msg, '/'))
		return true;
	(void)dprintf(2, "'%s': %d %d %s\n", path, mount, e.sys, e.msg);
	return false;
}

static int see_refused(void *arg)
{
	struct place *p = arg;
	AUTO_FD dir = open(p->prefix, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct place above = *p, gone = *p;

	CHECK(mkdirat(dir, "real", 0755) == 0 && symlinkat("real", dir, "link") == 0 && symlinkat("/etc", dir, "out") == 0);
	CHECK(symlinkat("../..", dir, "real/up") == 0 && mkfifoat(dir, "fifo", 0600) == 0 && write_as(dir, "file", 0) == 0);
	CHECK(is_refused(p, "link", WIRE_FAULT_HOST_PATH) && is_refused(p, "out", WIRE_FAULT_HOST_PATH));
	CHECK(is_refused(p, "out/cron.d", WIRE_FAULT_HOST_PATH) && is_refused(p, "real/up", WIRE_FAULT_HOST_PATH));
	CHECK(is_refused(p, "..", WIRE_FAULT_HOST_PATH) && is_refused(p, "real/../..", WIRE_FAULT_HOST_PATH));
	CHECK(is_refused(p, "fifo", WIRE_FAULT_HOST_PATH) && is_refused(p, "file/x", WIRE_FAULT_HOST_PATH));
	(void)snprintf(above.prefix, sizeof(above.prefix), "%s", p->top);
	CHECK(is_refused(&above, "", WIRE_FAULT_HOST_PATH) && is_refused(&above, "state", WIRE_FAULT_HOST_PATH));
	CHECK(is_refused(&above, "state/new", WIRE_FAULT_HOST_PATH) && access(p->state, F_OK) == 0);
	(void)snprintf(above.prefix, sizeof(above.prefix), "%s", p->state);
	CHECK(mkdirat(AT_FDCWD, p->state, 0700) < 0);
	CHECK(is_refused(&above, "", WIRE_FAULT_HOST_PATH) && is_refused(&above, "db/x", WIRE_FAULT_HOST_PATH));
	CHECK(faccessat(AT_FDCWD, p->state, F_OK, 0) == 0 && rmdir(p->state) == 0); /* nothing was made in it */
	(void)snprintf(gone.prefix, sizeof(gone.prefix), "%s/none", p->prefix);
	CHECK(mkdir(p->state, 0700) == 0 && is_refused(&gone, "", WIRE_FAULT_HOST_CREATE));
	return 0;
}

static void symlinks_devices_and_our_own_files_are_no_volumes(void **state)
{
	NEEDS_ROOT(CLONE_NEWNS | CLONE_NEWUSER);
	assert_int_equal(in_child(see_refused, *state), 0);
}

static int see_read_only(void *arg)
{
	struct err e = { 0 };
	AUTO_FD mount = open_host(arg, "ro", true, &e);
	struct statvfs st;

	CHECK_OK(mount, &e);
	CHECK(fstatvfs(mount, &st) == 0 && (st.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV)) == (ST_RDONLY | ST_NOSUID | ST_NODEV));
	CHECK(write_as(mount, "x", BASE) == -EROFS);
	return 0;
}

static void a_read_only_one_is_so(void **state)
{
	NEEDS_ROOT(CLONE_NEWNS | CLONE_NEWUSER);
	assert_int_equal(in_child(see_read_only, *state), 0);
}

/* ---- named ---- */

static int see_named(void *arg)
{
	struct place *p = arg;
	const struct box_store_spec spec = { .state_dir = p->state, .is_unlimited = true };
	AUTO(box_store_done) struct box_store s = BOX_STORE_INIT;
	struct wire_volume v = { .kind = WIRE_VOLUME_NAMED, .id = ID };
	struct volume_spec a = { .volume = &v, .store = &s, .id_base = BASE }, b = a;
	struct err e = { 0 };
	AUTO_FD one = -1;
	AUTO_FD two = -1;

	b.id_base = BASE + USERNS_IDS;
	CHECK_OK(box_store_open(&s, &spec, &e), &e);
	CHECK(volume_open(&a, &e) < 0 && e.sys == WIRE_FAULT_NO_VOLUME);
	CHECK(volume_make(&s, ID, 1 << 20, &e) < 0 && e.code == ERR_UNAVAILABLE && e.sys == EDQUOT);
	CHECK_OK(volume_make(&s, ID, 0, &e), &e);
	one = volume_open(&a, &e);
	two = volume_open(&b, &e);
	CHECK(one >= 0 && two >= 0 && write_as(one, "x", BASE) == 0 && write_as(two, "y", BASE + USERNS_IDS) == 0);
	CHECK(owner_is(two, "x", BASE + USERNS_IDS, BASE + USERNS_IDS) && owner_is(one, "y", BASE, BASE));
	CHECK(owner_is(s.disks, "vol-" ID "/data/x", 0, 0));
	CHECK_OK(volume_make(&s, ID, 0, &e), &e); /* changes nothing */
	CHECK(owner_is(one, "x", BASE, BASE));
	memcpy(v.path, "sub/deep", 9);
	closep(&one);
	one = volume_open(&a, &e);
	CHECK_OK(one, &e);
	CHECK(owner_is(s.disks, "vol-" ID "/data/sub/deep", 0, 0) && owner_is(one, ".", BASE, BASE));
	CHECK(symlinkat("/etc", s.disks, "vol-" ID "/data/esc") == 0);
	memcpy(v.path, "esc/x", 6);
	CHECK(volume_open(&a, &e) < 0 && e.sys == WIRE_FAULT_SUB_PATH);
	CHECK_OK(volume_remove(&s, ID, &e), &e);
	CHECK_OK(volume_remove(&s, ID, &e), &e);
	CHECK(faccessat(s.disks, "vol-" ID, F_OK, 0) < 0);
	return 0;
}

static void a_named_one_has_the_ids_of_every_box(void **state)
{
	NEEDS_ROOT(CLONE_NEWNS | CLONE_NEWUSER);
	assert_int_equal(in_child(see_named, *state), 0);
}

static int see_swept(void *arg)
{
	struct place *p = arg;
	const struct box_store_spec spec = { .state_dir = p->state, .is_unlimited = true };
	AUTO(box_store_done) struct box_store s = BOX_STORE_INIT;
	struct err e = { 0 };

	CHECK_OK(box_store_open(&s, &spec, &e), &e);
	CHECK_OK(volume_make(&s, ID, 0, &e), &e);
	CHECK(mkdirat(s.disks, "new-vol-1", 0700) == 0 && mkdirat(s.disks, "gone-vol-2", 0700) == 0);
	CHECK(mkdirat(s.disks, "gone-vol-2/data", 0700) == 0 && mkdirat(s.disks, "b7", 0700) == 0);
	CHECK_OK(volumes_sweep(&s, clock_wall_us() - US_PER_S, &e), &e); /* they are too young */
	CHECK(faccessat(s.disks, "new-vol-1", F_OK, 0) == 0 && faccessat(s.disks, "gone-vol-2", F_OK, 0) == 0);
	CHECK_OK(volumes_sweep(&s, STORE_ALL, &e), &e);
	CHECK(faccessat(s.disks, "new-vol-1", F_OK, 0) < 0 && faccessat(s.disks, "gone-vol-2", F_OK, 0) < 0);
	CHECK(faccessat(s.disks, "b7", F_OK, 0) == 0 && faccessat(s.disks, "vol-" ID "/data", F_OK, 0) == 0);
	return 0;
}

static void only_what_was_cut_off_is_swept(void **state)
{
	NEEDS_ROOT(CLONE_NEWNS | CLONE_NEWUSER);
	assert_int_equal(in_child(see_swept, *state), 0);
}

/* L6: what cannot be removed is not told as removed, however often somebody asks, and goes when it can. */
static int see_stuck(void *arg)
{
	struct place *p = arg;
	const struct box_store_spec spec = { .state_dir = p->state, .is_unlimited = true };
	AUTO(box_store_done) struct box_store s = BOX_STORE_INIT;
	struct err e = { 0 };
	char at[160];

	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK_OK(mount_slave_all(&e), &e);
	CHECK_OK(box_store_open(&s, &spec, &e), &e);
	CHECK_OK(volume_make(&s, ID, 0, &e), &e);
	(void)snprintf(at, sizeof(at), "%s/vol-" ID "/data", s.disks_path);
	CHECK(mount("none", at, "tmpfs", 0, NULL) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(volume_remove(&s, ID, &e) < 0);
	CHECK(volumes_sweep(&s, STORE_ALL, &e) < 0 && faccessat(s.disks, "vol-" ID, F_OK, 0) < 0);
	(void)snprintf(at, sizeof(at), "%s/gone-vol-" ID "/data", s.disks_path);
	CHECK(umount2(at, MNT_DETACH) == 0);
	CHECK_OK(volume_remove(&s, ID, &e), &e);
	CHECK(faccessat(s.disks, "gone-vol-" ID, F_OK, 0) < 0);
	return 0;
}

static void what_cannot_be_removed_is_not_told_as_removed(void **state)
{
	NEEDS_ROOT(CLONE_NEWNS | CLONE_NEWUSER);
	assert_int_equal(in_child(see_stuck, *state), 0);
}

/* ---- in the box ---- */

struct root {
	int root, stage;
};

/* A root with what a stage has put into it, each on a file system of its own. */
static int make_root(const struct place *p, struct root *r, struct err *e)
{
	static const char *const names[] = { "proc", "sys", "dev", "dev/pts", "dev/shm", "dev/mqueue" };
	const struct mount_spec tmpfs = { "tmpfs", NULL, NULL, 0, 0 };
	AUTO_FD at = -1;

	if (unshare(CLONE_NEWNS) < 0 || mount_private_all(e) < 0) /* of this child alone */
		return -1;
	at = open(p->prefix, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r->stage = mount_make(&tmpfs, e);
	r->root = mount_make(&tmpfs, e);
	if (r->stage < 0 || r->root < 0 || mount_move(r->root, at, e) < 0 || fchownat(r->root, "", (uid_t)BASE, (gid_t)BASE, AT_EMPTY_PATH) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		AUTO_FD fd = mount_make(&tmpfs, e);
		AUTO_FD target = -1;

		if (fd < 0 || (mkdirat(r->root, names[i], 0755) < 0 && errno != EEXIST))
			return err_sys(e, errno, "make '%s'", names[i]);
		target = openat(r->root, names[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (mount_move(fd, target, e) < 0)
			return -1;
	}
	return 0;
}

static int place_one(const struct place *p, const struct root *r, const char *source, const char *path, struct err *e)
{
	struct place from = *p;
	AUTO_FD mount = -1;

	(void)snprintf(from.prefix, sizeof(from.prefix), "%s/source", p->top);
	mount = open_host(&from, source, false, e);
	return mount < 0 ? -1 : volume_place(r->root, r->stage, mount, path, BASE, e);
}

static bool is_no_place(const struct place *p, const struct root *r, const char *path)
{
	struct err e = { 0 };

	return place_one(p, r, "a", path, &e) < 0 && e.sys == WIRE_FAULT_MOUNT_PATH && strstr(e.msg, path);
}

static int see_places(void *arg)
{
	const struct place *p = arg;
	struct err e = { 0 };
	struct root r;
	char source[96];
	struct stat st;

	(void)snprintf(source, sizeof(source), "%s/source", p->top);
	CHECK(mkdir(source, 0755) == 0);
	CHECK_OK(make_root(p, &r, &e), &e);
	CHECK_OK(place_one(p, &r, "a", "/mnt/deep/a", &e), &e);
	CHECK(owner_is(r.root, "mnt", BASE, BASE) && owner_is(r.root, "mnt/deep", BASE, BASE));
	CHECK(fstatat(r.root, "mnt/deep", &st, 0) == 0 && (st.st_mode & 07777) == 0755);
	CHECK(write_as(r.root, "mnt/deep/a/x", BASE) == 0);
	(void)snprintf(source, sizeof(source), "%s/source/a/x", p->top);
	CHECK(access(source, F_OK) == 0);
	CHECK_OK(place_one(p, &r, "b", "/mnt/deep/a/inner/b", &e), &e); /* in another one, where its folders are made */
	CHECK(owner_is(r.root, "mnt/deep/a/inner", BASE, BASE));
	CHECK(symlinkat("/mnt", r.root, "link") == 0);
	CHECK_OK(place_one(p, &r, "c", "/link/c", &e), &e);
	CHECK(owner_is(r.root, "mnt/c", BASE, BASE));
	CHECK_OK(place_one(p, &r, "a/x", "/etc/one.conf", &e), &e); /* a file on one that is made */
	CHECK(fstatat(r.root, "etc/one.conf", &st, 0) == 0 && S_ISREG(st.st_mode) && owner_is(r.root, "etc", BASE, BASE));
	CHECK(symlinkat("/proc", r.root, "p") == 0 && symlinkat("../../dev/shm", r.root, "s") == 0 && symlinkat("/", r.root, "top") == 0);
	CHECK(symlinkat("nowhere", r.root, "dangling") == 0 && write_as(r.root, "file", BASE) == 0);
	CHECK(is_no_place(p, &r, "/p") && is_no_place(p, &r, "/p/made") && is_no_place(p, &r, "/s") && is_no_place(p, &r, "/dev/x"));
	CHECK(is_no_place(p, &r, "/proc") && is_no_place(p, &r, "/top") && is_no_place(p, &r, "/top/p") && is_no_place(p, &r, "/file"));
	CHECK(is_no_place(p, &r, "/dangling") && is_no_place(p, &r, "/file/x"));
	return 0;
}

static void volumes_go_where_they_may_in_the_root(void **state)
{
	NEEDS_ROOT(CLONE_NEWNS | CLONE_NEWUSER);
	assert_int_equal(in_child(see_places, *state), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_place)
	const struct CMUnitTest tests[] = {
		TEST(the_owner_of_the_folder_is_the_root_of_the_box),
		TEST(so_is_an_ordinary_user),
		TEST(so_is_a_user_of_another_box),
		TEST(what_is_missing_is_made_for_the_owner_of_what_is_there),
		TEST(symlinks_devices_and_our_own_files_are_no_volumes),
		TEST(a_read_only_one_is_so),
		TEST(a_named_one_has_the_ids_of_every_box),
		TEST(only_what_was_cut_off_is_swept),
		TEST(what_cannot_be_removed_is_not_told_as_removed),
		TEST(volumes_go_where_they_may_in_the_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
