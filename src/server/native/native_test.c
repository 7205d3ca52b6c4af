// SPDX-License-Identifier: Apache-2.0
/* The native runtime against a warden that says what the test wants. */
#include "server/native/test_native.h"

#include "base/banned.h"

static void images_go_by_their_number(void **state)
{
	static const struct {
		const char *name;
		int number;
	} cases[] = {
		{ "host", WIRE_IMAGE_HOST }, { "alpine", 1 }, { "python/3.12:slim", 2 }, { "python/3.12", -1 }, { "alpine:latest", -1 },
		{ "", -1 },                  { "/srv/alpine", -1 }, { "Host", -1 }, { "default", 2 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture *f = *state;
		AUTO(passed_done) struct passed got = PASSED_INIT;
		struct err e = { 0 };
		int k = f->rt->ops->check_image(f->rt, cases[i].name, &e);

		assert_int_equal(k, cases[i].number < 0 ? -1 : 0);
		if (k < 0) {
			assert_int_equal(e.code, ERR_INVALID);
			assert_non_null(strstr(e.msg, "'host'"));
			assert_null(strstr(e.msg, "/srv/python"));
			continue;
		}
		start_create_of(f, cases[i].name);
		assert_int_equal(hear(f, &got).image, cases[i].number);
	}
}

static void an_image_that_is_gone_fails_the_create(void **state)
{
	struct fixture *f = *state;

	start_create_of(f, "gone");
	turn(f);
	assert_int_equal(f->failed, 1);
	assert_string_equal(f->failure.code, "SANDBOX_START_FAILED");
}

static void a_create_hands_on_numbers_and_a_sealed_spec(void **state)
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	AUTO(buf_done) struct buf spec = BUF_INIT(4096);
	struct wire_request rq;
	struct wire_reply rp;

	start_create(f);
	rq = hear(f, &got);
	assert_int_equal(rq.call, WIRE_CREATE);
	assert_string_equal(rq.id, "ab-12");
	assert_int_equal(rq.limits.memory_bytes, 512 << 20);
	assert_int_equal(fd_read_all(got.fds[0], 4096, &spec, &(struct err){ 0 }), 0);
	assert_string_equal(buf_z(&spec), "{\"id\":\"ab-12\",\"entrypoint\":[\"python3\",\"app.py\"],\"env\":{\"K\":\"v\\n\"},"
					  "\"token\":\"t0ken\"}");
	assert_int_equal(write(got.fds[0], "x", 1), -1);
	assert_int_equal(f->done, 0);
	rp = reply_to(&rq);
	say(f, &rp, NULL, 0);
	assert_int_equal(f->done, 1);
	assert_int_equal(f->failed, 0);
}

static void volumes_follow_their_create(void **state)
{
	static const char *entrypoint[] = { "x" };
	const struct runtime_volume volumes[] = {
		{ RUNTIME_VOLUME_HOST, "", "/srv/deep/a/b", "/m", true }, { RUNTIME_VOLUME_NAMED, "v-1", "", "/m/n", false },
	};
	const struct runtime_spec spec = { .id = "ab-12", .image = "host", .entrypoint = { entrypoint, 1 }, .execd_token = "t",
					   .limits = RUNTIME_LIMITS_DEFAULT, .volumes = volumes, .n_volumes = 2 };
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	static struct wire_create m;
	static struct wire_volumes heard;
	struct wire_request rq;
	struct err e = { 0 };

	f->rt->ops->create(f->rt, &spec, on_done, f);
	turn(f);
	assert_int_equal(passing_recv(f->warden, &m, sizeof(m), 2, &got, &e), PASSING_MESSAGE);
	assert_int_equal(wire_check_request(&m, got.n, got.n_fds, &rq, &e), 0);
	assert_int_equal(wire_check_volumes(&m, got.n, &rq, &heard, &e), 0);
	assert_int_equal(heard.n, 2);
	assert_true(heard.at[0].kind == WIRE_VOLUME_HOST && heard.at[0].prefix == 1 && heard.at[0].is_read_only);
	assert_true(heard.at[1].kind == WIRE_VOLUME_NAMED && !heard.at[1].is_read_only);
	assert_string_equal(heard.at[0].path, "a/b");
	assert_string_equal(heard.at[1].id, "v-1");
	assert_string_equal(heard.at[1].mount_path, "/m/n");
}

