// SPDX-License-Identifier: Apache-2.0
/* The driver of operations, with types that only write down what they are asked to do. */
#include "server/model/test_op.h"

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
	bench_stop(*state);
	return 0;
}

/* ---- the queue ---- */

static void they_are_done_one_after_the_other(void **state)
{
	struct bench *b = *state;

	add(b, &change, "a");
	add(b, &change, "b");
	assert_string_equal(b->log, "");
	turn(b);
	assert_string_equal(b->log, "ask a; ");
	op_ran(NULL, b->asked);
	assert_string_equal(b->log, "ask a; a done; ");
	turn(b);
	op_ran(NULL, b->asked);
	assert_string_equal(b->log, "ask a; a done; ask b; b done; ");
	assert_null(op_first(&b->q));
}

static void a_removal_overtakes_what_waits_and_not_what_has_begun(void **state)
{
	struct bench *b = *state;

	add(b, &change, "a");
	turn(b);
	add(b, &change, "b");
	add(b, &removal, "r");
	add(b, &late_removal, "l");
	turn(b);
	assert_string_equal(b->log, "ask a; ");
	op_ran(NULL, b->asked);
	turn(b);
	assert_string_equal(b->log, "ask a; a done; ask r; ");
	op_ran(NULL, b->asked);
	turn(b);
	op_ran(NULL, b->asked);
	turn(b);
	assert_string_equal(b->log, "ask a; a done; ask r; r done; ask b; b done; ask l; ");
}

static void a_removal_comes_before_what_has_not_begun(void **state)
{
	struct bench *b = *state;

	add(b, &change, "a");
	add(b, &removal, "r");
	turn(b);
	assert_string_equal(b->log, "ask r; ");
}

static void too_many_are_refused_but_for_removals(void **state)
{
	struct bench *b = *state;
	struct fault f;

	for (unsigned i = 0; i < SANDBOX_TASKS_MAX; i++)
		add(b, &change, NULL);
	assert_null(op_admit(b->sandbox.set, &b->q, &change, NULL, NULL, &f));
	assert_int_equal(f.status, 429);
	add(b, &removal, "r");
	turn(b);
	assert_string_equal(b->log, "ask r; ");
}

static void the_end_of_the_queue_tells_removals_and_others_apart(void **state)
{
	struct bench *b = *state;
	struct fault gone;

	add(b, &change, "a");
	turn(b);
	add(b, &change, "b");
	add(b, &removal, "r");
	(void)fault_set(&gone, 404, NULL, "GONE", "gone");
	op_queue_end(&b->q, NULL, &gone);
	assert_string_equal(b->log, "ask a; a 404; r done; b 404; ");
}

/* ---- admission ---- */

static void what_is_limited_is_free_again_afterwards(void **state)
{
	struct bench *b = *state;
	struct fault f;
	struct op *op;

	b->room = 2;
	op = op_admit(b->sandbox.set, NULL, &limited, NULL, NULL, &f);
	add(b, &limited, "a");
	assert_int_equal(b->room, 0);
	assert_null(op_admit(b->sandbox.set, &b->q, &limited, NULL, NULL, &f));
	assert_int_equal(f.status, 429);
	op_free(op); /* one that was never queued */
	assert_int_equal(b->room, 1);
	turn(b);
	b->room_seen = 0;
	op_ran(NULL, b->asked);
	assert_int_equal(b->room, 2);
	assert_int_equal(b->room_seen, 2); /* by whoever is told */
}

/* ---- whoever waits ---- */

static void all_who_wait_are_told_once(void **state)
{
	struct bench *b = *state;
	struct op *op = add(b, &change, "a");
	struct fault f;

	assert_int_equal(op_wait(op, on_end, caller(b, "w"), &f), 0);
	turn(b);
	op_tell(op, &b->sandbox, NULL);
	assert_string_equal(b->log, "ask a; a done; w done; ");
	assert_int_equal(op_wait(op, on_end, caller(b, "x"), &f), 0);
	op_ran(&broken, op);
	assert_string_equal(b->log, "ask a; a done; w done; x 500; ");
}

static void a_failure_tells_those_of_its_kind_that_come_next(void **state)
{
	struct bench *b = *state;
	struct fault f;

	add(b, &change, "a");
	turn(b);
	add(b, &change, "b");
	add(b, &late_removal, "l");
	add(b, &change, "c");
	(void)fault_set(&f, 500, NULL, "FAILED", "failed");
	op_finish_alike(b->asked, &f);
	assert_string_equal(b->log, "ask a; b 500; a 500; ");
	turn(b);
	assert_string_equal(b->log, "ask a; b 500; a 500; ask l; ");
}

static void what_is_told_afterwards_is_told_afterwards(void **state)
{
	struct bench *b = *state;

	add(b, &told, "a");
	turn(b);
	op_ran(NULL, b->asked);
	assert_string_equal(b->log, "ask a; a done; told a; ");
}

/* ---- checks ---- */

static void a_refusal_asks_nobody(void **state)
{
	struct bench *b = *state;

	b->check = OP_REFUSE;
	add(b, &checked, "a");
	turn(b);
	b->check = OP_NOTHING;
	add(b, &checked, "b");
	turn(b);
	b->check = OP_ASK;
	add(b, &checked, "c");
	turn(b);
	assert_string_equal(b->log, "a 409; b done; ask c; ");
}

/* ---- time ---- */

