// SPDX-License-Identifier: Apache-2.0
/* Checks of files against a tree of them; checks of system calls against kernels that refuse some. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "box/preflight.h"
#include "sys/cgroup_tree_test.h"
#include "sys/root_test.h"

#include "base/banned.h"

/* ---- a host made of files ---- */

static const struct {
	const char *path, *text;
} good_host[] = {
	{ "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n" },
	{ "etc/group", "root:x:0:\n" },
	{ "etc/subuid", "alice:100000:65536\n" },
	{ "proc/filesystems", "nodev\ttmpfs\n\tbtrfs\n" },
	{ "proc/sys/kernel/osrelease", "6.12.41+deb13-amd64\n" },
	{ "proc/swaps", "Filename Type Size Used Priority\n" },
	{ "proc/sys/kernel/pid_max", "4194304\n" },
	{ "proc/sys/kernel/core_pattern", "core\n" },
	{ "proc/sys/kernel/io_uring_disabled", "2\n" },
	{ "proc/sys/kernel/unprivileged_bpf_disabled", "2\n" },
	{ "proc/sys/kernel/kptr_restrict", "1\n" },
	{ "proc/sys/kernel/dmesg_restrict", "1\n" },
	{ "proc/sys/vm/unprivileged_userfaultfd", "0\n" },
	{ "proc/sys/dev/tty/legacy_tiocsti", "0\n" },
	{ "proc/sys/fs/protected_hardlinks", "1\n" },
	{ "proc/sys/fs/protected_symlinks", "1\n" },
	{ "proc/sys/fs/protected_fifos", "1\n" },
	{ "proc/sys/fs/protected_regular", "2\n" },
	{ "usr/sbin/mkfs.btrfs", "" },
	{ "usr/bin/nft", "" },
};

static void make_host(struct tree *t)
{
	tree_v1(t);
	for (size_t i = 0; i < ARRAY_LEN(good_host); i++)
		tree_put(t, good_host[i].path, good_host[i].text);
	assert_int_equal(fchmodat(t->dir, "usr/sbin/mkfs.btrfs", 0755, 0), 0);
	assert_int_equal(fchmodat(t->dir, "usr/bin/nft", 0755, 0), 0);
	assert_int_equal(fchmodat(t->dir, ".", 0755, 0), 0); /* the ids are read as nobody */
}

static void examine(const struct tree *t, struct preflight_host h, struct preflight_report *r)
{
	h.root = t->root;
	preflight_run(&h, r);
}

static const struct preflight_finding *find(const struct preflight_report *r, const char *name)
{
	for (size_t i = 0; i < r->n; i++)
		if (strcmp(r->at[i].check->name, name) == 0)
			return &r->at[i];
	return NULL;
}

/* DETAIL is part of what was found. */
static void check(const struct preflight_report *r, const char *name, enum preflight_outcome want, const char *detail)
{
	const struct preflight_finding *f = find(r, name);

	if (!f)
		fail_msg("no check '%s'", name);
	if (f->outcome != want || !strstr(f->detail, detail))
		fail_msg("%s: %s, '%s'", name, preflight_outcome_name(f->outcome), f->detail);
}

/* ---- the table ---- */

static void every_row_says_what_it_costs_and_what_to_do(void **state)
{
	static struct preflight_report r;

	(void)state;
	preflight_run(&(struct preflight_host){ 0 }, &r);
	assert_true(r.n > 40);
	for (size_t i = 0; i < r.n; i++) {
		const struct preflight_check *c = r.at[i].check;

		assert_true(c->group && c->name && c->cost && c->remedy);
		assert_true(strlen(c->name) <= 17); /* its column */
		assert_true(c->cost[strlen(c->cost) - 1] != '.' && c->remedy[strlen(c->remedy) - 1] != '.');
		assert_ptr_equal(find(&r, c->name), &r.at[i]); /* names are used once */
	}
}

