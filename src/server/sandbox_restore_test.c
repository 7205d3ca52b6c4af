// SPDX-License-Identifier: Apache-2.0
/* A database that was damaged, or replaced by an older one: nothing that runs ends for that (G8, S3). */
#include <sqlite3.h>

#include "base/arena.h"
#include "server/sandbox_impl.h"
#include "server/test_plane.h"

#include "base/banned.h"

static struct rig rig;
static char before[16384];

/* While no server is there. */
static void change_database(struct rig *r, const char *sql)
{
	char path[128], *why = NULL;
	sqlite3 *db;

	(void)snprintf(path, sizeof(path), "%s/db.sqlite", r->state);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s", why);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void restart_with(struct rig *r, const char *sql)
{
	rig_close(r);
	change_database(r, sql);
	rig_open(r);
}

static const char *body_of(const char *answer)
{
	const char *body = strstr(answer, "\r\n\r\n");

	assert_non_null(body);
	return body;
}

static void remember(struct rig *r, const char *id)
{
	(void)snprintf(before, sizeof(before), "%s", body_of(rig_on(r, "GET", id, "", NULL)));
}

/* But for what its state says of the restart. */
static void is_as_before(struct rig *r, const char *id)
{
	static const char *const parts[] = { "\"image\":", "\"entrypoint\":", "\"metadata\":", "\"expiresAt\":", "\"createdAt\":" };
	const char *now = body_of(rig_on(r, "GET", id, "", NULL));

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		const char *a = strstr(before, parts[i]), *b = strstr(now, parts[i]);

		assert_true(a && b);
		assert_memory_equal(a, b, strcspn(a, "}]"));
	}
	has(now, "\"state\":\"Running\"");
}

static void start_with_one(struct rig *r, char id[UUID_LEN + 1])
{
	char expires[64];

	rig_start(r);
	rig_create(r, ",\"timeout\":600,\"metadata\":{\"team\":\"infra\"}", id);
	(void)snprintf(expires, sizeof(expires), "{\"expiresAt\":\"2026-05-28T20:56:40Z\"}");
	has(rig_on(r, "POST", id, "/renew-expiration", expires), "HTTP/1.1 200 ");
	has(rig_on(r, "PATCH", id, "/metadata", "{\"step\":\"2\"}"), "HTTP/1.1 200 ");
	rig_turn(r, 5);
	remember(r, id);
}

static void a_record_that_was_lost_is_made_again(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	start_with_one(r, id);
	restart_with(r, "DELETE FROM sandboxes");
	is_as_before(r, id);
	has(rig_on(r, "GET", id, "/diagnostics/events", NULL), "runtime Recovered The record of this sandbox was lost, and made anew");
	assert_int_equal(r->fake.count[FAKE_REMOVE], 0);
	rig_restart(r); /* it is in the database again */
	is_as_before(r, id);
	rig_pass(r, 3600 * 1000);
	RIG_WAIT(r, rig_count(r) == 0);
	rig_stop(r);
}

static void a_record_that_is_older_than_its_copy_is_replaced(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	start_with_one(r, id);
	restart_with(r, "UPDATE sandboxes SET metadata = '{}', expires_us = created_us + 1, deadline_ms = 1, revision = 0");
	is_as_before(r, id);
	has(rig_on(r, "GET", id, "/diagnostics/events", NULL), "runtime Recovered The record of this sandbox was damaged or older");
	rig_turn(r, 20);
	is_as_before(r, id); /* what the old record said of its end is past */
	has(rig_on(r, "PATCH", id, "/metadata", "{\"step\":\"3\"}"), "HTTP/1.1 200 ");
	rig_restart(r);
	has(rig_on(r, "GET", id, "", NULL), "\"step\":\"3\"");
	rig_stop(r);
}

static void a_record_that_was_damaged_is_replaced(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	start_with_one(r, id);
	restart_with(r, "UPDATE sandboxes SET metadata = replace(metadata, 'infra', 'intra')");
	is_as_before(r, id);
	rig_stop(r);
}