static void a_deadline_comes_to_the_one_in_progress_alone(void **state)
{
	struct bench *b = *state;

	add(b, &timed, "a");
	turn(b);
	add(b, &timed, "b");
	op_deadline(b->asked, 1000);
	pass(b, 999);
	assert_string_equal(b->log, "ask a; ");
	pass(b, 1);
	assert_string_equal(b->log, "ask a; overdue a; ");
	op_deadline(b->asked, 1000);
	op_ran(NULL, b->asked);
	turn(b);
	pass(b, 5000);
	assert_string_equal(b->log, "ask a; overdue a; a done; ask b; ");
}

static void a_runtime_that_is_away_is_asked_again(void **state)
{
	struct bench *b = *state;

	add(b, &stubborn, "a");
	turn(b);
	op_ran(&away, b->asked);
	pass(b, OP_PAUSE_FIRST_MS - 1);
	assert_string_equal(b->log, "ask a; ");
	pass(b, 1);
	assert_string_equal(b->log, "ask a; ask a; ");
	op_ran(&away, b->asked);
	pass(b, OP_PAUSE_FIRST_MS);
	assert_string_equal(b->log, "ask a; ask a; ask a; ");
	op_ran(&away, b->asked);
	assert_string_equal(b->log, "ask a; ask a; ask a; a 503; ");
	add(b, &stubborn, "b");
	turn(b);
	op_ran(&broken, b->asked); /* another try would not help */
	assert_string_equal(b->log, "ask a; ask a; ask a; a 503; ask b; b 500; ");
}

static void another_one_comes_after_pauses_that_double(void **state)
{
	struct bench *b = *state;
	unsigned pause = OP_PAUSE_FIRST_MS;

	add(b, &removal, "r");
	turn(b);
	for (unsigned i = 0; i < 8; i++) {
		b->log[0] = '\0';
		op_repeat(&b->q, &removal);
		op_ran(&broken, b->asked);
		pass(b, pause - 1);
		assert_null(op_first(&b->q));
		pass(b, 1);
		has(b->log, "ask -; ");
		pause = MIN(pause * 2, (unsigned)OP_PAUSE_MAX_MS);
	}
	op_ran(NULL, b->asked);
	assert_null(op_first(&b->q));
}

static void one_that_comes_meanwhile_is_the_repetition(void **state)
{
	struct bench *b = *state;

	op_repeat(&b->q, &removal);
	add(b, &removal, "r");
	turn(b);
	op_ran(NULL, b->asked);
	pass(b, 10 * OP_PAUSE_FIRST_MS);
	assert_string_equal(b->log, "ask r; r done; ");
}

/* ---- answers ---- */

static void an_answer_that_nobody_waits_for_is_ignored(void **state)
{
	struct bench *b = *state;
	struct op *waiting;

	add(b, &stubborn, "a");
	waiting = add(b, &change, "b");
	turn(b);
	op_ran(NULL, waiting);
	op_ran(&away, b->asked);
	op_ran(NULL, b->asked); /* it is asked again later */
	assert_string_equal(b->log, "ask a; ");
	pass(b, OP_PAUSE_FIRST_MS);
	op_ran(NULL, b->asked);
	assert_string_equal(b->log, "ask a; ask a; a done; ");
}

/* ---- the store ---- */

static void the_runtime_is_asked_once_the_intent_is_recorded(void **state)
{
	struct bench *b = *state;

	add(b, &whole, "a");
	turn(b);
	assert_string_equal(b->log, "intent a; ");
	wait_for(b, "intent a; ask a; ");
	assert_int_equal(((struct op *)b->asked)->state, OP_ASKING);
	op_ran(NULL, b->asked);
	assert_string_equal(b->log, "intent a; ask a; commit a; ");
	wait_for(b, "intent a; ask a; commit a; a done; ");
}

static void an_intent_that_the_store_refuses_is_undone(void **state)
{
	struct bench *b = *state;

	b->is_refused = true;
	add(b, &whole, "a");
	wait_for(b, "intent a; undo a; a 503; ");
	assert_null(b->asked);
	assert_null(op_first(&b->q));
}

static void two_answers_are_joined_in_either_order(void **state)
{
	struct bench *b = *state;

	add(b, &parallel, "a");
	turn(b);
	assert_string_equal(b->log, "intent a; ask a; ");
	wait_for(b, "intent a; ask a; join a; ");
	op_ran(NULL, b->asked);
	assert_string_equal(b->log, "intent a; ask a; join a; join a; a done; ");
	b->log[0] = '\0';
	add(b, &parallel, "b");
	while (!strstr(b->log, "ask b"))
		assert_int_equal(loop_turn(b->loop, 0, &b->e), 0);
	op_ran(&broken, b->asked);
	wait_for(b, "intent b; ask b; join b; join b; b 500; ");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(they_are_done_one_after_the_other),
		TEST(a_removal_overtakes_what_waits_and_not_what_has_begun),
		TEST(a_removal_comes_before_what_has_not_begun),
		TEST(too_many_are_refused_but_for_removals),
		TEST(the_end_of_the_queue_tells_removals_and_others_apart),
		TEST(what_is_limited_is_free_again_afterwards),
		TEST(all_who_wait_are_told_once),
		TEST(a_failure_tells_those_of_its_kind_that_come_next),
		TEST(what_is_told_afterwards_is_told_afterwards),
		TEST(a_refusal_asks_nobody),
		TEST(a_deadline_comes_to_the_one_in_progress_alone),
		TEST(a_runtime_that_is_away_is_asked_again),
		TEST(another_one_comes_after_pauses_that_double),
		TEST(one_that_comes_meanwhile_is_the_repetition),
		TEST(an_answer_that_nobody_waits_for_is_ignored),
		TEST(the_runtime_is_asked_once_the_intent_is_recorded),
		TEST(an_intent_that_the_store_refuses_is_undone),
		TEST(two_answers_are_joined_in_either_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
