// SPDX-License-Identifier: Apache-2.0
/* Requirement A4: a request that could be read in two ways is answered 400 and the connection closed, and no
 * byte that follows it is ever taken for a second request. */
#include "net/http/test_server.h"

#include "base/own.h"

#include "base/banned.h"

#define CRLF "\r\n"
#define GET(path) "GET " path " HTTP/1.1" CRLF "Host: a" CRLF CRLF

struct fixture {
	struct rig rig;
	unsigned handled; /* requests that reached the handler of what is smuggled */
};

static int hello(struct request *rq, struct reply *rp, struct err *e)
{
	(void)e;
	++*(unsigned *)rq->ctx;
	return reply_bytes(rp, 200, "text/plain", STR("hello"));
}

static int echo(struct request *rq, struct reply *rp, struct err *e)
{
	(void)e;
	return reply_bytes(rp, 200, "text/plain", rq->body);
}

static const struct route routes[] = {
	{ "GET", "/hello", hello, 0, 0 },
	{ "POST", "/echo", echo, 0, 1000 },
	{ 0 },
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->rig.service.ctx = &f->handled;
	rig_start(&f->rig, routes, NULL);
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

#define HEAD "POST /echo HTTP/1.1" CRLF "Host: a" CRLF
#define SMUGGLED GET("/hello")

static const struct {
	const char *what;
	struct str bytes;
} malformed[] = {
	{ "length and coding", STR(HEAD "Content-Length: 5" CRLF "Transfer-Encoding: chunked" CRLF CRLF "0" CRLF CRLF SMUGGLED) },
	{ "coding and length", STR(HEAD "Transfer-Encoding: chunked" CRLF "Content-Length: 5" CRLF CRLF "0" CRLF CRLF SMUGGLED) },
	{ "two lengths", STR(HEAD "Content-Length: 0" CRLF "Content-Length: 44" CRLF CRLF SMUGGLED) },
	{ "the same length twice", STR(HEAD "Content-Length: 0" CRLF "Content-Length: 0" CRLF CRLF SMUGGLED) },
	{ "a list of lengths", STR(HEAD "Content-Length: 0, 0" CRLF CRLF SMUGGLED) },
	{ "a signed length", STR(HEAD "Content-Length: +0" CRLF CRLF SMUGGLED) },
	{ "a negative length", STR(HEAD "Content-Length: -1" CRLF CRLF SMUGGLED) },
	{ "a hexadecimal length", STR(HEAD "Content-Length: 0x0" CRLF CRLF SMUGGLED) },
	{ "an empty length", STR(HEAD "Content-Length:" CRLF CRLF SMUGGLED) },
	{ "a length with a blank inside", STR(HEAD "Content-Length: 0 0" CRLF CRLF SMUGGLED) },
	{ "a length above 2^53", STR(HEAD "Content-Length: 9007199254740993" CRLF CRLF SMUGGLED) },
	{ "a length above 2^64", STR(HEAD "Content-Length: 18446744073709551616" CRLF CRLF SMUGGLED) },
	{ "another coding", STR(HEAD "Transfer-Encoding: gzip" CRLF CRLF SMUGGLED) },
	{ "two codings", STR(HEAD "Transfer-Encoding: gzip, chunked" CRLF CRLF "0" CRLF CRLF SMUGGLED) },
	{ "chunked twice", STR(HEAD "Transfer-Encoding: chunked, chunked" CRLF CRLF "0" CRLF CRLF SMUGGLED) },
	{ "two coding headers", STR(HEAD "Transfer-Encoding: chunked" CRLF "Transfer-Encoding: chunked" CRLF CRLF "0" CRLF CRLF SMUGGLED) },
	{ "coding identity", STR(HEAD "Transfer-Encoding: identity" CRLF CRLF SMUGGLED) },
	{ "an empty coding", STR(HEAD "Transfer-Encoding: " CRLF CRLF SMUGGLED) },
	{ "a coding with a tail", STR(HEAD "Transfer-Encoding: chunked;q=1" CRLF CRLF "0" CRLF CRLF SMUGGLED) },
	{ "a coding in HTTP/1.0", STR("POST /echo HTTP/1.0" CRLF "Host: a" CRLF "Transfer-Encoding: chunked" CRLF CRLF "0" CRLF CRLF SMUGGLED) },
	{ "a folded header", STR(HEAD "X: a" CRLF " b" CRLF CRLF SMUGGLED) },
	{ "a header folded with a tab", STR(HEAD "X: a" CRLF "\tContent-Length: 3" CRLF CRLF SMUGGLED) },
	{ "a blank before the first header", STR("GET /hello HTTP/1.1" CRLF " Host: a" CRLF "Host: b" CRLF CRLF SMUGGLED) },
	{ "a space before the colon", STR(HEAD "Content-Length : 0" CRLF CRLF SMUGGLED) },
	{ "a tab before the colon", STR(HEAD "Content-Length\t: 0" CRLF CRLF SMUGGLED) },
	{ "a header without a colon", STR(HEAD "Content-Length" CRLF CRLF SMUGGLED) },
	{ "a header without a name", STR(HEAD ": 1" CRLF CRLF SMUGGLED) },
	{ "a bare LF after a header", STR(HEAD "X: a\nContent-Length: 0" CRLF CRLF SMUGGLED) },
	{ "a bare LF after the request line", STR("GET /hello HTTP/1.1\nHost: a" CRLF CRLF SMUGGLED) },
	{ "bare LFs only", STR("GET /hello HTTP/1.1\nHost: a\n\n" SMUGGLED) },
	{ "a bare CR in a header", STR(HEAD "X: a\rb" CRLF CRLF SMUGGLED) },
	{ "a bare CR instead of CRLF", STR(HEAD "X: a\rContent-Length: 0" CRLF CRLF SMUGGLED) },
	{ "CR CR LF", STR(HEAD "X: a\r" CRLF CRLF SMUGGLED) },
	{ "NUL in a header", STR(HEAD "X: a\0b" CRLF CRLF SMUGGLED) },
	{ "NUL in a header name", STR(HEAD "X\0: a" CRLF CRLF SMUGGLED) },
	{ "a control byte in a header", STR(HEAD "X: a\x01" CRLF CRLF SMUGGLED) },
	{ "DEL in a header", STR(HEAD "X: a\x7f" CRLF CRLF SMUGGLED) },
	{ "a control byte in the target", STR("GET /he\x01llo HTTP/1.1" CRLF "Host: a" CRLF CRLF SMUGGLED) },
	{ "a raw high byte in the target", STR("GET /h\xc3\xa9 HTTP/1.1" CRLF "Host: a" CRLF CRLF SMUGGLED) },
	{ "no Host", STR("GET /hello HTTP/1.1" CRLF CRLF SMUGGLED) },
	{ "an empty Host", STR("GET /hello HTTP/1.1" CRLF "Host: " CRLF CRLF SMUGGLED) },
	{ "two Hosts", STR("GET /hello HTTP/1.1" CRLF "Host: a" CRLF "Host: a" CRLF CRLF SMUGGLED) },
	{ "a Host with a path", STR("GET /hello HTTP/1.1" CRLF "Host: a/b" CRLF CRLF SMUGGLED) },
	{ "a Host with a user", STR("GET /hello HTTP/1.1" CRLF "Host: a@b" CRLF CRLF SMUGGLED) },
	{ "an absolute target", STR("GET http://b/hello HTTP/1.1" CRLF "Host: a" CRLF CRLF SMUGGLED) },
	{ "CONNECT", STR("CONNECT a:80 HTTP/1.1" CRLF "Host: a" CRLF CRLF SMUGGLED) },
	{ "two blanks in the request line", STR("GET  /hello HTTP/1.1" CRLF "Host: a" CRLF CRLF SMUGGLED) },
	{ "a blank in the target", STR("GET /he llo HTTP/1.1" CRLF "Host: a" CRLF CRLF SMUGGLED) },
	{ "a blank after the version", STR("GET /hello HTTP/1.1 " CRLF "Host: a" CRLF CRLF SMUGGLED) },
	{ "no version", STR("GET /hello" CRLF "Host: a" CRLF CRLF SMUGGLED) },
	{ "a version in lower case", STR("GET /hello http/1.1" CRLF "Host: a" CRLF CRLF SMUGGLED) },
	{ "a method with a brace", STR("G{T /hello HTTP/1.1" CRLF "Host: a" CRLF CRLF SMUGGLED) },
	{ "an empty line first", STR(CRLF GET("/hello")) },
	{ "a chunk size of 17 digits", STR(HEAD "Transfer-Encoding: chunked" CRLF CRLF "00000000000000000" CRLF CRLF SMUGGLED) },
	{ "a chunk size with a blank", STR(HEAD "Transfer-Encoding: chunked" CRLF CRLF "0 " CRLF CRLF SMUGGLED) },
	{ "a chunk size with 0x", STR(HEAD "Transfer-Encoding: chunked" CRLF CRLF "0x0" CRLF CRLF SMUGGLED) },
	{ "a signed chunk size", STR(HEAD "Transfer-Encoding: chunked" CRLF CRLF "+0" CRLF CRLF SMUGGLED) },
	{ "an empty chunk size", STR(HEAD "Transfer-Encoding: chunked" CRLF CRLF CRLF CRLF SMUGGLED) },
	{ "a chunk size with a bare LF", STR(HEAD "Transfer-Encoding: chunked" CRLF CRLF "0\n\n" SMUGGLED) },
	{ "chunk data that is too long", STR(HEAD "Transfer-Encoding: chunked" CRLF CRLF "1" CRLF "ab" CRLF "0" CRLF CRLF SMUGGLED) },
	{ "chunk data with a bare LF behind", STR(HEAD "Transfer-Encoding: chunked" CRLF CRLF "1" CRLF "a\n0" CRLF CRLF SMUGGLED) },
	{ "a control byte in a chunk extension", STR(HEAD "Transfer-Encoding: chunked" CRLF CRLF "0;a\x01" CRLF CRLF SMUGGLED) },
	{ "a bare LF in a trailer", STR(HEAD "Transfer-Encoding: chunked" CRLF CRLF "0" CRLF "X: a\n" CRLF SMUGGLED) },
	{ "an HTTP/2 preface", STR("PRI * HTTP/2.0" CRLF CRLF "SM" CRLF CRLF) },
	{ "a TLS hello", STR("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n\n") },
};

static void malformed_framing_is_refused_and_never_read_as_a_second_request(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(malformed); i++) {
		AUTO(buf_done) struct buf answer = BUF_INIT(65536);
		bool closed = rig_talk(&f->rig, malformed[i].bytes, &answer);
		const char *want = strstr(malformed[i].what, "HTTP/2") ? "HTTP/1.1 505 " : "HTTP/1.1 400 ";

		if (!str_starts(buf_str(&answer), str_of(want)) || !closed || f->handled > 0 ||
		    rig_count(&answer, "HTTP/1.1 ") != 1 || rig_count(&answer, "Connection: close\r\n") != 1)
			fail_msg("%s: closed %d, %u handled, answered '%s'", malformed[i].what, closed, f->handled,
				 buf_z(&answer));
	}
}

