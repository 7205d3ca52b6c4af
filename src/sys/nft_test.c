// SPDX-License-Identifier: Apache-2.0
/* In a network namespace of the test's own; what was changed is read with `nft`, which is somebody else's eyes. */
#include "sys/nft.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include "base/err.h"
#include "sys/fd.h"
#include "sys/netlink.h"
#include "sys/process.h"
#include "sys/root_test.h"

#include "base/banned.h"

#define NFT "/usr/sbin/nft"
#define TABLE "unit"
#define RULES \
	"table inet " TABLE " {\n" \
	"	set pairs { type ifname . ipv4_addr; }\n" \
	"	map classes { type ipv4_addr : mark; }\n" \
	"	set nets { type ipv4_addr . ipv4_addr; flags interval; }\n" \
	"	set learned { type ipv4_addr . ipv4_addr . inet_service; flags timeout; }\n" \
	"	chain one { accept; }\n" \
	"	chain two { jump one; drop; }\n" \
	"}\n"

/* Runs `nft ARGS` with TEXT as its input; what it says is added to OUT. */
static int run_nft(const char *const *args, const char *text, struct buf *out, struct err *e)
{
	struct spawn_spec sp = SPAWN_INIT(NFT, (char *const *)(uintptr_t)args);
	struct process_end end = { 0 };
	AUTO_FD pidfd = -1;
	int in[2], back[2];

	if (pipe(in) < 0 || pipe(back) < 0)
		return err_sys(e, errno, "make a pipe");
	sp.in = in[0];
	sp.out = back[1];
	sp.err = 2;
	pidfd = process_spawn(&sp, NULL, e);
	(void)close(in[0]);
	(void)close(back[1]);
	if (fd_write_all(in[1], text, strlen(text), e) < 0)
		return -1;
	(void)close(in[1]);
	if (pidfd < 0 || fd_read_all(back[0], out->max, out, e) < 0 || process_wait(pidfd, 5000, &end, e) < 0)
		return -1;
	(void)close(back[0]);
	return end.code == 0 ? 0 : err_set(e, ERR_INVALID, "nft ended with %d", end.code);
}

static int write_table(struct netlink *nl, struct err *e)
{
	AUTO(buf_done) struct buf none = BUF_INIT(4096);
	const char *const args[] = { "nft", "-f", "-", NULL };

	if (unshare(CLONE_NEWNET) < 0)
		return err_sys(e, errno, "unshare");
	return run_nft(args, RULES, &none, e) < 0 ? -1 : nft_open(nl, -1, e);
}

static bool shows(const char *set, const char *what)
{
	AUTO(buf_done) struct buf out = BUF_INIT(1 << 20);
	const char *const args[] = { "nft", "list", "set", "inet", TABLE, set, NULL };
	const char *const map_args[] = { "nft", "list", "map", "inet", TABLE, set, NULL };
	struct err e = { 0 };

	if (run_nft(strcmp(set, "classes") == 0 ? map_args : args, "", &out, &e) < 0)
		return false;
	if (strstr(buf_z(&out), what))
		return true;
	(void)dprintf(2, "no '%s' in: %s\n", what, buf_z(&out));
	return false;
}

struct pair_key {
	char name[16];
	uint32_t address;
};
struct net_key {
	uint32_t from, to;
};
struct learned_key {
	uint32_t from, to;
	uint16_t port, pad;
};

static int elements_are_as_nft_shows_them(void *arg)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	AUTO(nft_batch_done) struct nft_batch b = NFT_BATCH_INIT(TABLE);
	struct pair_key pair = { "osb_1f", htonl(0x0a4d0002) };
	struct net_key low = { htonl(0x0a4d0002), htonl(0xc6336400) }, high = { htonl(0x0a4d0002), htonl(0xc63364ff) };
	struct learned_key learned = { htonl(0x0a4d0002), htonl(0xcb007109), htons(22), 0 };
	uint32_t address = htonl(0x0a4d0002), mark = 0x03000000;
	struct err e = { 0 };

	(void)arg;
	CHECK_OK(write_table(&nl, &e), &e);
	nft_add(&b, "pairs", &(struct nft_element){ .key = &pair, .n_key = sizeof(pair) });
	nft_add(&b, "classes", &(struct nft_element){ .key = &address, .n_key = 4, .value = &mark, .n_value = 4 });
	nft_add(&b, "nets", &(struct nft_element){ .key = &low, .n_key = sizeof(low), .end = &high });
	nft_add(&b, "learned", &(struct nft_element){ .key = &learned, .n_key = sizeof(learned), .timeout_ms = 60000 });
	CHECK_OK(nft_commit(&nl, &b, &e), &e);
	CHECK(shows("pairs", "\"osb_1f\" . 10.77.0.2"));
	CHECK(shows("classes", "10.77.0.2 : 0x03000000"));
	CHECK(shows("nets", "10.77.0.2 . 198.51.100.0/24"));
	CHECK(shows("learned", "10.77.0.2 . 203.0.113.9 . 22 timeout 1m"));
	nft_delete(&b, "pairs", &(struct nft_element){ .key = &pair, .n_key = sizeof(pair) });
	nft_delete(&b, "nets", &(struct nft_element){ .key = &low, .n_key = sizeof(low), .end = &high });
	CHECK_OK(nft_commit(&nl, &b, &e), &e);
	CHECK(!shows("pairs", "10.77.0.2") && !shows("nets", "10.77.0.2") && shows("classes", "10.77.0.2"));
	return 0;
}

