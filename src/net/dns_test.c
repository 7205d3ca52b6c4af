// SPDX-License-Identifier: Apache-2.0
#include "net/dns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

#define WIRE(lit) ((struct str){ (lit), sizeof(lit) - 1 })

static void a_query_gives_its_name_in_one_form(void **state)
{
	struct dns_query q;
	struct str in = WIRE("\x12\x34\x01\x10\0\1\0\0\0\0\0\1" "\3wWw\6a-b_c1\4TEST\0\0\x1c\0\1" "\0\0\x29\x10\0\0\0\0\0\0\0");

	(void)state;
	assert_int_equal(dns_query_parse(in, &q), DNS_NOERROR);
	assert_int_equal(q.id, 0x1234);
	assert_int_equal(q.type, DNS_AAAA);
	assert_true(q.has_name && q.wants_recursion && q.checking_disabled && q.has_edns);
	assert_int_equal(q.udp_max, DNS_UDP_MAX);
	assert_string_equal(q.name, "www.a-b_c1.test");
	assert_int_equal(q.question.n, 21);
}

static void broken_queries_get_their_rcode(void **state)
{
	static const struct {
		struct str in;
		int want;
	} cases[] = {
		{ { "", 0 }, -1 },
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0"), -1 },
		{ WIRE("\0\1\x81\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1"), -1 },                         /* an answer */
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1"), DNS_NOERROR },
		{ WIRE("\0\1\x29\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1"), DNS_NOTIMP },                 /* an update */
		{ WIRE("\0\1\1\0\0\0\0\0\0\0\0\0"), DNS_FORMERR },
		{ WIRE("\0\1\1\0\0\2\0\0\0\0\0\0\1a\0\0\1\0\1\1b\0\0\1\0\1"), DNS_FORMERR },
		{ WIRE("\0\1\1\0\0\1\0\1\0\0\0\0\1a\0\0\1\0\1"), DNS_FORMERR },
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0\3\1a\0\0\1\0\1"), DNS_FORMERR },
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1x"), DNS_FORMERR },                 /* bytes behind it */
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0\0\1a\0\0\1\0"), DNS_FORMERR },
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0\0\1a"), DNS_FORMERR },
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0\0\x40" "a\0\0\1\0\1"), DNS_FORMERR },              /* no length of a label */
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0\0\xc0\x0c\0\1\0\1"), DNS_FORMERR },               /* itself */
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\3"), DNS_REFUSED },                  /* CHAOS */
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0\1\1a\0\0\1\0\1\0\0\x29\2\0\0\1\0\0\0\0"), DNS_BADVERS },
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0\2\1a\0\0\1\0\1\0\0\x29\2\0\0\0\0\0\0\0\0\0\x29\2\0\0\0\0\0\0\0"), DNS_FORMERR },
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0\1\1a\0\0\1\0\1\1b\0\0\x29\2\0\0\0\0\0\0\0"), DNS_FORMERR }, /* OPT of a name */
		{ WIRE("\0\1\1\0\0\1\0\0\0\0\0\1\1a\0\0\1\0\1\0\0\x29\2\0\0\0\0\0\0\4"), DNS_FORMERR },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct dns_query q;
		int got = dns_query_parse(cases[i].in, &q);

		if (got != cases[i].want)
			fail_msg("case %zu: %d, not %d", i, got, cases[i].want);
	}
}

static void names_that_no_host_has_are_told_apart(void **state)
{
	static const struct str cases[] = {
		WIRE("\0\1\1\0\0\1\0\0\0\0\0\0\0\0\1\0\1"),              /* the root */
		WIRE("\0\1\1\0\0\1\0\0\0\0\0\0\3a b\4test\0\0\1\0\1"),
		WIRE("\0\1\1\0\0\1\0\0\0\0\0\0\3a.b\4test\0\0\1\0\1"),   /* a dot inside a label */
		WIRE("\0\1\1\0\0\1\0\0\0\0\0\0\2\xc3\xbc\4test\0\0\1\0\1"),
		WIRE("\0\1\1\0\0\1\0\0\0\0\0\0\2a\0\4test\0\0\1\0\1"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct dns_query q;

		assert_int_equal(dns_query_parse(cases[i], &q), DNS_NOERROR);
		assert_false(q.has_name);
	}
}

static void names_have_at_most_255_bytes(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1024);
	struct dns_query q;

	(void)state;
	buf_add(&b, "\0\1\1\0\0\1\0\0\0\0\0\0", 12);
	for (int i = 0; i < 3; i++)
		buf_addf(&b, "%c%063d", 63, 0);
	buf_addf(&b, "%c%061d", 61, 0);
	buf_add(&b, "\0\0\1\0\1", 5);
	assert_int_equal(dns_query_parse(buf_str(&b), &q), DNS_NOERROR);
	assert_int_equal(strlen(q.name), HOST_NAME_LEN_MAX);
	buf_clear(&b);
	buf_add(&b, "\0\1\1\0\0\1\0\0\0\0\0\0", 12);
	for (int i = 0; i < 3; i++)
		buf_addf(&b, "%c%063d", 63, 0);
	buf_addf(&b, "%c%062d", 62, 0);
	buf_add(&b, "\0\0\1\0\1", 5);
	assert_int_equal(dns_query_parse(buf_str(&b), &q), DNS_FORMERR);
}

