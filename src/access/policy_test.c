// SPDX-License-Identifier: Apache-2.0
#include "access/policy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include "base/banned.h"

static struct policy *parsed(const char *text)
{
	struct err e = { 0 };
	struct policy *p = policy_parse(str_of(text), 0, &e);

	if (!p)
		fail_msg("%s: %s", text, e.msg);
	return p;
}

static void assert_written(const struct policy *p, const char *want)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);

	policy_write(p, &b);
	assert_string_equal(buf_z(&b), want);
}

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage ss = { 0 };

	if (inet_pton(AF_INET, text, &((struct sockaddr_in *)(void *)&ss)->sin_addr) == 1)
		ss.ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)(void *)&ss)->sin6_addr) == 1)
		ss.ss_family = AF_INET6;
	else
		fail_msg("%s is no address", text);
	return ss;
}

/* "allow", "deny" or "default". */
static const char *about_name(const struct policy *p, const char *name)
{
	const struct policy_rule *r = policy_match_name(p, name);

	return !r ? "default" : r->action == POLICY_ALLOW ? "allow" : "deny";
}

static const char *about_address(const struct policy *p, const char *text)
{
	struct sockaddr_storage ss = address(text);
	const struct policy_rule *r = policy_match_address(p, (const struct sockaddr *)&ss);

	return !r ? "default" : r->action == POLICY_ALLOW ? "allow" : "deny";
}

static void nothing_means_deny_everything(void **state)
{
	static const char *const texts[] = { "", "  \n", "null", "{}", "{\"egress\":null}", "{\"defaultAction\":\"\",\"egress\":[]}",
					     "{\"defaultAction\":null}", "{\"defaultAction\":\" DENY \"}" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		AUTO(policy_free) struct policy *p = parsed(texts[i]);

		assert_int_equal(p->fallback, POLICY_DENY);
		assert_int_equal(p->n, 0);
		assert_string_equal(policy_mode(p), "deny_all");
		assert_written(p, "{\"egress\":[],\"defaultAction\":\"deny\"}");
	}
}

static void what_cannot_be_meant_is_refused_by_its_place(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "{\"defaultAction\":\"block\"}", "defaultAction: unsupported action \"block\"" },
		{ "{\"defaultAction\":1}", "defaultAction: a string is expected" },
		{ "{\"defaultAction\":\"deny\",\"defaultAction\":\"allow\"}", "defaultAction: it is there twice" },
		{ "[]", "an object is expected" },
		{ "{\"egress\":{}}", "egress: an array is expected" },
		{ "{\"egress\":[1]}", "egress[0]: an object is expected" },
		{ "{\"egress\":[{\"action\":\"permit\",\"target\":\"a.test\"}]}", "egress[0].action: unsupported action \"permit\"" },
		{ "{\"egress\":[{\"target\":\"a.test\"},{\"action\":\"allow\"}]}", "egress[1].target: egress target cannot be empty" },
		{ "{\"egress\":[{\"target\":\" \"}]}", "egress[0].target: egress target cannot be empty" },
		{ "{\"egress\":[{\"target\":\"a.test\",\"target\":\"b.test\"}]}", "egress[0].target: it is there twice" },
		{ "{\"egress\":[{\"target\":7}]}", "egress[0].target: a string is expected" },
		{ "{\"egress\":[{\"target\":\"*\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\"*.\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\"a.*.test\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\"https://a.test\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\"a.test/x\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"action\":\"allow\",\"target\":\"a.test:0\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"action\":\"allow\",\"target\":\"a.test:65536\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"action\":\"allow\",\"target\":\"a.test:\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"action\":\"deny\",\"target\":\"a.test:80\"}]}", "egress[0].target: 'a.test:80': a name is denied" },
		{ "{\"egress\":[{\"target\":\"192.0.2.1:80\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\"192.0.2.256\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\"192.0.2.0/33\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\"192.0.2.0/\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\"2001:db8::/129\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\"[2001:db8::1]\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\"b\\u00fccher.test\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\"a..test\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\".test\"}]}", "egress[0].target" },
		{ "{\"egress\":[{\"target\":\"a.test\\u0000\"}]}", "egress[0].target" },
		{ "{", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };

		assert_null(policy_parse(str_of(cases[i].in), 0, &e));
		assert_int_equal(e.code, ERR_INVALID);
		if (strncmp(e.msg, cases[i].want, strlen(cases[i].want)) != 0)
			fail_msg("%s: '%s' does not begin with '%s'", cases[i].in, e.msg, cases[i].want);
	}
}