/* A server that was killed between the commit and the copy. */
static void a_copy_that_is_older_than_its_record_is_written_again(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], copy[4096];

	(void)state;
	start_with_one(r, id);
	(void)snprintf(copy, sizeof(copy), "%s", fake_record(&r->fake, id)->text);
	has(rig_on(r, "PATCH", id, "/metadata", "{\"step\":\"3\"}"), "HTTP/1.1 200 ");
	rig_turn(r, 5);
	remember(r, id);
	(void)snprintf(fake_record(&r->fake, id)->text, sizeof(copy), "%s", copy);
	rig_restart(r);
	is_as_before(r, id);
	RIG_WAIT(r, strstr(fake_record(&r->fake, id)->text, "\"step\":\"3\""));
	rig_stop(r);
}

static void a_copy_that_is_lost_or_damaged_is_written_again(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	for (int i = 0; i < 2; i++) {
		start_with_one(r, id);
		if (i == 0)
			fake_record(&r->fake, id)->is_damaged = true;
		else
			r->fake.n_records = 0;
		rig_restart(r);
		is_as_before(r, id);
		RIG_WAIT(r, fake_record(&r->fake, id) && !fake_record(&r->fake, id)->is_damaged);
		has(fake_record(&r->fake, id)->text, "\"team\":\"infra\"");
		rig_stop(r);
	}
}

static void without_either_it_still_runs(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	start_with_one(r, id);
	r->fake.n_records = 0;
	restart_with(r, "DELETE FROM sandboxes");
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Running\"");
	has(rig_on(r, "GET", id, "/diagnostics/events", NULL), "only that it runs is known");
	assert_int_equal(r->fake.count[FAKE_REMOVE], 0);
	has(rig_on(r, "DELETE", id, "", NULL), "HTTP/1.1 204 ");
	assert_int_equal(r->fake.n_boxes, 0);
	rig_stop(r);
}

/* A warden that could not take it up, and a later one that could. */
static void one_that_is_found_later_gets_its_record_from_the_copy(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	start_with_one(r, id);
	r->fake.n_boxes = 0;
	restart_with(r, "DELETE FROM sandboxes");
	has(rig_on(r, "GET", id, "", NULL), "HTTP/1.1 404 ");
	(void)fake_add(&r->fake, id, RUNTIME_RUNNING);
	r->fake.failure = (struct runtime_failure){ .code = "SANDBOX_QUERY_FAILED", .status = 503, .err.code = ERR_UNAVAILABLE };
	r->fake.fails[FAKE_RECORD_GET] = 1; /* it is asked for again */
	r->fake.rt.events->returned(r->fake.rt.events_arg);
	rig_turn(r, 10);
	rig_pass(r, 1000);
	RIG_WAIT(r, strstr(rig_on(r, "GET", id, "", NULL), "HTTP/1.1 200 "));
	is_as_before(r, id);
	has(rig_on(r, "GET", id, "/diagnostics/events", NULL), "runtime Recovered The record of this sandbox was lost, and made anew");
	assert_int_equal(r->fake.count[FAKE_REMOVE], 0);
	rig_pass(r, 3600 * 1000);
	RIG_WAIT(r, sandboxes_count_owned(r->plane->sandboxes) == 0);
	rig_stop(r);
}

/* Its answer was lost with the record: whoever asks again with the same key gets it, and no second one. */
static void its_key_is_known_again(void **state)
{
	static const char headers[] = AUTH "Idempotency-Key: k\r\n";
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	has(rig_receive(r, rig_send(&r->api, "POST /sandboxes", headers, "{" CREATE_BODY ",\"timeout\":600}")), "HTTP/1.1 202 ");
	rig_id(r->answer, id);
	restart_with(r, "DELETE FROM sandboxes; DELETE FROM keys");
	for (int i = 0; i < 2; i++) {
		has(rig_receive(r, rig_send(&r->api, "POST /sandboxes", headers, "{" CREATE_BODY ",\"timeout\":600}")), id);
		assert_int_equal(r->fake.n_boxes, 1);
		rig_restart(r);
	}
	rig_stop(r);
}

static void one_that_has_ended_is_told_as_such(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	start_with_one(r, id);
	fake_find(&r->fake, id)->state = RUNTIME_ENDED;
	fake_find(&r->fake, id)->end.exit_code = 3;
	restart_with(r, "DELETE FROM sandboxes");
	has(rig_on(r, "GET", id, "", NULL), "Sandbox container exited with code 3.");
	rig_stop(r);
}

/* A clock that goes on by itself: nobody turns it while the plane recovers. */
static uint64_t tick(void *arg)
{
	struct rig *r = arg;

	return ++r->now_ms;
}

