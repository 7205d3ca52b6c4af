// SPDX-License-Identifier: Apache-2.0
#include "egress/resolv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

static void addresses_may_have_a_port(void **state)
{
	static const struct {
		const char *in, *want; /* NULL: refused */
	} cases[] = {
		{ "192.0.2.53", "192.0.2.53:53" },   { "192.0.2.53:5353", "192.0.2.53:5353" }, { "2001:db8::53", "[2001:db8::53]:53" },
		{ "[2001:db8::53]", "[2001:db8::53]:53" }, { "[2001:db8::53]:54", "[2001:db8::53]:54" },
		{ "dns.test", NULL }, { "", NULL }, { "192.0.2.53:0", NULL }, { "192.0.2.53:65536", NULL }, { "192.0.2.999", NULL },
		{ "unix:/run/x", NULL }, { "[192.0.2.1", NULL },
		{ "0000000000000000000000000000000000000000000000000000000000000000000000000", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[ADDR_TEXT_MAX];
		struct addr a = { 0 };
		struct err e = { 0 };
		int k = resolv_address(str_of(cases[i].in), &a, &e);

		if ((k == 0) != (cases[i].want != NULL))
			fail_msg("'%s' gives %d", cases[i].in, k);
		if (cases[i].want)
			assert_string_equal(sockaddr_format(&a.sa, a.len, text), cases[i].want);
		else
			assert_int_equal(e.code, ERR_INVALID);
	}
}

static void those_of_the_loopback_come_last_and_each_once(void **state)
{
	static const char file[] = "# made by somebody\nnameserver 127.0.0.53\nsearch a.test\nnameserver\t192.0.2.1 # first\n"
				   "nameserver 192.0.2.1\nnameserver nonsense\noptions edns0\nnameserver 2001:db8::1\nnameserver ::1";
	static const char *const want[] = { "192.0.2.1:53", "[2001:db8::1]:53", "127.0.0.53:53", "[::1]:53" };
	struct addr got[8] = { 0 };
	char text[ADDR_TEXT_MAX];

	(void)state;
	assert_int_equal(resolv_parse(STR(file), got, ARRAY_LEN(got)), ARRAY_LEN(want));
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_string_equal(sockaddr_format(&got[i].sa, got[i].len, text), want[i]);
	assert_int_equal(resolv_parse(STR(file), got, 1), 1);
	assert_int_equal(resolv_parse(STR(""), got, 8), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_may_have_a_port),
		cmocka_unit_test(those_of_the_loopback_come_last_and_each_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
