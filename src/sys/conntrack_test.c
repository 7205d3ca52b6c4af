// SPDX-License-Identifier: Apache-2.0
/* In a network namespace of the test's own, where datagrams to lo are connections that nobody answers. */
#include "sys/conntrack.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/fd.h"
#include "sys/link.h"
#include "sys/memfd.h"
#include "sys/netlink.h"
#include "sys/process.h"
#include "sys/root_test.h"

#include "base/banned.h"

#define NFT "/usr/sbin/nft"

/* Connections are tracked as soon as a rule asks about them. */
static int track(struct err *e)
{
	const char *const argv[] = { "nft", "add table inet t; add chain inet t c { type filter hook output priority 0; }; "
					    "add rule inet t c ct state new accept", NULL };
	struct spawn_spec sp = SPAWN_INIT(NFT, (char *const *)(uintptr_t)argv);
	AUTO_FD pidfd = process_spawn(&sp, NULL, e);
	struct process_end end = { 0 };

	if (pidfd < 0 || process_wait(pidfd, 5000, &end, e) < 0)
		return -1;
	return end.code == 0 ? 0 : err_set(e, ERR_INVALID, "nft ended with %d", end.code);
}

static int send_from(const char *from, const char *to, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET }, b = { .sin_family = AF_INET, .sin_port = htons(port) };
	AUTO_FD fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)inet_pton(AF_INET, from, &a.sin_addr);
	(void)inet_pton(AF_INET, to, &b.sin_addr);
	if (bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
		return -1;
	return sendto(fd, "x", 1, 0, (const struct sockaddr *)&b, sizeof(b)) == 1 ? 0 : -1;
}

static bool is_to_port(const struct conntrack_flow *f, void *arg)
{
	return f->protocol == IPPROTO_UDP && f->port == *(uint16_t *)arg && f->to == f->answers_from;
}

static int flows_end_by_where_they_come_from(void *arg)
{
	AUTO(netlink_done) struct netlink links = NETLINK_INIT;
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	uint16_t port = 4001;
	struct err e = { 0 };
	size_t n = 99;

	(void)arg;
	CHECK(unshare(CLONE_NEWNET) == 0);
	CHECK_OK(netlink_open(&links, NETLINK_ROUTE, -1, &e), &e);
	CHECK_OK(link_set_up(&links, link_index(&links, "lo", &e), true, &e), &e);
	CHECK_OK(netlink_open(&nl, NETLINK_NETFILTER, -1, &e), &e);
	CHECK_OK(track(&e), &e);
	CHECK_OK(conntrack_end(&nl, htonl(0x7f000005), NULL, NULL, &n, &e), &e);
	CHECK(n == 0);
	for (uint16_t i = 0; i < 300; i++)
		CHECK(send_from("127.0.0.5", "127.0.0.9", (uint16_t)(4000 + i)) == 0);
	CHECK(send_from("127.0.0.6", "127.0.0.9", 4001) == 0);
	CHECK_OK(conntrack_end(&nl, htonl(0x7f000005), is_to_port, &port, &n, &e), &e);
	CHECK(n == 1);
	CHECK_OK(conntrack_end(&nl, htonl(0x7f000005), NULL, NULL, &n, &e), &e);
	CHECK(n == 299);
	CHECK_OK(conntrack_end(&nl, htonl(0x7f000005), NULL, NULL, &n, &e), &e);
	CHECK(n == 0);
	CHECK_OK(conntrack_end(&nl, htonl(0x7f000006), NULL, NULL, &n, &e), &e);
	CHECK(n == 1);
	return 0;
}

static void connections_are_ended(void **state)
{
	(void)state;
	NEEDS_ROOT(CLONE_NEWNET);
	if (access(NFT, X_OK) < 0)
		skip();
	assert_int_equal(in_child(flows_end_by_where_they_come_from, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(connections_are_ended) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