static void a_runtime_that_goes_away_meanwhile_is_asked_again(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	start_with_one(r, id);
	r->fake.failure = (struct runtime_failure){ .code = "SANDBOX_QUERY_FAILED", .status = 503, .err.code = ERR_UNAVAILABLE };
	r->fake.fails[FAKE_RECORD_GET] = 1;
	rig_close(r);
	change_database(r, "DELETE FROM sandboxes");
	loop_set_clock(r->loop, tick, r);
	rig_open(r);
	loop_set_clock(r->loop, rig_now, r);
	has(rig_on(r, "GET", id, "", NULL), "\"team\":\"infra\"");
	rig_stop(r);
}

/* ---- the form of the copy ---- */

static void copies_that_cannot_be_are_refused(void **state)
{
	static const char spec[] = "{\"image\":\"host\",\"entrypoint\":[\"x\"],\"env\":[],\"limits\":{\"cpu\":1,\"memory\":1,\"pids\":1,\"disk\":1}}";
	static const struct {
		const char *head, *metadata;
		bool is_good;
	} rows[] = {
		{ "1 ab-12 7 1700000000000000 0 0 - 0 - - 0", "{}", true },
		{ "1 ab-12 7 1700000000000000 0 0 pool-1 1 - - 0", "{}", true },
		{ "1 ab-12 7 1700000000000000 0 0 - 0 " KEY KEY " " KEY KEY " 1700000000000000", "{}", true },
		{ "2 ab-12 7 1700000000000000 0 0 - 0 - - 0", "{}", false },
		{ "1 ../x 7 1700000000000000 0 0 - 0 - - 0", "{}", false },
		{ "1 ab-12 -7 1700000000000000 0 0 - 0 - - 0", "{}", false },
		{ "1 ab-12 7 0 0 0 - 0 - - 0", "{}", false },
		{ "1 ab-12 7 1700000000000000 0 0 - 1 - - 0", "{}", false },
		{ "1 ab-12 7 1700000000000000 0 0 ../p 0 - - 0", "{}", false },
		{ "1 ab-12 7 1700000000000000 0 0 - 2 - - 0", "{}", false },
		{ "1 ab-12 7 1700000000000000 0 0 - 0 - - 0 x", "{}", false },
		{ "1 ab-12 7 1700000000000000 0 0 - 0 " KEY " " KEY KEY " 0", "{}", false },
		{ "1 ab-12 7 1700000000000000 0 0 - 0 " KEY KEY " - 0", "{}", false },
		{ "1 ab-12 7 1700000000000000 0 0 - 0 - -", "{}", false },
		{ "1 ab-12 7 1700000000000000 0 0 - 0", "{}", false },
		{ "1 ab-12 7 1700000000000000 0 0", "{}", false },
		{ "", "{}", false },
		{ "1 ab-12 7 1700000000000000 0 0 - 0 - - 0", "{]", false },
		{ "1 ab-12 7 1700000000000000 0 0 - 0 - - 0", "{}\n", true },
		{ "1 ab-12 7 1700000000000000 0 0 - 0 - - 0", "{}x", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
		struct sandbox_record record;
		struct err e = { 0 };
		char text[1024];

		(void)snprintf(text, sizeof(text), "%s\n%s\n%s", rows[i].head, spec, rows[i].metadata);
		if ((sandbox_record_load(str_of(text), &a, &record, &e) == 0) != rows[i].is_good)
			fail_msg("'%s' '%s': %s", rows[i].head, rows[i].metadata, e.msg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_that_was_lost_is_made_again),
		cmocka_unit_test(a_record_that_is_older_than_its_copy_is_replaced),
		cmocka_unit_test(a_record_that_was_damaged_is_replaced),
		cmocka_unit_test(a_copy_that_is_older_than_its_record_is_written_again),
		cmocka_unit_test(a_copy_that_is_lost_or_damaged_is_written_again),
		cmocka_unit_test(without_either_it_still_runs),
		cmocka_unit_test(one_that_is_found_later_gets_its_record_from_the_copy),
		cmocka_unit_test(its_key_is_known_again),
		cmocka_unit_test(one_that_has_ended_is_told_as_such),
		cmocka_unit_test(a_runtime_that_goes_away_meanwhile_is_asked_again),
		cmocka_unit_test(copies_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
