// SPDX-License-Identifier: Apache-2.0
#include "egress/learned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

static void an_answer_counts_for_its_ttl_and_a_minute(void **state)
{
	static const struct {
		uint32_t ttl;
		unsigned want;
	} cases[] = { { 0, 60 }, { 10, 70 }, { 120, 180 }, { 300, 360 }, { 9999, 360 }, { UINT32_MAX, 360 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(learned_seconds(cases[i].ttl), cases[i].want);
}

static void a_pair_is_of_one_name_and_one_address(void **state)
{
	struct learned l = { .pairs = MAP_INIT };
	struct err e = { 0 };
	struct learned_pair *p = learned_put(&l, "a.test", 1, 0, &e);

	(void)state;
	assert_non_null(p);
	assert_ptr_equal(learned_put(&l, "a.test", 1, 0, &e), p);
	assert_ptr_equal(learned_find(&l, "a.test", 1), p);
	assert_null(learned_find(&l, "a.test", 2));
	assert_null(learned_find(&l, "a.tes", 1));
	assert_null(learned_find(&l, "a.testx", 1));
	learned_done(&l);
}

static void what_counts_no_more_goes_unless_a_flow_has_it(void **state)
{
	struct learned l = { .pairs = MAP_INIT };
	struct err e = { 0 };
	char name[32];

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		struct learned_pair *p;

		(void)snprintf(name, sizeof(name), "n%u.test", i);
		p = learned_put(&l, name, i + 1, 0, &e);
		assert_non_null(p);
		p->until_ms = i < 900 ? 10 : 20;
		p->flows = i == 5;
	}
	learned_sweep(&l, 10);
	assert_int_equal(l.pairs.n, 101);
	assert_non_null(learned_find(&l, "n5.test", 6));
	assert_null(learned_find(&l, "n6.test", 7));
	learned_done(&l);
}

static void pairs_have_a_ceiling_that_old_ones_make_room_under(void **state)
{
	struct learned l = { .pairs = MAP_INIT };
	struct err e = { 0 };

	(void)state;
	for (unsigned i = 0; i < LEARNED_MAX; i++)
		learned_put(&l, "a.test", i, 0, &e)->until_ms = i == 0 ? 5 : 100;
	assert_null(learned_put(&l, "b.test", 1, 4, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	assert_non_null(learned_put(&l, "b.test", 1, 5, &e));
	learned_done(&l);
}

static void ports_that_another_name_needs_are_known(void **state)
{
	struct learned l = { .pairs = MAP_INIT };
	struct err e = { 0 };
	struct learned_pair *a = learned_put(&l, "a.test", 1, 0, &e), *b = learned_put(&l, "b.test", 1, 0, &e);
	struct learned_pair *c = learned_put(&l, "c.test", 2, 0, &e);

	(void)state;
	a->ports[a->n_ports++] = 22;
	b->ports[b->n_ports++] = 22;
	c->ports[c->n_ports++] = 25;
	assert_true(learned_shares(&l, a, 22));
	assert_false(learned_shares(&l, a, 25));
	assert_false(learned_shares(&l, c, 25));
	learned_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_counts_for_its_ttl_and_a_minute),
		cmocka_unit_test(a_pair_is_of_one_name_and_one_address),
		cmocka_unit_test(what_counts_no_more_goes_unless_a_flow_has_it),
		cmocka_unit_test(pairs_have_a_ceiling_that_old_ones_make_room_under),
		cmocka_unit_test(ports_that_another_name_needs_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