static int a_batch_holds_as_a_whole_or_not_at_all(void *arg)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	AUTO(nft_batch_done) struct nft_batch b = NFT_BATCH_INIT(TABLE);
	uint32_t there = htonl(0x0a4d0002), absent = htonl(0x0a4d0003), mark = 1;
	struct err e = { 0 };

	(void)arg;
	CHECK_OK(write_table(&nl, &e), &e);
	nft_add(&b, "classes", &(struct nft_element){ .key = &there, .n_key = 4, .value = &mark, .n_value = 4 });
	nft_delete(&b, "classes", &(struct nft_element){ .key = &absent, .n_key = 4 });
	CHECK(nft_commit(&nl, &b, &e) < 0 && e.sys == ENOENT && e.code == ERR_NOT_FOUND);
	CHECK(!shows("classes", "10.77.0.2"));
	CHECK(nft_has(&nl, TABLE, "classes", &(struct nft_element){ .key = &there, .n_key = 4 }, &e) == 0);
	/* The socket is good for the next one. */
	nft_add(&b, "classes", &(struct nft_element){ .key = &there, .n_key = 4, .value = &mark, .n_value = 4 });
	CHECK_OK(nft_commit(&nl, &b, &e), &e);
	CHECK(nft_has(&nl, TABLE, "classes", &(struct nft_element){ .key = &there, .n_key = 4 }, &e) == 1);
	/* A value is replaced in one step. */
	mark = 2;
	nft_delete(&b, "classes", &(struct nft_element){ .key = &there, .n_key = 4 });
	nft_add(&b, "classes", &(struct nft_element){ .key = &there, .n_key = 4, .value = &mark, .n_value = 4 });
	CHECK_OK(nft_commit(&nl, &b, &e), &e);
	CHECK(shows("classes", "10.77.0.2 : 0x00000002"));
	nft_flush(&b, "classes");
	CHECK_OK(nft_commit(&nl, &b, &e), &e);
	CHECK(!shows("classes", "10.77.0.2"));
	return 0;
}

static int count_row(const struct nft_row *row, void *arg, struct err *e)
{
	if (row->key.n != sizeof(struct net_key) || row->end.n != row->key.n)
		return err_set(e, ERR_INVALID, "a row of %zu and %zu bytes", row->key.n, row->end.n);
	++*(size_t *)arg;
	return 0;
}

static int thousands_of_networks_go_in_one_batch(void *arg)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	AUTO(nft_batch_done) struct nft_batch b = NFT_BATCH_INIT(TABLE);
	struct err e = { 0 };
	size_t n = 0;

	(void)arg;
	CHECK_OK(write_table(&nl, &e), &e);
	for (uint32_t i = 0; i < 4096; i++) {
		struct net_key low = { htonl(0x0a4d0002), htonl(0xc0000000 + i * 256) };
		struct net_key high = { low.from, htonl(0xc0000000 + i * 256 + 127) };

		nft_add(&b, "nets", &(struct nft_element){ .key = &low, .n_key = sizeof(low), .end = &high });
	}
	CHECK_OK(nft_commit(&nl, &b, &e), &e);
	CHECK_OK(nft_list(&nl, TABLE, "nets", count_row, &n, &e), &e);
	CHECK(n == 4096);
	return 0;
}

/* Of a range that shares its first address with one that is there, of one that is there, and of all kinds that are not. */
static int what_is_not_there_is_left_out_of_what_is_deleted(void *arg)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	AUTO(nft_batch_done) struct nft_batch b = NFT_BATCH_INIT(TABLE);
	struct net_key low = { htonl(0x0a4d0002), htonl(0xc6336400) }, high = { low.from, htonl(0xc63364ff) };
	struct net_key wide = { low.from, htonl(0xc633ffff) };
	struct pair_key pair = { "osb_1f", htonl(0x0a4d0002) };
	uint32_t address = htonl(0x0a4d0002), absent = htonl(0x0a4d0003), mark = 1;
	struct err e = { 0 };

	(void)arg;
	CHECK_OK(write_table(&nl, &e), &e);
	nft_add(&b, "nets", &(struct nft_element){ .key = &low, .n_key = sizeof(low), .end = &high });
	nft_add(&b, "classes", &(struct nft_element){ .key = &address, .n_key = 4, .value = &mark, .n_value = 4 });
	CHECK_OK(nft_apply(&nl, &b, &e), &e);
	nft_delete(&b, "nets", &(struct nft_element){ .key = &low, .n_key = sizeof(low), .end = &wide });
	nft_delete(&b, "pairs", &(struct nft_element){ .key = &pair, .n_key = sizeof(pair) });
	nft_delete(&b, "classes", &(struct nft_element){ .key = &absent, .n_key = 4 });
	CHECK_OK(nft_apply(&nl, &b, &e), &e); /* nothing is left to do */
	CHECK(shows("nets", "10.77.0.2 . 198.51.100.0/24") && shows("classes", "10.77.0.2"));
	nft_delete(&b, "classes", &(struct nft_element){ .key = &absent, .n_key = 4 });
	nft_delete(&b, "nets", &(struct nft_element){ .key = &low, .n_key = sizeof(low), .end = &high });
	nft_add(&b, "pairs", &(struct nft_element){ .key = &pair, .n_key = sizeof(pair) });
	CHECK_OK(nft_apply(&nl, &b, &e), &e);
	CHECK(!shows("nets", "198.51.100.0") && shows("pairs", "osb_1f"));
	nft_flush(&b, "classes");
	CHECK_OK(nft_apply(&nl, &b, &e), &e);
	CHECK(!shows("classes", "10.77.0.2"));
	nft_add(&b, "none", &(struct nft_element){ .key = &address, .n_key = 4 });
	CHECK(nft_apply(&nl, &b, &e) < 0 && e.sys == ENOENT && b.last == 0);
	return 0;
}

