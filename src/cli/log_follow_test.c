// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/own.h"
#include "cli/log_follow.h"

#include "base/banned.h"

#define T1 "2026-06-15T09:46:58.000000001Z "
#define T2 "2026-06-15T09:46:58.000000002Z "
#define T3 "2026-06-15T09:46:59Z "

static void feed(struct log_follow *f, const char *text, bool is_final, const char *want)
{
	AUTO(buf_done) struct buf out = BUF_INIT(4096);

	log_follow(f, str_of(text), is_final, &out);
	assert_string_equal(buf_z(&out), want);
}

static void every_line_is_shown_once(void **state)
{
	struct log_follow f = { 0 };

	(void)state;
	feed(&f, "", false, "");
	feed(&f, T1 "a\n" T2 "b\n", false, "a\nb\n");
	feed(&f, T1 "a\n" T2 "b\n", false, "");
	feed(&f, T2 "b\n" T2 "c\n" T3 "d\n", false, "c\nd\n"); /* of the same time as b */
	feed(&f, T2 "b\n" T2 "c\n" T3 "d\n" T3 "d\n", false, "d\n");
	feed(&f, T3 "d\n" T3 "d\n", true, "");
}

static void a_line_without_an_end_waits_for_it(void **state)
{
	struct log_follow f = { 0 };

	(void)state;
	feed(&f, T1 "a\n" T2 "hal", false, "a\n");
	feed(&f, T1 "a\n" T2 "half\n", false, "half\n");
	feed(&f, T2 "half\n" T3 "last", true, "last\n");
}

static void times_are_shown_when_asked_for(void **state)
{
	struct log_follow f = { .shows_times = true };

	(void)state;
	feed(&f, T1 "a\n", false, T1 "a\n");
}

static void lines_without_a_time_belong_to_the_one_before(void **state)
{
	struct log_follow f = { 0 };

	(void)state;
	feed(&f, "torn\n" T1 "a\nmore\n", false, "torn\na\nmore\n");
	feed(&f, "torn\n" T1 "a\nmore\n" T2 "b\nrest\n", false, "b\nrest\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_line_is_shown_once),
		cmocka_unit_test(a_line_without_an_end_waits_for_it),
		cmocka_unit_test(times_are_shown_when_asked_for),
		cmocka_unit_test(lines_without_a_time_belong_to_the_one_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
