// SPDX-License-Identifier: Apache-2.0
#include "warden/cpu_throttle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

/* True when it has changed. */
static bool judge_look(struct cpu_throttle *h, const struct cpu_sample *l)
{
	bool was_low_priority = h->is_low_priority;

	cpu_throttle_judge(h, l);
	return h->is_low_priority != was_low_priority;
}

/* By processes that go on. */
static bool judge(struct cpu_throttle *h, uint64_t used_us, uint64_t now_ms)
{
	return judge_look(h, &(struct cpu_sample){ .now_ms = now_ms, .used_us = used_us });
}

/* Looks of CPU_SAMPLE_MS, in each of which it used so many thousandths of a CPU. */
static void judge_all(struct cpu_throttle *h, const unsigned *milli, size_t n, const bool *changed)
{
	uint64_t used_us = 7, now_ms = 1000;

	(void)judge(h, used_us, now_ms);
	for (size_t i = 0; i < n; i++) {
		used_us += (uint64_t)milli[i] * CPU_SAMPLE_MS;
		now_ms += CPU_SAMPLE_MS;
		assert_int_equal(judge(h, used_us, now_ms), changed[i]);
	}
}

static void a_busy_box_has_low_priority_until_it_is_calm(void **state)
{
	static const unsigned milli[] = { 0, 899, 900, 2000, 499, 499, 499, 500, 0, 0, 0, 0, 899 };
	static const bool changed[] = { false, false, true, false, false, false, false, false, false, false,
					false, true, false };
	struct cpu_throttle h = { 0 };

	(void)state;
	judge_all(&h, milli, ARRAY_LEN(milli), changed);
	assert_false(h.is_low_priority);
}

static void the_first_look_and_a_long_pause_say_nothing(void **state)
{
	struct cpu_throttle h = { 0 };

	(void)state;
	assert_false(judge(&h, UINT64_C(3600000000), 1000)); /* an hour, since when? */
	assert_false(judge(&h, UINT64_C(3600200000), 61000));
	assert_false(judge(&h, UINT64_C(3600200000), 61000)); /* no time has passed */
	assert_false(judge(&h, UINT64_C(5), 61250)); /* less than before: another count */
	assert_true(judge(&h, UINT64_C(225005), 61500));
}

static void an_adopted_box_gets_normal_priority_back(void **state)
{
	struct cpu_throttle h = { .is_low_priority = true };

	(void)state;
	for (unsigned i = 0; i < CPU_CALM_SAMPLES; i++)
		assert_false(judge(&h, 1000, 1000 + (uint64_t)i * CPU_SAMPLE_MS));
	assert_true(judge(&h, 1000, 1000 + (uint64_t)CPU_CALM_SAMPLES * CPU_SAMPLE_MS));
	assert_false(h.is_low_priority);
}

/* A look that finds so much used, waited for, and used by those that have ended, in thousandths of a
 * CPU. */
static bool look(struct cpu_throttle *h, struct cpu_sample *l, unsigned used, unsigned waited, unsigned ended)
{
	l->now_ms += CPU_SAMPLE_MS;
	l->used_us += (uint64_t)used * CPU_SAMPLE_MS;
	l->waited_us += (uint64_t)waited * CPU_SAMPLE_MS;
	l->ended_us += (uint64_t)ended * CPU_SAMPLE_MS;
	return judge_look(h, l);
}

#define BUSY_LOOKS (CPU_BUSY_MS / CPU_SAMPLE_MS)

static void short_commands_one_after_the_other_are_not_throttled_at_once(void **state)
{
	struct cpu_sample l = { .now_ms = 1000 };
	struct cpu_throttle h = { 0 };

	(void)state;
	cpu_throttle_judge(&h, &l);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 1; i < BUSY_LOOKS; i++)
			assert_false(look(&h, &l, 850, 400, 700));
		for (unsigned i = 0; i < BUSY_LOOKS / CPU_CALM_FACTOR; i++)
			assert_false(look(&h, &l, 300, 100, 300));
	}
	for (unsigned i = 1; i < BUSY_LOOKS; i++) {
		assert_false(look(&h, &l, 850, 50, 425));
		assert_false(look(&h, &l, 850, 49, 425)); /* that is no rest */
	}
	assert_true(look(&h, &l, 850, 50, 850));
	for (unsigned i = 0; i < 2 * BUSY_LOOKS; i++)
		assert_false(look(&h, &l, 850, 400, 850)); /* nor does it come back before it was calm */
}

static void one_that_goes_on_is_throttled_whatever_has_ended_before(void **state)
{
	struct cpu_sample l = { .now_ms = 1000 };
	struct cpu_throttle h = { 0 };

	(void)state;
	cpu_throttle_judge(&h, &l);
	assert_false(look(&h, &l, 900, 0, 900));
	assert_true(look(&h, &l, 900, 0, 449));
}

