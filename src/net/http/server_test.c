// SPDX-License-Identifier: Apache-2.0
#include "net/http/test_server.h"

#include "base/own.h"
#include "net/transport.h"

#include "base/banned.h"

#define CRLF "\r\n"
#define GET(path) "GET " path " HTTP/1.1" CRLF "Host: a" CRLF CRLF

/* ---- a small service ---- */

struct counts {
	unsigned hello, hangups, stops, finished;
	unsigned last_status;
	struct reply *held;
	struct reply *stream;
	struct request *upload;
	uint64_t uploaded;
	bool upload_ended, upload_stopped;
	struct transport *taken;
	char early[64];
	uint64_t produced;
};

static struct counts *counts_of(struct request *rq)
{
	return rq->ctx;
}

static int hello(struct request *rq, struct reply *rp, struct err *e)
{
	(void)e;
	counts_of(rq)->hello++;
	return reply_bytes(rp, 200, "text/plain", STR("hello"));
}

static int echo(struct request *rq, struct reply *rp, struct err *e)
{
	(void)e;
	return reply_bytes(rp, 200, "text/plain", rq->body);
}

static int params(struct request *rq, struct reply *rp, struct err *e)
{
	(void)e;
	return reply_bytes(rp, 200, "text/plain",
			   str_of(arena_printf(rq->arena, "[%.*s][%.*s][%.*s]", STR_ARG(rq->params[0]),
					       STR_ARG(rq->params[1]), STR_ARG(rq->rest))));
}

static int fails(struct request *rq, struct reply *rp, struct err *e)
{
	(void)rp;
	return rq->query.n > 0 ? err_set(e, ERR_IO, "secret path '/etc/x'") : err_set(e, ERR_CONFLICT, "is busy");
}

static int forgets(struct request *rq, struct reply *rp, struct err *e)
{
	(void)rq;
	(void)rp;
	(void)e;
	return 0;
}

static void on_hangup(void *arg)
{
	struct counts *n = arg;

	n->hangups++;
	n->held = NULL;
}

static int hold(struct request *rq, struct reply *rp, struct err *e)
{
	(void)e;
	counts_of(rq)->held = rp;
	return reply_hold(rp, on_hangup, rq->ctx);
}

static void produce(void *arg)
{
	static const char block[1000];
	struct counts *n = arg;

	while (reply_room(n->stream) > 0) {
		reply_write(n->stream, (struct str){ block, sizeof(block) });
		n->produced += sizeof(block);
	}
}

static void no_more(void *arg)
{
	struct counts *n = arg;

	n->stops++;
	n->stream = NULL;
}

static int endless(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct reply_source source = { produce, no_more };

	counts_of(rq)->stream = rp;
	return reply_event_stream(rp, &source, rq->ctx, e);
}

static int upload_data(struct str piece, void *arg, struct err *e)
{
	struct counts *n = arg;

	if (memchr(piece.p, '!', piece.n))
		return err_set(e, ERR_INVALID, "no exclamation marks");
	if (memchr(piece.p, '|', piece.n))
		request_pause(n->upload);
	n->uploaded += piece.n;
	return 0;
}

static int upload_end(void *arg, struct err *e)
{
	struct counts *n = arg;

	(void)e;
	n->upload_ended = true;
	return reply_empty(n->held, 200);
}

static void upload_stop(void *arg)
{
	((struct counts *)arg)->upload_stopped = true;
}

static int upload(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct body_sink sink = { .data = upload_data, .end = upload_end, .stop = upload_stop };

	(void)e;
	counts_of(rq)->held = rp;
	counts_of(rq)->upload = rq;
	request_read(rq, &sink, rq->ctx);
	return 0;
}

static void mirror_proceed(void *arg)
{
	(void)arg;
}

static int mirror_data(struct str piece, void *arg, struct err *e)
{
	(void)e;
	reply_write(((struct counts *)arg)->stream, piece);
	return 0;
}

static int mirror_end(void *arg, struct err *e)
{
	(void)e;
	reply_end(((struct counts *)arg)->stream);
	return 0;
}

/* Answers while the body is still arriving. */
static int mirror(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct reply_source source = { mirror_proceed, no_more };
	static const struct body_sink sink = { .data = mirror_data, .end = mirror_end, .stop = upload_stop };

	counts_of(rq)->stream = rp;
	request_read(rq, &sink, rq->ctx);
	return reply_stream(rp, 200, NULL, REPLY_UNSIZED, &source, rq->ctx, e);
}

