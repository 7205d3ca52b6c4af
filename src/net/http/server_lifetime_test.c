// SPDX-License-Identifier: Apache-2.0
/* Who is told what, and when, as requests, answers, bodies, peers and the server itself come to their ends. */
#include "net/http/test_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/own.h"
#include "net/transport.h"

#include "base/banned.h"

#define CRLF "\r\n"
#define GET(path) "GET " path " HTTP/1.1" CRLF "Host: a" CRLF CRLF
#define POST(path) "POST " path " HTTP/1.1" CRLF "Host: a" CRLF

struct fixture {
	struct rig rig;
	struct http_limits limits;
	struct request *rq;
	struct reply *rp;
	unsigned data, end, stop, hangup, source_stop;
	uint64_t produced, to_produce;
	struct transport *taken;
	struct io pipe_io;
	int pipe[2];
};

/* ---- handlers ---- */

static int count_data(struct str piece, void *arg, struct err *e)
{
	struct fixture *f = arg;

	(void)e;
	(void)piece;
	f->data++;
	return 0;
}

static int count_end(void *arg, struct err *e)
{
	struct fixture *f = arg;

	(void)e;
	f->end++;
	return reply_empty(f->rp, 200);
}

static void count_stop(void *arg)
{
	((struct fixture *)arg)->stop++;
}

static const struct body_sink counting = { .data = count_data, .end = count_end, .stop = count_stop };

static int upload(struct request *rq, struct reply *rp, struct err *e)
{
	struct fixture *f = rq->ctx;

	(void)e;
	f->rq = rq;
	f->rp = rp;
	request_read(rq, &counting, f);
	return str_is(rq->query, "now") ? reply_empty(rp, 200) : 0;
}

static void count_hangup(void *arg)
{
	((struct fixture *)arg)->hangup++;
}

static int held_upload(struct request *rq, struct reply *rp, struct err *e)
{
	(void)upload(rq, rp, e);
	return reply_hold(rp, str_is(rq->query, "quiet") ? NULL : count_hangup, rq->ctx);
}

static int pause_and_refuse(struct str piece, void *arg, struct err *e)
{
	struct fixture *f = arg;

	(void)piece;
	(void)e;
	request_pause(f->rq);
	return reply_error(f->rp, 507, "FULL", "no room");
}

static int refusing(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct body_sink sink = { .data = pause_and_refuse, .end = count_end, .stop = count_stop };
	struct fixture *f = rq->ctx;

	(void)e;
	f->rq = rq;
	f->rp = rp;
	request_read(rq, &sink, f);
	return 0;
}

static int trickle_data(struct str piece, void *arg, struct err *e)
{
	struct fixture *f = arg;

	(void)piece;
	(void)e;
	f->data++;
	request_pause(f->rq); /* as a sink does that hands each piece on */
	return 0;
}

static int trickle(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct body_sink sink = { .data = trickle_data, .end = count_end, .stop = count_stop };
	struct fixture *f = rq->ctx;

	(void)e;
	f->rq = rq;
	f->rp = rp;
	request_read(rq, &sink, f);
	return 0;
}

static int echo(struct request *rq, struct reply *rp, struct err *e)
{
	(void)e;
	return reply_bytes(rp, 200, "text/plain", rq->body);
}

static void produce(void *arg)
{
	static const char block[4096];
	struct fixture *f = arg;

	while (f->produced < f->to_produce && reply_room(f->rp) > 0) {
		reply_write(f->rp, (struct str){ block, sizeof(block) });
		f->produced += sizeof(block);
	}
	if (f->to_produce > 0 && f->produced >= f->to_produce)
		reply_end(f->rp);
}

static void count_source_stop(void *arg)
{
	((struct fixture *)arg)->source_stop++;
}

static const struct reply_source producing = { produce, count_source_stop };

static int stream(struct request *rq, struct reply *rp, struct err *e)
{
	struct fixture *f = rq->ctx;

	f->rp = rp;
	return reply_stream(rp, 200, NULL, REPLY_UNSIZED, &producing, f, e);
}

/* A sized answer that ends after its bytes are out, with a body that nobody read. */
static int sized(struct request *rq, struct reply *rp, struct err *e)
{
	struct fixture *f = rq->ctx;

	f->rp = rp;
	f->rq = rq;
	if (reply_stream(rp, 200, NULL, 2, &producing, f, e) < 0)
		return -1;
	reply_write(rp, STR("ok"));
	return 0;
}

