// SPDX-License-Identifier: Apache-2.0
/* Named volumes over their whole life, with a runtime that fails when the test wants it to. */
#include "server/model/volumes.h"

#include "server/model/test_plane.h"

#include "base/banned.h"

#define PVC(claim, mount, more) \
	"{\"name\":\"" claim "\",\"mountPath\":\"" mount "\",\"pvc\":{\"claimName\":\"" claim "\"" more "}}"
#define VOLUMES(list) ",\"volumes\":[" list "]"
#define BODY(more) "{" CREATE_BODY more "}"
#define GOES ",\"deleteOnSandboxTermination\":true"

static struct rig rig;

static void none_is_left(struct rig *r)
{
	RIG_WAIT(r, volumes_count(sandboxes_volumes(r->plane->sandboxes)) == 0);
	assert_int_equal(r->fake.n_volumes, 0);
	has(rig_ask(r, "GET /v1/volumes", NULL), "{\"items\":[]}");
}

static void delete(struct rig *r, const char *id)
{
	assert_int_equal(rig_status(rig_on(r, "DELETE", id, "", NULL)), 204);
}

/* ---- a life ---- */

static void one_is_made_once_kept_and_deleted(void **state)
{
	char one[UUID_LEN + 1], two[UUID_LEN + 1];
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	rig_create(r, VOLUMES(PVC("v", "/data", ",\"storage\":\"1.5Gi\"")), one);
	rig_create(r, VOLUMES(PVC("v", "/data", ",\"storage\":\"7Gi\"")), two);
	assert_int_equal(r->fake.count[FAKE_VOLUME_MAKE], 1);
	assert_int_equal(r->fake.volume_bytes, UINT64_C(3) << 29);
	has(rig_ask(r, "GET /v1/volumes", NULL),
	    "{\"name\":\"v\",\"state\":\"Ready\",\"sizeBytes\":1610612736,\"sandboxes\":2,\"createdAt\":\"");
	has(rig_ask(r, "DELETE /v1/volumes/v", NULL), "VOLUME::IN_USE");
	delete(r, one);
	rig_restart(r);
	has(rig_ask(r, "DELETE /v1/volumes/v", NULL), "used by 1 sandbox\"");
	delete(r, two);
	has(rig_ask(r, "GET /v1/volumes", NULL), "\"sandboxes\":0");
	rig_restart(r);
	assert_int_equal(rig_status(rig_ask(r, "DELETE /v1/volumes/v", NULL)), 204);
	none_is_left(r);
	has(rig_ask(r, "DELETE /v1/volumes/v", NULL), "VOLUME::NOT_FOUND");
	rig_stop(r);
}

/* A disk that no record knows. */
static void what_the_runtime_has_without_a_record_is_found(void **state)
{
	static const char lost[] = "lost-0b1f8a0c-1111-4222-8333-444455556666";
	struct rig *r = &rig;
	char line[96];

	(void)state;
	rig_start(r);
	(void)snprintf(r->fake.volumes[r->fake.n_volumes++], ID_MAX + 1, "%s", lost + sizeof("lost-") - 1);
	(void)snprintf(r->fake.volumes[r->fake.n_volumes++], ID_MAX + 1, "%s", "NOT_A_NAME");
	rig_restart(r);
	has(rig_ask(r, "GET /v1/volumes", NULL), lost);
	lacks(r->answer, "NOT_A_NAME");
	rig_restart(r);
	assert_int_equal(volumes_count(sandboxes_volumes(r->plane->sandboxes)), 1);
	(void)snprintf(line, sizeof(line), "DELETE /v1/volumes/%s", lost);
	assert_int_equal(rig_status(rig_ask(r, line, NULL)), 204);
	assert_int_equal(r->fake.n_volumes, 1);
	rig_stop(r);
}

static void those_without_a_record_are_looked_for_until_the_runtime_answers(void **state)
{
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	rig_close(r);
	(void)snprintf(r->fake.volumes[r->fake.n_volumes++], ID_MAX + 1, "%s", "0b1f8a0c-1111-4222-8333-444455556666");
	r->fake.fails[FAKE_VOLUMES] = 2;
	rig_open(r);
	for (int i = 0; i < 4; i++) {
		rig_turn(r, 10);
		rig_pass(r, 1000);
	}
	RIG_WAIT(r, strstr(rig_ask(r, "GET /v1/volumes", NULL), "lost-0b1f8a0c"));
	assert_int_equal(r->fake.count[FAKE_VOLUMES], 4); /* with that of the first start */
	rig_stop(r);
}

static void one_goes_with_its_maker_or_the_last_that_has_it(void **state)
{
	char maker[UUID_LEN + 1], other[UUID_LEN + 1];
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	rig_create(r, VOLUMES(PVC("v", "/a", GOES)), maker);
	delete(r, maker);
	none_is_left(r);
	rig_create(r, VOLUMES(PVC("v", "/a", GOES)), maker);
	rig_create(r, VOLUMES(PVC("v", "/a", "")), other);
	delete(r, maker);
	has(rig_ask(r, "GET /v1/volumes", NULL), "\"sandboxes\":1");
	rig_restart(r); /* it is known to be doomed */
	delete(r, other);
	none_is_left(r);
	rig_stop(r);
}