static void the_first_rule_about_a_name_decides(void **state)
{
	AUTO(policy_free) struct policy *p =
		parsed("{\"egress\":[{\"action\":\"allow\",\"target\":\"*.A.test\"},{\"action\":\"deny\",\"target\":\"api.a.test\"},"
		       "{\"action\":\"DENY\",\"target\":\"b.test.\"},{\"action\":\"allow\",\"target\":\"B.test\"},"
		       "{\"action\":\"allow\",\"target\":\"192.0.2.1\"}]}");

	(void)state;
	assert_string_equal(about_name(p, "api.a.test"), "allow");
	assert_string_equal(about_name(p, "x.y.a.test"), "allow");
	assert_string_equal(about_name(p, "a.test"), "default");
	assert_string_equal(about_name(p, "xa.test"), "default");
	assert_string_equal(about_name(p, ".a.test"), "default");
	assert_string_equal(about_name(p, "b.test"), "deny");
	assert_string_equal(about_name(p, "x.b.test"), "default");
	assert_string_equal(about_name(p, "192.0.2.1"), "default");
	assert_string_equal(policy_mode(p), "enforcing");
	assert_written(p, "{\"egress\":[{\"action\":\"allow\",\"target\":\"*.A.test\"},{\"action\":\"deny\",\"target\":\"api.a.test\"},"
			  "{\"action\":\"deny\",\"target\":\"b.test.\"},{\"action\":\"allow\",\"target\":\"B.test\"},"
			  "{\"action\":\"allow\",\"target\":\"192.0.2.1\"}],\"defaultAction\":\"deny\"}");
}

static void a_deny_about_an_address_goes_before_every_allow(void **state)
{
	AUTO(policy_free) struct policy *p =
		parsed("{\"defaultAction\":\"allow\",\"egress\":[{\"action\":\"allow\",\"target\":\"192.0.2.77\"},"
		       "{\"action\":\"deny\",\"target\":\"192.0.2.64/26\"},{\"action\":\"allow\",\"target\":\"203.0.113.9/25\"},"
		       "{\"action\":\"deny\",\"target\":\"2001:db8::/33\"},{\"action\":\"allow\",\"target\":\"10.1.2.3\"}]}");

	(void)state;
	assert_string_equal(about_address(p, "192.0.2.77"), "deny");
	assert_string_equal(about_address(p, "192.0.2.127"), "deny");
	assert_string_equal(about_address(p, "192.0.2.63"), "default");
	assert_string_equal(about_address(p, "203.0.113.127"), "allow");
	assert_string_equal(about_address(p, "203.0.113.128"), "default");
	assert_string_equal(about_address(p, "2001:db8:7fff::1"), "deny");
	assert_string_equal(about_address(p, "2001:db8:8000::1"), "default");
	assert_string_equal(about_address(p, "10.1.2.3"), "default"); /* W4 */
}

static void a_network_of_all_bits_and_of_none_is_one(void **state)
{
	AUTO(policy_free) struct policy *p = parsed("{\"egress\":[{\"action\":\"allow\",\"target\":\"0.0.0.0/0\"},{\"target\":\"::/0\"}]}");

	(void)state;
	assert_string_equal(about_address(p, "198.51.100.200"), "allow");
	assert_string_equal(about_address(p, "2001:db8::9"), "deny");
	assert_false(p->rules[0].is_reserved); /* most of it is public */
}

static void allows_of_reserved_networks_are_named_and_have_no_effect(void **state)
{
	AUTO(buf_done) struct buf why = BUF_INIT(1024);
	AUTO(buf_done) struct buf less = BUF_INIT(1024);
	AUTO(policy_free) struct policy *p =
		parsed("{\"egress\":[{\"action\":\"allow\",\"target\":\"10.0.0.0/8\"},{\"action\":\"deny\",\"target\":\"192.168.0.0/16\"},"
		       "{\"action\":\"allow\",\"target\":\"203.0.113.0/24\"},{\"action\":\"allow\",\"target\":\"169.254.169.254\"},"
		       "{\"action\":\"allow\",\"target\":\"2001:db8::1\"}]}");
	struct policy_rule open = { .action = POLICY_ALLOW };
	char name[HOST_NAME_LEN_MAX + 1];

	(void)state;
	policy_reason(p, &why);
	assert_string_equal(buf_z(&why), "allowed, but not reachable from sandboxes: 10.0.0.0/8, 169.254.169.254, 2001:db8::1");
	assert_int_equal(policy_target(STR("10.0.0.0/7"), &open, name, &(struct err){ 0 }), 0);
	policy_open(p, &open);
	policy_reason(p, &less);
	assert_string_equal(buf_z(&less), "allowed, but not reachable from sandboxes: 169.254.169.254, 2001:db8::1");
	assert_string_equal(about_address(p, "10.1.2.3"), "allow");
}

