// SPDX-License-Identifier: Apache-2.0
/* The life of a sandbox, through the API. */
#include "server/model/test_plane.h"

#include "base/banned.h"

static struct rig rig;

static void a_create_is_running_when_it_is_answered(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, ",\"timeout\":600,\"metadata\":{\"team\":\"infra\"},\"env\":{\"A\":\"secret-value\",\"B\":null,\"C\":\"\"}", id);
	has(r->answer, "\"status\":{\"state\":\"Running\",\"reason\":\"CONTAINER_RUNNING\",\"message\":"
		       "\"Sandbox container started successfully.\"");
	has(r->answer, "\"metadata\":{\"team\":\"infra\"}");
	has(r->answer, "\"expiresAt\":\"2026-05-28T20:36:40Z\",\"createdAt\":\"2026-05-28T20:26:40Z\"");
	has(r->answer, "\"entrypoint\":[\"tail\",\"-f\",\"/dev/null\"]}");
	has(r->answer, "Location: /v1/sandboxes/");
	lacks(r->answer, "\"image\"");
	lacks(r->answer, "null,");
	assert_string_equal(r->fake.env, "A=secret-value;C=;");
	assert_string_equal(r->fake.entrypoint, "tail|-f|/dev/null|");
	assert_int_equal(strlen(r->fake.token), 64);
	assert_int_equal(r->fake.limits.memory_bytes, 512 << 20);
	has(rig_on(r, "GET", id, "", NULL), "\"image\":{\"uri\":\"host\"}");
	has(r->answer, "\"message\":\"Sandbox container is running.\"");
	lacks(rig_on(r, "GET", id, "/diagnostics/summary", NULL), "secret-value");
	has(r->answer, "env: A=***");
	rig_stop(r);
}

static void a_create_that_fails_leaves_no_record(void **state)
{
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	r->fake.fails[FAKE_CREATE] = 1;
	has(rig_ask(r, "POST /sandboxes", "{" CREATE_BODY "}"), "HTTP/1.1 500 ");
	has(r->answer, "\"code\":\"NATIVE::SANDBOX_START_FAILED\",\"message\":\"the sandbox could not be started\"");
	lacks(r->answer, "secret/path");
	has(rig_ask(r, "GET /sandboxes", NULL), "\"items\":[],\"pagination\":{\"page\":1,\"pageSize\":20,\"totalItems\":0,"
						"\"totalPages\":0,\"hasNextPage\":false}");
	r->fake.fails[FAKE_CREATE] = 1;
	(void)snprintf(r->fake.failure.says, sizeof(r->fake.failure.says), "entrypoint 'x' is not there");
	has(rig_ask(r, "POST /sandboxes", "{" CREATE_BODY "}"), "\"message\":\"entrypoint 'x' is not there\"");
	rig_restart(r);
	assert_int_equal(rig_count(r), 0);
	rig_stop(r);
}

static void pausing_and_resuming_follow_the_states(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	has(rig_on(r, "POST", id, "/resume", NULL), "HTTP/1.1 409 ");
	has(r->answer, "NATIVE::SANDBOX_NOT_PAUSED");
	has(rig_on(r, "POST", id, "/pause", NULL), "HTTP/1.1 202 ");
	has(r->answer, "Content-Length: 0\r\n");
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Paused\",\"reason\":\"CONTAINER_PAUSED\"");
	has(rig_on(r, "POST", id, "/pause", NULL), "NATIVE::SANDBOX_NOT_RUNNING");
	has(rig_on(r, "POST", id, "/resume", ""), "HTTP/1.1 202 ");
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Running\"");
	r->fake.fails[FAKE_PAUSE] = 1;
	r->fake.failure.code = "SANDBOX_PAUSE_FAILED";
	has(rig_on(r, "POST", id, "/pause", NULL), "\"code\":\"NATIVE::SANDBOX_PAUSE_FAILED\"");
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Running\"");
	has(rig_on(r, "POST", "0-0", "/pause", NULL), "HTTP/1.1 404 ");
	has(r->answer, "NATIVE::SANDBOX_NOT_FOUND");
	rig_stop(r);
}

