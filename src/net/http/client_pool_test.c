// SPDX-License-Identifier: Apache-2.0
/* Connections that are kept, lost and replaced; whole answers; and the client against the real server. */
#include "net/http/test_client.h"

#include "net/addr.h"
#include "net/http/client_impl.h"
#include "net/http/server.h"

#include "base/banned.h"

#define OK_RESPONSE "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void do_call(struct rig *r, int line)
{
	struct told t;

	told_init(&t, r);
	call(&t, &GET("/"));
	answer(r, line, OK_RESPONSE);
	assert_int_equal(t.ends, 1);
	told_done(&t);
}

static void a_connection_is_used_again(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, 1);
	for (int i = 0; i < 5; i++)
		do_call(&r, 0);
	assert_int_equal(r.dials, 1);
	assert_int_equal(http_client_idle(r.client), 1);
	rig_close(&r);
}

static void without_idle_connections_each_request_says_close(void **state)
{
	struct rig r;
	struct told t;

	(void)state;
	rig_open(&r, 0);
	told_init(&t, &r);
	call(&t, &GET("/"));
	expect_sent(&r, 0, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	answer(&r, 0, OK_RESPONSE);
	assert_int_equal(t.ends, 1);
	assert_int_equal(http_client_idle(r.client), 0);
	told_done(&t);
	rig_close(&r);
}

static void calls_at_the_same_time_have_connections_of_their_own_and_few_are_kept(void **state)
{
	struct rig r;
	struct told t[4];
	AUTO(buf_done) struct buf b = BUF_INIT(1024);

	(void)state;
	rig_open(&r, 2);
	for (int i = 0; i < 4; i++) {
		told_init(&t[i], &r);
		call(&t[i], &GET("/"));
	}
	assert_int_equal(r.dials, 4);
	for (int i = 0; i < 4; i++) {
		answer(&r, i, OK_RESPONSE);
		assert_int_equal(t[i].ends, 1);
		told_done(&t[i]);
	}
	assert_int_equal(http_client_idle(r.client), 2);
	assert_true(wire_hear(&r.w, r.far[0], &b)); /* the oldest went first */
	assert_false(wire_hear(&r.w, r.far[3], &b));
	do_call(&r, 3); /* the newest is used first */
	http_client_drop_idle(r.client);
	assert_int_equal(http_client_idle(r.client), 0);
	rig_close(&r);
}

static void an_idle_connection_ends_by_time_by_its_peer_and_by_anything_it_says(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r, 4);
	do_call(&r, 0);
	wire_wait(&r.w, 59999);
	assert_int_equal(http_client_idle(r.client), 1);
	do_call(&r, 0); /* use renews it */
	wire_wait(&r.w, 59999);
	assert_int_equal(http_client_idle(r.client), 1);
	wire_wait(&r.w, 1);
	assert_int_equal(http_client_idle(r.client), 0);
	do_call(&r, 1);
	hang_up(&r, 1);
	assert_int_equal(http_client_idle(r.client), 0);
	do_call(&r, 2);
	(void)send(r.far[2], "HTTP/1.1 408 Timeout\r\n\r\n", 24, MSG_NOSIGNAL);
	wire_turn(&r.w);
	assert_int_equal(http_client_idle(r.client), 0);
	rig_close(&r);
}

/* A kept connection whose end has not been noticed when the request goes out. */
static void start_on_a_stale_line(struct rig *r, struct told *t, const struct http_request *rq, bool is_dead)
{
	struct err e = { 0 };

	rig_open(r, 1);
	told_init(t, r);
	do_call(r, 0);
	if (is_dead)
		(void)close(take_fd(&r->far[0]));
	t->call = http_call_start(r->client, rq, &told_ops, t, &e);
	assert_non_null(t->call);
	if (!is_dead) { /* the end comes after the request */
		wire_turn(&r->w);
		hang_up(r, 0);
	}
	wire_turn(&r->w);
}

