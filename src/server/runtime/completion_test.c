// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/completion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/err.h"

#include "base/banned.h"

static const struct runtime_failure failure = { .code = "SANDBOX_QUERY_FAILED", .status = 503 };

struct rig {
	struct loop *loop;
	struct refusals refusals;
	unsigned done, more; /* calls that are refused from within the completion of one */
};

static void on_done(const struct runtime_failure *why, void *arg)
{
	struct rig *r = arg;
	struct completion c = completion_done(on_done, r);

	assert_ptr_equal(why, &failure);
	r->done++;
	if (r->more > 0) {
		r->more--;
		refuse(&r->refusals, &c, &failure);
	}
}

static void on_text(struct str text, bool is_cut, const struct runtime_failure *why, void *arg)
{
	assert_int_equal(text.n, 0);
	assert_false(is_cut);
	on_done(why, arg);
}

static void on_list(const struct runtime_box *boxes, size_t n, const struct runtime_failure *why, void *arg)
{
	assert_null(boxes);
	assert_int_equal(n, 0);
	on_done(why, arg);
}

static int setup(void **state)
{
	static struct rig r;

	r = (struct rig){ .loop = loop_new(&(struct err){ 0 }) };
	assert_int_equal(refusals_init(&r.refusals, r.loop, &(struct err){ 0 }), 0);
	*state = &r;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	refusals_done(&r->refusals);
	loop_free(r->loop);
	return 0;
}

static void turn(struct rig *r)
{
	assert_int_equal(loop_turn(r->loop, 0, &(struct err){ 0 }), 0);
}

static void refused_calls_fail_in_the_next_turn(void **state)
{
	struct rig *r = *state;
	const struct completion all[] = { completion_done(on_done, r), completion_text(on_text, r), completion_list(on_list, r) };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		refuse(&r->refusals, &all[i], &failure);
	assert_int_equal(r->done, 0);
	turn(r);
	assert_int_equal(r->done, 3);
	turn(r);
	assert_int_equal(r->done, 3);
}

static void what_is_refused_meanwhile_waits_for_its_own_turn(void **state)
{
	struct rig *r = *state;
	const struct completion c = completion_done(on_done, r);

	r->more = 5;
	for (int i = 0; i < 3; i++)
		refuse(&r->refusals, &c, &failure);
	for (int i = 0; i < 4; i++)
		turn(r);
	assert_int_equal(r->done, 8);
	assert_int_equal(r->refusals.n, 0);
}

static void as_many_as_there_may_be_are_told(void **state)
{
	struct rig *r = *state;
	const struct completion c = completion_done(on_done, r);

	for (unsigned i = 0; i < REFUSALS_MAX; i++)
		refuse(&r->refusals, &c, &failure);
	turn(r);
	assert_int_equal(r->done, REFUSALS_MAX);
}

static void nobody_is_told_after_the_end(void **state)
{
	struct rig *r = *state;
	const struct completion c = completion_done(on_done, r);

	refuse(&r->refusals, &c, &failure);
	refusals_done(&r->refusals);
	turn(r);
	assert_int_equal(r->done, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(refused_calls_fail_in_the_next_turn), TEST(what_is_refused_meanwhile_waits_for_its_own_turn),
		TEST(as_many_as_there_may_be_are_told), TEST(nobody_is_told_after_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
