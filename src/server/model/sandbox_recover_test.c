// SPDX-License-Identifier: Apache-2.0
/* What a server finds when it starts again, and what becomes of it; and a store that fails. */
#include "server/model/test_plane.h"

#include "base/banned.h"

static struct rig rig;

/* A store that was cut off in the middle of something. */
static void plant(struct rig *r, const char *id, enum sandbox_state state, enum sandbox_intent intent)
{
	static const char *entrypoint[] = { "x" };
	struct sandbox_row row = {
		.id = id, .image = "host", .entrypoint = { entrypoint, 1 }, .limits = RUNTIME_LIMITS_DEFAULT,
		.created_us = r->wall_us, .changed_us = r->wall_us, .state = state, .reason = "R", .message = "M",
	};
	struct store_tx *tx = store_tx_new();

	store_tx_insert(tx, &row);
	if (intent != INTENT_NONE)
		store_tx_intent(tx, id, intent);
	assert_int_equal(store_submit(r->plane->store, tx, NULL, NULL, &r->e), 0);
}

static const char *state_of(struct rig *r, const char *id)
{
	const struct sandbox *sb = sandboxes_find(r->plane->sandboxes, str_of(id));

	return sb ? sandbox_state_name(sb->row.state) : "none";
}

static void every_record_is_compared_with_the_runtime(void **state)
{
	static const struct {
		const char *id;
		enum sandbox_state recorded;
		enum sandbox_intent intent;
		int found; /* enum runtime_state, or -1 */
		const char *want;
	} rows[] = {
		{ "run-run", SANDBOX_RUNNING, INTENT_NONE, RUNTIME_RUNNING, "Running" },
		{ "run-paused", SANDBOX_RUNNING, INTENT_NONE, RUNTIME_PAUSED, "Paused" },
		{ "run-ended", SANDBOX_RUNNING, INTENT_NONE, RUNTIME_ENDED, "Failed" },
		{ "run-gone", SANDBOX_RUNNING, INTENT_NONE, -1, "Failed" },
		{ "paused-run", SANDBOX_PAUSED, INTENT_NONE, RUNTIME_RUNNING, "Running" },
		{ "pausing-run", SANDBOX_PAUSING, INTENT_PAUSE, RUNTIME_RUNNING, "Running" },
		{ "pausing-paused", SANDBOX_PAUSING, INTENT_PAUSE, RUNTIME_PAUSED, "Paused" },
		{ "pausing-gone", SANDBOX_PAUSING, INTENT_PAUSE, -1, "Failed" },
		{ "resuming-paused", SANDBOX_RESUMING, INTENT_RESUME, RUNTIME_PAUSED, "Paused" },
		{ "resuming-run", SANDBOX_RESUMING, INTENT_RESUME, RUNTIME_RUNNING, "Running" },
		{ "create-run", SANDBOX_PENDING, INTENT_CREATE, RUNTIME_RUNNING, "Running" },
		{ "create-ended", SANDBOX_PENDING, INTENT_CREATE, RUNTIME_ENDED, "Failed" },
		{ "create-half", SANDBOX_PENDING, INTENT_CREATE, RUNTIME_STARTING, "none" },
		{ "create-gone", SANDBOX_PENDING, INTENT_CREATE, -1, "none" },
		{ "remove-run", SANDBOX_STOPPING, INTENT_REMOVE, RUNTIME_RUNNING, "none" },
		{ "remove-gone", SANDBOX_STOPPING, INTENT_REMOVE, -1, "none" },
		{ "over-ended", SANDBOX_TERMINATED, INTENT_NONE, RUNTIME_ENDED, "Terminated" },
		{ "over-gone", SANDBOX_FAILED, INTENT_NONE, -1, "Failed" },
	};
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		plant(r, rows[i].id, rows[i].recorded, rows[i].intent);
		if (rows[i].found >= 0)
			fake_add(&r->fake, rows[i].id, (enum runtime_state)rows[i].found)->end.exit_code = 3;
	}
	for (int again = 0; again < 2; again++) {
		rig_restart(r);
		for (size_t i = 0; i < ARRAY_LEN(rows); i++)
			RIG_WAIT(r, strcmp(state_of(r, rows[i].id), rows[i].want) == 0);
		rig_turn(r, 20);
	}
	assert_null(fake_find(&r->fake, "create-half"));
	assert_null(fake_find(&r->fake, "remove-run"));
	has(rig_on(r, "GET", "run-gone", "", NULL), "\"reason\":\"CONTAINER_LOST\"");
	has(rig_on(r, "GET", "run-ended", "", NULL), "Sandbox container exited with code 3.");
	has(rig_on(r, "GET", "over-gone", "", NULL), "\"reason\":\"R\",\"message\":\"M\"");
	has(rig_on(r, "GET", "run-run", "/diagnostics/events?limit=2", NULL), "runtime Adopted ");
	rig_stop(r);
}