static void a_start_leaves_out_what_is_for_doctor(void **state)
{
	static struct preflight_report r;

	(void)state;
	preflight_run(&(struct preflight_host){ .is_start = true }, &r);
	assert_true(find(&r, "openat2") && find(&r, "memory") && find(&r, "id range"));
	assert_true(!find(&r, "nft") && !find(&r, "mkfs.btrfs"));
}

/* ---- files ---- */

static void a_good_host_has_no_warnings(void **state)
{
	static struct preflight_report r;
	AUTO(tree_done) struct tree t;

	(void)state;
	make_host(&t);
	tree_put(&t, "sys/fs/cgroup/blkio/a/blkio.bfq.weight", "100\n");
	examine(&t, (struct preflight_host){ 0 }, &r);
	for (size_t i = 0; i < r.n; i++)
		if (r.at[i].outcome == PREFLIGHT_WARNING && strcmp(r.at[i].check->group, "network") != 0 &&
		    strcmp(r.at[i].check->name, "descriptors") != 0)
			fail_msg("%s: %s", r.at[i].check->name, r.at[i].detail);
	check(&r, "nft", PREFLIGHT_OK, "/usr/bin/nft");
	check(&r, "mkfs.btrfs", PREFLIGHT_OK, "/usr/sbin/mkfs.btrfs");
	check(&r, "btrfs", PREFLIGHT_OK, "");
	check(&r, "swap accounting", PREFLIGHT_OK, "no swap");
}

static void settings_are_judged_by_their_values(void **state)
{
	static const struct {
		const char *file, *text, *name; /* TEXT NULL: the file is not there */
		enum preflight_outcome want;
		const char *detail;
	} rows[] = {
		{ "proc/sys/kernel/osrelease", "6.1.0-44-cloud-amd64\n", "version", PREFLIGHT_OK, "6.1.0-44-cloud-amd64, tried: Debian 12" },
		{ "proc/sys/kernel/osrelease", "6.12.41+deb13-amd64\n", "version", PREFLIGHT_OK, "tried: Debian 13" },
		{ "proc/sys/kernel/osrelease", "6.18\n", "version", PREFLIGHT_OK, "6.18, tried: with v1" },
		{ "proc/sys/kernel/osrelease", "6.11.2\n", "version", PREFLIGHT_WARNING,
		  "6.11.2, not one of those that were tried: 6.1 (Debian 12), 6.12 (Debian 13), 6.18" },
		{ "proc/sys/kernel/osrelease", "6.180.1\n", "version", PREFLIGHT_WARNING, "not one of those" },
		{ "proc/sys/kernel/osrelease", "16.1.2\n", "version", PREFLIGHT_WARNING, "not one of those" },
		{ "proc/sys/kernel/io_uring_disabled", "0\n", "io_uring", PREFLIGHT_WARNING, "kernel.io_uring_disabled is 0" },
		{ "proc/sys/kernel/io_uring_disabled", "1\n", "io_uring", PREFLIGHT_OK, "is 1" },
		{ "proc/sys/kernel/unprivileged_bpf_disabled", "0\n", "unprivileged bpf", PREFLIGHT_WARNING, "is 0" },
		{ "proc/sys/kernel/unprivileged_bpf_disabled", NULL, "unprivileged bpf", PREFLIGHT_OK, "not in this kernel" },
		{ "proc/sys/vm/unprivileged_userfaultfd", "1\n", "userfaultfd", PREFLIGHT_WARNING, "is 1" },
		{ "proc/sys/dev/tty/legacy_tiocsti", "1\n", "legacy TIOCSTI", PREFLIGHT_WARNING, "dev.tty.legacy_tiocsti is 1" },
		{ "proc/sys/dev/tty/legacy_tiocsti", NULL, "legacy TIOCSTI", PREFLIGHT_WARNING, "always on" },
		{ "proc/sys/kernel/kptr_restrict", "0\n", "kernel pointers", PREFLIGHT_WARNING, "is 0" },
		{ "proc/sys/kernel/dmesg_restrict", "0\n", "kernel log", PREFLIGHT_WARNING, "is 0" },
		{ "proc/sys/fs/protected_hardlinks", "0\n", "hard links", PREFLIGHT_WARNING, "is 0" },
		{ "proc/sys/fs/protected_symlinks", "0\n", "symbolic links", PREFLIGHT_WARNING, "is 0" },
		{ "proc/sys/fs/protected_fifos", "0\n", "fifos", PREFLIGHT_WARNING, "is 0" },
		{ "proc/sys/fs/protected_regular", "0\n", "regular files", PREFLIGHT_WARNING, "is 0" },
		{ "proc/sys/fs/protected_regular", "\033[2J\n", "regular files", PREFLIGHT_WARNING, "\\u001b" },
		{ "proc/sys/kernel/core_pattern", "|/usr/bin/handler %p\n", "core dumps", PREFLIGHT_WARNING, "|/usr/bin/handler" },
		{ "proc/sys/kernel/pid_max", "65536\n", "pid_max", PREFLIGHT_OK, "is 65536" },
		{ "proc/sys/kernel/pid_max", "32768\n", "pid_max", PREFLIGHT_WARNING, "is 32768" },
		{ "proc/sys/kernel/pid_max", "4096\n", "pid_max", PREFLIGHT_MISSING, "is 4096" },
		{ "proc/filesystems", "nodev\ttmpfs\n\tnotbtrfs\n", "btrfs", PREFLIGHT_MISSING, "no module" },
		{ "usr/sbin/mkfs.btrfs", NULL, "mkfs.btrfs", PREFLIGHT_MISSING, "no program" },
		{ "usr/bin/nft", NULL, "nft", PREFLIGHT_WARNING, "no program" },
	};
	static struct preflight_report r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(tree_done) struct tree t;

		make_host(&t);
		if (rows[i].text)
			tree_put(&t, rows[i].file, rows[i].text);
		else
			assert_int_equal(unlinkat(t.dir, rows[i].file, 0), 0);
		examine(&t, (struct preflight_host){ 0 }, &r);
		check(&r, rows[i].name, rows[i].want, rows[i].detail);
	}
}

