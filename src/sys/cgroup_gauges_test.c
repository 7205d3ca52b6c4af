// SPDX-License-Identifier: Apache-2.0
#include "sys/cgroup_gauges.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/banned.h"

#define ALL (CGROUP_HAS_MEMORY | CGROUP_HAS_MEMORY_LIMIT | CGROUP_HAS_CPU | CGROUP_HAS_CPU_LIMIT)

static void texts_of_both_versions_are_read(void **state)
{
	static const struct {
		const char *texts[CGROUP_GAUGES];
		struct cgroup_usage want;
	} cases[] = {
		{ { "1000000\n", "536870912\n", "anon 5\nfile 7\ninactive_file 400000\nactive_file 1\n",
		    "usage_usec 1234\nuser_usec 1\n", "150000 100000\n", "150000 100000\n" },
		  { ALL, 600000, 536870912, 1234, 1500 } },
		{ { "1000000\n", "536870912\n", "cache 9\ninactive_file 1\ntotal_cache 9\ntotal_inactive_file 300000\n", "5000000\n",
		    "50000\n", "100000\n" },
		  { ALL, 700000, 536870912, 5000, 500 } },
		{ { "7\n", "max\n", "", "usage_usec 0\n", "max 100000\n", "max 100000\n" },
		  { CGROUP_HAS_MEMORY | CGROUP_HAS_CPU, 7, 0, 0, 0 } },
		{ { "7\n", "9223372036854771712\n", "total_inactive_file 8\n", "1\n", "-1\n", "100000\n" },
		  { CGROUP_HAS_MEMORY | CGROUP_HAS_CPU, 0, 0, 0, 0 } },
		{ { "", "", "", "", "", "" }, { 0 } },
		{ { "x", "-1", "inactive_file x", "usage_usec", "0 100000", "" }, { 0 } },
		{ { "", "", "", "", "100000 0", "" }, { 0 } },
		{ { "", "", "", "", "1 100000", "" }, { CGROUP_HAS_CPU_LIMIT, 0, 0, 0, 1 } },
		{ { "", "", "", "", "4294967295 1", "" }, { CGROUP_HAS_CPU_LIMIT, 0, 0, 0, UINT64_C(4294967295000) } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str texts[CGROUP_GAUGES];
		struct cgroup_usage got;

		for (int k = 0; k < CGROUP_GAUGES; k++)
			texts[k] = str_of(cases[i].texts[k]);
		cgroup_gauges_parse(texts, &got);
		assert_int_equal(got.has, cases[i].want.has);
		assert_int_equal(got.memory_bytes, cases[i].want.memory_bytes);
		assert_int_equal(got.memory_limit_bytes, cases[i].want.memory_limit_bytes);
		assert_int_equal(got.cpu_us, cases[i].want.cpu_us);
		assert_int_equal(got.cpu_limit_milli, cases[i].want.cpu_limit_milli);
	}
}

static void nothing_open_is_nothing_known(void **state)
{
	struct cgroup_gauges g = CGROUP_GAUGES_INIT;
	struct cgroup_usage u;

	(void)state;
	cgroup_gauges_read(&g, &u);
	assert_int_equal(u.has, 0);
	cgroup_gauges_done(&g);
}

/* Whatever this host has, it does not fail, and time does not run backwards. */
static void our_own_group_is_looked_for(void **state)
{
	AUTO(cgroup_gauges_done) struct cgroup_gauges g = CGROUP_GAUGES_INIT;
	struct cgroup_usage before, after;

	(void)state;
	cgroup_gauges_open_own(&g);
	cgroup_gauges_read(&g, &before);
	for (volatile unsigned i = 0; i < 10000000; i++)
		;
	cgroup_gauges_read(&g, &after);
	assert_int_equal(before.has, after.has);
	if (!(before.has & CGROUP_HAS_CPU))
		skip();
	assert_true(after.cpu_us > before.cpu_us);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_of_both_versions_are_read),
		cmocka_unit_test(nothing_open_is_nothing_known),
		cmocka_unit_test(our_own_group_is_looked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
