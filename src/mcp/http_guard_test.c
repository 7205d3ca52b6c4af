// SPDX-License-Identifier: Apache-2.0
#include "mcp/http_guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "mcp/mcp.h"
#include "net/http/server.h"

#include "base/banned.h"

static const char *const hosts[] = { "box.example", "other.example:444", "https://page.example:9443", NULL };

static void only_known_names_are_let_in(void **state)
{
	static const struct {
		const char *host;
		bool is_known;
	} cases[] = {
		{ "127.0.0.1:8000", true },     { "localhost:8000", true },     { "LOCALHOST", true },        { "[::1]:8000", true },
		{ "[::1]", true },              { "box.example", true },        { "box.example:7", true },    { "other.example:444", true },
		{ "other.example:445", false }, { "evil.example", false },      { "127.0.0.1.evil", false },  { "localhost.evil:80", false },
		{ "", false },                  { ":80", false },               { "127.0.0.1:x", false },     { "127.0.0.1:", false },
		{ "127.0.0.1:99999", false },   { "evil:80@127.0.0.1", false }, { "[::1]evil", false },
	};
	const struct http_guard g = { .hosts = hosts };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (http_guard_knows_host(&g, str_of(cases[i].host)) != cases[i].is_known)
			fail_msg("%s", cases[i].host);
}

static void an_origin_is_scheme_name_and_port(void **state)
{
	static const struct {
		const char *origin;
		bool is_known;
	} cases[] = {
		{ "http://localhost:8000", true },        { "http://LOCALHOST:8000", true },       { "http://127.0.0.1:8000", true },
		{ "http://[::1]:8000", true },            { "http://localhost:3000", false },      { "http://localhost", false },
		{ "https://localhost:8000", false },      { "http://127.0.0.1:80001", false },     { "http://localhost:8000/", false },
		{ "https://box.example", true },          { "http://box.example", true },          { "https://box.example:443", true },
		{ "http://box.example:8000", true },      { "https://box.example:8000", false },   { "https://box.example:444", false },
		{ "http://box.example:7", false },        { "https://other.example:444", true },   { "https://other.example", false },
		{ "https://other.example:445", false },   { "https://page.example:9443", true },   { "http://page.example:9443", false },
		{ "https://page.example", false },        { "https://evil.example", false },       { "null", false },
		{ "file://localhost", false },            { "http://", false },                    { "http://:8000", false },
		{ "http://evil@localhost:8000", false },  { "localhost:8000", false },             { "", false },
	};
	const struct http_guard g = { .hosts = hosts, .port = 8000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (http_guard_knows_origin(&g, str_of(cases[i].origin)) != cases[i].is_known)
			fail_msg("%s", cases[i].origin);
}

static unsigned verdict(const struct http_guard *g, const char *method, const struct http_header *headers, size_t n)
{
	struct http_head head = { .method = str_of(method), .host = STR("localhost:8000"), .n_headers = n };
	struct request rq = { .head = &head };
	struct http_refusal why = { 0 };

	memcpy(head.headers, headers, n * sizeof(*headers));
	return http_guard_admits(g, &rq, &why) ? 200 : why.status;
}

#define H(name, value) { { name, sizeof(name) - 1 }, { value, sizeof(value) - 1 } }
#define BOTH H("Accept", "application/json, text/event-stream")
#define JSON H("Content-Type", "application/json; charset=utf-8")

static void each_method_has_its_form(void **state)
{
	static const struct {
		const char *method;
		unsigned want;
		size_t n;
		struct http_header headers[4];
	} cases[] = {
		{ "POST", 200, 2, { BOTH, JSON } },
		{ "POST", 200, 2, { H("Accept", "*/*"), JSON } },
		{ "POST", 200, 2, { H("Accept", "text/*;q=0.5,Application/JSON"), JSON } },
		{ "POST", 406, 2, { H("Accept", "application/json"), JSON } },
		{ "POST", 406, 1, { JSON } },
		{ "POST", 400, 1, { BOTH } },
		{ "POST", 400, 2, { BOTH, H("Content-Type", "text/plain") } },
		{ "POST", 403, 3, { BOTH, JSON, H("Origin", "http://evil.example") } },
		{ "GET", 200, 1, { H("Accept", "text/event-stream") } },
		{ "GET", 406, 1, { H("Accept", "application/json") } },
		{ "DELETE", 200, 0, { H("", "") } },
	};
	const struct http_guard g = { .hosts = hosts };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(verdict(&g, cases[i].method, cases[i].headers, cases[i].n), cases[i].want);
}

static void a_token_is_asked_for(void **state)
{
	const struct http_guard g = { .hosts = hosts, .token = "0123456789abcdef" };
	const struct http_header right[] = { H("Authorization", "bearer 0123456789abcdef") };
	const struct http_header wrong[] = { H("Authorization", "Bearer 0123456789abcdeX") }, basic[] = { H("Authorization", "Basic 0123456789abcdef") };

	(void)state;
	assert_int_equal(verdict(&g, "DELETE", right, 1), 200);
	assert_int_equal(verdict(&g, "DELETE", wrong, 1), 401);
	assert_int_equal(verdict(&g, "DELETE", basic, 1), 401);
	assert_int_equal(verdict(&g, "DELETE", wrong, 0), 401);
}

static void what_others_can_reach_needs_a_token(void **state)
{
	struct mcp_options o = { .host = "0.0.0.0", .path = "/mcp" };
	struct http_guard g;
	struct err e = { 0 };
	unsigned port = 0;
	int fd;

	(void)state;
	assert_int_equal(http_guard_listen(&o, 1, &port, &e), -1);
	assert_int_equal(e.code, ERR_DENIED);
	o.token = "short";
	assert_int_equal(http_guard_init(&g, &o, &e), -1);
	o.token = "0123456789abcdef";
	assert_int_equal(http_guard_init(&g, &o, &e), 0);
	fd = http_guard_listen(&o, 1, &port, &e);
	assert_true(fd >= 0 && port > 0);
	(void)close(fd);
	o.host = "name.example";
	assert_int_equal(http_guard_listen(&o, 1, &port, &e), -1);
	o.path = "mcp";
	assert_int_equal(http_guard_init(&g, &o, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_known_names_are_let_in),
		cmocka_unit_test(an_origin_is_scheme_name_and_port),
		cmocka_unit_test(each_method_has_its_form),
		cmocka_unit_test(a_token_is_asked_for),
		cmocka_unit_test(what_others_can_reach_needs_a_token),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
