// SPDX-License-Identifier: Apache-2.0
/* One call at a time: requests as they are written, responses as they are read, and every way to end. */
#include "net/http/test_client.h"

#include "base/banned.h"

/* ---- requests ---- */

static void a_request_is_written_with_its_headers(void **state)
{
	static const struct http_header headers[] = {
		{ STR("Accept"), STR("text/plain") },
		{ STR("X-Empty"), STR("") },
	};
	struct http_request rq = GET("/a?b=c");
	struct rig r;
	struct told t;

	(void)state;
	rig_open(&r, 1);
	told_init(&t, &r);
	rq.headers = headers;
	rq.n_headers = 2;
	call(&t, &rq);
	expect_sent(&r, 0, "GET /a?b=c HTTP/1.1\r\nHost: h\r\nAccept: text/plain\r\nX-Empty: \r\n\r\n");
	http_call_cancel(t.call);
	told_done(&t);
	rig_close(&r);
}

static void bodies_are_framed_by_length_or_in_chunks(void **state)
{
	static const struct {
		const char *method, *body, *upload;
		uint64_t length;
		const char *want;
	} table[] = {
		{ "POST", "", NULL, 0, "Content-Length: 0\r\n\r\n" },
		{ "DELETE", "", NULL, 0, "\r\n" },
		{ "PUT", "abc", NULL, 0, "Content-Length: 3\r\n\r\nabc" },
		{ "DELETE", "abc", NULL, 0, "Content-Length: 3\r\n\r\nabc" },
		{ "POST", "", "abcdef", 6, "Content-Length: 6\r\n\r\nabcdef" },
		{ "POST", "", "", 0, "Content-Length: 0\r\n\r\n" },
		{ "POST", "", "abcdef", HTTP_UNSIZED, "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\n" },
		{ "POST", "", "", HTTP_UNSIZED, "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct http_request rq = { .method = str_of(table[i].method), .target = STR("/"), .host = STR("h"),
					   .body = str_of(table[i].body), .length = table[i].length };
		char want[256];
		struct rig r;
		struct told t;

		rig_open(&r, 1);
		told_init(&t, &r);
		t.upload = str_of(table[i].upload);
		t.upload_piece = 4;
		if (table[i].upload)
			rq.source = &told_source;
		call(&t, &rq);
		(void)snprintf(want, sizeof(want), "%s / HTTP/1.1\r\nHost: h\r\n%s", table[i].method, table[i].want);
		expect_sent(&r, 0, want);
		answer(&r, 0, "HTTP/1.1 204 No Content\r\n\r\n");
		assert_int_equal(t.ends, 1);
		assert_int_equal(t.stops, 0);
		assert_int_equal(http_client_idle(r.client), 1);
		told_done(&t);
		rig_close(&r);
	}
}