static void ids_of_others_are_not_for_boxes(void **state)
{
	static const struct {
		const char *file, *text, *detail;
	} rows[] = {
		{ "etc/subuid", "a:100000:65536\nbob:1083040:65536\n", "'bob' has 1083040 to 1148575 in /etc/subuid" },
		{ "etc/subgid", "bob:1083040:65536\n", "in /etc/subgid" },
		{ "etc/passwd", "root:x:0:0::/:\nad:x:1200001:9::/:\n", "'ad' has 1200001 to 1200001 in /etc/passwd" },
		{ "etc/group", "ad:x:1200001:\n", "in /etc/group" },
	};
	static struct preflight_report r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(tree_done) struct tree t;

		make_host(&t);
		tree_put(&t, rows[i].file, rows[i].text);
		examine(&t, (struct preflight_host){ .is_start = true }, &r);
		check(&r, "id range", PREFLIGHT_MISSING, rows[i].detail);
	}
}

static void what_only_disk_limits_need_can_be_done_without(void **state)
{
	static struct preflight_report r;
	AUTO(tree_done) struct tree t;

	(void)state;
	make_host(&t);
	assert_int_equal(unlinkat(t.dir, "usr/sbin/mkfs.btrfs", 0), 0);
	examine(&t, (struct preflight_host){ .no_disk_limit = true }, &r);
	check(&r, "mkfs.btrfs", PREFLIGHT_WARNING, "");
}

