// SPDX-License-Identifier: Apache-2.0
/* What creates, forks, rollbacks and pools say about the network, and the way to the port of policies. */
#include "server/model/test_plane.h"

#include "server/api/create.h"

#include "base/banned.h"

static struct rig r;

#define POLICY "{\"defaultAction\":\"deny\",\"egress\":[{\"action\":\"allow\",\"target\":\"a.test\"}]}"

static int setup(void **state)
{
	(void)state;
	rig_start(&r);
	r.fake.rt.can.networks = FAKE_NETWORKS;
	r.fake.rt.shares_egress = true;
	r.plane->spec.network = RUNTIME_NET_OPEN;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_stop(&r);
	return 0;
}

static void has_policy(const char *word)
{
	assert_int_equal(r.fake.network, RUNTIME_NET_POLICY);
	if (!strstr(r.fake.policy, word))
		fail_msg("no '%s' in '%s'", word, r.fake.policy);
}

static void the_network_is_what_the_create_says_or_the_default(void **state)
{
	static const struct {
		const char *more;
		enum runtime_network network;
		const char *word; /* of the policy */
	} rows[] = {
		{ "", RUNTIME_NET_OPEN, "" },
		{ ",\"networkPolicy\":null", RUNTIME_NET_OPEN, "" },
		{ ",\"extensions\":{\"network.mode\":\"none\"}", RUNTIME_NET_NONE, "" },
		{ ",\"extensions\":{\"network.mode\":\"default\"}", RUNTIME_NET_OPEN, "" },
		{ ",\"networkPolicy\":{}", RUNTIME_NET_POLICY, "\"egress\":[]" },
		{ ",\"networkPolicy\":{\"egress\":null}", RUNTIME_NET_POLICY, "\"egress\":[]" },
		{ ",\"networkPolicy\":{\"egress\":[],\"more\":1}", RUNTIME_NET_POLICY, "\"defaultAction\":\"deny\"" },
		{ ",\"network_policy\":{\"default_action\":\"ALLOW \"}", RUNTIME_NET_POLICY, "\"defaultAction\":\"allow\"" },
		{ ",\"networkPolicy\":" POLICY, RUNTIME_NET_POLICY, "\"target\":\"a.test\"" },
		{ ",\"networkPolicy\":" POLICY ",\"extensions\":{\"network.mode\":\"default\"}", RUNTIME_NET_POLICY, "\"target\":\"a.test\"" },
	};
	char id[UUID_LEN + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		rig_create(&r, rows[i].more, id);
		assert_int_equal(r.fake.network, rows[i].network);
		if (rows[i].network == RUNTIME_NET_POLICY)
			has_policy(rows[i].word);
		else
			assert_string_equal(r.fake.policy, "");
	}
	r.plane->spec.network = RUNTIME_NET_NONE;
	rig_create(&r, "", id);
	assert_int_equal(r.fake.network, RUNTIME_NET_NONE);
	rig_create(&r, ",\"networkPolicy\":{}", id);
	assert_int_equal(r.fake.network, RUNTIME_NET_POLICY);
}

static void what_cannot_be_kept_is_refused_by_name(void **state)
{
	static const struct {
		const char *more;
		unsigned status;
		const char *part;
	} rows[] = {
		{ "\"networkPolicy\":{\"defaultAction\":\"block\"}", 400, "networkPolicy.defaultAction" },
		{ "\"networkPolicy\":{\"egress\":[{\"action\":\"permit\",\"target\":\"a.test\"}]}", 400, "networkPolicy.egress[0].action" },
		{ "\"networkPolicy\":{\"egress\":[{\"action\":\"allow\",\"target\":\"https://a.test/\"}]}", 400, "networkPolicy.egress[0].target" },
		{ "\"networkPolicy\":{\"egress\":[{\"action\":\"allow\",\"target\":\"*\"}]}", 400, "networkPolicy.egress[0].target" },
		{ "\"networkPolicy\":{\"egress\":[{\"action\":\"allow\",\"target\":\"192.0.2.0/33\"}]}", 400, "networkPolicy.egress[0].target" },
		{ "\"networkPolicy\":{\"egress\":[{\"action\":\"allow\"}]}", 422, "target" },
		{ "\"networkPolicy\":{\"egress\":{}}", 422, "egress" },
		{ "\"networkPolicy\":{\"defaultAction\":1}", 422, "defaultAction" },
		{ "\"extensions\":{\"network.mode\":\"bridge\"}", 400, "extensions.network.mode" },
		{ "\"networkPolicy\":{},\"extensions\":{\"network.mode\":\"none\"}", 400, "networkPolicy" },
		{ "\"networkPolicy\":{},\"credentialProxy\":{\"enabled\":true}", 400, "credentialProxy" },
	};
	char body[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		(void)snprintf(body, sizeof(body), "{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"x\"],\"resourceLimits\":{},%s}", rows[i].more);
		rig_ask(&r, "POST /v1/sandboxes", body);
		if (rig_status(r.answer) != rows[i].status)
			fail_msg("%s: %s", body, r.answer);
		has(r.answer, rows[i].part);
	}
	assert_int_equal(r.fake.count[FAKE_CREATE], 0);
}

