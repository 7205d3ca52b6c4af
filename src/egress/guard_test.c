// SPDX-License-Identifier: Apache-2.0
#include "egress/guard.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "access/policy.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "net/transport.h"

#include "base/banned.h"

struct rig {
	int client; /* the other end */
	struct transport *guard;
	unsigned asked;
};

static bool only_good(struct str host, void *arg)
{
	((struct rig *)arg)->asked++;
	return str_is(host, "good.test");
}

static void rig_open(struct rig *r, const char *early)
{
	struct err e = { 0 };
	struct transport *inner;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	r->client = fds[0];
	r->asked = 0;
	inner = transport_plain(fds[1], &e);
	assert_non_null(inner);
	r->guard = guard_new(inner, str_of(early), only_good, r, &e);
	assert_non_null(r->guard);
}

static void rig_close(struct rig *r)
{
	transport_close(r->guard);
	(void)close(r->client);
}

static void say(struct rig *r, const char *text)
{
	assert_int_equal(send(r->client, text, strlen(text), 0), strlen(text));
}

/* Everything that passes now; the errno that ended it, 0 at the end of the client. */
static int passes(struct rig *r, struct buf *out)
{
	char piece[7]; /* smaller than anything that is said */
	ssize_t n;

	while ((n = r->guard->ops->recv(r->guard, piece, sizeof(piece))) > 0)
		buf_add(out, piece, (size_t)n);
	return n < 0 ? errno : 0;
}

#define GOOD "GET /a HTTP/1.1\r\nHost: good.test\r\n\r\n"
#define BODY "POST /b HTTP/1.1\r\nHost: good.test\r\nContent-Length: 5\r\n\r\nhello"
#define CHUNKS "POST /c HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
#define BAD "GET /secret HTTP/1.1\r\nHost: bad.test\r\n\r\n"
#define WS_KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define WS_ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
#define WEBSOCKET "GET /w HTTP/1.1\r\nHost: good.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" \
		  "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " WS_KEY "\r\n\r\n"
#define WS_ANSWER "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Accept: " WS_ACCEPT "\r\n\r\n"
#define UPGRADE "GET /u HTTP/1.1\r\nHost: good.test\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"

static void requests_pass_as_they_came(void **state)
{
	static const char all[] = GOOD BODY CHUNKS GOOD;
	AUTO(buf_done) struct buf out = BUF_INIT(4096);
	struct rig r;

	(void)state;
	rig_open(&r, "");
	for (size_t i = 0; i < sizeof(all) - 1; i++) {
		const char one[] = { all[i], '\0' };

		say(&r, one);
		assert_int_equal(passes(&r, &out), EAGAIN);
	}
	assert_int_equal(out.n, sizeof(all) - 1);
	assert_memory_equal(out.p, all, out.n);
	assert_int_equal(r.asked, 4);
	assert_false(r.guard->ops->has_pending(r.guard));
	rig_close(&r);
}

static void what_came_early_is_looked_at_too(void **state)
{
	AUTO(buf_done) struct buf out = BUF_INIT(4096);
	struct rig r;

	(void)state;
	rig_open(&r, GOOD BODY);
	assert_true(r.guard->ops->has_pending(r.guard));
	assert_int_equal(passes(&r, &out), EAGAIN);
	assert_string_equal(buf_z(&out), GOOD BODY);
	rig_close(&r);
}

static void the_first_request_for_another_host_ends_it(void **state)
{
	static const char *const fronts[] = { GOOD, BODY, CHUNKS };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fronts); i++) {
		AUTO(buf_done) struct buf out = BUF_INIT(4096);
		struct rig r;

		rig_open(&r, "");
		say(&r, fronts[i]);
		say(&r, BAD);
		assert_int_equal(passes(&r, &out), EACCES);
		assert_null(strstr(buf_z(&out), "secret"));
		rig_close(&r);
	}
}

