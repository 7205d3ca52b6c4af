// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* wants the four above first */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "base/rfc3339.h"
#include "execd/command/record.h"
#include "execd/io/output.h"
#include "sys/process.h"

#include "base/banned.h"

static size_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (size_t)st.st_size;
}

static int memory(void)
{
	int fd = memfd_create("log", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void segments_are_filled_in_turn(void **state)
{
	AUTO_FD a = memory();
	AUTO_FD b = memory();
	struct segments sg = SEGMENTS_INIT(a, b, 10);
	char text[11] = { 0 };

	(void)state;
	segments_add(&sg, STR("1234"));
	segments_add(&sg, STR("567890"));
	assert_int_equal(size_of(a), 10);
	assert_int_equal(size_of(b), 0);
	segments_add(&sg, STR("abc"));
	assert_int_equal(size_of(b), 3);
	segments_add(&sg, STR("12345678"));
	assert_int_equal(size_of(a), 8);
	assert_int_equal(pread(a, text, 10, 0), 8);
	assert_string_equal(text, "12345678");
	segments_add(&sg, STR("xyz"));
	assert_int_equal(size_of(b), 3);
}

static void a_segment_that_cannot_be_written_costs_the_line_alone(void **state)
{
	AUTO_FD full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	AUTO_FD b = memory();
	struct segments sg = SEGMENTS_INIT(full, b, 100), none = SEGMENTS_INIT(-1, -1, 100);

	(void)state;
	segments_add(&sg, STR("lost"));
	assert_true(sg.is_lost && sg.used == 0);
	segments_add(&none, STR("nowhere"));
	assert_false(none.is_lost);
}

static void output_gets_a_time_for_each_line(void **state)
{
	AUTO_FD a = memory();
	AUTO_FD b = memory();
	struct segments sg = SEGMENTS_INIT(a, b, 1 << 20);
	struct err e = { 0 };
	AUTO(loop_free) struct loop *l = loop_new(&e);
	struct output o;
	char text[1024] = { 0 };
	struct str rest, line, stamp, word;
	struct timespec when;
	const char *want[] = { "one", "two", "", "tail" };
	int fds[2];

	(void)state;
	assert_non_null(l);
	output_init(&o, l, &sg);
	assert_int_equal(output_open(&o, fds, &e), 0);
	assert_int_equal(write(fds[0], "one\ntw", 6), 6);
	output_collect(&o);
	assert_int_equal(write(fds[0], "o\n\ntail", 7), 7);
	assert_int_equal(loop_turn(l, 1000, &e), 0);
	(void)close(fds[0]);
	assert_int_equal(loop_turn(l, 1000, &e), 0);
	assert_int_equal(o.pipes[0].fd, -1);
	(void)close(fds[1]);
	output_done(&o);
	assert_true(pread(a, text, sizeof(text) - 1, 0) > 0);
	rest = str_of(text);
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		assert_true(str_cut(rest, '\n', &line, &rest));
		assert_true(str_cut(line, ' ', &stamp, &word));
		assert_int_equal(rfc3339_parse(stamp, 0, &when, &e), 0);
		assert_true(str_is(word, want[i]));
	}
	assert_int_equal(rest.n, 0);
}

static void a_long_line_is_split(void **state)
{
	AUTO_FD a = memory();
	AUTO_FD b = memory();
	struct segments sg = SEGMENTS_INIT(a, b, 1 << 20);
	struct err e = { 0 };
	AUTO(loop_free) struct loop *l = loop_new(&e);
	struct output o;
	char text[OUTPUT_LINE_MAX + 100];
	int fds[2];

	(void)state;
	assert_non_null(l);
	output_init(&o, l, &sg);
	assert_int_equal(output_open(&o, fds, &e), 0);
	memset(text, 'x', sizeof(text));
	assert_int_equal(write(fds[1], text, sizeof(text)), sizeof(text));
	output_collect(&o);
	(void)close(fds[0]);
	(void)close(fds[1]);
	output_collect(&o);
	output_done(&o);
	assert_in_range(size_of(a), sizeof(text) + 2 * 22, sizeof(text) + 2 * RFC3339_SIZE + 4);
}

static void records_are_whole_and_text_is_cut_between_characters(void **state)
{
	AUTO_FD fd = memory();
	char text[GUEST_RECORD_TEXT + 10];
	struct guest_record r;
	struct err e;

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text + GUEST_RECORD_TEXT - 3, "\xe2\x82\xac", 4);
	(void)err_set(&e, ERR_INVALID, "%s", text);
	record_failed(fd, &e, true);
	record_exited(fd, &(struct process_end){ .by_signal = true, .code = 9 }, true);
	record_exited(-1, &(struct process_end){ 0 }, false);
	assert_int_equal(size_of(fd), 2 * sizeof(r));
	assert_int_equal(pread(fd, &r, sizeof(r), 0), sizeof(r));
	assert_true(r.magic == GUEST_RECORD_MAGIC && r.version == GUEST_RECORD_VERSION && r.kind == GUEST_FAILED);
	assert_int_equal(r.flags, GUEST_FLAG_IMAGE);
	assert_int_equal(strlen(r.text), GUEST_RECORD_TEXT - 3);
	assert_int_equal(pread(fd, &r, sizeof(r), sizeof(r)), sizeof(r));
	assert_true(r.kind == GUEST_EXITED && r.exit_code == 137 && r.signal == 9 && r.flags == GUEST_FLAG_OOM);
	assert_true(r.time_ns > INT64_C(1600000000000000000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_are_filled_in_turn),
		cmocka_unit_test(a_segment_that_cannot_be_written_costs_the_line_alone),
		cmocka_unit_test(output_gets_a_time_for_each_line),
		cmocka_unit_test(a_long_line_is_split),
		cmocka_unit_test(records_are_whole_and_text_is_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
