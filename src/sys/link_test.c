// SPDX-License-Identifier: Apache-2.0
#include "sys/link.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/netlink.h"
#include "sys/netns.h"
#include "sys/root_test.h"

#include "base/banned.h"

/* Two namespaces of the test's own, and a socket to each: the host's links are not touched. */
struct pair {
	int host, box;
	struct netlink in_host, in_box;
};

static int make_pair(void **state)
{
	static struct pair p;
	struct err e = { 0 };
	int flag = CLONE_NEWNET;

	p = (struct pair){ -1, -1, NETLINK_INIT, NETLINK_INIT };
	*state = &p;
	if (geteuid() != 0 || in_child(try_unshare, &flag) != 0)
		return 0; /* each test says that it is skipped */
	p.host = netns_make(&e);
	p.box = netns_make(&e);
	if (p.host < 0 || p.box < 0 || netlink_open(&p.in_host, NETLINK_ROUTE, p.host, &e) < 0)
		return -1;
	return netlink_open(&p.in_box, NETLINK_ROUTE, p.box, &e);
}

static int drop_pair(void **state)
{
	struct pair *p = *state;

	netlink_done(&p->in_host);
	netlink_done(&p->in_box);
	closep(&p->host);
	closep(&p->box);
	return 0;
}

static struct link_ip ip4(const char *text, uint8_t prefix)
{
	struct link_ip ip = { .family = AF_INET, .prefix = prefix };

	assert_int_equal(inet_pton(AF_INET, text, ip.bytes), 1);
	return ip;
}

static const uint8_t macs[2][LINK_MAC_BYTES] = { { 2, 0, 0, 0, 0, 1 }, { 2, 0, 0, 0, 0, 2 } };

/* The host's end where IN_HOST is, the other one named "eth0" in the box. */
static void make_veth(struct pair *p, const char *name)
{
	struct link_end a = { .name = name, .netns = -1 }, b = { .name = "eth0", .netns = p->box };
	struct err e = { 0 };

	memcpy(a.mac, macs[0], sizeof(a.mac));
	memcpy(b.mac, macs[1], sizeof(b.mac));
	assert_int_equal(link_make_veth(&p->in_host, &a, &b, 1400, &e), 0);
	assert_string_equal(e.msg, "");
}

static void lo_comes_up_and_goes_down(void **state)
{
	struct pair *p = *state;
	struct link_row row;
	struct err e = { 0 };
	size_t n = 0;
	int lo;

	NEEDS_ROOT(CLONE_NEWNET);
	lo = link_index(&p->in_box, "lo", &e);
	assert_true(lo > 0);
	assert_int_equal(link_list(&p->in_box, "lo", &row, 1, &n, &e), 0);
	assert_true(n == 1 && !row.is_up && row.index == lo);
	assert_int_equal(link_set_up(&p->in_box, lo, true, &e), 0);
	assert_int_equal(link_list(&p->in_box, "lo", &row, 1, &n, &e), 0);
	assert_true(row.is_up);
	assert_int_equal(link_set_up(&p->in_box, lo, false, &e), 0);
	assert_int_equal(link_list(&p->in_box, "lo", &row, 1, &n, &e), 0);
	assert_false(row.is_up);
}

