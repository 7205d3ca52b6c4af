// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/arena.h"

#include "base/banned.h"

static bool is_zero(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

static void memory_is_zeroed_and_aligned(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);

	(void)state;
	for (size_t n = 0; n < 300; n++) {
		char *p = arena_alloc(&a, n);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 16, 0);
		assert_true(is_zero(p, n));
		memset(p, 0xff, n);
	}
}

static void objects_do_not_overlap(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1 << 20);
	char *objects[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(objects); i++) {
		objects[i] = arena_alloc(&a, 1 + i * 7);
		assert_non_null(objects[i]);
		memset(objects[i], (int)i, 1 + i * 7);
	}
	for (size_t i = 0; i < ARRAY_LEN(objects); i++)
		for (size_t j = 0; j < 1 + i * 7; j++)
			assert_int_equal((unsigned char)objects[i][j], i);
}

static void the_ceiling_holds(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(4096);
	size_t got = 0;

	(void)state;
	assert_null(arena_alloc(&a, 4097));
	while (arena_alloc(&a, 64))
		got += 64;
	assert_int_equal(got, 4096);
	assert_true(a.used <= a.max);
	assert_null(arena_alloc(&a, 0));
}

static void sizes_that_overflow_are_refused(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(SIZE_MAX);

	(void)state;
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(arena_alloc(&a, SIZE_MAX - 15));
	assert_null(arena_array(&a, SIZE_MAX / 8 + 1, 8));
	assert_null(arena_strndup(&a, "", SIZE_MAX));
	assert_non_null(arena_array(&a, 8, 8));
}

static void an_object_larger_than_a_block_gets_its_own(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(8 << 20);
	char *small = arena_alloc(&a, 10);
	char *large = arena_alloc(&a, 1 << 20);

	(void)state;
	assert_non_null(small);
	assert_non_null(large);
	memset(large, 1, 1 << 20);
	assert_true(is_zero(small, 10));
}

static void reset_forgets_but_keeps_a_block(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(8192);
	size_t used;

	(void)state;
	arena_reset(&a);
	assert_int_equal(a.used, 0);
	while (arena_alloc(&a, 100))
		;
	arena_reset(&a);
	used = a.used;
	assert_true(used > 0 && used <= 8192);
	for (int i = 0; i < 100; i++) {
		char *p = arena_alloc(&a, 100);

		assert_non_null(p);
		assert_true(is_zero(p, 100));
		memset(p, 0xff, 100);
		arena_reset(&a);
	}
	assert_int_equal(a.used, used);
}

static void reset_lets_go_of_a_large_block(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(8 << 20);

	(void)state;
	assert_non_null(arena_alloc(&a, 1 << 20));
	arena_reset(&a);
	assert_int_equal(a.used, 0);
	for (int i = 0; i < 4; i++)
		assert_non_null(arena_alloc(&a, 100 * 1024));
	assert_non_null(arena_alloc(&a, 1 << 20));
	arena_reset(&a);
	assert_true(a.used > 0 && a.used <= ARENA_BLOCK_MAX); /* an older one stays instead */
	assert_non_null(arena_alloc(&a, a.used));
	assert_true(a.used <= ARENA_BLOCK_MAX);
}

static void strings_are_copied_with_a_terminator(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(4096);
	char text[] = "hello";
	char *copy = arena_dup(&a, (struct str){ text, 4 });

	(void)state;
	text[0] = 'j';
	assert_string_equal(copy, "hell");
	assert_string_equal(arena_dup(&a, (struct str){ 0 }), "");
	assert_string_equal(arena_printf(&a, "%s-%d", "box", 7), "box-7");
}

static void formatted_text_obeys_the_ceiling(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(64);

	(void)state;
	assert_null(arena_printf(&a, "%100d", 1));
	assert_string_equal(arena_printf(&a, "%62d", 1) + 61, "1");
}

static void an_arena_is_usable_after_done(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(64);

	(void)state;
	assert_non_null(arena_alloc(&a, 64));
	assert_null(arena_alloc(&a, 1));
	arena_done(&a);
	assert_int_equal(a.used, 0);
	assert_non_null(arena_alloc(&a, 64));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_zeroed_and_aligned),
		cmocka_unit_test(objects_do_not_overlap),
		cmocka_unit_test(the_ceiling_holds),
		cmocka_unit_test(sizes_that_overflow_are_refused),
		cmocka_unit_test(an_object_larger_than_a_block_gets_its_own),
		cmocka_unit_test(reset_forgets_but_keeps_a_block),
		cmocka_unit_test(reset_lets_go_of_a_large_block),
		cmocka_unit_test(strings_are_copied_with_a_terminator),
		cmocka_unit_test(formatted_text_obeys_the_ceiling),
		cmocka_unit_test(an_arena_is_usable_after_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
