// SPDX-License-Identifier: Apache-2.0
#include "sys/overlay.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/fd.h"
#include "sys/mounts.h"
#include "sys/namespace.h"
#include "sys/root_test.h"
#include "sys/userns.h"

#include "base/banned.h"

#define BASE 1900019712ULL /* 28992 * 65536 */
#define WAY_FOUND 100      /* what find_task() returns, from the first way on */
#define CONFIG_FD 5        /* of fsconfig() */

/* A child of its own with a tmpfs at TOP that ends with it. */
struct place {
	char top[64];
	int fd; /* the root of the tmpfs */
	enum overlay_way way;
	int (*fn)(struct place *p, struct err *e);
};

static int make_place(void **state)
{
	static struct place p;

	(void)snprintf(p.top, sizeof(p.top), "/tmp/overlay_test.XXXXXX");
	*state = &p;
	return mkdtemp(p.top) ? 0 : -1;
}

static int remove_place(void **state)
{
	struct place *p = *state;

	return rmdir(p->top); /* which fails while anything is left in or on it */
}

static int run_task(void *arg)
{
	struct place *p = arg;
	struct mount_option size = MOUNT_TEXT("size", "4m");
	struct mount_spec sp = { "tmpfs", "stage", &size, 1, 0 };
	struct err e = { 0 };
	AUTO_FD target = -1;

	CHECK(unshare(CLONE_NEWNS) == 0);
	CHECK_OK(mount_private_all(&e), &e);
	target = open(p->top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	p->fd = mount_make(&sp, &e);
	CHECK_OK(p->fd, &e);
	CHECK_OK(mount_move(p->fd, target, &e), &e);
	CHECK(mkdirat(p->fd, "place", 0700) == 0);
	return p->fn(p, &e);
}

static void run(struct place *p, int (*fn)(struct place *, struct err *))
{
	int r;

	p->fn = fn;
	r = in_child(run_task, p);
	if (r == CHILD_CANNOT)
		skip();
	assert_int_equal(r, 0);
}

static int find_task(struct place *p, struct err *e)
{
	enum overlay_way way = OVERLAY_WAYS;

	CHECK_OK(overlay_find_way(p->fd, "place", &way, e), e);
	return WAY_FOUND + (int)way;
}

/* Those that this kernel has: an old one stays. */
static void by_every_way(void **state, int (*fn)(struct place *, struct err *))
{
	struct place *p = *state;
	int first;

	NEEDS_ROOT(CLONE_NEWNS);
	p->fn = find_task;
	first = in_child(run_task, p) - WAY_FOUND;
	assert_in_range(first, 0, OVERLAY_BY_MOUNT);
	for (int way = first; way < OVERLAY_WAYS; way++) {
		p->way = (enum overlay_way)way;
		run(p, fn);
	}
}

static int dir_at(int dirfd, const char *name)
{
	(void)mkdirat(dirfd, name, 0755);
	return openat(dirfd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int put_file(int dirfd, const char *name, const char *text)
{
	AUTO_FD fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	return fd < 0 ? -1 : (int)write(fd, text, strlen(text));
}

static bool has_text(int dirfd, const char *name, const char *text)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1024);
	struct err e;

	return fd_read_file(dirfd, name, 1024, &b, &e) == 0 && str_is(buf_str(&b), text);
}

/* ---- one layer ---- */

struct layers {
	int lower, upper, work;
};

static int make_layers(struct place *p, struct layers *l)
{
	l->lower = dir_at(p->fd, "lower");
	l->upper = dir_at(p->fd, "upper");
	l->work = dir_at(p->fd, "work");
	CHECK(l->work >= 0 && put_file(l->lower, "old", "old") > 0 && put_file(l->lower, "theirs", "t") > 0);
	CHECK(fchownat(l->lower, "theirs", 5, 6, 0) == 0);
	CHECK(fchownat(p->fd, "upper", BASE, BASE, 0) == 0 && fchownat(p->fd, "work", BASE, BASE, 0) == 0);
	return 0;
}

static int mount_layers(struct place *p, const struct layers *l, struct err *e)
{
	return overlay_make(p->way, &(struct overlay_spec){ "root", &l->lower, 1, l->upper, l->work, p->fd, "place" }, e);
}

struct guest {
	int userns, root;
};

/* As the sandbox's root: what it sees and what it does. */
static int guest(void *arg)
{
	struct guest *g = arg;
	struct err e = { 0 };
	struct stat st;

	CHECK_OK(namespace_enter(g->userns, NAMESPACE_USER, &e), &e);
	CHECK(syscall(SYS_setgroups, 0, NULL) == 0 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0);
	CHECK(fstatat(g->root, "old", &st, 0) == 0 && st.st_uid == 0 && st.st_gid == 0);
	CHECK(fstatat(g->root, "theirs", &st, 0) == 0 && st.st_uid == 5 && st.st_gid == 6);
	CHECK(put_file(g->root, "old", "new") == 3);
	CHECK(put_file(g->root, "mine", "m") == 1);
	CHECK(fchownat(g->root, "mine", 7, 65535, 0) == 0);
	CHECK(fchownat(g->root, "theirs", 8, 9, 0) == 0);
	CHECK(fchownat(g->root, "mine", 65536, 0, 0) < 0 && errno == EINVAL);
	return 0;
}

static bool is_owned(int dirfd, const char *name, uint64_t uid, uint64_t gid)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == uid && st.st_gid == gid;
}