static void a_pair_is_made_with_one_end_in_each_namespace(void **state)
{
	struct pair *p = *state;
	struct link_row rows[4];
	struct err e = { 0 };
	size_t n = 0;

	NEEDS_ROOT(CLONE_NEWNET);
	make_veth(p, "osbt0");
	make_veth(&(struct pair){ p->host, p->host, p->in_host, p->in_box }, "osbt1"); /* with its peer beside it */
	assert_int_equal(link_list(&p->in_host, "osbt", rows, 4, &n, &e), 0);
	assert_int_equal(n, 2);
	assert_string_equal(rows[0].kind, "veth");
	assert_memory_equal(rows[0].mac, macs[0], LINK_MAC_BYTES);
	assert_int_equal(link_list(&p->in_box, "eth", rows, 4, &n, &e), 0);
	assert_true(n == 1 && !rows[0].is_up);
	assert_memory_equal(rows[0].mac, macs[1], LINK_MAC_BYTES);
	assert_int_equal(link_list(&p->in_host, "osbt", rows, 1, &n, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	assert_int_equal(link_list(&p->in_host, "osbt", rows, 4, &n, &e), 0); /* the socket is still good */
	assert_int_equal(link_delete(&p->in_host, link_index(&p->in_host, "osbt0", &e), &e), 0);
	assert_int_equal(link_index(&p->in_host, "osbt0", &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
	assert_int_equal(link_index(&p->in_box, "eth0", &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
}

static bool has_carrier(struct netlink *nl, const char *name)
{
	struct link_row row;
	struct err e = { 0 };

	assert_int_equal(link_find(nl, name, &row, &e), 0);
	return row.has_carrier;
}

static void a_link_has_a_carrier_while_both_ends_are_up(void **state)
{
	struct pair *p = *state;
	struct err e = { 0 };
	int out, in;

	NEEDS_ROOT(CLONE_NEWNET);
	make_veth(p, "osbt2");
	out = link_index(&p->in_host, "osbt2", &e);
	in = link_index(&p->in_box, "eth0", &e);
	assert_int_equal(link_set_up(&p->in_host, out, true, &e), 0);
	assert_false(has_carrier(&p->in_host, "osbt2"));
	assert_int_equal(link_set_up(&p->in_box, in, true, &e), 0);
	assert_true(has_carrier(&p->in_host, "osbt2"));
	assert_int_equal(link_set_up(&p->in_box, in, false, &e), 0);
	assert_false(has_carrier(&p->in_host, "osbt2"));
	assert_int_equal(link_delete(&p->in_host, out, &e), 0);
}

/* ---- traffic ------------------------------------------------------------------------------------------- */

static void bring_up(struct netlink *nl, const char *name, const char *address, uint8_t prefix)
{
	struct link_ip ip = ip4(address, prefix);
	struct err e = { 0 };
	int index = link_index(nl, name, &e);

	assert_int_equal(link_add_address(nl, index, &ip, &e), 0);
	assert_int_equal(link_set_up(nl, index, true, &e), 0);
}

static void add_route(struct netlink *nl, const char *name, struct link_ip to, struct link_ip via)
{
	struct err e = { 0 };
	struct link_route r = { .to = to, .via = via, .index = link_index(nl, name, &e), .is_onlink = via.family != 0 };

	assert_int_equal(link_add_route(nl, &r, &e), 0);
	assert_int_equal(link_add_route(nl, &r, &e), -1);
	assert_int_equal(e.code, ERR_CONFLICT);
}

static int listen_at(int netns, struct sockaddr_in *sa)
{
	struct err e = { 0 };
	socklen_t len = sizeof(*sa);
	int fd = netns_socket(netns, AF_INET, SOCK_STREAM, 0, &e);

	assert_int_equal(bind(fd, (struct sockaddr *)sa, sizeof(*sa)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)sa, &len), 0);
	return fd;
}

/* From the box to a listener in the host's namespace and back. */
static void assert_connects(struct pair *p, const char *address)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	const struct timeval limit = { .tv_sec = 10 };
	struct err e = { 0 };
	AUTO_FD server = -1;
	AUTO_FD client = -1;
	AUTO_FD peer = -1;
	char byte = 0;

	assert_int_equal(inet_pton(AF_INET, address, &sa.sin_addr), 1);
	server = listen_at(p->host, &sa);
	client = netns_socket(p->box, AF_INET, SOCK_STREAM, 0, &e);
	assert_int_equal(setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&sa, sizeof(sa)), 0);
	peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(write(peer, "!", 1), 1);
	assert_int_equal(setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(read(client, &byte, 1), 1);
	assert_int_equal(byte, '!');
}

/* A routed pair, as sandboxes have it: single addresses, and a gateway that no network contains. */
static void a_connection_crosses_the_pair(void **state)
{
	struct pair *p = *state;
	struct link_ip none = { 0 }, all = { .family = AF_INET };

	NEEDS_ROOT(CLONE_NEWNET);
	make_veth(p, "osbt0");
	bring_up(&p->in_host, "osbt0", "169.254.7.1", 32);
	bring_up(&p->in_box, "eth0", "10.77.3.2", 32);
	add_route(&p->in_host, "osbt0", ip4("10.77.3.2", 32), none);
	add_route(&p->in_box, "eth0", all, ip4("169.254.7.1", 32));
	assert_connects(p, "169.254.7.1");
}

static void version_6_addresses_and_routes_are_taken(void **state)
{
	struct pair *p = *state;
	struct link_ip ip = { .family = AF_INET6, .bytes = { 0xfd, 0x77, [15] = 2 }, .prefix = 64 };
	struct link_ip via = { .family = AF_INET6, .bytes = { 0xfd, 0x77, [15] = 1 }, .prefix = 128 };
	struct link_route r = { .to = { .family = AF_INET6 }, .via = via };
	struct err e = { 0 };

	NEEDS_ROOT(CLONE_NEWNET);
	if (access("/proc/net/if_inet6", F_OK) < 0) {
		print_message("skipped: the kernel has no IPv6\n");
		skip();
	}
	make_veth(p, "osbt0");
	r.index = link_index(&p->in_box, "eth0", &e);
	assert_int_equal(link_add_address(&p->in_box, r.index, &ip, &e), 0);
	assert_int_equal(link_set_up(&p->in_box, r.index, true, &e), 0);
	assert_int_equal(link_add_route(&p->in_box, &r, &e), 0);
}

/* ---- refusals ------------------------------------------------------------------------------------------ */

static void what_makes_no_sense_is_refused_before_the_kernel_sees_it(void **state)
{
	struct link_end good = { .name = "a", .netns = -1 }, bad = { .name = "sixteen-bytes-xx", .netns = -1 };
	struct link_ip ip = { .family = AF_INET, .prefix = 33 }, none = { 0 }, six = { .family = AF_INET6 };
	struct link_route r = { .to = none, .index = 1 };
	struct netlink nl = NETLINK_INIT;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(link_make_veth(&nl, &good, &bad, 0, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
	assert_int_equal(link_make_veth(&nl, &bad, &good, 0, &e), -1);
	assert_int_equal(link_index(&nl, "", &e), -1);
	assert_int_equal(link_delete(&nl, 0, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
	assert_int_equal(link_add_address(&nl, 1, &ip, &e), -1);
	assert_int_equal(link_add_address(&nl, 1, &none, &e), -1);
	assert_int_equal(link_add_route(&nl, &r, &e), -1);
	r.to = (struct link_ip){ .family = AF_INET };
	r.via = six;
	assert_int_equal(link_add_route(&nl, &r, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
}

static void what_the_kernel_refuses_has_its_reason(void **state)
{
	struct pair *p = *state;
	struct link_end a = { .name = "osbt0", .netns = -1 }, b = { .name = "x", .netns = 0 };
	struct link_route r = { .to = { .family = AF_INET }, .via = ip4("10.9.9.9", 32) };
	struct link_ip ip = ip4("10.0.0.1", 32);
	struct link_row row;
	struct err e = { 0 };
	size_t n;

	NEEDS_ROOT(CLONE_NEWNET);
	make_veth(p, "osbt0");
	assert_int_equal(link_make_veth(&p->in_host, &a, &b, 0, &e), -1);
	r.index = link_index(&p->in_host, "osbt0", &e);
	assert_int_equal(link_set_up(&p->in_host, r.index, true, &e), 0);
	assert_int_equal(link_add_route(&p->in_host, &r, &e), -1);
	assert_non_null(strstr(e.msg, "Nexthop has invalid gateway"));
	assert_int_equal(link_delete(&p->in_host, 0x7ffffff0, &e), -1);
	assert_int_equal(link_set_up(&p->in_host, 0x7ffffff0, true, &e), -1);
	assert_int_equal(link_add_address(&p->in_host, 0x7ffffff0, &ip, &e), -1);
	netlink_done(&p->in_host);
	assert_int_equal(link_list(&p->in_host, "", &row, 1, &n, &e), -1);
	assert_int_equal(e.sys, EBADF);
	assert_int_equal(link_index(&p->in_host, "lo", &e), -1);
	assert_int_equal(e.sys, EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lo_comes_up_and_goes_down, make_pair, drop_pair),
		cmocka_unit_test_setup_teardown(a_pair_is_made_with_one_end_in_each_namespace, make_pair, drop_pair),
		cmocka_unit_test_setup_teardown(a_link_has_a_carrier_while_both_ends_are_up, make_pair, drop_pair),
		cmocka_unit_test_setup_teardown(a_connection_crosses_the_pair, make_pair, drop_pair),
		cmocka_unit_test_setup_teardown(version_6_addresses_and_routes_are_taken, make_pair, drop_pair),
		cmocka_unit_test(what_makes_no_sense_is_refused_before_the_kernel_sees_it),
		cmocka_unit_test_setup_teardown(what_the_kernel_refuses_has_its_reason, make_pair, drop_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
