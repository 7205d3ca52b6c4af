// SPDX-License-Identifier: Apache-2.0
/* Fails the n-th allocation, for every n, of what stands between a peer's bytes and us: each failure must be an
 * error or a refused request, never a crash, a leak or a wrong result. The allocator is wrapped at link time. */
#include "net/http/test_server.h"

#include "base/arena.h"
#include "base/decode.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/toml.h"
#include "net/http/multipart.h"
#include "net/http/url.h"

#include "failing_alloc.h"

#include "base/banned.h"

/* Runs SCENARIO (true: it got its whole, right result) with the 1st, 2nd, ... allocation failing, until none does. */
static void fail_each(const char *name, bool (*scenario)(void *arg), void *arg, unsigned least)
{
	for (long n = 0;; n++) {
		bool ok;

		countdown = n;
		has_failed = false;
		ok = scenario(arg);
		countdown = -1;
		if (!has_failed) {
			assert_true(ok);
			assert_true(n >= least); /* the scenario allocates at all */
			return;
		}
		if (ok)
			fail_msg("%s: allocation %ld failed and nothing was said", name, n);
	}
}

/* ---- buf, json, toml ---- */

static bool fill_buf(void *arg)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);

	(void)arg;
	for (int i = 0; i < 1000; i++)
		buf_addf(&b, "%d ", i);
	assert_true(b.failed || b.n == 3890);
	return !b.failed;
}

struct bound {
	const char *name;
	struct string_list tags;
	struct string_map env;
	int64_t port;
};

static const struct field bound_fields[] = {
	FIELD(struct bound, name, FIELD_STRING, "name", .required = true),
	FIELD(struct bound, tags, FIELD_STRINGS, "tags"),
	FIELD(struct bound, env, FIELD_MAP, "env"),
	FIELD(struct bound, port, FIELD_INT, "port", .min = 1, .max = 65535),
	{ 0 },
};

static const char document[] =
	"{\"name\":\"caf\\u00e9 \\ud83d\\ude00\",\"tags\":[\"a\",\"b\\n\",\"c\"],\"env\":{\"K\":\"v\",\"L\":\"\\t\"},"
	"\"port\":80,\"x1\":1,\"x2\":2,\"x3\":3,\"x4\":4,\"x5\":[[[[1.5e3]]]],\"x6\":6,\"x7\":7,\"x8\":8,\"x9\":9,"
	"\"y1\":1,\"y2\":2,\"y3\":3,\"y4\":4,\"y5\":5,\"y6\":6,\"y7\":7,\"y8\":8,\"y9\":9,\"z1\":null,\"z2\":true}";

static bool bind_json(void *arg)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct json_limits limits = { .depth = JSON_DEPTH_MAX };
	struct decode d = { .arena = &a };
	struct json_out o = json_out(&b);
	struct bound out = { 0 };
	struct err e = { 0 };
	struct json *v = json_parse(&a, STR(document), &limits, NULL, &e);

	(void)arg;
	if (!v || decode(&d, v, bound_fields, &out, &e) < 0) {
		assert_int_equal(e.sys, ENOMEM);
		return false;
	}
	json_tree(&o, v);
	assert_true(b.failed || strlen(buf_z(&b)) == b.n);
	return !b.failed && out.port == 80 && out.tags.n == 3 && out.env.n == 2;
}

static bool refuse_json(void *arg)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct json_limits limits = { .depth = JSON_DEPTH_MAX };
	struct decode d = { .arena = &a };
	struct json_out o = json_out(&b);
	struct bound out = { 0 };
	struct err e = { 0 };
	struct json *v = json_parse(&a, STR("{\"tags\":[1,\"a\"],\"env\":{\"a\":[]},\"port\":0}"), &limits, NULL, &e);

	(void)arg;
	if (!v)
		return false;
	assert_int_equal(decode(&d, v, bound_fields, &out, &e), -1);
	decode_write_detail(&d, "body", &o);
	return e.sys != ENOMEM && !b.failed && d.n_problems == 4;
}