static int file(struct request *rq, struct reply *rp, struct err *e)
{
	FILE *tmp = tmpfile();
	int fd;

	(void)rq;
	(void)e;
	assert_non_null(tmp);
	assert_int_equal(ftruncate(fileno(tmp), 1 << 30), 0);
	fd = dup(fileno(tmp));
	(void)fclose(tmp);
	return reply_file(rp, 200, NULL, &fd, 0, 1 << 30);
}

static void take(struct transport *t, struct str early, void *arg)
{
	(void)early;
	((struct fixture *)arg)->taken = t;
}

static int tunnel(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct upgrade up = { take, count_hangup };

	return reply_upgrade(rp, "raw", &up, rq->ctx, e);
}

static const struct route routes[] = {
	{ "POST", "/upload", upload, ROUTE_STREAM_IN, 1000 },
	{ "POST", "/held", held_upload, ROUTE_STREAM_IN, 100000 },
	{ "POST", "/refusing", refusing, ROUTE_STREAM_IN, 100000 },
	{ "POST", "/trickle", trickle, ROUTE_STREAM_IN, 100000 },
	{ "POST", "/echo", echo, 0, 100000 },
	{ "GET", "/stream", stream, 0, 0 },
	{ "POST", "/sized", sized, ROUTE_STREAM_IN, 100000 },
	{ "GET", "/file", file, 0, 0 },
	{ "GET", "/tunnel", tunnel, 0, 0 },
	{ 0 },
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->limits = HTTP_LIMITS;
	f->rig.service.ctx = f;
	rig_start(&f->rig, routes, &f->limits);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	rig_stop(&f->rig);
	free(f);
	return 0;
}

/* ---- bodies ---- */

static void on_pipe(unsigned ready, void *arg)
{
	struct fixture *f = arg;

	(void)ready;
	io_del(&f->pipe_io);
	(void)reply_error(f->rp, 500, "BROKEN", "the other side broke");
}

static void an_answer_from_elsewhere_ends_the_sink(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR(POST("/upload") "Content-Length: 100" CRLF CRLF));
	/* Both become ready in the same turn, the pipe first. */
	assert_int_equal(pipe(f->pipe), 0);
	assert_int_equal(write(f->pipe[1], "x", 1), 1);
	assert_int_equal(io_add(&f->pipe_io, f->rig.loop, f->pipe[0], IO_IN, on_pipe, f, "pipe", &(struct err){ 0 }), 0);
	assert_int_equal(send(fd, "body", 4, 0), 4);
	rig_turn(&f->rig);
	(void)rig_recv(&f->rig, fd, &a);
	rig_begins(&a, "HTTP/1.1 500 ");
	assert_int_equal(f->data, 0);
	(void)close(f->pipe[0]);
	(void)close(f->pipe[1]);
}

static void a_sink_is_stopped_when_the_server_refuses_the_body(void **state)
{
	struct fixture *f = *state;
	static const struct {
		struct str text;
		uint64_t wait_ms;
		const char *want;
	} cases[] = {
		{ STR(POST("/upload") "Transfer-Encoding: chunked" CRLF CRLF "3e9" CRLF), 0, NULL },
		{ STR(POST("/upload") "Transfer-Encoding: chunked" CRLF CRLF "zz" CRLF), 0, "HTTP/1.1 400 " },
		{ STR(POST("/upload") "Content-Length: 10" CRLF CRLF "12345"), 30000, "HTTP/1.1 408 " },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf a = BUF_INIT(65536), big = BUF_INIT(65536);
		AUTO_FD fd = rig_connect(&f->rig);

		f->stop = f->end = 0;
		rig_send(&f->rig, fd, cases[i].text);
		buf_addf(&big, "%01001d", 0);
		if (!cases[i].want)
			rig_send(&f->rig, fd, buf_str(&big));
		rig_wait(&f->rig, cases[i].wait_ms);
		assert_true(rig_recv(&f->rig, fd, &a));
		rig_begins(&a, cases[i].want ? cases[i].want : "HTTP/1.1 413 ");
		assert_int_equal(f->stop, 1);
		assert_int_equal(f->end, 0);
	}
}

