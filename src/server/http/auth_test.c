// SPDX-License-Identifier: Apache-2.0
#include "server/http/auth.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "net/http/http1.h"
#include "server/api/api.h"

#include "base/banned.h"

#define KEY "0123456789abcdef0123456789abcdef"

static enum auth_verdict check(const struct auth *a, const char *line, const char *headers)
{
	char text[2048];
	struct http_scan scan = { 0 };
	static struct http_head head;
	struct http_fault fault = { 0 };
	struct str path, query;

	(void)snprintf(text, sizeof(text), "%s HTTP/1.1\r\n%s\r\n", line, headers);
	if (http_request_head(&scan, str_of(text), &head, &fault) != 1)
		fail_msg("bad request in the test: %s: %s", line, fault.why);
	(void)str_cut(head.target, '?', &path, &query);
	return auth_check(a, api_routes, &head, path, false);
}

static struct auth with_key(void)
{
	struct auth_policy policy = { .api_key = KEY };
	struct auth a;

	assert_int_equal(auth_init(&a, &policy, &(struct err){ 0 }), 0);
	return a;
}

static struct auth without_key(void)
{
	struct auth_policy policy = { .allow_none = true, .is_loopback = true };
	struct auth a;

	assert_int_equal(auth_init(&a, &policy, &(struct err){ 0 }), 0);
	return a;
}

static void the_policy_decides_what_may_start(void **state)
{
	static const struct {
		struct auth_policy policy;
		bool ok;
	} rows[] = {
		{ { 0 }, false },
		{ { .api_key = "" }, false },
		{ { .is_loopback = true }, false },
		{ { .allow_none = true }, false },
		{ { .allow_none = true, .is_loopback = true }, true },
		{ { .api_key = KEY }, true },
		{ { .api_key = "0123456789012345678901" }, true },
		{ { .api_key = "012345678901234567890" }, false },
		{ { .api_key = "short", .allow_none = true }, false },
		{ { .api_key = "short", .is_loopback = true }, true },
		{ { .api_key = "short", .allow_weak = true }, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct auth a;
		struct err e = { 0 };
		int rc = auth_init(&a, &rows[i].policy, &e);

		if ((rc == 0) != rows[i].ok)
			fail_msg("row %zu: %s", i, e.msg);
		assert_int_equal(e.code, rows[i].ok ? ERR_NONE : ERR_DENIED);
		assert_null(strstr(e.msg, "short "));
	}
}

static void the_key_itself_is_not_kept(void **state)
{
	struct auth a = with_key();

	(void)state;
	assert_null(memmem(&a, sizeof(a), KEY, 8));
}

static void the_key_opens_and_nothing_else_does(void **state)
{
	static const struct {
		const char *headers;
		enum auth_verdict want;
	} rows[] = {
		{ "Host: h\r\n", AUTH_MISSING },
		{ "Host: h\r\nOPEN-SANDBOX-API-KEY:\r\n", AUTH_MISSING },
		{ "Host: h\r\nOPEN-SANDBOX-API-KEY: " KEY "\r\n", AUTH_OK },
		{ "Host: h\r\nopen-sandbox-api-key: " KEY "\r\n", AUTH_OK },
		{ "Host: h\r\nOPEN-SANDBOX-API-KEY: " KEY "0\r\n", AUTH_INVALID },
		{ "Host: h\r\nOPEN-SANDBOX-API-KEY: 0\r\n", AUTH_INVALID },
		{ "Host: h\r\nOPEN-SANDBOX-API-KEY: 0123456789ABCDEF0123456789ABCDEF\r\n", AUTH_INVALID },
		{ "Host: h\r\nOPEN-SANDBOX-API-KEY: " KEY "\r\nOPEN-SANDBOX-API-KEY: " KEY "\r\n", AUTH_INVALID },
		{ "Host: h\r\nOPEN-SANDBOX-API-KEY: " KEY "\r\nOPEN-SANDBOX-API-KEY:\r\n", AUTH_INVALID },
		{ "Host: h\r\nAuthorization: Bearer " KEY "\r\n", AUTH_MISSING },
		{ "Host: h\r\nX-OPEN-SANDBOX-API-KEY: " KEY "\r\n", AUTH_MISSING },
	};
	struct auth a = with_key();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (check(&a, "GET /v1/sandboxes", rows[i].headers) != rows[i].want)
			fail_msg("%s", rows[i].headers);
}

static void only_exact_paths_and_preflights_need_no_key(void **state)
{
	static const struct {
		const char *line, *headers;
		enum auth_verdict want;
	} rows[] = {
		{ "GET /health", "", AUTH_EXEMPT },
		{ "GET /health?x=1", "", AUTH_EXEMPT },
		{ "POST /health", "", AUTH_EXEMPT },
		{ "GET /docs", "", AUTH_EXEMPT },
		{ "GET /redoc", "", AUTH_EXEMPT },
		{ "GET /openapi.json", "", AUTH_EXEMPT },
		{ "GET /health/", "", AUTH_MISSING },
		{ "GET /healthz", "", AUTH_MISSING },
		{ "GET /docs/oauth2-redirect", "", AUTH_MISSING },
		{ "GET /%68ealth", "", AUTH_MISSING },
		{ "GET //health", "", AUTH_MISSING },
		{ "GET /health/../v1/sandboxes", "", AUTH_MISSING },
		{ "GET /Health", "", AUTH_MISSING },
		{ "GET /v1/health", "", AUTH_MISSING },
		{ "GET /", "", AUTH_MISSING },
		{ "OPTIONS /v1/sandboxes", "Origin: http://a\r\nAccess-Control-Request-Method: POST\r\n", AUTH_EXEMPT },
		{ "OPTIONS /v1/sandboxes", "Origin: http://a\r\n", AUTH_MISSING },
		{ "OPTIONS /v1/sandboxes", "Access-Control-Request-Method: POST\r\n", AUTH_MISSING },
		{ "POST /v1/sandboxes", "Origin: http://a\r\nAccess-Control-Request-Method: POST\r\n", AUTH_MISSING },
		{ "GET /sandboxes/ab/proxy/80/x", "", AUTH_EXEMPT },
		{ "GET /sandboxes/ab", "", AUTH_MISSING },
	};
	struct auth a = with_key();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char headers[512];

		(void)snprintf(headers, sizeof(headers), "Host: h\r\n%s", rows[i].headers);
		if (check(&a, rows[i].line, headers) != rows[i].want)
			fail_msg("%s", rows[i].line);
	}
}