static void take(struct transport *t, struct str early, void *arg)
{
	struct counts *n = arg;

	n->taken = t;
	(void)snprintf(n->early, sizeof(n->early), "%.*s", STR_ARG(early));
}

static int tunnel(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct upgrade up = { take, on_hangup };

	return reply_upgrade(rp, "raw", &up, rq->ctx, e);
}

static int file(struct request *rq, struct reply *rp, struct err *e)
{
	FILE *f = tmpfile();
	int fd;

	(void)rq;
	(void)e;
	assert_non_null(f);
	for (int i = 0; i < 100000; i++)
		(void)fprintf(f, "%09d\n", i);
	(void)fflush(f);
	fd = dup(fileno(f));
	(void)fclose(f);
	return reply_file(rp, 200, "application/octet-stream", &fd, 10, 999990);
}

static void finished(const struct request *rq, unsigned status, uint64_t bytes)
{
	struct counts *n = rq->ctx;

	(void)bytes;
	n->finished++;
	n->last_status = status;
}

static const struct route routes[] = {
	{ "GET", "/hello", hello, 0, 0 },
	{ "POST", "/hello", hello, 0, 0 },
	{ "POST", "/echo", echo, 0, 1000 },
	{ "GET", "/box/:id/port/:port/*", params, 0, 0 },
	{ "GET", "/box/:id", params, 0, 0 },
	{ "GET", "/root", hello, ROUTE_ROOT, 0 },
	{ "GET", "/fails", fails, 0, 0 },
	{ "GET", "/forgets", forgets, 0, 0 },
	{ "GET", "/hold", hold, 0, 0 },
	{ "GET", "/endless", endless, 0, 0 },
	{ "POST", "/upload", upload, ROUTE_STREAM_IN, 1 << 30 },
	{ "POST", "/mirror", mirror, ROUTE_STREAM_IN, 1 << 30 },
	{ "GET", "/tunnel", tunnel, 0, 0 },
	{ "GET", "/file", file, 0, 0 },
	{ 0 },
};

struct fixture {
	struct rig rig;
	struct counts n;
	struct http_limits limits;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->limits = HTTP_LIMITS;
	f->rig.service = (struct http_service){ .prefix = "v1", .ctx = &f->n, .finished = finished };
	*state = f;
	rig_start(&f->rig, routes, &f->limits);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	rig_stop(&f->rig);
	free(f);
	return 0;
}

#define ANSWER(f, text, answer) \
	AUTO(buf_done) struct buf answer = BUF_INIT(8 * 1024 * 1024); \
	bool answer##_closed __attribute__((unused)) = rig_talk(&f->rig, STR(text), &answer)

#define HEAD "POST /echo HTTP/1.1" CRLF "Host: a" CRLF

/* ---- well-formed requests ---- */

static void a_request_is_answered_and_the_connection_stays(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, GET("/hello"), a);
	assert_false(a_closed);
	rig_begins(&a, "HTTP/1.1 200 OK\r\n");
	assert_non_null(strstr(a.p, "Content-Length: 5\r\n"));
	assert_non_null(strstr(a.p, "\r\n\r\nhello"));
	assert_int_equal(f->n.finished, 1);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
	struct fixture *f = *state;

	ANSWER(f,
	       HEAD "Content-Length: 5" CRLF CRLF "first" GET("/hello") HEAD "Transfer-Encoding: chunked" CRLF CRLF
	       "3;x=y" CRLF "thi" CRLF "2" CRLF "rd" CRLF "0" CRLF "Trailer: ignored" CRLF CRLF GET("/box/4"),
	       a);
	assert_false(a_closed);
	assert_int_equal(rig_count(&a, "HTTP/1.1 200 OK"), 4);
	assert_true(strstr(a.p, "first") < strstr(a.p, "hello"));
	assert_true(strstr(a.p, "hello") < strstr(a.p, "third"));
	assert_true(strstr(a.p, "third") < strstr(a.p, "[4][][]"));
}

static void hundreds_of_pipelined_requests_all_get_answers(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf rq = BUF_INIT(1 << 20), answer = BUF_INIT(1 << 20);

	for (int i = 0; i < 500; i++)
		buf_add_str(&rq, STR(GET("/hello")));
	assert_false(rig_talk(&f->rig, buf_str(&rq), &answer));
	assert_int_equal(rig_count(&answer, "hello"), 500);
}

