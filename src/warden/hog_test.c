// SPDX-License-Identifier: Apache-2.0
#include "warden/hog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

/* Looks of HOG_LOOK_MS, in each of which it used so many thousandths of a processor. */
static void judge_all(struct hog *h, const unsigned *milli, size_t n, const bool *changed)
{
	uint64_t used_us = 7, now_ms = 1000;

	(void)hog_judge(h, used_us, now_ms);
	for (size_t i = 0; i < n; i++) {
		used_us += (uint64_t)milli[i] * HOG_LOOK_MS;
		now_ms += HOG_LOOK_MS;
		assert_int_equal(hog_judge(h, used_us, now_ms), changed[i]);
	}
}

static void who_computes_is_put_behind_until_it_is_calm(void **state)
{
	static const unsigned milli[] = { 0, 899, 900, 2000, 499, 499, 499, 500, 0, 0, 0, 0, 899 };
	static const bool changed[] = { false, false, true, false, false, false, false, false, false, false, false, true, false };
	struct hog h = { 0 };

	(void)state;
	judge_all(&h, milli, ARRAY_LEN(milli), changed);
	assert_false(h.is_behind);
}

static void the_first_look_and_a_long_pause_say_nothing(void **state)
{
	struct hog h = { 0 };

	(void)state;
	assert_false(hog_judge(&h, UINT64_C(3600000000), 1000)); /* an hour, since when? */
	assert_false(hog_judge(&h, UINT64_C(3600200000), 61000));
	assert_false(hog_judge(&h, UINT64_C(3600200000), 61000)); /* no time has passed */
	assert_false(hog_judge(&h, UINT64_C(5), 61250)); /* less than before: another count */
	assert_true(hog_judge(&h, UINT64_C(225005), 61500));
}

static void one_that_may_be_behind_already_comes_back(void **state)
{
	struct hog h = { .is_behind = true };

	(void)state;
	for (unsigned i = 0; i < HOG_CALM_LOOKS; i++)
		assert_false(hog_judge(&h, 1000, 1000 + (uint64_t)i * HOG_LOOK_MS));
	assert_true(hog_judge(&h, 1000, 1000 + (uint64_t)HOG_CALM_LOOKS * HOG_LOOK_MS));
	assert_false(h.is_behind);
}

static void who_makes_processes_without_end_is_choked_until_it_stops(void **state)
{
	static const struct {
		uint64_t pids, since_ms;
		bool is_behind, changed, is_choked;
	} looks[] = {
		{ 1000, 60000, true, false, false }, /* since when? */
		{ 1127, 250, true, false, false },   { 1300, 250, false, false, false }, { 1428, 250, true, true, true },
		{ 1500, 250, true, false, true },    { 1515, 250, true, false, true },   { 1515, 250, true, false, true },
		{ 1531, 250, true, false, true },    { 900, 250, true, false, true },    { 1531, 250, true, false, true },
		{ 1000, 250, true, false, true },    { 1546, 250, true, true, false },
		{ 1800, 1000, true, false, false },  { 2312, 1000, true, true, true }, /* looks are rare on a host of many */
	};
	struct hog h = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(looks); i++) {
		h.is_behind = looks[i].is_behind;
		assert_int_equal(hog_judge_growth(&h, looks[i].pids, looks[i].since_ms), looks[i].changed);
		assert_int_equal(h.is_choked, looks[i].is_choked);
	}
}

/* It is looked at only for that. */
static void who_is_choked_stays_behind(void **state)
{
	struct hog h = { .is_behind = true, .is_choked = true };

	(void)state;
	for (unsigned i = 0; i < 3 * HOG_CALM_LOOKS; i++)
		assert_false(hog_judge(&h, 1000, 1000 + (uint64_t)i * HOG_LOOK_MS));
	h.is_choked = false;
	assert_true(hog_judge(&h, 1000, 9000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_computes_is_put_behind_until_it_is_calm),
		cmocka_unit_test(the_first_look_and_a_long_pause_say_nothing),
		cmocka_unit_test(one_that_may_be_behind_already_comes_back),
		cmocka_unit_test(who_makes_processes_without_end_is_choked_until_it_stops),
		cmocka_unit_test(who_is_choked_stays_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
