// SPDX-License-Identifier: Apache-2.0
#include "box/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/xattr.h>
#include <cmocka.h>

#include "sys/cgroup_tree_test.h"

#include "base/banned.h"

#define ALL "cpu io memory hugetlb pids\n"
#define UNIT "system.slice/opensandbox-boxes.service"
#define SHELL "0::/user.slice/session-1.scope\n"
#define SERVICE "0::/system.slice/opensandbox.service\n"

/* A host with the unit, and a state directory in it. */
static int make_host(struct tree *t)
{
	char path[128];

	tree_v2(t, SHELL);
	tree_v2_group(t, "system.slice/", ALL, ALL);
	tree_v2_group(t, UNIT "/", ALL, "");
	tree_mkdir(t, "state");
	(void)snprintf(path, sizeof(path), "%s/sys/fs/cgroup/" UNIT, t->root);
	return setxattr(path, "user.delegate", "1", 1, 0);
}

static void check(struct tree *t, const char *own, const char *want)
{
	AUTO_FD state = openat(t->dir, "state", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO(cgroup_layout_done) struct cgroup_layout l = CGROUP_LAYOUT_INIT;
	struct err e = { 0 };

	tree_put(t, "proc/self/cgroup", own);
	if (box_groups_find(t->root, state, "osb", &l, &e) < 0)
		fail_msg("%s", e.msg);
	assert_string_equal(l.v2_base, want);
}

static void a_service_uses_its_unit_and_a_shell_the_root(void **state)
{
	AUTO(tree_done) struct tree t;

	(void)state;
	if (make_host(&t) < 0)
		skip();
	check(&t, SHELL, "");
	assert_int_equal(faccessat(t.dir, "state/groups", F_OK, 0), -1); /* nothing new, nothing written */
	check(&t, SERVICE, UNIT);
	tree_check(&t, "state/groups", UNIT);
	check(&t, SERVICE, UNIT);
	check(&t, SHELL, "");
	tree_check(&t, "state/groups", "");
}

static void boxes_that_run_stay_where_they_are(void **state)
{
	AUTO(tree_done) struct tree t;

	(void)state;
	if (make_host(&t) < 0)
		skip();
	/* Of a version that knew the root alone, or a start from a shell. */
	tree_v2_group(&t, "osb/", ALL, ALL);
	tree_v2_group(&t, "osb/b1/", ALL, "");
	check(&t, SERVICE, "");
	check(&t, SHELL, "");
	assert_int_equal(renameat(t.dir, "sys/fs/cgroup/osb/b1", t.dir, "gone"), 0);
	check(&t, SERVICE, UNIT);
	/* And the other way round. */
	tree_v2_group(&t, UNIT "/osb/", ALL, ALL);
	tree_v2_group(&t, UNIT "/osb/b1/", ALL, "");
	check(&t, SHELL, UNIT);
	check(&t, SERVICE, UNIT);
	assert_int_equal(renameat(t.dir, "sys/fs/cgroup/" UNIT, t.dir, "stopped"), 0);
	check(&t, SHELL, "");
}

static void a_file_that_makes_no_sense_is_replaced(void **state)
{
	static const char *const texts[] = { "../..", "/", "no/such/group", "a\nb" };
	AUTO(tree_done) struct tree t;

	(void)state;
	if (make_host(&t) < 0)
		skip();
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		tree_put(&t, "state/groups", texts[i]);
		check(&t, SERVICE, UNIT);
		tree_check(&t, "state/groups", UNIT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_service_uses_its_unit_and_a_shell_the_root),
		cmocka_unit_test(boxes_that_run_stay_where_they_are),
		cmocka_unit_test(a_file_that_makes_no_sense_is_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