static void deletes_in_parallel_are_one(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], line[128];
	int first, second, pause;

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	r->fake.holds = true;
	(void)snprintf(line, sizeof(line), "DELETE /v1/sandboxes/%s", id);
	first = rig_send(&r->api, line, AUTH, NULL);
	RIG_WAIT(r, r->fake.count[FAKE_REMOVE] == 1);
	second = rig_send(&r->api, line, AUTH, NULL);
	(void)snprintf(line, sizeof(line), "POST /v1/sandboxes/%s/pause", id);
	pause = rig_send(&r->api, line, AUTH, NULL);
	rig_turn(r, 10);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Stopping\"");
	r->fake.holds = false;
	fake_release(&r->fake);
	assert_int_equal(rig_status(rig_receive(r, first)), 204);
	assert_int_equal(rig_status(rig_receive(r, second)), 204);
	assert_int_equal(rig_status(rig_receive(r, pause)), 404);
	assert_int_equal(r->fake.count[FAKE_REMOVE], 1);
	assert_int_equal(rig_status(rig_on(r, "GET", id, "", NULL)), 404);
	assert_int_equal(rig_status(rig_on(r, "DELETE", id, "", NULL)), 404);
	rig_stop(r);
}

static void a_removal_that_fails_is_tried_until_it_works(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	r->fake.fails[FAKE_REMOVE] = 2;
	r->fake.failure.code = NULL;
	has(rig_on(r, "DELETE", id, "", NULL), "\"code\":\"NATIVE::SANDBOX_DELETE_FAILED\"");
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Stopping\"");
	rig_pass(r, 1000);
	RIG_WAIT(r, r->fake.count[FAKE_REMOVE] == 2);
	rig_pass(r, 1000);
	assert_int_equal(r->fake.count[FAKE_REMOVE], 2); /* the pauses grow */
	rig_pass(r, 1000);
	RIG_WAIT(r, rig_count(r) == 0);
	rig_restart(r);
	assert_int_equal(rig_count(r), 0);
	rig_stop(r);
}

static void lives_end_by_the_boot_clock(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], manual[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, ",\"timeout\":60", id);
	rig_create(r, ",\"timeout\":null", manual);
	lacks(r->answer, "expiresAt");
	r->wall_us += INT64_C(3600) * 1000000; /* somebody sets the clock: nothing happens */
	rig_pass(r, 59000);
	assert_int_equal(rig_status(rig_on(r, "GET", id, "", NULL)), 200);
	rig_pass(r, 1001);
	RIG_WAIT(r, rig_count(r) == 1);
	assert_int_equal(rig_status(rig_on(r, "GET", id, "", NULL)), 404);
	rig_pass(r, UINT64_C(1000) * 86400 * 365);
	assert_int_equal(rig_status(rig_on(r, "GET", manual, "", NULL)), 200);
	rig_stop(r);
}

static void renewals_move_the_end(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], manual[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, ",\"timeout\":60", id);
	rig_create(r, "", manual);
	has(rig_on(r, "POST", id, "/renew-expiration", "{\"expiresAt\":\"2026-05-28T22:28:40.1234569+02:00\"}"),
	    "{\"expiresAt\":\"2026-05-28T20:28:40.123456Z\"}");
	has(rig_on(r, "GET", id, "", NULL), "\"expiresAt\":\"2026-05-28T20:28:40.123456Z\"");
	rig_pass(r, 100000);
	assert_int_equal(rig_status(rig_on(r, "GET", id, "", NULL)), 200);
	rig_restart(r); /* the new end survives */
	has(rig_on(r, "GET", id, "", NULL), "\"expiresAt\":\"2026-05-28T20:28:40.123456Z\"");
	has(rig_on(r, "POST", id, "/renew-expiration", "{\"expires_at\":\"2026-05-28T20:26Z\"}"), "HTTP/1.1 400 ");
	has(r->answer, "NATIVE::INVALID_EXPIRATION");
	has(rig_on(r, "POST", manual, "/renew-expiration", "{\"expiresAt\":\"2027-01-01T00:00:00\"}"), "HTTP/1.1 409 ");
	has(r->answer, "NATIVE::INVALID_EXPIRATION");
	has(rig_on(r, "POST", id, "/renew-expiration", "{\"expiresAt\":\"tomorrow\"}"), "HTTP/1.1 422 ");
	has(rig_on(r, "POST", "x", "/renew-expiration", "{\"expiresAt\":\"2027-01-01T00:00:00Z\"}"), "HTTP/1.1 404 ");
	rig_pass(r, 21000);
	RIG_WAIT(r, rig_count(r) == 1);
	rig_stop(r);
}

