// SPDX-License-Identifier: Apache-2.0
/* Fails the n-th allocation, for every n, of each change of a sandbox: the request is refused or done, never half; and
 * afterwards, with memory again, records and runtime agree and the next request works. The allocator is wrapped at link
 * time, for the loop's thread: the writer of the database has its own tests. */
#include "server/model/test_pool.h"

#include "failing_alloc.h"

#include "base/banned.h"

static struct rig rig;

/* ---- one request with failing memory ---- */

/* Its status; 0: the connection was closed without an answer, which is an answer too. */
static unsigned ask_failing(struct rig *r, const char *line, const char *body, long n)
{
	int fd = rig_send(&r->api, line, AUTH, body);
	unsigned status;

	has_failed = false;
	countdown = n;
	status = rig_status(rig_receive(r, fd));
	countdown = -1;
	return status;
}

static bool is_agreed(struct rig *r)
{
	unsigned n = 0;

	for (const struct sandbox *sb = sandboxes_newest(r->plane->sandboxes); sb; sb = sb->older) {
		if (!fake_find(&r->fake, sb->row.id))
			return false;
		n++;
	}
	return n == r->fake.n_boxes;
}

/* Time passes until what is tried again has worked, and nothing waits. */
static void settle(struct rig *r)
{
	for (int i = 0; i < 100 && !is_agreed(r); i++)
		rig_pass(r, 1000);
	assert_true(is_agreed(r));
}

static void remove_snapshot(struct rig *r, const char *id)
{
	char line[128];

	(void)snprintf(line, sizeof(line), "DELETE /v1/snapshots/%s", id);
	for (int i = 0; i < 10 && rig_status(rig_ask(r, line, NULL)) == 409; i++) /* it is being taken */
		rig_pass(r, 1000);
	assert_true(rig_status(r->answer) == 204 || rig_status(r->answer) == 404);
}

static void remove_all(struct rig *r)
{
	const struct sandbox *sb;
	char id[UUID_LEN + 1];

	while (snapshots_newest(r->plane->snapshots))
		remove_snapshot(r, snapshots_newest(r->plane->snapshots)->row.id);
	while ((sb = sandboxes_newest(r->plane->sandboxes))) {
		(void)snprintf(id, sizeof(id), "%s", sb->row.id);
		assert_int_equal(rig_status(rig_on(r, "DELETE", id, "", NULL)), 204);
	}
	assert_int_equal(r->fake.n_boxes, 0);
	for (int i = 0; i < 10 && r->fake.n_layers > 0; i++)
		rig_pass(r, 1000);
	assert_int_equal(r->fake.n_layers, 0);
}

static bool is_refusal(unsigned status)
{
	return status == 0 || status == 500 || status == 503;
}

struct asked {
	const char *method, *rest, *body;
	unsigned want;
};

/* On a sandbox of its own each time; PATH has its id in it unless the method is POST to all of them. */
static void fail_each(const struct asked *q)
{
	struct rig *r = &rig;
	char id[UUID_LEN + 1], line[256];
	long n = 0;
	unsigned status;

	rig_start(r);
	do {
		rig_create(r, ",\"metadata\":{\"a\":\"1\"},\"timeout\":3600", id);
		if (strcmp(q->rest, "/resume") == 0)
			assert_int_equal(rig_status(rig_on(r, "POST", id, "/pause", NULL)), 202);
		(void)snprintf(line, sizeof(line), "%s /v1/sandboxes%s%s%s", q->method, q->rest[0] == '?' ? "" : "/",
			       q->rest[0] == '?' ? "" : id, q->rest);
		if (strcmp(q->rest, "*") == 0)
			(void)snprintf(line, sizeof(line), "%s /v1/sandboxes", q->method);
		status = ask_failing(r, line, q->body, n++);
		if (status != q->want && !(has_failed && is_refusal(status)))
			fail_msg("%s: allocation %ld: %s", line, n - 1, r->answer);
		settle(r);
		rig_pass(r, 2000); /* what was only put off */
		remove_all(r);
	} while (has_failed);
	assert_int_equal(status, q->want);
	assert_true(n > 10);
	rig_restart(r);
	assert_int_equal(rig_count(r), 0);
	rig_stop(r);
}

#define BODY "{" CREATE_BODY ",\"env\":{\"K\":\"v\"},\"metadata\":{\"a\":\"1\",\"b\":\"2\"},\"timeout\":60}"

static void creates(void **state)
{
	(void)state;
	fail_each(&(struct asked){ "POST", "*", BODY, 202 });
}

static void reads(void **state)
{
	(void)state;
	fail_each(&(struct asked){ "GET", "", NULL, 200 });
	fail_each(&(struct asked){ "GET", "?metadata=a%3D1&pageSize=5", NULL, 200 });
}

static void pauses(void **state)
{
	(void)state;
	fail_each(&(struct asked){ "POST", "/pause", NULL, 202 });
	fail_each(&(struct asked){ "POST", "/resume", NULL, 202 });
}

static void renewals(void **state)
{
	(void)state;
	fail_each(&(struct asked){ "POST", "/renew-expiration", "{\"expiresAt\":\"2099-01-01T00:00:00Z\"}", 200 });
}

static void patches(void **state)
{
	(void)state;
	fail_each(&(struct asked){ "PATCH", "/metadata", "{\"a\":\"2\",\"c\":\"3\"}", 200 });
}

static void deletes(void **state)
{
	(void)state;
	fail_each(&(struct asked){ "DELETE", "", NULL, 204 });
}

static void snapshots(void **state)
{
	(void)state;
	fail_each(&(struct asked){ "POST", "/snapshots", "{\"name\":\"n\"}", 202 });
}

