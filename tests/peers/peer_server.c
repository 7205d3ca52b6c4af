// SPDX-License-Identifier: Apache-2.0
/* peer-server DIRECTORY [CERT KEY] - src/net behind a real socket, for programs that we did not write to talk to: curl,
 * a browser, websockets for Python. Prints its port, then what a page reports; ends with its standard input. */
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/json_out.h"
#include "base/sha256.h"
#include "net/http/multipart.h"
#include "net/http/range.h"
#include "net/http/server.h"
#include "net/http/sse.h"
#include "net/loop.h"
#include "net/tls.h"
#include "net/transport.h"
#include "net/ws/ws_conn.h"

#include "base/banned.h"

#define EVENTS 1000

struct peer {
	struct loop *loop;
	int dir;
};

/* ---- POST /upload: what a multipart body consists of ---- */

struct upload {
	struct reply *rp;
	struct multipart *parser;
	struct buf json;
	struct json_out out;
	struct sha256 sum;
	uint64_t size;
};

static void upload_free(struct upload *u)
{
	multipart_free(u->parser);
	buf_done(&u->json);
	free(u);
}

static int part_begin(void *arg, const struct multipart_part *part, struct err *e)
{
	struct upload *u = arg;

	(void)e;
	json_open(&u->out, '{');
	json_key(&u->out, "name"), json_str(&u->out, part->name);
	if (part->has_filename)
		json_key(&u->out, "filename"), json_str(&u->out, part->filename);
	json_key(&u->out, "type"), json_str(&u->out, part->content_type);
	sha256_init(&u->sum);
	u->size = 0;
	return 0;
}

static int part_data(void *arg, struct str data, struct err *e)
{
	struct upload *u = arg;

	(void)e;
	sha256_add(&u->sum, data.p, data.n);
	u->size += data.n;
	return 0;
}

static int part_end(void *arg, struct err *e)
{
	struct upload *u = arg;
	unsigned char digest[SHA256_SIZE];
	char hex[2 * SHA256_SIZE + 1];

	(void)e;
	sha256_end(&u->sum, digest);
	hex_encode(hex, digest, sizeof(digest));
	json_key(&u->out, "size"), json_uint(&u->out, u->size);
	json_key(&u->out, "sha256"), json_cstr(&u->out, hex);
	json_close(&u->out, '}');
	return 0;
}

static int upload_data(struct str piece, void *arg, struct err *e)
{
	struct upload *u = arg;

	if (multipart_feed(u->parser, piece, e) == 0)
		return 0;
	upload_free(u);
	return -1;
}

static int upload_end(void *arg, struct err *e)
{
	struct upload *u = arg;
	int r = multipart_finish(u->parser, e);

	json_close(&u->out, ']');
	if (r == 0)
		r = reply_json(u->rp, 200, &u->json);
	upload_free(u);
	return r;
}

static void upload_stop(void *arg)
{
	upload_free(arg);
}

static int upload(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct multipart_ops ops = { part_begin, part_data, part_end };
	static const struct body_sink sink = { .data = upload_data, .end = upload_end, .stop = upload_stop };
	struct upload *u = calloc(1, sizeof(*u));

	if (!u)
		return err_no_memory(e);
	u->rp = rp;
	u->json = BUF_INIT(16 << 20);
	u->out = json_out(&u->json);
	u->parser = multipart_new(request_header(rq, "Content-Type"), &ops, u, e);
	if (!u->parser) {
		upload_free(u);
		return -1;
	}
	json_open(&u->out, '[');
	request_read(rq, &sink, u);
	return 0;
}

/* ---- POST /echo: the body comes back while it is still arriving ---- */

struct echo {
	struct request *rq;
	struct reply *rp;
};

static int echo_data(struct str piece, void *arg, struct err *e)
{
	struct echo *x = arg;

	(void)e;
	reply_write(x->rp, piece);
	if (reply_room(x->rp) == 0)
		request_pause(x->rq);
	return 0;
}

static int echo_end(void *arg, struct err *e)
{
	struct echo *x = arg;

	(void)e;
	reply_end(x->rp);
	free(x);
	return 0;
}