static void a_held_answer_without_a_hangup_stops_its_sink(void **state)
{
	struct fixture *f = *state;
	int fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR(POST("/held?quiet") "Content-Length: 10" CRLF CRLF "12345"));
	(void)close(fd);
	rig_turn(&f->rig);
	assert_int_equal(f->stop, 1);
	fd = rig_connect(&f->rig);
	rig_send(&f->rig, fd, STR(POST("/held") "Content-Length: 10" CRLF CRLF "12345"));
	(void)close(fd);
	rig_turn(&f->rig);
	assert_int_equal(f->hangup, 1);
	assert_int_equal(f->stop, 1); /* one of the two is told, not both */
}

static void a_pause_ends_with_its_request(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR(POST("/refusing") "Content-Length: 5" CRLF CRLF "12345"));
	rig_send(&f->rig, fd, STR(POST("/echo") "Content-Length: 5" CRLF CRLF "again"));
	assert_false(rig_recv(&f->rig, fd, &a));
	rig_begins(&a, "HTTP/1.1 507 ");
	assert_non_null(strstr(a.p, "\r\n\r\nagain"));
}

static void pausing_does_not_defeat_the_slowest_accepted_body(void **state)
{
	struct fixture *f = *state;
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR(POST("/trickle") "Content-Length: 1000" CRLF CRLF));
	for (int i = 0; i < 10 && http_server_counts(f->rig.server).connections > 0; i++) {
		rig_send(&f->rig, fd, STR("x"));
		if (f->data > f->stop && http_server_counts(f->rig.server).connections > 0)
			request_resume(f->rq);
		rig_wait(&f->rig, 20000);
	}
	assert_int_equal(http_server_counts(f->rig.server).connections, 0);
	assert_int_equal(f->stop, 1);
}

/* A TCP client; the server's side of it sends through a small buffer. */
static int tcp_connect(struct fixture *f)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(to);
	AUTO_FD listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int size = 16384, mss = 1460;

	assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss)), 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&to, len), 0);
	assert_int_equal(listen(listener, 4), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&to, &len), 0);
	assert_int_equal(http_server_listen(f->rig.server, &listener, NULL, &(struct err){ 0 }), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, len), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	rig_turn(&f->rig);
	return fd;
}

static void a_peer_that_leaves_during_a_pause_is_noticed(void **state)
{
	struct fixture *f = *state;
	int fd = tcp_connect(f);

	rig_send(&f->rig, fd, STR(POST("/trickle") "Content-Length: 1000" CRLF CRLF "x"));
	assert_int_equal(f->data, 1);
	(void)close(fd);
	rig_turn(&f->rig);
	assert_int_equal(f->stop, 1);
	assert_int_equal(http_server_counts(f->rig.server).connections, 0);
}

static void a_request_without_a_body_keeps_its_connection(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR(POST("/upload?now") CRLF));
	assert_false(rig_recv(&f->rig, fd, &a));
	assert_null(strstr(buf_z(&a), "Connection: close"));
	assert_int_equal(f->end, 0); /* the handler has answered: its sink may be gone */
}

static void a_body_that_was_not_read_is_skipped_after_a_sized_answer(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR(POST("/sized") "Content-Length: 4" CRLF CRLF "body" GET("/stream")));
	reply_end(f->rp);
	assert_false(rig_recv(&f->rig, fd, &a));
	assert_int_equal(rig_count(&a, "HTTP/1.1 200 "), 2);
}

/* ---- streams ---- */

static void a_slow_reader_of_a_long_stream_costs_little_memory(void **state)
{
	struct fixture *f = *state;
	AUTO_FD fd = tcp_connect(f);
	uint64_t got = 0;

	f->to_produce = 24 << 20; /* three times what a connection may hold */
	rig_send(&f->rig, fd, STR(GET("/stream")));
	while (got < f->to_produce) { /* never all that is waiting */
		char piece[1460];
		ssize_t n = recv(fd, piece, sizeof(piece), 0);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			break;
		got += n > 0 ? (uint64_t)n : 0;
		assert_int_equal(loop_turn(f->rig.loop, 0, &(struct err){ 0 }), 0);
	}
	assert_true(got >= f->to_produce);
	assert_int_equal(f->source_stop, 0);
}

static void a_dead_connection_has_no_room(void **state)
{
	struct fixture *f = *state;
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR(GET("/stream")));
	assert_true(reply_room(f->rp) > 0);
	reply_abort(f->rp);
	assert_int_equal(reply_room(f->rp), 0);
	rig_turn(&f->rig);
}

