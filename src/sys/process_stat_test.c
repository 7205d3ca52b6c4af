// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/process_stat.h"

#include "base/banned.h"

static void words_are_found_behind_any_name(void **state)
{
#define REST " S 1 2 3 4 5 6 7 8 9 10 11 12 30 40 15 16 17 18 "
	static const struct {
		const char *text;
		int result;
		uint64_t start;
	} table[] = {
		{ "12 (sh)" REST "987654 20", 0, 987654 },
		{ "12 (a) b) (c)" REST "18446744073709551615", 0, UINT64_MAX },
		{ "12 (sh)" REST "-5", -1, 0 },
		{ "12 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 x 40 15 16 17 18 7", -1, 0 },
		{ "12 (sh)" REST, -1, 0 },
		{ "12 sh S 1 2", -1, 0 },
		{ "", -1, 0 },
		{ "12 (sh)", -1, 0 },
	};
	struct process_stat stat;
	struct err e;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		assert_int_equal(process_stat_parse(str_of(table[i].text), &stat, &e), table[i].result);
		if (table[i].result < 0)
			continue;
		assert_true(stat.start == table[i].start);
		assert_true(stat.collected_us == 70 * (uint64_t)US_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
	}
}

static void a_process_is_known(void **state)
{
	struct process_stat stat, once_more;
	struct err e;

	(void)state;
	assert_int_equal(process_stat_read(getpid(), &stat, &e), 0);
	assert_int_equal(process_stat_read(getpid(), &once_more, &e), 0);
	assert_true(stat.start == once_more.start && stat.start > 0);
	assert_int_equal(process_stat_read(INT32_MAX, &stat, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
}

/* Of CPU time. */
static void burn(clock_t ms)
{
	clock_t until = clock() + ms * (CLOCKS_PER_SEC / 1000);

	while (clock() < until)
		;
}

static void what_children_used_counts_once_they_are_collected(void **state)
{
	struct process_stat before, meanwhile, after;
	struct err e;
	siginfo_t si;
	pid_t pid;

	(void)state;
	assert_int_equal(process_stat_read(getpid(), &before, &e), 0);
	pid = fork();
	if (pid == 0) {
		burn(100);
		_exit(0);
	}
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	assert_int_equal(process_stat_read(getpid(), &meanwhile, &e), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(process_stat_read(getpid(), &after, &e), 0);
	assert_true(meanwhile.collected_us == before.collected_us);
	assert_true(after.collected_us >= before.collected_us + 80000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_found_behind_any_name),
		cmocka_unit_test(a_process_is_known),
		cmocka_unit_test(what_children_used_counts_once_they_are_collected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
