// SPDX-License-Identifier: Apache-2.0
/* Fails the n-th allocation, for every n, of what egress makes out of a peer's bytes: each failure must be an error or an answer that
 * is not kept, never a crash, a leak or a wrong result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "access/policy.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "egress/activity.h"
#include "egress/cache.h"
#include "egress/learned.h"
#include "net/dns.h"

#include "failing_alloc.h"

#include "base/banned.h"

/* Runs SCENARIO (true: it got its whole, right result) with the 1st, 2nd, ... allocation failing, until none does. */
static void fail_each(const char *name, bool (*scenario)(void))
{
	for (long n = 0;; n++) {
		bool ok;

		countdown = n;
		has_failed = false;
		ok = scenario();
		countdown = -1;
		if (!has_failed) {
			if (!ok || n == 0)
				fail_msg("%s: without a failure, too, or it allocates nothing", name);
			return;
		}
		if (ok)
			fail_msg("%s: allocation %ld failed and nothing was said", name, n);
	}
}

static bool change_policy(void)
{
	static const char text[] = "{\"egress\":[{\"action\":\"allow\",\"target\":\"a.test\"},{\"action\":\"deny\",\"target\":\"192.0.2.0/24\"}]}";
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	AUTO(policy_free) struct policy *p = NULL;
	AUTO(policy_free) struct policy *q = NULL;
	AUTO(policy_free) struct policy *r = NULL;
	const struct json *patch, *targets;
	struct err e = { 0 };
	size_t removed = 0;

	p = policy_parse(STR(text), 0, &e);
	patch = p ? json_parse(&a, STR("[{\"action\":\"allow\",\"target\":\"b.test\"}]"), NULL, NULL, &e) : NULL;
	q = patch ? policy_patch(p, patch, 0, &e) : NULL;
	targets = q ? json_parse(&a, STR("[\"a.test\"]"), NULL, NULL, &e) : NULL;
	r = targets ? policy_without(q, targets, &removed, &e) : NULL;
	assert_true(r || e.code == ERR_UNAVAILABLE || e.code == ERR_LIMIT);
	return r && r->n == 2 && removed == 1;
}

static bool read_lines(void)
{
	struct err e = { 0 };
	AUTO(policy_free) struct policy *p = policy_from_lines(STR("a.test\n192.0.2.0/24\n"), POLICY_DENY, 0, &e);

	return p && p->n == 2;
}

static const char message[] = "\0\7\x81\x80\0\1\0\2\0\0\0\0\1a\4test\0\0\1\0\1\xc0\x0c\0\5\0\1\0\0\0\x3c\0\4\1b\xc0\x0e"
			      "\xc0\x24\0\1\0\1\0\0\0\x0a\0\4\xc0\0\2\1";

static bool answer_query(void)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(64 * 1024);
	AUTO(buf_done) struct buf b = BUF_INIT(DNS_MESSAGE_MAX);
	struct dns_query q = { .id = 7, .type = DNS_A, .has_name = true, .name = "a.test", .question = { message + 12, 12 } };
	struct dns_answer got;
	struct err e = { 0 };

	if (dns_answer_parse((struct str){ message, sizeof(message) - 1 }, 7, "a.test", DNS_A, &a, &got, &e) < 0)
		return false;
	dns_reply_write(&q, got.rcode, got.records, got.n, DNS_PLAIN_MAX, &b);
	return !b.failed && got.n == 2 && b.p[7] == 2;
}

static bool keep_answer(void)
{
	const struct dns_answer a = { .n = 1, .records = { { .owner = "a.test", .type = DNS_A, .ttl = 9, .rdata = { "\1\2\3\4", 4 } } } };
	struct err e = { 0 };
	struct cache *c = cache_new(&e);
	struct cached got;
	bool ok = false;

	if (c) {
		cache_put(c, 1, "a.test", DNS_A, &a, 0);
		cache_put(c, 1, "b.test", DNS_A, &a, 0);
		ok = cache_get(c, 1, "a.test", DNS_A, 0, &got) && cache_get(c, 1, "b.test", DNS_A, 0, &got);
		cache_drop(c, 1);
	}
	cache_free(c);
	return ok;
}

static bool remember(void)
{
	struct learned l = { .pairs = MAP_INIT };
	struct activity a = { .rows = MAP_INIT };
	struct err e = { 0 };
	bool ok = learned_put(&l, "a.test", 1, 0, &e) && learned_put(&l, "b.test", 1, 0, &e);

	ok &= activity_add(&a, &(struct activity_event){ .target = "a.test" });
	ok &= activity_add(&a, &(struct activity_event){ .target = "b.test" });
	learned_done(&l);
	activity_done(&a);
	return ok;
}

static void no_allocation_is_missed(void **state)
{
	(void)state;
	failing_alloc_here();
	fail_each("policy", change_policy);
	fail_each("lines", read_lines);
	fail_each("answer", answer_query);
	fail_each("cache", keep_answer);
	fail_each("memory", remember);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(no_allocation_is_missed) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