static void a_create_that_somebody_can_ask_for_again_is_finished(void **state)
{
	static const char headers[] = AUTH "Idempotency-Key: k\r\n";
	struct rig *r = &rig;
	char id[UUID_LEN + 1];
	int fd;

	(void)state;
	rig_start(r);
	r->fake.holds = true;
	fd = rig_send(&r->api, "POST /sandboxes", headers, "{" CREATE_BODY ",\"timeout\":60}");
	RIG_WAIT(r, r->fake.count[FAKE_CREATE] == 1);
	(void)snprintf(id, sizeof(id), "%s", r->fake.calls[0].id);
	(void)fake_add(&r->fake, id, RUNTIME_RUNNING); /* it was made, but nobody heard of it */
	r->fake.holds = false;
	rig_restart(r);
	(void)close(fd);
	assert_string_equal(state_of(r, id), "Running");
	has(rig_receive(r, rig_send(&r->api, "POST /sandboxes", headers, "{" CREATE_BODY ",\"timeout\":60}")), id);
	rig_pass(r, 61000);
	RIG_WAIT(r, rig_count(r) == 0);
	rig_stop(r);
}

/* Nobody was ever told of it. */
static void what_was_never_ready_and_has_no_record_is_removed(void **state)
{
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	(void)fake_add(&r->fake, "orphan-1", RUNTIME_STARTING);
	(void)fake_add(&r->fake, "orphan-2", RUNTIME_STARTING);
	r->fake.fails[FAKE_REMOVE] = 1;
	rig_restart(r);
	RIG_WAIT(r, r->fake.n_boxes == 1);
	rig_pass(r, 1000);
	RIG_WAIT(r, r->fake.n_boxes == 0);
	(void)fake_add(&r->fake, "orphan-3", RUNTIME_STARTING);
	r->fake.fails[FAKE_REMOVE] = 1;
	rig_restart(r);
	rig_turn(r, 5);
	rig_stop(r); /* one that is still to be tried again is let go */
}

static void a_reboot_is_told_as_such(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], late[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, ",\"timeout\":3600", id);
	rig_create(r, ",\"timeout\":60", late);
	r->fake.n_boxes = 0;
	r->boot_id = "boot-2";
	r->now_ms = 5000; /* the clock of the new boot */
	r->wall_us += INT64_C(1800) * 1000000;
	rig_restart(r);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Failed\",\"reason\":\"host_restarted\"");
	RIG_WAIT(r, strcmp(state_of(r, late), "none") == 0); /* it was overdue */
	rig_restart(r); /* the second start of the new boot: its clock is what the record says now */
	rig_pass(r, 1799000);
	assert_string_equal(state_of(r, id), "Failed");
	rig_pass(r, 2000);
	RIG_WAIT(r, strcmp(state_of(r, id), "none") == 0);
	rig_stop(r);
}

static void time_goes_on_while_the_server_is_down(void **state)
{
	struct rig *r = &rig;
	char due[UUID_LEN + 1], later[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, ",\"timeout\":60", due);
	rig_create(r, ",\"timeout\":120", later);
	rig_close(r);
	r->now_ms += 90000;
	r->wall_us -= INT64_C(86400) * 1000000; /* and somebody has set the clock back */
	rig_open(r);
	RIG_WAIT(r, strcmp(state_of(r, due), "none") == 0);
	rig_pass(r, 29000);
	assert_string_equal(state_of(r, later), "Running");
	rig_pass(r, 1001);
	RIG_WAIT(r, strcmp(state_of(r, later), "none") == 0);
	rig_stop(r);
}

static void return_now(struct rig *r)
{
	r->fake.rt.events->returned(r->fake.rt.events_arg);
	rig_turn(r, 10);
}

