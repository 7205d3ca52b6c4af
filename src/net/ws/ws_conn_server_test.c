// SPDX-License-Identifier: Apache-2.0
/* WebSockets as the server meets them at its edges: too many, closed before they are open, read slowly. */
#include "net/http/test_server.h"

#include "base/own.h"
#include "net/ws/ws_conn.h"

#include "base/banned.h"

#define CRLF "\r\n"
#define HANDSHAKE \
	"GET /ws HTTP/1.1" CRLF "Host: a" CRLF "Connection: Upgrade" CRLF "Upgrade: websocket" CRLF \
	"Sec-WebSocket-Version: 13" CRLF "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==" CRLF CRLF
#define TO_SEND (8 << 20)
#define MESSAGE 16384

struct fixture {
	struct rig rig;
	struct ws_conn *ws;
	bool closes_early;
	size_t to_send, sent;
	size_t memory, most; /* held by messages now, and at most */
	size_t received;
	unsigned closes;
	uint16_t code;
};

static void pump(struct ws_conn *ws, void *arg)
{
	static const char message[MESSAGE];
	struct fixture *f = arg;

	while (f->sent < f->to_send && ws_conn_send(ws, false, (struct str){ message, sizeof(message) }))
		f->sent += sizeof(message);
}

static void on_open(struct ws_conn *ws, struct str protocol, void *arg)
{
	(void)protocol;
	pump(ws, arg);
}

static void on_message(struct ws_conn *ws, bool is_text, struct str data, void *arg)
{
	struct fixture *f = arg;

	(void)ws;
	(void)is_text;
	f->received += data.n;
}

static void on_close(uint16_t code, struct str reason, void *arg)
{
	struct fixture *f = arg;

	(void)reason;
	f->ws = NULL;
	f->closes++;
	f->code = code;
}

static bool on_memory(struct ws_conn *ws, size_t bytes, void *arg)
{
	struct fixture *f = arg;

	(void)ws;
	assert_true(bytes == 0 || bytes > WS_MEMORY_FREE);
	if (bytes > f->most)
		return false;
	f->memory = bytes;
	return true;
}

static int serve(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct ws_ops ops = { on_open, on_message, pump, on_close, on_memory };
	struct fixture *f = rq->ctx;
	int r = ws_conn_accept(rq, rp, &WS_OPTIONS, &ops, f, &f->ws, e);

	if (f->ws && f->closes_early)
		ws_conn_close(f->ws, 4000, STR("early"));
	return r;
}

static const struct route routes[] = {
	{ "GET", "/ws", serve, 0, 0 },
	{ 0 },
};

static void open_rig(struct fixture *f, unsigned streams)
{
	struct http_limits limits = HTTP_LIMITS;

	limits.streams = streams;
	f->rig.service.ctx = f;
	rig_start(&f->rig, routes, &limits);
}

static void one_beyond_the_limit_is_told_so(void **state)
{
	struct fixture f = { 0 };
	AUTO(buf_done) struct buf a = BUF_INIT(4096);

	(void)state;
	open_rig(&f, 0);
	assert_false(rig_talk(&f.rig, STR(HANDSHAKE), &a));
	rig_begins(&a, "HTTP/1.1 503 ");
	assert_int_equal(f.closes, 0);
	rig_stop(&f.rig);
}

static void one_that_is_closed_before_it_is_open_says_why(void **state)
{
	struct fixture f = { .closes_early = true };
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = -1;

	(void)state;
	open_rig(&f, 1);
	fd = rig_connect(&f.rig);
	rig_send(&f.rig, fd, STR(HANDSHAKE));
	assert_false(rig_recv(&f.rig, fd, &a));
	rig_begins(&a, "HTTP/1.1 101 ");
	assert_true(str_ends(buf_str(&a), STR("\x88\x07\x0f\xa0" "early")));
	rig_send(&f.rig, fd, STR("\x88\x80" "mask"));
	(void)shutdown(fd, SHUT_WR);
	rig_turn(&f.rig);
	assert_int_equal(f.closes, 1);
	assert_int_equal(f.code, 4000);
	rig_stop(&f.rig);
}

static void one_that_is_read_slowly_loses_nothing(void **state)
{
	struct fixture f = { .to_send = TO_SEND };
	AUTO_FD fd = -1;
	size_t got = 0;

	(void)state;
	open_rig(&f, 1);
	fd = rig_connect(&f.rig);
	rig_send(&f.rig, fd, STR(HANDSHAKE));
	while (got < TO_SEND) { /* always less than what is waiting */
		char piece[1460];
		ssize_t n = recv(fd, piece, sizeof(piece), 0);

		if (n <= 0)
			break;
		got += (size_t)n;
		assert_int_equal(loop_turn(f.rig.loop, 0, &(struct err){ 0 }), 0);
	}
	assert_true(got >= TO_SEND);
	assert_int_equal(f.closes, 0);
	ws_conn_cancel(f.ws);
	rig_stop(&f.rig);
}

/* A message of N bytes, masked with zeroes. */
static void send_message(struct fixture *f, int fd, size_t n)
{
	AUTO(buf_done) struct buf b = BUF_INIT(n + 64);
	AUTO(free) char *bytes = calloc(1, n);

	assert_non_null(bytes);
	assert_true(ws_encode(&b, WS_BINARY, true, (struct str){ bytes, n }, (const uint8_t[4]){ 0 }));
	for (size_t at = 0; at < b.n && f->closes == 0; at += 32768) {
		struct str piece = str_first(str_skip(buf_str(&b), at), 32768);

		rig_send(&f->rig, fd, piece);
	}
}

static void memory_of_messages_is_asked_for_and_given_back(void **state)
{
	struct fixture f = { .most = 600000 };
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = -1;

	(void)state;
	open_rig(&f, 1);
	fd = rig_connect(&f.rig);
	rig_send(&f.rig, fd, STR(HANDSHAKE));
	send_message(&f, fd, 10000); /* not worth a word */
	rig_turn(&f.rig);
	assert_true(f.received == 10000 && f.memory == 0);
	send_message(&f, fd, 200000);
	rig_turn(&f.rig);
	assert_true(f.received == 210000 && f.memory == 0 && f.closes == 0);
	send_message(&f, fd, 500000);
	(void)rig_recv(&f.rig, fd, &a);
	assert_non_null(memmem(a.p, a.n, "\x03\xf1no memory", 11)); /* 1009 */
	(void)shutdown(fd, SHUT_WR);
	rig_turn(&f.rig);
	assert_true(f.closes == 1 && f.received == 210000 && f.code == WS_CLOSE_TOO_BIG);
	rig_stop(&f.rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_beyond_the_limit_is_told_so),
		cmocka_unit_test(one_that_is_closed_before_it_is_open_says_why),
		cmocka_unit_test(one_that_is_read_slowly_loses_nothing),
		cmocka_unit_test(memory_of_messages_is_asked_for_and_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