static void a_request_that_cannot_be_sent_is_refused(void **state)
{
	static const struct http_header bad[] = {
		{ STR("a b"), STR("") }, { STR(""), STR("") }, { STR("a"), STR("b\r\nc: d") }, { STR("a"), STR(" b") },
		{ STR("Host"), STR("x") }, { STR("content-length"), STR("1") }, { STR("Transfer-Encoding"), STR("chunked") },
		{ STR("Connection"), STR("close") }, { STR("Upgrade"), STR("x") }, { STR("expect"), STR("100-continue") },
	};
	AUTO(free) char *big = malloc(HTTP_CLIENT_BODY_MAX + HTTP_HEAD_MAX);
	struct http_header large[2] = { { STR("a"), { big, HTTP_BLOCK_MAX } }, { STR("b"), { big, HTTP_BLOCK_MAX } } };
	struct http_request table[12];
	struct rig r;
	struct told t;
	size_t n = 0;

	(void)state;
	memset(big, 'x', HTTP_CLIENT_BODY_MAX + HTTP_HEAD_MAX);
	rig_open(&r, 1);
	told_init(&t, &r);
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		table[i] = GET("/");
	table[n++].method = STR("GE T");
	table[n++].method = STR("CONNECT");
	table[n++].method = STR("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGH");
	table[n++].target = STR("no-slash");
	table[n++].target = STR("/a b");
	table[n++].target = (struct str){ "/", 0 };
	table[n++].target = (struct str){ "/", 1 };
	table[n - 1].target = (struct str){ memset(big, '/', 1), HTTP_LINE_MAX };
	table[n++].host = STR("a\r\nb");
	table[n++].upgrade = "a b";
	table[n].headers = large;
	table[n++].n_headers = 2;
	table[n++].body = (struct str){ big, HTTP_CLIENT_BODY_MAX + HTTP_HEAD_MAX };
	table[n].source = &told_source;
	table[n++].length = HTTP_LENGTH_MAX + 1;
	assert_int_equal(n, ARRAY_LEN(table));
	for (size_t i = 0; i < n; i++) {
		struct err e = { 0 };

		assert_null(http_call_start(r.client, &table[i], &told_ops, &t, &e));
		assert_true(e.code == ERR_INVALID || e.code == ERR_LIMIT);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct http_request rq = GET("/");

		rq.headers = &bad[i];
		rq.n_headers = 1;
		assert_null(http_call_start(r.client, &rq, &told_ops, &t, &(struct err){ 0 }));
		rq.n_headers = HTTP_HEADERS_MAX;
		assert_null(http_call_start(r.client, &rq, &told_ops, &t, &(struct err){ 0 }));
	}
	assert_int_equal(r.dials, 0);
	told_done(&t);
	rig_close(&r);
}