static void a_path_that_no_listed_folder_has_is_refused(void **state)
{
	static const char *entrypoint[] = { "x" };
	const struct runtime_volume volume = { RUNTIME_VOLUME_HOST, "", "/srvs", "/m", false };
	const struct runtime_spec spec = { .id = "ab-12", .image = "host", .entrypoint = { entrypoint, 1 }, .execd_token = "t",
					   .limits = RUNTIME_LIMITS_DEFAULT, .volumes = &volume, .n_volumes = 1 };
	struct fixture *f = *state;

	f->rt->ops->create(f->rt, &spec, on_done, f);
	turn(f);
	assert_int_equal(f->failed, 1);
	assert_string_equal(f->failure.code, "HOST_PATH_NOT_ALLOWED");
	assert_int_equal(f->failure.status, 400);
}

static void an_image_whose_programs_cannot_start_is_the_clients_to_change(void **state) /* I6 */
{
	static const struct {
		int fault;
		unsigned status;
	} rows[] = { { WIRE_FAULT_IMAGE_START, 400 }, { 0, 500 } };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(passed_done) struct passed got = PASSED_INIT;
		struct wire_request rq;
		struct wire_reply rp;

		start_create(f);
		rq = hear(f, &got);
		rp = reply_to(&rq);
		rp.failed = 1;
		(void)err_set(&rp.err, ERR_INVALID, "words of execd");
		rp.err.sys = rows[i].fault;
		say(f, &rp, NULL, 0);
		assert_int_equal(f->failure.status, rows[i].status);
		assert_string_equal(f->failure.code, "SANDBOX_START_FAILED");
		assert_string_equal(f->failure.says[0] ? f->failure.says : f->failure.err.msg, "words of execd");
	}
}

static void a_volume_that_cannot_be_is_told_by_the_contracts_code(void **state)
{
	static const struct {
		int fault;
		unsigned status;
		const char *code;
	} rows[] = {
		{ WIRE_FAULT_HOST_PATH, 400, "HOST_PATH_NOT_ALLOWED" }, { WIRE_FAULT_HOST_CREATE, 500, "HOST_PATH_CREATE_FAILED" },
		{ WIRE_FAULT_IDS, 400, "UNSUPPORTED_BACKEND" }, { WIRE_FAULT_SUB_PATH, 400, "INVALID_SUB_PATH" },
		{ WIRE_FAULT_NO_VOLUME, 500, "PVC_INSPECT_FAILED" }, { WIRE_FAULT_MOUNT_PATH, 400, "INVALID_MOUNT_PATH" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(passed_done) struct passed got = PASSED_INIT;
		struct wire_request rq;
		struct wire_reply rp;

		start_create(f);
		rq = hear(f, &got);
		rp = reply_to(&rq);
		rp.failed = 1;
		(void)err_set(&rp.err, ERR_INVALID, "words of the warden");
		rp.err.sys = rows[i].fault;
		say(f, &rp, NULL, 0);
		assert_int_equal(f->failure.status, rows[i].status);
		assert_string_equal(f->failure.prefix, "VOLUME");
		assert_string_equal(f->failure.code, rows[i].code);
		assert_string_equal(f->failure.says, "words of the warden");
	}
}

static void named_volumes_are_made_and_removed(void **state)
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq;
	struct wire_reply rp;

	f->rt->ops->volume_make(f->rt, "v-1", 1 << 20, on_done, f);
	rq = hear(f, &got);
	assert_true(rq.call == WIRE_VOLUME_MAKE && rq.limits.disk_bytes == 1 << 20 && strcmp(rq.id, "v-1") == 0);
	rp = reply_to(&rq);
	rp.failed = 1;
	(void)err_set(&rp.err, ERR_UNAVAILABLE, "no limits");
	rp.err.sys = EDQUOT;
	say(f, &rp, NULL, 0);
	assert_int_equal(f->failure.status, 400);
	assert_string_equal(f->failure.code, "DISK_LIMIT_UNSUPPORTED");
	f->rt->ops->volume_remove(f->rt, "v-1", on_done, f);
	rq = hear(f, &got);
	assert_int_equal(rq.call, WIRE_VOLUME_REMOVE);
	rp = reply_to(&rq);
	say(f, &rp, NULL, 0);
	assert_true(f->done == 2 && f->failed == 1);
}