static void a_runtime_that_was_away_is_asked_what_it_has(void **state)
{
	struct rig *r = &rig;
	char id[4][UUID_LEN + 1];

	(void)state;
	rig_start(r);
	for (size_t i = 0; i < ARRAY_LEN(id); i++)
		rig_create(r, "", id[i]);
	fake_find(&r->fake, id[0])->state = RUNTIME_PAUSED; /* nobody heard that it was done */
	fake_find(&r->fake, id[1])->state = RUNTIME_ENDED;
	fake_find(&r->fake, id[1])->end.exit_code = 7;
	fake_drop(&r->fake, id[2]);
	(void)fake_add(&r->fake, "orphan-1", RUNTIME_STARTING); /* it was never ready */
	return_now(r);
	assert_string_equal(state_of(r, id[0]), "Paused");
	has(rig_on(r, "GET", id[1], "", NULL), "Sandbox container exited with code 7.");
	has(rig_on(r, "GET", id[2], "", NULL), "\"reason\":\"CONTAINER_LOST\"");
	assert_string_equal(state_of(r, id[3]), "Running");
	RIG_WAIT(r, !fake_find(&r->fake, "orphan-1"));
	fake_find(&r->fake, id[0])->state = RUNTIME_RUNNING;
	rig_restart(r); /* and it is in the records as well */
	assert_string_equal(state_of(r, id[0]), "Running");
	assert_string_equal(state_of(r, id[1]), "Failed");
	rig_stop(r);
}

/* What runs is not ended because its record is missing: a warden that comes later may have found it. */
static void what_runs_without_a_record_gets_one_at_any_time(void **state)
{
	static const struct {
		const char *id;
		enum runtime_state found;
		const char *want;
	} rows[] = {
		{ "found-run", RUNTIME_RUNNING, "Running" },
		{ "found-paused", RUNTIME_PAUSED, "Paused" },
		{ "found-ended", RUNTIME_ENDED, "Failed" },
	};
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		fake_add(&r->fake, rows[i].id, rows[i].found)->end.exit_code = 3;
	return_now(r);
	for (int again = 0; again < 2; again++) {
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			RIG_WAIT(r, strcmp(state_of(r, rows[i].id), rows[i].want) == 0);
			has(rig_on(r, "GET", rows[i].id, "/diagnostics/events", NULL), "runtime Recovered The record of this sandbox was lost");
		}
		assert_int_equal(r->fake.count[FAKE_REMOVE], 0);
		rig_restart(r);
	}
	has(rig_on(r, "DELETE", "found-run", "", NULL), "HTTP/1.1 204 ");
	assert_null(fake_find(&r->fake, "found-run"));
	rig_stop(r);
}

/* One whose end the runtime does not tell anybody, for want of a record, is seen by the next look. */
static void what_ends_while_its_record_is_read_has_ended(void **state)
{
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	(void)fake_add(&r->fake, "found-run", RUNTIME_RUNNING);
	r->fake.holds = true;
	r->fake.rt.events->returned(r->fake.rt.events_arg);
	fake_release(&r->fake);
	assert_int_equal(r->fake.count[FAKE_RECORD_GET], 1);
	fake_end(&r->fake, "found-run", &(struct runtime_end){ .exit_code = 3 });
	r->fake.holds = false;
	fake_release(&r->fake);
	rig_turn(r, 10);
	rig_pass(r, 1000);
	RIG_WAIT(r, strcmp(state_of(r, "found-run"), "Failed") == 0);
	rig_stop(r);
}

/* The runtime has it in its list, and it has no end: that is no sandbox without a record. */
static void what_is_being_made_is_not_found(void **state)
{
	struct rig *r = &rig;
	int fd;

	(void)state;
	rig_start(r);
	r->fake.holds = true;
	fd = rig_send(&r->api, "POST /v1/sandboxes", AUTH, "{" CREATE_BODY "}");
	RIG_WAIT(r, r->fake.count[FAKE_CREATE] == 1);
	r->fake.rt.events->returned(r->fake.rt.events_arg);
	RIG_WAIT(r, r->fake.count[FAKE_LIST] == 2);
	(void)fake_add(&r->fake, r->fake.calls[0].id, RUNTIME_RUNNING);
	fake_complete(&r->fake, &r->fake.calls[1]);
	assert_int_equal(r->fake.count[FAKE_RECORD_GET], 0);
	assert_int_equal(r->fake.count[FAKE_REMOVE], 0);
	r->fake.n_boxes = 0;
	r->fake.holds = false;
	fake_release(&r->fake);
	has(rig_receive(r, fd), "HTTP/1.1 202 ");
	rig_stop(r);
}

