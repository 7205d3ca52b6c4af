// SPDX-License-Identifier: Apache-2.0
#include <sqlite3.h>

#include "server/model/test_plane.h"

#include "base/banned.h"

static struct rig r;

static int setup(void **state)
{
	(void)state;
	rig_start(&r);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_stop(&r);
	return 0;
}

static const char *ask(const char *method, const char *what, const char *id)
{
	char line[256];

	(void)snprintf(line, sizeof(line), "%s /v1/%s%s", method, what, id);
	return rig_ask(&r, line, NULL);
}

static const char *on(const char *id) /* the snapshot */
{
	return ask("GET", "snapshots/", id);
}

static void take(const char *sandbox, char id[UUID_LEN + 1])
{
	has(rig_on(&r, "POST", sandbox, "/snapshots", "{\"name\":\"n\"}"), "HTTP/1.1 202 ");
	has(r.answer, "\"state\":\"Creating\",\"reason\":\"snapshot_accepted\",\"message\":\"Snapshot creation accepted.\"");
	rig_id(r.answer, id);
	RIG_WAIT(&r, !strstr(on(id), "Creating"));
}

static void restore(const char *snapshot, char id[UUID_LEN + 1])
{
	char body[256];

	(void)snprintf(body, sizeof(body), "{\"snapshotId\":\"%s\",\"resourceLimits\":{}}", snapshot);
	has(rig_ask(&r, "POST /v1/sandboxes", body), "HTTP/1.1 202 ");
	rig_id(r.answer, id);
}

/* A clock that goes on by itself: nobody turns it while the plane recovers. */
static uint64_t tick(void *arg)
{
	return ++((struct rig *)arg)->now_ms;
}

/* Its layers go a moment later. */
static void pass_sweep(void)
{
	for (int i = 0; i < 5; i++)
		rig_pass(&r, 500);
}

static void one_is_taken_shown_and_used(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1], copy[UUID_LEN + 1], layer[FAKE_LAYER_LEN + 1];

	(void)state;
	rig_create(&r, ",\"env\":{\"A\":\"B\"},\"metadata\":{\"k\":\"v\"}", source);
	take(source, taken);
	has(on(taken), "\"state\":\"Ready\",\"reason\":\"snapshot_runtime_ready\"");
	assert_int_equal(r.fake.n_layers, 1);
	memcpy(layer, r.fake.layers[0], sizeof(layer));
	restore(taken, copy);
	assert_string_equal(r.fake.image, "host");
	assert_int_equal(strncmp(r.fake.stack, layer, FAKE_LAYER_LEN), 0);
	assert_string_equal(r.fake.stack + FAKE_LAYER_LEN, ";");
	assert_string_equal(r.fake.env, "");
	assert_string_equal(r.fake.entrypoint, "tail|-f|/dev/null|");
	has(rig_on(&r, "GET", copy, "", NULL), "\"snapshotId\":\"");
	lacks(r.answer, "\"image\"");
	lacks(r.answer, "metadata");
}

static void one_that_fails_says_so_and_leaves_no_layer(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1];

	(void)state;
	rig_create(&r, "", source);
	r.fake.fails[FAKE_SNAPSHOT] = 1;
	take(source, taken);
	has(on(taken), "\"state\":\"Failed\",\"reason\":\"snapshot_runtime_failed\"");
	lacks(r.answer, "/secret/path");
	pass_sweep();
	assert_int_equal(r.fake.count[FAKE_SNAPSHOT_REMOVE], 1); /* nobody knows whether there is one */
	r.fake.fails[FAKE_SNAPSHOT] = 1;
	r.fake.failure.err.code = ERR_TIMEOUT;
	take(source, taken);
	has(on(taken), "snapshot_runtime_timeout");
}

static void while_it_is_taken_it_cannot_be_used_or_deleted(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1], body[128];

	(void)state;
	rig_create(&r, "", source);
	r.fake.holds = true;
	has(rig_on(&r, "POST", source, "/snapshots", NULL), "HTTP/1.1 202 ");
	rig_id(r.answer, taken);
	has(ask("DELETE", "snapshots/", taken), "SNAPSHOT::INVALID_STATE");
	(void)snprintf(body, sizeof(body), "{\"snapshotId\":\"%s\",\"resourceLimits\":{}}", taken);
	has(rig_ask(&r, "POST /v1/sandboxes", body), "SNAPSHOT::NOT_READY");
	RIG_WAIT(&r, r.fake.count[FAKE_SNAPSHOT] == 1);
	r.fake.holds = false;
	fake_release(&r.fake);
	RIG_WAIT(&r, strstr(on(taken), "Ready"));
}

