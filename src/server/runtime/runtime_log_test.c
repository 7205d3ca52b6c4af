// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/guest.h"
#include "server/runtime/runtime.h"
#include "server/runtime/runtime_log.h"

#include "base/banned.h"

static int segment(const char *text, time_t changed)
{
	int fd = memfd_create("segment", MFD_CLOEXEC);
	const struct timespec times[2] = { { .tv_sec = changed }, { .tv_sec = changed } };

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(futimens(fd, times), 0);
	return fd;
}

#define OLD "2001-01-01T00:00:00.000000001Z "
#define NEW "2999-01-01T00:00:00.000000001Z "

static void expect(const int segments[2], unsigned tail, uint64_t since_ms, size_t room, const char *want, bool want_cut)
{
	AUTO(buf_done) struct buf text = BUF_INIT(room);
	struct runtime_log_query query = { tail, since_ms };
	bool is_cut = !want_cut;

	assert_int_equal(runtime_log_read(segments, &query, &text, &is_cut, &(struct err){ 0 }), 0);
	assert_string_equal(buf_z(&text), want);
	assert_int_equal(is_cut, want_cut);
}

static void the_older_segment_comes_first(void **state)
{
	int fds[2] = { segment(NEW "c\n" NEW "d\n", 2000), segment(OLD "a\n" OLD "b\n", 1000) };

	(void)state;
	expect(fds, 100, 0, 4096, OLD "a\n" OLD "b\n" NEW "c\n" NEW "d\n", false);
	expect(fds, 3, 0, 4096, OLD "b\n" NEW "c\n" NEW "d\n", false);
	expect(fds, 1, 0, 4096, NEW "d\n", false);
	expect(fds, 100, 3600000, 4096, NEW "c\n" NEW "d\n", false);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void an_unfinished_line_is_given_as_it_is(void **state)
{
	int fds[2] = { segment("", 1000), segment(NEW "a\n" NEW "b", 2000) };

	(void)state;
	expect(fds, 1, 0, 4096, NEW "b", false);
	expect(fds, 2, 0, 4096, NEW "a\n" NEW "b", false);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void what_does_not_fit_is_the_oldest_and_is_cut_between_lines(void **state)
{
	int fds[2] = { segment(OLD "x\n", 1000), segment(NEW "a\n" NEW "b\n", 2000) };

	(void)state;
	expect(fds, 3, 0, sizeof(NEW) + 10, NEW "b\n", true);
	expect(fds, 3, 0, 2 * sizeof(NEW "a"), NEW "a\n" NEW "b\n", true);
	expect(fds, 3, 3600000, 2 * sizeof(NEW "a"), NEW "a\n" NEW "b\n", false);
	expect(fds, 3, 0, 5, "", true);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void a_segment_beyond_its_size_is_refused(void **state)
{
	int fds[2] = { segment("", 1000), segment("x", 2000) };
	AUTO(buf_done) struct buf text = BUF_INIT(RUNTIME_LOG_MAX);
	struct runtime_log_query query = { 10, 0 };
	bool is_cut;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(ftruncate(fds[1], 64 << 20), 0);
	assert_int_equal(runtime_log_read(fds, &query, &text, &is_cut, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_older_segment_comes_first),
		cmocka_unit_test(an_unfinished_line_is_given_as_it_is),
		cmocka_unit_test(what_does_not_fit_is_the_oldest_and_is_cut_between_lines),
		cmocka_unit_test(a_segment_beyond_its_size_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
