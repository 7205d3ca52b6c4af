// SPDX-License-Identifier: Apache-2.0
#include "server/proxy/proxy_headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

/* The head of a request or answer with these header lines. */
static void parse(const char *lines, bool is_request, struct buf *text, struct http_head *h)
{
	struct http_scan scan = { 0 };
	struct http_fault f = { 0 };

	buf_addf(text, "%s%s\r\n", is_request ? "GET / HTTP/1.1\r\n" : "HTTP/1.1 200 OK\r\n", lines);
	if (is_request)
		assert_int_equal(http_request_head(&scan, buf_str(text), h, &f), 1);
	else
		assert_int_equal(http_response_head(&scan, buf_str(text), false, h, &f), 1);
}

static void request_headers_that_are_ours_or_the_connections_stay(void **state)
{
	AUTO(buf_done) struct buf text = BUF_INIT(8192);
	AUTO(buf_done) struct buf got = BUF_INIT(8192);
	struct http_header out[PROXY_HEADERS_MAX];
	struct http_head h;
	struct err e = { 0 };
	struct proxy_request_rules rules = { .host = STR("a.b:80"), .peer = STR("1.2.3.4") };
	int n;

	(void)state;
	parse("Host: a.b:80\r\nConnection: keep-alive, X-Gone\r\nX-Gone: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\n"
	      "Proxy-Connection: x\r\nAuthorization: Bearer x\r\ncookie: a=b\r\nopen-sandbox-api-key: k\r\n"
	      "X-EXECD-ACCESS-TOKEN: t\r\nOPENSANDBOX-EGRESS-AUTH: t\r\nOpenSandbox-Secure-Access: t\r\n"
	      "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nExpect: 100-continue\r\n"
	      "Accept: a\r\nAccept: b\r\nX-Request-ID: r\r\n", true, &text, &h);
	n = proxy_request_headers(&h, &rules, out, &e);
	for (int i = 0; i < n; i++)
		buf_addf(&got, "%.*s=%.*s;", STR_ARG(out[i].name), STR_ARG(out[i].value));
	assert_string_equal(got.p, "Accept=a;Accept=b;X-Request-ID=r;X-Forwarded-Proto=http;X-Forwarded-Host=a.b:80;"
				   "X-Forwarded-For=1.2.3.4;");
	rules = (struct proxy_request_rules){ .own_token = "X-EXECD-ACCESS-TOKEN", .is_secure = true };
	n = proxy_request_headers(&h, &rules, out, &e);
	buf_clear(&got);
	for (int i = 0; i < n; i++)
		buf_addf(&got, "%.*s=%.*s;", STR_ARG(out[i].name), STR_ARG(out[i].value));
	assert_string_equal(got.p, "X-EXECD-ACCESS-TOKEN=t;Accept=a;Accept=b;X-Request-ID=r;X-Forwarded-Proto=https;");
}

static void too_many_request_headers_are_refused(void **state)
{
	AUTO(buf_done) struct buf text = BUF_INIT(8192);
	AUTO(buf_done) struct buf lines = BUF_INIT(8192);
	struct http_header out[PROXY_HEADERS_MAX];
	struct proxy_request_rules rules = { 0 };
	struct http_head h;
	struct err e = { 0 };

	(void)state;
	buf_addf(&lines, "Host: a\r\n");
	for (int i = 0; i < PROXY_HEADERS_MAX; i++)
		buf_addf(&lines, "X-%d: 1\r\n", i);
	parse(lines.p, true, &text, &h);
	assert_int_equal(proxy_request_headers(&h, &rules, out, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	buf_addf(&lines, "X: 1\r\n");
	buf_clear(&text);
	parse(lines.p, true, &text, &h);
	assert_int_equal(proxy_request_headers(&h, &rules, out, &e), -1);
}

static void answers_may_not_speak_for_the_origin(void **state)
{
	static const char *const stay[] = {
		"Date", "x-request-id", "Alt-Svc", "Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security",
		"Connection", "X-Gone", "Transfer-Encoding", "Content-Length",
	};
	static const char *const pass[] = { "Set-Cookie", "Content-Type", "Content-Encoding", "Server", "Content-Security-Policy" };
	AUTO(buf_done) struct buf text = BUF_INIT(8192);
	struct http_head h;

	(void)state;
	parse("Connection: x-gone\r\nContent-Length: 0\r\n", false, &text, &h);
	for (size_t i = 0; i < ARRAY_LEN(stay); i++)
		assert_false(proxy_response_header_passes(&h, str_of(stay[i]), false));
	for (size_t i = 0; i < ARRAY_LEN(pass); i++)
		assert_true(proxy_response_header_passes(&h, str_of(pass[i]), true));
	assert_true(proxy_response_header_passes(&h, STR("Access-Control-Allow-Origin"), false));
	assert_false(proxy_response_header_passes(&h, STR("Access-Control-Allow-Origin"), true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_headers_that_are_ours_or_the_connections_stay),
		cmocka_unit_test(too_many_request_headers_are_refused),
		cmocka_unit_test(answers_may_not_speak_for_the_origin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