static void a_failure_gets_the_code_of_its_operation(void **state)
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq;
	struct wire_reply rp;

	f->rt->ops->pause(f->rt, "ab-12", on_done, f);
	rq = hear(f, &got);
	rp = reply_to(&rq);
	rp.failed = 1;
	(void)err_set(&rp.err, ERR_IO, "freeze");
	say(f, &rp, NULL, 0);
	assert_string_equal(f->failure.code, "SANDBOX_PAUSE_FAILED");
	assert_int_equal(f->failure.status, 500);
	f->rt->ops->remove(f->rt, "ab-12", on_done, f);
	rq = hear(f, &got);
	rp = reply_to(&rq);
	rp.failed = 1;
	(void)err_set(&rp.err, ERR_NOT_FOUND, "no box");
	say(f, &rp, NULL, 0);
	assert_string_equal(f->failure.code, "SANDBOX_NOT_FOUND");
	assert_int_equal(f->failure.status, 404);
}

static void a_pause_that_was_not_done_in_time_can_be_tried_again(void **state)
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq;
	struct wire_reply rp;

	f->rt->ops->pause(f->rt, "ab-12", on_done, f);
	rq = hear(f, &got);
	rp = reply_to(&rq);
	rp.failed = 1;
	(void)err_set(&rp.err, ERR_TIMEOUT, "not within 15000 ms");
	say(f, &rp, NULL, 0);
	assert_string_equal(f->failure.code, "SANDBOX_PAUSE_FAILED");
	assert_int_equal(f->failure.status, 503);
}

static void a_disk_that_cannot_be_limited_is_told_by_name(void **state) /* L3 */
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq;
	struct wire_reply rp;

	assert_true(f->rt->can.limits & LIMIT_DISK);
	start_create(f);
	rq = hear(f, &got);
	rp = reply_to(&rq);
	rp.failed = 1;
	(void)err_set(&rp.err, ERR_UNAVAILABLE, "no quota");
	rp.err.sys = EDQUOT;
	say(f, &rp, NULL, 0);
	assert_string_equal(f->failure.code, "DISK_LIMIT_UNSUPPORTED");
	assert_int_equal(f->failure.status, 400);
}

static void a_dial_gives_the_socket_as_a_transport(void **state)
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq;
	struct wire_reply rp;
	int pair[2];
	char byte;

	f->rt->ops->dial(f->rt, "ab-12", PORT_EXECD, on_dial, f);
	rq = hear(f, &got);
	assert_int_equal(rq.port, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	rp = reply_to(&rq);
	say(f, &rp, &pair[0], 1);
	assert_non_null(f->dialed);
	assert_int_equal(write(pair[1], "x", 1), 1);
	assert_int_equal(f->dialed->ops->recv(f->dialed, &byte, 1), 1);
	transport_close(f->dialed);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

static struct wire_reply busy_reply(const struct wire_request *rq)
{
	struct wire_reply rp = reply_to(rq);

	rp.failed = 1;
	(void)err_set(&rp.err, ERR_UNAVAILABLE, "too many wait");
	rp.err.sys = EAGAIN;
	return rp;
}

/* G12b: a socket whose listener is busy says so at once; whoever dials waits. */
static void a_busy_execd_is_dialled_again(void **state)
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq;
	struct wire_reply rp;
	int pair[2];

	f->rt->ops->dial(f->rt, "ab-12", PORT_EXECD, on_dial, f);
	for (int i = 0; i < 10; i++) {
		rq = hear(f, &got);
		assert_string_equal(rq.id, "ab-12");
		rp = busy_reply(&rq);
		say(f, &rp, NULL, 0);
		assert_int_equal(f->done, 0);
		f->now_ms += 100;
		turn(f);
	}
	rq = hear(f, &got);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	rp = reply_to(&rq);
	say(f, &rp, &pair[0], 1);
	assert_non_null(f->dialed);
	transport_close(f->dialed);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

static void an_execd_that_stays_busy_is_told_as_such(void **state)
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq;
	struct wire_reply rp;

	f->rt->ops->dial(f->rt, "ab-12", PORT_EXECD, on_dial, f);
	rq = hear(f, &got);
	rp = busy_reply(&rq);
	say(f, &rp, NULL, 0);
	f->now_ms += 6000;
	turn(f);
	rq = hear(f, &got);
	rp = busy_reply(&rq);
	say(f, &rp, NULL, 0);
	assert_int_equal(f->failed, 1);
	assert_int_equal(f->failure.status, 503);
	assert_int_equal(f->failure.err.sys, EAGAIN);
}