static void proxy_paths_are_matched_by_whole_segments(void **state)
{
	static const struct {
		const char *path;
		bool want;
	} rows[] = {
		{ "/sandboxes/ab/proxy/80", true },
		{ "/v1/sandboxes/ab/proxy/80", true },
		{ "/sandboxes/ab/proxy/80/", true },
		{ "/sandboxes/ab/proxy/44772/a/b%2Fc/../d//e", true },
		{ "/sandboxes/ab/proxy/0080", true },
		{ "/sandboxes/ab/proxy/80x", false },
		{ "/sandboxes/ab/proxy/", false },
		{ "/sandboxes/ab/proxy", false },
		{ "/sandboxes/ab/proxy/-1", false },
		{ "/sandboxes/ab/proxy/%38%30", false },
		{ "/sandboxes/ab/proxy//80", false },
		{ "/sandboxes//proxy/80", false },
		{ "/sandboxes/../proxy/80", false },
		{ "/sandboxes/./proxy/80", false },
		{ "/sandboxes/%2e%2e/proxy/80", false },
		{ "/sandboxes/a%2fb/proxy/80", false },
		{ "/sandboxes/a\\b/proxy/80", false },
		{ "/sandboxes/a/b/proxy/80", false },
		{ "/v1/v1/sandboxes/ab/proxy/80", false },
		{ "/v2/sandboxes/ab/proxy/80", false },
		{ "/x/sandboxes/ab/proxy/80", false },
		{ "//sandboxes/ab/proxy/80", false },
		{ "/Sandboxes/ab/proxy/80", false },
		{ "/sandboxes/ab/Proxy/80", false },
		{ "/sandboxes/ab/logs/proxy/80", false },
		{ "/sandboxesx/ab/proxy/80", false },
		{ "/v1", false },
		{ "/", false },
		{ "", false },
		{ "*", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (auth_is_proxy_path(str_of(rows[i].path)) != rows[i].want)
			fail_msg("%s", rows[i].path);
}

static void loopback_names_are_recognised(void **state)
{
	static const struct {
		const char *host;
		bool want;
	} rows[] = {
		{ "localhost", true },        { "LOCALHOST:8080", true },      { "127.0.0.1", true },
		{ "127.0.0.1:1", true },      { "127.8.9.255:65535", true },   { "[::1]", true },
		{ "[::1]:8080", true },       { "[0:0:0:0:0:0:0:1]:1", true }, { "", false },
		{ ":80", false },             { "localhost:", false },         { "localhost:x", false },
		{ "localhost:8080:1", false }, { "localhost.", false },        { "localhost.evil.com", false },
		{ "evil.com", false },        { "127.0.0.1.evil.com", false }, { "127.1", false },
		{ "0127.0.0.1", false },      { "128.0.0.1", false },          { "0.0.0.0", false },
		{ "[::]", false },            { "[::1", false },               { "[::1]x", false },
		{ "::1", false },             { "[127.0.0.1]", false },        { "[::ffff:127.0.0.1]", false },
		{ "localhost@evil.com", false }, { "[]", false },              { "localhost:123456", false },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (auth_is_loopback_name(str_of(rows[i].host)) != rows[i].want)
			fail_msg("%s", rows[i].host);
}

static void an_origin_is_own_when_scheme_host_and_port_agree(void **state)
{
	static const struct {
		const char *origin, *host;
		bool is_secure, want;
	} rows[] = {
		{ "http://localhost:8080", "localhost:8080", false, true },
		{ "http://LOCALHOST:8080", "localhost:8080", false, true },
		{ "http://localhost", "localhost:80", false, true },
		{ "https://localhost:443", "localhost", true, true },
		{ "http://[::1]:1", "[::1]:1", false, true },
		{ "http://localhost:8081", "localhost:8080", false, false },
		{ "http://127.0.0.1:8080", "localhost:8080", false, false },
		{ "https://localhost:8080", "localhost:8080", false, false },
		{ "http://localhost:8080", "localhost:8080", true, false },
		{ "http://localhost:8080/", "localhost:8080", false, false },
		{ "http://localhost:8080.evil.com", "localhost:8080", false, false },
		{ "null", "localhost", false, false },
		{ "", "localhost", false, false },
		{ "http://", "localhost", false, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (auth_is_own_origin(str_of(rows[i].origin), str_of(rows[i].host), rows[i].is_secure) != rows[i].want)
			fail_msg("%s at %s", rows[i].origin, rows[i].host);
}

static void without_a_key_host_and_origin_are_checked(void **state)
{
	static const struct {
		const char *line, *headers;
		enum auth_verdict want;
	} rows[] = {
		{ "GET /v1/sandboxes", "Host: localhost:8080\r\n", AUTH_OK },
		{ "GET /v1/sandboxes", "Host: evil.com\r\n", AUTH_HOST },
		{ "GET /health", "Host: evil.com\r\n", AUTH_HOST },
		{ "POST /v1/sandboxes", "Host: localhost:8080\r\nOrigin: http://localhost:8080\r\n", AUTH_OK },
		{ "POST /v1/sandboxes", "Host: localhost:8080\r\nOrigin: http://evil.com\r\n", AUTH_ORIGIN },
		{ "POST /v1/sandboxes", "Host: localhost:8080\r\nOrigin: null\r\n", AUTH_ORIGIN },
		{ "POST /v1/sandboxes", "Host: localhost:8080\r\nOrigin:\r\n", AUTH_ORIGIN },
		{ "POST /v1/sandboxes", "Host: localhost:8080\r\nOrigin: http://localhost:8080\r\nOrigin: http://evil.com\r\n",
		  AUTH_ORIGIN },
		{ "OPTIONS /v1/sandboxes",
		  "Host: localhost:8080\r\nOrigin: http://evil.com\r\nAccess-Control-Request-Method: POST\r\n", AUTH_ORIGIN },
	};
	struct auth a = without_key();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (check(&a, rows[i].line, rows[i].headers) != rows[i].want)
			fail_msg("%s %s", rows[i].line, rows[i].headers);
}

static void loopback_addresses_are_recognised(void **state)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000102) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr unix_socket = { .sa_family = AF_UNIX };

	(void)state;
	assert_true(auth_is_loopback_addr((struct sockaddr *)&v4));
	assert_true(auth_is_loopback_addr((struct sockaddr *)&v6));
	assert_true(auth_is_loopback_addr(&unix_socket));
	v4.sin_addr.s_addr = htonl(INADDR_ANY);
	v6.sin6_addr = in6addr_any;
	assert_false(auth_is_loopback_addr((struct sockaddr *)&v4));
	assert_false(auth_is_loopback_addr((struct sockaddr *)&v6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_policy_decides_what_may_start),
		cmocka_unit_test(the_key_itself_is_not_kept),
		cmocka_unit_test(the_key_opens_and_nothing_else_does),
		cmocka_unit_test(only_exact_paths_and_preflights_need_no_key),
		cmocka_unit_test(proxy_paths_are_matched_by_whole_segments),
		cmocka_unit_test(loopback_names_are_recognised),
		cmocka_unit_test(an_origin_is_own_when_scheme_host_and_port_agree),
		cmocka_unit_test(without_a_key_host_and_origin_are_checked),
		cmocka_unit_test(loopback_addresses_are_recognised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