static void what_is_no_http_ends_it(void **state)
{
	static const char *const texts[] = {
		"SSH-2.0-x\r\n\r\n", "GET / HTTP/1.1\nHost: good.test\n\n", "GET http://bad.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: good.test\r\nHost: bad.test\r\n\r\n", "CONNECT good.test:80 HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		GOOD UPGRADE, /* nobody could tell which answer belongs to it */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		AUTO(buf_done) struct buf out = BUF_INIT(4096);
		struct rig r;

		rig_open(&r, "");
		say(&r, texts[i]);
		if (passes(&r, &out) != EPROTO)
			fail_msg("case %zu passes", i);
		rig_close(&r);
	}
}

static void heads_have_a_ceiling(void **state)
{
	AUTO(buf_done) struct buf big = BUF_INIT(1 << 20);
	AUTO(buf_done) struct buf out = BUF_INIT(4096);
	struct rig r;

	(void)state;
	buf_addf(&big, "GET / HTTP/1.1\r\nHost: good.test\r\nX: ");
	while (big.n < GUARD_HELD_MAX)
		buf_add_char(&big, 'x');
	rig_open(&r, "");
	say(&r, buf_z(&big));
	assert_int_equal(passes(&r, &out), EPROTO);
	rig_close(&r);
}

static void answer(struct rig *r, const char *text)
{
	for (; *text; text++) { /* a byte at a time: the beginning of an answer may come in pieces */
		struct iovec iov = { (void *)(uintptr_t)text, 1 };

		assert_int_equal(r->guard->ops->send(r->guard, &iov, 1, false), 1);
	}
}

static void a_websocket_waits_for_the_server(void **state)
{
	static const char *const answers[] = {
		WS_ANSWER, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" WS_ANSWER,
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		AUTO(buf_done) struct buf out = BUF_INIT(4096);
		struct rig r;

		rig_open(&r, WEBSOCKET);
		say(&r, "\1\2 anything");
		assert_int_equal(passes(&r, &out), EAGAIN);
		assert_string_equal(buf_z(&out), WEBSOCKET);
		answer(&r, answers[i]);
		assert_true(r.guard->ops->has_pending(r.guard));
		assert_int_equal(passes(&r, &out), EAGAIN);
		assert_string_equal(buf_z(&out), WEBSOCKET "\1\2 anything");
		answer(&r, "\x81\1x");
		rig_close(&r);
	}
}

/* Whether the server's words, in one piece, end the connection. */
static bool ends(struct rig *r, const char *text)
{
	struct iovec iov = { (void *)(uintptr_t)text, strlen(text) };

	return r->guard->ops->send(r->guard, &iov, 1, false) < 0;
}

