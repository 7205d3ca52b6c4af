// SPDX-License-Identifier: Apache-2.0
#include "execd/proxy_headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

static void parse(const char *lines, bool is_request, struct buf *text, struct http_head *h)
{
	struct http_scan scan = { 0 };
	struct http_fault f = { 0 };

	buf_clear(text);
	buf_addf(text, "%s%s\r\n", is_request ? "GET / HTTP/1.1\r\nHost: a\r\n" : "HTTP/1.1 200 OK\r\n", lines);
	if (is_request)
		assert_int_equal(http_request_head(&scan, buf_str(text), h, &f), 1);
	else
		assert_int_equal(http_response_head(&scan, buf_str(text), false, h, &f), 1);
}

static void what_a_service_gets(void **state)
{
	static const struct {
		const char *lines, *peer, *want;
	} cases[] = {
		{ "", "1.2.3.4", "X-Forwarded-For=1.2.3.4, 1.2.3.4;X-Forwarded-Proto=http;" },
		{ "", "", "X-Forwarded-Proto=http;" },
		{ "X-Forwarded-For: 5.6.7.8, 9.9.9.9\r\n", "1.2.3.4", "X-Forwarded-For=5.6.7.8, 1.2.3.4;X-Forwarded-Proto=http;" },
		{ "X-Forwarded-For: 5.6.7.8\r\n", "", "X-Forwarded-For=5.6.7.8;X-Forwarded-Proto=http;" },
		{ "X-Forwarded-For: <script>, 5.6.7.8\r\n", "::1", "X-Forwarded-For=::1, ::1;X-Forwarded-Proto=http;" },
		{ "X-Real-IP: 2001:db8::1\r\n", "1.2.3.4", "X-Real-IP=2001:db8::1;X-Forwarded-For=2001:db8::1, 1.2.3.4;X-Forwarded-Proto=http;" },
		{ "X-Forwarded-Proto: https\r\nX-Forwarded-Host: h\r\nExpect: 100-continue\r\n", "", "X-Forwarded-Proto=http;" },
		{ "X-EXECD-ACCESS-TOKEN: t\r\nx-execd-access-token: u\r\nOPEN-SANDBOX-API-KEY: k\r\nOPENSANDBOX-EGRESS-AUTH: t\r\n"
		  "OpenSandbox-Secure-Access: s\r\n", "", "X-Forwarded-Proto=http;" },
		{ "Connection: close, X-Gone\r\nX-Gone: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nProxy-Authorization: x\r\n"
		  "Content-Length: 0\r\n", "", "X-Forwarded-Proto=http;" },
		{ "Authorization: Bearer x\r\nCookie: a=b\r\nAccept: a\r\nAccept: b\r\n", "",
		  "Authorization=Bearer x;Cookie=a=b;Accept=a;Accept=b;X-Forwarded-Proto=http;" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(4096);
		AUTO(buf_done) struct buf text = BUF_INIT(8192);
		AUTO(buf_done) struct buf got = BUF_INIT(8192);
		struct http_header out[PROXIED_HEADERS_MAX];
		struct http_head h;
		struct err e = { 0 };
		int n;

		parse(cases[i].lines, true, &text, &h);
		n = proxied_request_headers(&h, str_of(cases[i].peer), &a, out, &e);
		for (int k = 0; k < n; k++)
			buf_addf(&got, "%.*s=%.*s;", STR_ARG(out[k].name), STR_ARG(out[k].value));
		assert_string_equal(buf_z(&got), cases[i].want);
	}
}

static void too_many_are_refused(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(4096);
	AUTO(buf_done) struct buf text = BUF_INIT(8192);
	AUTO(buf_done) struct buf lines = BUF_INIT(8192);
	struct http_header out[PROXIED_HEADERS_MAX];
	struct http_head h;
	struct err e = { 0 };

	(void)state;
	for (int i = 0; i < PROXIED_HEADERS_MAX - 1; i++)
		buf_addf(&lines, "X-%d: 1\r\n", i);
	parse(lines.p, true, &text, &h);
	assert_int_equal(proxied_request_headers(&h, STR(""), &a, out, &e), PROXIED_HEADERS_MAX);
	buf_addf(&lines, "X: 1\r\n");
	parse(lines.p, true, &text, &h);
	assert_int_equal(proxied_request_headers(&h, STR(""), &a, out, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

static void what_a_client_gets(void **state)
{
	AUTO(buf_done) struct buf text = BUF_INIT(8192);
	struct http_head h;

	(void)state;
	parse("Connection: x-gone\r\nContent-Length: 0\r\n", false, &text, &h);
	assert_false(proxied_response_header_passes(&h, STR("date"), false));
	assert_false(proxied_response_header_passes(&h, STR("X-Gone"), false));
	assert_false(proxied_response_header_passes(&h, STR("Transfer-Encoding"), false));
	assert_false(proxied_response_header_passes(&h, STR("x-request-id"), true));
	assert_true(proxied_response_header_passes(&h, STR("x-request-id"), false));
	assert_true(proxied_response_header_passes(&h, STR("Set-Cookie"), true));
	assert_true(proxied_response_header_passes(&h, STR("Content-Type"), true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_service_gets),
		cmocka_unit_test(too_many_are_refused),
		cmocka_unit_test(what_a_client_gets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