static void a_renewal_in_time_saves_one_that_is_due(void **state)
{
	struct rig *r = &rig;
	struct sandbox *sb;
	struct fault f;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, ",\"timeout\":60", id);
	sb = sandboxes_find(r->plane->sandboxes, str_of(id));
	assert_int_equal(sandbox_renew(sb, r->wall_us + INT64_C(600) * 1000000, NULL, NULL, &f), 0);
	r->now_ms += 60001; /* the timer fires while the renewal waits for the disk */
	rig_turn(r, 50);
	assert_int_equal(rig_status(rig_on(r, "GET", id, "", NULL)), 200);
	assert_int_equal(r->fake.count[FAKE_REMOVE], 0);
	rig_stop(r);
}

static void an_end_by_itself_is_told_as_it_was(void **state)
{
	static const struct {
		struct runtime_end end;
		const char *want;
	} rows[] = {
		{ { RUNTIME_END_EXITED, 0, 0, false }, "\"state\":\"Terminated\",\"reason\":\"CONTAINER_EXITED\"" },
		{ { RUNTIME_END_EXITED, 7, 0, false },
		  "\"Failed\",\"reason\":\"CONTAINER_EXITED_ERROR\",\"message\":\"Sandbox container exited with code 7.\"" },
		{ { RUNTIME_END_EXITED, 137, 9, true }, "\"reason\":\"CONTAINER_EXITED_ERROR\"" },
		{ { RUNTIME_END_INIT, 0, 9, false }, "\"state\":\"Failed\",\"reason\":\"CONTAINER_INIT_DIED\"" },
		{ { RUNTIME_END_KILLED, 0, 9, false }, "\"reason\":\"CONTAINER_KILLED\"" },
		{ { RUNTIME_END_LOST, 0, 0, false }, "\"reason\":\"CONTAINER_LOST\"" },
	};
	struct rig *r = &rig;
	char ids[ARRAY_LEN(rows)][UUID_LEN + 1];

	(void)state;
	rig_start(r);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		rig_create(r, "", ids[i]);
		fake_end(&r->fake, ids[i], &rows[i].end);
		has(rig_on(r, "GET", ids[i], "", NULL), rows[i].want);
		r->fake.rt.events->ended(ids[i], &rows[0].end, r->fake.rt.events_arg); /* told twice: the first one counts */
		has(rig_on(r, "GET", ids[i], "", NULL), rows[i].want);
		has(rig_on(r, "POST", ids[i], "/pause", NULL), "NATIVE::SANDBOX_NOT_RUNNING");
	}
	fake_end(&r->fake, "nobody", &rows[0].end);
	rig_restart(r);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		has(rig_on(r, "GET", ids[i], "", NULL), rows[i].want);
	rig_stop(r);
}

static void an_end_in_the_middle_of_a_pause_refuses_it(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], line[128];
	int fd;

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	r->fake.holds = true;
	(void)snprintf(line, sizeof(line), "POST /sandboxes/%s/pause", id);
	fd = rig_send(&r->api, line, AUTH, NULL);
	RIG_WAIT(r, r->fake.count[FAKE_PAUSE] == 1);
	fake_end(&r->fake, id, &(struct runtime_end){ .exit_code = 1 });
	r->fake.holds = false;
	fake_release(&r->fake);
	has(rig_receive(r, fd), "HTTP/1.1 409 ");
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Failed\"");
	rig_restart(r);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Failed\"");
	rig_stop(r);
}

static void one_that_ends_at_once_was_running_first(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];
	int fd;

	(void)state;
	rig_start(r);
	r->fake.holds = true;
	fd = rig_send(&r->api, "POST /sandboxes", AUTH, "{" CREATE_BODY "}");
	RIG_WAIT(r, r->fake.count[FAKE_CREATE] == 1);
	(void)snprintf(id, sizeof(id), "%s", r->fake.calls[0].id);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Pending\"");
	r->fake.holds = false;
	fake_release(&r->fake);
	fake_end(&r->fake, id, &(struct runtime_end){ 0 });
	has(rig_receive(r, fd), "\"state\":\"Running\"");
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Terminated\"");
	rig_stop(r);
}