static void a_policy_has_as_many_rules_as_the_operator_allows(void **state)
{
	char id[UUID_LEN + 1];

	(void)state;
	r.plane->spec.max_rules = 1;
	rig_create(&r, ",\"networkPolicy\":" POLICY, id);
	has(rig_ask(&r, "POST /v1/sandboxes", "{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"x\"],\"resourceLimits\":{},\"networkPolicy\":{\"egress\":["
			"{\"action\":\"allow\",\"target\":\"a.test\"},{\"action\":\"allow\",\"target\":\"b.test\"}]}}"),
	    "networkPolicy.egress: more than 1 rules");
}

static void without_egress_there_is_no_network_and_none_is_promised(void **state)
{
	char id[UUID_LEN + 1];

	(void)state;
	r.fake.rt.can.networks = 1U << RUNTIME_NET_NONE;
	rig_create(&r, "", id);
	assert_int_equal(r.fake.network, RUNTIME_NET_NONE);
	has(rig_ask(&r, "POST /v1/sandboxes", "{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"x\"],\"resourceLimits\":{},\"networkPolicy\":{}}"),
	    "networkPolicy: sandboxes have no network here");
	has(rig_ask(&r, "POST /v1/sandboxes",
		    "{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"x\"],\"resourceLimits\":{},\"extensions\":{\"network.mode\":\"default\"}}"),
	    "extensions.network.mode: sandboxes have no network here");
}

static void a_fork_may_reach_what_its_source_may_by_now(void **state)
{
	char source[UUID_LEN + 1];

	(void)state;
	rig_create(&r, ",\"networkPolicy\":" POLICY, source);
	r.fake.policy_now = "{\"egress\":[{\"action\":\"allow\",\"target\":\"b.test\"}],\"defaultAction\":\"deny\"}";
	has(rig_on(&r, "POST", source, "/fork", "{}"), "HTTP/1.1 202 ");
	has_policy("b.test");
	has(rig_on(&r, "POST", source, "/fork", "{\"networkPolicy\":{\"egress\":[{\"action\":\"allow\",\"target\":\"c.test\"}]}}"), "HTTP/1.1 202 ");
	has_policy("c.test");
	r.fake.policy_now = NULL; /* nobody keeps one: the record does, as it was last told */
	has(rig_on(&r, "POST", source, "/fork", "{}"), "HTTP/1.1 202 ");
	has_policy("b.test");
	r.fake.fails[FAKE_POLICY] = 1;
	has(rig_on(&r, "POST", source, "/fork", "{\"count\":2}"), "HTTP/1.1 500 ");
	assert_int_equal(r.fake.n_boxes, 4);
}

static void a_fork_of_an_open_sandbox_is_open_unless_it_was_closed_since(void **state)
{
	char source[UUID_LEN + 1];

	(void)state;
	rig_create(&r, "", source);
	r.fake.policy_now = "{\"egress\":[],\"defaultAction\":\"allow\"}";
	has(rig_on(&r, "POST", source, "/fork", "{}"), "HTTP/1.1 202 ");
	assert_int_equal(r.fake.network, RUNTIME_NET_OPEN);
	r.fake.policy_now = "{\"egress\":[{\"action\":\"deny\",\"target\":\"b.test\"}],\"defaultAction\":\"allow\"}";
	has(rig_on(&r, "POST", source, "/fork", "{}"), "HTTP/1.1 202 ");
	has_policy("b.test");
	rig_create(&r, ",\"extensions\":{\"network.mode\":\"none\"}", source);
	has(rig_on(&r, "POST", source, "/fork", "{}"), "HTTP/1.1 202 ");
	assert_int_equal(r.fake.network, RUNTIME_NET_NONE);
}

