// SPDX-License-Identifier: Apache-2.0
#include "server/http/listen.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"

#include "base/banned.h"

static unsigned port_of(int fd)
{
	struct addr a = { .len = sizeof(a.un) };

	assert_int_equal(getsockname(fd, &a.sa, &a.len), 0);
	return ntohs(a.sa.sa_family == AF_INET6 ? a.in6.sin6_port : a.in.sin_port);
}

static void a_numeric_host_is_one_address(void **state)
{
	struct listen_plan plan;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(listen_resolve("127.0.0.1", 80, &plan, &e), 0);
	assert_int_equal(plan.n, 1);
	assert_true(plan.is_loopback);
	assert_int_equal(ntohs(plan.addrs[0].in.sin_port), 80);
	assert_int_equal(listen_resolve("::1", 80, &plan, &e), 0);
	assert_true(plan.is_loopback);
	assert_int_equal(listen_resolve("0.0.0.0", 80, &plan, &e), 0);
	assert_false(plan.is_loopback);
	assert_int_equal(listen_resolve("::", 80, &plan, &e), 0);
	assert_false(plan.is_loopback);
}

static void a_host_that_is_no_name_is_refused(void **state)
{
	struct listen_plan plan;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(listen_resolve("not a host", 80, &plan, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
	assert_non_null(strstr(e.msg, "server.host: look up 'not a host'"));
}

static void a_port_in_use_is_named(void **state)
{
	struct listen_plan plan;
	struct err e = { 0 };
	int fds[LISTEN_ADDRESSES_MAX], more[LISTEN_ADDRESSES_MAX];
	size_t n = 0, n_more = 0;
	unsigned port;

	(void)state;
	assert_int_equal(listen_resolve("127.0.0.1", 0, &plan, &e), 0);
	assert_int_equal(listen_open(&plan, 16, fds, &n, &e), 0);
	assert_int_equal(n, 1);
	port = port_of(fds[0]);
	assert_int_not_equal(port, 0);
	plan.addrs[0].in.sin_port = htons((uint16_t)port);
	assert_int_equal(listen_open(&plan, 16, more, &n_more, &e), -1);
	assert_int_equal(e.sys, EADDRINUSE);
	assert_non_null(strstr(e.msg, "listen on 127.0.0.1:"));
	(void)close(fds[0]);
}

static void all_or_nothing_but_for_addresses_that_are_not_here(void **state)
{
	struct listen_plan plan = { .n = 2 };
	struct err e = { 0 };
	int fds[LISTEN_ADDRESSES_MAX], taken[LISTEN_ADDRESSES_MAX];
	size_t n = 0;

	(void)state;
	assert_int_equal(sockaddr_parse(STR("192.0.2.1:0"), &plan.addrs[0], &e), 0); /* TEST-NET-1: nobody's */
	assert_int_equal(sockaddr_parse(STR("127.0.0.1:0"), &plan.addrs[1], &e), 0);
	assert_int_equal(listen_open(&plan, 16, taken, &n, &e), 0);
	assert_int_equal(n, 1);
	plan.addrs[0] = plan.addrs[1];
	plan.addrs[1].in.sin_port = htons((uint16_t)port_of(taken[0]));
	n = 0;
	assert_int_equal(listen_open(&plan, 16, fds, &n, &e), -1);
	assert_int_equal(e.sys, EADDRINUSE);
	assert_int_equal(n, 0);
	plan.n = 1;
	assert_int_equal(sockaddr_parse(STR("192.0.2.1:0"), &plan.addrs[0], &e), 0);
	assert_int_equal(listen_open(&plan, 16, fds, &n, &e), -1);
	assert_int_equal(e.sys, EADDRNOTAVAIL);
	(void)close(taken[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_numeric_host_is_one_address),
		cmocka_unit_test(a_host_that_is_no_name_is_refused),
		cmocka_unit_test(a_port_in_use_is_named),
		cmocka_unit_test(all_or_nothing_but_for_addresses_that_are_not_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
