// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

#include "base/banned.h"

static void set_fills_code_and_message(void **state)
{
	struct err e = { .sys = EIO };

	(void)state;
	assert_int_equal(err_set(&e, ERR_CONFLICT, "box '%s' is %d", "ab12", 3), -1);
	assert_int_equal(e.code, ERR_CONFLICT);
	assert_int_equal(e.sys, 0);
	assert_string_equal(e.msg, "box 'ab12' is 3");
}

static void sys_appends_the_text_of_errno(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(err_sys(&e, EPERM, "mount '%s'", "/proc"), -1);
	assert_int_equal(e.sys, EPERM);
	assert_string_equal(e.msg, "mount '/proc': Operation not permitted");
}

/* The sanitizer's allocator knows its own total, libc's the other. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t heap_bytes(void)
{
	if (__sanitizer_get_current_allocated_bytes)
		return __sanitizer_get_current_allocated_bytes();
	return mallinfo2().uordblks;
}

static void sys_uses_no_heap_even_for_a_number_without_text(void **state)
{
	struct err e = { 0 };
	size_t before;

	(void)state;
	before = heap_bytes();
	(void)err_sys(&e, 98765, "x");
	(void)err_sys(&e, EPERM, "x");
	assert_int_equal(heap_bytes(), before);
	(void)err_sys(&e, 98765, "x");
	assert_string_equal(e.msg, "x: Unknown error 98765");
}

static void codes_follow_from_errno(void **state)
{
	static const struct {
		int sys;
		enum err_code want;
	} cases[] = {
		{ ENOENT, ERR_NOT_FOUND }, { ESRCH, ERR_NOT_FOUND },	 { EEXIST, ERR_CONFLICT },
		{ EBUSY, ERR_CONFLICT },   { EACCES, ERR_DENIED },	 { EROFS, ERR_DENIED },
		{ EMFILE, ERR_LIMIT },	   { ENOSPC, ERR_LIMIT },	 { ETIMEDOUT, ERR_TIMEOUT },
		{ ENOMEM, ERR_UNAVAILABLE }, { ENOSYS, ERR_UNAVAILABLE }, { EINVAL, ERR_INVALID },
		{ ELOOP, ERR_INVALID },	   { EIO, ERR_IO },		 { 9999, ERR_IO },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };

		(void)err_sys(&e, cases[i].sys, "x");
		assert_int_equal(e.code, cases[i].want);
	}
}

static void wrap_puts_context_in_front_and_keeps_the_rest(void **state)
{
	struct err e = { 0 };

	(void)state;
	(void)err_sys(&e, ENOENT, "open 'a'");
	assert_int_equal(err_wrap(&e, "start '%s'", "ab12"), -1);
	assert_int_equal(err_wrap(&e, "request %d", 7), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
	assert_int_equal(e.sys, ENOENT);
	assert_string_equal(e.msg, "request 7: start 'ab12': open 'a': No such file or directory");
}

static void long_messages_are_cut_and_terminated(void **state)
{
	char text[1024];
	struct err e = { 0 };

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void)err_sys(&e, ENOENT, "%s", text);
	assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
	(void)err_wrap(&e, "%s", "context");
	assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
	assert_memory_equal(e.msg, "context: xxx", 12);
	(void)err_wrap(&e, "%s", text);
	assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
}

static void out_of_memory_is_an_ordinary_error(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(err_no_memory(&e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	assert_int_equal(e.sys, ENOMEM);
	assert_string_equal(e.msg, "out of memory");
}

static void a_full_disk_is_told_from_other_limits(void **state)
{
	struct err e = { 0 };

	(void)state;
	(void)err_sys(&e, ENOSPC, "write");
	assert_true(err_is_disk_full(&e));
	(void)err_sys(&e, EDQUOT, "write");
	(void)err_wrap(&e, "save");
	assert_true(err_is_disk_full(&e));
	(void)err_sys(&e, EMFILE, "open");
	assert_false(err_is_disk_full(&e));
	(void)err_set(&e, ERR_UNAVAILABLE, "no limits of disks here");
	e.sys = EDQUOT; /* as box/store.h says that a driver has none */
	assert_false(err_is_disk_full(&e));
}

static void every_code_has_a_name(void **state)
{
	(void)state;
	assert_string_equal(err_code_name(ERR_NONE), "none");
	assert_string_equal(err_code_name(ERR_NOT_FOUND), "not-found");
	assert_string_equal(err_code_name(ERR_INTERNAL), "internal");
	for (int i = ERR_NONE; i <= ERR_INTERNAL; i++)
		assert_non_null(err_code_name((enum err_code)i));
}

static void a_code_from_elsewhere_has_a_name_too(void **state)
{
	(void)state;
	assert_string_equal(err_code_name((enum err_code)(ERR_INTERNAL + 1)), "unknown");
	assert_string_equal(err_code_name((enum err_code)0xffffffff), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_fills_code_and_message),
		cmocka_unit_test(sys_appends_the_text_of_errno),
		cmocka_unit_test(sys_uses_no_heap_even_for_a_number_without_text),
		cmocka_unit_test(codes_follow_from_errno),
		cmocka_unit_test(wrap_puts_context_in_front_and_keeps_the_rest),
		cmocka_unit_test(long_messages_are_cut_and_terminated),
		cmocka_unit_test(out_of_memory_is_an_ordinary_error),
		cmocka_unit_test(a_full_disk_is_told_from_other_limits),
		cmocka_unit_test(every_code_has_a_name),
		cmocka_unit_test(a_code_from_elsewhere_has_a_name_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