static void no_other_upgrade_makes_a_connection_opaque(void **state)
{
	static const struct {
		const char *asks, *says;
	} rows[] = {
		{ UPGRADE, "HTTP/1.1 101 Switching Protocols\r\n\r\n" },
		{ UPGRADE, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n" },
		{ UPGRADE, WS_ANSWER },
		{ WEBSOCKET, "HTTP/1.1 101 Switching Protocols\r\n\r\n" },
		{ WEBSOCKET, "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n" },
		{ WEBSOCKET, "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: h2c\r\nSec-WebSocket-Accept: " WS_ACCEPT "\r\n\r\n" },
		{ WEBSOCKET, "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " WS_ACCEPT "\r\n\r\n" },
		{ WEBSOCKET, "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
			     "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n" },
		{ WEBSOCKET, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n" },
		{ WEBSOCKET, "SSH-2.0-x\r\n\r\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(buf_done) struct buf out = BUF_INIT(4096);
		struct rig r;

		rig_open(&r, rows[i].asks);
		assert_int_equal(passes(&r, &out), EAGAIN);
		if (!ends(&r, rows[i].says))
			fail_msg("case %zu goes on", i);
		assert_true(r.guard->ops->has_pending(r.guard)); /* so that who relays hears of it */
		say(&r, GOOD);
		assert_int_equal(passes(&r, &out), EPROTO);
		rig_close(&r);
	}
}

static void a_request_for_a_websocket_is_whole_or_none(void **state)
{
	static const char *const asks[] = {
		"GET / HTTP/1.1\r\nHost: good.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: good.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: short\r\n\r\n",
		"OPTIONS / HTTP/1.1\r\nHost: good.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: " WS_KEY "\r\n\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		AUTO(buf_done) struct buf out = BUF_INIT(4096);
		struct rig r;

		rig_open(&r, asks[i]);
		assert_int_equal(passes(&r, &out), EAGAIN);
		if (!ends(&r, WS_ANSWER))
			fail_msg("case %zu goes on", i);
		rig_close(&r);
	}
}

static void the_head_of_an_answer_has_a_ceiling(void **state)
{
	AUTO(buf_done) struct buf out = BUF_INIT(4096);
	AUTO(buf_done) struct buf big = BUF_INIT(1 << 20);
	struct rig r;

	(void)state;
	buf_addf(&big, "HTTP/1.1 101 X\r\nX: ");
	while (big.n <= GUARD_HELD_MAX)
		buf_add_char(&big, 'x');
	rig_open(&r, WEBSOCKET);
	assert_int_equal(passes(&r, &out), EAGAIN);
	assert_true(ends(&r, buf_z(&big)));
	rig_close(&r);
}

static void a_server_that_does_not_agree_gets_requests_that_are_checked(void **state)
{
	AUTO(buf_done) struct buf out = BUF_INIT(4096);
	struct rig r;

	(void)state;
	rig_open(&r, UPGRADE);
	say(&r, BAD);
	assert_int_equal(passes(&r, &out), EAGAIN);
	answer(&r, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(passes(&r, &out), EACCES);
	assert_string_equal(buf_z(&out), UPGRADE);
	rig_close(&r);
}

static void the_end_comes_only_between_requests(void **state)
{
	AUTO(buf_done) struct buf out = BUF_INIT(4096);
	struct rig r;

	(void)state;
	rig_open(&r, "");
	say(&r, GOOD);
	assert_int_equal(shutdown(r.client, SHUT_WR), 0);
	assert_int_equal(passes(&r, &out), 0);
	assert_string_equal(buf_z(&out), GOOD);
	rig_close(&r);
	rig_open(&r, "");
	say(&r, "GET / HT");
	assert_int_equal(passes(&r, &out), EAGAIN);
	assert_int_equal(shutdown(r.client, SHUT_WR), 0);
	assert_int_equal(passes(&r, &out), EPROTO);
	rig_close(&r);
}

static void hosts_are_names_at_this_port(void **state)
{
	char name[HOST_NAME_LEN_MAX + 1];

	(void)state;
	assert_true(guard_host(STR("A.test"), 80, name));
	assert_string_equal(name, "a.test");
	assert_true(guard_host(STR("a.test:80"), 80, name));
	assert_false(guard_host(STR("a.test:8080"), 80, name));
	assert_false(guard_host(STR("a.test:"), 80, name));
	assert_false(guard_host(STR("[::1]"), 80, name));
	assert_false(guard_host(STR(""), 80, name));
	assert_false(guard_host(STR("user@a.test"), 80, name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_pass_as_they_came),
		cmocka_unit_test(what_came_early_is_looked_at_too),
		cmocka_unit_test(the_first_request_for_another_host_ends_it),
		cmocka_unit_test(what_is_no_http_ends_it),
		cmocka_unit_test(heads_have_a_ceiling),
		cmocka_unit_test(a_websocket_waits_for_the_server),
		cmocka_unit_test(no_other_upgrade_makes_a_connection_opaque),
		cmocka_unit_test(a_request_for_a_websocket_is_whole_or_none),
		cmocka_unit_test(the_head_of_an_answer_has_a_ceiling),
		cmocka_unit_test(a_server_that_does_not_agree_gets_requests_that_are_checked),
		cmocka_unit_test(the_end_comes_only_between_requests),
		cmocka_unit_test(hosts_are_names_at_this_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