static void queries_are_written_anew(void **state)
{
	static const char want[] = "\xab\xcd\1\0\0\1\0\0\0\0\0\1" "\3www\1a\4test\0\0\1\0\1" "\0\0\x29\4\xd0\0\0\0\0\0\0";
	unsigned char out[DNS_QUESTION_MAX];
	struct dns_query q;
	size_t n = dns_query_write(0xabcd, "www.a.test", DNS_A, out);

	(void)state;
	assert_int_equal(n, sizeof(want) - 1);
	assert_memory_equal(out, want, n);
	assert_int_equal(dns_query_parse((struct str){ (char *)out, n }, &q), DNS_NOERROR);
}

/* Question a.test A at 12, records behind it. */
#define QUESTION "\1a\4test\0\0\1\0\1"
#define ANSWER(an, ns) "\0\7\x81\x80\0\1\0" an "\0" ns "\0\0" QUESTION

static int parse(struct str in, struct arena *a, struct dns_answer *ret, struct err *e)
{
	return dns_answer_parse(in, 7, "a.test", DNS_A, a, ret, e);
}

static void answers_are_read_along_their_chain(void **state)
{
	/* a.test CNAME b.test (target by pointer into the question), b.test A, c.test A */
	struct str in = WIRE(ANSWER("\3", "\0") "\xc0\x0c\0\5\0\1\0\0\0\x3c\0\4\1b\xc0\x0e"
			     "\xc0\x24\0\1\0\1\0\0\0\x0a\0\4\xc0\0\2\1" "\1c\xc0\x0e\0\1\0\1\xff\0\0\0\0\4\xc0\0\2\2");
	AUTO(arena_done) struct arena a = ARENA_INIT(64 * 1024);
	struct err e = { 0 };
	struct dns_answer got;

	(void)state;
	assert_int_equal(parse(in, &a, &got, &e), 0);
	assert_int_equal(got.n, 3);
	assert_string_equal(got.records[0].owner, "a.test");
	assert_string_equal(got.records[0].target, "b.test");
	assert_memory_equal(got.records[0].rdata.p, "\1b\4test", 8);
	assert_string_equal(got.records[1].owner, "b.test");
	assert_int_equal(got.records[1].ttl, 10);
	assert_int_equal(got.records[2].ttl, 0); /* beyond 2^31 */
	assert_string_equal(dns_chain(&got, "a.test", NULL, NULL), "b.test");
	assert_string_equal(dns_chain(&got, "c.test", NULL, NULL), "c.test");
}

static bool not_b(const char *name, void *arg)
{
	(*(int *)arg)++;
	return strcmp(name, "b.test") != 0;
}

static void chains_end_at_what_is_refused_and_in_circles(void **state)
{
	struct dns_answer got = { .n = 2, .records = {
		{ .owner = "a.test", .type = DNS_CNAME, .target = "b.test" },
		{ .owner = "b.test", .type = DNS_CNAME, .target = "a.test" } } };
	int seen = 0;

	(void)state;
	assert_null(dns_chain(&got, "a.test", NULL, NULL));
	assert_null(dns_chain(&got, "a.test", not_b, &seen));
	assert_int_equal(seen, 2);
	got.records[1].target = NULL; /* a name that no host has */
	assert_null(dns_chain(&got, "a.test", NULL, NULL));
}

