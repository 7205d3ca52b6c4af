// SPDX-License-Identifier: Apache-2.0
#include "sys/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/root_test.h"

#include "base/banned.h"

static bool is(int resource, rlim_t value)
{
	struct rlimit r;

	return getrlimit(resource, &r) == 0 && r.rlim_cur == value && r.rlim_max == value;
}

static int apply_all(void *arg)
{
	static const struct limit table[] = {
		{ RLIMIT_CORE, 1, true },
		{ RLIMIT_NOFILE, 64, true },
		{ RLIMIT_NOFILE, 128, true }, /* above the hard limit by now */
		{ RLIMIT_SIGPENDING, 10, false },
	};
	static const struct limit raise = { RLIMIT_NOFILE, RLIM_INFINITY, false };
	static const struct limit unknown[] = { { 99, 1, true }, { RLIMIT_SIGPENDING, 5, false } };
	struct err e = { 0 };

	(void)arg;
	CHECK_OK(limits_apply(table, ARRAY_LEN(table), &e), &e);
	CHECK(is(RLIMIT_CORE, 1) && is(RLIMIT_NOFILE, 64) && is(RLIMIT_SIGPENDING, 10));
	CHECK(limits_apply(&raise, 1, &e) < 0 && e.code == ERR_DENIED);
	CHECK(limits_apply(unknown, 2, &e) < 0 && e.code == ERR_INVALID && is(RLIMIT_SIGPENDING, 10));
	CHECK(strstr(e.msg, "set resource limit 99 to 1: "));
	return 0;
}

static void a_table_is_applied_and_stops_at_the_first_refusal(void **state)
{
	(void)state;
	assert_int_equal(in_child(apply_all, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_is_applied_and_stops_at_the_first_refusal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
