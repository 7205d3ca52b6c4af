// SPDX-License-Identifier: Apache-2.0
/* A disk that is full or broken: changes are refused, reads go on, and all is well when it is. */
#include "server/model/test_plane.h"

#include "server/store/test_disk.h"

#include "base/banned.h"

#define RETRY_MS 30000

static struct rig rig;

static void no_change_is_half_made_on_a_full_disk(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, ",\"timeout\":600,\"metadata\":{\"a\":\"1\"}", id);
	atomic_store(&disk_failure, SQLITE_FULL);
	has(rig_ask(r, "POST /sandboxes", "{" CREATE_BODY "}"), "HTTP/1.1 507 ");
	has(r->answer, "\"code\":\"INSUFFICIENT_STORAGE\"");
	RIG_WAIT(r, r->fake.n_boxes == 1); /* the first: what the store did not take is not kept */
	assert_int_equal(rig_status(rig_on(r, "POST", id, "/pause", NULL)), 507);
	assert_int_equal(r->fake.count[FAKE_PAUSE], 0);
	assert_int_equal(rig_status(rig_on(r, "DELETE", id, "", NULL)), 507);
	assert_int_equal(r->fake.n_boxes, 1);
	assert_int_equal(rig_status(rig_on(r, "PATCH", id, "/metadata", "{\"a\":\"2\"}")), 507);
	assert_int_equal(rig_status(rig_on(r, "POST", id, "/renew-expiration", "{\"expiresAt\":\"2027-01-01T00:00:00Z\"}")), 507);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Running\"");
	has(r->answer, "\"metadata\":{\"a\":\"1\"}");
	lacks(r->answer, "2027");
	has(rig_ask(r, "GET /sandboxes", NULL), "\"totalItems\":1");
	atomic_store(&disk_failure, SQLITE_IOERR_WRITE);
	has(rig_on(r, "POST", id, "/pause", NULL), "HTTP/1.1 503 ");
	has(r->answer, "Retry-After: 1\r\n");
	atomic_store(&disk_failure, 0);
	assert_int_equal(rig_status(rig_on(r, "POST", id, "/pause", NULL)), 202);
	assert_int_equal(rig_status(rig_on(r, "DELETE", id, "", NULL)), 204);
	rig_stop(r);
}

static void on_stored(const struct err *e, void *arg)
{
	assert_null(e);
	*(bool *)arg = true;
}

/* Until all that was submitted so far is in the store: one writer takes everything in its turn. */
static void wait_for_store(struct rig *r)
{
	bool is_done = false;

	assert_int_equal(store_submit(r->plane->store, store_tx_new(), on_stored, &is_done, &r->e), 0);
	RIG_WAIT(r, is_done);
}

/* Lets the runtime do its part and the disk fail at what follows. */
static const char *fail_at_commit(struct rig *r, const char *line, const char *body, enum fake_kind kind)
{
	unsigned before = r->fake.count[kind];
	int fd;

	r->fake.holds = true;
	fd = rig_send(&r->api, line, AUTH, body);
	RIG_WAIT(r, r->fake.count[kind] == before + 1);
	wait_for_store(r); /* the intent is on its way beside it */
	atomic_store(&disk_failure, SQLITE_FULL);
	r->fake.holds = false;
	fake_release(&r->fake);
	return rig_receive(r, fd);
}

/* What it stands on could not be written down: nobody is told that it runs. */
static void a_create_whose_image_is_not_recorded_is_taken_back(void **state)
{
	static const char digest[] = "sha256:abababababababababababababababababababababababababababababababab";
	struct rig *r = &rig;
	int fd;

	(void)state;
	rig_start(r);
	r->fake.holds = true;
	fd = rig_send(&r->api, "POST /v1/sandboxes", AUTH, "{" CREATE_BODY "}");
	RIG_WAIT(r, r->fake.count[FAKE_CREATE] == 1);
	wait_for_store(r);
	atomic_store(&disk_failure, SQLITE_FULL);
	r->fake.rt.events->resolved(r->fake.calls[r->fake.n_calls - 1].id, digest, r->fake.rt.events_arg);
	rig_turn(r, 20);
	r->fake.holds = false;
	fake_release(&r->fake);
	has(rig_receive(r, fd), "HTTP/1.1 507 ");
	atomic_store(&disk_failure, 0);
	for (int i = 0; i < 5; i++)
		rig_pass(r, RETRY_MS);
	RIG_WAIT(r, r->fake.n_boxes == 0);
	has(rig_ask(r, "GET /v1/sandboxes", NULL), "\"totalItems\":0");
	rig_stop(r);
}