static int examine_volumes(void *arg)
{
	static struct preflight_report r;
	const char *const volumes[] = { "/mnt", "/sys", "/nowhere/at/all" };
	struct preflight_host h = { .volumes = volumes, .n_volumes = 1 };

	(void)arg;
	CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHECK(mount("tmpfs", "/mnt", "tmpfs", MS_NOSUID, NULL) == 0 && mount("tmpfs", "/sys", "tmpfs", 0, NULL) == 0);
	preflight_run(&h, &r);
	CHECK(find(&r, "host volumes")->outcome == PREFLIGHT_OK);
	h.n_volumes = 3;
	preflight_run(&h, &r);
	CHECK(find(&r, "host volumes")->outcome == PREFLIGHT_WARNING);
	CHECK(strncmp(find(&r, "host volumes")->detail, "'/sys' is not nosuid, '/nowhere/at/all': No such", 48) == 0);
	return 0;
}

static void volumes_are_to_be_nosuid(void **state)
{
	(void)state;
	NEEDS_ROOT(CLONE_NEWNS);
	assert_int_equal(in_child(examine_volumes, NULL), 0);
}

/* ---- control groups ---- */

static void controllers_are_named_with_their_place(void **state)
{
	static struct preflight_report r;
	AUTO(tree_done) struct tree v1, v2;

	(void)state;
	make_host(&v1);
	examine(&v1, (struct preflight_host){ 0 }, &r);
	check(&r, "memory", PREFLIGHT_OK, "v1 at /sys/fs/cgroup/memory");
	check(&r, "devices", PREFLIGHT_OK, "v1 at /sys/fs/cgroup/devices");
	check(&r, "killing", PREFLIGHT_OK, "freeze, kill each process, thaw");
	tree_v2(&v2, "0::/\n");
	tree_v2_group(&v2, "a/", "", "");
	examine(&v2, (struct preflight_host){ 0 }, &r);
	check(&r, "cpu", PREFLIGHT_OK, "v2 at /sys/fs/cgroup");
	check(&r, "killing", PREFLIGHT_OK, "cgroup.kill");
}

static void controllers_that_are_off_are_missing(void **state)
{
	static struct preflight_report r;
	AUTO(tree_done) struct tree t;

	(void)state;
	make_host(&t);
	tree_put(&t, "proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t1\t1\nmemory\t0\t1\t0\n");
	tree_put(&t, "proc/self/mountinfo", TREE_V1_MOUNT("2", "cpu,cpuacct"));
	examine(&t, (struct preflight_host){ 0 }, &r);
	check(&r, "cpu", PREFLIGHT_OK, "v1");
	check(&r, "memory", PREFLIGHT_MISSING, "disabled at boot");
	check(&r, "pids", PREFLIGHT_MISSING, "");
	check(&r, "freezer", PREFLIGHT_MISSING, "");
	check(&r, "devices", PREFLIGHT_MISSING, "");
	check(&r, "killing", PREFLIGHT_MISSING, "no freezer");
}

static void swap_is_to_be_counted(void **state)
{
	static struct preflight_report r;
	AUTO(tree_done) struct tree t;

	(void)state;
	make_host(&t);
	tree_put(&t, "proc/swaps", "Filename Type Size Used Priority\n/dev/vdb partition 1 0 -2\n");
	tree_put(&t, "sys/fs/cgroup/memory/a/cgroup.procs", "");
	examine(&t, (struct preflight_host){ 0 }, &r);
	check(&r, "swap accounting", PREFLIGHT_WARNING, "not counted");
	tree_put(&t, "sys/fs/cgroup/memory/a/memory.memsw.limit_in_bytes", "1\n");
	examine(&t, (struct preflight_host){ 0 }, &r);
	check(&r, "swap accounting", PREFLIGHT_OK, "");
}

/* ---- one error ---- */

