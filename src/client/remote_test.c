// SPDX-License-Identifier: Apache-2.0
/* Addresses as people write them, and names that become addresses. */
#include "client/remote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "client/host_lookup.h"
#include "client/op.h"
#include "net/loop.h"

#include "base/banned.h"

static void addresses_are_taken_apart(void **state)
{
	static const struct {
		const char *text, *host, *path;
		unsigned port;
		bool has_scheme, is_tls, is_bad;
	} table[] = {
		{ .text = "localhost:8080", .host = "localhost", .path = "", .port = 8080 },
		{ .text = " api.example.com ", .host = "api.example.com", .path = "" },
		{ .text = "HTTPS://api.example.com/v1/", .host = "api.example.com", .path = "/v1", .has_scheme = true, .is_tls = true },
		{ .text = "http://[::1]:80/a/b", .host = "::1", .path = "/a/b", .port = 80, .has_scheme = true },
		{ .text = "[fe80::1]", .host = "fe80::1", .path = "" },
		{ .text = "10.0.0.1:1/sandboxes/x/proxy/44772", .host = "10.0.0.1", .path = "/sandboxes/x/proxy/44772", .port = 1 },
		{ .text = "", .is_bad = true },
		{ .text = "http://", .is_bad = true },
		{ .text = "ftp://h", .is_bad = true },
		{ .text = "h:0", .is_bad = true },
		{ .text = "h:65536", .is_bad = true },
		{ .text = "h:8a", .is_bad = true },
		{ .text = "h:", .is_bad = true },
		{ .text = "::1", .is_bad = true },
		{ .text = "[::1]x", .is_bad = true },
		{ .text = "user@h", .is_bad = true },
		{ .text = "h/a b", .is_bad = true },
		{ .text = "h/a?b", .is_bad = true },
		{ .text = "h/\r\nX: y", .is_bad = true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct address a;
		int r = address_parse(str_of(table[i].text), &a, &(struct err){ 0 });

		if ((r < 0) != table[i].is_bad)
			fail_msg("'%s'", table[i].text);
		if (r < 0)
			continue;
		assert_string_equal(a.host, table[i].host);
		assert_string_equal(a.path, table[i].path);
		assert_int_equal(a.port, table[i].port);
		assert_int_equal(a.has_scheme, table[i].has_scheme);
		assert_int_equal(a.is_tls, table[i].is_tls);
	}
}

static void what_needs_no_lookup_is_known(void **state)
{
	struct addr out[HOST_ADDRESSES_MAX];

	(void)state;
	assert_int_equal(host_known("127.0.0.1", 80, out), 1);
	assert_int_equal(out[0].sa.sa_family, AF_INET);
	assert_int_equal(host_known("::1", 80, out), 1);
	assert_int_equal(out[0].sa.sa_family, AF_INET6);
	assert_int_equal(host_known("LocalHost", 80, out), 2);
	assert_int_equal(host_known("example.com", 80, out), 0);
	assert_int_equal(host_known("localhost.example.com", 80, out), 0);
}

struct found {
	size_t n, times;
	char why[200];
};

static void on_found(const struct addr *addresses, size_t n, const struct err *e, void *arg)
{
	struct found *f = arg;

	(void)addresses;
	f->n = n;
	f->times++;
	(void)snprintf(f->why, sizeof(f->why), "%s", e ? e->msg : "");
}

static void names_are_looked_up_while_the_loop_turns(void **state)
{
	struct err e = { 0 };
	struct loop *l = loop_new(&e);
	struct found f = { 0 };

	(void)state;
	assert_non_null(host_lookup_start(l, "localhost", 80, on_found, &f, &e));
	for (int i = 0; i < 500 && f.times == 0; i++)
		assert_int_equal(loop_turn(l, 20, &e), 0);
	assert_int_equal(f.times, 1);
	assert_true(f.n >= 1);
	f = (struct found){ 0 };
	assert_non_null(host_lookup_start(l, "no-such-name.invalid", 80, on_found, &f, &e));
	for (int i = 0; i < 1500 && f.times == 0; i++)
		assert_int_equal(loop_turn(l, 20, &e), 0);
	assert_int_equal(f.n, 0);
	assert_non_null(strstr(f.why, "look up 'no-such-name.invalid'"));
	f = (struct found){ 0 };
	host_lookup_cancel(host_lookup_start(l, "localhost", 80, on_found, &f, &e));
	for (int i = 0; i < 5; i++)
		assert_int_equal(loop_turn(l, 20, &e), 0);
	assert_int_equal(f.times, 0);
	loop_free(l);
}

/* ---- what answers say ---- */

static void bodies_of_errors_are_looked_through(void **state)
{
	static const struct {
		const char *body, *code, *message;
	} table[] = {
		{ "{\"code\":\"A::B\",\"message\":\"m\"}", "A::B", "m" },
		{ "{\"code\":\"A::B\",\"message\":\"\"}", "A::B", "A::B" },
		{ "{\"error\":{\"code\":\"E\",\"message\":\"in error\"}}", "E", "in error" },
		{ "{\"detail\":{\"code\":\"D\",\"message\":\"in detail\"}}", "D", "in detail" },
		{ "{\"detail\":\"just text\"}", "UNEXPECTED_RESPONSE", "just text" },
		{ "{\"detail\":[{\"loc\":[\"body\",\"volumes\",2,\"name\"],\"msg\":\"Field required\"}]}", "UNEXPECTED_RESPONSE",
		  "body.volumes.2.name: Field required" },
		{ "{\"code\":\"V\",\"message\":\"top\",\"detail\":[{\"loc\":[],\"msg\":\"x\"}]}", "V", "top" },
		{ "{\"error\":\"plain\"}", "UNEXPECTED_RESPONSE", "plain" },
		{ "{\"code\":5}", "UNEXPECTED_RESPONSE", "HTTP 418" },
		{ "[]", "UNEXPECTED_RESPONSE", "HTTP 418" },
		{ "<html>", "UNEXPECTED_RESPONSE", "HTTP 418" },
		{ "the sandbox has no network: nothing to say\n", "UNEXPECTED_RESPONSE", "HTTP 418: the sandbox has no network: nothing to say" },
		{ "first line\r\nsecond", "UNEXPECTED_RESPONSE", "HTTP 418: first line" },
		{ "  \n", "UNEXPECTED_RESPONSE", "HTTP 418" },
		{ "a\x1b[2Jb", "UNEXPECTED_RESPONSE", "HTTP 418" },
		{ "\xff", "UNEXPECTED_RESPONSE", "HTTP 418" },
		{ "", "UNEXPECTED_RESPONSE", "HTTP 418" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct osb_error e = { 0 };

		error_from_answer(&e, 418, str_of(table[i].body));
		assert_int_equal(e.kind, OSB_ANSWER);
		assert_int_equal(e.http_status, 418);
		assert_string_equal(e.code, table[i].code);
		assert_string_equal(e.message, table[i].message);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_taken_apart),
		cmocka_unit_test(what_needs_no_lookup_is_known),
		cmocka_unit_test(names_are_looked_up_while_the_loop_turns),
		cmocka_unit_test(bodies_of_errors_are_looked_through),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
