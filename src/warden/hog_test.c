// SPDX-License-Identifier: Apache-2.0
#include "warden/hog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

/* True when it has changed. */
static bool judge_look(struct hog *h, const struct hog_look *l)
{
	bool was_behind = h->is_behind;

	hog_judge(h, l);
	return h->is_behind != was_behind;
}

/* By processes that go on. */
static bool judge(struct hog *h, uint64_t used_us, uint64_t now_ms)
{
	return judge_look(h, &(struct hog_look){ .now_ms = now_ms, .used_us = used_us });
}

/* Looks of HOG_LOOK_MS, in each of which it used so many thousandths of a processor. */
static void judge_all(struct hog *h, const unsigned *milli, size_t n, const bool *changed)
{
	uint64_t used_us = 7, now_ms = 1000;

	(void)judge(h, used_us, now_ms);
	for (size_t i = 0; i < n; i++) {
		used_us += (uint64_t)milli[i] * HOG_LOOK_MS;
		now_ms += HOG_LOOK_MS;
		assert_int_equal(judge(h, used_us, now_ms), changed[i]);
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
	assert_false(judge(&h, UINT64_C(3600000000), 1000)); /* an hour, since when? */
	assert_false(judge(&h, UINT64_C(3600200000), 61000));
	assert_false(judge(&h, UINT64_C(3600200000), 61000)); /* no time has passed */
	assert_false(judge(&h, UINT64_C(5), 61250)); /* less than before: another count */
	assert_true(judge(&h, UINT64_C(225005), 61500));
}

static void one_that_may_be_behind_already_comes_back(void **state)
{
	struct hog h = { .is_behind = true };

	(void)state;
	for (unsigned i = 0; i < HOG_CALM_LOOKS; i++)
		assert_false(judge(&h, 1000, 1000 + (uint64_t)i * HOG_LOOK_MS));
	assert_true(judge(&h, 1000, 1000 + (uint64_t)HOG_CALM_LOOKS * HOG_LOOK_MS));
	assert_false(h.is_behind);
}

/* A look that finds so much used, waited for, and used by those that have ended, in thousandths of a processor. */
static bool look(struct hog *h, struct hog_look *l, unsigned used, unsigned waited, unsigned ended)
{
	l->now_ms += HOG_LOOK_MS;
	l->used_us += (uint64_t)used * HOG_LOOK_MS;
	l->waited_us += (uint64_t)waited * HOG_LOOK_MS;
	l->ended_us += (uint64_t)ended * HOG_LOOK_MS;
	return judge_look(h, l);
}

#define BUSY_LOOKS (HOG_BUSY_MS / HOG_LOOK_MS)

static void short_commands_one_after_the_other_are_no_hog_for_a_while(void **state)
{
	struct hog_look l = { .now_ms = 1000 };
	struct hog h = { 0 };

	(void)state;
	hog_judge(&h, &l);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 1; i < BUSY_LOOKS; i++)
			assert_false(look(&h, &l, 850, 400, 700));
		for (unsigned i = 0; i < BUSY_LOOKS / HOG_REST; i++)
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

static void who_goes_on_is_a_hog_whatever_has_ended_before(void **state)
{
	struct hog_look l = { .now_ms = 1000 };
	struct hog h = { 0 };

	(void)state;
	hog_judge(&h, &l);
	assert_false(look(&h, &l, 900, 0, 900));
	assert_true(look(&h, &l, 900, 0, 449));
}

/* One that gets a tenth of a processor and wants the rest: in a look nothing may have ended. */
static void little_says_nothing_until_there_is_more_of_it(void **state)
{
	struct hog_look l = { .now_ms = 1000 };
	struct hog busy = { 0 }, hog = { 0 };

	(void)state;
	hog_judge(&busy, &l);
	for (unsigned i = 0; i < BUSY_LOOKS - 1; i++)
		assert_false(look(&busy, &l, 100, 800, i % 4 == 2 ? 300 : 0));
	l = (struct hog_look){ .now_ms = 1000 };
	hog_judge(&hog, &l);
	for (unsigned i = 0; i < 3; i++)
		assert_false(look(&hog, &l, 100, 800, 0));
	assert_true(look(&hog, &l, 100, 800, 0));
}

static void a_bomb_is_one_although_its_processes_end(void **state)
{
	struct hog_look l = { .now_ms = 1000 };
	struct hog h = { .seen_pids = 10 };

	(void)state;
	hog_judge(&h, &l);
	assert_false(look(&h, &l, 1000, 1000, 900));
	assert_false(look(&h, &l, 100, 0, 100)); /* it was busy, and is not */
	assert_false(hog_judge_growth(&h, 10 + HOG_GROWTH, HOG_LOOK_MS));
	assert_false(look(&h, &l, 1000, 1000, 900));
	assert_true(hog_judge_growth(&h, 10 + 2 * HOG_GROWTH, HOG_LOOK_MS));
	assert_true(h.is_choked && h.is_behind);
}

static void who_has_come_back_may_start_many_programs(void **state)
{
	struct hog_look l = { .now_ms = 1000 };
	struct hog h = { .seen_pids = 10 };

	(void)state;
	hog_judge(&h, &l);
	assert_true(look(&h, &l, 1000, 0, 0));
	for (unsigned i = 1; i < HOG_CALM_LOOKS; i++)
		assert_false(look(&h, &l, 100, 0, 0));
	assert_true(look(&h, &l, 100, 0, 0));
	assert_false(hog_judge_growth(&h, 10 + HOG_GROWTH, HOG_LOOK_MS));
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
		assert_false(judge(&h, 1000, 1000 + (uint64_t)i * HOG_LOOK_MS));
	h.is_choked = false;
	assert_true(judge(&h, 1000, 9000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_computes_is_put_behind_until_it_is_calm),
		cmocka_unit_test(the_first_look_and_a_long_pause_say_nothing),
		cmocka_unit_test(one_that_may_be_behind_already_comes_back),
		cmocka_unit_test(short_commands_one_after_the_other_are_no_hog_for_a_while),
		cmocka_unit_test(who_goes_on_is_a_hog_whatever_has_ended_before),
		cmocka_unit_test(little_says_nothing_until_there_is_more_of_it),
		cmocka_unit_test(a_bomb_is_one_although_its_processes_end),
		cmocka_unit_test(who_has_come_back_may_start_many_programs),
		cmocka_unit_test(who_makes_processes_without_end_is_choked_until_it_stops),
		cmocka_unit_test(who_is_choked_stays_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
