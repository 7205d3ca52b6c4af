// SPDX-License-Identifier: Apache-2.0
#include "egress/operator_rules.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/err.h"
#include "egress/state.h"
#include "sys/fd.h"
#include "sys/tree.h"

#include "base/banned.h"

static char dir[64];
static int dirfd_ = -1;

static int setup(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/rules-test-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dirfd_ < 0;
}

static int teardown(void **state)
{
	struct err e = { 0 };

	(void)state;
	closep(&dirfd_);
	return tree_remove(AT_FDCWD, dir, &e);
}

static void put(const char *name, const char *text)
{
	struct err e = { 0 };

	assert_int_equal(file_replace(dirfd_, name, str_of(text), 0644, &e), 0);
}

static struct policy *policy(const char *text)
{
	struct err e = { 0 };
	struct policy *p = policy_parse(str_of(text), 0, &e);

	assert_non_null(p);
	return p;
}

static const char *about(const struct operator_rules *a, const struct policy *p, const char *address)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	const struct policy_rule *r;

	assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
	r = operator_rules_address(a, p, (const struct sockaddr *)&in);
	return !r ? "default" : r->action == POLICY_ALLOW ? "allow" : "deny";
}

static void lists_go_before_policies(void **state)
{
	AUTO(policy_free) struct policy *p = policy("{\"egress\":[{\"action\":\"allow\",\"target\":\"a.test\"},{\"action\":\"deny\",\"target\":\"b.test\"},"
						    "{\"action\":\"allow\",\"target\":\"192.0.2.1\"},{\"action\":\"deny\",\"target\":\"192.0.2.2\"}]}");
	struct operator_rules a = { 0 };
	struct err e = { 0 };
	uint16_t ports[POLICY_PORTS_MAX];

	(void)state;
	put("deny.always", "a.test\n192.0.2.1\n");
	put("allow.always", "a.test\nb.test:8080\nc.test\n192.0.2.2\n192.0.2.3\n");
	assert_int_equal(operator_rules_open(&a, dir, &e), 0);
	assert_false(operator_rules_allow_name(&a, p, "a.test"));
	assert_true(operator_rules_deny_name(&a, p, "a.test"));
	assert_true(operator_rules_allow_name(&a, p, "b.test"));
	assert_true(operator_rules_allow_name(&a, p, "c.test"));
	assert_false(operator_rules_allow_name(&a, p, "d.test"));
	assert_false(operator_rules_deny_name(&a, p, "d.test"));
	assert_int_equal(operator_rules_ports(&a, p, "a.test", ports), 0);
	/* the policy denies the rest of it */
	assert_int_equal(operator_rules_ports(&a, p, "b.test", ports), 1);
	assert_int_equal(ports[0], 8080);
	assert_int_equal(operator_rules_ports(&a, p, "c.test", ports), 3);
	assert_string_equal(about(&a, p, "192.0.2.1"), "deny");
	assert_string_equal(about(&a, p, "192.0.2.2"), "deny"); /* every deny goes before every allow (E22) */
	assert_string_equal(about(&a, p, "192.0.2.3"), "allow");
	assert_string_equal(about(&a, p, "192.0.2.4"), "default");
	operator_rules_done(&a);
}

static void what_is_wrong_stops_the_start_and_keeps_the_old(void **state)
{
	AUTO(policy_free) struct policy *p = policy("{\"defaultAction\":\"allow\"}");
	struct operator_rules a = { 0 };
	struct err e = { 0 };

	(void)state;
	put("log_skip.always", "192.0.2.1\n");
	assert_int_equal(operator_rules_open(&a, dir, &e), -1);
	assert_non_null(strstr(e.msg, "log_skip.always"));
	operator_rules_done(&a);
	put("log_skip.always", "x.test\n");
	assert_int_equal(operator_rules_open(&a, dir, &e), 0);
	assert_false(operator_rules_reload(&a)); /* nothing has changed */
	put("deny.always", "a.test\n");
	assert_true(operator_rules_reload(&a));
	assert_false(operator_rules_allow_name(&a, p, "a.test"));
	put("deny.always", "http://broken, and of another size\n");
	assert_false(operator_rules_reload(&a));
	assert_false(operator_rules_allow_name(&a, p, "a.test"));
	assert_int_equal(unlinkat(dirfd_, "deny.always", 0), 0);
	assert_true(operator_rules_reload(&a));
	assert_true(operator_rules_allow_name(&a, p, "a.test"));
	operator_rules_done(&a);
}

static void without_a_folder_there_are_no_lists(void **state)
{
	AUTO(policy_free) struct policy *p = policy("{}");
	struct operator_rules a = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(operator_rules_open(&a, NULL, &e), 0);
	assert_false(operator_rules_reload(&a));
	assert_false(operator_rules_allow_name(&a, p, "a.test"));
	operator_rules_done(&a);
	assert_int_equal(operator_rules_open(&a, "/nonexistent/folder", &e), 0);
	operator_rules_done(&a);
}

static bool is_box1(const char *id, void *arg)
{
	(void)arg;
	return strcmp(id, "box1") == 0;
}