static void ports_are_those_of_the_rules_before_the_first_deny(void **state)
{
	AUTO(policy_free) struct policy *p =
		parsed("{\"egress\":[{\"action\":\"allow\",\"target\":\"a.test:8443\"},{\"action\":\"allow\",\"target\":\"*.b.test\"},"
		       "{\"action\":\"allow\",\"target\":\"x.b.test:5432\"},{\"action\":\"deny\",\"target\":\"a.test\"},"
		       "{\"action\":\"allow\",\"target\":\"a.test:1\"}]}");
	uint16_t ports[POLICY_PORTS_MAX];
	size_t n = 0;

	(void)state;
	assert_false(policy_ports(p, "a.test", ports, &n));
	assert_int_equal(n, 1);
	assert_int_equal(ports[0], 8443);
	n = 0;
	assert_true(policy_ports(p, "x.b.test", ports, &n));
	assert_int_equal(n, 4);
	assert_int_equal(ports[0], 22);
	assert_int_equal(ports[3], 5432);
	n = 0;
	assert_true(policy_ports(p, "c.test", ports, &n));
	assert_int_equal(n, 0);
}

static void ports_beyond_the_ceiling_are_left_out(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(8192);
	AUTO(policy_free) struct policy *p = NULL;
	uint16_t ports[POLICY_PORTS_MAX];
	size_t n = 0;

	(void)state;
	buf_addf(&b, "{\"egress\":[");
	for (int i = 1; i <= 40; i++)
		buf_addf(&b, "%s{\"action\":\"allow\",\"target\":\"a.test:%d\"}", i > 1 ? "," : "", i);
	buf_addf(&b, "]}");
	p = parsed(buf_z(&b));
	assert_true(policy_ports(p, "a.test", ports, &n));
	assert_int_equal(n, POLICY_PORTS_MAX);
}

static const struct json *json_of(struct arena *a, const char *text)
{
	struct err e = { 0 };
	const struct json *v = json_parse(a, str_of(text), NULL, NULL, &e);

	assert_non_null(v);
	return v;
}

static void a_patch_goes_to_the_front_and_replaces_its_targets(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(policy_free) struct policy *p = parsed("{\"defaultAction\":\"allow\",\"egress\":[{\"action\":\"allow\",\"target\":\"Example.COM\"},"
						    "{\"action\":\"deny\",\"target\":\"b.test\"},{\"action\":\"deny\",\"target\":\"192.0.2.1\"}]}");
	struct err e = { 0 };
	AUTO(policy_free) struct policy *q =
		policy_patch(p, json_of(&a, "[{\"action\":\"deny\",\"target\":\" example.com. \"},{\"action\":\"allow\",\"target\":\"example.com\"},"
					    "{\"action\":\"allow\",\"target\":\"192.0.2.1/32\"}]"), 0, &e);

	(void)state;
	assert_non_null(q);
	assert_written(q, "{\"egress\":[{\"action\":\"deny\",\"target\":\"example.com.\"},{\"action\":\"allow\",\"target\":\"192.0.2.1/32\"},"
			  "{\"action\":\"deny\",\"target\":\"b.test\"}],\"defaultAction\":\"allow\"}");
	assert_int_equal(p->n, 3);
}

static void bad_patches_are_refused(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "[]", "empty array" },
		{ "null", "empty array" },
		{ "{}", "an array is expected, not object" },
		{ "[1]", "egress[0]: an object is expected, not integer" },
		{ "[{\"action\":\"x\",\"target\":\"a.test\"}]", "egress[0].action: unsupported action \"x\"" },
		{ "[{\"action\":\"allow\"}]", "egress[0].target: egress target cannot be empty" },
	};
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(policy_free) struct policy *p = parsed("{}");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };

		assert_null(policy_patch(p, json_of(&a, cases[i].in), 0, &e));
		assert_int_equal(e.code, ERR_INVALID);
		assert_string_equal(e.msg, cases[i].want);
	}
}

