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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_computes_is_put_behind_until_it_is_calm),
		cmocka_unit_test(the_first_look_and_a_long_pause_say_nothing),
		cmocka_unit_test(one_that_may_be_behind_already_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