/* Shown by a mount of its own, over itself. */
static int map_lower(struct layers *l, int userns, struct err *e)
{
	AUTO_FD shown = mount_clone(l->lower, "", false, e);

	CHECK_OK(shown, e);
	if (mount_idmap(shown, userns, false, e) < 0 && e->sys == EINVAL)
		return CHILD_CANNOT;
	CHECK_OK(mount_restrict(shown, MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV, false, e), e);
	CHECK_OK(mount_move(shown, l->lower, e), e);
	l->lower = take_fd(&shown);
	return 0;
}

static int mapped_task(struct place *p, struct err *e)
{
	struct layers l;
	struct guest g;
	int real, r;

	CHECK(make_layers(p, &l) == 0);
	real = l.lower;
	g.userns = userns_make(-1, BASE, e);
	CHECK_OK(g.userns, e);
	r = map_lower(&l, g.userns, e);
	if (r != 0)
		return r;
	g.root = mount_layers(p, &l, e);
	CHECK_OK(g.root, e);
	CHECK(in_child(guest, &g) == 0);
	CHECK(is_owned(l.upper, "old", BASE, BASE) && has_text(l.upper, "old", "new"));
	CHECK(is_owned(l.upper, "mine", BASE + 7, BASE + 65535));
	CHECK(is_owned(l.upper, "theirs", BASE + 8, BASE + 9));
	CHECK(is_owned(g.root, "mine", BASE + 7, BASE + 65535));
	CHECK(is_owned(real, "old", 0, 0) && has_text(real, "old", "old"));
	CHECK(is_owned(real, "theirs", 5, 6) && faccessat(real, "mine", F_OK, 0) < 0);
	return 0;
}

static void mapped_root_writes_above_an_id_mapped_layer_that_stays_as_it_was(void **state)
{
	by_every_way(state, mapped_task);
}

/* ---- the same mount by every way (R1) ---- */

static int walls_task(struct place *p, struct err *e)
{
	static const char *const settings[] = { "volatile", "redirect_dir=nofollow" };
	AUTO_FD target = dir_at(p->fd, "target"), fd = -1;
	AUTO(buf_done) struct buf mounts = BUF_INIT(1 << 20);
	struct statvfs vfs;
	struct layers l;
	char *line;

	CHECK(make_layers(p, &l) == 0);
	fd = mount_layers(p, &l, e);
	CHECK_OK(fd, e);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK(faccessat(p->fd, "place/old", F_OK, 0) < 0); /* detached */
	CHECK_OK(mount_move(fd, target, e), e);
	CHECK(fstatvfs(fd, &vfs) == 0 && (vfs.f_flag & (ST_NOSUID | ST_NODEV | ST_RDONLY)) == (ST_NOSUID | ST_NODEV));
	CHECK_OK(fd_read_file(AT_FDCWD, "/proc/self/mounts", 1 << 20, &mounts, e), e);
	line = strstr(buf_z(&mounts), "\nroot ");
	CHECK(line && !strstr(line + 1, "\nroot "));
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		CHECK(strstr(line, settings[i]));
	CHECK(!strstr(line, "metacopy=on") && !strstr(line, "index=on") && !strstr(line, "xino=off"));
	return 0;
}

static void every_way_gives_a_detached_mount_with_the_same_walls(void **state)
{
	by_every_way(state, walls_task);
}

/* ---- many layers ---- */

/* Descriptors with long numbers: they are what takes room in the names. */
static int high_fd(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, 9000);

	(void)close(fd);
	return high;
}

