// SPDX-License-Identifier: Apache-2.0
#include "access/cookie.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/own.h"

#include "base/banned.h"

static void a_cookie_stays_with_its_sandbox(void **state)
{
	static const struct {
		const char *in, *prefix, *target, *want; /* NULL: it is left out */
	} rows[] = {
		{ "a=1", "/id/80", "/", "a=1; Path=/id/80" },
		{ "a=1; Path=/", "/id/80", "/x/y", "a=1; Path=/id/80/" },
		{ "a=1;path=/app;HttpOnly", "/id/80", "/", "a=1; HttpOnly; Path=/id/80/app" },
		{ "a=1; PATH = /app ; Secure; SameSite=Lax", "/id/80", "/", "a=1; Secure; SameSite=Lax; Path=/id/80/app" },
		{ "a=1; Path=/one; Path=/two", "/id/80", "/", "a=1; Path=/id/80/two" },
		{ "a=1; Path=/one; Path", "/id/80", "/dir/page?q=/z", "a=1; Path=/id/80/dir" },
		{ "a=1; Path=", "/id/80", "/dir/page", "a=1; Path=/id/80/dir" },
		{ "a=1; Path=elsewhere", "/id/80", "/page", "a=1; Path=/id/80" },
		{ "a=1; Path=\"/\"", "/id/80", "/page", "a=1; Path=/id/80" },
		{ "a=1; Path=/../9000", "/id/80", "/", "a=1; Path=/id/80/../9000" }, /* no browser takes this for another path */
		{ "a=1", "/id/80", "/x;Domain=example.org/y", "a=1; Path=/id/80" },
		{ "a=1; Domain=example.org; Path=/", "/id/80", "/", "a=1; Path=/id/80/" },
		{ "a=1; domain=.example.org;Domain; Max-Age=5", "/id/80", "/", "a=1; Max-Age=5; Path=/id/80" },
		{ "a=1; Domains=x", "/id/80", "/", "a=1; Domains=x; Path=/id/80" },
		{ "a=\"b; Path=/\"", "/id/80", "/", "a=\"b; Path=/id/80/\"" }, /* quotes protect nothing */
		{ "a=b=c; Expires=Wed, 21 Oct 2026 07:28:00 GMT", "/id/80", "/", "a=b=c; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/id/80" },
		{ " a=1 ; ; ;", "/id/80", "/", "a=1; Path=/id/80" },
		{ "", "/id/80", "/", "; Path=/id/80" },
		{ "__Host-a=1; Secure; Path=/", "/id/80", "/", NULL },
		{ "__hOST-a=1; Secure; Path=/", "/id/80", "/", NULL },
		{ "__Secure-a=1; Secure", "/id/80", "/", "__Secure-a=1; Secure; Path=/id/80" },
		{ "a=1; Path=/; Domain=example.org", "", "/", "a=1; Path=/" }, /* a host of its own: only others are closed */
		{ "__Host-a=1; Secure; Path=/", "", "/", "__Host-a=1; Secure; Path=/" },
		{ "a=1", "", "/x/y", "a=1" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(4096);
		bool is_kept = cookie_confine(str_of(rows[i].in), str_of(rows[i].prefix), str_of(rows[i].target), &b);

		assert_int_equal(is_kept, rows[i].want != NULL);
		if (rows[i].want)
			assert_string_equal(buf_z(&b), rows[i].want);
	}
}

static void what_does_not_fit_is_left_out(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(8);

	(void)state;
	assert_false(cookie_confine(STR("name=a long value"), STR("/id/80"), STR("/"), &b));
}

static void a_prefix_is_whole_segments(void **state)
{
	static const struct {
		const char *path;
		size_t n;
		const char *want;
	} rows[] = {
		{ "/id/80/x/y", 2, "/id/80" }, { "/id/80", 2, "/id/80" }, { "/id/80/", 2, "/id/80" }, { "/id", 2, "/id" }, { "", 2, "" },
		{ "/sandboxes/id/proxy/80/x", 4, "/sandboxes/id/proxy/80" }, { "/a", 0, "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str got = cookie_prefix(str_of(rows[i].path), rows[i].n);

		assert_true(str_is(got, rows[i].want));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cookie_stays_with_its_sandbox),
		cmocka_unit_test(what_does_not_fit_is_left_out),
		cmocka_unit_test(a_prefix_is_whole_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
