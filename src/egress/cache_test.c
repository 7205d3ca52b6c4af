// SPDX-License-Identifier: Apache-2.0
#include "egress/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/err.h"

#include "base/banned.h"

static struct cache *fresh(void)
{
	struct err e = { 0 };
	struct cache *c = cache_new(&e);

	assert_non_null(c);
	return c;
}

static struct dns_answer one(uint32_t ttl)
{
	return (struct dns_answer){ .n = 1, .records = { { .owner = "a.test", .type = DNS_A, .ttl = ttl, .rdata = { "\1\2\3\4", 4 } } } };
}

static void answers_last_as_long_as_they_say(void **state)
{
	const struct dns_answer a = one(10), never = one(0);
	struct cache *c = fresh();
	struct cached got;

	(void)state;
	cache_put(c, 7, "a.test", DNS_A, &a, 1000);
	assert_true(cache_get(c, 7, "a.test", DNS_A, 10999, &got));
	assert_int_equal(got.age_s, 9);
	assert_int_equal(got.n, 1);
	assert_memory_equal(got.records[0].rdata.p, "\1\2\3\4", 4);
	assert_ptr_not_equal(got.records[0].owner, a.records[0].owner);
	assert_false(cache_get(c, 7, "a.test", DNS_A, 11000, &got));
	cache_put(c, 7, "b.test", DNS_A, &never, 1000);
	assert_false(cache_get(c, 7, "b.test", DNS_A, 1000, &got));
	cache_free(c);
}

/* G3: what one sandbox has asked for shows nowhere to another. */
static void each_sandbox_has_its_own(void **state)
{
	const struct dns_answer a = one(10);
	struct cache *c = fresh();
	struct cached got;

	(void)state;
	cache_put(c, 7, "a.test", DNS_A, &a, 0);
	assert_false(cache_get(c, 8, "a.test", DNS_A, 0, &got));
	assert_false(cache_get(c, 7, "a.test", DNS_TXT, 0, &got));
	cache_put(c, 8, "a.test", DNS_A, &a, 0);
	cache_drop(c, 7);
	assert_false(cache_get(c, 7, "a.test", DNS_A, 0, &got));
	assert_true(cache_get(c, 8, "a.test", DNS_A, 0, &got));
	cache_free(c);
}

static void what_is_not_there_is_kept_within_bounds(void **state)
{
	struct dns_answer a = { .rcode = DNS_NXDOMAIN };
	struct cache *c = fresh();
	struct cached got;

	(void)state;
	cache_put(c, 7, "a.test", DNS_A, &a, 0);
	assert_true(cache_get(c, 7, "a.test", DNS_A, CACHE_NEGATIVE_S * 1000 - 1, &got));
	assert_int_equal(got.rcode, DNS_NXDOMAIN);
	assert_false(cache_get(c, 7, "a.test", DNS_A, CACHE_NEGATIVE_S * 1000, &got));
	a.negative_ttl = 86400;
	cache_put(c, 7, "a.test", DNS_A, &a, 0);
	assert_true(cache_get(c, 7, "a.test", DNS_A, CACHE_NEGATIVE_MAX_S * 1000 - 1, &got));
	assert_false(cache_get(c, 7, "a.test", DNS_A, CACHE_NEGATIVE_MAX_S * 1000, &got));
	cache_free(c);
}

static void one_sandbox_and_all_together_have_a_ceiling(void **state)
{
	const struct dns_answer a = one(100);
	struct cache *c = fresh();
	struct cached got;
	char name[32];

	(void)state;
	for (unsigned i = 0; i <= CACHE_OWN_MAX; i++) {
		(void)snprintf(name, sizeof(name), "n%u.test", i);
		cache_put(c, 7, name, DNS_A, &a, 0);
	}
	assert_false(cache_get(c, 7, name, DNS_A, 0, &got)); /* one too many */
	assert_true(cache_get(c, 7, "n0.test", DNS_A, 0, &got));
	for (unsigned s = 100; s < 100 + CACHE_ANSWERS_MAX / 256; s++)
		for (unsigned i = 0; i < 256; i++) {
			(void)snprintf(name, sizeof(name), "n%u.test", i);
			cache_put(c, s, name, DNS_A, &a, 0);
		}
	assert_false(cache_get(c, 7, "n0.test", DNS_A, 0, &got)); /* the one that was used the longest time ago */
	assert_true(cache_get(c, 100, "n0.test", DNS_A, 0, &got));
	cache_free(c);
}

static void an_answer_that_is_too_large_is_not_kept(void **state)
{
	static char text[CACHE_BYTES_MAX];
	const struct dns_answer a = { .n = 1, .records = { { .owner = "a.test", .type = DNS_TXT, .ttl = 9, .rdata = { text, sizeof(text) } } } };
	struct cache *c = fresh();
	struct cached got;

	(void)state;
	cache_put(c, 7, "a.test", DNS_TXT, &a, 0);
	assert_false(cache_get(c, 7, "a.test", DNS_TXT, 0, &got));
	cache_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_last_as_long_as_they_say),
		cmocka_unit_test(each_sandbox_has_its_own),
		cmocka_unit_test(what_is_not_there_is_kept_within_bounds),
		cmocka_unit_test(one_sandbox_and_all_together_have_a_ceiling),
		cmocka_unit_test(an_answer_that_is_too_large_is_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
