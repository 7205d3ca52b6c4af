// SPDX-License-Identifier: Apache-2.0
/* Pools with a scripted runtime: what is made when, who gets what, and what a kill leaves. */
#include "server/model/test_pool.h"

#include "server/model/pool.h"

#include "base/banned.h"

static struct rig rig;

#define TEMPLATE "{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"run\",\"me\"],\"resourceLimits\":{\"cpu\":\"500m\"},\"env\":{\"A\":\"b\"}}"
#define SIZES(min, max, pool_min, pool_max) \
	"{\"bufferMin\":" #min ",\"bufferMax\":" #max ",\"poolMin\":" #pool_min ",\"poolMax\":" #pool_max "}"
#define POOL(name, sizes) "{\"name\":\"" name "\",\"template\":" TEMPLATE ",\"capacitySpec\":" sizes "}"
#define FROM(name) "\"extensions\":{\"poolRef\":\"" name "\"}"

static void setup(struct rig *r)
{
	health = WELL;
	rig_start(r);
}

static void make(struct rig *r, const char *body)
{
	has(ask(r, "POST /v1/pools", body), "HTTP/1.1 201 ");
}

static void status_is(struct rig *r, const char *name, unsigned total, unsigned allocated, unsigned available)
{
	char line[128], want[128];

	(void)snprintf(line, sizeof(line), "GET /pools/%s", name);
	(void)snprintf(want, sizeof(want), "\"total\":%u,\"allocated\":%u,\"available\":%u,", total, allocated, available);
	has(ask(r, line, NULL), want);
}

static void take(struct rig *r, const char *body, char id[UUID_LEN + 1])
{
	has(ask(r, "POST /v1/sandboxes", body), "HTTP/1.1 202 ");
	rig_id(r->answer, id);
}

static void is_one_of_the_fake(struct rig *r, const char *id)
{
	assert_non_null(fake_find(&r->fake, id));
}

/* ---- the resource ---- */