static void foreign_and_broken_answers_are_refused(void **state)
{
	static const struct str cases[] = {
		WIRE(""),
		WIRE("\0\x08\x81\x80\0\1\0\0\0\0\0\0" QUESTION),                 /* another id */
		WIRE("\0\7\1\x80\0\1\0\0\0\0\0\0" QUESTION),                     /* a query */
		WIRE("\0\7\x81\x80\0\0\0\0\0\0\0\0"),                            /* no question */
		WIRE("\0\7\x81\x80\0\1\0\0\0\0\0\0" "\1b\4test\0\0\1\0\1"),      /* another name */
		WIRE("\0\7\x81\x80\0\1\0\0\0\0\0\0" "\1a\4test\0\0\x1c\0\1"),    /* another type */
		WIRE("\0\7\x81\x80\0\1\0\0\0\0\0\0" "\1a\4test\0\0\1\0\3"),      /* another class */
		WIRE(ANSWER("\1", "\0")),                                        /* no record */
		WIRE(ANSWER("\1", "\0") "\xc0\x18\0\1\0\1\0\0\0\1\0\4\1\2\3\4"), /* a pointer to itself */
		WIRE(ANSWER("\1", "\0") "\xc0\xff\0\1\0\1\0\0\0\1\0\4\1\2\3\4"), /* a pointer beyond */
		WIRE(ANSWER("\1", "\0") "\xc0\x02\0\1\0\1\0\0\0\1\0\4\1\2\3\4"), /* a pointer into the header */
		WIRE(ANSWER("\1", "\0") "\xc0\x0c\0\1\0\1\0\0\0\1\0\3\1\2\3"),   /* an address of three bytes */
		WIRE(ANSWER("\1", "\0") "\xc0\x0c\0\1\0\1\0\0\0\1\0\5\1\2\3\4"), /* data beyond the end */
		WIRE(ANSWER("\1", "\0") "\xc0\x0c\0\5\0\1\0\0\0\1\0\1\1b\xc0\x0c"), /* a name beyond its data */
		WIRE(ANSWER("\1", "\0") "\xc0\x0c\0\x0f\0\1\0\0\0\1\0\1\1"),     /* an MX without room for its number */
		WIRE("\0\7\x81\x80\0\1\xff\xff\0\0\0\0" QUESTION),               /* 65,535 records */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(64 * 1024);
		struct err e = { 0 };
		struct dns_answer got;

		if (parse(cases[i], &a, &got, &e) == 0)
			fail_msg("case %zu was taken", i);
		assert_true(e.code == ERR_INVALID || e.code == ERR_LIMIT);
	}
}

static void the_soa_says_how_long_nothing_is_there(void **state)
{
	struct str in = WIRE("\0\7\x81\x83\0\1\0\0\0\1\0\0" QUESTION "\xc0\x0e\0\6\0\1\0\0\1\0\0\x18" "\xc0\x0e\xc0\x0e"
			     "\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\x1e");
	AUTO(arena_done) struct arena a = ARENA_INIT(64 * 1024);
	struct err e = { 0 };
	struct dns_answer got;

	(void)state;
	assert_int_equal(parse(in, &a, &got, &e), 0);
	assert_int_equal(got.rcode, DNS_NXDOMAIN);
	assert_int_equal(got.n, 0);
	assert_int_equal(got.negative_ttl, 30);
}

static void truncated_answers_have_no_records(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(64 * 1024);
	struct err e = { 0 };
	struct dns_answer got;

	(void)state;
	assert_int_equal(parse(WIRE("\0\7\x83\x80\0\1\0\1\0\0\0\0" QUESTION "\xc0\x0c\0\1"), &a, &got, &e), 0);
	assert_true(got.is_truncated);
	assert_int_equal(got.n, 0);
}

static void names_in_data_are_written_out(void **state)
{
	/* MX 10 m.test, with a pointer; SRV with one, too, although there must be none */
	struct str in = WIRE(ANSWER("\2", "\0") "\xc0\x0c\0\x0f\0\1\0\0\0\1\0\6\0\x0a\1m\xc0\x0e"
			     "\xc0\x0c\0\x21\0\1\0\0\0\1\0\x0a\0\1\0\2\0\3\1s\xc0\x0e");
	AUTO(arena_done) struct arena a = ARENA_INIT(64 * 1024);
	struct err e = { 0 };
	struct dns_answer got;

	(void)state;
	assert_int_equal(parse(in, &a, &got, &e), 0);
	assert_int_equal(got.records[0].rdata.n, 10);
	assert_memory_equal(got.records[0].rdata.p, "\0\x0a\1m\4test\0", 10);
	assert_int_equal(got.records[1].rdata.n, 14);
	assert_memory_equal(got.records[1].rdata.p, "\0\1\0\2\0\3\1s\4test\0", 14);
}