static void policies_come_back_from_their_files(void **state)
{
	AUTO(policy_free) struct policy *p = policy("{\"egress\":[{\"action\":\"allow\",\"target\":\"A.test\"}]}");
	AUTO(policy_free) struct policy *q = NULL;
	const struct state st = { .dir = dirfd_ };
	struct err e = { 0 };
	bool is_there = true;

	(void)state;
	assert_null(state_load(&st, "box1", &is_there, &e));
	assert_false(is_there);
	assert_int_equal(state_write(&st, "box1", p, &e), 0);
	assert_null(state_load(&st, "box1", &is_there, &e)); /* before it has replaced another */
	assert_false(is_there);
	assert_int_equal(state_replace(&st, "box1", &e), 0);
	assert_int_equal(state_write(&st, "box2", p, &e), 0);
	assert_int_equal(state_replace(&st, "box2", &e), 0);
	assert_int_equal(state_write(&st, "box3", p, &e), 0);
	state_forget(&st, "box3");
	assert_int_equal(state_replace(&st, "box3", &e), -1);
	put("box3.new", "{");
	put("stranger", "?");
	q = state_load(&st, "box1", &is_there, &e);
	assert_non_null(q);
	assert_string_equal(q->rules[0].target, "A.test");
	state_sweep(&st, is_box1, NULL);
	assert_int_equal(faccessat(dirfd_, "box1.json", F_OK, 0), 0);
	assert_int_equal(faccessat(dirfd_, "box2.json", F_OK, 0), -1);
	assert_int_equal(faccessat(dirfd_, "box3.new", F_OK, 0), -1);
	assert_int_equal(faccessat(dirfd_, "stranger", F_OK, 0), -1);
	put("box1.new", "{"); /* a change on its way */
	state_sweep(&st, is_box1, NULL);
	assert_int_equal(faccessat(dirfd_, "box1.new", F_OK, 0), 0);
	put("box1.json", "");
	assert_null(state_load(&st, "box1", &is_there, &e));
	assert_true(is_there);
	state_remove(&st, "box1");
	assert_int_equal(faccessat(dirfd_, "box1.json", F_OK, 0), -1);
	assert_int_equal(faccessat(dirfd_, "box1.new", F_OK, 0), -1);
	state_remove(&st, "box1");
}

/* Of a sidecar: whatever else is in the folder is not its own. */
static void the_only_policy_has_the_name_that_it_was_given(void **state)
{
	AUTO(policy_free) struct policy *p = policy("{\"egress\":[{\"action\":\"allow\",\"target\":\"A.test\"}]}");
	AUTO(policy_free) struct policy *q = NULL;
	const struct state st = { .dir = dirfd_, .file = "policy" };
	struct err e = { 0 };
	bool is_there = false;
	struct stat now;

	(void)state;
	put("policy", " \n");
	put("stranger", "?");
	assert_int_equal(fchmodat(dirfd_, "policy", 0640, 0), 0);
	assert_null(state_load(&st, "one", &is_there, &e));
	assert_true(is_there);
	assert_int_equal(e.code, ERR_INVALID);
	assert_int_equal(state_write(&st, "one", p, &e), 0);
	assert_int_equal(state_replace(&st, "one", &e), 0);
	q = state_load(&st, "two", &is_there, &e);
	assert_non_null(q);
	assert_int_equal(fstatat(dirfd_, "policy", &now, 0), 0);
	assert_int_equal(now.st_mode & 0777, 0640);
	state_sweep(&st, is_box1, NULL);
	assert_int_equal(faccessat(dirfd_, "stranger", F_OK, 0), 0);
}

static void a_policy_in_memory_counts_when_it_has_replaced_another(void **state)
{
	AUTO(policy_free) struct policy *p = policy("{\"egress\":[{\"action\":\"allow\",\"target\":\"A.test\"}]}");
	AUTO(policy_free) struct policy *other = policy("{\"defaultAction\":\"allow\"}");
	AUTO(policy_free) struct policy *q = NULL;
	struct err e = { 0 };
	const struct state st = { .dir = -1, .memory = state_memory_new(&e) };
	bool is_there = true;

	(void)state;
	assert_non_null(st.memory);
	assert_null(state_load(&st, "one", &is_there, &e));
	assert_false(is_there);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(state_write(&st, "one", p, &e), 0);
		assert_int_equal(state_replace(&st, "one", &e), 0);
	}
	assert_int_equal(state_write(&st, "one", other, &e), 0);
	state_forget(&st, "one");
	q = state_load(&st, "one", &is_there, &e);
	assert_non_null(q);
	assert_int_equal(q->n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lists_go_before_policies, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_wrong_stops_the_start_and_keeps_the_old, setup, teardown),
		cmocka_unit_test_setup_teardown(without_a_folder_there_are_no_lists, setup, teardown),
		cmocka_unit_test_setup_teardown(policies_come_back_from_their_files, setup, teardown),
		cmocka_unit_test_setup_teardown(the_only_policy_has_the_name_that_it_was_given, setup, teardown),
		cmocka_unit_test_setup_teardown(a_policy_in_memory_counts_when_it_has_replaced_another, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