static void a_request_may_arrive_byte_by_byte(void **state)
{
	static const char text[] = HEAD "Transfer-Encoding: chunked" CRLF CRLF "5" CRLF "piece" CRLF "0" CRLF CRLF;
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(&f->rig);

	for (size_t i = 0; i + 1 < sizeof(text); i++)
		rig_send(&f->rig, fd, (struct str){ text + i, 1 });
	assert_false(rig_recv(&f->rig, fd, &a));
	assert_non_null(strstr(buf_z(&a), "\r\n\r\npiece"));
}

static void old_clients_are_served_and_closed(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, "GET /hello HTTP/1.0" CRLF "Host: a" CRLF CRLF, a);
	assert_true(a_closed);
	assert_non_null(strstr(a.p, "hello"));
	ANSWER(f, "GET /hello HTTP/1.0" CRLF "Host: a" CRLF "Connection: keep-alive" CRLF CRLF, b);
	assert_false(b_closed);
	assert_non_null(strstr(b.p, "Connection: keep-alive\r\n"));
	ANSWER(f, "GET /hello HTTP/1.1" CRLF "Host: a" CRLF "Connection: close" CRLF CRLF GET("/hello"), c);
	assert_true(c_closed);
	assert_int_equal(rig_count(&c, "HTTP/1.1 "), 1);
	ANSWER(f, "GET /hello HTTP/1.2" CRLF "Host: a" CRLF CRLF, d);
	assert_true(d_closed);
	rig_begins(&d, "HTTP/1.1 505 ");
}

static void head_gets_the_head_alone(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, "HEAD /hello HTTP/1.1" CRLF "Host: a" CRLF CRLF GET("/hello"), a);
	assert_false(a_closed);
	assert_int_equal(rig_count(&a, "Content-Length: 5\r\n"), 2);
	assert_int_equal(rig_count(&a, "hello"), 1);
}

static void continue_is_sent_when_the_body_is_wanted(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR(HEAD "Content-Length: 4" CRLF "Expect: 100-continue" CRLF CRLF));
	assert_false(rig_recv(&f->rig, fd, &a));
	assert_string_equal(buf_z(&a), "HTTP/1.1 100 Continue\r\n\r\n");
	rig_send(&f->rig, fd, STR("body"));
	assert_false(rig_recv(&f->rig, fd, &a));
	assert_non_null(strstr(a.p, "\r\n\r\nbody"));

	ANSWER(f, HEAD "Content-Length: 4000" CRLF "Expect: 100-continue" CRLF CRLF, refused);
	assert_true(refused_closed);
	rig_begins(&refused, "HTTP/1.1 413 ");
	ANSWER(f, "GET /hello HTTP/1.1" CRLF "Host: a" CRLF "Expect: a-miracle" CRLF CRLF, other);
	rig_begins(&other, "HTTP/1.1 417 ");
}

static void continue_comes_before_an_answer_that_comes_before_the_body(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd,
		 STR("POST /mirror HTTP/1.1" CRLF "Host: a" CRLF "Content-Length: 4" CRLF "Expect: 100-continue" CRLF CRLF));
	assert_false(rig_recv(&f->rig, fd, &a));
	rig_begins(&a, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n");
	rig_send(&f->rig, fd, STR("body" GET("/hello")));
	assert_false(rig_recv(&f->rig, fd, &a));
	assert_int_equal(rig_count(&a, "HTTP/1.1 100 "), 1);
	assert_non_null(strstr(a.p, "\r\n\r\n4\r\nbody\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"));
}

static void a_body_beyond_the_route_s_limit_is_413(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf rq = BUF_INIT(1 << 20), answer = BUF_INIT(4096);

	ANSWER(f, HEAD "Content-Length: 1001" CRLF CRLF, declared);
	rig_begins(&declared, "HTTP/1.1 413 ");
	buf_addf(&rq, HEAD "Transfer-Encoding: chunked" CRLF CRLF "3e9" CRLF "%01001d", 0);
	assert_true(rig_talk(&f->rig, buf_str(&rq), &answer));
	rig_begins(&answer, "HTTP/1.1 413 ");
	assert_int_equal(f->n.last_status, 413);
}