static void metadata_is_merged(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, ",\"metadata\":{\"a\":\"1\",\"b\":\"2\"}", id);
	has(rig_on(r, "PATCH", id, "/metadata", "{\"a\":null,\"b\":\"3\",\"c\":\"\",\"nope\":null}"),
	    "\"metadata\":{\"b\":\"3\",\"c\":\"\"}");
	has(rig_on(r, "PATCH", id, "/metadata", "{}"), "\"metadata\":{\"b\":\"3\",\"c\":\"\"}");
	has(rig_on(r, "PATCH", id, "/metadata", "{\"opensandbox.io/x\":null}"), "\"code\":\"INVALID_METADATA_LABEL\"");
	has(rig_on(r, "PATCH", id, "/metadata", "{\"x\":\"a b\"}"), "\"code\":\"SANDBOX::INVALID_METADATA_LABEL\"");
	has(rig_on(r, "PATCH", id, "/metadata", "{\"x\":1}"), "HTTP/1.1 422 ");
	has(rig_on(r, "PATCH", id, "/metadata", "[]"), "HTTP/1.1 422 ");
	has(rig_on(r, "PATCH", id, "/metadata", "{\"x\":\"1\",\"x\":\"2\"}"), "HTTP/1.1 422 ");
	has(rig_on(r, "PATCH", "none", "/metadata", "{}"), "HTTP/1.1 404 ");
	rig_restart(r);
	has(rig_on(r, "GET", id, "", NULL), "\"metadata\":{\"b\":\"3\",\"c\":\"\"}");
	has(rig_on(r, "PATCH", id, "/metadata", "{\"b\":null,\"c\":null}"), "HTTP/1.1 200 ");
	lacks(r->answer, "metadata");
	rig_stop(r);
}

static void a_key_makes_a_repeated_create_the_same(void **state)
{
	static const char headers[] = AUTH "Idempotency-Key: k 1\r\n";
	struct rig *r = &rig;
	char id[UUID_LEN + 1];
	int first, second, third;

	(void)state;
	rig_start(r);
	r->fake.holds = true;
	first = rig_send(&r->api, "POST /sandboxes", headers, "{" CREATE_BODY "}");
	RIG_WAIT(r, r->fake.count[FAKE_CREATE] == 1);
	second = rig_send(&r->api, "POST /v1/sandboxes", headers, "{" CREATE_BODY "}");
	third = rig_send(&r->api, "POST /sandboxes", headers, "{" CREATE_BODY ",\"timeout\":60}");
	has(rig_receive(r, third), "\"code\":\"SANDBOX::IDEMPOTENCY_KEY_REUSED\"");
	r->fake.holds = false;
	fake_release(&r->fake);
	rig_id(rig_receive(r, first), id);
	has(rig_receive(r, second), id);
	assert_int_equal(r->fake.count[FAKE_CREATE], 1);
	rig_restart(r);
	has(rig_receive(r, rig_send(&r->api, "POST /sandboxes", headers, "{" CREATE_BODY "}")), id);
	has(r->answer, "HTTP/1.1 202 ");
	has(rig_on(r, "DELETE", id, "", NULL), "HTTP/1.1 204 ");
	has(rig_receive(r, rig_send(&r->api, "POST /sandboxes", headers, "{" CREATE_BODY "}")), "HTTP/1.1 409 ");
	rig_pass(r, UINT64_C(24) * 3600 * 1000 + 1);
	has(rig_receive(r, rig_send(&r->api, "POST /sandboxes", headers, "{" CREATE_BODY "}")), "HTTP/1.1 202 ");
	has(rig_receive(r, rig_send(&r->api, "POST /sandboxes", AUTH "Idempotency-Key: \r\n", "{" CREATE_BODY "}")),
	    "HTTP/1.1 400 ");
	rig_stop(r);
}

static void a_key_of_a_failed_create_is_free_again(void **state)
{
	static const char headers[] = AUTH "Idempotency-Key: k\r\n";
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	r->fake.fails[FAKE_CREATE] = 1;
	has(rig_receive(r, rig_send(&r->api, "POST /sandboxes", headers, "{" CREATE_BODY "}")), "HTTP/1.1 500 ");
	rig_restart(r);
	has(rig_receive(r, rig_send(&r->api, "POST /sandboxes", headers, "{" CREATE_BODY "}")), "HTTP/1.1 202 ");
	rig_stop(r);
}