static void a_fork_that_waits_for_a_policy_is_told_of_a_stop(void **state)
{
	char source[UUID_LEN + 1], line[128];
	int fd;

	(void)state;
	rig_create(&r, "", source);
	(void)snprintf(line, sizeof(line), "POST /v1/sandboxes/%s/fork", source);
	r.fake.holds = true;
	fd = rig_send(&r.api, line, AUTH, "{}");
	RIG_WAIT(&r, r.fake.count[FAKE_SNAPSHOT] == 1);
	fake_release(&r.fake);
	RIG_WAIT(&r, r.fake.count[FAKE_POLICY] == 1);
	(void)close(fd);
	r.fake.holds = false;
	rig_restart(&r);
	assert_int_equal(r.fake.n_boxes, 1);
}

static void take(const char *sandbox, char out[UUID_LEN + 1])
{
	char body[64];

	has(rig_on(&r, "POST", sandbox, "/snapshots", "{}"), "HTTP/1.1 202 ");
	(void)snprintf(out, UUID_LEN + 1, "%.36s", strstr(r.answer, "\"id\":\"") + 6);
	(void)snprintf(body, sizeof(body), "GET /v1/snapshots/%s", out);
	for (int i = 0; i < TURNS && !strstr(rig_ask(&r, body, NULL), "\"Ready\""); i++)
		rig_turn(&r, 1);
}

static void restore(const char *snapshot, const char *more)
{
	char body[512];

	(void)snprintf(body, sizeof(body), "{\"snapshotId\":\"%s\",\"entrypoint\":[\"x\"],\"resourceLimits\":{}%s}", snapshot, more);
	r.fake.network = RUNTIME_NETWORKS;
	has(rig_ask(&r, "POST /v1/sandboxes", body), "HTTP/1.1 202 ");
}

static void who_is_made_from_a_snapshot_may_reach_what_its_source_could(void **state)
{
	char source[UUID_LEN + 1], first[UUID_LEN + 1], second[UUID_LEN + 1];

	(void)state;
	rig_create(&r, ",\"networkPolicy\":" POLICY, source);
	r.fake.policy_now = "{\"egress\":[{\"action\":\"allow\",\"target\":\"b.test\"}],\"defaultAction\":\"deny\"}";
	take(source, first);
	r.fake.policy_now = "{\"egress\":[{\"action\":\"allow\",\"target\":\"c.test\"}],\"defaultAction\":\"deny\"}";
	take(source, second);
	restore(first, "");
	has_policy("b.test");
	restore(second, "");
	has_policy("c.test");
	restore(first, ",\"networkPolicy\":{\"egress\":[{\"action\":\"allow\",\"target\":\"d.test\"}]}"); /* unless it says another */
	has_policy("d.test");
	restore(first, ",\"extensions\":{\"network.mode\":\"default\"}");
	assert_int_equal(r.fake.network, RUNTIME_NET_OPEN);
	restore(first, ",\"extensions\":{\"network.mode\":\"none\"}");
	assert_int_equal(r.fake.network, RUNTIME_NET_NONE);
	rig_restart(&r);
	restore(first, "");
	has_policy("b.test");
	restore(second, "");
	has_policy("c.test");
}

static void what_had_no_network_is_restored_without_one(void **state)
{
	char source[UUID_LEN + 1], snapshot[UUID_LEN + 1];

	(void)state;
	rig_create(&r, ",\"extensions\":{\"network.mode\":\"none\"}", source);
	take(source, snapshot);
	restore(snapshot, "");
	assert_int_equal(r.fake.network, RUNTIME_NET_NONE);
	rig_create(&r, "", source);
	r.fake.policy_now = "{\"egress\":[],\"defaultAction\":\"allow\"}";
	take(source, snapshot);
	restore(snapshot, "");
	assert_int_equal(r.fake.network, RUNTIME_NET_OPEN);
	r.plane->spec.network = RUNTIME_NET_NONE; /* an open one is as every new one */
	restore(snapshot, "");
	assert_int_equal(r.fake.network, RUNTIME_NET_NONE);
}