static void a_body_that_nobody_wants_is_skipped(void **state)
{
	struct fixture *f = *state;

	ANSWER(f,
	       "POST /hello HTTP/1.1" CRLF "Host: a" CRLF "Content-Length: 5" CRLF CRLF "body1" GET("/hello")
	       "POST /nowhere HTTP/1.1" CRLF "Host: a" CRLF "Content-Length: 5" CRLF CRLF "body2" GET("/hello"),
	       a);
	assert_false(a_closed);
	assert_int_equal(rig_count(&a, "HTTP/1.1 200 OK"), 3);
	assert_int_equal(rig_count(&a, "HTTP/1.1 404 "), 1);
}

/* ---- routes ---- */

static void paths_are_matched_by_whole_decoded_segments(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *path, *want, *body;
	} cases[] = {
		{ "/box/a%20b", "200", "[a b][][]" },
		{ "/v1/box/x", "200", "[x][][]" },
		{ "/b%6fx/x", "200", "[x][][]" },
		{ "/box/x/port/80", "200", "[x][80][]" },
		{ "/box/x/port/80/", "200", "[x][80][]" },
		{ "/box/x/port/80/a//b/../%2f%00?q", "200", "[x][80][a//b/../%2f%00]" },
		{ "/v1/root", "404", "Not Found" },
		{ "/box", "404", "Not Found" },
		{ "/box/x/", "307", "" },
		{ "/box/..", "400", "" },
		{ "/box/%2e%2e", "400", "" },
		{ "/box/a%2fb", "400", "" },
		{ "/box/%00", "400", "" },
		{ "/box/a%5cb", "400", "" },
		{ "/box/%zz", "400", "" },
		{ "/box//x", "400", "" },
		{ "//box/x", "400", "" },
		{ "/box/%ff", "400", "" },
		{ "*", "404", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf rq = BUF_INIT(4096), a = BUF_INIT(4096);

		buf_addf(&rq, "GET %s HTTP/1.1" CRLF "Host: a" CRLF CRLF, cases[i].path);
		(void)rig_talk(&f->rig, buf_str(&rq), &a);
		if (strncmp(buf_z(&a) + 9, cases[i].want, 3) != 0 || !strstr(buf_z(&a), cases[i].body))
			fail_msg("%s: '%s'", cases[i].path, buf_z(&a));
	}
}

static void wrong_methods_and_slashes_say_what_is_right(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, "PUT /hello HTTP/1.1" CRLF "Host: a" CRLF CRLF, a);
	rig_begins(&a, "HTTP/1.1 405 ");
	assert_non_null(strstr(a.p, "Allow: GET, HEAD, POST\r\n"));
	assert_non_null(strstr(a.p, "\"code\":\"METHOD_NOT_ALLOWED\""));
	ANSWER(f, GET("/box/x/?a=b"), b);
	assert_non_null(strstr(b.p, "Location: /box/x?a=b\r\n"));
}

static void errors_become_answers_without_inner_details(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, GET("/fails"), a);
	rig_begins(&a, "HTTP/1.1 409 ");
	assert_non_null(strstr(a.p, "is busy"));
	ANSWER(f, GET("/fails?inner"), b);
	rig_begins(&b, "HTTP/1.1 500 ");
	assert_null(strstr(b.p, "secret"));
	ANSWER(f, GET("/forgets"), c);
	rig_begins(&c, "HTTP/1.1 500 ");
}

/* ---- answers that take time ---- */

static void a_held_answer_comes_later(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR(GET("/hold") GET("/hello")));
	assert_false(rig_recv(&f->rig, fd, &a));
	assert_int_equal(a.n, 0);
	assert_int_equal(http_server_counts(f->rig.server).busy, 1);
	assert_int_equal(reply_bytes(f->n.held, 200, NULL, STR("at last")), 0);
	assert_false(rig_recv(&f->rig, fd, &a));
	assert_true(strstr(a.p, "at last") < strstr(a.p, "hello"));
	assert_int_equal(f->n.hangups, 0);
}

static void a_held_answer_is_called_off_when_the_peer_leaves(void **state)
{
	struct fixture *f = *state;
	int fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR(GET("/hold")));
	assert_non_null(f->n.held);
	(void)close(fd);
	rig_turn(&f->rig);
	assert_int_equal(f->n.hangups, 1);
	assert_int_equal(f->n.last_status, 0);
	assert_int_equal(http_server_counts(f->rig.server).connections, 0);
}