static void echo_proceed(void *arg)
{
	request_resume(((struct echo *)arg)->rq);
}

static int echo(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct body_sink sink = { .data = echo_data, .end = echo_end, .stop = free };
	static const struct reply_source source = { echo_proceed, free };
	struct echo *x = calloc(1, sizeof(*x));

	if (!x)
		return err_no_memory(e);
	*x = (struct echo){ rq, rp };
	if (reply_stream(rp, 200, "application/octet-stream", REPLY_UNSIZED, &source, x, e) < 0) {
		free(x);
		return -1;
	}
	request_read(rq, &sink, x);
	return 0;
}

/* ---- GET /files/NAME, with ranges ---- */

static int file_get(struct request *rq, struct reply *rp, struct err *e)
{
	struct peer *p = rq->ctx;
	const char *name = arena_dup(rq->arena, rq->params[0]);
	AUTO_FD fd = openat(p->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	AUTO(buf_done) struct buf value = BUF_INIT(128);
	struct stat st;
	struct range r;
	uint64_t size;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_NOT_FOUND, "there is no file '%s'", name);
	size = (uint64_t)st.st_size;
	(void)reply_header(rp, "Accept-Ranges", STR("bytes"));
	switch (range_parse(request_header(rq, "Range"), size, &r)) {
	case RANGE_NONE:
		return reply_file(rp, 200, "application/octet-stream", &fd, 0, size);
	case RANGE_OK:
		(void)range_write(&value, r, size);
		(void)reply_header(rp, "Content-Range", buf_str(&value));
		return reply_file(rp, 206, "application/octet-stream", &fd, r.first, r.length);
	case RANGE_UNSATISFIABLE:
		(void)range_write_unsatisfiable(&value, size);
		(void)reply_header(rp, "Content-Range", buf_str(&value));
		break;
	case RANGE_MALFORMED:
		break;
	}
	return reply_error(rp, 416, "RANGE", "the range cannot be satisfied");
}

/* ---- GET /events ---- */

struct events {
	struct reply *rp;
	unsigned sent;
};

static void events_proceed(void *arg)
{
	struct events *x = arg;

	while (x->sent < EVENTS && reply_room(x->rp) > 0) {
		AUTO(buf_done) struct buf b = BUF_INIT(4096);
		char data[64];

		(void)snprintf(data, sizeof(data), "event %u\nof %u", x->sent++, EVENTS);
		(void)sse_event(&b, &(struct sse_event){ .data = str_of(data) });
		reply_write(x->rp, buf_str(&b));
	}
	if (x->sent == EVENTS) {
		reply_end(x->rp);
		free(x);
	}
}

static int events(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct reply_source source = { events_proceed, free };
	struct events *x = calloc(1, sizeof(*x));

	(void)rq;
	if (!x)
		return err_no_memory(e);
	x->rp = rp;
	if (reply_event_stream(rp, &source, x, e) == 0)
		return 0;
	free(x);
	return -1;
}

/* ---- GET /ws: an echo, and a page that tries it ---- */

static void ws_message(struct ws_conn *ws, bool is_text, struct str data, void *arg)
{
	(void)arg;
	if (is_text && str_eq(data, STR("close")))
		ws_conn_close(ws, 4001, STR("as you wish"));
	else if (!ws_conn_send(ws, is_text, data))
		ws_conn_close(ws, WS_CLOSE_TOO_BIG, STR("too fast"));
}

static void ws_closed(uint16_t code, struct str reason, void *arg)
{
	(void)code;
	(void)reason;
	(void)arg;
}

static int ws(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct ws_ops ops = { .on_message = ws_message, .on_close = ws_closed };
	static const char *const protocols[] = { "echo", NULL };
	struct ws_options options = WS_OPTIONS;
	struct ws_conn *conn;

	options.protocols = protocols;
	options.high_water = 4 << 20;
	return ws_conn_accept(rq, rp, &options, &ops, NULL, &conn, e);
}