static void head_of_a_stream_is_over_with_the_head(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd,
		 STR("HEAD /stream HTTP/1.1" CRLF "Host: a" CRLF CRLF POST("/echo") "Content-Length: 5" CRLF CRLF "after"));
	assert_false(rig_recv(&f->rig, fd, &a));
	assert_non_null(strstr(buf_z(&a), "\r\n\r\nafter"));
	assert_int_equal(f->source_stop, 1);
	assert_int_equal(http_server_counts(f->rig.server).streams, 0);
}

static void a_long_file_leaves_others_their_turn(void **state)
{
	struct fixture *f = *state;
	AUTO_FD fd = rig_connect(&f->rig);
	uint64_t got = 0;

	rig_send(&f->rig, fd, STR(GET("/file")));
	for (int turns = 0; turns < 16; turns++) {
		char piece[65536];
		ssize_t n;

		while ((n = recv(fd, piece, sizeof(piece), 0)) > 0)
			got += (uint64_t)n;
		assert_int_equal(loop_turn(f->rig.loop, 0, &(struct err){ 0 }), 0);
	}
	assert_true(got > 0 && got < 64 << 20);
}

/* ---- draining ---- */

static void set_true(void *arg)
{
	*(bool *)arg = true;
}

static void a_connection_whose_stream_ends_during_a_drain_is_closed(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(1 << 20);
	AUTO_FD fd = rig_connect(&f->rig);
	bool done = false;

	rig_send(&f->rig, fd, STR(GET("/stream")));
	http_server_drain(f->rig.server, 10000, set_true, &done);
	reply_end(f->rp);
	assert_true(rig_recv(&f->rig, fd, &a));
	(void)shutdown(fd, SHUT_WR);
	rig_turn(&f->rig);
	assert_true(done);
}

static int upgrade(struct fixture *f)
{
	int fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR("GET /tunnel HTTP/1.1" CRLF "Host: a" CRLF "Connection: upgrade" CRLF "Upgrade: raw" CRLF CRLF));
	assert_non_null(f->taken);
	return fd;
}

static void a_drain_waits_for_upgraded_connections(void **state)
{
	struct fixture *f = *state;
	int fd = upgrade(f);
	bool done = false;

	http_server_drain(f->rig.server, 10000, set_true, &done);
	rig_wait(&f->rig, 5000);
	assert_false(done);
	transport_close(f->taken);
	rig_turn(&f->rig);
	assert_true(done);
	(void)close(fd);
}

static void a_drain_s_deadline_ends_upgraded_connections(void **state)
{
	struct fixture *f = *state;
	int fd = upgrade(f);
	bool done = false;
	char byte;

	http_server_drain(f->rig.server, 10000, set_true, &done);
	rig_wait(&f->rig, 10000);
	assert_true(done);
	assert_int_equal(f->taken->ops->recv(f->taken, &byte, 1), 0); /* its owner sees the end */
	transport_close(f->taken);
	(void)close(fd);
}

static void an_upgraded_connection_may_outlive_the_server(void **state)
{
	struct fixture f = { 0 };
	int fd;

	(void)state;
	f.limits = HTTP_LIMITS;
	f.rig.service.ctx = &f;
	rig_start(&f.rig, routes, &f.limits);
	fd = upgrade(&f);
	rig_stop(&f.rig);
	transport_close(f.taken);
	(void)close(fd);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_answer_from_elsewhere_ends_the_sink),
		TEST(a_sink_is_stopped_when_the_server_refuses_the_body),
		TEST(a_held_answer_without_a_hangup_stops_its_sink),
		TEST(a_pause_ends_with_its_request),
		TEST(pausing_does_not_defeat_the_slowest_accepted_body),
		TEST(a_peer_that_leaves_during_a_pause_is_noticed),
		TEST(a_request_without_a_body_keeps_its_connection),
		TEST(a_body_that_was_not_read_is_skipped_after_a_sized_answer),
		TEST(a_slow_reader_of_a_long_stream_costs_little_memory),
		TEST(a_dead_connection_has_no_room),
		TEST(head_of_a_stream_is_over_with_the_head),
		TEST(a_long_file_leaves_others_their_turn),
		TEST(a_connection_whose_stream_ends_during_a_drain_is_closed),
		TEST(a_drain_waits_for_upgraded_connections),
		TEST(a_drain_s_deadline_ends_upgraded_connections),
		cmocka_unit_test(an_upgraded_connection_may_outlive_the_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
