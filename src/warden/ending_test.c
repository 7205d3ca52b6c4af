// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/own.h"
#include "sys/process.h"
#include "warden/ending.h"

#include "base/banned.h"

static struct guest_record record(uint16_t kind, int32_t code, int32_t signo, uint32_t flags, const char *text)
{
	struct guest_record r = { .magic = GUEST_RECORD_MAGIC, .version = GUEST_RECORD_VERSION, .kind = kind,
				  .exit_code = code, .signal = signo, .flags = flags };

	(void)snprintf(r.text, sizeof(r.text), "%s", text);
	return r;
}

static struct ending_records parse(const struct guest_record *r, size_t n)
{
	struct ending_records got;

	ending_parse((struct str){ (const char *)r, n * sizeof(*r) }, &got);
	return got;
}

static void the_first_exit_holds(void **state)
{
	const struct guest_record r[] = {
		record(GUEST_STARTED, 0, 0, 0, ""), record(GUEST_READY, 0, 0, 0, ""),
		record(GUEST_EXITED, 137, 9, GUEST_FLAG_OOM, ""), record(GUEST_EXITED, 0, 0, 0, ""),
	};
	struct ending_records got = parse(r, ARRAY_LEN(r));

	(void)state;
	assert_true(got.has_exited && !got.has_failed);
	assert_int_equal(got.exited.reason, WIRE_END_EXITED);
	assert_int_equal(got.exited.exit_code, 137);
	assert_int_equal(got.exited.signal, 9);
	assert_int_equal(got.exited.oom, 1);
}

static void records_that_are_not_well_formed_do_not_count(void **state)
{
	struct guest_record good = record(GUEST_EXITED, 3, 0, 0, ""), bad[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = good;
	bad[0].magic++;
	bad[1].version++;
	bad[2].kind = 0;
	bad[3].kind = GUEST_FAILED + 1;
	memset(bad[4].text, 'x', sizeof(bad[4].text));
	bad[5].exit_code = 256;
	bad[6].exit_code = -1;
	bad[7].signal = NSIG;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(parse(&bad[i], 1).has_exited);
	bad[7] = good;
	assert_true(parse(bad, ARRAY_LEN(bad)).has_exited); /* and keep nobody from the good one behind them */
}

static void only_so_many_are_looked_at(void **state)
{
	struct guest_record r[ENDING_RECORDS_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(r); i++)
		r[i] = record(GUEST_READY, 0, 0, 0, "");
	r[ENDING_RECORDS_MAX] = record(GUEST_EXITED, 3, 0, 0, "");
	assert_false(parse(r, ARRAY_LEN(r)).has_exited);
	assert_true(parse(r + 1, ARRAY_LEN(r) - 1).has_exited);
}

static void half_a_record_is_none(void **state)
{
	struct guest_record r = record(GUEST_EXITED, 3, 0, 0, "");
	struct ending_records got;

	(void)state;
	for (size_t n = 0; n < sizeof(r); n++) {
		ending_parse((struct str){ (const char *)&r, n }, &got);
		assert_false(got.has_exited);
	}
}

static void words_of_a_failure_are_made_harmless(void **state)
{
	char wide[GUEST_RECORD_TEXT];
	struct guest_record r[2] = { record(GUEST_FAILED, 0, 0, 0, "exec 'a\x1b[2J\nb\xff\"'"), record(GUEST_FAILED, 0, 0, 0, "later") };
	struct ending_records got = parse(r, 2);
	struct err e;

	(void)state;
	assert_true(got.has_failed);
	assert_string_equal(got.why, "exec 'a\\u001b[2J\\nb\\xff\\\"'");
	memset(wide, 1, sizeof(wide) - 1);
	wide[sizeof(wide) - 1] = '\0';
	assert_false(got.is_image);
	ending_failure(&got, &e);
	assert_true(e.code == ERR_INVALID && e.sys == 0 && str_starts(str_of(e.msg), STR("the entrypoint cannot be started: exec ")));
	r[0] = record(GUEST_FAILED, 0, 0, GUEST_FLAG_IMAGE, wide);
	got = parse(r, 1); /* escaped it is longer than there is room for */
	assert_true(got.has_failed && strlen(got.why) < sizeof(got.why) && strlen(got.why) % 6 == 0);
	assert_true(got.is_image);
	ending_failure(&got, &e);
	assert_int_equal(e.sys, WIRE_FAULT_IMAGE_START);
	assert_string_equal(e.msg, got.why);
}

static void how_it_ended_follows_from_what_is_known(void **state)
{
	static const struct process_end exited = { .code = 5 }, killed = { .by_signal = true, .code = SIGKILL },
					crashed = { .by_signal = true, .code = SIGSEGV };
	const struct ending_records none = { 0 }, told = { .has_exited = true, .exited = { .exit_code = 7 } };
	static const struct {
		bool has_record;
		const struct process_end *end;
		bool was_watched, had_oom;
		struct wire_ending want;
	} table[] = {
		{ true, &killed, true, true, { WIRE_END_EXITED, 7, 0, 0 } },
		{ true, NULL, false, false, { WIRE_END_EXITED, 7, 0, 0 } },
		{ false, &exited, true, false, { WIRE_END_INIT, 5, 0, 0 } },
		{ false, &killed, true, true, { WIRE_END_KILLED, 137, 9, 1 } },
		{ false, &crashed, true, false, { WIRE_END_INIT, 139, 11, 0 } },
		{ false, NULL, true, false, { WIRE_END_INIT, 0, 0, 0 } },
		{ false, NULL, false, true, { WIRE_END_LOST, 0, 0, 1 } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct wire_ending got = ending_of(table[i].has_record ? &told : &none, table[i].end, table[i].was_watched,
						   table[i].had_oom);

		assert_memory_equal(&got, &table[i].want, sizeof(got));
	}
}

static void a_state_file_that_is_none_has_no_records(void **state)
{
	char folder[] = "/tmp/ending.XXXXXX";
	struct guest_record r = record(GUEST_EXITED, 3, 0, 0, "");
	struct ending_records got = { .has_exited = true };
	int dir, fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ending_read(dir, &got);
	assert_false(got.has_exited);
	assert_int_equal(symlinkat("/etc/passwd", dir, ENDING_STATE_NAME), 0);
	ending_read(dir, &got);
	assert_false(got.has_exited);
	assert_int_equal(unlinkat(dir, ENDING_STATE_NAME, 0), 0);
	fd = openat(dir, ENDING_STATE_NAME, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, &r, sizeof(r)), sizeof(r));
	ending_read(dir, &got);
	assert_true(got.has_exited && got.exited.exit_code == 3);
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlinkat(dir, ENDING_STATE_NAME, 0), 0);
	assert_int_equal(close(dir), 0);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_exit_holds),
		cmocka_unit_test(records_that_are_not_well_formed_do_not_count),
		cmocka_unit_test(only_so_many_are_looked_at),
		cmocka_unit_test(half_a_record_is_none),
		cmocka_unit_test(words_of_a_failure_are_made_harmless),
		cmocka_unit_test(how_it_ended_follows_from_what_is_known),
		cmocka_unit_test(a_state_file_that_is_none_has_no_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