static int page(struct request *rq, struct reply *rp, struct err *e)
{
	static const char html[] =
		"<!doctype html><title>waiting</title><body><script>\n"
		"let got = []; const s = new WebSocket(`ws://${location.host}/ws`, ['other', 'echo']);\n"
		"s.binaryType = 'arraybuffer';\n"
		"s.onopen = () => { s.send('gr\\u00fc\\u00df dich'); s.send(new Uint8Array(200000)); };\n"
		"s.onmessage = (m) => { got.push(typeof m.data === 'string' ? m.data : m.data.byteLength);\n"
		"  if (got.length === 2) s.send('close'); };\n"
		"s.onclose = (c) => fetch('/report', { method: 'POST',\n"
		"  body: [s.protocol, ...got, c.code, c.reason].join('|') });\n"
		"</script>";

	(void)rq;
	(void)e;
	return reply_bytes(rp, 200, "text/html; charset=utf-8", STR(html));
}

static int report(struct request *rq, struct reply *rp, struct err *e)
{
	(void)e;
	printf("%.*s\n", STR_ARG(rq->body));
	(void)fflush(stdout);
	return reply_empty(rp, 204);
}

static const struct route routes[] = {
	{ "POST", "/upload", upload, ROUTE_STREAM_IN, 1ULL << 33 },
	{ "POST", "/echo", echo, ROUTE_STREAM_IN, 1ULL << 33 },
	{ "PUT", "/echo", echo, ROUTE_STREAM_IN, 1ULL << 33 },
	{ "GET", "/files/:name", file_get, 0, 0 },
	{ "GET", "/events", events, 0, 0 },
	{ "GET", "/ws", ws, 0, 0 },
	{ "GET", "/page", page, 0, 0 },
	{ "POST", "/report", report, 0, 4096 },
	{ 0 },
};

/* ---- the program ---- */

static int listen_loopback(unsigned *ret_port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 64) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return -1;
	*ret_port = ntohs(a.sin_port);
	return fd;
}

static void on_drained(void *arg)
{
	loop_stop(arg);
}

struct running {
	struct peer peer;
	struct http_server *server;
	struct io stdin_io;
};

static void on_parent_gone(unsigned ready, void *arg)
{
	struct running *r = arg;

	(void)ready;
	io_del(&r->stdin_io);
	http_server_drain(r->server, 2000, on_drained, r->peer.loop);
}

static int run(struct running *r, struct tls_server *tls, struct err *e)
{
	static struct http_service service;
	struct transport_maker maker = { 0 };
	unsigned port = 0;
	AUTO_FD fd = listen_loopback(&port);

	service = (struct http_service){ .routes = routes, .ctx = &r->peer };
	if (tls)
		maker = tls_server_maker(tls);
	r->server = http_server_new(r->peer.loop, &service, &HTTP_LIMITS, e);
	if (!r->server || http_server_listen(r->server, &fd, &maker, e) < 0 ||
	    io_add(&r->stdin_io, r->peer.loop, 0, IO_IN, on_parent_gone, r, "standard input", e) < 0)
		return -1;
	printf("%u\n", port);
	(void)fflush(stdout);
	return loop_run(r->peer.loop, e);
}

int main(int argc, char **argv)
{
	struct running r = { 0 };
	AUTO(tls_server_free) struct tls_server *tls = NULL;
	struct err e = { 0 };
	int rc = -1;

	(void)signal(SIGPIPE, SIG_IGN);
	if (argc != 2 && argc != 4) {
		(void)fprintf(stderr, "usage: peer-server DIRECTORY [CERT KEY]\n");
		return 2;
	}
	r.peer.loop = loop_new(&e);
	r.peer.dir = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (argc == 4)
		tls = tls_server_new(&(struct tls_server_options){ .cert_path = argv[2], .key_path = argv[3] }, &e);
	if (r.peer.loop && r.peer.dir >= 0 && (argc == 2 || tls))
		rc = run(&r, tls, &e);
	if (rc < 0)
		(void)fprintf(stderr, "peer-server: %s\n", e.msg);
	http_server_free(r.server);
	loop_free(r.peer.loop);
	closep(&r.peer.dir);
	return rc < 0;
}