static void all_that_is_missing_is_in_one_error(void **state)
{
	static struct preflight_report r;
	AUTO(buf_done) struct buf problems = BUF_INIT(65536);
	AUTO(tree_done) struct tree t;
	struct err e = { 0 };

	(void)state;
	make_host(&t);
	tree_put(&t, "proc/self/mountinfo", TREE_V1_MOUNT("2", "cpu,cpuacct"));
	tree_put(&t, "etc/subuid", "bob:1083040:65536\n");
	examine(&t, (struct preflight_host){ .is_start = true }, &r);
	assert_int_equal(preflight_refuse(&r, &problems, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(e.msg, "memory, pids, freezer, devices, killing, id range"));
	assert_non_null(strstr(problems.p, "memory: not mounted; no memory limit can be enforced: no sandbox can be created; to do: boot"));
	assert_non_null(strstr(problems.p, "\nid range: 'bob' has "));
	assert_null(strstr(problems.p, "cpu:"));
}

static void nothing_missing_is_no_error(void **state)
{
	struct preflight_report r = { .n = 0 };
	AUTO(buf_done) struct buf problems = BUF_INIT(65536);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(preflight_refuse(&r, &problems, &e), 0);
	assert_int_equal(problems.n, 0);
	assert_int_equal(e.code, ERR_NONE);
}

/* ---- kernels that lack something ---- */

struct refusal {
	unsigned nr;
	unsigned arg, bits; /* not 0: only with one of these */
	const char *name, *detail;
	bool needs_root;
};

static int examine_refused(void *arg)
{
	static struct preflight_report r;
	const struct refusal *f = arg;
	const struct preflight_finding *found;

	CHECK((f->bits ? refuse_flag(f->nr, f->arg, f->bits) : refuse_syscall(f->nr)) == 0);
	preflight_run(&(struct preflight_host){ .is_start = true }, &r);
	found = find(&r, f->name);
	if (found->outcome != (found->check->is_needed ? PREFLIGHT_MISSING : PREFLIGHT_WARNING) || !strstr(found->detail, f->detail)) {
		(void)dprintf(2, "%s: %s '%s'\n", f->name, preflight_outcome_name(found->outcome), found->detail);
		return 1;
	}
	CHECK(find(&r, "memory")->outcome == PREFLIGHT_OK); /* the others still tell the truth */
	return 0;
}

static void a_call_that_the_kernel_lacks_is_named(void **state)
{
	static const struct refusal rows[] = {
		{ SYS_openat2, 0, 0, "openat2", "openat2", false },
		{ SYS_close_range, 0, 0, "close_range", "close_range: Function not implemented", false },
		{ SYS_clone3, 0, 0, "clone3", "", false },
		{ SYS_waitid, 0, 0, "clone3", "collect by pidfd", false },
		{ SYS_pidfd_open, 0, 0, "pidfd_open", "pidfd_open: Function not implemented", false },
		{ SYS_pidfd_send_signal, 0, 0, "pidfd_open", "pidfd_send_signal", false },
		{ SYS_seccomp, 0, 0, "seccomp filter", "", false },
		{ SYS_memfd_create, 0, 0, "sealed programs", "", false },
		{ SYS_execveat, 0, 0, "sealed programs", "Function not implemented", false },
		{ SYS_landlock_create_ruleset, 0, 0, "landlock", "not in this kernel", false },
		{ SYS_unshare, 0, CLONE_NEWUTS, "namespaces", "uts", true },
		{ SYS_fsopen, 0, 0, "mount api", "", true },
		{ SYS_mount_setattr, 0, 0, "mount api", "", true },
		{ SYS_mount_setattr, 0, 0, "id-mapped mounts", "", true },
		{ SYS_open_tree, 0, 0, "id-mapped layers", "", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!rows[i].needs_root || geteuid() == 0)
			if (in_child(examine_refused, (void *)(uintptr_t)&rows[i]) != 0)
				fail_msg("row %zu: %s", i, rows[i].name);
}

static int examine_without_mounts(void *arg)
{
	static const char *const names[] = { "overlayfs", "overlay mounts" };
	static struct preflight_report r;

	(void)arg;
	CHECK(refuse_syscall(SYS_fsopen) == 0);
	preflight_run(&(struct preflight_host){ .is_start = true }, &r);
	CHECK(find(&r, "mount api")->outcome == PREFLIGHT_MISSING);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		CHECK(find(&r, names[i])->outcome == PREFLIGHT_UNTRIED && strstr(find(&r, names[i])->detail, "missing above"));
	return 0;
}

static void what_stands_on_something_missing_gives_no_advice(void **state)
{
	(void)state;
	NEEDS_ROOT(CLONE_NEWNS);
	assert_int_equal(in_child(examine_without_mounts, NULL), 0);
}

/* ---- leaving nothing ---- */

static size_t count_lines(const char *path)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 24);
	struct err e = { 0 };
	size_t n = 0;

	assert_int_equal(fd_read_file(AT_FDCWD, path, 1 << 24, &b, &e), 0);
	for (size_t i = 0; i < b.n; i++)
		n += b.p[i] == '\n';
	return n;
}

