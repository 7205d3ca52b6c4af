// SPDX-License-Identifier: Apache-2.0
#include "net/redis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/err.h"
#include "net/loop.h"

#include "base/banned.h"

static void dsns_are_read(void **state)
{
	static const struct {
		const char *in, *want; /* host|port|user|password|db|tls; NULL: refused */
	} rows[] = {
		{ "redis://127.0.0.1:6379/0", "127.0.0.1|6379|||0|0|" },
		{ "redis://", "127.0.0.1|6379|||0|0|" },
		{ "redis://redis.example/3", "redis.example|6379|||3|0|" },
		{ "rediss://u:p%40:x@h:1/15", "h|1|u|p@:x|15|1|" },
		{ "redis://:pw@h", "h|6379||pw|0|0|" },
		{ "redis://[::1]:7000", "::1|7000|||0|0|" },
		{ "unix:///run/redis.sock", "|0|||0|0|" },
		{ "unix://u:p@/run/redis.sock?db=2", "|0|u|p|2|0|" },
		{ " redis://h \n", "h|6379|||0|0|" },
		{ "", NULL }, { "http://h", NULL }, { "redis://h:0", NULL }, { "redis://h:65536", NULL }, { "redis://h/x", NULL },
		{ "redis://[::1", NULL }, { "redis://[::1]x", NULL }, { "redis://%zz@h", NULL }, { "redis://a%0", NULL },
		{ "unix://run/x", NULL }, { "unix:///x?y=1", NULL }, { "redis://h?x=1", NULL }, { "redis://a%00b", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct redis_dsn d;
		struct err e = { 0 };
		char got[256];
		int rc = redis_dsn_parse(str_of(rows[i].in), &d, &e);

		if (rc != (rows[i].want ? 0 : -1))
			fail_msg("'%s': %d %s", rows[i].in, rc, e.msg);
		if (rc < 0)
			continue;
		(void)snprintf(got, sizeof(got), "%s|%u|%s|%s|%u|%d|", d.host, d.port, d.user, d.password, d.db, d.is_tls);
		assert_string_equal(got, rows[i].want);
	}
}

static void replies_are_read_as_far_as_they_are_there(void **state)
{
	static const struct {
		const char *in;
		enum redis_kind kind;
		const char *text; /* or of an array, its items with a '|' behind each */
	} rows[] = {
		{ "+OK\r\n", REDIS_STATUS, "OK" },
		{ "-ERR no\r\n", REDIS_ERROR, "ERR no" },
		{ ":-12\r\n", REDIS_INTEGER, "-12" },
		{ "$0\r\n\r\n", REDIS_BULK, "" },
		{ "$5\r\na\r\nbc\r\n", REDIS_BULK, "a\r\nbc" },
		{ "$-1\r\n", REDIS_NIL, "" },
		{ "*-1\r\n", REDIS_NIL, "" },
		{ "*0\r\n", REDIS_ARRAY, "" },
		{ "*2\r\n$3\r\nkey\r\n$2\r\n{}\r\n", REDIS_ARRAY, "key|{}|" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str in = str_of(rows[i].in);
		struct redis_reply r;
		char got[128] = "";
		size_t size;

		for (size_t n = 0; n < in.n; n++)
			assert_int_equal(redis_reply_parse(str_first(in, n), &r, &size), 0);
		assert_int_equal(redis_reply_parse(in, &r, &size), 1);
		assert_int_equal(size, in.n);
		assert_int_equal(r.kind, rows[i].kind);
		if (r.kind == REDIS_INTEGER)
			(void)snprintf(got, sizeof(got), "%lld", (long long)r.integer);
		else
			(void)snprintf(got, sizeof(got), "%.*s", STR_ARG(r.text));
		for (size_t k = 0; k < r.n; k++)
			(void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%.*s|", STR_ARG(r.items[k]));
		assert_string_equal(got, rows[i].text);
	}
}

static void what_is_no_reply_is_refused(void **state)
{
	static const char *const rows[] = {
		"x\r\n", "\r\n", ":x\r\n", "$x\r\n", "$-2\r\n", "$2\r\nabc\r\n", "*9\r\n", "*1\r\n:1\r\n", "+OK\rx", "$999999999\r\n", "*x\r\n",
	};
	static char endless[8192];
	struct redis_reply r;
	size_t size;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (redis_reply_parse(str_of(rows[i]), &r, &size) != -1)
			fail_msg("'%s' was taken", rows[i]);
	memset(endless, '+', sizeof(endless));
	assert_int_equal(redis_reply_parse((struct str){ endless, sizeof(endless) }, &r, &size), -1);
}

/* ---- against a scripted peer ---- */

struct rig {
	struct loop *loop;
	uint64_t now_ms;
	int listener, peer;
	struct redis *redis;
	int replies, errors;
	bool frees, sends;
	char said[512];
	struct err e;
};

static uint64_t rig_now(void *arg)
{
	return ((struct rig *)arg)->now_ms;
}

static void rig_open(struct rig *r, const char *credentials)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(at);
	struct redis_dsn d = { 0 };
	char text[128];

	*r = (struct rig){ .now_ms = 5000, .peer = -1 };
	r->loop = loop_new(&r->e);
	loop_set_clock(r->loop, rig_now, r);
	r->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(r->listener, (struct sockaddr *)&at, sizeof(at.sun_family)), 0);
	assert_int_equal(listen(r->listener, 4), 0);
	assert_int_equal(getsockname(r->listener, (struct sockaddr *)&at, &len), 0);
	(void)snprintf(text, sizeof(text), "unix://%s/none%s", credentials, credentials[0] ? "?db=3" : "");
	assert_int_equal(redis_dsn_parse(str_of(text), &d, &r->e), 0);
	d.to.len = len;
	d.to.un = at;
	r->redis = redis_new(r->loop, &d, NULL, &r->e);
	assert_non_null(r->redis);
}

static void rig_close(struct rig *r)
{
	redis_free(r->redis);
	(void)close(r->listener);
	closep(&r->peer);
	loop_free(r->loop);
}

static void turn(struct rig *r)
{
	for (int i = 0; i < 10; i++)
		assert_int_equal(loop_turn(r->loop, 1, &r->e), 0);
	if (r->peer < 0)
		r->peer = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	for (int i = 0; i < 10; i++)
		assert_int_equal(loop_turn(r->loop, 1, &r->e), 0);
}

static const char *hear(struct rig *r)
{
	static char text[1024];
	ssize_t n = recv(r->peer, text, sizeof(text) - 1, MSG_DONTWAIT);

	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static void say(struct rig *r, const char *text)
{
	assert_int_equal(send(r->peer, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	turn(r);
}

static void on_reply(const struct redis_reply *reply, const struct err *e, void *arg)
{
	struct rig *r = arg;

	assert_true((reply != NULL) != (e != NULL));
	r->replies += reply != NULL;
	r->errors += e != NULL;
	if (e)
		(void)snprintf(r->said, sizeof(r->said), "%s", e->msg);
	else
		(void)snprintf(r->said, sizeof(r->said), "%.*s", STR_ARG(reply->text));
	if (r->frees)
		redis_free(take_ptr(&r->redis));
	else if (r->sends && reply)
		assert_int_equal(redis_send(r->redis, (struct str[]){ STR("NEXT") }, 1, 1000, on_reply, r, &r->e), 0);
}

static int ask(struct rig *r, const char *word)
{
	return redis_send(r->redis, (struct str[]){ str_of(word), STR("a b") }, 2, 1000, on_reply, r, &r->e);
}

static void commands_go_out_in_order_behind_the_greeting(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, "u:p@");
	assert_int_equal(ask(&r, "ONE"), 0);
	assert_int_equal(ask(&r, "TWO"), 0);
	turn(&r);
	assert_string_equal(hear(&r), "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
				      "*2\r\n$3\r\nONE\r\n$3\r\na b\r\n*2\r\n$3\r\nTWO\r\n$3\r\na b\r\n");
	r.sends = true;
	say(&r, "+OK\r\n+OK\r\n+1\r");
	assert_int_equal(r.replies, 0);
	say(&r, "\n-WRONG\r\n");
	assert_int_equal(r.replies, 1);
	assert_int_equal(r.errors, 1);
	assert_string_equal(r.said, "Redis: WRONG");
	assert_string_equal(hear(&r), "*1\r\n$4\r\nNEXT\r\n");
	rig_close(&r);
}

static void a_lost_connection_fails_what_waits_and_is_made_again(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, "");
	assert_int_equal(ask(&r, "ONE"), 0);
	turn(&r);
	closep(&r.peer);
	r.peer = -1;
	turn(&r);
	assert_int_equal(r.errors, 1);
	assert_int_equal(ask(&r, "TWO"), -1); /* not so soon */
	r.now_ms += REDIS_AGAIN_MS;
	turn(&r);
	assert_int_equal(ask(&r, "TWO"), 0);
	turn(&r);
	say(&r, "+fine\r\n");
	assert_string_equal(r.said, "fine");
	assert_int_equal(ask(&r, "SLOW"), 0);
	turn(&r);
	r.now_ms += 1001;
	turn(&r);
	assert_int_equal(r.errors, 2);
	assert_string_equal(r.said, "Redis: no reply in time");
	rig_close(&r);
}

static void it_may_be_freed_from_its_callbacks(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, "");
	r.frees = true;
	assert_int_equal(ask(&r, "ONE"), 0);
	assert_int_equal(ask(&r, "TWO"), 0);
	turn(&r);
	say(&r, "+1\r\n+2\r\n");
	assert_int_equal(r.replies, 1);
	assert_null(r.redis);
	rig_close(&r);
	rig_open(&r, "");
	r.frees = true;
	assert_int_equal(ask(&r, "ONE"), 0);
	turn(&r);
	closep(&r.peer);
	r.peer = -1;
	turn(&r);
	assert_int_equal(r.errors, 1);
	rig_close(&r);
}

static void a_refused_greeting_is_told(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, "u:wrong@");
	assert_int_equal(ask(&r, "ONE"), 0);
	turn(&r);
	say(&r, "-WRONGPASS no\r\n-NOAUTH\r\n-NOAUTH\r\n");
	assert_int_equal(r.errors, 1);
	assert_string_equal(r.said, "Redis: WRONGPASS no");
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dsns_are_read),
		cmocka_unit_test(replies_are_read_as_far_as_they_are_there),
		cmocka_unit_test(what_is_no_reply_is_refused),
		cmocka_unit_test(commands_go_out_in_order_behind_the_greeting),
		cmocka_unit_test(a_lost_connection_fails_what_waits_and_is_made_again),
		cmocka_unit_test(it_may_be_freed_from_its_callbacks),
		cmocka_unit_test(a_refused_greeting_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
