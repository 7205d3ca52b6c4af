// SPDX-License-Identifier: Apache-2.0
/* The plan alone; tests/server/test_disk_full.py applies it. */
#include "box/store_guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/banned.h"

#define MIB (UINT64_C(1) << 20)

static struct store_look look(uint64_t free_mib)
{
	return (struct store_look){ .reserve = 64 * MIB, .free = free_mib * MIB, .bytes = 100 * MIB, .trees = 8 * MIB, .backed = 108 * MIB };
}

static void sandboxes_may_fill_what_is_free_but_half_of_the_reserve(void **state)
{
	struct store_look l = look(1032);
	struct store_guard g = { 0 };
	struct store_plan p = store_guard_plan(&g, &l, 1000);

	(void)state;
	assert_int_equal(store_look_room(&l), 1000 * MIB);
	assert_true(p.limits && p.backs && !p.trims && !p.hurries);
	assert_int_equal(p.limit, 1100 * MIB);
	store_guard_note(&g, &p, 1000);
	p = store_guard_plan(&g, &l, 1250);
	assert_true(store_plan_is_empty(&p));
	l.bytes += 500 * MIB; /* what sandboxes write themselves changes nothing */
	l.backed += 500 * MIB;
	l.free -= 500 * MIB;
	p = store_guard_plan(&g, &l, 1500);
	assert_true(store_plan_is_empty(&p));
	l.free -= 200 * MIB; /* what others write does */
	p = store_guard_plan(&g, &l, 1750);
	assert_true(p.limits && !p.backs);
	assert_int_equal(p.limit, 900 * MIB);
}

static void promises_count_as_if_they_were_written(void **state)
{
	struct store_look l = look(132);

	(void)state;
	l.unwritten = 40 * MIB;
	assert_int_equal(store_look_room(&l), 60 * MIB);
	l.bytes += 68 * MIB; /* allocated, and not in the image yet */
	assert_int_equal(store_look_room(&l), 0);
}

static void nobody_writes_when_nothing_is_left_until_something_is(void **state)
{
	struct store_look l = look(20);
	struct store_guard g = { .trees = 8 * MIB };
	struct store_plan p = store_guard_plan(&g, &l, 10000);

	(void)state;
	assert_true(p.limits && p.hurries && !p.trims);
	assert_int_equal(p.limit, 100 * MIB);
	store_guard_note(&g, &p, 10000);
	p = store_guard_plan(&g, &l, 10100);
	assert_true(store_plan_is_empty(&p));
	l.bytes = 50 * MIB; /* a sandbox has removed something: the host gets it back */
	p = store_guard_plan(&g, &l, 10600);
	assert_true(p.limits && p.trims && p.hurries);
	assert_int_equal(p.limit, 50 * MIB);
	store_guard_note(&g, &p, 10600);
	l.backed = 58 * MIB;
	l.free = 70 * MIB;
	store_guard_settle(&g, &l);
	p = store_guard_plan(&g, &l, 10700);
	assert_true(p.limits && !p.trims);
	assert_int_equal(p.limit, 88 * MIB);
}

static void what_a_trim_cannot_give_back_is_not_trimmed_for_ever(void **state)
{
	struct store_look l = look(4000);
	struct store_guard g = { 0 };
	struct store_plan p;

	(void)state;
	l.backed = 500 * MIB;
	p = store_guard_plan(&g, &l, 1000);
	assert_true(p.trims);
	store_guard_note(&g, &p, 1000);
	store_guard_settle(&g, &l);
	assert_false(store_guard_plan(&g, &l, 100000).trims);
	l.backed += 65 * MIB;
	assert_false(store_guard_plan(&g, &l, 5000).trims); /* not so soon */
	assert_true(store_guard_plan(&g, &l, 6000).trims);
}

static void new_parts_for_trees_get_their_blocks(void **state)
{
	struct store_look l = look(4000);
	struct store_guard g = { 0 };
	struct store_plan p = store_guard_plan(&g, &l, 1000);

	(void)state;
	store_guard_note(&g, &p, 1000);
	l.trees += 256 * MIB;
	p = store_guard_plan(&g, &l, 1250);
	assert_true(p.backs);
	assert_int_equal(p.trees, 264 * MIB);
}

static void who_is_refused_does_not_make_commits_follow_each_other(void **state)
{
	const struct store_plan hurry = { .hurries = true };
	struct store_guard g = { 0 };

	(void)state;
	assert_true(store_guard_may_hurry(&g, 10));
	store_guard_note(&g, &hurry, 5000);
	assert_false(store_guard_may_hurry(&g, 5000));
	assert_false(store_guard_may_hurry(&g, 5900));
	assert_true(store_guard_may_hurry(&g, 6000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sandboxes_may_fill_what_is_free_but_half_of_the_reserve),
		cmocka_unit_test(promises_count_as_if_they_were_written),
		cmocka_unit_test(nobody_writes_when_nothing_is_left_until_something_is),
		cmocka_unit_test(what_a_trim_cannot_give_back_is_not_trimmed_for_ever),
		cmocka_unit_test(new_parts_for_trees_get_their_blocks),
		cmocka_unit_test(who_is_refused_does_not_make_commits_follow_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