static void a_snapshot_whose_policy_cannot_be_read_fails(void **state)
{
	char source[UUID_LEN + 1], id[UUID_LEN + 1], line[128];

	(void)state;
	rig_create(&r, ",\"networkPolicy\":" POLICY, source);
	r.fake.fails[FAKE_POLICY] = 1;
	take(source, id);
	(void)snprintf(line, sizeof(line), "GET /v1/snapshots/%s", id);
	has(rig_ask(&r, line, NULL), "\"Failed\"");
	assert_int_equal(r.fake.count[FAKE_SNAPSHOT], 0);
}

static void a_rollback_keeps_what_it_may_reach_by_now(void **state)
{
	char sandbox[UUID_LEN + 1], snapshot[UUID_LEN + 1], body[128];

	(void)state;
	rig_create(&r, ",\"networkPolicy\":" POLICY, sandbox);
	r.fake.policy_now = "{\"egress\":[{\"action\":\"deny\",\"target\":\"b.test\"}],\"defaultAction\":\"allow\"}";
	take(sandbox, snapshot);
	(void)snprintf(body, sizeof(body), "{\"snapshotId\":\"%s\"}", snapshot);
	r.fake.fails[FAKE_POLICY] = 1; /* nothing has been touched then */
	has(rig_on(&r, "POST", sandbox, "/rollback", body), "HTTP/1.1 500 ");
	assert_int_equal(r.fake.count[FAKE_REMOVE], 0);
	has(rig_on(&r, "POST", sandbox, "/rollback", body), "HTTP/1.1 200 ");
	has_policy("b.test");
	/* It goes with the old one, so the record has it: also for a server that was killed in between. */
	r.fake.policy_now = NULL;
	rig_restart(&r);
	r.fake.policy[0] = '\0';
	has(rig_on(&r, "POST", sandbox, "/rollback", body), "HTTP/1.1 200 ");
	has_policy("b.test");
}

static void the_network_is_kept_over_restarts(void **state)
{
	char with[UUID_LEN + 1], open[UUID_LEN + 1], line[96];

	(void)state;
	rig_create(&r, ",\"networkPolicy\":" POLICY, with);
	rig_create(&r, "", open);
	rig_restart(&r);
	(void)snprintf(line, sizeof(line), "GET /v1/sandboxes/%s/diagnostics/inspect", with);
	has(rig_ask(&r, line, NULL), "network: policy\n");
	(void)snprintf(line, sizeof(line), "GET /v1/sandboxes/%s/diagnostics/inspect", open);
	has(rig_ask(&r, line, NULL), "network: default\n");
	r.fake.policy_now = NULL;
	has(rig_on(&r, "POST", with, "/fork", "{}"), "HTTP/1.1 202 ");
	has_policy("a.test");
}

static const char *ask_egress(const char *id, const char *rest, const char *token)
{
	char line[256], headers[256];

	(void)snprintf(line, sizeof(line), "GET /v1/sandboxes/%s/proxy/18080%s", id, rest);
	(void)snprintf(headers, sizeof(headers), "OPENSANDBOX-EGRESS-AUTH: %s\r\n", token);
	return rig_receive(&r, rig_send(&r.api, line, headers, NULL));
}