static void a_stale_connection_is_replaced_once_where_that_is_safe(void **state)
{
	static const struct {
		const char *method;
		bool streams, is_dead, is_repeated;
	} table[] = {
		{ "GET", false, true, true },    { "GET", false, false, true },  { "HEAD", false, false, true },
		{ "PUT", false, false, true },   { "DELETE", false, false, true }, { "POST", false, true, true },
		{ "POST", false, false, false }, { "PATCH", false, false, false }, { "PUT", true, false, false },
		{ "PUT", true, true, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct http_request rq = { .method = str_of(table[i].method), .target = STR("/"), .host = STR("h") };
		struct rig r;
		struct told t;

		if (table[i].streams) {
			rq.source = &told_source;
			rq.length = HTTP_UNSIZED;
		}
		start_on_a_stale_line(&r, &t, &rq, table[i].is_dead);
		assert_int_equal(t.errors, !table[i].is_repeated);
		assert_int_equal(r.dials, table[i].is_repeated ? 2 : 1);
		if (table[i].is_repeated) {
			AUTO(buf_done) struct buf b = BUF_INIT(1024);

			assert_false(wire_hear(&r.w, r.far[1], &b));
			assert_true(str_starts(buf_str(&b), str_of(table[i].method)));
			hang_up(&r, 1); /* not a second time */
			assert_int_equal(t.errors, 1);
			assert_int_equal(t.e.code, ERR_IO);
			assert_int_equal(r.dials, 2);
		}
		told_done(&t);
		rig_close(&r);
	}
}

static void a_connection_on_probation_is_for_what_can_be_repeated(void **state)
{
	struct http_request post = { .method = STR("POST"), .target = STR("/"), .host = STR("h") };
	struct rig r;
	struct told t;

	(void)state;
	rig_open(&r, 4);
	r.client->probation_ms = 100;
	do_call(&r, 0);
	do_call(&r, 0); /* a GET takes it at once */
	told_init(&t, &r);
	call(&t, &post);
	assert_int_equal(r.dials, 2);
	answer(&r, 1, OK_RESPONSE);
	told_done(&t);
	r.w.now_ms += 100;
	wire_turn(&r.w);
	told_init(&t, &r);
	call(&t, &post);
	assert_int_equal(r.dials, 2);
	assert_int_equal(http_client_idle(r.client), 0); /* the first was closed for the second */
	told_done(&t);
	rig_close(&r);
}

static void what_a_kept_connection_says_before_the_request_is_not_its_answer(void **state)
{
	struct rig r;
	struct told t;
	struct err e = { 0 };

	(void)state;
	rig_open(&r, 1);
	told_init(&t, &r);
	do_call(&r, 0);
	(void)send(r.far[0], OK_RESPONSE, sizeof(OK_RESPONSE) - 1, MSG_NOSIGNAL); /* and the loop has not seen it yet */
	t.call = http_call_start(r.client, &GET("/"), &told_ops, &t, &e);
	assert_non_null(t.call);
	wire_turn(&r.w);
	assert_int_equal(t.ends, 0);
	assert_int_equal(r.dials, 2);
	answer(&r, 1, OK_RESPONSE);
	assert_int_equal(t.ends, 1);
	told_done(&t);
	rig_close(&r);
}

static void a_response_that_has_begun_is_never_asked_for_again(void **state)
{
	struct rig r;
	struct told t;

	(void)state;
	rig_open(&r, 1);
	do_call(&r, 0);
	told_init(&t, &r);
	call(&t, &GET("/"));
	answer(&r, 0, "H");
	hang_up(&r, 0);
	assert_int_equal(t.errors, 1);
	assert_int_equal(r.dials, 1);
	told_done(&t);
	rig_close(&r);
}

static void a_repeat_that_finds_no_connection_fails(void **state)
{
	(void)state;
	for (int how = 1; how <= 2; how++) {
		struct rig r;
		struct told t;

		rig_open(&r, 1);
		told_init(&t, &r);
		do_call(&r, 0);
		r.fail_dials = how;
		call(&t, &GET("/"));
		hang_up(&r, 0);
		assert_int_equal(t.errors, 1);
		assert_int_equal(t.e.code, ERR_UNAVAILABLE);
		told_done(&t);
		rig_close(&r);
	}
}

static void a_dial_that_fails_is_told_at_once_or_later(void **state)
{
	struct rig r;
	struct told t;
	struct err e = { 0 };

	(void)state;
	rig_open(&r, 1);
	told_init(&t, &r);
	r.fail_dials = 1;
	assert_null(http_call_start(r.client, &GET("/"), &told_ops, &t, &e));
	assert_string_equal(e.msg, "no line");
	r.fail_dials = 2;
	call(&t, &GET("/"));
	assert_int_equal(t.errors, 1);
	assert_string_equal(t.e.msg, "no answer");
	told_done(&t);
	rig_close(&r);
}

static void a_late_transport_is_put_to_use(void **state)
{
	struct rig r;
	struct told t;

	(void)state;
	rig_open(&r, 1);
	told_init(&t, &r);
	r.dials_hang = true;
	call(&t, &GET("/"));
	wire_wait(&r.w, 4999);
	http_dial_done(r.hanging, wire_transport(&r.far[0]), NULL);
	http_call_cancel(t.call); /* the transport is not lost */
	r.hanging = NULL;
	told_done(&t);
	closep(&r.far[0]);
	told_init(&t, &r);
	call(&t, &GET("/"));
	http_dial_done(r.hanging, wire_transport(&r.far[0]), NULL);
	wire_turn(&r.w);
	answer(&r, 0, OK_RESPONSE);
	assert_int_equal(t.ends, 1);
	told_done(&t);
	rig_close(&r);
}

/* ---- whole answers ---- */

struct fetched {
	int calls;
	unsigned status;
	char body[64], type[64];
	struct err e;
	struct http_fetch *cancels; /* in its own callback */
};

static void on_fetched(const struct http_answer *a, const struct err *e, void *arg)
{
	struct fetched *f = arg;

	f->calls++;
	http_fetch_cancel(f->cancels);
	if (!a) {
		f->e = *e;
		return;
	}
	f->status = a->head->status;
	(void)snprintf(f->body, sizeof(f->body), "%.*s", STR_ARG(a->body));
	(void)snprintf(f->type, sizeof(f->type), "%.*s", STR_ARG(http_value(a->head, "content-type")));
}

static void a_whole_answer_is_fetched_with_its_headers(void **state)
{
	struct rig r;
	struct fetched f = { 0 };
	struct err e = { 0 };

	(void)state;
	rig_open(&r, 1);
	f.cancels = http_fetch(r.client, &GET("/"), on_fetched, &f, &e);
	assert_non_null(f.cancels);
	wire_turn(&r.w);
	answer(&r, 0, "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nX:\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n");
	assert_int_equal(f.calls, 0);
	answer(&r, 0, "3\r\nllo\r\n0\r\n\r\n");
	assert_int_equal(f.calls, 1);
	assert_int_equal(f.status, 200);
	assert_string_equal(f.body, "hello");
	assert_string_equal(f.type, "text/x");
	rig_close(&r);
}

static void a_fetch_is_bounded_and_can_be_cancelled(void **state)
{
	struct http_request rq = GET("/");
	struct rig r;
	struct fetched f = { 0 };
	struct err e = { 0 };
	char text[128];

	(void)state;
	rig_open(&r, 1);
	assert_non_null(http_fetch(r.client, &rq, on_fetched, &f, &e));
	wire_turn(&r.w);
	(void)snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", HTTP_FETCH_MAX + 1);
	answer(&r, 0, text);
	assert_int_equal(f.calls, 1);
	assert_int_equal(f.e.code, ERR_LIMIT);
	rq.max_body = 1;
	assert_non_null(http_fetch(r.client, &rq, on_fetched, &f, &e));
	wire_turn(&r.w);
	answer(&r, 1, OK_RESPONSE);
	assert_int_equal(f.calls, 2);
	http_fetch_cancel(http_fetch(r.client, &rq, on_fetched, &f, &e));
	http_fetch_cancel(NULL);
	wire_turn(&r.w);
	assert_int_equal(f.calls, 2);
	rq.target = STR("x");
	assert_null(http_fetch(r.client, &rq, on_fetched, &f, &e));
	rig_close(&r);
}

static void the_largest_head_can_be_fetched(void **state)
{
	struct rig r;
	struct fetched f = { 0 };
	struct err e = { 0 };
	AUTO(buf_done) struct buf b = BUF_INIT(65536);

	(void)state;
	rig_open(&r, 1);
	assert_non_null(http_fetch(r.client, &GET("/"), on_fetched, &f, &e));
	wire_turn(&r.w);
	buf_addf(&b, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n");
	for (int i = 0; i < HTTP_HEADERS_MAX - 1; i++)
		buf_addf(&b, "Name-%d: %0316d\r\n", i, i);
	buf_addf(&b, "\r\n");
	assert_true(b.n > HTTP_BLOCK_MAX - 1024 && b.n < HTTP_BLOCK_MAX);
	answer(&r, 0, buf_z(&b));
	assert_int_equal(f.status, 200);
	rig_close(&r);
}

/* ---- against the real server ---- */

struct echo {
	struct reply *rp;
	struct request *rq;
	int stops;
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
	(void)e;
	reply_end(((struct echo *)arg)->rp);
	return 0;
}

static void echo_stop(void *arg)
{
	((struct echo *)arg)->stops++;
}

static void echo_proceed(void *arg)
{
	request_resume(((struct echo *)arg)->rq);
}

static int handle_echo(struct request *rq, struct reply *rp, struct err *e)
{
	static const struct body_sink sink = { .data = echo_data, .end = echo_end, .stop = echo_stop };
	static const struct reply_source source = { echo_proceed, echo_stop };
	struct echo *x = rq->ctx;

	*x = (struct echo){ .rp = rp, .rq = rq, .stops = x->stops };
	if (reply_stream(rp, 200, "application/octet-stream", REPLY_UNSIZED, &source, x, e) < 0)
		return -1;
	request_read(rq, &sink, x);
	return 0;
}

static int handle_small(struct request *rq, struct reply *rp, struct err *e)
{
	(void)rq;
	(void)e;
	return reply_bytes(rp, 200, "text/plain", STR("small"));
}

static void run_until(struct loop *l, const int *flag)
{
	for (int i = 0; i < 20000 && *flag == 0; i++)
		assert_int_equal(loop_turn(l, 100, &(struct err){ 0 }), 0);
	assert_int_not_equal(*flag, 0);
}

static void talk_to_the_server(struct loop *l, struct http_client *client)
{
	size_t n = 2 * 1024 * 1024;
	AUTO(free) char *bytes = malloc(n);
	struct http_request rq = { .method = STR("POST"), .target = STR("/echo"), .host = STR("h"),
				   .source = &told_source, .length = HTTP_UNSIZED };
	struct fetched f = { 0 };
	struct err e = { 0 };
	struct told t;

	for (size_t i = 0; i < n; i++)
		bytes[i] = (char)(i * 7 + i / 255);
	for (int i = 0; i < 2; i++) {
		f.calls = 0;
		assert_non_null(http_fetch(client, &GET("/small"), on_fetched, &f, &e));
		run_until(l, &f.calls);
		assert_string_equal(f.body, "small");
	}
	told_init(&t, NULL);
	t.upload = (struct str){ bytes, n };
	t.upload_piece = 20000;
	t.call = http_call_start(client, &rq, &told_ops, &t, &e);
	assert_non_null(t.call);
	for (int i = 0; i < 20000 && t.ends + t.errors == 0; i++)
		assert_int_equal(loop_turn(l, 100, &e), 0);
	assert_int_equal(t.ends, 1);
	assert_int_equal(t.body.n, n);
	assert_memory_equal(t.body.p, bytes, n);
	told_done(&t);
}

static void client_and_server_understand_each_other(void **state)
{
	static const struct route routes[] = {
		{ "POST", "/echo", handle_echo, ROUTE_STREAM_IN, 16 * 1024 * 1024 },
		{ "GET", "/small", handle_small, 0, 0 },
		{ 0 },
	};
	struct http_client_options options = HTTP_CLIENT_OPTIONS;
	struct echo x = { 0 };
	struct http_service service = { .routes = routes, .ctx = &x };
	struct err e = { 0 };

	(void)state;
	for (int is_unix = 0; is_unix < 2; is_unix++) {
		AUTO(loop_free) struct loop *l = loop_new(&e);
		AUTO(http_server_free) struct http_server *s = http_server_new(l, &service, &HTTP_LIMITS, &e);
		AUTO(http_client_free) struct http_client *c = NULL;
		struct addr a = { 0 };
		int fd;

		assert_int_equal(sockaddr_parse(STR("127.0.0.1:0"), &a, &e), 0);
		if (is_unix)
			a = (struct addr){ .len = sizeof(sa_family_t), .sa.sa_family = AF_UNIX };
		fd = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_int_equal(bind(fd, &a.sa, a.len), 0);
		a.len = sizeof(a.un);
		assert_int_equal(getsockname(fd, &a.sa, &a.len), 0);
		assert_int_equal(listen(fd, 10), 0);
		assert_int_equal(http_server_listen(s, &fd, NULL, &e), 0);
		options.to = &a.sa;
		options.to_len = a.len;
		c = http_client_new(l, &options, &e);
		assert_non_null(c);
		talk_to_the_server(l, c);
		assert_int_equal(http_server_counts(s).accepted, 1);
		assert_int_equal(x.stops, 0);
	}
	options.to_len = 1;
	assert_null(http_client_new(NULL, &options, &e));
}

static void a_server_that_is_not_there_is_unavailable(void **state)
{
	struct http_client_options options = HTTP_CLIENT_OPTIONS;
	struct fetched f = { 0 };
	struct err e = { 0 };
	struct addr a;
	struct wire w;
	struct http_client *c;

	(void)state;
	wire_open(&w);
	assert_int_equal(sockaddr_parse(STR("unix:@no such server"), &a, &e), 0);
	options.to = &a.sa;
	options.to_len = a.len;
	c = http_client_new(w.loop, &options, &e);
	assert_non_null(http_fetch(c, &GET("/"), on_fetched, &f, &e));
	wire_turn(&w);
	assert_int_equal(f.e.code, ERR_UNAVAILABLE);
	assert_non_null(http_fetch(c, &GET("/"), on_fetched, &f, &e));
	http_client_free(c); /* cancels the fetch's call; what the fetch holds must go too */
	wire_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_is_used_again),
		cmocka_unit_test(without_idle_connections_each_request_says_close),
		cmocka_unit_test(calls_at_the_same_time_have_connections_of_their_own_and_few_are_kept),
		cmocka_unit_test(an_idle_connection_ends_by_time_by_its_peer_and_by_anything_it_says),
		cmocka_unit_test(a_stale_connection_is_replaced_once_where_that_is_safe),
		cmocka_unit_test(a_connection_on_probation_is_for_what_can_be_repeated),
		cmocka_unit_test(what_a_kept_connection_says_before_the_request_is_not_its_answer),
		cmocka_unit_test(a_response_that_has_begun_is_never_asked_for_again),
		cmocka_unit_test(a_repeat_that_finds_no_connection_fails),
		cmocka_unit_test(a_dial_that_fails_is_told_at_once_or_later),
		cmocka_unit_test(a_late_transport_is_put_to_use),
		cmocka_unit_test(a_whole_answer_is_fetched_with_its_headers),
		cmocka_unit_test(a_fetch_is_bounded_and_can_be_cancelled),
		cmocka_unit_test(the_largest_head_can_be_fetched),
		cmocka_unit_test(client_and_server_understand_each_other),
		cmocka_unit_test(a_server_that_is_not_there_is_unavailable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
