// SPDX-License-Identifier: Apache-2.0
#include "net/test_wire.h"

#include <sys/un.h>

#include "net/http/client.h"
#include "net/http/server.h"
#include "net/ws/ws_conn.h"

#include "base/banned.h"

#define HANDSHAKE \
	"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

enum when { NEVER, ON_OPEN, ON_MESSAGE, ON_DRAINED };

/* What one end was told. */
struct end {
	struct ws_conn *ws;
	struct buf said;
	char protocol[32];
	int opens, messages, drains, closes;
	uint16_t code;
	char reason[160];
	bool echoes, pauses;
	enum when cancels, closes_on;
};

struct rig {
	struct wire w;
	struct http_service service;
	struct http_server *server;
	struct http_client *client;
	struct ws_options options, client_options;
	struct end s, c;
	int handler_calls;
	struct sockaddr_un address;
	socklen_t address_len;
};

static bool act(struct end *x, enum when now)
{
	if (x->cancels == now)
		ws_conn_cancel(take_ptr(&x->ws));
	if (x->closes_on == now)
		ws_conn_close(x->ws, 4000, STR("enough"));
	return x->ws;
}

static void on_open(struct ws_conn *ws, struct str protocol, void *arg)
{
	struct end *x = arg;

	assert_ptr_equal(ws, x->ws);
	x->opens++;
	(void)snprintf(x->protocol, sizeof(x->protocol), "%.*s", STR_ARG(protocol));
	(void)act(x, ON_OPEN);
}

static void on_message(struct ws_conn *ws, bool is_text, struct str data, void *arg)
{
	struct end *x = arg;

	x->messages++;
	buf_addf(&x->said, "%c", is_text ? 't' : 'b');
	buf_add_str(&x->said, data);
	buf_addf(&x->said, ";");
	if (x->pauses)
		ws_conn_pause(ws);
	if (act(x, ON_MESSAGE) && x->echoes)
		(void)ws_conn_send(ws, is_text, data);
}

static void on_drained(struct ws_conn *ws, void *arg)
{
	struct end *x = arg;

	assert_ptr_equal(ws, x->ws);
	x->drains++;
	(void)act(x, ON_DRAINED);
}

static void on_close(uint16_t code, struct str reason, void *arg)
{
	struct end *x = arg;

	x->closes++;
	x->code = code;
	(void)snprintf(x->reason, sizeof(x->reason), "%.*s", STR_ARG(reason));
	ws_conn_cancel(take_ptr(&x->ws)); /* harmless */
}

static const struct ws_ops ops = { .on_open = on_open, .on_message = on_message, .on_drained = on_drained, .on_close = on_close };

static int handle_ws(struct request *rq, struct reply *rp, struct err *e)
{
	struct rig *r = rq->ctx;

	r->handler_calls++;
	return ws_conn_accept(rq, rp, &r->options, &ops, &r->s, &r->s.ws, e);
}

static void rig_open(struct rig *r)
{
	static const struct route routes[] = { { "*", "/ws", handle_ws, 0, 0 }, { 0 } };
	struct http_client_options client = HTTP_CLIENT_OPTIONS;
	struct err e = { 0 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*r = (struct rig){ .options = WS_OPTIONS, .client_options = WS_OPTIONS,
			   .s.said = BUF_INIT(4 * 1024 * 1024), .c.said = BUF_INIT(4 * 1024 * 1024) };
	r->service = (struct http_service){ .routes = routes, .ctx = r };
	wire_open(&r->w);
	r->server = http_server_new(r->w.loop, &r->service, &HTTP_LIMITS, &e);
	assert_non_null(r->server);
	r->address.sun_family = AF_UNIX;
	assert_int_equal(bind(fd, (struct sockaddr *)&r->address, sizeof(sa_family_t)), 0);
	r->address_len = sizeof(r->address);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&r->address, &r->address_len), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(http_server_listen(r->server, &fd, NULL, &e), 0);
	client.to = (struct sockaddr *)&r->address;
	client.to_len = r->address_len;
	r->client = http_client_new(r->w.loop, &client, &e);
	assert_non_null(r->client);
}