static void the_port_of_policies_leads_to_this_sandbox_alone(void **state)
{
	static const char *const elsewhere[] = {
		"/../other/policy", "/%2e%2e/other/policy", "/policy/../../other/policy", "/..%2fother/policy", "/.", "//policy;x", "/a%00",
	};
	char id[UUID_LEN + 1], token[SANDBOX_TOKEN_LEN + 1], line[256], want[128], got[1024];
	int fd;
	ssize_t n = -1;

	(void)state;
	rig_create(&r, "", id);
	sandbox_token(sandboxes_find(r.plane->sandboxes, str_of(id)), "egress", token);
	has(ask_egress(id, "/policy", "wrong"), "HTTP/1.1 401 ");
	for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++) {
		(void)ask_egress(id, elsewhere[i], token);
		if (rig_status(r.answer) != 404 && rig_status(r.answer) != 400)
			fail_msg("%s: %s", elsewhere[i], r.answer);
	}
	assert_int_equal(r.fake.count[FAKE_DIAL], 0);
	has(rig_on(&r, "POST", id, "/pause", NULL), "202"); /* it is asked and told at any time */
	(void)snprintf(line, sizeof(line), "GET /v1/sandboxes/%s/proxy/18080/policy?x=../y", id);
	(void)snprintf(got, sizeof(got), "OPENSANDBOX-EGRESS-AUTH: %s\r\n", token);
	fd = rig_send(&r.api, line, got, NULL);
	RIG_WAIT(&r, r.fake.n_far == 1);
	for (int i = 0; i < TURNS && n <= 0; i++) {
		rig_turn(&r, 1);
		n = recv(r.fake.far[0], got, sizeof(got) - 1, MSG_DONTWAIT);
	}
	assert_true(n > 0);
	got[n] = '\0';
	(void)snprintf(want, sizeof(want), "GET /sandboxes/%s/policy?x=../y HTTP/1.1\r\n", id);
	has(got, want);
	assert_int_equal(send(r.fake.far[0], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 41, MSG_NOSIGNAL), 41);
	has(rig_receive(&r, fd), "HTTP/1.1 200 ");
	assert_int_equal(r.fake.count[FAKE_POLICY], 0);
	r.fake.fails[FAKE_DIAL] = 1;
	has(ask_egress(id, "/policy", token), "EGRESS_UNAVAILABLE");
}

/* Egress forgets a sandbox that has ended when it is started anew: then the record is all there is. */
static void a_change_of_policy_is_written_down(void **state)
{
	char sandbox[UUID_LEN + 1], snapshot[UUID_LEN + 1], token[SANDBOX_TOKEN_LEN + 1], line[160], text[160];
	int fd;

	(void)state;
	rig_create(&r, "", sandbox);
	take(sandbox, snapshot);
	sandbox_token(sandboxes_find(r.plane->sandboxes, str_of(sandbox)), "egress", token);
	(void)snprintf(line, sizeof(line), "PUT /v1/sandboxes/%s/proxy/18080/policy", sandbox);
	(void)snprintf(text, sizeof(text), "OPENSANDBOX-EGRESS-AUTH: %s\r\n", token);
	r.fake.policy_now = "{\"egress\":[],\"defaultAction\":\"deny\"}";
	fd = rig_send(&r.api, line, text, "{}");
	RIG_WAIT(&r, r.fake.n_far == 1);
	rig_turn(&r, 20);
	assert_int_equal(send(r.fake.far[0], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 41, MSG_NOSIGNAL), 41);
	has(rig_receive(&r, fd), "HTTP/1.1 200 ");
	RIG_WAIT(&r, r.fake.count[FAKE_POLICY] == 2); /* the snapshot has read it, too */
	rig_turn(&r, 20);
	fake_end(&r.fake, sandbox, &(struct runtime_end){ .exit_code = 0 });
	r.fake.policy_now = NULL;
	rig_restart(&r);
	(void)snprintf(text, sizeof(text), "{\"snapshotId\":\"%s\"}", snapshot);
	has(rig_on(&r, "POST", sandbox, "/rollback", text), "HTTP/1.1 200 ");
	has_policy("\"defaultAction\":\"deny\"");
}

static void the_port_of_policies_says_what_holds_without_a_network(void **state)
{
	static const struct {
		const char *line, *body, *part;
		unsigned status;
	} rows[] = {
		{ "GET /v1/sandboxes/%s/proxy/18080/policy", NULL, "\"mode\":\"deny_all\"", 200 },
		{ "GET /v1/sandboxes/%s/proxy/18080/policy", NULL, "the sandbox has no network", 200 },
		{ "PUT /v1/sandboxes/%s/proxy/18080/policy", "{\"defaultAction\":\"allow\"}", "no network", 409 },
		{ "PATCH /v1/sandboxes/%s/proxy/18080/policy", "[]", "no network", 409 },
		{ "PROPFIND /v1/sandboxes/%s/proxy/18080/policy", NULL, "Allow: GET, POST", 405 },
		{ "GET /v1/sandboxes/%s/proxy/18080/healthz", NULL, "ok", 200 },
		{ "GET /v1/sandboxes/%s/proxy/18080/", NULL, "404 page not found\n", 404 },
	};
	char id[UUID_LEN + 1], token[SANDBOX_TOKEN_LEN + 1], line[128], header[128];

	(void)state;
	rig_create(&r, ",\"extensions\":{\"network.mode\":\"none\"}", id);
	sandbox_token(sandboxes_find(r.plane->sandboxes, str_of(id)), "egress", token);
	(void)snprintf(header, sizeof(header), "OPENSANDBOX-EGRESS-AUTH: %s\r\n", token);
	has(ask_egress(id, "/policy", "wrong"), "HTTP/1.1 401 ");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *at = strstr(rows[i].line, "%s");

		(void)snprintf(line, sizeof(line), "%.*s%s%s", (int)(at - rows[i].line), rows[i].line, id, at + 2);
		has(rig_receive(&r, rig_send(&r.api, line, header, rows[i].body)), rows[i].part);
		assert_int_equal(rig_status(r.answer), rows[i].status);
	}
	assert_int_equal(r.fake.count[FAKE_DIAL], 0);
}

