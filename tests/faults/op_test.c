// SPDX-License-Identifier: Apache-2.0
/* The engine of operations without memory: what cannot be had is refused, and what nobody waits for comes again. */
#include "server/model/test_op.h"

#include "failing_alloc.h"

#include "base/banned.h"

static struct bench bench;

static int setup(void **state)
{
	bench_start(&bench);
	*state = &bench;
	return 0;
}

static int teardown(void **state)
{
	countdown = -1;
	bench_stop(*state);
	return 0;
}

static void an_operation_is_refused_and_takes_no_share(void **state)
{
	struct bench *b = *state;
	struct fault f;

	b->room = 1;
	countdown = 0;
	assert_null(op_admit(b->sandbox.set, &b->q, &limited, on_end, caller(b, "a"), &f));
	assert_int_equal(f.status, 503);
	assert_int_equal(b->room, 1);
	add(b, &limited, "b");
	assert_int_equal(b->room, 0);
}

static void whoever_wants_to_wait_is_refused(void **state)
{
	struct bench *b = *state;
	struct op *op = add(b, &change, "a");
	struct fault f;

	countdown = 0;
	assert_int_equal(op_wait(op, on_end, caller(b, "w"), &f), -1);
	assert_int_equal(f.status, 503);
	turn(b);
	op_ran(NULL, b->asked);
	assert_string_equal(b->log, "ask a; a done; ");
}

static void a_repetition_comes_when_there_is_memory_again(void **state)
{
	struct bench *b = *state;

	op_repeat(&b->q, &removal);
	countdown = 0;
	pass(b, OP_PAUSE_FIRST_MS);
	assert_string_equal(b->log, "");
	pass(b, 2 * OP_PAUSE_FIRST_MS);
	assert_string_equal(b->log, "ask -; ");
}

/* Each allocation of an intent: it is undone, or goes on. */
static void an_intent_is_undone(void **state)
{
	struct bench *b = *state;
	long n = 0;

	do {
		b->log[0] = '\0';
		b->asked = NULL;
		add(b, &whole, "a");
		has_failed = false;
		countdown = n++;
		turn(b);
		countdown = -1;
		if (has_failed) {
			wait_for(b, "intent a; undo a; a 503; ");
			continue;
		}
		wait_for(b, "intent a; ask a; ");
		op_ran(NULL, b->asked);
		wait_for(b, "intent a; ask a; commit a; a done; ");
	} while (has_failed);
	assert_true(n > 1);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_operation_is_refused_and_takes_no_share),
		TEST(whoever_wants_to_wait_is_refused),
		TEST(a_repetition_comes_when_there_is_memory_again),
		TEST(an_intent_is_undone),
	};

	failing_alloc_here();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
