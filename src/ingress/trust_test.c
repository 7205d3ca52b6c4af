// SPDX-License-Identifier: Apache-2.0
#include "ingress/trust.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "net/http/http1.h"

#include "base/banned.h"

static struct trust trust_of(const char *const *list)
{
	struct trust t = { 0 };

	for (; *list; list++)
		assert_int_equal(trust_add(&t, str_of(*list), &(struct err){ 0 }), 0);
	return t;
}

static void networks_are_read_and_matched(void **state)
{
	static const char *const good[] = { "10.0.0.0/8", "192.0.2.7", "2001:db8::/33", "::1", NULL };
	static const char *const bad[] = { "", "x", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0", "[::1", "10.0.0.0/8/1" };
	static const struct {
		const char *address;
		bool want;
	} rows[] = {
		{ "10.255.0.1:1", true },         { "11.0.0.1:1", false },     { "192.0.2.7:1", true },        { "192.0.2.6:1", false },
		{ "[::ffff:10.1.2.3]:1", true },  { "[::1]:1", true },         { "[2001:db8:7fff::1]:1", true }, { "[2001:db8:8000::1]:1", false },
		{ "unix:/run/x", false },
	};
	struct trust t = trust_of(good);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct addr a;

		assert_int_equal(sockaddr_parse(str_of(rows[i].address), &a, &(struct err){ 0 }), 0);
		if (trust_has(&t, &a.sa) != rows[i].want)
			fail_msg("%s", rows[i].address);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(trust_add(&t, str_of(bad[i]), &(struct err){ 0 }), -1);
}

static void the_client_is_the_last_one_that_is_not_trusted(void **state)
{
	static const char *const list[] = { "10.0.0.0/8", NULL };
	static const struct {
		const char *peer, *first, *second, *want; /* headers NULL: none */
	} rows[] = {
		{ "192.0.2.1:9", "198.51.100.1", NULL, "192.0.2.1" }, /* anybody can write that */
		{ "10.0.0.1:9", NULL, NULL, "10.0.0.1" },
		{ "10.0.0.1:9", "198.51.100.1", NULL, "198.51.100.1" },
		{ "10.0.0.1:9", "203.0.113.5, 198.51.100.1 ,10.0.0.2", NULL, "198.51.100.1" },
		{ "10.0.0.1:9", "203.0.113.5", "198.51.100.1, 10.3.3.3", "198.51.100.1" },
		{ "10.0.0.1:9", "10.9.9.9", NULL, "10.9.9.9" },
		{ "10.0.0.1:9", "198.51.100.1, junk", NULL, "10.0.0.1" },
		{ "10.0.0.1:9", "198.51.100.1, junk, 10.0.0.7", NULL, "10.0.0.7" },
		{ "10.0.0.1:9", "2001:db8::1", NULL, "2001:db8::1" },
		{ "10.0.0.1:9", "[2001:db8::1]", NULL, "2001:db8::1" },
		{ "10.0.0.1:9", "", NULL, "10.0.0.1" },
	};
	struct trust t = trust_of(list);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		static struct http_head head;
		struct addr peer, client;
		char text[ADDR_HOST_MAX];

		assert_int_equal(sockaddr_parse(str_of(rows[i].peer), &peer, &(struct err){ 0 }), 0);
		head.n_headers = 0;
		if (rows[i].first)
			head.headers[head.n_headers++] = (struct http_header){ STR("x-forwarded-for"), str_of(rows[i].first) };
		head.headers[head.n_headers++] = (struct http_header){ STR("X-Other"), STR("1.1.1.1") };
		if (rows[i].second)
			head.headers[head.n_headers++] = (struct http_header){ STR("X-Forwarded-For"), str_of(rows[i].second) };
		(void)trust_client(&t, &peer.sa, &head, &client);
		assert_string_equal(sockaddr_host(&client.sa, text), rows[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(networks_are_read_and_matched),
		cmocka_unit_test(the_client_is_the_last_one_that_is_not_trusted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