static void bodies_are_bound_and_refused(void **state)
{
	static const struct {
		const char *body;
		unsigned status;
		const char *part;
	} rows[] = {
		{ "", 422, "\"type\":\"missing\"" },
		{ "{}", 422, "\"loc\":[\"body\",\"name\"]" },
		{ POOL("", SIZES(0, 1, 0, 1)), 422, "string_too_short" },
		{ POOL("-a", SIZES(0, 1, 0, 1)), 422, "string_pattern_mismatch" },
		{ POOL("A", SIZES(0, 1, 0, 1)), 422, "string_pattern_mismatch" },
		{ POOL("a", "{\"bufferMin\":0}"), 422, "\"loc\":[\"body\",\"capacitySpec\",\"bufferMax\"]" },
		{ POOL("a", SIZES(-1, 1, 0, 1)), 422, "greater_than_equal" },
		{ POOL("a", SIZES(0, 65537, 0, 1)), 422, "less_than_equal" },
		{ POOL("a", SIZES(2, 1, 0, 1)), 400, "capacitySpec.bufferMin: must not be above bufferMax" },
		{ POOL("a", SIZES(0, 1, 2, 1)), 400, "capacitySpec.poolMin: must not be above poolMax" },
		{ "{\"name\":\"a\",\"template\":[],\"capacitySpec\":" SIZES(0, 0, 0, 0) "}", 422, "must be an object" },
		{ "{\"name\":\"a\",\"template\":{},\"capacitySpec\":" SIZES(0, 0, 0, 0) "}", 422, "exactly one of image" },
		{ "{\"name\":\"a\",\"template\":{\"image\":{\"uri\":\"no\"},\"entrypoint\":[\"x\"],\"resourceLimits\":{}},\"capacitySpec\":" SIZES(0, 0, 0, 0) "}",
		  400, "template.image.uri: must be 'host'" },
		{ "{\"name\":\"a\",\"template\":{" CREATE_BODY ",\"timeout\":600},\"capacitySpec\":" SIZES(0, 0, 0, 0) "}", 400, "template.timeout" },
		{ "{\"name\":\"a\",\"template\":{" CREATE_BODY ",\"metadata\":{\"a\":\"b\"}},\"capacitySpec\":" SIZES(0, 0, 0, 0) "}", 400, "template.metadata" },
		{ "{\"name\":\"a\",\"template\":{" CREATE_BODY ",\"extensions\":{\"poolRef\":\"a\"}},\"capacitySpec\":" SIZES(0, 0, 0, 0) "}", 400,
		  "template.extensions" },
		{ "{\"name\":\"a\",\"template\":{\"image\":{\"uri\":\"host\",\"auth\":{\"username\":\"u\",\"password\":\"p\"}},\"entrypoint\":[\"x\"],"
		  "\"resourceLimits\":{}},\"capacitySpec\":" SIZES(0, 0, 0, 0) "}", 400, "template.image.auth" },
		{ "{\"name\":\"a\",\"template\":{\"spec\":{}},\"capacitySpec\":" SIZES(0, 0, 0, 0) "}", 422, "containers" },
		{ "{\"name\":\"a\",\"template\":{\"spec\":{\"containers\":[]}},\"capacitySpec\":" SIZES(0, 0, 0, 0) "}", 422, "too_short" },
		{ "{\"name\":\"a\",\"template\":{\"spec\":{\"containers\":[{\"image\":\"host\",\"env\":[{\"name\":\"A\",\"valueFrom\":{}}]}]}},"
		  "\"capacitySpec\":" SIZES(0, 0, 0, 0) "}", 422, "valueFrom is not known" },
		{ "{\"name\":\"a\",\"template\":{\"spec\":{\"containers\":[{\"image\":\"host\",\"resources\":{\"limits\":{\"cpu\":true}}}]}},"
		  "\"capacitySpec\":" SIZES(0, 0, 0, 0) "}", 422, "quantities" },
		{ "{\"name\":\"a\",\"template\":{\"spec\":{\"containers\":[{\"image\":\"host\",\"resources\":{\"limits\":{\"wings\":2}}}]}},"
		  "\"capacitySpec\":" SIZES(0, 0, 0, 0) "}", 400, "template.resourceLimits.wings" },
		{ POOL("a", SIZES(0, 0, 0, 0)), 201, "\"name\":\"a\",\"capacitySpec\":{\"bufferMax\":0" },
		{ POOL("a", SIZES(0, 0, 0, 0)), 409, "NATIVE::POOL_ALREADY_EXISTS" },
		{ "{\"name\":\"b\",\"template\":" TEMPLATE ",\"capacity_spec\":{\"buffer_min\":\"0\",\"buffer_max\":0.0,\"pool_min\":0,\"pool_max\":0}}", 201, "" },
	};
	struct rig *r = &rig;

	(void)state;
	setup(r);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ask(r, "POST /v1/pools", rows[i].body);
		if (rig_status(r->answer) != rows[i].status)
			fail_msg("%s: %s", rows[i].body, r->answer);
		has(r->answer, rows[i].part);
	}
	has(ask(r, "GET /pools", NULL), "\"items\":[{\"name\":\"a\"");
	has(r->answer, "{\"name\":\"b\"");
	has(ask(r, "GET /pools/c", NULL), "NATIVE::POOL_NOT_FOUND");
	has(ask(r, "PUT /pools/c", "{\"capacitySpec\":" SIZES(0, 0, 0, 0) "}"), "HTTP/1.1 404 ");
	has(ask(r, "PUT /pools/a", "{\"capacitySpec\":" SIZES(2, 1, 0, 0) "}"), "HTTP/1.1 400 ");
	has(ask(r, "PUT /pools/a", "{}"), "HTTP/1.1 422 ");
	has(ask(r, "DELETE /pools/c", NULL), "HTTP/1.1 404 ");
	has(ask(r, "DELETE /pools/a", NULL), "HTTP/1.1 204 ");
	has(ask(r, "GET /pools/a", NULL), "HTTP/1.1 404 ");
	rig_stop(r);
}