static void rules_beyond_the_ceiling_are_refused(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(policy_free) struct policy *p = parsed("{\"egress\":[{\"target\":\"a.test\"},{\"target\":\"b.test\"}]}");
	const char *three = "{\"egress\":[{\"target\":\"a.test\"},{\"target\":\"b.test\"},{\"target\":\"c.test\"}]}";
	struct err e = { 0 };

	(void)state;
	assert_null(policy_parse(str_of(three), 2, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_string_equal(e.msg, "egress rule total count 3 exceeds limit 2");
	assert_null(policy_patch(p, json_of(&a, "[{\"target\":\"c.test\"}]"), 2, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_string_equal(e.msg, "egress rule total count 3 exceeds limit 2");
}

static void deletes_take_every_rule_of_a_target(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(policy_free) struct policy *p = parsed("{\"egress\":[{\"target\":\"a.test\"},{\"action\":\"allow\",\"target\":\"A.TEST.\"},"
						    "{\"action\":\"allow\",\"target\":\"a.test:8080\"},{\"target\":\"192.0.2.0/24\"}]}");
	AUTO(policy_free) struct policy *q = NULL;
	AUTO(policy_free) struct policy *same = NULL;
	struct err e = { 0 };
	size_t removed = 99;

	(void)state;
	q = policy_without(p, json_of(&a, "[\" a.Test \",\"192.0.2.9/24\"]"), &removed, &e);
	assert_non_null(q);
	assert_int_equal(removed, 3);
	assert_written(q, "{\"egress\":[{\"action\":\"allow\",\"target\":\"a.test:8080\"}],\"defaultAction\":\"deny\"}");
	same = policy_without(p, json_of(&a, "[\"c.test\",\"https://never\",\"\"]"), &removed, &e);
	assert_non_null(same);
	assert_int_equal(removed, 0);
	assert_null(policy_without(p, json_of(&a, "[]"), &removed, &e));
	assert_string_equal(e.msg, "empty array");
	assert_null(policy_without(p, json_of(&a, "[1]"), &removed, &e));
	assert_null(policy_without(p, json_of(&a, "\"a.test\""), &removed, &e));
}

static void lists_have_a_target_a_line(void **state)
{
	struct err e = { 0 };
	AUTO(policy_free) struct policy *p =
		policy_from_lines(STR("# ours\n\n  *.a.test \r\n192.0.2.0/24\nb.test"), POLICY_DENY, 0, &e);

	(void)state;
	assert_non_null(p);
	assert_int_equal(p->n, 3);
	assert_string_equal(about_name(p, "x.a.test"), "deny");
	assert_string_equal(about_address(p, "192.0.2.7"), "deny");
	assert_null(policy_from_lines(STR("a.test\n#\nhttp://b\n"), POLICY_ALLOW, 0, &e));
	assert_int_equal(e.code, ERR_INVALID);
	assert_int_equal(strncmp(e.msg, "line 3: ", 8), 0);
	assert_null(policy_from_lines(STR("a.test\nb.test\nc.test\n"), POLICY_ALLOW, 2, &e));
	assert_int_equal(e.code, ERR_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_means_deny_everything),
		cmocka_unit_test(what_cannot_be_meant_is_refused_by_its_place),
		cmocka_unit_test(the_first_rule_about_a_name_decides),
		cmocka_unit_test(a_deny_about_an_address_goes_before_every_allow),
		cmocka_unit_test(a_network_of_all_bits_and_of_none_is_one),
		cmocka_unit_test(allows_of_reserved_networks_are_named_and_have_no_effect),
		cmocka_unit_test(ports_are_those_of_the_rules_before_the_first_deny),
		cmocka_unit_test(ports_beyond_the_ceiling_are_left_out),
		cmocka_unit_test(a_patch_goes_to_the_front_and_replaces_its_targets),
		cmocka_unit_test(bad_patches_are_refused),
		cmocka_unit_test(rules_beyond_the_ceiling_are_refused),
		cmocka_unit_test(deletes_take_every_rule_of_a_target),
		cmocka_unit_test(lists_have_a_target_a_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