static void malformed_framing_is_refused_byte_by_byte_too(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(malformed); i++) {
		AUTO(buf_done) struct buf answer = BUF_INIT(65536);
		AUTO_FD fd = rig_connect(&f->rig);

		for (size_t k = 0; k < malformed[i].bytes.n; k++)
			rig_send(&f->rig, fd, (struct str){ malformed[i].bytes.p + k, 1 });
		if (!rig_recv(&f->rig, fd, &answer) || f->handled > 0 || rig_count(&answer, "HTTP/1.1 ") != 1)
			fail_msg("%s: answered '%s'", malformed[i].what, buf_z(&answer));
	}
}

static void a_long_chunk_extension_is_refused(void **state)
{
	struct fixture *f = *state;
	AUTO(buf_done) struct buf rq = BUF_INIT(4096), answer = BUF_INIT(4096);

	buf_addf(&rq, HEAD "Transfer-Encoding: chunked" CRLF CRLF "0;%0257d" CRLF CRLF SMUGGLED, 0);
	assert_true(rig_talk(&f->rig, buf_str(&rq), &answer));
	rig_begins(&answer, "HTTP/1.1 400 ");
	buf_clear(&rq), buf_clear(&answer);
	buf_addf(&rq, HEAD "Transfer-Encoding: chunked" CRLF CRLF "1;%0255d" CRLF "x" CRLF "0" CRLF CRLF, 0);
	assert_false(rig_talk(&f->rig, buf_str(&rq), &answer));
	rig_begins(&answer, "HTTP/1.1 200 ");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(malformed_framing_is_refused_and_never_read_as_a_second_request),
		TEST(malformed_framing_is_refused_byte_by_byte_too),
		TEST(a_long_chunk_extension_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