static void of_a_pod_template_the_first_container_is_read(void **state)
{
	static const char body[] =
		"{\"name\":\"p\",\"template\":{\"metadata\":{\"labels\":{\"x\":\"y\"}},\"spec\":{\"initContainers\":[{}],\"containers\":["
		"{\"name\":\"c\",\"image\":\"host\",\"command\":[\"sh\",\"-c\"],\"args\":[\"sleep 9\"],\"env\":[{\"name\":\"A\",\"value\":\"1\"},"
		"{\"name\":\"B\"},{\"name\":\"A\",\"value\":\"2\"}],\"resources\":{\"requests\":{\"cpu\":\"9\"},\"limits\":{\"cpu\":2,\"memory\":\"64Mi\"}}},"
		"{\"image\":\"other\"}]}},\"capacitySpec\":" SIZES(1, 1, 0, 9) "}";
	struct rig *r = &rig;

	(void)state;
	setup(r);
	make(r, body);
	pass(r, 100);
	assert_string_equal(r->fake.entrypoint, "sh|-c|sleep 9|");
	assert_string_equal(r->fake.env, "A=2;B=;");
	assert_int_equal(r->fake.limits.cpu_milli, 2000);
	assert_int_equal(r->fake.limits.memory_bytes, 64 << 20);
	rig_stop(r);
}

static void there_is_a_ceiling_of_pools(void **state)
{
	struct rig *r = &rig;
	char body[512];

	(void)state;
	setup(r);
	for (unsigned i = 0; i <= POOLS_MAX; i++) {
		(void)snprintf(body, sizeof(body), "{\"name\":\"p%u\",\"template\":" TEMPLATE ",\"capacitySpec\":" SIZES(0, 0, 0, 0) "}", i);
		has(ask(r, "POST /pools", body), i < POOLS_MAX ? "HTTP/1.1 201 " : "NATIVE::POOL_LIMIT_REACHED");
	}
	rig_stop(r);
}

/* ---- refilling ---- */

static void a_pool_is_filled_to_the_middle_and_shrinks_when_told(void **state)
{
	struct rig *r = &rig;

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(2, 4, 0, 9)));
	pass(r, 500);
	status_is(r, "p", 3, 0, 3);
	assert_int_equal(r->fake.count[FAKE_CREATE], 3);
	assert_string_equal(r->fake.entrypoint, "run|me|");
	assert_string_equal(r->fake.env, "A=b;");
	has(ask(r, "GET /sandboxes", NULL), "\"items\":[]"); /* nobody's */
	has(r->answer, "\"totalItems\":0");
	has(rig_on(r, "GET", r->fake.boxes[0].id, "", NULL), "HTTP/1.1 404 ");
	has(rig_on(r, "DELETE", r->fake.boxes[0].id, "", NULL), "HTTP/1.1 404 ");
	has(rig_on(r, "GET", r->fake.boxes[0].id, "/proxy/8080/", NULL), "HTTP/1.1 404 ");
	has(ask(r, "PUT /pools/p", "{\"capacitySpec\":" SIZES(0, 1, 0, 9) "}"), "HTTP/1.1 200 ");
	pass(r, 200);
	status_is(r, "p", 1, 0, 1);
	has(ask(r, "PUT /pools/p", "{\"capacitySpec\":" SIZES(0, 1, 5, 9) "}"), "\"poolMin\":5");
	pass(r, 500);
	status_is(r, "p", 5, 0, 5); /* the floor of the whole comes before the ceiling of the idle */
	has(ask(r, "PUT /pools/p", "{\"capacitySpec\":" SIZES(5, 9, 0, 2) "}"), "HTTP/1.1 200 ");
	pass(r, 500);
	status_is(r, "p", 2, 0, 2);
	rig_stop(r);
}