static void an_answer_that_is_too_large_is_refused(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(65535);
	AUTO(arena_done) struct arena a = ARENA_INIT(256 * 1024);
	AUTO(arena_done) struct arena small = ARENA_INIT(1024);
	struct err e = { 0 };
	struct dns_answer got;

	(void)state;
	buf_add(&b, "\0\7\x81\x80\0\1\0\x81\0\0\0\0" QUESTION, 12 + sizeof(QUESTION) - 1);
	for (int i = 0; i < 129; i++)
		buf_add(&b, "\xc0\x0c\0\1\0\1\0\0\0\1\0\4\1\2\3\4", 16);
	assert_int_equal(parse(buf_str(&b), &a, &got, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	b.p[7] = (char)128;
	assert_int_equal(parse(buf_str(&b), &a, &got, &e), 0);
	assert_int_equal(got.n, DNS_RECORDS_MAX);
	assert_int_equal(parse(buf_str(&b), &small, &got, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
}

static void replies_repeat_the_question_and_fit(void **state)
{
	struct str in = WIRE("\x12\x34\x01\0\0\1\0\0\0\0\0\0" "\1A\4TeSt\0\0\1\0\1");
	struct dns_record records[40];
	AUTO(buf_done) struct buf b = BUF_INIT(DNS_MESSAGE_MAX);
	static const char want[] = "\x12\x34\x81\x80\0\1\0\2\0\0\0\0" "\1A\4TeSt\0\0\1\0\1"
				   "\xc0\x0c\0\5\0\1\0\0\0\x3c\0\x08\1b\4test\0" "\1b\4test\0\0\1\0\1\0\0\0\x0a\0\4\xc0\0\2\1";
	struct dns_query q;

	(void)state;
	assert_int_equal(dns_query_parse(in, &q), DNS_NOERROR);
	for (size_t i = 0; i < ARRAY_LEN(records); i++)
		records[i] = (struct dns_record){ .owner = "b.test", .type = DNS_A, .ttl = 10, .rdata = WIRE("\xc0\0\2\1") };
	records[0] = (struct dns_record){ .owner = "a.test", .type = DNS_CNAME, .ttl = 60, .rdata = WIRE("\1b\4test\0") };
	dns_reply_write(&q, DNS_NOERROR, records, 2, DNS_PLAIN_MAX, &b);
	assert_int_equal(b.n, sizeof(want) - 1);
	assert_memory_equal(b.p, want, b.n);
	buf_clear(&b);
	dns_reply_write(&q, DNS_NOERROR, records, 40, DNS_PLAIN_MAX, &b);
	assert_int_equal(b.n, 12 + 12);
	assert_int_equal((unsigned char)b.p[2], 0x83); /* TC */
	assert_int_equal(b.p[7], 0);
	buf_clear(&b);
	dns_reply_write(&q, DNS_NOERROR, records, 40, DNS_MESSAGE_MAX, &b);
	assert_int_equal((unsigned char)b.p[2], 0x81);
	assert_int_equal(b.p[7], 40);
}

static void replies_have_edns_when_the_query_had(void **state)
{
	struct str in = WIRE("\0\1\1\0\0\1\0\0\0\0\0\1\1a\0\0\1\0\1\0\0\x29\2\0\0\1\0\0\0\0");
	AUTO(buf_done) struct buf b = BUF_INIT(DNS_MESSAGE_MAX);
	struct dns_query q;
	int rcode = dns_query_parse(in, &q);

	(void)state;
	assert_int_equal(rcode, DNS_BADVERS);
	dns_reply_write(&q, (unsigned)rcode, NULL, 0, DNS_PLAIN_MAX, &b);
	assert_int_equal(b.n, 12 + 7 + 11);
	assert_int_equal(b.p[11], 1);
	assert_memory_equal(b.p + 19, "\0\0\x29\4\xd0\1\0\0\0\0\0", 11);
	assert_int_equal(b.p[3] & 15, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_query_gives_its_name_in_one_form),
		cmocka_unit_test(broken_queries_get_their_rcode),
		cmocka_unit_test(names_that_no_host_has_are_told_apart),
		cmocka_unit_test(names_have_at_most_255_bytes),
		cmocka_unit_test(queries_are_written_anew),
		cmocka_unit_test(answers_are_read_along_their_chain),
		cmocka_unit_test(chains_end_at_what_is_refused_and_in_circles),
		cmocka_unit_test(foreign_and_broken_answers_are_refused),
		cmocka_unit_test(the_soa_says_how_long_nothing_is_there),
		cmocka_unit_test(truncated_answers_have_no_records),
		cmocka_unit_test(names_in_data_are_written_out),
		cmocka_unit_test(an_answer_that_is_too_large_is_refused),
		cmocka_unit_test(replies_repeat_the_question_and_fit),
		cmocka_unit_test(replies_have_edns_when_the_query_had),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
