// SPDX-License-Identifier: Apache-2.0
#include "execd/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

#include "base/banned.h"

static void use_of_the_processor_is_a_share_of_what_is_allowed(void **state)
{
	static const struct {
		uint64_t span_us, busy_us, capacity_milli;
		int want; /* hundredths of a percent */
	} cases[] = {
		{ 1000000, 0, 1000, 0 },
		{ 1000000, 500000, 1000, 5000 },
		{ 1000000, 500000, 500, 10000 },
		{ 1000000, 500000, 4000, 1250 },
		{ 1000000, 9000000, 1000, 10000 }, /* more than there is: two clocks */
		{ 0, 500000, 1000, 0 },
		{ 1000000, 1, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct metrics_look before = { .at_us = 7, .busy_us = 11 };
		struct metrics_look now = { .at_us = 7 + cases[i].span_us, .busy_us = 11 + cases[i].busy_us,
					    .capacity_milli = cases[i].capacity_milli };

		assert_int_equal((int)(metrics_cpu_pct(&before, &now) * 100), cases[i].want);
	}
}

static void a_counter_that_goes_back_is_no_use(void **state)
{
	struct metrics_look before = { .at_us = 0, .busy_us = 100 }, now = { .at_us = 10, .busy_us = 50, .capacity_milli = 1000 };

	(void)state;
	assert_true(metrics_cpu_pct(&before, &now) == 0);
}

static void both_sets_of_names_are_written(void **state)
{
	static const char want[] = "{\"cpu_count\":2,\"cpu_used_pct\":12.5,\"mem_total_mib\":512.0,\"mem_used_mib\":1.5,"
				   "\"cpu_used_percentage\":12.5,\"memory_total_in_mib\":512.0,\"memory_used_in_mib\":1.5,"
				   "\"timestamp\":";
	struct metrics_look l = { .cpu_count = 2, .memory_bytes = 3 << 19, .memory_total_bytes = 512 << 20 };
	AUTO(buf_done) struct buf b = BUF_INIT(512);

	(void)state;
	metrics_write(&l, 12.5, &b);
	assert_int_equal(strncmp(b.p, want, strlen(want)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(use_of_the_processor_is_a_share_of_what_is_allowed),
		cmocka_unit_test(a_counter_that_goes_back_is_no_use),
		cmocka_unit_test(both_sets_of_names_are_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
