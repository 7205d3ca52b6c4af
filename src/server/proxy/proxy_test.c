// SPDX-License-Identifier: Apache-2.0
/* Requests and WebSockets through the endpoint proxy; the test plays the sandbox. */
#include "server/model/test_plane.h"

#include "access/attempts.h"
#include "net/ws/ws_handshake.h"
#include "server/config/config.h"
#include "server/proxy/proxy.h"

#include "base/banned.h"

#define WS_KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define WS_HEADERS \
	"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " WS_KEY "\r\n"
#define WS_ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

static struct rig rig;
static char id[UUID_LEN + 1];

/* A connection without "Connection: close", and a path below the sandbox's proxy. */
static int send_raw(struct rig *r, struct port *p, const char *method, const char *rest, const char *headers)
{
	AUTO(buf_done) struct buf text = BUF_INIT(65536);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)r;
	assert_int_equal(connect(fd, (struct sockaddr *)&p->addr, p->addr_len), 0);
	buf_addf(&text, "%s /sandboxes/%s/proxy/%s HTTP/1.1\r\nHost: server:8080\r\n%s\r\n", method, id, rest, headers);
	assert_int_equal(send(fd, text.p, text.n, MSG_NOSIGNAL), text.n);
	return fd;
}

/* What has arrived at FD, until it contains PART. */
static const char *read_until(struct rig *r, int fd, const char *part)
{
	static char text[1 << 18];
	size_t n = 0;

	text[0] = '\0';
	for (int turns = 0; turns < TURNS && !strstr(text, part); turns++) {
		ssize_t got = recv(fd, text + n, sizeof(text) - 1 - n, MSG_DONTWAIT);

		if (got > 0)
			n += (size_t)got;
		else
			assert_int_equal(loop_turn(r->loop, 1, &r->e), 0);
		text[n] = '\0';
	}
	has(text, part);
	return text;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static int far(struct rig *r, unsigned i)
{
	RIG_WAIT(r, r->fake.n_far > i);
	return r->fake.far[i];
}

static void start(struct rig *r)
{
	rig_start(r);
	rig_create(r, ",\"timeout\":600,\"extensions\":{\"access.renew.extend.seconds\":\"3600\"}", id);
}

static void a_request_is_rebuilt_and_its_path_is_not(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(4096);
	struct rig *r = &rig;
	const char *text, *place;
	int fd;

	(void)state;
	start(r);
	fd = send_raw(r, &r->api, "GET", "8000/a%2Fb//../c;x?q=%20&", "Connection: close\r\nCookie: a=b\r\nX-A: 1\r\nX-A: 2\r\n");
	text = read_until(r, far(r, 0), "\r\n\r\n");
	has(text, "GET /a%2Fb//../c;x?q=%20& HTTP/1.1\r\nHost: localhost:8000\r\nX-A: 1\r\nX-A: 2\r\n"
		  "X-Forwarded-Proto: http\r\nX-Forwarded-Host: server:8080\r\n");
	lacks(text, "Cookie");
	say(far(r, 0), "HTTP/1.1 203 Fine\r\nContent-Length: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nAlt-Svc: x\r\n"
		       "X-Request-ID: mine\r\nDate: never\r\n\r\nhi");
	text = rig_receive(r, fd);
	has(text, "HTTP/1.1 203 ");
	place = arena_printf(&a, "Set-Cookie: a=1; Path=/sandboxes/%s/proxy/8000/a%%2Fb//..\r\nSet-Cookie: b=2; Path=/sandboxes/", id);
	has(text, place);
	has(text, "\r\nContent-Security-Policy: sandbox ");
	has(text, "\r\n\r\nhi");
	lacks(text, "Alt-Svc");
	lacks(text, "mine");
	lacks(text, "never");
	fd = send_raw(r, &r->proxy, "GET", "8000?x", "Connection: close\r\n");
	has(read_until(r, far(r, 0), "\r\n\r\n"), "GET /?x HTTP/1.1\r\n"); /* its connection was kept */
	say(far(r, 0), "HTTP/1.0 200 OK\r\n\r\nuntil the end");
	closep(&r->fake.far[0]);
	r->fake.far[0] = -1;
	has(rig_receive(r, fd), "until the end");
	lacks(r->answer, "Content-Security-Policy"); /* an origin of its own */
	fd = send_raw(r, &r->proxy, "HEAD", "8000/", "Connection: close\r\n");
	has(read_until(r, far(r, 1), "\r\n\r\n"), "HEAD / HTTP/1.1\r\n");
	say(far(r, 1), "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n");
	has(rig_receive(r, fd), "Content-Length: 1234\r\n");
	fd = send_raw(r, &r->proxy, "OPTIONS", "8000", "Connection: close\r\n");
	has(read_until(r, far(r, 1), "\r\n\r\n"), "OPTIONS / HTTP/1.1\r\n");
	say(far(r, 1), "HTTP/1.1 204 No\r\nX-Ok: 1\r\n\r\n");
	has(rig_receive(r, fd), "HTTP/1.1 204 No Content\r\nX-Ok: 1\r\n");
	rig_stop(r);
}

static void bodies_flow_both_ways(void **state)
{
	struct rig *r = &rig;
	const char *text;
	int fd;

	(void)state;
	start(r);
	fd = send_raw(r, &r->api, "POST", "80/up", "Connection: close\r\nTransfer-Encoding: chunked\r\n");
	say(fd, "3\r\nabc\r\n");
	text = read_until(r, far(r, 0), "abc");
	has(text, "Transfer-Encoding: chunked\r\n");
	say(far(r, 0), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"); /* answers while it reads */
	has(read_until(r, fd, "hi\r\n"), "Transfer-Encoding: chunked\r\n");
	say(fd, "3\r\ndef\r\n0\r\n\r\n");
	has(read_until(r, far(r, 0), "0\r\n\r\n"), "def");
	say(far(r, 0), "3\r\nyou\r\n0\r\n\r\n");
	has(read_until(r, fd, "0\r\n\r\n"), "you");
	(void)close(fd);
	fd = send_raw(r, &r->api, "PUT", "80/up", "Connection: close\r\nContent-Length: 4\r\n");
	say(fd, "body");
	has(read_until(r, far(r, 1), "body"), "Content-Length: 4\r\n");
	say(far(r, 1), "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n");
	has(rig_receive(r, fd), "HTTP/1.1 413 ");
	fd = send_raw(r, &r->api, "POST", "80/up", "Connection: close\r\n");
	has(read_until(r, far(r, 2), "\r\n\r\n"), "Content-Length: 0\r\n");
	say(far(r, 2), "HTTP/1.1 304 Same\r\nETag: x\r\n\r\n");
	has(rig_receive(r, fd), "ETag: x\r\n");
	rig_stop(r);
}

/* Sends until nobody takes any more. */
static size_t flood(struct rig *r, int fd)
{
	static const char piece[16384];
	size_t sent = 0;
	int idle = 0;

	while (idle < 20 && sent < (64 << 20)) {
		ssize_t n = send(fd, piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			sent += (size_t)n;
		idle = n > 0 ? 0 : idle + 1;
		rig_turn(r, 1);
	}
	return sent;
}

static size_t drain(struct rig *r, int fd, size_t want)
{
	static char piece[65536];
	size_t got = 0;

	for (int turns = 0; turns < 20 * TURNS && got < want; turns++) {
		ssize_t n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);

		if (n > 0)
			got += (size_t)n;
		else
			rig_turn(r, 1);
	}
	return got;
}

static void whoever_is_slow_slows_the_other(void **state)
{
	struct rig *r = &rig;
	size_t sent, got;
	int fd;

	(void)state;
	start(r);
	fd = send_raw(r, &r->api, "POST", "80/", "Content-Length: 104857600\r\n");
	(void)far(r, 0);
	sent = flood(r, fd);
	assert_in_range(sent, 65536, 4 << 20); /* what sockets and buffers hold, and no more */
	got = drain(r, far(r, 0), sent);
	assert_true(got >= sent);
	(void)close(fd);
	rig_turn(r, 10);
	fd = send_raw(r, &r->api, "GET", "80/", "");
	(void)read_until(r, far(r, 1), "\r\n\r\n");
	say(far(r, 1), "HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n");
	sent = flood(r, far(r, 1));
	assert_in_range(sent, 65536, 4 << 20);
	got = drain(r, fd, sent);
	assert_true(got >= sent);
	(void)close(fd);
	rig_turn(r, 10);
	assert_int_equal(((struct proxy_peer *)sandboxes_newest(r->plane->sandboxes)->user)->n, 0);
	rig_stop(r);
}

static void what_cannot_be_reached_is_said_so(void **state)
{
	struct rig *r = &rig;
	char token[128];
	int fd;

	(void)state;
	start(r);
	r->fake.fails[FAKE_DIAL] = 1;
	has(rig_on(r, "GET", id, "/proxy/80/", NULL), "HTTP/1.1 502 ");
	has(r->answer, "\"code\":\"GENERAL::UNKNOWN_ERROR\",\"message\":\"Could not connect to the backend sandbox: ");
	r->fake.fails[FAKE_DIAL] = 1;
	r->fake.failure.err.code = ERR_TIMEOUT;
	has(rig_on(r, "GET", id, "/proxy/80/", NULL), "HTTP/1.1 500 ");
	has(r->answer, "An internal error occurred in the proxy");
	has(rig_on(r, "GET", id, "/proxy/0/", NULL), "NATIVE::INVALID_PORT");
	has(rig_on(r, "GET", "none", "/proxy/80/", NULL), "NATIVE::SANDBOX_NOT_FOUND");
	has(rig_on(r, "GET", id, "/proxy/x/", NULL), "HTTP/1.1 422 ");
	fd = send_raw(r, &r->api, "GET", "80/", "Connection: close\r\n");
	(void)read_until(r, far(r, 0), "\r\n\r\n");
	say(far(r, 0), "HTTP/1.1 banana\r\n\r\n");
	has(rig_receive(r, fd), "HTTP/1.1 500 ");
	fd = send_raw(r, &r->api, "GET", "80/", "Connection: close\r\n");
	(void)read_until(r, far(r, 1), "\r\n\r\n");
	say(far(r, 1), "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
	(void)read_until(r, fd, "half");
	closep(&r->fake.far[1]);
	r->fake.far[1] = -1;
	(void)rig_receive(r, fd); /* and cut */
	has(rig_on(r, "GET", id, "/proxy/44772/ping", NULL), "HTTP/1.1 401 ");
	has(rig_on(r, "GET", id, "/proxy/18080/policy", NULL), "HTTP/1.1 401 ");
	has(rig_on(r, "GET", id, "/endpoints/18080", NULL), "OPENSANDBOX-EGRESS-AUTH");
	(void)snprintf(token, sizeof(token), "Connection: close\r\nOPENSANDBOX-EGRESS-AUTH: %.64s\r\n",
		       strstr(r->answer, "EGRESS-AUTH\":\"") + 14);
	has(rig_receive(r, send_raw(r, &r->api, "GET", "18080/policy", token)), "the sandbox has no network");
	has(rig_on(r, "POST", id, "/pause", NULL), "202");
	has(rig_on(r, "GET", id, "/proxy/80/", NULL), "NATIVE::SANDBOX_NOT_RUNNING");
	rig_stop(r);
}

static void headers_beyond_measure_are_not_passed(void **state)
{
	AUTO(buf_done) struct buf text = BUF_INIT(65536);
	struct rig *r = &rig;
	int fd;

	(void)state;
	start(r);
	fd = send_raw(r, &r->api, "GET", "80/", "Connection: close\r\n");
	(void)read_until(r, far(r, 0), "\r\n\r\n");
	buf_addf(&text, "HTTP/1.1 200 OK\r\nX: %016000d\r\nContent-Length: 0\r\n\r\n", 1);
	say(far(r, 0), text.p);
	has(rig_receive(r, fd), "HTTP/1.1 502 ");
	buf_clear(&text);
	buf_addf(&text, "Connection: close\r\n");
	for (int i = 0; i < 97; i++)
		buf_addf(&text, "A: b\r\n");
	has(rig_receive(r, send_raw(r, &r->api, "GET", "80/", text.p)), "HTTP/1.1 431 ");
	rig_stop(r);
}

static void execd_is_asked_with_its_token_on_kept_connections(void **state)
{
	struct rig *r = &rig;
	char headers[256];

	(void)state;
	start(r);
	(void)snprintf(headers, sizeof(headers), "Connection: close\r\n" AUTH "X-EXECD-ACCESS-TOKEN: %s\r\n", r->fake.token);
	for (int i = 0; i < 3; i++) {
		int fd = send_raw(r, i & 1 ? &r->proxy : &r->api, "GET", "44772/ping", headers);
		const char *text = read_until(r, far(r, 0), "\r\n\r\n");

		has(text, "GET /ping HTTP/1.1\r\nHost: localhost:44772\r\nX-EXECD-ACCESS-TOKEN: ");
		lacks(text, "OPEN-SANDBOX-API-KEY");
		say(far(r, 0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
		has(rig_receive(r, fd), "HTTP/1.1 200 ");
	}
	assert_int_equal(r->fake.n_far, 1);
	headers[strlen(headers) - 3] ^= 1; /* almost right */
	has(rig_receive(r, send_raw(r, &r->api, "GET", "44772/ping", headers)), "HTTP/1.1 401 ");
	rig_stop(r);
}

static void a_client_that_leaves_ends_the_call(void **state)
{
	struct rig *r = &rig;
	int fd;

	(void)state;
	start(r);
	fd = send_raw(r, &r->api, "GET", "80/", "");
	(void)read_until(r, far(r, 0), "\r\n\r\n");
	(void)close(fd);
	RIG_WAIT(r, recv(r->fake.far[0], &(char){ 0 }, 1, MSG_DONTWAIT) == 0);
	r->fake.holds = true;
	fd = send_raw(r, &r->api, "POST", "80/", "Content-Length: 5\r\n");
	RIG_WAIT(r, r->fake.count[FAKE_DIAL] == 2);
	(void)close(fd); /* while it is being dialled */
	rig_turn(r, 10);
	r->fake.holds = false;
	fake_release(&r->fake);
	RIG_WAIT(r, recv(far(r, 1), &(char){ 0 }, 1, MSG_DONTWAIT) == 0);
	r->fake.holds = true;
	fd = send_raw(r, &r->api, "GET", "80/", "");
	RIG_WAIT(r, r->fake.count[FAKE_DIAL] == 3);
	rig_stop(r); /* the same at the end of the server */
	(void)close(fd);
}

static void a_sandbox_that_goes_takes_its_calls_along(void **state)
{
	struct rig *r = &rig;
	int waiting, begun, ws;

	(void)state;
	start(r);
	waiting = send_raw(r, &r->api, "GET", "80/", "Connection: close\r\n");
	(void)read_until(r, far(r, 0), "\r\n\r\n");
	begun = send_raw(r, &r->api, "GET", "80/", "Connection: close\r\n");
	(void)read_until(r, far(r, 1), "\r\n\r\n");
	say(far(r, 1), "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart");
	(void)read_until(r, begun, "part");
	ws = send_raw(r, &r->api, "GET", "80/", WS_HEADERS);
	(void)read_until(r, far(r, 2), "\r\n\r\n");
	say(far(r, 2), "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " WS_ACCEPT "\r\n\r\n");
	(void)read_until(r, ws, "\r\n\r\n");
	has(rig_on(r, "DELETE", id, "", NULL), "HTTP/1.1 204 ");
	has(rig_receive(r, waiting), "HTTP/1.1 502 ");
	lacks(rig_receive(r, begun), "HTTP/1.1");
	RIG_WAIT(r, recv(ws, &(char){ 0 }, 1, MSG_DONTWAIT) == 0);
	(void)close(ws);
	rig_stop(r);
}

static void websockets_are_relayed_as_bytes(void **state)
{
	struct rig *r = &rig;
	const char *text;
	int fd;

	(void)state;
	start(r);
	fd = send_raw(r, &r->api, "GET", "9000/ws?x=1", WS_HEADERS "Sec-WebSocket-Protocol: chat, other\r\nOrigin: http://o\r\n");
	text = read_until(r, far(r, 0), "\r\n\r\n");
	has(text, "GET /ws?x=1 HTTP/1.1\r\n");
	has(text, "Upgrade: websocket\r\n");
	has(text, "Sec-WebSocket-Key: " WS_KEY "\r\n");
	has(text, "Sec-WebSocket-Protocol: chat, other\r\n");
	has(text, "Origin: http://o\r\n");
	say(far(r, 0), "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " WS_ACCEPT
		       "\r\nSec-WebSocket-Protocol: chat\r\n\r\nearly");
	text = read_until(r, fd, "early");
	has(text, "HTTP/1.1 101 ");
	has(text, "Sec-WebSocket-Accept: " WS_ACCEPT "\r\n");
	has(text, "Sec-WebSocket-Protocol: chat\r\n");
	say(fd, "\x81\x85 up");
	(void)read_until(r, far(r, 0), " up");
	say(far(r, 0), "down");
	(void)read_until(r, fd, "down");
	closep(&r->fake.far[0]);
	r->fake.far[0] = -1;
	RIG_WAIT(r, recv(fd, &(char){ 0 }, 1, MSG_DONTWAIT) == 0);
	(void)close(fd);
	rig_turn(r, 5);
	assert_null(r->plane->tunnels.first);
	fd = send_raw(r, &r->api, "GET", "9000/ws", WS_HEADERS);
	(void)read_until(r, far(r, 1), "\r\n\r\n");
	rig_stop(r); /* one that waits for its answer */
	(void)close(fd);
}

/* A close frame with this code and the start of this reason, after the handshake. */
static void closes_with(struct rig *r, int fd, unsigned code, const char *reason)
{
	char frame[64] = "";
	const char *text;

	(void)snprintf(frame, sizeof(frame), "%c%c%s", (char)(code >> 8), (char)(code & 0xff), reason);
	text = read_until(r, fd, frame);
	has(text, "HTTP/1.1 101 ");
	(void)close(fd);
	rig_turn(r, 5);
	rig_pass(r, 10000);
	rig_turn(r, 5);
	assert_null(r->plane->tunnels.first);
}

static void websockets_that_fail_are_closed_with_a_reason(void **state)
{
	struct rig *r = &rig;
	char other[UUID_LEN + 1];

	(void)state;
	start(r);
	r->fake.fails[FAKE_DIAL] = 1;
	closes_with(r, send_raw(r, &r->api, "GET", "90/", WS_HEADERS), 1011, "Could not connect");
	{
		int fd = send_raw(r, &r->api, "GET", "90/", WS_HEADERS);

		(void)read_until(r, far(r, 0), "\r\n\r\n");
		say(far(r, 0), "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
		closes_with(r, fd, 1008, "the sandbox refused");
	}
	{
		int fd = send_raw(r, &r->api, "GET", "90/", WS_HEADERS);

		(void)read_until(r, far(r, 1), "\r\n\r\n");
		say(far(r, 1), "HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: wrong\r\n\r\n");
		closes_with(r, fd, 1011, "the sandbox's answer");
	}
	has(rig_receive(r, send_raw(r, &r->api, "GET", "44772/x", "Connection: close\r\n" WS_HEADERS)), "HTTP/1.1 401 ");
	has(rig_receive(r, send_raw(r, &r->api, "GET", "90/x", "Connection: close\r\nUpgrade: websocket\r\n")), "HTTP/1.1 400 ");
	memcpy(other, id, sizeof(id));
	memcpy(id, "00000000", 8);
	closes_with(r, send_raw(r, &r->api, "GET", "90/", WS_HEADERS), 1011, "sandbox not found");
	memcpy(id, other, sizeof(id));
	has(rig_on(r, "POST", id, "/pause", NULL), "202");
	closes_with(r, send_raw(r, &r->api, "GET", "90/", WS_HEADERS), 1011, "sandbox '");
	rig_stop(r);
}

static void using_a_sandbox_extends_its_life(void **state)
{
	struct rig *r = &rig;
	const struct sandbox *sb;
	int64_t first;

	(void)state;
	start(r);
	sb = sandboxes_newest(r->plane->sandboxes);
	first = sb->row.expires_us;
	r->fake.fails[FAKE_DIAL] = 2;
	(void)rig_on(r, "GET", id, "/proxy/80/", NULL);
	RIG_WAIT(r, sb->row.expires_us == r->wall_us + INT64_C(3600) * 1000000);
	assert_true(sb->row.expires_us > first);
	first = sb->row.expires_us;
	rig_pass(r, 30000);
	(void)rig_on(r, "GET", id, "/proxy/80/", NULL);
	rig_turn(r, 20);
	assert_int_equal(sb->row.expires_us, first); /* not more than once a minute */
	rig_stop(r);
}

/* A sandbox that wants its token, or a signed route: at the proxy's port, which has an active key. */
static void secured(struct rig *r, char token[SANDBOX_TOKEN_LEN + 1])
{
	static struct config_access_key keys[] = { { "k", "MDEyMzQ1Njc4OWFiY2RlZg" } };
	static const struct config_ingress ingress = {
		.has_secure_access = true, .secure_access = { .active_key = "k", .keys = { keys, 1 }, .max_ttl_seconds = 86400 },
	};
	const char *p;

	rig_start(r);
	r->plane->spec.ingress = &ingress;
	assert_int_equal(route_keys_add(&r->plane->keys, 'k', str_of(keys[0].key), &r->e), 0);
	rig_create(r, ",\"secureAccess\":true", id);
	has(rig_on(r, "GET", id, "/endpoints/80", NULL), "\"headers\":{\"OpenSandbox-Secure-Access\":\"");
	p = strstr(r->answer, "Access\":\"") + 9;
	memcpy(token, p, SANDBOX_TOKEN_LEN);
	token[SANDBOX_TOKEN_LEN] = '\0';
}

static void a_secured_sandbox_wants_its_token(void **state)
{
	struct rig *r = &rig;
	char token[SANDBOX_TOKEN_LEN + 1], headers[256];
	int fd;

	(void)state;
	secured(r, token);
	has(rig_on(r, "GET", id, "/proxy/80/", NULL), "HTTP/1.1 401 ");
	has(r->answer, "\"SECURE_ACCESS_DENIED\",\"message\":\"signature: signature required for this sandbox\"");
	(void)snprintf(headers, sizeof(headers), "Connection: close\r\nOpenSandbox-Secure-Access: %s\r\n", token);
	for (int i = 0; i < 2; i++) {
		fd = send_raw(r, i ? &r->api : &r->proxy, "GET", "80/", headers);
		lacks(read_until(r, far(r, 0), "\r\n\r\n"), token); /* it is not for whoever listens there */
		say(far(r, 0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
		has(rig_receive(r, fd), "HTTP/1.1 200 ");
	}
	headers[strlen(headers) - 3] ^= 1;
	for (int i = 0; i < ATTEMPTS_PEER_MAX; i++)
		has(rig_receive(r, send_raw(r, &r->proxy, "GET", "80/", headers)), "secure access header mismatch");
	has(rig_receive(r, send_raw(r, &r->proxy, "GET", "80/", headers)), "HTTP/1.1 429 ");
	has(r->answer, "Retry-After: 60\r\n");
	headers[strlen(headers) - 3] ^= 1;
	has(rig_receive(r, send_raw(r, &r->proxy, "GET", "80/", headers)), "HTTP/1.1 429 "); /* a right guess is no news to a guesser */
	rig_pass(r, ATTEMPTS_WINDOW_MS);
	fd = send_raw(r, &r->proxy, "GET", "80/", headers);
	(void)read_until(r, far(r, 1), "\r\n\r\n");
	(void)close(fd);
	rig_stop(r);
}

static int send_path(struct port *p, const char *path, const char *headers)
{
	AUTO(buf_done) struct buf line = BUF_INIT(1024);

	buf_addf(&line, "GET %s", path);
	return rig_send(p, line.p, headers, NULL);
}

static void a_signed_endpoint_leads_in_until_it_expires(void **state)
{
	struct rig *r = &rig;
	char token[SANDBOX_TOKEN_LEN + 1], path[256];
	char *end;
	int fd;

	(void)state;
	secured(r, token);
	has(rig_on(r, "GET", id, "/endpoints/80?expires=1780003600", NULL), "\"endpoint\":\"127.0.0.1:8081/");
	lacks(r->answer, "headers");
	(void)snprintf(path, sizeof(path), "%s", strstr(r->answer, ":8081/") + 5);
	end = strchr(path, '"');
	(void)snprintf(end, 16, "/x?y");
	fd = send_path(&r->proxy, path, "");
	has(read_until(r, far(r, 0), "\r\n\r\n"), "GET /x?y HTTP/1.1\r\n");
	say(far(r, 0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	has(rig_receive(r, fd), "HTTP/1.1 200 ");
	has(rig_receive(r, send_path(&r->proxy, path, "OpenSandbox-Secure-Access: no\r\n")), "HTTP/1.1 401 ");
	has(rig_receive(r, send_path(&r->api, path, AUTH)), "HTTP/1.1 404 "); /* not on the API's origin */
	path[UUID_LEN + 3] ^= 1; /* another port */
	has(rig_receive(r, send_path(&r->proxy, path, "")), "signature: unauthorized: signature mismatch");
	path[UUID_LEN + 3] ^= 1;
	rig_pass(r, UINT64_C(3601) * 1000);
	has(rig_receive(r, send_path(&r->proxy, path, "")), "signature: access expired");
	has(rig_on(r, "GET", id, "/endpoints/80?expires=1780200000", NULL), "at most 86400 seconds");
	rig_stop(r);
}

static void gateways_are_known_by_the_key(void **state)
{
	struct rig *r = &rig;
	char token[SANDBOX_TOKEN_LEN + 1];
	const char *text;
	int fd;

	(void)state;
	secured(r, token);
	has(rig_on(r, "GET", id, "/route", NULL), "\"isReady\":true,\"proxyPort\":8081,\"secureAccessToken\":\"");
	has(rig_receive(r, send_raw(r, &r->proxy, "GET", "80/", "Connection: close\r\nOpenSandbox-Gateway: 1\r\n")), "HTTP/1.1 401 ");
	fd = send_raw(r, &r->proxy, "GET", "80/", "Connection: close\r\nOpenSandbox-Gateway: 1\r\n" AUTH
		      "Cookie: a=b\r\nAuthorization: x\r\nX-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Host: a.test\r\nOrigin: http://o\r\n");
	text = read_until(r, far(r, 0), "\r\n\r\n");
	has(text, "Cookie: a=b\r\nAuthorization: x\r\nX-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Host: a.test\r\nOrigin: http://o\r\n\r\n");
	lacks(text, KEY);
	lacks(text, "OpenSandbox-Gateway");
	say(far(r, 0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nAccess-Control-Allow-Origin: http://o\r\n\r\n");
	has(rig_receive(r, fd), "Access-Control-Allow-Origin: http://o\r\n");
	fd = send_raw(r, &r->api, "GET", "80/", "Connection: close\r\nOpenSandbox-Gateway: 1\r\n" AUTH);
	has(rig_receive(r, fd), "HTTP/1.1 401 "); /* only on the proxy's port */
	rig_stop(r);
}

static void long_streams_extend_its_life(void **state)
{
	struct rig *r = &rig;
	const struct sandbox *sb;
	int64_t first;
	int fd;

	(void)state;
	start(r);
	sb = sandboxes_newest(r->plane->sandboxes);
	fd = send_raw(r, &r->api, "GET", "80/", "Connection: close\r\n");
	(void)read_until(r, far(r, 0), "\r\n\r\n");
	say(far(r, 0), "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
	(void)read_until(r, fd, "data: 1");
	rig_pass(r, PROXY_LOOK_MS + 1);
	rig_turn(r, 20);
	first = sb->row.expires_us;
	rig_pass(r, 600000);
	rig_turn(r, 20);
	assert_int_equal(sb->row.expires_us, first); /* nothing has moved */
	say(far(r, 0), "data: 2\n\n");
	(void)read_until(r, fd, "data: 2");
	rig_pass(r, PROXY_LOOK_MS + 1);
	RIG_WAIT(r, sb->row.expires_us > first);
	(void)close(fd);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_rebuilt_and_its_path_is_not),
		cmocka_unit_test(bodies_flow_both_ways),
		cmocka_unit_test(whoever_is_slow_slows_the_other),
		cmocka_unit_test(what_cannot_be_reached_is_said_so),
		cmocka_unit_test(headers_beyond_measure_are_not_passed),
		cmocka_unit_test(execd_is_asked_with_its_token_on_kept_connections),
		cmocka_unit_test(a_client_that_leaves_ends_the_call),
		cmocka_unit_test(a_sandbox_that_goes_takes_its_calls_along),
		cmocka_unit_test(websockets_are_relayed_as_bytes),
		cmocka_unit_test(websockets_that_fail_are_closed_with_a_reason),
		cmocka_unit_test(using_a_sandbox_extends_its_life),
		cmocka_unit_test(a_secured_sandbox_wants_its_token),
		cmocka_unit_test(a_signed_endpoint_leads_in_until_it_expires),
		cmocka_unit_test(gateways_are_known_by_the_key),
		cmocka_unit_test(long_streams_extend_its_life),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
