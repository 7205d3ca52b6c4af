// SPDX-License-Identifier: Apache-2.0
#include "sys/netlink.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/refuse_test.h"

#include "base/banned.h"

/* ---- writing ------------------------------------------------------------------------------------------- */

static void attributes_are_aligned_nested_and_found_again(void **state)
{
	static const char head[5] = "head";
	struct netlink_msg m;
	struct nlmsghdr h;
	struct str attrs, nest, value;
	uint16_t type;

	(void)state;
	netlink_msg_init(&m);
	netlink_begin(&m, 77, NLM_F_ACK, head, sizeof(head));
	netlink_put_z(&m, 1, "ab");
	netlink_nest(&m, 2);
	netlink_put_raw(&m, "RAW", 3);
	netlink_put_u32(&m, 3, 0x01020304);
	netlink_unnest(&m);
	netlink_begin(&m, 78, 0, NULL, 0);
	assert_false(m.failed);
	memcpy(&h, m.bytes, sizeof(h));
	assert_int_equal(h.nlmsg_len, 16 + 8 + 8 + (4 + 4 + 8));
	assert_true(h.nlmsg_type == 77 && h.nlmsg_flags == (NLM_F_ACK | NLM_F_REQUEST));
	assert_int_equal(m.n, h.nlmsg_len + 16);
	attrs = (struct str){ m.bytes + 24, h.nlmsg_len - 24 };
	assert_true(netlink_find(attrs, 1, &value) && value.n == 3 && memcmp(value.p, "ab", 3) == 0);
	assert_true(netlink_find(attrs, 2, &nest) && nest.n == 12);
	assert_true(netlink_find(str_skip(nest, 4), 3, &value) && value.n == 4);
	assert_false(netlink_find(attrs, 3, &value));
	assert_true(netlink_next(&attrs, &type, &value) && type == 1);
	assert_true(netlink_next(&attrs, &type, &value) && type == 2);
	assert_false(netlink_next(&attrs, &type, &value));
}

static void attributes_that_are_cut_short_are_not_found(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
	} rows[] = {
		{ "", 0 }, { "\4\0\1", 3 }, { "\3\0\1\0", 4 }, { "\0\0\1\0", 4 }, { "\5\0\1\0", 4 }, { "\377\377\1\0\0", 5 },
	};
	struct str value;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_false(netlink_find((struct str){ rows[i].bytes, rows[i].n }, 1, &value));
	/* The last one may end without its padding. */
	assert_true(netlink_find((struct str){ "\5\0\1\0x", 5 }, 1, &value) && value.n == 1);
}

