// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#include "base/banned.h"

static void a_new_buffer_is_an_empty_string(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(8);

	(void)state;
	assert_string_equal(buf_z(&b), "");
	assert_int_equal(buf_str(&b).n, 0);
}

static void append_stops_at_the_ceiling(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(8);

	(void)state;
	assert_true(buf_add(&b, "1234567", 7));
	assert_true(buf_add_char(&b, '8'));
	assert_false(buf_add(&b, "9", 1));
	assert_true(b.failed);
	assert_int_equal(b.n, 8);
	assert_memory_equal(b.p, "12345678", 9);
}

static void after_a_failure_nothing_is_added(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(4);

	(void)state;
	assert_true(buf_add_str(&b, STR("ab")));
	assert_false(buf_addf(&b, "%s", "cdef"));
	assert_false(buf_add(&b, "c", 1));
	assert_false(buf_addf(&b, "c"));
	assert_null(buf_reserve(&b, 1));
	assert_string_equal(b.p, "ab");
	buf_clear(&b);
	assert_false(b.failed);
	assert_string_equal(b.p, "");
	assert_true(buf_add(&b, "wxyz", 4));
	assert_string_equal(b.p, "wxyz");
}

static void growth_keeps_the_content(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(10000);

	(void)state;
	for (int i = 0; i < 2000; i++)
		assert_true(buf_addf(&b, "%04d,", i));
	assert_int_equal(b.n, 10000);
	assert_true(b.cap <= b.max + 1);
	for (int i = 0; i < 2000; i++) {
		char want[8];

		(void)snprintf(want, sizeof(want), "%04d,", i);
		assert_memory_equal(b.p + (size_t)5 * (size_t)i, want, 5);
	}
	assert_int_equal(b.p[b.n], '\0');
}

static void nothing_may_be_added_to_nothing(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(0);

	(void)state;
	assert_true(buf_add(&b, NULL, 0));
	assert_string_equal(b.p, "");
	assert_false(buf_add(&b, "x", 1));
}

static void reserved_room_becomes_content_by_commit(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(100);
	char *at;

	(void)state;
	assert_true(buf_add(&b, "ab", 2));
	at = buf_reserve(&b, 98);
	assert_non_null(at);
	memset(at, 'c', 98);
	buf_commit(&b, 3);
	assert_string_equal(b.p, "abccc");
	buf_commit(&b, 0);
	assert_string_equal(b.p, "abccc");
	assert_null(buf_reserve(&b, 96));
}

static void huge_sizes_are_refused(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(SIZE_MAX);

	(void)state;
	assert_null(buf_reserve(&b, SIZE_MAX));
	buf_clear(&b);
	assert_true(buf_add(&b, "x", 1));
	assert_null(buf_reserve(&b, SIZE_MAX - 1));
	buf_clear(&b);
	assert_true(buf_add(&b, "x", 1));
	assert_null(buf_reserve(&b, SIZE_MAX));
	assert_string_equal(b.p, "x");
}

static void consumed_bytes_leave_at_the_front(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(16);

	(void)state;
	buf_consume(&b, 0);
	assert_true(buf_add(&b, "abcdef", 6));
	buf_consume(&b, 0);
	buf_consume(&b, 2);
	assert_string_equal(b.p, "cdef");
	buf_consume(&b, 4);
	assert_int_equal(b.n, 0);
	assert_string_equal(b.p, "");
}

static void a_buffer_is_usable_after_done(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(2);

	(void)state;
	assert_false(buf_add(&b, "abc", 3));
	buf_done(&b);
	assert_false(b.failed);
	assert_true(buf_add(&b, "ab", 2));
	assert_false(buf_add(&b, "c", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_buffer_is_an_empty_string),
		cmocka_unit_test(append_stops_at_the_ceiling),
		cmocka_unit_test(after_a_failure_nothing_is_added),
		cmocka_unit_test(growth_keeps_the_content),
		cmocka_unit_test(nothing_may_be_added_to_nothing),
		cmocka_unit_test(reserved_room_becomes_content_by_commit),
		cmocka_unit_test(huge_sizes_are_refused),
		cmocka_unit_test(consumed_bytes_leave_at_the_front),
		cmocka_unit_test(a_buffer_is_usable_after_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