static void a_stream_waits_for_a_peer_that_does_not_read(void **state)
{
	struct fixture *f = *state;
	int fd = rig_connect(&f->rig);
	uint64_t produced;

	rig_send(&f->rig, fd, STR(GET("/endless")));
	rig_turn(&f->rig);
	produced = f->n.produced;
	assert_true(produced > 0 && produced < 2 * 1024 * 1024); /* socket buffers and our mark, no more */
	rig_turn(&f->rig);
	assert_int_equal(f->n.produced, produced);
	rig_wait(&f->rig, f->limits.reader_ms - 1);
	assert_int_equal(f->n.stops, 0);
	rig_wait(&f->rig, 1);
	assert_int_equal(f->n.stops, 1);
	(void)close(fd);
}

static void a_stream_goes_on_while_the_peer_reads(void **state)
{
	struct fixture *f = *state;
	AUTO_FD fd = rig_connect(&f->rig);
	uint64_t got = 0;

	rig_send(&f->rig, fd, STR(GET("/endless")));
	while (got < 10 * 1024 * 1024) {
		char piece[65536];
		ssize_t n = recv(fd, piece, sizeof(piece), 0);

		assert_true(n > 0 || errno == EAGAIN);
		got += n > 0 ? (uint64_t)n : 0;
		rig_turn(&f->rig);
	}
	assert_int_equal(f->n.stops, 0);
}

static void a_stream_ends_with_the_last_chunk(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(8 << 20);
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR(GET("/endless")));
	reply_end(f->n.stream);
	assert_false(rig_recv(&f->rig, fd, &a));
	assert_non_null(strstr(a.p, "Transfer-Encoding: chunked\r\n"));
	assert_memory_equal(a.p + a.n - 5, "0\r\n\r\n", 5);

	rig_send(&f->rig, fd, STR(GET("/endless")));
	buf_clear(&a);
	reply_abort(f->n.stream);
	assert_true(rig_recv(&f->rig, fd, &a));
	assert_memory_not_equal(a.p + a.n - 5, "0\r\n\r\n", 5);
}

static void files_are_sent_whole(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(2 << 20);
	AUTO_FD fd = rig_connect(&f->rig);
	const char *body;

	rig_send(&f->rig, fd, STR(GET("/file") GET("/hello")));
	assert_false(rig_recv(&f->rig, fd, &a));
	body = strstr(a.p, "\r\n\r\n") + 4;
	assert_memory_equal(body, "000000001\n", 10);
	assert_memory_equal(body + 999980, "000099999\nHTTP/1.1 200 OK", 25);
}

/* ---- streamed bodies ---- */

static void a_streamed_body_reaches_its_sink(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf rq = BUF_INIT(4 << 20), a = BUF_INIT(4096);

	buf_addf(&rq, "POST /upload HTTP/1.1" CRLF "Host: a" CRLF "Content-Length: 3000000" CRLF CRLF "%03000000d", 0);
	assert_false(rig_talk(&f->rig, buf_str(&rq), &a));
	rig_begins(&a, "HTTP/1.1 200 ");
	assert_int_equal(f->n.uploaded, 3000000);
	ANSWER(f, "POST /upload HTTP/1.1" CRLF "Host: a" CRLF CRLF, empty);
	rig_begins(&empty, "HTTP/1.1 200 ");
}

static void a_paused_sink_makes_the_peer_wait(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR("POST /upload HTTP/1.1" CRLF "Host: a" CRLF "Content-Length: 10" CRLF CRLF "1234|"));
	rig_send(&f->rig, fd, STR("67890"));
	assert_int_equal(f->n.uploaded, 5);
	rig_wait(&f->rig, 10 * f->limits.body_idle_ms); /* the wait is ours */
	request_resume(f->n.upload);
	assert_false(rig_recv(&f->rig, fd, &a));
	assert_int_equal(f->n.uploaded, 10);
	assert_true(f->n.upload_ended);
}

static void a_sink_s_refusal_is_answered(void **state)
{
	struct fixture *f = *state;

	ANSWER(f, "POST /upload HTTP/1.1" CRLF "Host: a" CRLF "Transfer-Encoding: chunked" CRLF CRLF "1" CRLF "!", a);
	rig_begins(&a, "HTTP/1.1 400 ");
	assert_true(a_closed);
	assert_non_null(strstr(a.p, "no exclamation marks"));
}