#define ACTIVITY \
	"{\"sandboxId\":\"x\",\"counters\":{\"queries\":7,\"denied\":3},\"recent\":[" \
	"{\"kind\":\"tcp\",\"decision\":\"deny\",\"address\":\"192.0.2.9\",\"port\":443,\"reason\":\"no name\",\"count\":2,\"first\":\"A\",\"last\":\"T2\"}," \
	"{\"kind\":\"dns\",\"decision\":\"allow\",\"target\":\"a.test\",\"count\":4,\"first\":\"A\",\"last\":\"T1\"}],\"forgotten\":1}"

static void what_it_tried_to_reach_is_told(void **state)
{
	char id[UUID_LEN + 1], none[UUID_LEN + 1];
	const char *first;

	(void)state;
	rig_create(&r, "", id);
	rig_create(&r, ",\"extensions\":{\"network.mode\":\"none\"}", none);
	r.fake.activity = ACTIVITY;
	has(rig_on(&r, "GET", id, "/diagnostics/network", NULL), "\"sandboxId\":\"x\",\"counters\":{\"queries\":7");
	has(r.answer, "\"forgotten\":1}");
	first = strstr(rig_on(&r, "GET", id, "/diagnostics/events", NULL), "T1 network allow dns a.test, 4 times\n");
	assert_non_null(first);
	has(first, "T2 network deny tcp 192.0.2.9 port 443, 2 times: no name\n");
	has(rig_on(&r, "GET", id, "/diagnostics/events?scope=network", NULL), "\"content\":\"T1 network allow");
	has(rig_on(&r, "GET", id, "/diagnostics/logs?scope=network", NULL), "T2 network deny");
	lacks(rig_on(&r, "GET", id, "/diagnostics/logs", NULL), "network deny");
	has(rig_on(&r, "GET", id, "/diagnostics/inspect", NULL), "network_used: queries 7, denied 3\n");
	has(rig_on(&r, "GET", none, "/diagnostics/network", NULL), "\"recent\":[]}");
	r.fake.activity = NULL;
	has(rig_on(&r, "GET", id, "/diagnostics/network", NULL), "\"counters\":{},");
	r.fake.fails[FAKE_ACTIVITY] = 1;
	has(rig_on(&r, "GET", id, "/diagnostics/network", NULL), "HTTP/1.1 500 ");
	r.fake.fails[FAKE_ACTIVITY] = 1; /* the rest is told all the same */
	has(rig_on(&r, "GET", id, "/diagnostics/summary", NULL), "HTTP/1.1 200 ");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_network_is_what_the_create_says_or_the_default), TEST(what_cannot_be_kept_is_refused_by_name),
		TEST(a_policy_has_as_many_rules_as_the_operator_allows), TEST(without_egress_there_is_no_network_and_none_is_promised),
		TEST(who_is_made_from_a_snapshot_may_reach_what_its_source_could), TEST(what_had_no_network_is_restored_without_one),
		TEST(a_snapshot_whose_policy_cannot_be_read_fails),
		TEST(a_fork_may_reach_what_its_source_may_by_now), TEST(a_fork_of_an_open_sandbox_is_open_unless_it_was_closed_since),
		TEST(a_fork_that_waits_for_a_policy_is_told_of_a_stop), TEST(a_rollback_keeps_what_it_may_reach_by_now),
		TEST(the_network_is_kept_over_restarts), TEST(the_port_of_policies_leads_to_this_sandbox_alone),
		TEST(a_change_of_policy_is_written_down), TEST(the_port_of_policies_says_what_holds_without_a_network), TEST(what_it_tried_to_reach_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