static bool read_toml(void *arg)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(buf_done) struct buf text = BUF_INIT(1 << 16);
	struct json_limits limits = { .depth = JSON_DEPTH_MAX };
	struct err e = { 0 };
	long saved = countdown;
	struct json *v;

	(void)arg;
	countdown = -1; /* making the text is not under test */
	buf_addf(&text, "title = \"a\\tb\"\nwhen = 2026-06-15T10:00:00Z\n[[list]]\nk.l.m = [1, {x = 2}]\n[[list]]\n[t]\n");
	for (int i = 0; i < 100; i++)
		buf_addf(&text, "key%d = '''%d'''\n", i, i);
	countdown = saved;
	v = toml_parse(&a, buf_str(&text), &limits, NULL, &e);
	if (!v)
		assert_int_equal(e.sys, ENOMEM);
	return v && json_get(v, "t")->kids.n == 100;
}

/* ---- net ---- */

static bool split_query(void *arg)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	struct err e = { 0 };
	struct query q;

	(void)arg;
	if (query_parse(STR("a=%41&b=x+y&c&a=2&d=%e2%82%ac&e=1&f=2&g=3&h=4&i=5&j=6"), &a, &q, &e) < 0) {
		assert_int_equal(e.sys, ENOMEM);
		return false;
	}
	return q.n == 11 && str_eq(query_get(&q, "b")->value, STR("x y"));
}

static int echo(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1 << 20);
	struct json_out o = json_out(&b);
	const struct json *v = request_json(rq, e);

	if (!v)
		return -1;
	json_tree(&o, v);
	return reply_json(rp, 200, &b);
}

static const struct route routes[] = {
	{ "POST", "/box/:id/echo", echo, 0, 100000 },
	{ 0 },
};

static bool post(struct rig *r, struct buf *answer)
{
	AUTO(buf_done) struct buf rq = BUF_INIT(1 << 16);
	long saved = countdown;
	int fd;

	countdown = -1; /* the client's side is not under test */
	buf_addf(&rq, "POST /box/a%%20b/echo HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s", strlen(document), document);
	assert_true(buf_reserve(answer, 65536) != NULL);
	countdown = saved;
	fd = rig_connect(r);
	rig_send(r, fd, buf_str(&rq));
	(void)rig_recv(r, fd, answer);
	(void)close(fd);
	rig_turn(r);
	return str_starts(buf_str(answer), STR("HTTP/1.1 200 "));
}

static bool serve(void *arg)
{
	struct rig *r = arg;
	AUTO(buf_done) struct buf answer = BUF_INIT(1 << 20), again = BUF_INIT(1 << 20);
	bool ok, ok_again;
	long left;

	ok = post(r, &answer);
	assert_true(ok || answer.n == 0 || str_starts(buf_str(&answer), STR("HTTP/1.1 5")));
	left = countdown;
	countdown = -1;
	ok_again = post(r, &again); /* one request failed; the next does not */
	assert_true(ok_again);
	assert_int_equal(http_server_counts(r->server).connections, 0);
	countdown = left;
	return ok;
}

/* Everything is made and torn down each time, so that what a first request allocates and keeps is covered too. */
static bool serve_fresh(void *arg)
{
	struct rig r = { 0 };
	long n = countdown;
	bool ok;

	(void)arg;
	countdown = -1;
	rig_start(&r, routes, NULL);
	countdown = n;
	ok = serve(&r);
	n = countdown;
	countdown = -1;
	rig_stop(&r);
	countdown = n;
	return ok;
}

static void a_buffer_fails_softly(void **state)
{
	(void)state;
	fail_each("buf", fill_buf, NULL, 5);
}

static void json_fails_softly(void **state)
{
	(void)state;
	fail_each("json", bind_json, NULL, 3);
	fail_each("json problems", refuse_json, NULL, 2);
}

static void toml_fails_softly(void **state)
{
	(void)state;
	fail_each("toml", read_toml, NULL, 3);
}

static void a_query_fails_softly(void **state)
{
	(void)state;
	fail_each("query", split_query, NULL, 1);
}

static void a_server_fails_one_request_and_serves_the_next(void **state)
{
	(void)state;
	fail_each("http", serve_fresh, NULL, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_buffer_fails_softly),
		cmocka_unit_test(json_fails_softly),
		cmocka_unit_test(toml_fails_softly),
		cmocka_unit_test(a_query_fails_softly),
		cmocka_unit_test(a_server_fails_one_request_and_serves_the_next),
	};

	failing_alloc_here();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