static void a_create_needs_nothing_but_its_intent(void **state)
{
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	has(fail_at_commit(r, "POST /sandboxes", "{" CREATE_BODY "}", FAKE_CREATE), "HTTP/1.1 202 ");
	rig_turn(r, 20);
	atomic_store(&disk_failure, 0);
	rig_restart(r);
	has(rig_ask(r, "GET /sandboxes", NULL), "\"state\":\"Running\"");
	assert_int_equal(r->fake.n_boxes, 1);
	rig_stop(r);
}

static void a_failed_create_is_forgotten_when_the_disk_allows_it(void **state)
{
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	r->fake.fails[FAKE_CREATE] = 1;
	has(fail_at_commit(r, "POST /sandboxes", "{" CREATE_BODY "}", FAKE_CREATE), "NATIVE::SANDBOX_START_FAILED");
	atomic_store(&disk_failure, 0);
	rig_pass(r, 2000);
	RIG_WAIT(r, rig_count(r) == 0);
	rig_stop(r);
}

static void what_was_done_is_recorded_later(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], line[128];

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	(void)snprintf(line, sizeof(line), "POST /sandboxes/%s/pause", id);
	has(fail_at_commit(r, line, NULL, FAKE_PAUSE), "HTTP/1.1 507 ");
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Paused\""); /* it is */
	atomic_store(&disk_failure, 0);
	rig_pass(r, 2001);
	rig_turn(r, 30);
	rig_restart(r);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Paused\"");
	atomic_store(&disk_failure, SQLITE_FULL);
	fake_end(&r->fake, id, &(struct runtime_end){ .exit_code = 5 });
	rig_turn(r, 20);
	has(rig_on(r, "GET", id, "", NULL), "Sandbox container exited with code 5.");
	atomic_store(&disk_failure, 0);
	rig_pass(r, 2001);
	rig_turn(r, 30);
	r->fake.n_boxes = 0;
	rig_restart(r);
	has(rig_on(r, "GET", id, "", NULL), "Sandbox container exited with code 5.");
	rig_stop(r);
}

static void a_removal_is_forgotten_when_the_disk_allows_it(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], line[128];

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	(void)snprintf(line, sizeof(line), "DELETE /sandboxes/%s", id);
	has(fail_at_commit(r, line, NULL, FAKE_REMOVE), "HTTP/1.1 204 ");
	rig_turn(r, 20);
	atomic_store(&disk_failure, 0);
	rig_pass(r, 1001);
	rig_turn(r, 20);
	rig_restart(r);
	assert_int_equal(rig_count(r), 0);
	rig_stop(r);
}

static void an_end_of_life_waits_for_the_disk(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	rig_start(r);
	rig_create(r, ",\"timeout\":60", id);
	atomic_store(&disk_failure, SQLITE_FULL);
	rig_pass(r, 60001);
	rig_turn(r, 20);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Running\"");
	atomic_store(&disk_failure, 0);
	rig_pass(r, 1001);
	RIG_WAIT(r, rig_count(r) == 0);
	rig_stop(r);
}

static void a_slow_disk_stops_nobody_who_reads(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];
	int fd;

	(void)state;
	rig_start(r);
	rig_create(r, "", id);
	atomic_store(&disk_stalls, true);
	fd = rig_send(&r->api, "POST /sandboxes", AUTH, "{" CREATE_BODY "}");
	rig_turn(r, 20);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Running\"");
	has(rig_ask(r, "GET /sandboxes", NULL), "\"totalItems\":2");
	atomic_store(&disk_stalls, false);
	has(rig_receive(r, fd), "HTTP/1.1 202 ");
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_change_is_half_made_on_a_full_disk),
		cmocka_unit_test(a_create_whose_image_is_not_recorded_is_taken_back),
		cmocka_unit_test(a_create_needs_nothing_but_its_intent),
		cmocka_unit_test(a_failed_create_is_forgotten_when_the_disk_allows_it),
		cmocka_unit_test(what_was_done_is_recorded_later),
		cmocka_unit_test(a_removal_is_forgotten_when_the_disk_allows_it),
		cmocka_unit_test(an_end_of_life_waits_for_the_disk),
		cmocka_unit_test(a_slow_disk_stops_nobody_who_reads),
	};

	disk_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