/* As a warden that cannot take up a box has it. */
static void hide(struct rig *r, const char *id)
{
	struct fake_box *b = fake_find(&r->fake, id);

	assert_non_null(b);
	*b = r->fake.boxes[--r->fake.n_boxes];
}

static void one_that_was_given_up_as_lost_runs_again(void **state)
{
	struct rig *r = &rig;
	char id[3][UUID_LEN + 1];

	(void)state;
	for (int restarts = 0; restarts < 3; restarts++) {
		rig_start(r);
		for (size_t i = 0; i < ARRAY_LEN(id); i++) {
			rig_create(r, "", id[i]);
			hide(r, id[i]);
		}
		for (int i = 0; i < restarts; i++) /* the second of which changes nothing */
			rig_restart(r);
		return_now(r);
		for (size_t i = 0; i < ARRAY_LEN(id); i++)
			has(rig_on(r, "GET", id[i], "", NULL), "\"reason\":\"CONTAINER_LOST\"");
		(void)fake_add(&r->fake, id[0], RUNTIME_RUNNING);
		(void)fake_add(&r->fake, id[1], RUNTIME_PAUSED);
		fake_add(&r->fake, id[2], RUNTIME_ENDED)->end.exit_code = 3;
		return_now(r);
		assert_string_equal(state_of(r, id[0]), "Running");
		has(rig_on(r, "GET", id[0], "/diagnostics/events", NULL), "runtime Adopted The sandbox was given up as lost, but is there.");
		assert_string_equal(state_of(r, id[1]), "Paused");
		has(rig_on(r, "GET", id[2], "", NULL), "Sandbox container exited with code 3.");
		fake_end(&r->fake, id[0], &(struct runtime_end){ .exit_code = 4 }); /* which is told as of any other */
		has(rig_on(r, "GET", id[0], "", NULL), "Sandbox container exited with code 4.");
		rig_stop(r);
	}
}

/* Its deletion was ordered, and the runtime had nothing to remove. */
static void one_that_was_deleted_while_it_was_lost_is_removed(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	hide(r, id);
	return_now(r);
	has(rig_on(r, "DELETE", id, "", NULL), "HTTP/1.1 204 ");
	(void)fake_add(&r->fake, id, RUNTIME_RUNNING);
	return_now(r);
	RIG_WAIT(r, !fake_find(&r->fake, id));
	assert_string_equal(state_of(r, id), "none");
	rig_stop(r);
}

static void what_is_being_changed_is_looked_at_later(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], line[128];
	int fd;

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	(void)snprintf(line, sizeof(line), "POST /v1/sandboxes/%s/pause", id);
	r->fake.holds = true;
	fd = rig_send(&r->api, line, AUTH, NULL);
	RIG_WAIT(r, r->fake.count[FAKE_PAUSE] == 1);
	r->fake.fails[FAKE_PAUSE] = 1;
	r->fake.rt.events->returned(r->fake.rt.events_arg);
	RIG_WAIT(r, r->fake.count[FAKE_LIST] == 2);
	fake_find(&r->fake, id)->state = RUNTIME_PAUSED; /* it fails, and yet it was done */
	r->fake.holds = false;
	fake_release(&r->fake);
	(void)rig_receive(r, fd);
	rig_pass(r, 1000);
	RIG_WAIT(r, strcmp(state_of(r, id), "Paused") == 0);
	rig_stop(r);
}

static void what_others_pause_and_resume_is_followed(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	r->fake.rt.events->changed(id, RUNTIME_PAUSED, r->fake.rt.events_arg);
	assert_string_equal(state_of(r, id), "Paused");
	has(rig_on(r, "GET", id, "/diagnostics/events", NULL), "from outside of the server");
	r->fake.rt.events->changed(id, RUNTIME_RUNNING, r->fake.rt.events_arg);
	assert_string_equal(state_of(r, id), "Running");
	r->fake.rt.events->changed("nobody", RUNTIME_PAUSED, r->fake.rt.events_arg);
	assert_int_equal(r->fake.count[FAKE_PAUSE] + r->fake.count[FAKE_RESUME], 0);
	fake_end(&r->fake, id, &(struct runtime_end){ .reason = RUNTIME_END_LOST });
	assert_string_equal(state_of(r, id), "Failed");
	rig_stop(r);
}