static void rig_close(struct rig *r)
{
	ws_conn_cancel(r->s.ws);
	ws_conn_cancel(r->c.ws);
	http_client_free(r->client);
	http_server_free(r->server);
	buf_done(&r->s.said);
	buf_done(&r->c.said);
	wire_close(&r->w);
}

/* ---- raw clients ---- */

static int dial(struct rig *r)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&r->address, r->address_len), 0);
	wire_turn(&r->w);
	return fd;
}

static int open_raw(struct rig *r)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	int fd = dial(r);

	wire_say(&r->w, fd, STR(HANDSHAKE "\r\n"));
	assert_false(wire_hear(&r->w, fd, &b));
	assert_true(str_starts(buf_str(&b), STR("HTTP/1.1 101 ")));
	assert_non_null(strstr(buf_z(&b), "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
	assert_int_equal(r->s.opens, 1);
	return fd;
}

static void say_frame(struct rig *r, int fd, enum ws_opcode op, struct str payload)
{
	static const uint8_t mask[4] = { 1, 2, 3, 4 };
	AUTO(buf_done) struct buf b = BUF_INIT(2 * 1024 * 1024);

	assert_true(ws_encode(&b, op, true, payload, mask));
	wire_say(&r->w, fd, buf_str(&b));
	wire_turn(&r->w);
}

/* The server's next frames, as text; an end of the connection is "EOF". */
static void expect_frames(struct rig *r, int fd, const char *want)
{
	AUTO(buf_done) struct buf raw = BUF_INIT(4 * 1024 * 1024), text = BUF_INIT(4 * 1024 * 1024);
	AUTO(ws_decoder_done) struct ws_decoder d;
	struct ws_event ev;
	struct str in;
	bool ended = wire_hear(&r->w, fd, &raw);

	ws_decoder_init(&d, WS_CLIENT, WS_MESSAGE_MAX);
	in = buf_str(&raw);
	while (in.n > 0 && ws_decode(&d, &in, &ev) != WS_EVENT_NONE)
		buf_addf(&text, "%d:%u:%.*s;", ev.kind, ev.kind == WS_EVENT_CLOSE ? ev.code : 0U, STR_ARG(ev.data));
	if (ended)
		buf_addf(&text, "EOF");
	assert_string_equal(buf_z(&text), want);
}

/* ---- the server's handshake ---- */

static void a_good_handshake_opens_and_messages_go_both_ways(void **state)
{
	struct rig r;
	int fd;

	(void)state;
	rig_open(&r);
	fd = open_raw(&r);
	assert_string_equal(r.s.protocol, "");
	say_frame(&r, fd, WS_TEXT, STR("hello"));
	say_frame(&r, fd, WS_BINARY, STR("\x01\x02"));
	assert_string_equal(buf_z(&r.s.said), "thello;b\x01\x02;");
	assert_true(ws_conn_send(r.s.ws, true, STR("yes")));
	assert_true(ws_conn_send(r.s.ws, false, STR("")));
	expect_frames(&r, fd, "1:0:yes;1:0:;");
	(void)close(fd);
	rig_close(&r);
}

static void bad_handshakes_are_answered_and_call_nobody(void **state)
{
	static const struct {
		const char *request, *status, *header;
	} table[] = {
		{ "GET /ws HTTP/1.1\r\nHost: h\r\n\r\n", "426", "Upgrade: websocket\r\n" },
		{ "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n"
		  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", "426", "Sec-WebSocket-Version: 13\r\n" },
		{ "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		  "Sec-WebSocket-Key: short\r\n\r\n", "400", NULL },
		{ "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", "400", NULL },
		{ "POST /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", "400", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(4096);
		struct rig r;
		int fd;

		rig_open(&r);
		fd = dial(&r);
		wire_say(&r.w, fd, str_of(table[i].request));
		(void)wire_hear(&r.w, fd, &b);
		assert_int_equal(r.handler_calls, 1);
		assert_memory_equal(buf_z(&b) + 9, table[i].status, 3);
		if (table[i].header)
			assert_non_null(strstr(buf_z(&b), table[i].header));
		assert_null(r.s.ws);
		assert_int_equal(r.s.opens + r.s.closes, 0);
		(void)close(fd);
		rig_close(&r);
	}
}

static void a_protocol_is_chosen_from_repeated_headers(void **state)
{
	static const char *const protocols[] = { "v2", "v1", NULL };
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct rig r;
	int fd;

	(void)state;
	rig_open(&r);
	r.options.protocols = protocols;
	fd = dial(&r);
	wire_say(&r.w, fd, STR(HANDSHAKE "Sec-WebSocket-Protocol: x, y\r\nSec-WebSocket-Protocol: v1, z\r\n\r\n"));
	(void)wire_hear(&r.w, fd, &b);
	assert_non_null(strstr(buf_z(&b), "\r\nSec-WebSocket-Protocol: v1\r\n"));
	assert_string_equal(r.s.protocol, "v1");
	(void)close(fd);
	rig_close(&r);
}

static void frames_that_come_with_the_handshake_are_heard(void **state)
{
	struct rig r;
	int fd;

	(void)state;
	rig_open(&r);
	fd = dial(&r);
	wire_say(&r.w, fd, STR(HANDSHAKE "\r\n" "\x81\x82\x00\x00\x00\x00" "hi"));
	wire_turn(&r.w);
	assert_int_equal(r.s.opens, 1);
	assert_string_equal(buf_z(&r.s.said), "thi;");
	(void)close(fd);
	rig_close(&r);
}

static void a_peer_that_vanishes_while_opening_is_a_close(void **state)
{
	struct rig r;
	struct loop *l;
	int fd;

	(void)state;
	rig_open(&r);
	l = r.w.loop;
	fd = dial(&r);
	assert_true(send(fd, HANDSHAKE "\r\n", sizeof(HANDSHAKE "\r\n") - 1, 0) > 0);
	(void)close(fd);
	for (int i = 0; i < 20 && r.s.closes == 0; i++)
		assert_int_equal(loop_turn(l, 0, &(struct err){ 0 }), 0);
	assert_int_equal(r.s.closes, 1);
	assert_int_equal(r.s.code, WS_CLOSE_ABNORMAL);
	rig_close(&r);
}

/* ---- closing ---- */

static void the_peer_may_close(void **state)
{
	struct rig r;
	int fd;

	(void)state;
	rig_open(&r);
	fd = open_raw(&r);
	say_frame(&r, fd, WS_CLOSE, STR("\x03\xe9going"));
	expect_frames(&r, fd, "4:1001:;EOF");
	assert_int_equal(r.s.closes, 0);
	(void)close(fd);
	wire_turn(&r.w);
	assert_int_equal(r.s.closes, 1);
	assert_int_equal(r.s.code, 1001);
	assert_string_equal(r.s.reason, "going");
	rig_close(&r);
}

static void we_may_close_and_the_queue_goes_first(void **state)
{
	struct rig r;
	int fd;

	(void)state;
	rig_open(&r);
	fd = open_raw(&r);
	assert_true(ws_conn_send(r.s.ws, true, STR("last")));
	ws_conn_close(r.s.ws, WS_CLOSE_NORMAL, STR("done"));
	ws_conn_close(r.s.ws, WS_CLOSE_INTERNAL, STR("twice"));
	assert_false(ws_conn_send(r.s.ws, true, STR("too late")));
	expect_frames(&r, fd, "1:0:last;4:1000:done;");
	say_frame(&r, fd, WS_TEXT, STR("not heard any more"));
	assert_int_equal(r.s.messages, 0);
	say_frame(&r, fd, WS_CLOSE, STR("\x03\xe8"));
	expect_frames(&r, fd, "EOF");
	(void)close(fd);
	wire_turn(&r.w);
	assert_int_equal(r.s.closes, 1);
	assert_int_equal(r.s.code, WS_CLOSE_NORMAL);
	rig_close(&r);
}

static void a_peer_that_does_not_close_is_not_waited_for(void **state)
{
	struct rig r;

	(void)state;
	for (int answers = 0; answers < 2; answers++) { /* not at all, or with its frame but not with the connection */
		int fd;

		rig_open(&r);
		fd = open_raw(&r);
		ws_conn_close(r.s.ws, WS_CLOSE_GOING_AWAY, STR("restart"));
		wire_turn(&r.w);
		if (answers)
			say_frame(&r, fd, WS_CLOSE, STR("\x03\xe8"));
		wire_wait(&r.w, 4999);
		assert_int_equal(r.s.closes, 0);
		wire_wait(&r.w, 1);
		assert_int_equal(r.s.closes, 1);
		assert_int_equal(r.s.code, WS_CLOSE_GOING_AWAY);
		assert_string_equal(r.s.reason, "restart");
		(void)close(fd);
		rig_close(&r);
	}
}

static void an_end_without_a_close_frame_is_abnormal(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r);
	(void)close(open_raw(&r));
	wire_turn(&r.w);
	assert_int_equal(r.s.closes, 1);
	assert_int_equal(r.s.code, WS_CLOSE_ABNORMAL);
	rig_close(&r);
}

/* ---- peers that misbehave ---- */

static void broken_rules_close_with_their_code(void **state)
{
	static const struct {
		struct str bytes;
		const char *frames;
		uint16_t code;
	} table[] = {
		{ STR("\x81\x02hi"), "1002", 1002 },                                   /* not masked */
		{ STR("\xc1\x80\x00\x00\x00\x00"), "1002", 1002 },                     /* a reserved bit */
		{ STR("\x80\x80\x00\x00\x00\x00"), "1002", 1002 },                     /* a continuation of nothing */
		{ STR("\x81\x81\x00\x00\x00\x00\xff"), "1007", 1007 },                 /* not UTF-8 */
		{ STR("\x82\xff\x00\x00\x00\x00\x00\x10\x00\x01\x00\x00\x00\x00"), "1009", 1009 }, /* 1 MiB and a byte */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(4096);
		struct rig r;
		int fd;

		rig_open(&r);
		fd = open_raw(&r);
		wire_say(&r.w, fd, table[i].bytes);
		assert_true(wire_hear(&r.w, fd, &b));
		assert_true(b.n >= 4);
		assert_int_equal((uint8_t)b.p[0], 0x88);
		assert_int_equal((uint8_t)b.p[2] << 8 | (uint8_t)b.p[3], table[i].code);
		wire_say(&r.w, fd, STR("and a lot more of the same kind"));
		(void)close(fd);
		wire_turn(&r.w);
		assert_int_equal(r.s.closes, 1);
		assert_int_equal(r.s.code, table[i].code);
		assert_int_equal(r.s.messages, 0);
		rig_close(&r);
	}
}

static void pings_are_answered_up_to_fifty_a_second(void **state)
{
	struct rig r;
	int fd;

	(void)state;
	rig_open(&r);
	fd = open_raw(&r);
	say_frame(&r, fd, WS_PING, STR("one"));
	expect_frames(&r, fd, "3:0:one;");
	for (int i = 1; i < 50; i++)
		say_frame(&r, fd, i % 2 ? WS_PING : WS_PONG, STR(""));
	assert_int_equal(r.s.closes, 0);
	wire_wait(&r.w, 1000); /* another second */
	for (int i = 0; i < 50; i++)
		say_frame(&r, fd, WS_PONG, STR(""));
	{
		AUTO(buf_done) struct buf b = BUF_INIT(4096);

		assert_false(wire_hear(&r.w, fd, &b));
		say_frame(&r, fd, WS_PONG, STR(""));
	}
	expect_frames(&r, fd, "4:1008:too many control frames;EOF");
	(void)close(fd);
	wire_turn(&r.w);
	assert_int_equal(r.s.closes, 1);
	assert_int_equal(r.s.code, WS_CLOSE_POLICY);
	rig_close(&r);
}

/* ---- time ---- */

static void silence_is_probed_and_then_the_end(void **state)
{
	struct rig r;
	int fd;

	(void)state;
	rig_open(&r);
	fd = open_raw(&r);
	wire_wait(&r.w, 29999);
	expect_frames(&r, fd, "");
	wire_wait(&r.w, 1);
	expect_frames(&r, fd, "2:0:;");
	say_frame(&r, fd, WS_PONG, STR("")); /* alive: the deadline moves */
	wire_wait(&r.w, 30000);
	expect_frames(&r, fd, "2:0:;");
	wire_wait(&r.w, 29999);
	assert_int_equal(r.s.closes, 0);
	wire_wait(&r.w, 1);
	assert_int_equal(r.s.closes, 1);
	assert_int_equal(r.s.code, WS_CLOSE_ABNORMAL);
	(void)close(fd);
	rig_close(&r);
}

static void a_peer_that_does_not_read_holds_the_producer_back_and_then_ends(void **state)
{
	static char big[32 * 1024];
	struct rig r;
	int fd, sent = 0;

	(void)state;
	rig_open(&r);
	fd = open_raw(&r);
	for (int i = 0; i < 1000 && ws_conn_send(r.s.ws, false, (struct str){ big, sizeof(big) }); i++, sent++)
		wire_turn(&r.w);
	assert_true(sent > 2 && sent < 100);
	assert_int_equal(r.s.drains, 0);
	wire_wait(&r.w, 9000);
	{ /* it reads a little: the producer may go on, and has time again */
		AUTO(buf_done) struct buf b = BUF_INIT(64 * 1024 * 1024);

		assert_false(wire_hear(&r.w, fd, &b));
	}
	assert_int_equal(r.s.drains, 1);
	assert_int_equal(r.s.closes, 0);
	while (ws_conn_send(r.s.ws, false, (struct str){ big, sizeof(big) }))
		wire_turn(&r.w);
	wire_wait(&r.w, 9999);
	assert_int_equal(r.s.closes, 0);
	wire_wait(&r.w, 1);
	assert_int_equal(r.s.closes, 1);
	assert_int_equal(r.s.code, WS_CLOSE_ABNORMAL);
	(void)close(fd);
	rig_close(&r);
}

static void a_message_above_the_ceiling_is_our_own_mistake(void **state)
{
	AUTO(free) char *big = calloc(1, WS_SEND_MAX + 1);
	struct rig r;
	int fd;

	(void)state;
	rig_open(&r);
	fd = open_raw(&r);
	assert_false(ws_conn_send(r.s.ws, false, (struct str){ big, WS_SEND_MAX + 1 }));
	expect_frames(&r, fd, "4:1011:message too big to send;");
	(void)close(fd);
	wire_turn(&r.w);
	assert_int_equal(r.s.code, WS_CLOSE_INTERNAL);
	rig_close(&r);
}

static void a_paused_connection_is_not_read_and_loses_nothing(void **state)
{
	struct rig r;
	int fd;

	(void)state;
	rig_open(&r);
	fd = open_raw(&r);
	ws_conn_pause(r.s.ws);
	say_frame(&r, fd, WS_TEXT, STR("a"));
	say_frame(&r, fd, WS_TEXT, STR("b"));
	wire_wait(&r.w, 100000); /* a silence of our own making */
	assert_int_equal(r.s.messages + r.s.closes, 0);
	ws_conn_resume(r.s.ws);
	ws_conn_resume(r.s.ws);
	wire_turn(&r.w);
	assert_string_equal(buf_z(&r.s.said), "ta;tb;");
	(void)close(fd);
	wire_turn(&r.w);
	assert_int_equal(r.s.closes, 1);
	rig_close(&r);
}

static void a_pause_in_the_middle_of_a_packet_keeps_the_rest(void **state)
{
	struct rig r;
	int fd;

	(void)state;
	rig_open(&r);
	fd = open_raw(&r);
	r.s.pauses = true;
	wire_say(&r.w, fd, STR("\x81\x81\x00\x00\x00\x00" "a" "\x81\x81\x00\x00\x00\x00" "b"));
	assert_string_equal(buf_z(&r.s.said), "ta;");
	ws_conn_resume(r.s.ws);
	wire_turn(&r.w);
	assert_string_equal(buf_z(&r.s.said), "ta;tb;");
	ws_conn_pause(r.s.ws);
	ws_conn_close(r.s.ws, 1000, STR("")); /* ends the pause: the peer's close frame must be seen */
	say_frame(&r, fd, WS_CLOSE, STR(""));
	(void)close(fd);
	wire_turn(&r.w);
	assert_int_equal(r.s.code, 1000);
	rig_close(&r);
}

/* ---- both ends ours ---- */

static void connect_client(struct rig *r)
{
	static const struct http_header headers[] = { { STR("Authorization"), STR("x") } };
	struct ws_target target = { .target = STR("/ws"), .host = STR("h"), .headers = headers, .n_headers = 1 };
	struct err e = { 0 };

	r->c.ws = ws_conn_connect(r->client, r->w.loop, &target, &r->client_options, &ops, &r->c, &e);
	assert_non_null(r->c.ws);
	wire_turn(&r->w);
}

static void client_and_server_exchange_messages_and_close(void **state)
{
	static const char *const offered[] = { "v9", "v1", NULL }, *const known[] = { "v1", NULL };
	AUTO(free) char *big = malloc(WS_MESSAGE_MAX);
	struct rig r;

	(void)state;
	memset(big, 'm', WS_MESSAGE_MAX);
	rig_open(&r);
	r.options.protocols = known;
	r.client_options.protocols = offered;
	r.s.echoes = true;
	connect_client(&r);
	assert_int_equal(r.c.opens, 1);
	assert_int_equal(r.s.opens, 1);
	assert_string_equal(r.c.protocol, "v1");
	assert_string_equal(r.s.protocol, "v1");
	assert_true(ws_conn_send(r.c.ws, true, STR("hello")));
	assert_true(ws_conn_send(r.c.ws, false, (struct str){ big, WS_MESSAGE_MAX }));
	for (int i = 0; i < 100 && r.c.messages < 2; i++)
		wire_turn(&r.w);
	assert_int_equal(r.c.messages, 2);
	assert_memory_equal(r.c.said.p, "thello;bmmmm", 12);
	assert_int_equal(r.c.said.n, 7 + 2 + WS_MESSAGE_MAX);
	wire_wait(&r.w, 30000); /* both ping, both answer */
	wire_wait(&r.w, 30000);
	wire_wait(&r.w, 30000);
	assert_int_equal(r.c.closes + r.s.closes, 0);
	ws_conn_close(r.c.ws, 4321, STR("goodbye"));
	wire_turn(&r.w);
	assert_int_equal(r.c.closes, 1);
	assert_int_equal(r.c.code, 4321);
	assert_int_equal(r.s.closes, 1);
	assert_int_equal(r.s.code, 4321);
	assert_string_equal(r.s.reason, "goodbye");
	rig_close(&r);
}

static void a_connection_can_be_cancelled_or_closed_in_every_callback(void **state)
{
	(void)state;
	for (int when = ON_OPEN; when <= ON_MESSAGE; when++) {
		for (int how = 0; how < 4; how++) {
			struct rig r;
			struct end *x;

			rig_open(&r);
			x = how % 2 ? &r.s : &r.c;
			r.s.echoes = true;
			*(how / 2 ? &x->closes_on : &x->cancels) = (enum when)when;
			connect_client(&r);
			if (r.c.ws)
				(void)ws_conn_send(r.c.ws, true, STR("x"));
			wire_turn(&r.w);
			assert_int_equal(x->closes, how / 2);
			assert_int_equal(how % 2 ? r.c.closes : r.s.closes, 1);
			rig_close(&r);
		}
	}
}

static void a_connection_can_be_cancelled_before_it_is_open(void **state)
{
	struct ws_target target = { .target = STR("/ws"), .host = STR("h") };
	struct err e = { 0 };
	struct rig r;

	(void)state;
	rig_open(&r);
	ws_conn_cancel(ws_conn_connect(r.client, r.w.loop, &target, &r.client_options, &ops, &r.c, &e));
	connect_client(&r);
	assert_int_equal(r.c.opens, 1);
	target.target = STR("no path");
	assert_null(ws_conn_connect(r.client, r.w.loop, &target, &r.client_options, &ops, &r.c, &e));
	target.n_headers = HTTP_HEADERS_MAX;
	assert_null(ws_conn_connect(r.client, r.w.loop, &target, &r.client_options, &ops, &r.c, &e));
	rig_close(&r);
}

static int cancel_at_once(struct request *rq, struct reply *rp, struct err *e)
{
	struct ws_conn *ws;
	int n = ws_conn_accept(rq, rp, &WS_OPTIONS, &ops, rq->ctx, &ws, e);

	ws_conn_cancel(ws);
	return n;
}

static void an_accepted_connection_can_be_cancelled_before_its_answer_is_sent(void **state)
{
	static const struct route routes[] = { { "GET", "/ws", cancel_at_once, 0, 0 }, { 0 } };
	struct end nobody = { 0 };
	struct http_service service = { .routes = routes, .ctx = &nobody };
	struct err e = { 0 };
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct rig r;
	struct http_server *s;
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	socklen_t n = sizeof(sa);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), c;

	(void)state;
	rig_open(&r);
	s = http_server_new(r.w.loop, &service, &HTTP_LIMITS, &e);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa_family_t)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &n), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(http_server_listen(s, &fd, NULL, &e), 0);
	c = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(connect(c, (struct sockaddr *)&sa, n), 0);
	assert_true(send(c, HANDSHAKE "\r\n", sizeof(HANDSHAKE "\r\n") - 1, 0) > 0);
	assert_true(wire_hear(&r.w, c, &b)); /* the connection is cut */
	assert_int_equal(nobody.opens + nobody.closes, 0);
	(void)close(c);
	http_server_free(s);
	rig_close(&r);
}