static void what_others_stand_on_stays_until_they_go(void **state)
{
	char source[UUID_LEN + 1], one[UUID_LEN + 1], copy[UUID_LEN + 1], two[UUID_LEN + 1];

	(void)state;
	rig_create(&r, "", source);
	take(source, one);
	restore(one, copy);
	has(ask("DELETE", "snapshots/", one), "SNAPSHOT::DELETE_CONFLICT");
	has(on(one), "\"state\":\"Deleting\"");
	take(copy, two);
	has(rig_on(&r, "DELETE", copy, "", NULL), "HTTP/1.1 204 ");
	has(ask("DELETE", "snapshots/", one), "HTTP/1.1 204 ");
	has(on(one), "SNAPSHOT::NOT_FOUND");
	pass_sweep();
	assert_int_equal(r.fake.n_layers, 2); /* the second stands on the first */
	restore(two, copy);
	assert_int_equal(strlen(r.fake.stack), 2 * (FAKE_LAYER_LEN + 1));
	has(rig_on(&r, "DELETE", copy, "", NULL), "HTTP/1.1 204 ");
	has(ask("DELETE", "snapshots/", two), "HTTP/1.1 204 ");
	pass_sweep();
	assert_int_equal(r.fake.n_layers, 0);
}

static void a_start_settles_what_was_cut_off(void **state)
{
	char source[UUID_LEN + 1], whole[UUID_LEN + 1], lost[UUID_LEN + 1], half[UUID_LEN + 1];

	(void)state;
	rig_create(&r, "", source);
	take(source, lost);
	r.fake.n_layers = 0; /* somebody's hand */
	take(source, whole);
	r.fake.holds = true;
	has(rig_on(&r, "POST", source, "/snapshots", NULL), "HTTP/1.1 202 ");
	rig_id(r.answer, half);
	RIG_WAIT(&r, r.fake.count[FAKE_SNAPSHOT] == 3);
	(void)snprintf(r.fake.layers[r.fake.n_layers++], sizeof(r.fake.layers[0]), "%s", "00112233445566778899aabbccddeeff"); /* nobody's */
	r.fake.holds = false;
	rig_close(&r);
	rig_open(&r);
	has(on(whole), "\"state\":\"Ready\",\"reason\":\"snapshot_runtime_ready\"");
	has(on(lost), "\"state\":\"Failed\",\"reason\":\"snapshot_recovery_missing_image\"");
	has(on(half), "\"state\":\"Failed\",\"reason\":\"snapshot_recovery_missing_image\"");
	pass_sweep();
	assert_int_equal(r.fake.n_layers, 1);
	rig_restart(&r);
	has(on(half), "\"state\":\"Failed\"");
}

static void one_that_was_done_when_the_server_died_is_ready(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1];

	(void)state;
	rig_create(&r, "", source);
	r.fake.holds = true;
	has(rig_on(&r, "POST", source, "/snapshots", NULL), "HTTP/1.1 202 ");
	rig_id(r.answer, taken);
	RIG_WAIT(&r, r.fake.count[FAKE_SNAPSHOT] == 1);
	memcpy(r.fake.layers[r.fake.n_layers++], r.fake.calls[r.fake.n_calls - 1].id, FAKE_LAYER_LEN + 1);
	r.fake.holds = false;
	rig_close(&r);
	rig_open(&r);
	has(on(taken), "\"state\":\"Ready\",\"reason\":\"snapshot_recovery_ready\"");
}

static void a_new_database_leaves_the_layers_of_others_alone(void **state)
{
	char path[160];

	(void)state;
	rig_close(&r);
	for (int i = 0; i < 3; i++) {
		static const char *const tails[] = { "", "-wal", "-shm" };

		(void)snprintf(path, sizeof(path), "%s/db.sqlite%s", r.state, tails[i]);
		(void)unlink(path);
	}
	(void)snprintf(r.fake.layers[r.fake.n_layers++], sizeof(r.fake.layers[0]), "%s", "00112233445566778899aabbccddeeff");
	rig_open(&r);
	pass_sweep();
	assert_int_equal(r.fake.n_layers, 1);
	rig_restart(&r);
	pass_sweep();
	assert_int_equal(r.fake.n_layers, 1);
}

/* ---- records that are lost ---- */

