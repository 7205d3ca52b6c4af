// SPDX-License-Identifier: Apache-2.0
/* A static program without libraries: what will run inside of sandboxes works there. It answers a request over a
 * unix socket, with JSON in and out, takes a WebSocket frame apart, and says so. */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/json.h"
#include "base/json_out.h"
#include "net/http/server.h"
#include "net/loop.h"
#include "net/ws/websocket.h"

#include "base/banned.h"

static int double_it(struct request *rq, struct reply *rp, struct err *e)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct json_out o = json_out(&b);
	const struct json *v = request_json(rq, e);

	if (!v)
		return -1;
	json_open(&o, '{');
	json_key(&o, "doubled"), json_int(&o, json_get(v, "n")->i * 2);
	json_close(&o, '}');
	return reply_json(rp, 200, &b);
}

static const struct route routes[] = {
	{ "POST", "/double", double_it, 0, 4096 },
	{ 0 },
};

static int listen_somewhere(struct sockaddr_un *a, socklen_t *len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	*len = sizeof(*a);
	if (fd < 0 || bind(fd, (struct sockaddr *)a, sizeof(sa_family_t)) < 0 ||
	    getsockname(fd, (struct sockaddr *)a, len) < 0 || listen(fd, 8) < 0)
		return -1;
	return fd;
}

static bool serves_json(void)
{
	static const char request[] = "POST /double HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n{\"n\":21}";
	struct http_service service = { .routes = routes };
	struct err e = { 0 };
	AUTO(loop_free) struct loop *l = loop_new(&e);
	AUTO(http_server_free) struct http_server *s = l ? http_server_new(l, &service, &HTTP_LIMITS, &e) : NULL;
	AUTO_FD client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;
	socklen_t len;
	int fd = listen_somewhere(&a, &len);
	char answer[1024] = { 0 };

	if (!s || http_server_listen(s, &fd, NULL, &e) < 0 || connect(client, (struct sockaddr *)&a, len) < 0 ||
	    send(client, request, sizeof(request) - 1, 0) < 0)
		return false;
	for (int i = 0; i < 10; i++)
		if (loop_turn(l, 0, &e) < 0)
			return false;
	return recv(client, answer, sizeof(answer) - 1, 0) > 0 && strstr(answer, "\r\n\r\n{\"doubled\":42}");
}

static bool frames_websockets(void)
{
	AUTO(buf_done) struct buf wire = BUF_INIT(4096);
	AUTO(ws_decoder_done) struct ws_decoder d;
	struct ws_event ev;
	struct str in;

	ws_decoder_init(&d, WS_SERVER, WS_MESSAGE_MAX);
	if (!ws_encode(&wire, WS_TEXT, true, STR("hello"), (const uint8_t[]){ 1, 2, 3, 4 }))
		return false;
	in = buf_str(&wire);
	return ws_decode(&d, &in, &ev) == WS_EVENT_MESSAGE && str_eq(ev.data, STR("hello"));
}

int main(void)
{
	bool ok = serves_json() && frames_websockets();

	puts(ok ? "ok" : "failed");
	return ok ? 0 : 1;
}