/* ---- servers that misbehave ---- */

struct script {
	int far;
};

static int script_begin(struct http_dial *d, void *arg, struct err *e)
{
	(void)e;
	http_dial_done(d, wire_transport(&((struct script *)arg)->far), NULL);
	return 0;
}

static void script_cancel(struct http_dial *d, void *arg)
{
	(void)d;
	(void)arg;
}

static void an_answer_that_is_no_handshake_is_a_close(void **state)
{
	static const struct {
		const char *answer, *why;
	} table[] = {
		{ "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", "the server answered with status 403" },
		{ "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: tunnel\r\n\r\n", "the server upgraded to something else" },
		{ "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n", "the server's answer belongs to another request" },
		{ "nonsense\r\n\r\n", "bad response: a status line without an HTTP version" },
	};
	static const struct http_dialer dialer = { script_begin, script_cancel };
	struct http_client_options options = HTTP_CLIENT_OPTIONS;
	struct ws_target target = { .target = STR("/ws"), .host = STR("h") };
	struct script script = { .far = -1 };
	struct err e = { 0 };

	(void)state;
	options.dialer = &dialer;
	options.dialer_arg = &script;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct end x = { 0 };
		struct http_client *c;
		struct wire w;

		wire_open(&w);
		c = http_client_new(w.loop, &options, &e);
		x.ws = ws_conn_connect(c, w.loop, &target, &WS_OPTIONS, &ops, &x, &e);
		assert_non_null(x.ws);
		wire_turn(&w);
		wire_say(&w, script.far, str_of(table[i].answer));
		wire_turn(&w);
		assert_int_equal(x.closes, 1);
		assert_int_equal(x.opens, 0);
		assert_int_equal(x.code, WS_CLOSE_ABNORMAL);
		assert_string_equal(x.reason, table[i].why);
		http_client_free(c);
		(void)close(script.far);
		wire_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_handshake_opens_and_messages_go_both_ways),
		cmocka_unit_test(bad_handshakes_are_answered_and_call_nobody),
		cmocka_unit_test(a_protocol_is_chosen_from_repeated_headers),
		cmocka_unit_test(frames_that_come_with_the_handshake_are_heard),
		cmocka_unit_test(a_peer_that_vanishes_while_opening_is_a_close),
		cmocka_unit_test(the_peer_may_close),
		cmocka_unit_test(we_may_close_and_the_queue_goes_first),
		cmocka_unit_test(a_peer_that_does_not_close_is_not_waited_for),
		cmocka_unit_test(an_end_without_a_close_frame_is_abnormal),
		cmocka_unit_test(broken_rules_close_with_their_code),
		cmocka_unit_test(pings_are_answered_up_to_fifty_a_second),
		cmocka_unit_test(silence_is_probed_and_then_the_end),
		cmocka_unit_test(a_peer_that_does_not_read_holds_the_producer_back_and_then_ends),
		cmocka_unit_test(a_message_above_the_ceiling_is_our_own_mistake),
		cmocka_unit_test(a_paused_connection_is_not_read_and_loses_nothing),
		cmocka_unit_test(a_pause_in_the_middle_of_a_packet_keeps_the_rest),
		cmocka_unit_test(client_and_server_exchange_messages_and_close),
		cmocka_unit_test(a_connection_can_be_cancelled_or_closed_in_every_callback),
		cmocka_unit_test(a_connection_can_be_cancelled_before_it_is_open),
		cmocka_unit_test(an_accepted_connection_can_be_cancelled_before_its_answer_is_sent),
		cmocka_unit_test(an_answer_that_is_no_handshake_is_a_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