static void a_refill_gives_way_to_creates_but_not_for_ever(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];
	int fd;

	(void)state;
	setup(r);
	r->fake.holds = true;
	fd = rig_send(&r->api, "POST /v1/sandboxes", AUTH, "{" CREATE_BODY "}");
	turn(r, 30);
	assert_int_equal(r->fake.count[FAKE_CREATE], 1);
	make(r, POOL("p", SIZES(2, 2, 0, 9)));
	pass(r, 100);
	assert_int_equal(r->fake.count[FAKE_CREATE], 1);
	pass(r, 300);
	assert_int_equal(r->fake.count[FAKE_CREATE], 2); /* one, and the pool's next waits for it */
	r->fake.holds = false;
	fake_release(&r->fake);
	has(receive(r, fd), "HTTP/1.1 202 ");
	rig_id(r->answer, id);
	pass(r, 300);
	status_is(r, "p", 2, 0, 2);
	rig_stop(r);
}

static void a_refill_that_fails_is_tried_again_later(void **state)
{
	struct rig *r = &rig;

	(void)state;
	setup(r);
	r->fake.fails[FAKE_CREATE] = 2;
	make(r, POOL("p", SIZES(1, 1, 0, 9)));
	pass(r, 500);
	assert_int_equal(r->fake.count[FAKE_CREATE], 1);
	status_is(r, "p", 0, 0, 0);
	pass(r, 1000);
	assert_int_equal(r->fake.count[FAKE_CREATE], 2);
	pass(r, 1000);
	assert_int_equal(r->fake.count[FAKE_CREATE], 2);
	pass(r, 1500);
	status_is(r, "p", 1, 0, 1);
	rig_stop(r);
}

/* ---- taking ---- */

static void whoever_takes_one_owns_it(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(1, 1, 0, 2)));
	pass(r, 200);
	pass(r, 60000); /* no expiry while idle */
	status_is(r, "p", 1, 0, 1);
	take(r, "{" FROM("p") ",\"wings\":2,\"timeout\":600,\"metadata\":{\"k\":\"v\"},\"platform\":{\"os\":\"linux\",\"arch\":\"amd64\"}}", id);
	is_one_of_the_fake(r, id);
	has(r->answer, "\"state\":\"Running\"");
	has(r->answer, "\"entrypoint\":[\"run\",\"me\"]");
	has(r->answer, "\"metadata\":{\"k\":\"v\"}");
	has(r->answer, "\"platform\":{\"os\":\"linux\"");
	assert_int_equal(r->fake.count[FAKE_CREATE], 1);
	has(rig_on(r, "GET", id, "", NULL), "\"expiresAt\"");
	has(ask(r, "GET /sandboxes?metadata=k%3Dv", NULL), id);
	has(rig_on(r, "GET", id, "/diagnostics/events", NULL), "HandedOut");
	has(r->answer, "The request's '$.wings' is not known here");
	pass(r, 200);
	status_is(r, "p", 2, 1, 1);
	has(ask(r, "GET /sandboxes?pageSize=1", NULL), "\"totalItems\":1,\"totalPages\":1,"); /* the other one is nobody's */
	pass(r, 600000 - 1000); /* its life began when it was taken */
	has(rig_on(r, "GET", id, "", NULL), "HTTP/1.1 200 ");
	pass(r, 2000);
	has(rig_on(r, "GET", id, "", NULL), "HTTP/1.1 404 ");
	has(ask(r, "GET /sandboxes", NULL), "\"totalItems\":0");
	status_is(r, "p", 1, 0, 1);
	rig_stop(r);
}