static void a_create_of_which_nobody_knows_the_end_is_undone(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];
	int fd;

	(void)state;
	rig_start(r);
	r->fake.holds = true;
	fd = rig_send(&r->api, "POST /v1/sandboxes", AUTH, "{" CREATE_BODY "}");
	RIG_WAIT(r, r->fake.count[FAKE_CREATE] == 1);
	(void)snprintf(id, sizeof(id), "%s", r->fake.calls[r->fake.n_calls - 1].id);
	(void)fake_add(&r->fake, id, RUNTIME_RUNNING);
	r->fake.fails[FAKE_CREATE] = 1;
	r->fake.failure.err.code = ERR_UNAVAILABLE;
	r->fake.holds = false;
	fake_release(&r->fake);
	assert_true(rig_status(rig_receive(r, fd)) >= 500);
	RIG_WAIT(r, rig_count(r) == 0);
	assert_int_equal(r->fake.n_boxes, 0);
	rig_stop(r);
}

static void tokens_are_the_same_after_a_restart(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], token[SANDBOX_TOKEN_LEN + 1], egress[SANDBOX_TOKEN_LEN + 1];
	const struct sandbox *sb;

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	rig_restart(r);
	sb = sandboxes_find(r->plane->sandboxes, str_of(id));
	sandbox_token(sb, "execd", token);
	sandbox_token(sb, "egress", egress);
	assert_string_equal(token, r->fake.token);
	assert_string_not_equal(token, egress);
	rig_stop(r);
}

/* Time passes with every look at the clock. */
static uint64_t running_now(void *arg)
{
	return ((struct rig *)arg)->now_ms += 100;
}

static void a_runtime_that_does_not_answer_stops_the_start(void **state)
{
	struct rig *r = &rig;
	enum store_fault fault;

	(void)state;
	rig_start(r);
	rig_close(r);
	r->fake.fails[FAKE_LIST] = 1;
	r->plane = plane_open(&r->spec, &fault, &r->e);
	assert_non_null(r->plane);
	assert_int_equal(plane_recover(r->plane, &r->e), -1);
	assert_int_equal(r->e.code, ERR_IO);
	plane_close(take_ptr(&r->plane));
	r->fake.fails[FAKE_LIST] = 1; /* one that is just being started is asked again */
	r->fake.failure.err.code = ERR_UNAVAILABLE;
	r->plane = plane_open(&r->spec, &fault, &r->e);
	assert_non_null(r->plane);
	loop_set_clock(r->loop, running_now, r);
	assert_int_equal(plane_recover(r->plane, &r->e), 0);
	loop_set_clock(r->loop, rig_now, r);
	plane_close(take_ptr(&r->plane));
	assert_null(plane_open(&(struct plane_spec){ .parts = &api_parts, .loop = r->loop, .runtime = &r->fake.rt, .state_dir = "/proc/none/x" },
			       &fault, &r->e));
	rig_open(r);
	rig_stop(r);
}

static void two_servers_do_not_share_a_directory(void **state)
{
	struct rig *r = &rig;
	enum store_fault fault;

	(void)state;
	rig_start(r);
	assert_null(plane_open(&r->spec, &fault, &r->e));
	assert_int_equal(fault, STORE_LOCKED);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_record_is_compared_with_the_runtime),
		cmocka_unit_test(a_create_that_somebody_can_ask_for_again_is_finished),
		cmocka_unit_test(what_was_never_ready_and_has_no_record_is_removed),
		cmocka_unit_test(a_reboot_is_told_as_such),
		cmocka_unit_test(time_goes_on_while_the_server_is_down),
		cmocka_unit_test(a_runtime_that_was_away_is_asked_what_it_has),
		cmocka_unit_test(what_runs_without_a_record_gets_one_at_any_time),
		cmocka_unit_test(what_ends_while_its_record_is_read_has_ended),
		cmocka_unit_test(what_is_being_made_is_not_found),
		cmocka_unit_test(one_that_was_given_up_as_lost_runs_again),
		cmocka_unit_test(one_that_was_deleted_while_it_was_lost_is_removed),
		cmocka_unit_test(what_is_being_changed_is_looked_at_later),
		cmocka_unit_test(what_others_pause_and_resume_is_followed),
		cmocka_unit_test(a_create_of_which_nobody_knows_the_end_is_undone),
		cmocka_unit_test(tokens_are_the_same_after_a_restart),
		cmocka_unit_test(a_runtime_that_does_not_answer_stops_the_start),
		cmocka_unit_test(two_servers_do_not_share_a_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
