// SPDX-License-Identifier: Apache-2.0
#include "sys/cgroup_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/xattr.h>
#include <cmocka.h>

#include "sys/cgroup_tree_test.h"

#include "base/banned.h"

#define HYBRID_MOUNTS TREE_V1_MOUNTS "50 30 0:50 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

static void check_where(const struct tree *t, enum cgroup_controller c, const char *place)
{
	int i = t->l.where[c];

	assert_true(i >= 0);
	assert_string_equal(t->l.at[i].place, place);
	assert_true(t->l.at[i].is_used);
	assert_null(cgroup_lack_text(&t->l, c));
}

static void v2_serves_everything_from_one_place(void **state)
{
	AUTO(tree_done) struct tree t;

	(void)state;
	tree_v2(&t, "0::/\n");
	tree_must_find(&t, (struct cgroup_find){ 0 });
	assert_int_equal(t.l.n, 1);
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		check_where(&t, c, "/sys/fs/cgroup");
	assert_false(t.l.is_busy);
}

static void v1_serves_each_from_its_own_place_and_the_freezer_is_first(void **state)
{
	AUTO(tree_done) struct tree t;

	(void)state;
	tree_v1(&t);
	tree_must_find(&t, (struct cgroup_find){ 0 });
	assert_int_equal(t.l.n, 7); /* without cpuset */
	assert_string_equal(t.l.at[0].place, "/sys/fs/cgroup/freezer");
	check_where(&t, CGROUP_MEMORY, "/sys/fs/cgroup/memory");
	check_where(&t, CGROUP_CPU, "/sys/fs/cgroup/cpu,cpuacct");
	check_where(&t, CGROUP_CPUACCT, "/sys/fs/cgroup/cpu,cpuacct");
	check_where(&t, CGROUP_IO, "/sys/fs/cgroup/blkio");
	check_where(&t, CGROUP_HUGETLB, "/sys/fs/cgroup/hugetlb");
}

static void hybrid(struct tree *t, const char *controllers)
{
	tree_v1(t);
	tree_put(t, "proc/self/mountinfo", HYBRID_MOUNTS);
	tree_v2_group(t, "unified/", controllers, "");
	assert_int_equal(unlinkat(t->dir, "sys/fs/cgroup/unified/cgroup.type", 0), 0);
}

static void a_hybrid_host_freezes_by_v2_and_limits_by_v1(void **state)
{
	AUTO(tree_done) struct tree t;
	struct err e = { 0 };

	(void)state;
	hybrid(&t, "");
	tree_must_find(&t, (struct cgroup_find){ 0 });
	assert_true(t.l.at[0].is_v2 && t.l.n == 8);
	check_where(&t, CGROUP_FREEZER, "/sys/fs/cgroup/unified");
	check_where(&t, CGROUP_CPUACCT, "/sys/fs/cgroup/unified");
	check_where(&t, CGROUP_MEMORY, "/sys/fs/cgroup/memory");
	check_where(&t, CGROUP_DEVICES, "/sys/fs/cgroup/devices");
	assert_false(t.l.at[1].is_used); /* v1's freezer */
	tree_v2_group(&t, "unified/osb/", "", "");
	assert_int_equal(cgroup_open_top(&t.l, "osb", NULL, &t.top, &e), 0);
	assert_true(t.l.has_kill && t.l.has_freeze);
	assert_true(t.top.dirs[0] >= 0 && t.top.dirs[1] < 0);
	assert_int_equal(cgroup_clone_dir(&t.top), t.top.dirs[0]);
}

