// SPDX-License-Identifier: Apache-2.0
#include "sys/route.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/link.h"
#include "sys/netlink.h"
#include "sys/root_test.h"

#include "base/banned.h"

static void networks_are_read_strictly_and_written_back(void **state)
{
	static const struct {
		const char *in, *want; /* NULL: refused */
	} cases[] = {
		{ "10.0.0.0/8", "10.0.0.0/8" }, { "192.0.2.7", "192.0.2.7/32" }, { "0.0.0.0/0", "0.0.0.0/0" },
		{ "10.0.0.1/8", NULL },         { "10.0.0.0/33", NULL },         { "10.0.0.0/", NULL },
		{ "10.0.0/8", NULL },           { "", NULL },                    { "::1", NULL },
		{ "10.0.0.0/8 ", NULL },        { "1.2.3.4/032", "1.2.3.4/32" }, { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct route_net net;
		struct err e = { 0 };
		char text[ROUTE_NET_TEXT];
		int r = route_net_parse(cases[i].in, &net, &e);

		if (!cases[i].want) {
			assert_int_equal(r, -1);
			assert_int_equal(e.code, ERR_INVALID);
			continue;
		}
		assert_int_equal(r, 0);
		route_net_write(&net, text);
		assert_string_equal(text, cases[i].want);
	}
}

static void networks_overlap_when_one_has_the_other(void **state)
{
	static const struct {
		const char *a, *b;
		bool overlap;
	} cases[] = {
		{ "10.0.0.0/8", "10.1.0.0/16", true }, { "10.1.0.0/16", "10.2.0.0/16", false }, { "0.0.0.0/0", "192.0.2.1", true },
		{ "192.0.2.1", "192.0.2.1", true },    { "192.0.2.0/31", "192.0.2.2", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct route_net a, b;
		struct err e = { 0 };

		assert_int_equal(route_net_parse(cases[i].a, &a, &e), 0);
		assert_int_equal(route_net_parse(cases[i].b, &b, &e), 0);
		assert_int_equal(route_nets_overlap(&a, &b), cases[i].overlap);
		assert_int_equal(route_nets_overlap(&b, &a), cases[i].overlap);
	}
}

struct found {
	int addresses, routes;
};

static int see_address(const struct route_address *a, void *arg, struct err *e)
{
	struct found *f = arg;

	(void)e;
	f->addresses += strcmp(a->label, "lo:osb") == 0 && a->prefix == 32;
	return 0;
}

static int see_route(const struct route_row *r, void *arg, struct err *e)
{
	struct found *f = arg;

	(void)e;
	f->routes += r->protocol == ROUTE_PROTOCOL;
	return 0;
}

static int what_was_added_is_listed_and_goes(void *arg)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	const struct route way = { .kind = ROUTE_UNREACHABLE, .to = { htonl(0x0a4d0000), 17 } };
	const struct route_rule rule = { .to = way.to, .mark = 0x01000000, .table = 0x6f0a4d80, .priority = 5000 };
	struct route own = { .kind = ROUTE_LINK, .to = { htonl(0x0a4d0002), 32 }, .table = 0x6f0a4d80 };
	struct found f = { 0 };
	struct err e = { 0 };

	(void)arg;
	CHECK(unshare(CLONE_NEWNET) == 0);
	CHECK_OK(netlink_open(&nl, NETLINK_ROUTE, -1, &e), &e);
	own.index = link_index(&nl, "lo", &e);
	CHECK_OK(link_set_up(&nl, own.index, true, &e), &e);
	CHECK_OK(route_add_address(&nl, own.index, htonl(0x0a4d0001), "lo:osb", &e), &e);
	CHECK(route_add_address(&nl, own.index, htonl(0x0a4d0001), "lo:other", &e) < 0 && e.sys == EEXIST);
	for (int i = 0; i < 2; i++) { /* again is fine */
		CHECK_OK(route_add(&nl, &way, &e), &e);
		CHECK_OK(route_add(&nl, &own, &e), &e);
		CHECK_OK(route_add_rule(&nl, &rule, &e), &e);
	}
	CHECK_OK(route_list_addresses(&nl, see_address, &f, &e), &e);
	CHECK_OK(route_list(&nl, 0, see_route, &f, &e), &e);
	CHECK(f.addresses == 1 && f.routes == 2);
	f.routes = 0;
	CHECK_OK(route_list(&nl, ROUTE_TABLE_MAIN, see_route, &f, &e), &e);
	CHECK(f.routes == 1);
	f.routes = 0;
	CHECK_OK(route_list(&nl, rule.table, see_route, &f, &e), &e); /* 0x80 is a table, too, and has none */
	CHECK(f.routes == 1);
	f.routes = 0;
	CHECK_OK(route_list(&nl, 0x80, see_route, &f, &e), &e);
	CHECK(f.routes == 0);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(route_delete_rule(&nl, &rule, &e), &e);
		CHECK_OK(route_delete(&nl, &own, &e), &e);
		CHECK_OK(route_delete(&nl, &way, &e), &e);
		CHECK_OK(route_delete_address(&nl, own.index, htonl(0x0a4d0001), &e), &e);
	}
	f = (struct found){ 0 };
	CHECK_OK(route_list_addresses(&nl, see_address, &f, &e), &e);
	CHECK_OK(route_list(&nl, 0, see_route, &f, &e), &e);
	CHECK(f.addresses == 0 && f.routes == 0);
	return 0;
}

static void addresses_routes_and_rules_come_and_go(void **state)
{
	(void)state;
	NEEDS_ROOT(CLONE_NEWNET);
	assert_int_equal(in_child(what_was_added_is_listed_and_goes, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(networks_are_read_strictly_and_written_back), cmocka_unit_test(networks_overlap_when_one_has_the_other),
		cmocka_unit_test(addresses_routes_and_rules_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