static void what_a_warm_sandbox_cannot_have_is_refused_by_name(void **state)
{
	static const struct {
		const char *more;
		unsigned status;
		const char *part;
	} rows[] = {
		{ ",\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"run me\"],\"resourceLimits\":{\"cpu\":\"0.5\"},\"env\":{\"A\":\"b\"}", 202, "" },
		{ ",\"resourceLimits\":{}", 202, "" },
		{ ",\"image\":{\"uri\":\"other\"}", 400, "image.uri" },
		{ ",\"entrypoint\":[\"run\"]", 400, "entrypoint: the sandboxes of pool 'p' run another one" },
		{ ",\"env\":{\"A\":\"c\"}", 400, "env.A" },
		{ ",\"env\":{\"B\":\"\"}", 400, "env.B" },
		{ ",\"resourceLimits\":{\"cpu\":\"1\"}", 400, "resourceLimits.cpu" },
		{ ",\"resourceLimits\":{\"memory\":\"1Gi\"}", 400, "resourceLimits.memory" },
		{ ",\"resourceLimits\":{\"pids\":\"7\"}", 400, "resourceLimits.pids" },
		{ ",\"resourceLimits\":{\"storage\":\"1Gi\"}", 400, "resourceLimits.storage" },
		{ ",\"networkPolicy\":{}", 400, "networkPolicy" },
		{ ",\"volumes\":[{\"name\":\"v\",\"mountPath\":\"/m\",\"host\":{\"path\":\"/x\"}}]", 400, "volumes" },
		{ ",\"platform\":{\"os\":\"linux\",\"arch\":\"arm64\"}", 400, "platform" },
		{ ",\"timeout\":86401", 400, "timeout" },
		{ ",\"metadata\":{\"a b\":\"\"}", 400, "INVALID_METADATA_LABEL" },
		{ ",\"snapshotId\":\"s\"", 422, "snapshotId cannot" },
	};
	struct rig *r = &rig;
	char body[512];

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(1, 1, 0, 9)));
	pass(r, 100);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		(void)snprintf(body, sizeof(body), "{" FROM("p") "%s}", rows[i].more);
		ask(r, "POST /v1/sandboxes", body);
		if (rig_status(r->answer) != rows[i].status)
			fail_msg("%s: %s", body, r->answer);
		has(r->answer, rows[i].part);
		pass(r, 100);
	}
	status_is(r, "p", 3, 2, 1);
	has(ask(r, "POST /sandboxes", "{" FROM("q") "}"), "NATIVE::POOL_NOT_FOUND");
	rig_stop(r);
}

static void an_empty_pool_makes_new_ones_up_to_its_ceiling(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(0, 0, 0, 2)));
	take(r, "{" FROM("p") "}", id);
	assert_string_equal(r->fake.entrypoint, "run|me|");
	take(r, "{" FROM("p") "}", id);
	has(ask(r, "POST /sandboxes", "{" FROM("p") "}"), "HTTP/1.1 429 ");
	has(r->answer, "NATIVE::POOL_EXHAUSTED");
	has(r->answer, "Retry-After: 1");
	status_is(r, "p", 2, 2, 0);
	has(rig_on(r, "DELETE", id, "", NULL), "HTTP/1.1 204 ");
	status_is(r, "p", 1, 1, 0); /* it was deleted, not returned */
	take(r, "{" FROM("p") "}", id);
	r->fake.fails[FAKE_CREATE] = 1;
	has(ask(r, "PUT /pools/p", "{\"capacitySpec\":" SIZES(0, 0, 0, 3) "}"), "HTTP/1.1 200 ");
	has(ask(r, "POST /sandboxes", "{" FROM("p") "}"), "HTTP/1.1 500 ");
	status_is(r, "p", 2, 2, 0);
	rig_stop(r);
}

static void nobody_gets_one_that_somebody_else_got(void **state)
{
	struct rig *r = &rig;
	char ids[8][UUID_LEN + 1];
	int fds[8];

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(4, 4, 0, 9)));
	pass(r, 500);
	status_is(r, "p", 4, 0, 4);
	for (unsigned i = 0; i < 8; i++)
		fds[i] = rig_send(&r->api, "POST /v1/sandboxes", AUTH, "{" FROM("p") "}");
	for (unsigned i = 0; i < 8; i++) {
		has(receive(r, fds[i]), "HTTP/1.1 202 ");
		rig_id(r->answer, ids[i]);
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(ids[i], ids[j]);
	}
	status_is(r, "p", 8, 8, 0);
	rig_stop(r);
}