static void an_old_kernels_v2_is_known_by_its_first_group(void **state)
{
	AUTO(tree_done) struct tree t;
	struct err e = { 0 };

	(void)state;
	hybrid(&t, "");
	tree_must_find(&t, (struct cgroup_find){ 0 });
	tree_put(&t, "sys/fs/cgroup/unified/osb/cgroup.procs", "");
	assert_int_equal(cgroup_open_top(&t.l, "osb", NULL, &t.top, &e), 0);
	assert_false(t.l.has_kill || t.l.has_freeze);
	check_where(&t, CGROUP_FREEZER, "/sys/fs/cgroup/freezer");
	check_where(&t, CGROUP_CPUACCT, "/sys/fs/cgroup/cpu,cpuacct");
	assert_true(t.top.dirs[1] >= 0);
	cgroup_done(&t.top);
	cgroup_layout_done(&t.l);

	/* Pure v2 of that age cannot freeze at all, and says so. */
	tree_put(&t, "proc/self/mountinfo", "50 30 0:50 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	tree_must_find(&t, (struct cgroup_find){ 0 });
	assert_int_equal(cgroup_open_top(&t.l, "osb", NULL, &t.top, &e), 0);
	assert_int_equal(t.l.where[CGROUP_FREEZER], -1);
	assert_string_equal(cgroup_lack_text(&t.l, CGROUP_FREEZER), "not in this kernel");
}

static void what_is_missing_is_said_with_its_reason(void **state)
{
	AUTO(tree_done) struct tree t;

	(void)state;
	tree_v2(&t, "0::/a\n");
	tree_v2_group(&t, "a/", "cpu\n", "");
	tree_put(&t, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
	tree_put(&t, "proc/cgroups", "cpu 0 1 1\nmemory 0 1 1\nblkio 0 1 0\npids 0 1 1\ndevices 0 1 1\n");
	tree_must_find(&t, (struct cgroup_find){ .base = "a" });
	assert_null(cgroup_lack_text(&t.l, CGROUP_CPU));
	assert_string_equal(cgroup_lack_text(&t.l, CGROUP_MEMORY), "not delegated to our group");
	assert_string_equal(cgroup_lack_text(&t.l, CGROUP_IO), "disabled at boot");
	assert_string_equal(cgroup_lack_text(&t.l, CGROUP_PIDS), "not mounted");
	assert_string_equal(cgroup_lack_text(&t.l, CGROUP_HUGETLB), "not in this kernel");
	assert_null(cgroup_lack_text(&t.l, CGROUP_DEVICES));
}

static void a_writable_view_is_preferred_to_a_read_only_one(void **state)
{
	AUTO(tree_done) struct tree t;

	(void)state;
	tree_v1(&t);
	tree_put(&t, "proc/self/mountinfo",
		 "1 2 0:41 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
		 "1 2 0:43 / /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n"
		 "1 2 0:41 / /nowhere rw - cgroup cgroup rw,memory\n"
		 "1 2 0:41 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,memory\n"
		 "1 2 0:41 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,memory\n");
	tree_must_find(&t, (struct cgroup_find){ 0 });
	check_where(&t, CGROUP_MEMORY, "/sys/fs/cgroup/blkio");
	assert_string_equal(cgroup_lack_text(&t.l, CGROUP_PIDS), "mounted read-only");
	assert_string_equal(cgroup_lack_text(&t.l, CGROUP_CPU), "not mounted");
}

static void hosts_without_control_groups_are_refused(void **state)
{
	AUTO(tree_done) struct tree t;
	struct err e = { 0 };

	(void)state;
	tree_init(&t, "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" TREE_V2_MOUNTS, "0::/\n", NULL);
	assert_int_equal(tree_find(&t, (struct cgroup_find){ .v1_only = true }, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	assert_int_equal(tree_find(&t, (struct cgroup_find){ 0 }, &e), -1); /* its place is not there */
	assert_int_equal(unlinkat(t.dir, "proc/self/mountinfo", 0), 0);
	assert_int_equal(tree_find(&t, (struct cgroup_find){ 0 }, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
	assert_int_equal(cgroup_layout_find(&(struct cgroup_find){ .root = "/nonexistent" }, &t.l, &e), -1);
}

static void paths_of_the_base_are_checked(void **state)
{
	static const char *const bad[] = { "/a", "a/", "a//b", "../a", "a/../b", ".", "a/./b" };
	AUTO(tree_done) struct tree t;
	char path[300] = "";
	struct err e = { 0 };

	(void)state;
	tree_v2(&t, "0::/\n");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(tree_find(&t, (struct cgroup_find){ .base = bad[i] }, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
	}
	memset(path, 'a', sizeof(path) - 1);
	assert_int_equal(tree_find(&t, (struct cgroup_find){ .base = path }, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

static void below_own_is_the_group_of_this_process(void **state)
{
	static const struct {
		const char *mount_root, *own, *want; /* NULL: refused */
	} cases[] = {
		{ "/", "0::/\n", "" },
		{ "/", "0::/system.slice/x.service\n", "system.slice/x.service" },
		{ "/", "0::/system.slice/x.service/self\n", "system.slice/x.service" },
		{ "/", "0::/self\n", "" },
		{ "/docker/ab", "0::/docker/ab\n", "" },
		{ "/docker/ab", "0::/docker/ab/c/self\n", "c" },
		{ "/docker/ab", "0::/docker/abc\n", NULL },
		{ "/docker/ab", "0::/other\n", NULL },
		{ "/", "0::/../other\n", NULL },
		{ "/", "3:memory:/a\n", NULL },
	};
	AUTO(tree_done) struct tree t;

	(void)state;
	tree_v2(&t, "0::/\n");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		char mounts[256];

		(void)snprintf(mounts, sizeof(mounts), "30 20 0:26 %s /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
			       cases[i].mount_root);
		tree_put(&t, "proc/self/mountinfo", mounts);
		tree_put(&t, "proc/self/cgroup", cases[i].own);
		assert_int_equal(tree_find(&t, (struct cgroup_find){ .below_own = true }, &e), cases[i].want ? 0 : -1);
		if (cases[i].want)
			assert_string_equal(t.l.v2_base, cases[i].want);
		cgroup_layout_done(&t.l);
	}
}

static void mark(struct tree *t, const char *group, const char *value)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/sys/fs/cgroup/%s", t->root, group);
	if (setxattr(path, "user.delegate", value, strlen(value), 0) < 0) {
		print_message("skipped: no extended attributes in /tmp\n");
		skip();
	}
}

static void a_service_has_its_groups_in_the_unit_beside_it_that_is_delegated(void **state)
{
	static const struct {
		const char *own, *want;
	} cases[] = {
		{ "0::/system.slice/osb.service\n", "system.slice/osb-boxes.service" },
		{ "0::/system.slice/other.service\n", "" },           /* no such unit */
		{ "0::/system.slice/plain.service\n", "" },           /* one that is not delegated */
		{ "0::/system.slice/kept.service\n", "" },            /* nor this one */
		{ "0::/system.slice/osb.service/below\n", "" },
		{ "0::/user.slice/osb.service\n", "" },
		{ "0::/osb.service\n", "osb-boxes.service" },
		{ "0::/system.slice/session-1.scope\n", "" },
		{ "0::/\n", "" },
		{ "3:memory:/a\n", "" },
	};
	AUTO(tree_done) struct tree t;
	struct err e = { 0 };

	(void)state;
	tree_v2(&t, "0::/\n");
	tree_v2_group(&t, "system.slice/", "cpu io memory hugetlb pids\n", "cpu io memory hugetlb pids\n");
	tree_v2_group(&t, "system.slice/osb-boxes.service/", "cpu memory pids\n", "");
	tree_v2_group(&t, "system.slice/plain-boxes.service/", "cpu memory pids\n", "");
	tree_v2_group(&t, "system.slice/kept-boxes.service/", "cpu memory pids\n", "");
	tree_v2_group(&t, "osb-boxes.service/", "cpu memory pids\n", "");
	mark(&t, "system.slice/osb-boxes.service", "1");
	mark(&t, "system.slice/kept-boxes.service", "0");
	mark(&t, "osb-boxes.service", "1");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		tree_put(&t, "proc/self/cgroup", cases[i].own);
		tree_must_find(&t, (struct cgroup_find){ .beside = "-boxes" });
		assert_string_equal(t.l.v2_base, cases[i].want);
		if (i == 0)
			assert_int_equal(t.l.lack[CGROUP_IO], CGROUP_NOT_DELEGATED);
		cgroup_layout_done(&t.l);
	}
	/* What is above the unit is systemd's, and stays as it is. */
	tree_put(&t, "proc/self/cgroup", cases[0].own);
	tree_must_find(&t, (struct cgroup_find){ .beside = "-boxes" });
	assert_false(cgroup_is_in_use(&t.l, "osb"));
	tree_v2_group(&t, "system.slice/osb-boxes.service/osb/", "cpu memory pids\n", "");
	assert_int_equal(cgroup_open_top(&t.l, "osb", NULL, &t.top, &e), 0);
	tree_check(&t, "sys/fs/cgroup/cgroup.subtree_control", "cpu io memory hugetlb pids\n");
	tree_check(&t, "sys/fs/cgroup/system.slice/cgroup.subtree_control", "cpu io memory hugetlb pids\n");
	tree_check(&t, "sys/fs/cgroup/system.slice/osb-boxes.service/cgroup.subtree_control", "+pids");
	assert_false(cgroup_is_in_use(&t.l, "osb"));
	tree_mkdir(&t, "sys/fs/cgroup/system.slice/osb-boxes.service/osb/b1");
	assert_true(cgroup_is_in_use(&t.l, "osb"));
}

static void a_host_with_v1_keeps_its_groups_where_they_are(void **state)
{
	AUTO(tree_done) struct tree t;

	(void)state;
	tree_v1(&t);
	tree_put(&t, "proc/self/cgroup", "1:memory:/system.slice/osb.service\n0::/system.slice/osb.service\n");
	tree_must_find(&t, (struct cgroup_find){ .beside = "-boxes" });
	assert_string_equal(t.l.base, "");
	assert_string_equal(t.l.v2_base, "");
	assert_false(cgroup_is_in_use(&t.l, "osb"));
}

static void a_base_with_processes_is_vacated(void **state)
{
	AUTO(tree_done) struct tree t;
	struct err e = { 0 };

	(void)state;
	tree_v2(&t, "0::/svc\n");
	tree_v2_group(&t, "svc/", "cpu memory pids\n", "");
	tree_put(&t, "sys/fs/cgroup/svc/cgroup.procs", "4711\n4712\n");
	tree_put(&t, "sys/fs/cgroup/svc/self/cgroup.procs", "");
	tree_must_find(&t, (struct cgroup_find){ .below_own = true });
	assert_true(t.l.is_busy);
	/* Nobody leaves this tree: we write our number, and find that the others are still there. */
	assert_int_equal(cgroup_vacate(&t.l, false, &e), -1);
	assert_int_equal(e.code, ERR_CONFLICT);
	tree_check(&t, "sys/fs/cgroup/svc/self/cgroup.procs", "0");
	assert_int_equal(cgroup_vacate(&t.l, true, &e), -1);
	tree_check(&t, "sys/fs/cgroup/svc/self/cgroup.procs", "4712");
	tree_put(&t, "sys/fs/cgroup/svc/cgroup.procs", "");
	assert_int_equal(cgroup_vacate(&t.l, false, &e), 0);
	assert_false(t.l.is_busy);
	assert_int_equal(cgroup_vacate(&t.l, false, &e), 0);
}

static void processes_at_the_true_root_are_no_obstacle(void **state)
{
	AUTO(tree_done) struct tree t;

	(void)state;
	tree_v2(&t, "0::/\n");
	tree_put(&t, "sys/fs/cgroup/cgroup.subtree_control", "");
	tree_put(&t, "sys/fs/cgroup/cgroup.procs", "1\n2\n");
	tree_must_find(&t, (struct cgroup_find){ 0 });
	assert_false(t.l.is_busy);
}

static void controllers_are_handed_on_all_the_way_down(void **state)
{
	AUTO(tree_done) struct tree t;
	AUTO(cgroup_done) struct cgroup box = CGROUP_INIT;
	struct err e = { 0 };

	(void)state;
	tree_v2(&t, "0::/\n");
	tree_put(&t, "sys/fs/cgroup/cgroup.controllers", "memory\n");
	tree_put(&t, "sys/fs/cgroup/cgroup.subtree_control", "");
	tree_v2_group(&t, "a/", "memory\n", "");
	tree_v2_group(&t, "a/b/", "memory\n", "");
	tree_v2_group(&t, "a/b/osb/", "memory\n", "");
	tree_must_find(&t, (struct cgroup_find){ .base = "a/b" });
	assert_int_equal(cgroup_open_top(&t.l, "osb", NULL, &t.top, &e), 0);
	assert_int_equal(cgroup_make(&t.top, "b1", &box, &e), 0);
	tree_check(&t, "sys/fs/cgroup/cgroup.subtree_control", "+memory");
	tree_check(&t, "sys/fs/cgroup/a/cgroup.subtree_control", "+memory");
	tree_check(&t, "sys/fs/cgroup/a/b/cgroup.subtree_control", "+memory");
	tree_check(&t, "sys/fs/cgroup/a/b/osb/cgroup.subtree_control", "+memory");
}

static void a_group_that_cannot_hand_on_is_named(void **state)
{
	AUTO(tree_done) struct tree t;
	struct err e = { 0 };

	(void)state;
	tree_v2(&t, "0::/\n");
	tree_mkdir(&t, "sys/fs/cgroup/a"); /* a group without any file: what one looks like that is being removed */
	tree_must_find(&t, (struct cgroup_find){ .base = "a/b" });
	t.l.where[CGROUP_MEMORY] = 0;
	assert_int_equal(cgroup_open_top(&t.l, "osb", NULL, &t.top, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(e.msg, "group '/a'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(v2_serves_everything_from_one_place),
		cmocka_unit_test(v1_serves_each_from_its_own_place_and_the_freezer_is_first),
		cmocka_unit_test(a_hybrid_host_freezes_by_v2_and_limits_by_v1),
		cmocka_unit_test(an_old_kernels_v2_is_known_by_its_first_group),
		cmocka_unit_test(what_is_missing_is_said_with_its_reason),
		cmocka_unit_test(a_writable_view_is_preferred_to_a_read_only_one),
		cmocka_unit_test(hosts_without_control_groups_are_refused),
		cmocka_unit_test(paths_of_the_base_are_checked),
		cmocka_unit_test(below_own_is_the_group_of_this_process),
		cmocka_unit_test(a_service_has_its_groups_in_the_unit_beside_it_that_is_delegated),
		cmocka_unit_test(a_host_with_v1_keeps_its_groups_where_they_are),
		cmocka_unit_test(a_base_with_processes_is_vacated),
		cmocka_unit_test(processes_at_the_true_root_are_no_obstacle),
		cmocka_unit_test(controllers_are_handed_on_all_the_way_down),
		cmocka_unit_test(a_group_that_cannot_hand_on_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