/* From the database and from its copy, while no server is there. */
static void lose_records(void)
{
	static const char *const files[] = { "db.sqlite", "copy.sqlite" };
	char path[160];
	sqlite3 *db;

	rig_close(&r);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", r.state, files[i]);
		assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db, "DELETE FROM snapshots", NULL, NULL, NULL), SQLITE_OK);
		assert_int_equal(sqlite3_close(db), SQLITE_OK);
	}
}

static void one_whose_record_is_lost_gets_it_back(void **state)
{
	char source[UUID_LEN + 1], below[UUID_LEN + 1], copy[UUID_LEN + 1], taken[UUID_LEN + 1], before[4096];

	(void)state;
	rig_create(&r, "", source);
	take(source, below);
	restore(below, copy);
	take(copy, taken);
	(void)snprintf(before, sizeof(before), "%s", strstr(on(taken), "\"id\""));
	lose_records();
	rig_open(&r);
	for (int i = 0; i < 2; i++) {
		pass_sweep();
		has(on(taken), "\"state\":\"Ready\",\"reason\":\"snapshot_record_recovered\"");
		has(r.answer, "\"name\":\"n\"");
		assert_memory_equal(strstr(r.answer, "\"createdAt\""), strstr(before, "\"createdAt\""), 30);
		assert_int_equal(r.fake.n_layers, 2);
		rig_restart(&r); /* it is in the database again */
	}
	restore(taken, copy);
	assert_int_equal(strlen(r.fake.stack), 2 * (FAKE_LAYER_LEN + 1));
}

static void one_that_was_deleted_does_not_come_back(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1], copy[UUID_LEN + 1], other[UUID_LEN + 1];

	(void)state;
	rig_create(&r, "", source);
	take(source, taken);
	restore(taken, copy);
	has(ask("DELETE", "snapshots/", taken), "SNAPSHOT::DELETE_CONFLICT");
	take(copy, other); /* this one needs the layer of the first */
	has(rig_on(&r, "DELETE", copy, "", NULL), "HTTP/1.1 204 ");
	r.fake.fails[FAKE_RECORD_SET] = 1;
	has(ask("DELETE", "snapshots/", taken), "HTTP/1.1 500 "); /* its copy would make it again */
	has(on(taken), "\"state\":\"Deleting\"");
	has(ask("DELETE", "snapshots/", taken), "HTTP/1.1 204 ");
	pass_sweep();
	assert_int_equal(r.fake.n_layers, 2);
	rig_restart(&r);
	pass_sweep();
	has(on(taken), "HTTP/1.1 404 ");
}

static void a_layer_whose_copy_is_damaged_is_left_alone(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1];

	(void)state;
	for (int i = 0; i < 2; i++) {
		rig_create(&r, "", source);
		take(source, taken);
		lose_records();
		if (i == 0)
			fake_record(&r.fake, r.fake.layers[0])->text[80] ^= 1;
		else
			(void)snprintf(fake_record(&r.fake, r.fake.layers[1])->text, sizeof(r.fake.records[0].text), "%s", "x");
		rig_open(&r);
		pass_sweep();
		for (int k = 0; k < 10; k++)
			rig_pass(&r, 30000);
		assert_int_equal(r.fake.n_layers, i + 1);
		has(on(taken), "HTTP/1.1 404 ");
	}
	assert_int_equal(r.fake.count[FAKE_SNAPSHOT_REMOVE], 0);
}

/* Of an earlier version, or of a server that was killed before it was written; and by a runtime that is away for a moment. */
static void the_copy_of_a_record_is_written_until_it_is_there(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1];

	(void)state;
	rig_create(&r, "", source);
	r.fake.fails[FAKE_RECORD_SET] = 1;
	take(source, taken);
	assert_null(fake_record(&r.fake, r.fake.layers[0]));
	rig_pass(&r, 3000);
	RIG_WAIT(&r, fake_record(&r.fake, r.fake.layers[0]));
	fake_unkeep(&r.fake, r.fake.layers[0]);
	rig_restart(&r);
	RIG_WAIT(&r, fake_record(&r.fake, r.fake.layers[0]));
	has(ask("DELETE", "snapshots/", taken), "HTTP/1.1 204 ");
	assert_null(fake_record(&r.fake, r.fake.layers[0]));
}