/* More than any socket holds. */
static void a_thousand_calls_at_once_all_go_out_in_order(void **state)
{
	struct fixture *f = *state;
	char id[32];

	for (int i = 0; i < 3000; i++) {
		(void)snprintf(id, sizeof(id), "box-%d", i);
		f->rt->ops->pause(f->rt, id, on_done, f);
	}
	turn(f);
	assert_int_equal(f->done, 0);
	for (int i = 0; i < 3000; i++) {
		AUTO(passed_done) struct passed got = PASSED_INIT;
		struct wire_request rq = hear(f, &got);
		struct wire_reply rp = reply_to(&rq);

		(void)snprintf(id, sizeof(id), "box-%d", i);
		assert_string_equal(rq.id, id);
		say(f, &rp, NULL, 0);
	}
	assert_int_equal(f->done, 3000);
	assert_int_equal(f->failed, 0);
	for (int i = 0; i < 3000; i++)
		f->rt->ops->pause(f->rt, "x", on_done, f); /* and some are left over at the end */
}

static void a_create_behind_a_thousand_calls_goes_out_with_its_descriptors(void **state)
{
	struct fixture *f = *state;
	struct wire_request rq = { 0 };

	for (unsigned i = 0; i < 1000; i++)
		f->rt->ops->pause(f->rt, "ab-12", on_done, f);
	start_create(f);
	for (unsigned i = 0; i < 1000; i++) {
		AUTO(passed_done) struct passed got = PASSED_INIT;

		rq = hear(f, &got);
		assert_int_equal(rq.call, WIRE_PAUSE);
	}
	{
		AUTO(passed_done) struct passed got = PASSED_INIT;

		rq = hear(f, &got);
		assert_int_equal(rq.call, WIRE_CREATE);
		assert_int_equal(got.n_fds, 2);
	}
	assert_int_equal(f->failed, 0);
	for (unsigned i = 0; i < 1000; i++)
		f->rt->ops->pause(f->rt, "ab-12", on_done, f);
	start_create(f); /* and one that never leaves */
}

static void lists_come_in_rows(void **state)
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct wire_request rq;
	struct wire_reply rp;

	f->rt->ops->list(f->rt, on_list, f);
	rq = hear(f, &got);
	for (int i = 0; i < 100; i++) {
		rp = reply_to(&rq);
		(void)snprintf(rp.id, sizeof(rp.id), "box-%d", i);
		rp.state = WIRE_RUNNING;
		say(f, &rp, NULL, 0);
	}
	assert_int_equal(f->done, 0);
	rp = reply_to(&rq);
	say(f, &rp, NULL, 0);
	assert_int_equal(f->boxes, 100);
	assert_string_equal(f->box, "box-99");
}