static void one_that_ended_or_does_not_answer_is_replaced(void **state)
{
	struct rig *r = &rig;
	char first[UUID_LEN + 1], id[UUID_LEN + 1];

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(1, 1, 0, 9)));
	pass(r, 100);
	(void)snprintf(first, sizeof(first), "%s", r->fake.boxes[0].id);
	pass(r, 15000);
	fake_end(&r->fake, first, &(struct runtime_end){ .reason = RUNTIME_END_INIT });
	pass(r, 300);
	status_is(r, "p", 1, 0, 1);
	assert_null(fake_find(&r->fake, first));
	(void)snprintf(first, sizeof(first), "%s", r->fake.boxes[0].id);
	health = ILL;
	pass(r, 15000); /* nobody asks for it, and yet */
	assert_null(fake_find(&r->fake, first));
	health = WELL;
	pass(r, 15000);
	status_is(r, "p", 1, 0, 1);
	(void)snprintf(first, sizeof(first), "%s", r->fake.boxes[0].id);
	health = ILL;
	take(r, "{" FROM("p") "}", id); /* a new one: the runtime proves that those are well */
	assert_string_not_equal(id, first);
	pass(r, 100);
	assert_null(fake_find(&r->fake, first));
	rig_stop(r);
}

static void a_template_whose_sandboxes_do_not_live_is_not_tried_all_the_time(void **state)
{
	struct rig *r = &rig;

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(1, 1, 0, 9)));
	for (unsigned ms = 0; ms < 20000; ms += 500) {
		r->now_ms += 500;
		turn(r, 20);
		if (r->fake.n_boxes > 0)
			fake_end(&r->fake, r->fake.boxes[0].id, &(struct runtime_end){ .reason = RUNTIME_END_EXITED });
	}
	assert_in_range(r->fake.count[FAKE_CREATE], 4, 6); /* after 1, 2, 4 and 8 seconds */
	rig_stop(r);
}

static void one_that_is_silent_is_passed_over(void **state)
{
	struct rig *r = &rig;
	char first[UUID_LEN + 1], id[UUID_LEN + 1];
	int fd;

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(1, 1, 0, 9)));
	pass(r, 100);
	(void)snprintf(first, sizeof(first), "%s", r->fake.boxes[0].id);
	health = SILENT;
	fd = rig_send(&r->api, "POST /v1/sandboxes", AUTH, "{" FROM("p") "}");
	turn(r, 10);
	status_is(r, "p", 1, 0, 0); /* reserved */
	pass(r, 3100);
	has(receive(r, fd), "HTTP/1.1 202 ");
	rig_id(r->answer, id);
	assert_string_not_equal(id, first);
	assert_null(fake_find(&r->fake, first));
	rig_stop(r);
}

static void one_that_ends_while_it_is_handed_out_is_not(void **state)
{
	struct rig *r = &rig;
	char first[UUID_LEN + 1], id[UUID_LEN + 1];
	int fd;

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(1, 1, 0, 9)));
	pass(r, 100);
	(void)snprintf(first, sizeof(first), "%s", r->fake.boxes[0].id);
	health = SILENT;
	fd = rig_send(&r->api, "POST /v1/sandboxes", AUTH, "{" FROM("p") "}");
	turn(r, 10);
	fake_end(&r->fake, first, &(struct runtime_end){ .reason = RUNTIME_END_INIT });
	health = WELL; /* its last words */
	has(receive(r, fd), "HTTP/1.1 202 ");
	rig_id(r->answer, id);
	assert_string_not_equal(id, first);
	pass(r, 200);
	assert_null(fake_find(&r->fake, first));
	rig_stop(r);
}

static void a_runtime_that_is_away_says_nothing_about_those_that_wait(void **state)
{
	struct rig *r = &rig;
	char first[UUID_LEN + 1], id[UUID_LEN + 1];

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(1, 1, 0, 1)));
	pass(r, 100);
	(void)snprintf(first, sizeof(first), "%s", r->fake.boxes[0].id);
	for (unsigned i = 0; i < r->fake.n_far; i++)
		(void)shutdown(r->fake.far[i], SHUT_RDWR); /* what was kept is of no use */
	turn(r, 5);
	r->fake.failure = (struct runtime_failure){ .code = "SANDBOX_QUERY_FAILED", .status = 503,
						    .err = { .code = ERR_UNAVAILABLE, .msg = "away" } };
	r->fake.fails[FAKE_DIAL] = 1000;
	has(ask(r, "POST /v1/sandboxes", "{" FROM("p") "}"), "HTTP/1.1 503 ");
	pass(r, 30000);
	status_is(r, "p", 1, 0, 1);
	r->fake.fails[FAKE_DIAL] = 0;
	take(r, "{" FROM("p") "}", id);
	assert_string_equal(id, first);
	rig_stop(r);
}

