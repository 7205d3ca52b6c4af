// SPDX-License-Identifier: Apache-2.0
/* Creates whose image takes long: what clients are told of them, and what is left of one that fails. */
#include "server/model/test_plane.h"

#include "base/own.h"

#include "base/banned.h"

static struct rig rig;

static int setup(void **state)
{
	rig_start(&rig);
	*state = &rig;
	return 0;
}

static int teardown(void **state)
{
	rig_stop(*state);
	return 0;
}

static void report(struct rig *r, const char *id, uint64_t bytes, uint64_t total)
{
	const struct runtime_progress p = { .phase = "downloading", .bytes = bytes, .total = total, .layers_done = 1, .layers = 3 };

	r->fake.rt.events->progress(id, &p, r->fake.rt.events_arg);
}

/* A create that the runtime does not complete, with its id. */
static int begin(struct rig *r, const char *headers, char id[UUID_LEN + 1])
{
	unsigned before = r->fake.count[FAKE_CREATE];
	int fd;

	r->fake.holds = true;
	fd = rig_send(&r->api, "POST /v1/sandboxes", headers, "{" CREATE_BODY ",\"timeout\":86400}");
	RIG_WAIT(r, r->fake.count[FAKE_CREATE] > before);
	(void)snprintf(id, UUID_LEN + 1, "%s", r->fake.calls[r->fake.n_calls - 1].id);
	rig_turn(r, 20); /* the store has it too */
	return fd;
}

static int begin_pending(struct rig *r, const char *headers, char id[UUID_LEN + 1])
{
	int fd = begin(r, headers, id);

	report(r, id, 10, 100);
	rig_pass(r, SANDBOX_ANSWER_MS);
	return fd;
}

static void release(struct rig *r)
{
	r->fake.holds = false;
	fake_release(&r->fake);
	rig_turn(r, 20);
}

static void a_long_pull_is_told_as_pending_and_goes_on(void **state)
{
	struct rig *r = *state;
	char id[UUID_LEN + 1], got[UUID_LEN + 1];
	int fd = begin(r, AUTH, id);

	report(r, id, 10, 100);
	rig_pass(r, SANDBOX_ANSWER_MS - 1000);
	assert_int_equal(recv(fd, r->answer, 1, MSG_DONTWAIT | MSG_PEEK), -1);
	rig_pass(r, 1000);
	has(rig_receive(r, fd), "HTTP/1.1 202 ");
	has(r->answer, "\"state\":\"Pending\"");
	has(r->answer, "\"reason\":\"IMAGE_PULLING\"");
	rig_id(r->answer, got);
	assert_string_equal(got, id);
	report(r, id, 50, 100);
	has(rig_on(r, "GET", id, "", NULL), "50% (50 of 100 bytes), 1 of 3 layers");
	assert_int_equal(rig_status(rig_on(r, "GET", id, "/endpoints/8080", NULL)), 200);
	release(r);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Running\"");
	assert_int_equal(rig_status(rig_on(r, "DELETE", id, "", NULL)), 204);
}

static void a_create_without_progress_is_waited_for(void **state)
{
	struct rig *r = *state;
	char id[UUID_LEN + 1];
	int fd = begin(r, AUTH, id);

	rig_pass(r, 3 * SANDBOX_ANSWER_MS);
	assert_int_equal(recv(fd, r->answer, 1, MSG_DONTWAIT | MSG_PEEK), -1);
	release(r);
	has(rig_receive(r, fd), "\"state\":\"Running\"");
}

static void what_fails_after_that_is_failed_and_says_why(void **state)
{
	struct rig *r = *state;
	char id[UUID_LEN + 1];
	int fd = begin_pending(r, AUTH, id);

	has(rig_receive(r, fd), "\"state\":\"Pending\"");
	r->fake.failure = (struct runtime_failure){ .code = RUNTIME_PULL_FAILED, .status = 500, .err = { .code = ERR_IO },
						    .says = "the registry does not know it" };
	r->fake.fails[FAKE_CREATE] = 1;
	release(r);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Failed\"");
	has(r->answer, "\"reason\":\"IMAGE_PULL_FAILED\"");
	has(r->answer, "the registry does not know it");
	rig_restart(r);
	has(rig_on(r, "GET", id, "", NULL), "\"reason\":\"IMAGE_PULL_FAILED\"");
	rig_pass(r, UINT64_C(86400) * 1000);
	rig_turn(r, 50);
	assert_int_equal(rig_status(rig_on(r, "GET", id, "", NULL)), 404); /* its time is over, as that of any other */
}

static void what_fails_before_leaves_nothing(void **state)
{
	struct rig *r = *state;
	char id[UUID_LEN + 1];
	int fd = begin(r, AUTH, id);

	report(r, id, 10, 100);
	r->fake.fails[FAKE_CREATE] = 1;
	release(r);
	assert_int_equal(rig_status(rig_receive(r, fd)), 500);
	assert_int_equal(rig_status(rig_on(r, "GET", id, "", NULL)), 404);
}

static void a_delete_cancels(void **state)
{
	struct rig *r = *state;
	char id[UUID_LEN + 1], line[128];
	int fd = begin_pending(r, AUTH, id), gone;

	has(rig_receive(r, fd), "\"state\":\"Pending\"");
	(void)snprintf(line, sizeof(line), "DELETE /v1/sandboxes/%s", id);
	gone = rig_send(&r->api, line, AUTH, NULL);
	RIG_WAIT(r, r->fake.cancels == 1);
	r->fake.fails[FAKE_CREATE] = 1;
	release(r);
	assert_int_equal(rig_status(rig_receive(r, gone)), 204);
	assert_int_equal(rig_status(rig_on(r, "GET", id, "", NULL)), 404);
}