/* One that gets a tenth of a CPU and wants the rest: in a look nothing may have ended. */
static void little_says_nothing_until_there_is_more_of_it(void **state)
{
	struct cpu_sample l = { .now_ms = 1000 };
	struct cpu_throttle busy = { 0 }, steady = { 0 };

	(void)state;
	cpu_throttle_judge(&busy, &l);
	for (unsigned i = 0; i < BUSY_LOOKS - 1; i++)
		assert_false(look(&busy, &l, 100, 800, i % 4 == 2 ? 300 : 0));
	l = (struct cpu_sample){ .now_ms = 1000 };
	cpu_throttle_judge(&steady, &l);
	for (unsigned i = 0; i < 3; i++)
		assert_false(look(&steady, &l, 100, 800, 0));
	assert_true(look(&steady, &l, 100, 800, 0));
}

static void a_bomb_is_one_although_its_processes_end(void **state)
{
	struct cpu_sample l = { .now_ms = 1000 };
	struct cpu_throttle h = { .seen_pids = 10 };

	(void)state;
	cpu_throttle_judge(&h, &l);
	assert_false(look(&h, &l, 1000, 1000, 900));
	assert_false(look(&h, &l, 100, 0, 100)); /* it was busy, and is not */
	assert_false(cpu_throttle_judge_growth(&h, 10 + CPU_GROWTH, CPU_SAMPLE_MS));
	assert_false(look(&h, &l, 1000, 1000, 900));
	assert_true(cpu_throttle_judge_growth(&h, 10 + 2 * CPU_GROWTH, CPU_SAMPLE_MS));
	assert_true(h.is_capped && h.is_low_priority);
}

static void who_has_come_back_may_start_many_programs(void **state)
{
	struct cpu_sample l = { .now_ms = 1000 };
	struct cpu_throttle h = { .seen_pids = 10 };

	(void)state;
	cpu_throttle_judge(&h, &l);
	assert_true(look(&h, &l, 1000, 0, 0));
	for (unsigned i = 1; i < CPU_CALM_SAMPLES; i++)
		assert_false(look(&h, &l, 100, 0, 0));
	assert_true(look(&h, &l, 100, 0, 0));
	assert_false(cpu_throttle_judge_growth(&h, 10 + CPU_GROWTH, CPU_SAMPLE_MS));
	assert_false(h.is_low_priority);
}

static void a_fork_bomb_is_capped_until_it_stops(void **state)
{
	static const struct {
		uint64_t pids, since_ms;
		bool is_low_priority, changed, is_capped;
	} looks[] = {
		{ 1000, 60000, true, false, false }, /* since when? */
		{ 1127, 250, true, false, false },   { 1300, 250, false, false, false },
			{ 1428, 250, true, true, true },
		{ 1500, 250, true, false, true },    { 1515, 250, true, false, true },
			{ 1515, 250, true, false, true },
		{ 1531, 250, true, false, true },    { 900, 250, true, false, true },
			{ 1531, 250, true, false, true },
		{ 1000, 250, true, false, true },    { 1546, 250, true, true, false },
		/* looks are rare on a host of many */
		{ 1800, 1000, true, false, false },  { 2312, 1000, true, true, true },
	};
	struct cpu_throttle h = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(looks); i++) {
		h.is_low_priority = looks[i].is_low_priority;
		assert_int_equal(cpu_throttle_judge_growth(&h, looks[i].pids, looks[i].since_ms),
				 looks[i].changed);
		assert_int_equal(h.is_capped, looks[i].is_capped);
	}
}

/* It is looked at only for that. */
static void a_capped_box_stays_at_low_priority(void **state)
{
	struct cpu_throttle h = { .is_low_priority = true, .is_capped = true };

	(void)state;
	for (unsigned i = 0; i < 3 * CPU_CALM_SAMPLES; i++)
		assert_false(judge(&h, 1000, 1000 + (uint64_t)i * CPU_SAMPLE_MS));
	h.is_capped = false;
	assert_true(judge(&h, 1000, 9000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_busy_box_has_low_priority_until_it_is_calm),
		cmocka_unit_test(the_first_look_and_a_long_pause_say_nothing),
		cmocka_unit_test(an_adopted_box_gets_normal_priority_back),
		cmocka_unit_test(short_commands_one_after_the_other_are_not_throttled_at_once),
		cmocka_unit_test(one_that_goes_on_is_throttled_whatever_has_ended_before),
		cmocka_unit_test(little_says_nothing_until_there_is_more_of_it),
		cmocka_unit_test(a_bomb_is_one_although_its_processes_end),
		cmocka_unit_test(who_has_come_back_may_start_many_programs),
		cmocka_unit_test(a_fork_bomb_is_capped_until_it_stops),
		cmocka_unit_test(a_capped_box_stays_at_low_priority),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