static void a_key_gets_the_same_one_again(void **state)
{
	static const char key[] = AUTH "Idempotency-Key: k1\r\n", body[] = "{" FROM("p") ",\"timeout\":600}";
	struct rig *r = &rig;
	char first[UUID_LEN + 1], id[UUID_LEN + 1];
	int fds[2];

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(2, 2, 0, 9)));
	pass(r, 300);
	fds[0] = rig_send(&r->api, "POST /v1/sandboxes", key, body);
	fds[1] = rig_send(&r->api, "POST /v1/sandboxes", key, body);
	has(receive(r, fds[0]), "HTTP/1.1 202 ");
	rig_id(r->answer, first);
	has(receive(r, fds[1]), "HTTP/1.1 202 ");
	rig_id(r->answer, id);
	assert_string_equal(first, id);
	has(receive(r, rig_send(&r->api, "POST /v1/sandboxes", key, "{" FROM("p") "}")), "IDEMPOTENCY_KEY_REUSED");
	rig_restart(r);
	has(receive(r, rig_send(&r->api, "POST /v1/sandboxes", key, body)), "HTTP/1.1 202 ");
	rig_id(r->answer, id);
	assert_string_equal(first, id);
	pass(r, 300);
	status_is(r, "p", 3, 1, 2);
	rig_stop(r);
}

/* ---- deleting ---- */

static void a_deleted_pool_takes_those_that_wait_with_it(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(3, 3, 0, 9)));
	pass(r, 300);
	take(r, "{" FROM("p") "}", id);
	pass(r, 300);
	r->fake.holds = true; /* one is being made */
	has(ask(r, "PUT /pools/p", "{\"capacitySpec\":" SIZES(5, 5, 0, 9) "}"), "HTTP/1.1 200 ");
	pass(r, 300);
	has(ask(r, "DELETE /pools/p", NULL), "HTTP/1.1 204 ");
	has(ask(r, "POST /v1/sandboxes", "{" FROM("p") "}"), "HTTP/1.1 404 ");
	has(ask(r, "POST /v1/pools", POOL("p", SIZES(0, 0, 0, 9))), "HTTP/1.1 201 "); /* the name is free */
	r->fake.holds = false;
	fake_release(&r->fake);
	pass(r, 300);
	assert_int_equal(r->fake.n_boxes, 1);
	assert_string_equal(r->fake.boxes[0].id, id);
	has(rig_on(r, "GET", id, "", NULL), "HTTP/1.1 200 ");
	status_is(r, "p", 0, 0, 0); /* it is another pool */
	rig_restart(r);
	has(rig_on(r, "GET", id, "", NULL), "HTTP/1.1 200 ");
	status_is(r, "p", 0, 0, 0);
	rig_stop(r);
}

/* ---- after a kill ---- */

static void a_restart_keeps_what_was_acknowledged(void **state)
{
	struct rig *r = &rig;
	char mine[UUID_LEN + 1], id[UUID_LEN + 1];

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(2, 2, 0, 4)));
	pass(r, 300);
	take(r, "{\"extensions\":{\"poolRef\":\"p\",\"access.renew.extend.seconds\":\"300\"},\"timeout\":600,\"metadata\":{\"k\":\"v\"}}", mine);
	pass(r, 300);
	rig_restart(r);
	has(ask(r, "GET /sandboxes", NULL), "\"totalItems\":1");
	status_is(r, "p", 3, 1, 2);
	assert_int_equal(r->fake.n_boxes, 3);
	has(rig_on(r, "GET", mine, "", NULL), "\"metadata\":{\"k\":\"v\"}");
	has(r->answer, "expiresAt");
	take(r, "{" FROM("p") "}", id);
	assert_string_not_equal(id, mine);
	has(ask(r, "GET /sandboxes", NULL), "\"totalItems\":2");
	rig_stop(r);
}