static void a_new_database_gets_the_records_of_snapshots_back(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1], path[160];

	(void)state;
	rig_create(&r, "", source);
	take(source, taken);
	has(rig_on(&r, "DELETE", source, "", NULL), "HTTP/1.1 204 ");
	rig_close(&r);
	for (int i = 0; i < 6; i++) {
		static const char *const tails[] = { "", "-wal", "-shm" };

		(void)snprintf(path, sizeof(path), "%s/%s.sqlite%s", r.state, i < 3 ? "db" : "copy", tails[i % 3]);
		(void)unlink(path);
	}
	r.fake.failure.err.code = ERR_UNAVAILABLE; /* it is asked again */
	r.fake.fails[FAKE_SNAPSHOTS] = 1;
	loop_set_clock(r.loop, tick, &r);
	rig_open(&r);
	loop_set_clock(r.loop, rig_now, &r);
	has(on(taken), "\"state\":\"Ready\"");
}

/* ---- forks ---- */

static void forks_run_all_or_not_at_all(void **state)
{
	char source[UUID_LEN + 1];

	(void)state;
	rig_create(&r, "", source);
	has(rig_on(&r, "POST", source, "/fork", "{\"count\":3,\"metadata\":{\"a\":\"b\"}}"), "HTTP/1.1 202 ");
	assert_int_equal(r.fake.n_boxes, 4);
	assert_int_equal(r.fake.n_layers, 1);
	assert_int_equal(r.fake.count[FAKE_SNAPSHOT], 1);
	r.fake.fails[FAKE_CREATE] = 1;
	has(rig_on(&r, "POST", source, "/fork", "{\"count\":3}"), "NATIVE::SANDBOX_START_FAILED");
	RIG_WAIT(&r, r.fake.n_boxes == 4);
	pass_sweep();
	assert_int_equal(r.fake.n_layers, 1);
	r.fake.fails[FAKE_SNAPSHOT] = 1;
	has(rig_on(&r, "POST", source, "/fork", "{}"), "HTTP/1.1 500 ");
	pass_sweep();
	assert_int_equal(r.fake.n_layers, 1);
	assert_int_equal(r.fake.n_boxes, 4);
}

static void a_fork_that_a_stop_cuts_off_is_told_so(void **state)
{
	char source[UUID_LEN + 1], line[128];
	int fd;

	(void)state;
	rig_create(&r, "", source);
	r.fake.holds = true;
	(void)snprintf(line, sizeof(line), "POST /v1/sandboxes/%s/fork", source);
	fd = rig_send(&r.api, line, AUTH, "{\"count\":2}");
	RIG_WAIT(&r, r.fake.count[FAKE_SNAPSHOT] == 1);
	(void)close(fd);
	r.fake.holds = false;
	rig_restart(&r);
	pass_sweep();
	assert_int_equal(r.fake.n_boxes, 1);
}

/* ---- rollback ---- */

static const char *roll_back(const char *sandbox, const char *snapshot)
{
	char body[256];

	(void)snprintf(body, sizeof(body), "{\"snapshotId\":\"%s\",\"env\":{\"X\":\"Y\"}}", snapshot);
	return rig_on(&r, "POST", sandbox, "/rollback", body);
}

static void a_rollback_removes_and_makes_it_anew(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1], token[RUNTIME_TOKEN_MAX + 1];

	(void)state;
	rig_create(&r, ",\"metadata\":{\"k\":\"v\"},\"timeout\":600", source);
	memcpy(token, r.fake.token, sizeof(token));
	take(source, taken);
	has(roll_back(source, taken), "HTTP/1.1 200 ");
	has(r.answer, "\"state\":\"Running\"");
	has(r.answer, "\"metadata\":{\"k\":\"v\"}");
	has(r.answer, "expiresAt");
	assert_string_equal(r.fake.token, token);
	assert_string_equal(r.fake.env, "X=Y;");
	assert_int_equal(strlen(r.fake.stack), FAKE_LAYER_LEN + 1);
	assert_int_equal(r.fake.n_boxes, 1);
	fake_end(&r.fake, source, &(struct runtime_end){ .exit_code = 3 });
	has(rig_on(&r, "GET", source, "", NULL), "\"state\":\"Failed\"");
	has(roll_back(source, taken), "\"state\":\"Running\"");
	rig_restart(&r);
	has(rig_on(&r, "GET", source, "", NULL), "\"state\":\"Running\"");
	has(r.answer, taken);
}