static void a_create_that_takes_too_long_is_given_up(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];
	int fd;

	(void)state;
	rig_start(r);
	r->fake.holds = true;
	fd = rig_send(&r->api, "POST /sandboxes", AUTH "Idempotency-Key: k\r\n", "{" CREATE_BODY "}");
	RIG_WAIT(r, r->fake.count[FAKE_CREATE] == 1);
	(void)snprintf(id, sizeof(id), "%s", r->fake.calls[0].id);
	rig_pass(r, SANDBOX_CREATE_MS);
	has(rig_receive(r, fd), "HTTP/1.1 504 ");
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Failed\",\"reason\":\"PROVISIONING_TIMEOUT\"");
	r->fake.holds = false;
	fake_release(&r->fake);
	RIG_WAIT(r, rig_count(r) == 0);
	assert_int_equal(r->fake.count[FAKE_REMOVE], 1);
	assert_int_equal(r->fake.n_boxes, 0);
	rig_stop(r);
}

static void creates_in_progress_have_a_ceiling(void **state)
{
	struct rig *r = &rig;
	int fds[16];

	(void)state;
	rig_start(r);
	r->creates_max = ARRAY_LEN(fds);
	rig_restart(r);
	r->fake.holds = true;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = rig_send(&r->api, "POST /sandboxes", AUTH, "{" CREATE_BODY "}");
	RIG_WAIT(r, r->fake.count[FAKE_CREATE] == ARRAY_LEN(fds));
	has(rig_ask(r, "GET /sandboxes?state=pending&pageSize=2", NULL), "\"totalItems\":16,\"totalPages\":8,\"hasNextPage\":true");
	has(rig_ask(r, "POST /sandboxes", "{" CREATE_BODY "}"), "HTTP/1.1 429 ");
	has(r->answer, "Retry-After: 1\r\n");
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		(void)close(fds[i]); /* nobody waits: they are made all the same */
	rig_turn(r, 20);
	r->fake.holds = false;
	r->fake.fails[FAKE_CREATE] = 4;
	fake_release(&r->fake);
	RIG_WAIT(r, rig_count(r) == 12);
	has(rig_ask(r, "POST /sandboxes", "{" CREATE_BODY "}"), "HTTP/1.1 202 "); /* there is room again */
	rig_stop(r);
}

static void a_change_behind_too_many_is_refused(void **state)
{
	struct rig *r = &rig;
	struct sandbox *sb;
	struct fault f;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, ",\"timeout\":600", id);
	sb = sandboxes_find(r->plane->sandboxes, str_of(id));
	for (int i = 0; i < SANDBOX_TASKS_MAX; i++)
		assert_int_equal(sandbox_renew(sb, r->wall_us + 1000000000, NULL, NULL, &f), 0);
	assert_int_equal(sandbox_renew(sb, r->wall_us + 1000000000, NULL, NULL, &f), -1);
	assert_int_equal(f.status, 429);
	assert_int_equal(sandbox_remove(sb, NULL, NULL, &f), 0); /* a removal always finds a place */
	RIG_WAIT(r, rig_count(r) == 0);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_create_is_running_when_it_is_answered),
		cmocka_unit_test(a_create_that_fails_leaves_no_record),
		cmocka_unit_test(pausing_and_resuming_follow_the_states),
		cmocka_unit_test(deletes_in_parallel_are_one),
		cmocka_unit_test(a_removal_that_fails_is_tried_until_it_works),
		cmocka_unit_test(lives_end_by_the_boot_clock),
		cmocka_unit_test(renewals_move_the_end),
		cmocka_unit_test(a_renewal_in_time_saves_one_that_is_due),
		cmocka_unit_test(an_end_by_itself_is_told_as_it_was),
		cmocka_unit_test(an_end_in_the_middle_of_a_pause_refuses_it),
		cmocka_unit_test(one_that_ends_at_once_was_running_first),
		cmocka_unit_test(metadata_is_merged),
		cmocka_unit_test(a_key_makes_a_repeated_create_the_same),
		cmocka_unit_test(a_key_of_a_failed_create_is_free_again),
		cmocka_unit_test(a_create_that_takes_too_long_is_given_up),
		cmocka_unit_test(creates_in_progress_have_a_ceiling),
		cmocka_unit_test(a_change_behind_too_many_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
