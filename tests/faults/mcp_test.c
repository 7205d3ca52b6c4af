// SPDX-License-Identifier: Apache-2.0
/* Fails the n-th allocation, for every n, of a session with the MCP server: every request is answered all the same, with a result
 * or with an error, nothing crashes and nothing leaks. */
#include "client/test_peer.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "client/opensandbox.h"
#include "mcp/call.h"
#include "mcp/engine.h"
#include "mcp/session.h"

#include "failing_alloc.h"

#include "base/banned.h"

#define INFO "{\"id\":\"s1\",\"status\":{\"state\":\"Running\"},\"entrypoint\":[\"a\"],\"createdAt\":\"2026-01-01T00:00:00Z\",\"metadata\":{\"k\":\"v\"}}"
#define EVENTS \
	"{\"type\":\"init\",\"text\":\"e1\",\"timestamp\":1}\n\n{\"type\":\"stdout\",\"text\":\"hello\",\"timestamp\":2}\n\n" \
	"{\"type\":\"execution_complete\",\"execution_time\":3,\"timestamp\":4}\n\n"
#define TURNS_MAX 4000
#define TURN_MS 5

static const struct rule rules[] = {
	SAYS("POST /v1/sandboxes ", "202 Accepted", INFO),
	SAYS("GET /v1/sandboxes/s1/endpoints/", "200 OK", "{\"endpoint\":\"127.0.0.1:@PORT@/in\"}"),
	SAYS("GET /in/ping ", "200 OK", ""),
	SAYS("POST /in/command ", "200 OK", EVENTS),
	SAYS("GET /in/files/search", "200 OK",
	     "[{\"path\":\"/a\",\"size\":1,\"mode\":644,\"owner\":\"r\",\"group\":\"r\",\"modified_at\":\"2026-01-01T00:00:00Z\",\"created_at\":\"2026-01-01T00:00:00Z\"}]"),
	SAYS("DELETE /v1/sandboxes/s1 ", "204 No Content", ""),
	SAYS("GET /v1/sandboxes/s1 ", "200 OK", INFO),
	SAYS("GET /v1/sandboxes", "200 OK",
	     "{\"items\":[" INFO "],\"pagination\":{\"page\":1,\"pageSize\":20,\"totalItems\":1,\"totalPages\":1,\"hasNextPage\":false}}"),
	{ 0 },
};

#define CALL(name, arguments) "\"method\":\"tools/call\",\"params\":{\"name\":\"" name "\",\"arguments\":" arguments ",\"_meta\":{\"progressToken\":\"t\"}}"
static const char *const requests[] = {
	"\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\"}",
	"\"method\":\"tools/list\"",
	CALL("sandbox_create", "{\"image\":\"x\",\"health_check_polling_interval_ms\":1,\"env\":{\"A\":\"b\"},\"network_policy\":{\"egress\":[{\"action\":\"allow\",\"target\":\"a\"}]}}"),
	CALL("sandbox_list", "{\"filter\":\"{\\\"states\\\":[\\\"Running\\\"]}\"}"),
	CALL("command_run", "{\"sandbox_id\":\"s1\",\"command\":\"echo hello\",\"connect_if_missing\":true}"),
	CALL("file_search", "{\"sandbox_id\":\"s1\",\"path\":\"/\",\"pattern\":\"*\",\"connect_if_missing\":true}"),
	CALL("sandbox_kill", "{\"sandbox_id\":\"s1\"}"),
};

static struct peer peer;

struct ear {
	struct out out;
	unsigned answers, failures;
};

static void hear(struct out *o, struct str message)
{
	struct ear *ear = (struct ear *)o;

	if (!memmem(message.p, message.n, "\"id\":", 5))
		return;
	ear->answers++;
	if (memmem(message.p, message.n, "\"error\":{\"code\"", 15) || memmem(message.p, message.n, "\"isError\":true", 14))
		ear->failures++;
}

static bool has_room(const struct out *o)
{
	(void)o;
	return true;
}

static void finished(struct out *o)
{
	(void)o;
}

/* One request. The message itself is read without failures: that is the transports' part. */
static void ask(struct session *s, struct ear *ear, size_t i)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	long kept = countdown;
	struct err e = { 0 };
	const struct json *v;
	char text[1024];

	countdown = -1;
	(void)snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%zu,%s}", i + 1, requests[i]);
	v = json_parse(&a, str_of(text), NULL, NULL, &e);
	assert_non_null(v);
	countdown = kept;
	mcp_session_receive(s, v, &ear->out);
}

static void wait_for_answers(struct engine *en, const struct ear *ear, unsigned wanted)
{
	struct err e;

	for (int i = 0; i < TURNS_MAX && (ear->answers < wanted || en->calls); i++)
		assert_int_equal(loop_turn(en->loop, TURN_MS, &e), 0);
	assert_int_equal(ear->answers, wanted);
}

/* True: everything was answered, and with a result. */
static bool run_session(struct loop *l, struct osb_client *client)
{
	struct ear ear = { .out = { .send = hear, .has_room = has_room, .finished = finished, .max = CALL_RESULT_MAX, .left = SIZE_MAX } };
	struct engine en;
	struct session *s;
	struct err e = { 0 };

	if (engine_init(&en, l, client, &MCP_LIMITS, &e) < 0)
		return false;
	s = mcp_session_new(&en, &e);
	for (unsigned i = 0; s && i < ARRAY_LEN(requests); i++) {
		ask(s, &ear, i);
		wait_for_answers(&en, &ear, i + 1);
	}
	mcp_session_free(s);
	engine_done(&en);
	return s && ear.failures == 0;
}

static void sessions_survive_every_failure(void **state)
{
	(void)state;
	for (long n = 0;; n++) {
		struct osb_options o = OSB_OPTIONS;
		AUTO(loop_free) struct loop *l = NULL;
		struct osb_client *client;
		struct err e = { 0 };
		char domain[64];
		bool ok;

		(void)snprintf(domain, sizeof(domain), "127.0.0.1:%u", peer.port);
		o.domain = domain;
		client = osb_client_new(&o, NULL);
		l = loop_new(&e);
		assert_true(client && l);
		has_failed = false;
		countdown = n;
		ok = run_session(l, client);
		countdown = -1;
		osb_client_free(client);
		if (has_failed)
			continue; /* a message of progress may be left out: not every failure is to be seen */
		assert_true(ok && n > 100);
		return;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(sessions_survive_every_failure) };
	int r;

	failing_alloc_here();
	peer_start(&peer, rules);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	peer_stop(&peer);
	return r;
}