static void one_goes_when_its_maker_expires(void **state)
{
	char id[UUID_LEN + 1];
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	rig_create(r, ",\"timeout\":60" VOLUMES(PVC("v", "/a", GOES)), id);
	rig_pass(r, 61000);
	none_is_left(r);
	rig_stop(r);
}

/* ---- failures ---- */

static void a_create_that_fails_takes_back_what_it_has_made(void **state)
{
	char id[UUID_LEN + 1];
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	r->fake.fails[FAKE_VOLUME_MAKE] = 1;
	assert_int_equal(rig_status(rig_ask(r, "POST /v1/sandboxes", BODY(VOLUMES(PVC("v", "/a", ""))))), 500);
	assert_int_equal(r->fake.count[FAKE_CREATE], 0);
	none_is_left(r);
	r->fake.fails[FAKE_CREATE] = 1;
	assert_int_equal(
		rig_status(rig_ask(r, "POST /v1/sandboxes", BODY(VOLUMES(PVC("v", "/a", "") "," PVC("w", "/b", ""))))), 500);
	none_is_left(r);
	rig_create(r, VOLUMES(PVC("v", "/a", "")), id);
	delete(r, id);
	r->fake.fails[FAKE_CREATE] = 1; /* what was there before stays */
	assert_int_equal(rig_status(rig_ask(r, "POST /v1/sandboxes", BODY(VOLUMES(PVC("v", "/a", GOES))))), 500);
	has(rig_ask(r, "GET /v1/volumes", NULL), "\"name\":\"v\",\"state\":\"Ready\"");
	assert_int_equal(rig_status(rig_ask(r, "DELETE /v1/volumes/v", NULL)), 204);
	none_is_left(r);
	rig_stop(r);
}

static void what_another_create_has_by_then_stays(void **state)
{
	int one, two;
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	r->fake.holds = true;
	one = rig_send(&r->api, "POST /v1/sandboxes", AUTH, BODY(VOLUMES(PVC("v", "/a", GOES))));
	RIG_WAIT(r, r->fake.count[FAKE_VOLUME_MAKE] == 1);
	two = rig_send(&r->api, "POST /v1/sandboxes", AUTH, BODY(VOLUMES(PVC("v", "/a", ""))));
	RIG_WAIT(r, r->fake.count[FAKE_VOLUME_MAKE] == 2);
	has(rig_ask(r, "GET /v1/volumes", NULL), "\"state\":\"Creating\"");
	r->fake.fails[FAKE_VOLUME_MAKE] = 1; /* the first one's */
	r->fake.holds = false;
	fake_release(&r->fake);
	assert_int_equal(rig_status(rig_receive(r, one)), 500);
	assert_int_equal(rig_status(rig_receive(r, two)), 202);
	has(rig_ask(r, "GET /v1/volumes", NULL), "\"state\":\"Ready\"");
	lacks(r->answer, "\"sandboxes\":2");
	assert_int_equal(r->fake.n_volumes, 1);
	rig_stop(r);
}

static void a_removal_is_tried_until_it_works(void **state)
{
	char id[UUID_LEN + 1];
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	rig_create(r, VOLUMES(PVC("v", "/a", "")), id);
	delete(r, id);
	r->fake.fails[FAKE_VOLUME_REMOVE] = 2;
	assert_int_equal(rig_status(rig_ask(r, "DELETE /v1/volumes/v", NULL)), 500);
	lacks(r->answer, "/secret");
	has(rig_ask(r, "GET /v1/volumes", NULL), "\"state\":\"Deleting\"");
	has(rig_ask(r, "POST /v1/sandboxes", BODY(VOLUMES(PVC("v", "/a", ",\"createIfNotExists\":false")))), "VOLUME::PVC_NOT_FOUND");
	rig_create(r, VOLUMES(PVC("v", "/a", "")), id); /* another one */
	assert_int_equal(r->fake.n_volumes, 2);
	rig_restart(r); /* which goes on with it, and fails once more */
	RIG_WAIT(r, r->fake.count[FAKE_VOLUME_REMOVE] == 2);
	rig_pass(r, 1100);
	RIG_WAIT(r, r->fake.n_volumes == 1);
	has(rig_ask(r, "GET /v1/volumes", NULL), "\"state\":\"Ready\"");
	delete(r, id);
	assert_int_equal(rig_status(rig_ask(r, "DELETE /v1/volumes/v", NULL)), 204);
	none_is_left(r);
	rig_stop(r);
}

/* ---- crashes ---- */