static void a_long_upload_waits_for_its_reader(void **state)
{
	size_t n = 3 * 1024 * 1024;
	AUTO(free) char *bytes = malloc(n);
	AUTO(buf_done) struct buf got = BUF_INIT(n + 65536);
	struct http_request rq = { .method = STR("PUT"), .target = STR("/"), .host = STR("h"), .source = &told_source,
				   .length = n };
	struct rig r;
	struct told t;

	(void)state;
	memset(bytes, 'u', n);
	rig_open(&r, 1);
	told_init(&t, &r);
	t.upload = (struct str){ bytes, n };
	call(&t, &rq);
	assert_true(t.upload.n > n / 2); /* the socket and the buffer are full, the rest is still the producer's */
	wire_wait(&r.w, 29999);
	assert_int_equal(t.errors, 0);
	while (t.upload.n > 0 || t.call)
		if ((void)wire_hear(&r.w, r.far[0], &got), got.n >= n && t.upload.n == 0)
			break;
	(void)wire_hear(&r.w, r.far[0], &got);
	assert_memory_equal(got.p, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3145728\r\n\r\nuu", 54);
	assert_int_equal(got.n, 52 + n);
	answer(&r, 0, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(t.ends, 1);
	assert_int_equal(http_client_idle(r.client), 1);
	told_done(&t);
	rig_close(&r);
}

static void a_source_that_breaks_its_promise_fails_the_call(void **state)
{
	struct http_request rq = { .method = STR("POST"), .target = STR("/"), .host = STR("h"), .source = &told_source };

	(void)state;
	for (uint64_t length = 3; length <= 5; length += 2) {
		struct rig r;
		struct told t;

		rig_open(&r, 1);
		told_init(&t, &r);
		t.upload = STR("four");
		rq.length = length;
		call(&t, &rq);
		assert_int_equal(t.errors, 1);
		assert_int_equal(t.e.code, ERR_INTERNAL);
		assert_int_equal(http_client_idle(r.client), 0);
		told_done(&t);
		rig_close(&r);
	}
}

/* ---- responses ---- */

static void responses_are_read_in_every_framing(void **state)
{
	static const struct {
		const char *method, *in;
		unsigned status;
		const char *body;
		bool hangs_up, is_kept;
	} table[] = {
		{ "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", false, true },
		{ "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", false, true },
		{ "GET", "HTTP/1.1 404\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nT: v\r\n\r\n", 404,
		  "hello", false, true },
		{ "GET", "HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end", true, false },
		{ "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false, false },
		{ "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false, true },
		{ "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false, false },
		{ "GET", "HTTP/1.1 204 No\r\n\r\n", 204, "", false, true },
		{ "GET", "HTTP/1.1 304 No\r\nContent-Length: 10\r\n\r\n", 304, "", false, true },
		{ "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", 200, "", false, true },
		{ "GET", "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 103 E\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		  200, "ok", false, true },
		{ "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", 200, "ok", false, false },
		{ "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokx", 200, "ok", false, false },
		{ "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nx", 200, "", false, false },
		{ "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "", false, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		for (int by_byte = 0; by_byte < 2; by_byte++) {
			struct http_request rq = GET("/");
			struct str in = str_of(table[i].in);
			struct rig r;
			struct told t;

			rig_open(&r, 1);
			told_init(&t, &r);
			rq.method = str_of(table[i].method);
			call(&t, &rq);
			if (!by_byte)
				wire_say(&r.w, r.far[0], in);
			for (; by_byte && in.n > 0 && t.ends == 0; in = str_skip(in, 1))
				wire_say(&r.w, r.far[0], str_first(in, 1));
			if (by_byte && in.n > 0)
				(void)send(r.far[0], in.p, in.n, MSG_NOSIGNAL); /* what follows a response, too late */
			wire_turn(&r.w);
			if (table[i].hangs_up)
				hang_up(&r, 0);
			assert_int_equal(t.ends, 1);
			assert_int_equal(t.errors, 0);
			assert_int_equal(t.heads, 1);
			assert_int_equal(t.status, table[i].status);
			assert_string_equal(buf_z(&t.body), table[i].body);
			assert_int_equal(http_client_idle(r.client), table[i].is_kept);
			told_done(&t);
			rig_close(&r);
		}
	}
}

static void broken_responses_are_errors(void **state)
{
	static const struct {
		const char *in;
		bool hangs_up;
		enum err_code code;
		int heads;
	} table[] = {
		{ "", true, ERR_IO, 0 },
		{ "HTTP/1.1 200 OK\r\nContent-Le", true, ERR_IO, 0 },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", true, ERR_IO, 1 },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", true, ERR_IO, 1 },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false, ERR_IO, 1 },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", false, ERR_IO, 0 },
		{ "HTTP/1.1 200 OK\nContent-Length: 1\n\n", false, ERR_IO, 0 },
		{ "SSH-2.0-OpenSSH\r\n\r\n", false, ERR_IO, 0 },
		{ "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", false, ERR_IO, 0 },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n", false, ERR_LIMIT, 0 },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello hello\r\n", false, ERR_LIMIT, 1 },
		{ "HTTP/1.1 200 OK\r\n\r\nhello hello", false, ERR_LIMIT, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct http_request rq = GET("/");
		struct rig r;
		struct told t;

		rig_open(&r, 1);
		told_init(&t, &r);
		rq.max_body = 10;
		call(&t, &rq);
		answer(&r, 0, table[i].in);
		if (table[i].hangs_up)
			hang_up(&r, 0);
		assert_int_equal(t.errors, 1);
		assert_int_equal(t.e.code, table[i].code);
		assert_int_equal(t.ends, 0);
		assert_int_equal(t.heads, table[i].heads);
		assert_int_equal(http_client_idle(r.client), 0);
		told_done(&t);
		rig_close(&r);
	}
}

static void informational_responses_have_a_ceiling(void **state)
{
	struct rig r;
	struct told t;

	(void)state;
	rig_open(&r, 1);
	told_init(&t, &r);
	call(&t, &GET("/"));
	for (int i = 0; i < HTTP_INFORMATIONAL_MAX; i++)
		answer(&r, 0, "HTTP/1.1 102 Processing\r\n\r\n");
	assert_int_equal(t.errors, 0);
	answer(&r, 0, "HTTP/1.1 102 Processing\r\n\r\n");
	assert_int_equal(t.errors, 1);
	assert_int_equal(t.e.code, ERR_LIMIT);
	told_done(&t);
	rig_close(&r);
}

static void an_endless_head_is_cut_off(void **state)
{
	struct rig r;
	struct told t;
	char line[1024];

	(void)state;
	rig_open(&r, 1);
	told_init(&t, &r);
	call(&t, &GET("/"));
	answer(&r, 0, "HTTP/1.1 200 OK\r\n");
	memset(line, 'a', sizeof(line));
	memcpy(line, "X: ", 3);
	memcpy(line + sizeof(line) - 2, "\r\n", 2);
	for (int i = 0; i < 40 && t.errors == 0; i++)
		wire_say(&r.w, r.far[0], (struct str){ line, sizeof(line) });
	assert_int_equal(t.errors, 1);
	told_done(&t);
	rig_close(&r);
}

static void an_upgrade_hands_over_the_connection_and_what_came_early(void **state)
{
	struct http_request rq = GET("/ws");
	struct iovec iov = { (void *)(uintptr_t)"pong", 4 };
	struct rig r;
	struct told t;

	(void)state;
	rig_open(&r, 1);
	told_init(&t, &r);
	rq.upgrade = "tunnel";
	call(&t, &rq);
	expect_sent(&r, 0, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: tunnel\r\n\r\n");
	answer(&r, 0, "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: tunnel\r\n\r\nearly");
	assert_int_equal(t.upgrades, 1);
	assert_int_equal(t.ends + t.errors + t.heads, 0);
	assert_string_equal(buf_z(&t.body), "early");
	assert_int_equal(t.upgraded->ops->send(t.upgraded, &iov, 1, false), 4);
	expect_sent(&r, 0, "pong");
	told_done(&t);
	rig_close(&r);

	rig_open(&r, 1); /* the server may also decline */
	told_init(&t, &r);
	call(&t, &rq);
	answer(&r, 0, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
	assert_int_equal(t.upgrades, 0);
	assert_int_equal(t.ends, 1);
	assert_int_equal(t.status, 403);
	told_done(&t);
	rig_close(&r);

	rig_open(&r, 1); /* 101 must name the protocol */
	told_init(&t, &r);
	call(&t, &rq);
	answer(&r, 0, "HTTP/1.1 101 Go\r\n\r\n");
	assert_int_equal(t.errors, 1);
	told_done(&t);
	rig_close(&r);
}

static void a_paused_response_waits_without_a_deadline_and_without_reading(void **state)
{
	struct rig r;
	struct told t;
	size_t pushed = 0;
	char piece[8192];
	ssize_t n;

	(void)state;
	memset(piece, 'd', sizeof(piece));
	rig_open(&r, 1);
	told_init(&t, &r);
	t.pauses = true;
	call(&t, &GET("/"));
	answer(&r, 0, "HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n");
	assert_int_equal(t.heads, 1);
	do {
		n = send(r.far[0], piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);
		pushed += n > 0 ? (size_t)n : 0;
		wire_turn(&r.w);
		assert_true(pushed < 4194304);
	} while (n > 0);
	assert_int_equal(t.datas, 0);
	wire_wait(&r.w, 10000000);
	assert_int_equal(t.errors, 0);
	http_call_resume(t.call);
	assert_int_equal(t.datas, 0);
	wire_turn(&r.w);
	assert_int_equal(t.datas, 1); /* and paused again */
	t.pauses = false;
	http_call_resume(t.call);
	http_call_resume(t.call);
	while (pushed < 4194304) {
		wire_turn(&r.w);
		n = send(r.far[0], piece, MIN(sizeof(piece), 4194304 - pushed), MSG_DONTWAIT | MSG_NOSIGNAL);
		pushed += n > 0 ? (size_t)n : 0;
	}
	for (int i = 0; i < 200 && t.ends == 0; i++)
		wire_turn(&r.w);
	assert_int_equal(t.ends, 1);
	assert_int_equal(t.body.n, 4194304);
	told_done(&t);
	rig_close(&r);
}

static void a_pause_holds_back_the_end_too_and_a_hang_up_meanwhile_does_not_spin(void **state)
{
	struct rig r;
	struct told t;

	(void)state;
	rig_open(&r, 1);
	told_init(&t, &r);
	t.pauses = true;
	call(&t, &GET("/"));
	answer(&r, 0, "HTTP/1.1 200 OK\r\n\r\nbody");
	hang_up(&r, 0);
	wire_turn(&r.w);
	assert_int_equal(t.datas + t.ends, 0);
	http_call_resume(t.call);
	wire_turn(&r.w);
	assert_string_equal(buf_z(&t.body), "body");
	assert_int_equal(t.ends, 0);
	http_call_resume(t.call);
	wire_turn(&r.w);
	assert_int_equal(t.ends, 1);
	told_done(&t);
	rig_close(&r);
}

/* ---- answers that do not wait for the request ---- */

static void an_early_answer_stops_the_upload_and_spoils_the_connection(void **state)
{
	struct http_request rq = { .method = STR("POST"), .target = STR("/"), .host = STR("h"), .source = &told_source,
				   .length = HTTP_UNSIZED };
	struct rig r;
	struct told t;

	(void)state;
	rig_open(&r, 1);
	told_init(&t, &r);
	t.holds_upload = true;
	call(&t, &rq);
	assert_int_equal(t.proceeds, 1);
	assert_int_equal(http_call_room(t.call), HTTP_CLIENT_HIGH_WATER);
	answer(&r, 0, "HTTP/1.1 413 Big\r\nContent-Length: 3\r\n\r\nbig");
	assert_int_equal(t.ends, 1);
	assert_int_equal(t.stops, 1);
	assert_int_equal(t.status, 413);
	assert_string_equal(buf_z(&t.body), "big");
	assert_int_equal(http_client_idle(r.client), 0);
	told_done(&t);
	rig_close(&r);
}

static void an_answer_from_a_server_that_stopped_reading_is_still_heard(void **state)
{
	struct http_request rq = { .method = STR("POST"), .target = STR("/"), .host = STR("h"), .source = &told_source,
				   .length = HTTP_UNSIZED };
	struct rig r;
	struct told t;

	(void)state;
	rig_open(&r, 1);
	told_init(&t, &r);
	t.holds_upload = true;
	call(&t, &rq);
	assert_int_equal(send(r.far[0], "HTTP/1.1 413 Big\r\nContent-Length: 0\r\n\r\n", 39, 0), 39);
	assert_int_equal(shutdown(r.far[0], SHUT_RD), 0);
	http_call_write(t.call, STR("more"));
	wire_turn(&r.w);
	assert_int_equal(t.ends, 1);
	assert_int_equal(t.stops, 1);
	assert_int_equal(t.status, 413);
	told_done(&t);
	rig_close(&r);
}

/* ---- time ---- */

static void every_wait_has_a_deadline(void **state)
{
	static const char *const answers[] = { NULL, "", "HTTP/1.1 200 OK\r\n",
					       "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx" };
	static const char *const said[] = { "no connection in time", "no response in time", "no response in time",
					    "the response stopped" };
	static const struct http_deadlines deadlines = { .connect_ms = 10, .send_ms = 20, .head_ms = 30, .body_ms = 40 };
	static const unsigned limits[] = { 10, 30, 30, 40 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		struct http_request rq = GET("/");
		struct rig r;
		struct told t;

		rig_open(&r, 1);
		told_init(&t, &r);
		r.dials_hang = !answers[i];
		rq.deadlines = &deadlines;
		call(&t, &rq);
		if (answers[i])
			answer(&r, 0, answers[i]);
		wire_wait(&r.w, limits[i] - 1);
		assert_int_equal(t.errors, 0);
		wire_wait(&r.w, 1);
		assert_int_equal(t.errors, 1);
		assert_int_equal(t.e.code, ERR_TIMEOUT);
		assert_string_equal(t.e.msg, said[i]);
		assert_int_equal(r.dials_cancelled, i == 0);
		told_done(&t);
		rig_close(&r);
	}
}

static void an_upload_that_does_not_move_times_out_and_each_byte_renews(void **state)
{
	struct http_request rq = { .method = STR("POST"), .target = STR("/"), .host = STR("h"), .source = &told_source,
				   .length = HTTP_UNSIZED };
	struct rig r;
	struct told t;

	(void)state;
	rig_open(&r, 1);
	told_init(&t, &r);
	t.holds_upload = true;
	call(&t, &rq);
	for (int i = 0; i < 3; i++) {
		wire_wait(&r.w, 29999);
		http_call_write(t.call, STR("x"));
		wire_turn(&r.w);
	}
	assert_int_equal(t.errors, 0);
	wire_wait(&r.w, 30000);
	assert_int_equal(t.errors, 1);
	assert_int_equal(t.stops, 1);
	assert_string_equal(t.e.msg, "the request was not taken in time");
	told_done(&t);
	rig_close(&r);
}

/* ---- cancelling ---- */

static void a_call_can_be_cancelled_and_its_client_freed_in_every_callback(void **state)
{
	struct http_request upload = { .method = STR("POST"), .target = STR("/"), .host = STR("h"), .source = &told_source,
				       .length = HTTP_UNSIZED };

	(void)state;
	for (int when = CANCEL_ON_HEAD; when <= CANCEL_ON_STOP; when++) {
		for (int frees = 0; frees < 2; frees++) {
			struct str in = STR("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
			bool uploads = when >= CANCEL_ON_PROCEED;
			struct rig r;
			struct told t;

			rig_open(&r, 1);
			told_init(&t, &r);
			t.cancel = (__typeof__(t.cancel))when;
			t.frees_client = frees;
			t.holds_upload = true;
			call(&t, uploads ? &upload : &GET("/"));
			if (when == CANCEL_ON_ERROR || when == CANCEL_ON_STOP)
				in = STR("garbage\r\n\r\n");
			if (when != CANCEL_ON_PROCEED)
				(void)send(r.far[0], in.p, in.n, MSG_NOSIGNAL);
			wire_turn(&r.w);
			assert_null(t.call);
			assert_int_equal(t.ends, when == CANCEL_ON_END);
			assert_int_equal(t.errors, when == CANCEL_ON_ERROR);
			assert_int_equal(t.stops, when == CANCEL_ON_STOP);
			assert_int_equal(t.datas, when == CANCEL_ON_DATA || when == CANCEL_ON_END);
			told_done(&t);
			rig_close(&r);
		}
	}
}

static void a_call_can_be_cancelled_from_outside_in_every_state(void **state)
{
	static const char *const answers[] = { NULL, "", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		struct rig r;
		struct told t;
		struct http_call *at_once;

		rig_open(&r, 1);
		told_init(&t, &r);
		at_once = http_call_start(r.client, &GET("/"), &told_ops, &t, &(struct err){ 0 });
		http_call_cancel(at_once);
		closep(&r.far[0]);
		r.far[0] = -1;
		r.dials = 0;
		r.dials_hang = !answers[i];
		call(&t, &GET("/"));
		if (answers[i])
			answer(&r, 0, answers[i]);
		http_call_cancel(t.call);
		http_call_cancel(NULL);
		wire_wait(&r.w, 100000);
		assert_int_equal(t.ends + t.errors, 0);
		assert_int_equal(r.dials_cancelled, i == 0);
		told_done(&t);
		rig_close(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_written_with_its_headers),
		cmocka_unit_test(bodies_are_framed_by_length_or_in_chunks),
		cmocka_unit_test(a_request_that_cannot_be_sent_is_refused),
		cmocka_unit_test(a_long_upload_waits_for_its_reader),
		cmocka_unit_test(a_source_that_breaks_its_promise_fails_the_call),
		cmocka_unit_test(responses_are_read_in_every_framing),
		cmocka_unit_test(broken_responses_are_errors),
		cmocka_unit_test(informational_responses_have_a_ceiling),
		cmocka_unit_test(an_endless_head_is_cut_off),
		cmocka_unit_test(an_upgrade_hands_over_the_connection_and_what_came_early),
		cmocka_unit_test(a_paused_response_waits_without_a_deadline_and_without_reading),
		cmocka_unit_test(a_pause_holds_back_the_end_too_and_a_hang_up_meanwhile_does_not_spin),
		cmocka_unit_test(an_early_answer_stops_the_upload_and_spoils_the_connection),
		cmocka_unit_test(an_answer_from_a_server_that_stopped_reading_is_still_heard),
		cmocka_unit_test(every_wait_has_a_deadline),
		cmocka_unit_test(an_upload_that_does_not_move_times_out_and_each_byte_renews),
		cmocka_unit_test(a_call_can_be_cancelled_and_its_client_freed_in_every_callback),
		cmocka_unit_test(a_call_can_be_cancelled_from_outside_in_every_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