static void a_restart_removes_what_was_half_made_or_lost(void **state)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1];

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(2, 2, 0, 4)));
	pass(r, 300);
	r->fake.holds = true;
	has(ask(r, "PUT /pools/p", "{\"capacitySpec\":" SIZES(3, 3, 0, 4) "}"), "HTTP/1.1 200 ");
	pass(r, 100);
	assert_int_equal(r->fake.count[FAKE_CREATE], 3);
	(void)snprintf(id, sizeof(id), "%s", r->fake.calls[r->fake.n_calls - 1].id);
	fake_add(&r->fake, id, RUNTIME_STARTING);
	assert_int_equal(r->fake.n_boxes, 3);
	fake_drop(&r->fake, r->fake.boxes[0].id);
	r->fake.holds = false;
	rig_restart(r);
	pass(r, 1000);
	status_is(r, "p", 3, 0, 3);
	assert_int_equal(r->fake.n_boxes, 3);
	assert_int_equal(r->fake.count[FAKE_CREATE], 5);
	assert_null(fake_find(&r->fake, id));
	r->boot_id = "boot-2"; /* and when the host was restarted */
	r->fake.n_boxes = 0;
	rig_restart(r);
	pass(r, 1000);
	status_is(r, "p", 3, 0, 3);
	assert_int_equal(r->fake.count[FAKE_CREATE], 8);
	has(ask(r, "GET /sandboxes", NULL), "\"totalItems\":0");
	rig_stop(r);
}

static void a_stop_in_the_middle_leaves_nobody_waiting(void **state)
{
	struct rig *r = &rig;
	int fds[4];

	(void)state;
	setup(r);
	make(r, POOL("p", SIZES(1, 1, 0, 4)));
	pass(r, 100);
	health = SILENT;
	r->fake.holds = true;
	for (unsigned i = 0; i < 3; i++) /* one is asked, two are being made */
		fds[i] = rig_send(&r->api, "POST /v1/sandboxes", AUTH, "{" FROM("p") "}");
	turn(r, 20);
	fds[3] = rig_send(&r->api, "DELETE /v1/pools/p", AUTH, NULL);
	turn(r, 1);
	rig_close(r); /* the leak check sees whoever was forgotten */
	for (unsigned i = 0; i < 4; i++)
		(void)close(fds[i]);
	r->fake.holds = false;
	rig_open(r);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_are_bound_and_refused),
		cmocka_unit_test(of_a_pod_template_the_first_container_is_read),
		cmocka_unit_test(there_is_a_ceiling_of_pools),
		cmocka_unit_test(a_pool_is_filled_to_the_middle_and_shrinks_when_told),
		cmocka_unit_test(a_refill_gives_way_to_creates_but_not_for_ever),
		cmocka_unit_test(a_refill_that_fails_is_tried_again_later),
		cmocka_unit_test(whoever_takes_one_owns_it),
		cmocka_unit_test(what_a_warm_sandbox_cannot_have_is_refused_by_name),
		cmocka_unit_test(an_empty_pool_makes_new_ones_up_to_its_ceiling),
		cmocka_unit_test(nobody_gets_one_that_somebody_else_got),
		cmocka_unit_test(one_that_ended_or_does_not_answer_is_replaced),
		cmocka_unit_test(a_template_whose_sandboxes_do_not_live_is_not_tried_all_the_time),
		cmocka_unit_test(one_that_is_silent_is_passed_over),
		cmocka_unit_test(one_that_ends_while_it_is_handed_out_is_not),
		cmocka_unit_test(a_runtime_that_is_away_says_nothing_about_those_that_wait),
		cmocka_unit_test(a_key_gets_the_same_one_again),
		cmocka_unit_test(a_deleted_pool_takes_those_that_wait_with_it),
		cmocka_unit_test(a_restart_keeps_what_was_acknowledged),
		cmocka_unit_test(a_restart_removes_what_was_half_made_or_lost),
		cmocka_unit_test(a_stop_in_the_middle_leaves_nobody_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