static int many_task(struct place *p, struct err *e)
{
	struct rlimit files = { 10000, 10000 };
	int lowers[OVERLAY_LOWERS_MAX];
	struct overlay_spec sp = { "root", lowers, OVERLAY_LOWERS_MAX, dir_at(p->fd, "upper"), dir_at(p->fd, "work"), p->fd, "place" };
	AUTO_FD fd = -1;
	char name[16];

	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	for (int i = 0; i < OVERLAY_LOWERS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "layer%d", i);
		lowers[i] = high_fd(dir_at(p->fd, name));
		CHECK(lowers[i] >= 9000 && put_file(lowers[i], name, "x") == 1 && put_file(lowers[i], "top", name) > 0);
	}
	fd = overlay_make(p->way, &sp, e);
	CHECK_OK(fd, e);
	CHECK(has_text(fd, "layer0", "x") && has_text(fd, name, "x") && has_text(fd, "top", "layer0"));
	sp.n_lowers++;
	CHECK(overlay_make(p->way, &sp, e) < 0 && e->code == ERR_LIMIT);
	return 0;
}

static void an_overlay_has_as_many_layers_as_promised_the_first_on_top(void **state)
{
	by_every_way(state, many_task);
}

/* ---- kernels that lack a way ---- */

/* fsconfig() with a descriptor fails with ERRNO: 6.12 has EBADF for O_PATH, 6.1 EOPNOTSUPP, others EINVAL. */
static int refuse_config_fd(int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsconfig, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CONFIG_FD, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return refuse_load(filter, ARRAY_LEN(filter));
}

static int found_task(struct place *p, struct err *e)
{
	enum overlay_way way = OVERLAY_WAYS;
	struct stat st;

	CHECK(p->way == OVERLAY_BY_FD || refuse_config_fd((int[]){ 0, EBADF, EOPNOTSUPP, EINVAL }[p->way]) == 0);
	CHECK_OK(overlay_find_way(p->fd, "place", &way, e), e);
	CHECK(p->way == OVERLAY_BY_FD || way != OVERLAY_BY_FD);
	CHECK(fstatat(p->fd, "place", &st, 0) == 0 && st.st_nlink == 2 && unlinkat(p->fd, "place", AT_REMOVEDIR) == 0);
	CHECK(overlay_find_way(p->fd, "place", &way, e) < 0 && strstr(e->msg, "no 'place'"));
	return 0;
}

static void a_way_is_found_whatever_a_kernel_says_to_descriptors(void **state)
{
	struct place *p = *state;

	NEEDS_ROOT(CLONE_NEWNS);
	for (int row = 0; row < 4; row++) {
		p->way = (enum overlay_way)row;
		run(p, found_task);
	}
}

static int none_task(struct place *p, struct err *e)
{
	enum overlay_way way = OVERLAY_WAYS;
	struct stat st;

	CHECK(refuse_syscall(SYS_mkdirat) == 0);
	CHECK(overlay_find_way(p->fd, "place", &way, e) < 0 && way == OVERLAY_WAYS);
	for (enum overlay_way i = 0; i < OVERLAY_WAYS; i++)
		CHECK(strstr(e->msg, overlay_way_name(i)));
	CHECK(strstr(e->msg, "Function not implemented") && e->sys == ENOSYS);
	CHECK(fstatat(p->fd, "place", &st, 0) == 0 && unlinkat(p->fd, "place", AT_REMOVEDIR) == 0);
	return 0;
}

static void where_no_way_works_each_of_them_is_told_about(void **state)
{
	NEEDS_ROOT(CLONE_NEWNS);
	run(*state, none_task);
}

/* ---- refusals ---- */

static int refusals_task(struct place *p, struct err *e)
{
	AUTO_FD file = openat(p->fd, "file", O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
	struct layers l;

	CHECK(make_layers(p, &l) == 0 && fchdir(p->fd) == 0);
	l.lower = file;
	CHECK(mount_layers(p, &l, e) < 0);
	CHECK(strstr(e->msg, "mount 'overlay'"));
	CHECK(access("place", F_OK) == 0); /* where we were */
	return 0;
}

static void what_is_no_folder_is_refused(void **state)
{
	by_every_way(state, refusals_task);
}

#define TEST(fn_) cmocka_unit_test_setup_teardown(fn_, make_place, remove_place)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(mapped_root_writes_above_an_id_mapped_layer_that_stays_as_it_was),
		TEST(every_way_gives_a_detached_mount_with_the_same_walls),
		TEST(an_overlay_has_as_many_layers_as_promised_the_first_on_top),
		TEST(a_way_is_found_whatever_a_kernel_says_to_descriptors),
		TEST(where_no_way_works_each_of_them_is_told_about),
		TEST(what_is_no_folder_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