static void what_was_never_acknowledged_is_gone_after_a_crash(void **state)
{
	struct rig *r = &rig;
	int fd;

	(void)state;
	rig_start(r);
	r->fake.holds = true;
	fd = rig_send(&r->api, "POST /v1/sandboxes", AUTH, BODY(VOLUMES(PVC("v", "/a", ""))));
	RIG_WAIT(r, r->fake.count[FAKE_VOLUME_MAKE] == 1);
	memcpy(r->fake.volumes[r->fake.n_volumes++], r->fake.calls[0].id, ID_MAX + 1); /* it was made, and nobody heard */
	r->fake.holds = false;
	rig_restart(r);
	(void)close(fd);
	none_is_left(r);
	rig_stop(r);
}

static void what_a_repeated_create_finds_is_kept(void **state)
{
	static const char head[] = AUTH "Idempotency-Key: k\r\n";
	struct rig *r = &rig;
	char id[UUID_LEN + 1];
	int fd;

	(void)state;
	rig_start(r);
	r->fake.holds = true;
	fd = rig_send(&r->api, "POST /v1/sandboxes", head, BODY(VOLUMES(PVC("v", "/a", ""))));
	RIG_WAIT(r, r->fake.count[FAKE_VOLUME_MAKE] == 1);
	fake_complete(&r->fake, &r->fake.calls[0]);
	RIG_WAIT(r, r->fake.count[FAKE_CREATE] == 1);
	(void)snprintf(id, sizeof(id), "%s", r->fake.calls[r->fake.n_calls - 1].id);
	(void)fake_add(&r->fake, id, RUNTIME_RUNNING);
	r->fake.holds = false;
	rig_restart(r);
	(void)close(fd);
	assert_int_equal(rig_status(rig_receive(r, rig_send(&r->api, "POST /v1/sandboxes", head, BODY(VOLUMES(PVC("v", "/a", "")))))), 202);
	has(rig_ask(r, "GET /v1/volumes", NULL), "\"state\":\"Ready\"");
	rig_restart(r); /* which is recorded, too */
	has(rig_ask(r, "GET /v1/volumes", NULL), "\"state\":\"Ready\",\"sizeBytes\":1073741824,\"sandboxes\":1");
	rig_stop(r);
}

/* ---- what the runtime is told ---- */

#define HOST(name, path, mount, more) \
	"{\"name\":\"" name "\",\"mountPath\":\"" mount "\",\"host\":{\"path\":\"" path "\"}" more "}"

static void the_runtime_gets_plain_paths_in_order(void **state)
{
	char id[UUID_LEN + 1];
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	rig_create(r, VOLUMES(HOST("a", "/mnt/x", "/z/in", ",\"readOnly\":true") "," HOST("b", "/srv/data/./a", "//z/", ",\"subPath\":\"s//t/.\"")
			       "," HOST("c", "/srv/data/deep/er", "/y", "") "," HOST("d", "/srv/data/deeper", "/x", ",\"subPath\":null")
			       "," PVC("v", "/z/in/v", "")), id);
	assert_string_equal(r->fake.mounts, "host '/srv/data/deeper' /x|host '/srv/data/deep/er' /y|host '/srv/data/a/s/t' /z|"
					    "host '/mnt/x' /z/in ro|named '' /z/in/v|");
	rig_restart(r);
	has(rig_on(r, "GET", id, "/diagnostics/inspect", NULL), "volume: b, host /srv/data/./a, s/t at /z\n");
	has(r->answer, "volume: a, host /mnt/x at /z/in, read-only\n");
	delete(r, id);
	rig_stop(r);
}

static void one_volume_may_be_in_several_places(void **state)
{
	char id[UUID_LEN + 1];
	struct rig *r = &rig;

	(void)state;
	rig_start(r);
	rig_create(r, VOLUMES(PVC("v", "/a", GOES) ",{\"name\":\"w\",\"mountPath\":\"/b\",\"subPath\":\"s\",\"pvc\":{\"claimName\":\"v\"}}"), id);
	assert_string_equal(r->fake.mounts, "named '' /a|named 's' /b|");
	has(rig_ask(r, "GET /v1/volumes", NULL), "\"sandboxes\":1");
	delete(r, id);
	none_is_left(r);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_is_made_once_kept_and_deleted),
		cmocka_unit_test(what_the_runtime_has_without_a_record_is_found),
		cmocka_unit_test(those_without_a_record_are_looked_for_until_the_runtime_answers),
		cmocka_unit_test(one_goes_with_its_maker_or_the_last_that_has_it),
		cmocka_unit_test(one_goes_when_its_maker_expires),
		cmocka_unit_test(a_create_that_fails_takes_back_what_it_has_made),
		cmocka_unit_test(what_another_create_has_by_then_stays),
		cmocka_unit_test(a_removal_is_tried_until_it_works),
		cmocka_unit_test(what_was_never_acknowledged_is_gone_after_a_crash),
		cmocka_unit_test(what_a_repeated_create_finds_is_kept),
		cmocka_unit_test(the_runtime_gets_plain_paths_in_order),
		cmocka_unit_test(one_volume_may_be_in_several_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