static void forks(void **state)
{
	(void)state;
	fail_each(&(struct asked){ "POST", "/fork", "{\"count\":2,\"env\":{\"A\":\"b\"},\"metadata\":{\"c\":\"d\"}}", 202 });
}

/* ---- pools ---- */

#define POOL_TEMPLATE "\"template\":{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"x\"],\"resourceLimits\":{},\"env\":{\"K\":\"v\"}}"
#define POOL_SIZES(idle) "\"capacitySpec\":{\"bufferMin\":" #idle ",\"bufferMax\":" #idle ",\"poolMin\":0,\"poolMax\":9}"
#define POOL_BODY "{\"name\":\"p\"," POOL_TEMPLATE "," POOL_SIZES(1) "}"

static bool is_filled(struct rig *r)
{
	has(ask(r, "GET /v1/pools/p", NULL), "\"status\":");
	return strstr(r->answer, "\"available\":1,") != NULL;
}

static void pool_fill(struct rig *r)
{
	if (rig_status(ask(r, "GET /v1/pools/p", NULL)) == 404)
		has(ask(r, "POST /v1/pools", POOL_BODY), "HTTP/1.1 201 ");
	for (int i = 0; i < 100 && !is_filled(r); i++)
		pass(r, 1000);
	assert_true(is_filled(r));
}

/* The pool and everything that came of it: nothing may be left in records and runtime. */
static void pool_clear(struct rig *r)
{
	unsigned status = rig_status(ask(r, "DELETE /v1/pools/p", NULL));
	const struct sandbox *sb;
	char line[128];

	assert_true(status == 204 || status == 404);
	for (int i = 0; (sb = sandboxes_newest(r->plane->sandboxes)); i++) {
		if (i == 100)
			fail_msg("%s is %s and stays", sb->row.id, sandbox_state_name(sb->row.state));
		(void)snprintf(line, sizeof(line), "DELETE /v1/sandboxes/%s", sb->row.id);
		status = rig_status(ask(r, line, NULL)); /* 404: nobody's, and on its way out */
		assert_true(status == 204 || status == 404);
		pass(r, 1000);
	}
	assert_int_equal(r->fake.n_boxes, 0);
	for (unsigned i = 0; i < r->fake.n_far; i++)
		closep(&r->fake.far[i]);
	r->fake.n_far = 0;
}

static void fail_each_of_pool(const char *line, const char *body, bool has_pool, unsigned want)
{
	struct rig *r = &rig;
	long n = 0;
	unsigned status;

	rig_start(r);
	do {
		int fd;

		if (has_pool)
			pool_fill(r);
		has_failed = false;
		fd = rig_send(&r->api, line, AUTH, body);
		countdown = n++;
		status = rig_status(receive(r, fd));
		countdown = -1;
		if (status != want && !(has_failed && is_refusal(status)))
			fail_msg("%s: allocation %ld: %s", line, n - 1, r->answer);
		pool_clear(r);
	} while (has_failed);
	assert_int_equal(status, want);
	assert_true(n > 5);
	rig_restart(r);
	for (int i = 0; i < 100 && rig_count(r) > 0; i++) /* what there was no memory to forget */
		pass(r, 1000);
	assert_int_equal(rig_count(r), 0);
	rig_stop(r);
}

static void pools_change(void **state)
{
	(void)state;
	fail_each_of_pool("POST /v1/pools", POOL_BODY, false, 201);
	fail_each_of_pool("PUT /v1/pools/p", "{" POOL_SIZES(2) "}", true, 200);
	fail_each_of_pool("DELETE /v1/pools/p", NULL, true, 204);
}

static void takes(void **state)
{
	(void)state;
	fail_each_of_pool("POST /v1/sandboxes", "{\"extensions\":{\"poolRef\":\"p\"},\"metadata\":{\"a\":\"1\"},\"timeout\":60,\"x\":1}", true, 202);
}

/* Each allocation of a start that has something to load: it starts, or refuses to and can be started again. */
static void starts(void **state)
{
	struct rig *r = &rig;
	enum store_fault fault;
	char id[UUID_LEN + 1];
	long n = 0;

	(void)state;
	rig_start(r);
	rig_create(r, ",\"metadata\":{\"a\":\"1\"},\"timeout\":3600", id);
	assert_int_equal(rig_status(rig_on(r, "POST", id, "/snapshots", NULL)), 202);
	RIG_WAIT(r, r->fake.n_layers == 1);
	rig_turn(r, 10);
	rig_close(r);
	do {
		struct plane *p;

		has_failed = false;
		countdown = n++;
		p = plane_open(&r->spec, &fault, &r->e);
		if (p && plane_recover(p, &r->e) < 0)
			plane_close(take_ptr(&p));
		countdown = -1;
		assert_true(p || has_failed);
		assert_true(p || fault != STORE_DAMAGED);
		if (p)
			assert_non_null(sandboxes_find(p->sandboxes, str_of(id)));
		assert_true(!p || snapshots_newest(p->snapshots));
		plane_close(p);
		assert_non_null(fake_find(&r->fake, id));
	} while (has_failed);
	assert_true(n > 10);
	rig_open(r);
	has(rig_on(r, "GET", id, "", NULL), "\"state\":\"Running\"");
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(creates),  cmocka_unit_test(reads),   cmocka_unit_test(pauses), cmocka_unit_test(renewals),
		cmocka_unit_test(patches),  cmocka_unit_test(deletes), cmocka_unit_test(starts),
		cmocka_unit_test(snapshots), cmocka_unit_test(forks),
		cmocka_unit_test(pools_change), cmocka_unit_test(takes),
	};

	failing_alloc_here();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