static void a_rollback_waits_for_a_runtime_that_is_away(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1], line[128], body[128];
	int fd;

	(void)state;
	rig_create(&r, "", source);
	take(source, taken);
	r.fake.failure.err.code = ERR_UNAVAILABLE;
	r.fake.fails[FAKE_REMOVE] = 2;
	r.fake.fails[FAKE_CREATE] = 1;
	(void)snprintf(line, sizeof(line), "POST /v1/sandboxes/%s/rollback", source);
	(void)snprintf(body, sizeof(body), "{\"snapshotId\":\"%s\"}", taken);
	fd = rig_send(&r.api, line, AUTH, body);
	for (int i = 0; i < 5; i++) {
		rig_turn(&r, 20);
		rig_pass(&r, 1000);
	}
	has(rig_receive(&r, fd), "\"state\":\"Running\"");
	assert_int_equal(r.fake.count[FAKE_REMOVE], 4);
	assert_int_equal(r.fake.n_boxes, 1);
}

static void a_rollback_that_fails_can_be_asked_for_again(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1];

	(void)state;
	rig_create(&r, "", source);
	take(source, taken);
	r.fake.fails[FAKE_CREATE] = 1;
	has(roll_back(source, taken), "HTTP/1.1 500 ");
	has(rig_on(&r, "GET", source, "", NULL), "ROLLBACK_FAILED");
	rig_restart(&r);
	has(rig_on(&r, "GET", source, "", NULL), "ROLLBACK_FAILED"); /* and is not done again by itself */
	has(roll_back(source, taken), "\"state\":\"Running\"");
}

static void a_rollback_that_was_cut_off_is_finished(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1], line[128], body[128];
	int fd;

	(void)state;
	rig_create(&r, "", source);
	take(source, taken);
	r.fake.holds = true;
	(void)snprintf(line, sizeof(line), "POST /v1/sandboxes/%s/rollback", source);
	(void)snprintf(body, sizeof(body), "{\"snapshotId\":\"%s\"}", taken);
	fd = rig_send(&r.api, line, AUTH, body);
	RIG_WAIT(&r, r.fake.count[FAKE_REMOVE] == 1);
	fake_drop(&r.fake, source); /* it was done, and nobody heard of it */
	(void)close(fd);
	r.fake.holds = false;
	rig_restart(&r);
	RIG_WAIT(&r, strstr(rig_on(&r, "GET", source, "", NULL), "\"state\":\"Running\""));
	has(r.answer, taken);
	assert_int_equal(r.fake.n_boxes, 1);
	assert_int_equal(strlen(r.fake.stack), FAKE_LAYER_LEN + 1);
}

static void a_snapshot_is_not_lost_to_a_rollback_that_waits(void **state)
{
	char source[UUID_LEN + 1], taken[UUID_LEN + 1], line[128], body[128];
	int fd;

	(void)state;
	rig_create(&r, "", source);
	take(source, taken);
	r.fake.holds = true;
	has(rig_on(&r, "POST", source, "/snapshots", NULL), "HTTP/1.1 202 "); /* something that takes long */
	RIG_WAIT(&r, r.fake.count[FAKE_SNAPSHOT] == 2);
	(void)snprintf(line, sizeof(line), "POST /v1/sandboxes/%s/rollback", source);
	(void)snprintf(body, sizeof(body), "{\"snapshotId\":\"%s\"}", taken);
	fd = rig_send(&r.api, line, AUTH, body);
	rig_turn(&r, 20);
	has(ask("DELETE", "snapshots/", taken), "SNAPSHOT::DELETE_CONFLICT");
	r.fake.holds = false;
	fake_release(&r.fake);
	has(rig_receive(&r, fd), "HTTP/1.1 200 ");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_is_taken_shown_and_used),
		TEST(one_that_fails_says_so_and_leaves_no_layer),
		TEST(while_it_is_taken_it_cannot_be_used_or_deleted),
		TEST(what_others_stand_on_stays_until_they_go),
		TEST(a_start_settles_what_was_cut_off),
		TEST(one_that_was_done_when_the_server_died_is_ready),
		TEST(a_new_database_leaves_the_layers_of_others_alone),
		TEST(one_whose_record_is_lost_gets_it_back),
		TEST(one_that_was_deleted_does_not_come_back),
		TEST(a_layer_whose_copy_is_damaged_is_left_alone),
		TEST(the_copy_of_a_record_is_written_until_it_is_there),
		TEST(a_new_database_gets_the_records_of_snapshots_back),
		TEST(forks_run_all_or_not_at_all),
		TEST(a_fork_that_a_stop_cuts_off_is_told_so),
		TEST(a_rollback_removes_and_makes_it_anew),
		TEST(a_rollback_waits_for_a_runtime_that_is_away),
		TEST(a_rollback_that_fails_can_be_asked_for_again),
		TEST(a_rollback_that_was_cut_off_is_finished),
		TEST(a_snapshot_is_not_lost_to_a_rollback_that_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
