// SPDX-License-Identifier: Apache-2.0
/* A runtime that lacks something: requests for it are refused by name, before it is asked. */
#include "server/model/test_plane.h"

#include "server/model/capability.h"

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

/* The set of what there is, without one. */
static void what_is_missing_is_refused_by_name(void **state)
{
	static const struct {
		const char *line, *tail, *body, *answer, *code;
	} cases[] = {
		{ "POST", "/pause", NULL, "HTTP/1.1 400 ", "NATIVE::CAPABILITY_UNSUPPORTED" },
		{ "POST", "/resume", NULL, "HTTP/1.1 400 ", "NATIVE::CAPABILITY_UNSUPPORTED" },
		{ "POST", "/snapshots", NULL, "HTTP/1.1 501 ", "SNAPSHOT::NOT_IMPLEMENTED" },
		{ "POST", "/fork", NULL, "HTTP/1.1 501 ", "NATIVE::CAPABILITY_UNSUPPORTED" },
		{ "POST", "/rollback", "{\"snapshotId\":\"x\"}", "HTTP/1.1 501 ", "NATIVE::CAPABILITY_UNSUPPORTED" },
		{ "GET", "/diagnostics/logs", NULL, "HTTP/1.1 501 ", "NATIVE::CAPABILITY_UNSUPPORTED" },
	};
	char id[UUID_LEN + 1];
	unsigned calls;

	(void)state;
	rig_create(&r, "", id);
	calls = r.fake.count[FAKE_PAUSE] + r.fake.count[FAKE_SNAPSHOT] + r.fake.count[FAKE_LOGS];
	r.fake.rt.can.pauses = r.fake.rt.can.snapshots = r.fake.rt.can.forks = r.fake.rt.can.rolls_back = r.fake.rt.can.logs = false;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		has(rig_on(&r, cases[i].line, id, cases[i].tail, cases[i].body), cases[i].answer);
		has(r.answer, cases[i].code);
	}
	has(rig_ask(&r, "GET /v1/images", NULL), "HTTP/1.1 501 ");
	has(r.answer, "NATIVE::CAPABILITY_UNSUPPORTED");
	assert_int_equal(r.fake.count[FAKE_PAUSE] + r.fake.count[FAKE_SNAPSHOT] + r.fake.count[FAKE_LOGS], calls);
}

static void create(const char *limits, const char *more, const char *code)
{
	char body[512];

	(void)snprintf(body, sizeof(body), "{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"x\"],\"resourceLimits\":{%s},%s}", limits, more);
	has(rig_ask(&r, "POST /v1/sandboxes", body), "HTTP/1.1 400 ");
	has(r.answer, code);
}

static void what_a_create_cannot_have_is_refused_by_name(void **state)
{
	struct runtime_capabilities *can = &r.fake.rt.can;

	(void)state;
	can->limits = LIMIT_CPU;
	can->volumes = can->host_paths = false;
	create("", "\"platform\":{\"os\":\"windows\",\"arch\":\"amd64\"}", "SANDBOX::INVALID_PARAMETER");
	has(r.answer, "platform: ");
	create("\"memory\":\"64Mi\"", "\"timeout\":600", "SANDBOX::INVALID_PARAMETER");
	has(r.answer, "resourceLimits.memory: cannot be enforced here");
	create("\"disk\":\"64Mi\"", "\"timeout\":600", "NATIVE::DISK_LIMIT_UNSUPPORTED");
	create("", "\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/v\",\"pvc\":{\"claimName\":\"c\"}}]", "VOLUME::UNSUPPORTED_BACKEND");
	create("", "\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/v\",\"host\":{\"path\":\"/srv/data\"}}]", "VOLUME::UNSUPPORTED_BACKEND");
	create("", "\"networkPolicy\":{\"defaultAction\":\"deny\"}", "SANDBOX::INVALID_PARAMETER");
	has(r.answer, "networkPolicy: sandboxes have no network here");
}

static void each_has_an_error_of_its_own(void **state)
{
	struct fault f;

	(void)state;
	for (enum capability c = CAPABILITY_PAUSE; c <= CAPABILITY_PLATFORM; c++) {
		assert_int_equal(capability_missing(&r.fake.rt, c, "what", &f), -1);
		assert_true(f.status == 400 || f.status == 501);
		assert_non_null(strstr(f.code, "::"));
		assert_memory_equal(f.message, "what: ", 6);
	}
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_missing_is_refused_by_name), TEST(what_a_create_cannot_have_is_refused_by_name), TEST(each_has_an_error_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