static size_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

/* Where root may, with mounts of its own: others may mount and unmount on the host meanwhile. */
static int run_and_count(void *arg)
{
	static struct preflight_report r;
	size_t mounts, fds;

	(void)arg;
	if (geteuid() == 0)
		CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	mounts = count_lines("/proc/self/mountinfo");
	fds = count_fds();
	preflight_run(&(struct preflight_host){ 0 }, &r);
	CHECK(geteuid() != 0 || count_lines("/proc/self/mountinfo") == mounts);
	CHECK(count_fds() == fds);
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	return 0;
}

static void a_run_leaves_nothing_behind(void **state)
{
	(void)state;
	assert_int_equal(in_child(run_and_count, NULL), 0);
}

static void a_writable_layer_is_tried_and_removed(void **state)
{
	char dir[] = "/tmp/preflight_test.XXXXXX", left[128];
	struct err e = { 0 };
	int rc;

	(void)state;
	NEEDS_ROOT(CLONE_NEWNS);
	assert_non_null(mkdtemp(dir));
	(void)snprintf(left, sizeof(left), "%s/.opensandbox-preflight", dir); /* of a run that was killed */
	assert_int_equal(mkdir(left, 0700), 0);
	rc = preflight_try_upper(dir, &e);
	assert_int_equal(rmdir(dir), 0); /* it is empty */
	if (rc < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(preflight_try_upper("/proc", &e), -1);
}

static void the_existing_part_of_a_path_is_found(void **state)
{
	static const char *const rows[][2] = {
		{ "/", "/" }, { "/proc", "/proc" }, { "/nowhere", "/" }, { "/proc/no/such", "/proc" }, { "/nowhere/at/all", "/" },
		{ "/proc/version/x", "/proc/version" },
	};
	char out[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		preflight_existing(rows[i][0], out, sizeof(out));
		assert_string_equal(out, rows[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_says_what_it_costs_and_what_to_do),
		cmocka_unit_test(a_start_leaves_out_what_is_for_doctor),
		cmocka_unit_test(a_good_host_has_no_warnings),
		cmocka_unit_test(settings_are_judged_by_their_values),
		cmocka_unit_test(ids_of_others_are_not_for_boxes),
		cmocka_unit_test(what_only_disk_limits_need_can_be_done_without),
		cmocka_unit_test(volumes_are_to_be_nosuid),
		cmocka_unit_test(controllers_are_named_with_their_place),
		cmocka_unit_test(controllers_that_are_off_are_missing),
		cmocka_unit_test(swap_is_to_be_counted),
		cmocka_unit_test(all_that_is_missing_is_in_one_error),
		cmocka_unit_test(nothing_missing_is_no_error),
		cmocka_unit_test(a_call_that_the_kernel_lacks_is_named),
		cmocka_unit_test(what_stands_on_something_missing_gives_no_advice),
		cmocka_unit_test(a_run_leaves_nothing_behind),
		cmocka_unit_test(a_writable_layer_is_tried_and_removed),
		cmocka_unit_test(the_existing_part_of_a_path_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