static void a_sink_is_stopped_when_the_peer_leaves(void **state)
{
	struct fixture *f = *state;
	int fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd, STR("POST /upload HTTP/1.1" CRLF "Host: a" CRLF "Content-Length: 10" CRLF CRLF "1234"));
	(void)close(fd);
	rig_turn(&f->rig);
	assert_true(f->n.upload_stopped);
	assert_false(f->n.upload_ended);
}

/* ---- upgrades and the end ---- */

static void an_upgrade_hands_over_the_connection(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD fd = rig_connect(&f->rig);

	rig_send(&f->rig, fd,
		 STR("GET /tunnel HTTP/1.1" CRLF "Host: a" CRLF "Connection: upgrade" CRLF "Upgrade: raw" CRLF CRLF "early"));
	assert_false(rig_recv(&f->rig, fd, &a));
	rig_begins(&a, "HTTP/1.1 101 Switching Protocols\r\n");
	assert_non_null(f->n.taken);
	assert_string_equal(f->n.early, "early");
	assert_int_equal(http_server_counts(f->rig.server).streams, 1);
	assert_int_equal(http_server_counts(f->rig.server).connections, 1);
	transport_close(f->n.taken);
	assert_int_equal(http_server_counts(f->rig.server).streams, 0);
	assert_int_equal(http_server_counts(f->rig.server).connections, 0);
	ANSWER(f, GET("/tunnel"), plain);
	rig_begins(&plain, "HTTP/1.1 400 ");
}

static void set_true(void *arg)
{
	*(bool *)arg = true;
}

static void draining_lets_requests_end(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf a = BUF_INIT(4096);
	AUTO_FD idle = rig_connect(&f->rig);
	AUTO_FD fd = rig_connect(&f->rig);
	bool done = false;

	rig_send(&f->rig, fd, STR(GET("/hold")));
	http_server_drain(f->rig.server, 10000, set_true, &done);
	rig_turn(&f->rig);
	assert_false(done);
	assert_true(rig_recv(&f->rig, idle, &a));
	assert_int_equal(reply_empty(f->n.held, 200), 0);
	assert_true(rig_recv(&f->rig, fd, &a));
	assert_non_null(strstr(buf_z(&a), "Connection: close"));
	(void)shutdown(fd, SHUT_WR);
	rig_turn(&f->rig);
	assert_true(done);
}

static void draining_has_a_deadline(void **state)
{
	struct fixture *f = *state;
	AUTO_FD fd = rig_connect(&f->rig);
	bool done = false;

	rig_send(&f->rig, fd, STR(GET("/hold")));
	http_server_drain(f->rig.server, 10000, set_true, &done);
	rig_wait(&f->rig, 9999);
	assert_false(done);
	rig_wait(&f->rig, 1);
	assert_true(done);
	assert_int_equal(f->n.hangups, 1);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_request_is_answered_and_the_connection_stays),
		TEST(pipelined_requests_are_answered_in_order),
		TEST(hundreds_of_pipelined_requests_all_get_answers),
		TEST(a_request_may_arrive_byte_by_byte),
		TEST(old_clients_are_served_and_closed),
		TEST(head_gets_the_head_alone),
		TEST(continue_is_sent_when_the_body_is_wanted),
		TEST(continue_comes_before_an_answer_that_comes_before_the_body),
		TEST(a_body_beyond_the_route_s_limit_is_413),
		TEST(a_body_that_nobody_wants_is_skipped),
		TEST(paths_are_matched_by_whole_decoded_segments),
		TEST(wrong_methods_and_slashes_say_what_is_right),
		TEST(errors_become_answers_without_inner_details),
		TEST(a_held_answer_comes_later),
		TEST(a_held_answer_is_called_off_when_the_peer_leaves),
		TEST(a_stream_waits_for_a_peer_that_does_not_read),
		TEST(a_stream_goes_on_while_the_peer_reads),
		TEST(a_stream_ends_with_the_last_chunk),
		TEST(files_are_sent_whole),
		TEST(a_streamed_body_reaches_its_sink),
		TEST(a_paused_sink_makes_the_peer_wait),
		TEST(a_sink_s_refusal_is_answered),
		TEST(a_sink_is_stopped_when_the_peer_leaves),
		TEST(an_upgrade_hands_over_the_connection),
		TEST(draining_lets_requests_end),
		TEST(draining_has_a_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