static void logs_stats_and_ends_are_told(void **state)
{
	struct fixture *f = *state;
	AUTO(passed_done) struct passed got = PASSED_INIT;
	struct runtime_log_query query = { 10, 0 };
	int logs[2] = { memfd_create("a", MFD_CLOEXEC), memfd_create("b", MFD_CLOEXEC) };
	struct wire_request rq;
	struct wire_reply rp;

	assert_int_equal(write(logs[0], "hello\n", 6), 6);
	f->rt->ops->logs(f->rt, "ab-12", &query, on_text, f);
	rq = hear(f, &got);
	rp = reply_to(&rq);
	say(f, &rp, logs, 2);
	assert_string_equal(f->text, "hello\n");
	f->rt->ops->stats(f->rt, "ab-12", on_stats, f);
	rq = hear(f, &got);
	rp = reply_to(&rq);
	rp.stats.oom_kills = 3;
	say(f, &rp, NULL, 0);
	assert_int_equal(f->stats.oom_kills, 3);
	rp = (struct wire_reply){ .version = WIRE_VERSION, .call = WIRE_ENDED, .id = "ab-12",
				  .ending = { WIRE_END_EXITED, 137, 9, 1 } };
	say(f, &rp, NULL, 0);
	assert_int_equal(f->ended, 1);
	assert_int_equal(f->end.exit_code, 137);
	assert_true(f->end.oom);
	(void)close(logs[0]);
	(void)close(logs[1]);
}

static void a_warden_that_goes_away_fails_calls_and_comes_back(void **state)
{
	struct fixture *f = *state;

	start_create(f);
	turn(f);
	(void)close(f->warden);
	turn(f);
	assert_int_equal(f->failed, 1);
	assert_int_equal(f->failure.status, 503);
	f->rt->ops->pause(f->rt, "ab-12", on_done, f); /* nobody is there */
	assert_int_equal(f->failed, 1);                /* not during the call */
	turn(f);
	assert_int_equal(f->failed, 2);
	assert_int_equal(f->returned, 0);
	f->now_ms += 1000;
	meet(f);
	assert_int_equal(f->returned, 1);
}

static void a_warden_that_is_silent_is_not_waited_for(void **state)
{
	struct fixture *f = *state;

	f->rt->ops->pause(f->rt, "ab-12", on_done, f);
	turn(f);
	f->now_ms += 60000;
	turn(f);
	assert_int_equal(f->failed, 1);
}

static void nonsense_ends_the_connection(void **state)
{
	struct fixture *f = *state;

	f->rt->ops->pause(f->rt, "ab-12", on_done, f);
	turn(f);
	assert_int_equal(passing_send(f->warden, "nonsense", 8, NULL, 0, &(struct err){ 0 }), 1);
	turn(f);
	assert_int_equal(f->failed, 1);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_create_hands_on_numbers_and_a_sealed_spec),
		TEST(images_go_by_their_number),
		TEST(an_image_that_is_gone_fails_the_create),
		TEST(a_pause_that_was_not_done_in_time_can_be_tried_again),
		TEST(a_disk_that_cannot_be_limited_is_told_by_name),
		TEST(a_failure_gets_the_code_of_its_operation),
		TEST(volumes_follow_their_create), TEST(a_path_that_no_listed_folder_has_is_refused),
		TEST(an_image_whose_programs_cannot_start_is_the_clients_to_change),
		TEST(a_volume_that_cannot_be_is_told_by_the_contracts_code),
		TEST(named_volumes_are_made_and_removed),
		TEST(a_dial_gives_the_socket_as_a_transport),
		TEST(a_busy_execd_is_dialled_again),
		TEST(an_execd_that_stays_busy_is_told_as_such),
		TEST(a_thousand_calls_at_once_all_go_out_in_order),
		TEST(a_create_behind_a_thousand_calls_goes_out_with_its_descriptors),
		TEST(lists_come_in_rows),
		TEST(logs_stats_and_ends_are_told),
		TEST(a_warden_that_goes_away_fails_calls_and_comes_back),
		TEST(a_warden_that_is_silent_is_not_waited_for),
		TEST(nonsense_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