/* What a client was told of is there after a restart, though nobody can go on with it: its environment was kept nowhere. */
static void a_restart_forgets_only_what_nobody_was_told_of(void **state)
{
	struct rig *r = *state;
	char told[UUID_LEN + 1], untold[UUID_LEN + 1];
	int fd = begin_pending(r, AUTH, told), other;

	has(rig_receive(r, fd), "\"state\":\"Pending\"");
	other = begin(r, AUTH, untold);
	report(r, untold, 10, 100);
	rig_close(r);
	(void)close(other);
	r->fake.holds = false;
	rig_open(r);
	has(rig_on(r, "GET", told, "", NULL), "\"reason\":\"PROVISIONING_INTERRUPTED\"");
	RIG_WAIT(r, rig_status(rig_on(r, "GET", untold, "", NULL)) == 404);
	rig_restart(r);
	has(rig_on(r, "GET", told, "", NULL), "\"state\":\"Failed\"");
	assert_int_equal(rig_status(rig_on(r, "DELETE", told, "", NULL)), 204);
}

static void a_repeated_request_finds_the_one_that_is_pending(void **state)
{
	struct rig *r = *state;
	char id[UUID_LEN + 1], again[UUID_LEN + 1];
	int fd = begin_pending(r, AUTH "Idempotency-Key: k1\r\n", id);

	has(rig_receive(r, fd), "\"state\":\"Pending\"");
	fd = rig_send(&r->api, "POST /v1/sandboxes", AUTH "Idempotency-Key: k1\r\n", "{" CREATE_BODY ",\"timeout\":86400}");
	has(rig_receive(r, fd), "\"state\":\"Pending\"");
	rig_id(r->answer, again);
	assert_string_equal(again, id);
	release(r);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Running\"");
}

static void progress_keeps_it_alive_and_silence_ends_it(void **state)
{
	struct rig *r = *state;
	char id[UUID_LEN + 1];
	int fd = begin_pending(r, AUTH, id);

	has(rig_receive(r, fd), "\"state\":\"Pending\"");
	for (unsigned i = 0; i < 5; i++) {
		rig_pass(r, SANDBOX_CREATE_MS - 1000);
		report(r, id, 10 + i, 100);
		has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Pending\"");
	}
	rig_pass(r, SANDBOX_CREATE_MS);
	has(rig_on(r, "GET", id, "", NULL), "\"reason\":\"PROVISIONING_TIMEOUT\"");
	assert_int_equal(r->fake.cancels, 1);
	r->fake.fails[FAKE_CREATE] = 1;
	release(r);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Failed\"");
}

static void events_tell_of_progress_now_and_then(void **state)
{
	struct rig *r = *state;
	char id[UUID_LEN + 1];
	int fd = begin(r, AUTH, id);
	struct sandbox *sb = sandboxes_find(r->plane->sandboxes, str_of(id));
	size_t before = sb->n_events;

	for (unsigned i = 0; i < 100; i++) {
		report(r, id, i, 100);
		rig_pass(r, 100); /* 10 s */
	}
	assert_in_range(sb->n_events - before, 2, 3);
	release(r);
	has(rig_receive(r, fd), "\"state\":\"Running\"");
}

#define DIGEST "sha256:abababababababababababababababababababababababababababababababab"

static void its_snapshots_are_restored_on_the_image_that_its_name_meant(void **state)
{
	struct rig *r = *state;
	char id[UUID_LEN + 1], snapshot[UUID_LEN + 1], body[128];
	int fd = begin(r, AUTH, id);

	assert_string_equal(r->fake.digest, "");
	r->fake.rt.events->resolved(id, DIGEST, r->fake.rt.events_arg);
	release(r);
	has(rig_receive(r, fd), "\"state\":\"Running\"");
	assert_true(sandboxes_have_image(r->plane->sandboxes, DIGEST));
	has(rig_on(r, "POST", id, "/snapshots", "{}"), "HTTP/1.1 202 ");
	rig_id(r->answer, snapshot);
	rig_turn(r, 20);
	rig_restart(r);
	(void)snprintf(body, sizeof(body), "{\"snapshotId\":\"%s\"}", snapshot);
	has(rig_on(r, "POST", id, "/rollback", body), "HTTP/1.1 200 ");
	assert_string_equal(r->fake.digest, DIGEST);
	r->fake.digest[0] = '\0';
	has(rig_on(r, "POST", id, "/fork", "{}"), "HTTP/1.1 202 ");
	assert_string_equal(r->fake.digest, DIGEST);
	assert_int_equal(rig_status(rig_on(r, "DELETE", id, "", NULL)), 204);
	r->fake.digest[0] = '\0';
	(void)snprintf(body, sizeof(body), "{\"snapshotId\":\"%s\",\"resourceLimits\":{}}", snapshot);
	has(rig_ask(r, "POST /v1/sandboxes", body), "HTTP/1.1 202 ");
	assert_string_equal(r->fake.digest, DIGEST);
	assert_true(snapshots_have_image(r->plane->snapshots, DIGEST));
	assert_false(snapshots_have_image(r->plane->snapshots, "sha256:"));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_long_pull_is_told_as_pending_and_goes_on),
		TEST(a_create_without_progress_is_waited_for),
		TEST(what_fails_after_that_is_failed_and_says_why),
		TEST(what_fails_before_leaves_nothing),
		TEST(a_delete_cancels),
		TEST(a_restart_forgets_only_what_nobody_was_told_of),
		TEST(a_repeated_request_finds_the_one_that_is_pending),
		TEST(progress_keeps_it_alive_and_silence_ends_it),
		TEST(events_tell_of_progress_now_and_then),
		TEST(its_snapshots_are_restored_on_the_image_that_its_name_meant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
