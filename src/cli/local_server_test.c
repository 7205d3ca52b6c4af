// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "cli/local_server.h"
#include "cli/test_place.h"
#include "sys/fd.h"
#include "sys/process.h"
#include "sys/signals.h"

#include "base/banned.h"

#define STAT "4242 (a (b) c) S 1 4242 4242 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 0 0"

static char *const sleep_argv[] = { (char *)(uintptr_t) "/bin/sleep", (char *)(uintptr_t) "60", NULL };

static void records_are_read_as_they_are_written(void **state)
{
	struct local_record r;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(local_record_parse(STR("osb 1 boot-id 127.0.0.1:8080\n" STAT), &r, &e), 0);
	assert_true(str_is(r.boot, "boot-id"));
	assert_true(str_is(r.address, "127.0.0.1:8080"));
	assert_int_equal(r.pid, 4242);
	assert_int_equal(r.start, 987654);
}

static void damaged_records_are_refused(void **state)
{
	static const char *const cases[] = {
		"", "osb 1 b a", "osb 2 b a\n" STAT, "osb 1 b\n" STAT, "osb 1 b a\n", "osb 1 b a\n12 (x) S", "osb 1 b a\n0 (x) S 1",
		"osb 1 b a\n-5 (x) S 1 4242 4242 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 0 0",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct local_record r;
		struct err e = { 0 };

		assert_int_equal(local_record_parse(str_of(cases[i]), &r, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
	}
}

static void what_was_started_is_found_and_ended(void **state)
{
	struct place *p = *state;
	AUTO(local_server_done) struct local_server started = LOCAL_SERVER_INIT;
	AUTO(local_server_done) struct local_server found = LOCAL_SERVER_INIT;
	struct local_start how = { .program = sleep_argv[0], .argv = sleep_argv, .address = "127.0.0.1:1", .log = -1 };
	struct process_end end;
	struct err e = { 0 };

	assert_int_equal(local_server_find(p->fd, &found, &e), 0);
	assert_int_equal(local_server_start(p->fd, &how, &started, &e), 0);
	assert_int_equal(local_server_find(p->fd, &found, &e), 1);
	assert_int_equal(found.pid, started.pid);
	assert_string_equal(found.address, "127.0.0.1:1");
	{
		struct local_server second = LOCAL_SERVER_INIT;

		assert_int_equal(local_server_start(p->fd, &how, &second, &e), -1);
		assert_int_equal(e.code, ERR_CONFLICT);
	}
	assert_int_equal(local_server_stop(p->fd, &found, 5000, &e), 0);
	assert_int_equal(local_server_find(p->fd, &found, &e), 0);
	assert_int_equal(process_wait(started.pidfd, 5000, &end, &e), 0);
	assert_true(end.by_signal);
	assert_int_equal(local_server_find(p->fd, &found, &e), 0);
}

static void somebody_else_with_the_same_number_is_left_alone(void **state)
{
	struct place *p = *state;
	AUTO(local_server_done) struct local_server started = LOCAL_SERVER_INIT;
	AUTO(local_server_done) struct local_server found = LOCAL_SERVER_INIT;
	AUTO(buf_done) struct buf text = BUF_INIT(4096);
	struct local_start how = { .program = sleep_argv[0], .argv = sleep_argv, .address = "127.0.0.1:1", .log = -1 };
	struct process_end end;
	struct err e = { 0 };
	char *at;

	assert_int_equal(local_server_start(p->fd, &how, &started, &e), 0);
	assert_int_equal(fd_read_file(p->fd, LOCAL_RECORD, 4096, &text, &e), 0);
	at = strchr(text.p, ')');
	for (int i = 0; i < 20; i++) /* to the time of its birth */
		at = strchr(at + 1, ' ');
	at[1] = at[1] == '9' ? '8' : '9';
	assert_int_equal(file_replace(p->fd, LOCAL_RECORD, buf_str(&text), 0600, &e), 0);
	assert_int_equal(local_server_find(p->fd, &found, &e), 0);
	assert_int_equal(process_kill_and_wait(started.pidfd, 5000, &end, &e), 0);
}

static void one_that_has_ended_is_not_there_even_if_nobody_collected_it(void **state)
{
	struct place *p = *state;
	AUTO(local_server_done) struct local_server started = LOCAL_SERVER_INIT;
	AUTO(local_server_done) struct local_server found = LOCAL_SERVER_INIT;
	struct local_start how = { .program = sleep_argv[0], .argv = sleep_argv, .address = "127.0.0.1:1", .log = -1 };
	struct process_end end;
	struct err e = { 0 };

	assert_int_equal(local_server_start(p->fd, &how, &started, &e), 0);
	assert_int_equal(process_signal(started.pidfd, SIGKILL, &e), 0);
	assert_int_equal(local_server_wait(&started, 5000), 1);
	assert_int_equal(local_server_find(p->fd, &found, &e), 0);
	assert_int_equal(process_wait(started.pidfd, 5000, &end, &e), 0);
}

static void the_end_of_one_is_not_taken_for_that_of_the_next(void **state)
{
	struct place *p = *state;
	AUTO(local_server_done) struct local_server first = LOCAL_SERVER_INIT;
	AUTO(local_server_done) struct local_server next = LOCAL_SERVER_INIT;
	AUTO(local_server_done) struct local_server found = LOCAL_SERVER_INIT;
	struct local_start how = { .program = sleep_argv[0], .argv = sleep_argv, .address = "127.0.0.1:1", .log = -1 };
	struct process_end end;
	struct err e = { 0 };

	assert_int_equal(local_server_start(p->fd, &how, &first, &e), 0);
	assert_int_equal(process_signal(first.pidfd, SIGKILL, &e), 0);
	assert_int_equal(local_server_wait(&first, 5000), 1);
	assert_int_equal(local_server_start(p->fd, &how, &next, &e), 0);
	assert_int_equal(local_server_stop(p->fd, &first, 5000, &e), 0); /* by one who found it before */
	assert_int_equal(local_server_find(p->fd, &found, &e), 1);
	assert_int_equal(found.pid, next.pid);
	assert_int_equal(process_kill_and_wait(next.pidfd, 5000, &end, &e), 0);
}

static void a_program_that_cannot_start_leaves_no_record(void **state)
{
	struct place *p = *state;
	struct local_server s = LOCAL_SERVER_INIT;
	struct local_start how = { .program = "/nonexistent", .argv = sleep_argv, .address = "127.0.0.1:1", .log = -1 };
	struct err e = { 0 };

	assert_int_equal(local_server_start(p->fd, &how, &s, &e), -1);
	assert_int_equal(faccessat(p->fd, LOCAL_RECORD, F_OK, 0), -1);
	assert_int_equal(local_server_find(p->fd, &s, &e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_are_read_as_they_are_written),
		cmocka_unit_test(damaged_records_are_refused),
		cmocka_unit_test_setup_teardown(what_was_started_is_found_and_ended, make_place, remove_place),
		cmocka_unit_test_setup_teardown(somebody_else_with_the_same_number_is_left_alone, make_place, remove_place),
		cmocka_unit_test_setup_teardown(one_that_has_ended_is_not_there_even_if_nobody_collected_it, make_place, remove_place),
		cmocka_unit_test_setup_teardown(the_end_of_one_is_not_taken_for_that_of_the_next, make_place, remove_place),
		cmocka_unit_test_setup_teardown(a_program_that_cannot_start_leaves_no_record, make_place, remove_place),
	};

	signals_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