static void a_message_that_is_too_large_or_unbalanced_fails_when_it_is_sent(void **state)
{
	static const char large[NETLINK_MSG_MAX];
	struct netlink nl = NETLINK_INIT;
	struct netlink_msg m;
	struct err e = { 0 };

	(void)state;
	for (int how = 0; how < 6; how++) {
		netlink_msg_init(&m);
		if (how != 5)
			netlink_begin(&m, 77, NLM_F_ACK, NULL, 0);
		if (how == 0)
			netlink_put(&m, 1, large, sizeof(large) - 16);
		if (how == 1)
			netlink_put(&m, 1, large, SIZE_MAX);
		if (how == 2)
			netlink_unnest(&m);
		if (how == 3)
			netlink_nest(&m, 1);
		for (int i = 0; how == 4 && i <= NETLINK_NESTS_MAX; i++)
			netlink_nest(&m, 1);
		assert_int_equal(netlink_request(&nl, &m, &e), -1);
		assert_int_equal(e.code, ERR_LIMIT);
	}
	assert_int_equal(netlink_dump(&nl, &m, NULL, NULL, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static void add_message(struct buf *b, uint16_t type, uint16_t flags, uint32_t seq, const void *body, size_t n)
{
	struct nlmsghdr h = { .nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_seq = seq };
	static const char zeroes[4];

	h.nlmsg_len = (uint32_t)(sizeof(h) + n);
	(void)buf_add(b, &h, sizeof(h));
	(void)buf_add(b, body, n);
	(void)buf_add(b, zeroes, (4 - n % 4) % 4);
}

/* An error number, the header of the request, and what follows it. */
static void add_error(struct buf *b, uint16_t flags, uint32_t seq, int32_t code, uint32_t request_len, struct str tail)
{
	AUTO(buf_done) struct buf body = BUF_INIT(4096);
	struct nlmsghdr request = { .nlmsg_len = request_len };

	(void)buf_add(&body, &code, sizeof(code));
	(void)buf_add(&body, &request, sizeof(request));
	(void)buf_add_str(&body, tail);
	add_message(b, NLMSG_ERROR, flags, seq, body.p, body.n);
}

static int count_row(uint16_t type, struct str body, void *arg, struct err *e)
{
	(void)body;
	*(int *)arg += type;
	return type == 999 ? err_set(e, ERR_INTERNAL, "enough") : 0;
}

static void acknowledgements_count_and_foreign_numbers_do_not(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	int sum = 0;
	struct netlink_answer a = { .first = 0xffffffff, .count = 2, .fn = count_row, .arg = &sum };
	struct err e = { 0 };

	(void)state;
	add_error(&b, 0, 5, -EPERM, 16, STR("")); /* of an earlier request */
	add_message(&b, 100, 0, 5, "x", 1);
	add_error(&b, 0, 0xffffffff, 0, 16, STR(""));
	add_message(&b, 40, 0, 0, "x", 1);
	add_message(&b, NLMSG_NOOP, 0, 0, "x", 1);
	add_error(&b, 0, 0, 0, 16, STR("")); /* the numbers went round */
	assert_int_equal(netlink_parse(&a, buf_str(&b), &e), 0);
	assert_true(a.acks == 2 && a.rows == 1 && sum == 40);
}

static void a_refusal_has_the_words_of_the_kernel(void **state)
{
	static const struct {
		uint16_t flags;
		uint32_t request_len;
		struct str tail;
		const char *want;
	} rows[] = {
		{ 0, 16, { "", 0 }, "netlink: Operation not permitted" },
		{ 0x300, 99, { "\x0c\0\1\0no way\0\0", 12 }, "netlink: no way: Operation not permitted" },
		{ 0x200, 24, { "REQUEST.\x08\0\1\0abc\0", 16 }, "netlink: abc: Operation not permitted" },
		{ 0x200, 0xffffffff, { "\x08\0\1\0abc\0", 8 }, "netlink: Operation not permitted" },
		{ 0x300, 16, { "\x04\0\1\0", 4 }, "netlink: Operation not permitted" },
		{ 0x300, 16, { "\x08\0\1\0\033[1m", 8 }, "netlink: \\u001b[1m: Operation not permitted" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(4096);
		struct netlink_answer a = { .first = 1, .count = 1 };
		struct err e = { 0 };

		add_error(&b, rows[i].flags, 1, -EPERM, rows[i].request_len, rows[i].tail);
		assert_int_equal(netlink_parse(&a, buf_str(&b), &e), -1);
		assert_string_equal(e.msg, rows[i].want);
		assert_int_equal(e.sys, EPERM);
	}
}

static void a_dump_ends_fails_or_was_interrupted(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	int sum = 0;
	struct netlink_answer a = { .first = 1, .count = 1, .fn = count_row, .arg = &sum };
	const int32_t zero = 0, bad = -ENOBUFS, worst = INT32_MIN;
	struct err e = { 0 };

	(void)state;
	add_message(&b, 20, NLM_F_MULTI | NLM_F_DUMP_INTR, 1, "x", 1);
	add_message(&b, NLMSG_DONE, NLM_F_MULTI, 1, &zero, 4);
	assert_int_equal(netlink_parse(&a, buf_str(&b), &e), 1);
	assert_true(a.was_interrupted && sum == 20 && a.acks == 0);
	buf_clear(&b);
	add_message(&b, NLMSG_DONE, 0, 1, NULL, 0);
	assert_int_equal(netlink_parse(&a, buf_str(&b), &e), 1);
	buf_clear(&b);
	add_message(&b, NLMSG_DONE, 0, 1, &bad, 4);
	assert_int_equal(netlink_parse(&a, buf_str(&b), &e), -1);
	assert_int_equal(e.sys, ENOBUFS);
	buf_clear(&b);
	add_message(&b, NLMSG_ERROR, 0, 1, &worst, 4);
	assert_int_equal(netlink_parse(&a, buf_str(&b), &e), -1);
	assert_int_equal(e.sys, EIO);
	buf_clear(&b);
	add_message(&b, 999, 0, 1, NULL, 0);
	assert_int_equal(netlink_parse(&a, buf_str(&b), &e), -1);
	assert_int_equal(e.code, ERR_INTERNAL);
	a.rows = NETLINK_ROWS_MAX;
	assert_int_equal(netlink_parse(&a, buf_str(&b), &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

static void messages_that_are_cut_short_are_errors(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4096);
	struct netlink_answer a = { .first = 1, .count = 1 };
	struct nlmsghdr h = { .nlmsg_len = 8 };
	struct err e = { 0 };

	(void)state;
	add_message(&b, NLMSG_ERROR, 0, 1, "ab", 2);
	assert_int_equal(netlink_parse(&a, buf_str(&b), &e), -1);
	assert_int_equal(netlink_parse(&a, str_first(buf_str(&b), 17), &e), -1);
	assert_int_equal(netlink_parse(&a, str_first(buf_str(&b), 15), &e), 0); /* nothing in it */
	assert_int_equal(netlink_parse(&a, (struct str){ (const char *)&h, sizeof(h) }, &e), -1);
	assert_int_equal(e.code, ERR_IO);
}

/* ---- the kernel, which answers anybody --------------------------------------------------------------- */

static int find_lo(uint16_t type, struct str body, void *arg, struct err *e)
{
	struct str name;

	(void)e;
	if (type == RTM_NEWLINK && netlink_find(str_skip(body, sizeof(struct ifinfomsg)), IFLA_IFNAME, &name))
		*(bool *)arg |= str_eq(name, (struct str){ "lo", 3 });
	return 0;
}

static void links_are_listed_and_an_error_of_one_request_does_not_reach_the_next(void **state)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	const struct ifinfomsg head = { 0 }, nobody = { .ifi_index = 0x7ffffff0 };
	struct netlink_msg m;
	struct err e = { 0 };
	bool found = false;

	(void)state;
	assert_int_equal(netlink_open(&nl, NETLINK_ROUTE, -1, &e), 0);
	netlink_msg_init(&m);
	for (int i = 0; i < 3; i++)
		netlink_begin(&m, RTM_GETLINK, NLM_F_ACK, &nobody, sizeof(nobody));
	assert_int_equal(netlink_request(&nl, &m, &e), -1); /* two more answers are on their way */
	assert_int_equal(e.sys, ENODEV);
	netlink_msg_init(&m);
	netlink_begin(&m, RTM_GETLINK, 0, &head, sizeof(head));
	assert_int_equal(netlink_dump(&nl, &m, find_lo, &found, &e), 0);
	assert_true(found);
	netlink_done(&nl);
	assert_int_equal(netlink_request(&nl, &m, &e), -1);
	assert_int_equal(e.sys, EBADF);
	assert_int_equal(netlink_open(&nl, 9999, -1, &e), -1);
}

static int list_while_interrupted(void *arg)
{
	AUTO(netlink_done) struct netlink nl = NETLINK_INIT;
	const struct ifinfomsg head = { 0 };
	struct netlink_msg m;
	struct err e = { 0 };
	bool found = false;

	(void)arg;
	if (interrupt_often() < 0 || netlink_open(&nl, NETLINK_ROUTE, -1, &e) < 0)
		return 1;
	for (int i = 0; i < 200; i++) {
		netlink_msg_init(&m);
		netlink_begin(&m, RTM_GETLINK, 0, &head, sizeof(head));
		if (netlink_dump(&nl, &m, find_lo, &found, &e) < 0 && e.sys != EAGAIN)
			return 2;
	}
	return found ? 0 : 3;
}

static void signals_do_not_disturb(void **state)
{
	(void)state;
	assert_int_equal(in_child(list_while_interrupted, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attributes_are_aligned_nested_and_found_again),
		cmocka_unit_test(attributes_that_are_cut_short_are_not_found),
		cmocka_unit_test(a_message_that_is_too_large_or_unbalanced_fails_when_it_is_sent),
		cmocka_unit_test(acknowledgements_count_and_foreign_numbers_do_not),
		cmocka_unit_test(a_refusal_has_the_words_of_the_kernel),
		cmocka_unit_test(a_dump_ends_fails_or_was_interrupted),
		cmocka_unit_test(messages_that_are_cut_short_are_errors),
		cmocka_unit_test(links_are_listed_and_an_error_of_one_request_does_not_reach_the_next),
		cmocka_unit_test(signals_do_not_disturb),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
