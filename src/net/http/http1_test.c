// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/own.h"
#include "net/http/http1.h"

#include "base/banned.h"

#define CRLF "\r\n"

/* Requests are covered through the server (server_framing_test.c); here are responses and the chunked decoder. */

struct response_case {
	struct str text;
	bool is_head_request;
	int want; /* of http_response_head() */
	unsigned status;
	enum http_framing framing;
	uint64_t length;
	bool keep_alive;
};

static void responses_are_framed_by_the_rules(void **state)
{
	static const struct response_case cases[] = {
		{ STR("HTTP/1.1 200 OK" CRLF "Content-Length: 5" CRLF CRLF), false, 1, 200, HTTP_LENGTH, 5, true },
		{ STR("HTTP/1.1 200 OK" CRLF "Content-Length: 0" CRLF CRLF), false, 1, 200, HTTP_NO_BODY, 0, true },
		{ STR("HTTP/1.1 200 OK" CRLF "Content-Length: 5" CRLF CRLF), true, 1, 200, HTTP_NO_BODY, 5, true },
		{ STR("HTTP/1.1 200 OK" CRLF "Transfer-Encoding: Chunked" CRLF CRLF), false, 1, 200, HTTP_CHUNKED, 0, true },
		{ STR("HTTP/1.1 200 OK" CRLF CRLF), false, 1, 200, HTTP_UNTIL_CLOSE, 0, false },
		{ STR("HTTP/1.1 200 OK" CRLF CRLF), true, 1, 200, HTTP_NO_BODY, 0, true },
		{ STR("HTTP/1.0 200 OK" CRLF "Content-Length: 5" CRLF CRLF), false, 1, 200, HTTP_LENGTH, 5, false },
		{ STR("HTTP/1.1 204 No Content" CRLF CRLF), false, 1, 204, HTTP_NO_BODY, 0, true },
		{ STR("HTTP/1.1 304 Not Modified" CRLF "Content-Length: 5" CRLF CRLF), false, 1, 304, HTTP_NO_BODY, 5, true },
		{ STR("HTTP/1.1 100 Continue" CRLF CRLF), false, 1, 100, HTTP_NO_BODY, 0, true },
		{ STR("HTTP/1.1 200 OK" CRLF "Connection: close" CRLF "Content-Length: 1" CRLF CRLF), false, 1, 200, HTTP_LENGTH, 1, false },
		{ STR("HTTP/1.1 200" CRLF "Content-Length: 1" CRLF CRLF), false, 1, 200, HTTP_LENGTH, 1, true },
		{ STR("HTTP/1.1 200 " CRLF "Content-Length: 1" CRLF CRLF), false, 1, 200, HTTP_LENGTH, 1, true },
		{ STR("HTTP/1.1 200 OK" CRLF "Content-Length: 1" CRLF), false, 0, 0, HTTP_NO_BODY, 0, false },
		{ STR("HTTP/1.1 200 OK" CRLF "Content-Length: 1" CRLF "Content-Length: 1" CRLF CRLF), false, -1, 0, HTTP_NO_BODY, 0, false },
		{ STR("HTTP/1.1 200 OK" CRLF "Content-Length: 1" CRLF "Transfer-Encoding: chunked" CRLF CRLF), false, -1, 0, HTTP_NO_BODY, 0, false },
		{ STR("HTTP/1.1 20 OK" CRLF CRLF), false, -1, 0, HTTP_NO_BODY, 0, false },
		{ STR("HTTP/1.1 999 Odd" CRLF CRLF), false, -1, 0, HTTP_NO_BODY, 0, false },
		{ STR("HTTP/1.1  200 OK" CRLF CRLF), false, -1, 0, HTTP_NO_BODY, 0, false },
		{ STR("HTTP/2 200 OK" CRLF CRLF), false, -1, 0, HTTP_NO_BODY, 0, false },
		{ STR("ICY 200 OK" CRLF CRLF), false, -1, 0, HTTP_NO_BODY, 0, false },
		{ STR("HTTP/1.1 200 O\x01K" CRLF CRLF), false, -1, 0, HTTP_NO_BODY, 0, false },
		{ STR("HTTP/1.1 200 OK\nContent-Length: 1" CRLF CRLF), false, -1, 0, HTTP_NO_BODY, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct response_case *c = &cases[i];
		struct http_scan scan = { 0 };
		struct http_fault f = { 0 };
		struct http_head h = { 0 };
		int r = http_response_head(&scan, c->text, c->is_head_request, &h, &f);

		if (r != c->want || (r < 0 && f.status != 502) ||
		    (r > 0 && (h.status != c->status || h.framing != c->framing || h.length != c->length ||
			       h.keep_alive != c->keep_alive || h.size != c->text.n)))
			fail_msg("case %zu '%s': %d %u %d", i, c->text.p, r, h.status, (int)h.framing);
	}
}

static void headers_are_found_whatever_their_case(void **state)
{
	struct str text = STR("GET /a HTTP/1.1" CRLF "HOST: h:1" CRLF "X-Two: 1" CRLF "x-two:\t 2 \t" CRLF
			      "Connection: a , Upgrade" CRLF "Upgrade: b" CRLF CRLF "more");
	struct http_scan scan = { 0 };
	struct http_fault f;
	struct http_head h;

	(void)state;
	assert_int_equal(http_request_head(&scan, text, &h, &f), 1);
	assert_int_equal(h.size, text.n - 4);
	assert_true(str_eq(h.host, STR("h:1")));
	assert_true(str_eq(http_value(&h, "x-TWO"), STR("1")));
	assert_true(str_eq(h.headers[2].value, STR("2")));
	assert_null(http_find(&h, "x-three"));
	assert_int_equal(http_value(&h, "x-three").n, 0);
	assert_true(h.has_upgrade);
	assert_true(h.keep_alive);
	assert_false(http_list_has(STR("keep-alive,xclose"), "close"));
	assert_true(http_list_has(STR(",, CLOSE"), "close"));
	assert_false(http_list_has(STR(""), "close"));
}

static void tokens_and_values_are_told_apart(void **state)
{
	(void)state;
	assert_true(http_is_token(STR("X-!#$%&'*+.^_`|~09")));
	assert_false(http_is_token(STR("")));
	assert_false(http_is_token(STR("a b")));
	assert_false(http_is_token(STR("a:")));
	assert_false(http_is_token(STR("a\"")));
	assert_false(http_is_token(STR("a\x7f")));
	assert_false(http_is_token(STR("\xc3\xa9")));
	assert_false(http_is_token(STR("a\0")));
	assert_true(http_is_field_value(STR("")));
	assert_true(http_is_field_value(STR("a\tb \xff")));
	assert_false(http_is_field_value(STR(" a")));
	assert_false(http_is_field_value(STR("a ")));
	assert_false(http_is_field_value(STR("a\r\nX: y")));
	assert_false(http_is_field_value(STR("a\0")));
	assert_false(http_is_field_value(STR("a\x7f")));
}

/* Decodes TEXT in pieces of STEP; -1 when refused, else the bytes left over behind the end, or -2 without an end. */
static int decode(struct str text, size_t step, struct buf *body)
{
	struct http_chunked c = { 0 };
	const char *why = NULL;

	while (text.n > 0) {
		struct str piece = str_first(text, step), in = piece, data;
		enum http_chunk r;

		while ((r = http_chunk_next(&c, &in, &data, &why)) == HTTP_CHUNK_DATA)
			assert_true(buf_add_str(body, data));
		text = str_skip(text, piece.n - in.n);
		if (r == HTTP_CHUNK_BAD)
			return -1;
		if (r == HTTP_CHUNK_END)
			return (int)text.n;
	}
	return -2;
}

static void chunks_are_the_same_however_they_arrive(void **state)
{
	struct str text = STR("4;name=\"value\"" CRLF "Wiki" CRLF "006" CRLF "pedia " CRLF "E" CRLF "in \r\n\r\nchunks." CRLF "0" CRLF
			      "Trailer: x" CRLF "Other: y" CRLF CRLF "GET /");

	(void)state;
	for (size_t step = 1; step <= text.n; step++) {
		AUTO(buf_done) struct buf body = BUF_INIT(100);

		assert_int_equal(decode(text, step, &body), 5);
		assert_string_equal(body.p, "Wikipedia in \r\n\r\nchunks.");
	}
	for (size_t cut = 0; cut < text.n - 5; cut++) {
		AUTO(buf_done) struct buf body = BUF_INIT(100);

		assert_int_equal(decode(str_first(text, cut), 7, &body), -2);
	}
}

static void trailers_are_bounded(void **state)
{
	AUTO(buf_done) struct buf text = BUF_INIT(65536), body = BUF_INIT(100);

	(void)state;
	buf_addf(&text, "0" CRLF "X: %08000d" CRLF CRLF, 0);
	assert_int_equal(decode(buf_str(&text), 1000, &body), 0);
	buf_clear(&text);
	buf_addf(&text, "0" CRLF "X: %08200d" CRLF CRLF, 0);
	assert_int_equal(decode(buf_str(&text), 1000, &body), -1);
}

static void every_status_that_is_sent_has_a_reason(void **state)
{
	(void)state;
	assert_string_equal(http_reason(404), "Not Found");
	assert_string_equal(http_reason(507), "Insufficient Storage");
	assert_string_equal(http_reason(299), "Unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(responses_are_framed_by_the_rules),
		cmocka_unit_test(headers_are_found_whatever_their_case),
		cmocka_unit_test(tokens_and_values_are_told_apart),
		cmocka_unit_test(chunks_are_the_same_however_they_arrive),
		cmocka_unit_test(trailers_are_bounded),
		cmocka_unit_test(every_status_that_is_sent_has_a_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