/* ---- a kernel without memory ---- */

static int refusals, sends; /* of the next calls, and calls */

/* In place of the library's. */
ssize_t sendto(int fd, const void *p, size_t n, int flags, const struct sockaddr *to, socklen_t n_to)
{
	sends++;
	if (refusals > 0) {
		refusals--;
		errno = ENOBUFS;
		return -1;
	}
	return syscall(SYS_sendto, fd, p, n, flags, to, n_to);
}

static int a_batch_is_tried_again_while_the_kernel_has_no_memory_for_it(void *arg)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	AUTO(nft_batch_done) struct nft_batch b = NFT_BATCH_INIT(TABLE);
	uint32_t address = htonl(0x0a4d0002), mark = 1;
	const struct nft_element el = { .key = &address, .n_key = 4, .value = &mark, .n_value = 4 };
	struct err e = { 0 };

	(void)arg;
	CHECK_OK(write_table(&nl, &e), &e);
	nft_add(&b, "classes", &el);
	refusals = 4;
	sends = 0;
	CHECK_OK(nft_commit(&nl, &b, &e), &e);
	CHECK(sends == 5 && shows("classes", "10.77.0.2"));
	nft_flush(&b, "classes");
	refusals = 1000;
	sends = 0;
	CHECK(nft_commit(&nl, &b, &e) < 0 && e.sys == ENOBUFS && sends == 6);
	refusals = 0;
	CHECK(shows("classes", "10.77.0.2"));
	return 0;
}

static int a_learned_element_goes_by_itself(void *arg)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	AUTO(nft_batch_done) struct nft_batch b = NFT_BATCH_INIT(TABLE);
	struct learned_key k = { htonl(0x0a4d0002), htonl(0xcb007109), htons(22), 0 };
	const struct timespec pause = { .tv_nsec = 20000000 };
	struct err e = { 0 };
	int has = 1;

	(void)arg;
	CHECK_OK(write_table(&nl, &e), &e);
	nft_add(&b, "learned", &(struct nft_element){ .key = &k, .n_key = sizeof(k), .timeout_ms = 100 });
	CHECK_OK(nft_commit(&nl, &b, &e), &e);
	CHECK(nft_has(&nl, TABLE, "learned", &(struct nft_element){ .key = &k, .n_key = sizeof(k) }, &e) == 1);
	for (int i = 0; i < 100 && has == 1; i++) {
		(void)nanosleep(&pause, NULL);
		has = nft_has(&nl, TABLE, "learned", &(struct nft_element){ .key = &k, .n_key = sizeof(k) }, &e);
	}
	CHECK(has == 0);
	return 0;
}

static int rules_and_tables_are_counted(void *arg)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	struct err e = { 0 };

	(void)arg;
	CHECK_OK(write_table(&nl, &e), &e);
	CHECK(nft_count_rules(&nl, TABLE, &e) == 3);
	CHECK(nft_count_tables(&nl, "un", &e) == 1 && nft_count_tables(&nl, "other", &e) == 0);
	CHECK_OK(nft_delete_table(&nl, TABLE, &e), &e);
	CHECK_OK(nft_delete_table(&nl, TABLE, &e), &e);
	CHECK(nft_count_rules(&nl, TABLE, &e) < 0 && e.code == ERR_NOT_FOUND);
	return 0;
}

static int (*const cases[])(void *) = {
	elements_are_as_nft_shows_them, a_batch_holds_as_a_whole_or_not_at_all, thousands_of_networks_go_in_one_batch,
	what_is_not_there_is_left_out_of_what_is_deleted, a_batch_is_tried_again_while_the_kernel_has_no_memory_for_it,
	a_learned_element_goes_by_itself, rules_and_tables_are_counted,
};

static void sets_and_maps_are_changed_in_the_kernel(void **state)
{
	(void)state;
	NEEDS_ROOT(CLONE_NEWNET);
	if (access(NFT, X_OK) < 0)
		skip();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(in_child(cases[i], NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(sets_and_maps_are_changed_in_the_kernel) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
