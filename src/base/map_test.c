// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/map.h"

#include "base/banned.h"

static void an_empty_map_has_nothing(void **state)
{
	AUTO(map_done) struct map m = MAP_INIT;
	size_t i = 0;

	(void)state;
	assert_null(map_get(&m, STR("a")));
	assert_null(map_del(&m, STR("a")));
	assert_null(map_next(&m, &i, NULL));
}

static void what_is_put_is_found(void **state)
{
	AUTO(map_done) struct map m = MAP_INIT;
	int one = 1, two = 2;

	(void)state;
	assert_true(map_put(&m, STR("one"), &one));
	assert_true(map_put(&m, STR("two"), &two));
	assert_ptr_equal(map_get(&m, STR("one")), &one);
	assert_ptr_equal(map_get(&m, STR("two")), &two);
	assert_null(map_get(&m, STR("three")));
	assert_int_equal(m.n, 2);
}

static void keys_are_bytes(void **state)
{
	AUTO(map_done) struct map m = MAP_INIT;
	int one = 1, two = 2;

	(void)state;
	assert_true(map_put(&m, STR("a\0b"), &one));
	assert_true(map_put(&m, (struct str){ 0 }, &two));
	assert_null(map_get(&m, STR("a\0c")));
	assert_ptr_equal(map_get(&m, STR("a\0b")), &one);
	assert_ptr_equal(map_get(&m, STR("")), &two);
}

static void putting_again_replaces_value_and_key(void **state)
{
	AUTO(map_done) struct map m = MAP_INIT;
	char first[] = "key", second[] = "key";
	int one = 1, two = 2;
	struct str key;
	size_t i = 0;

	(void)state;
	assert_true(map_put(&m, str_of(first), &one));
	assert_true(map_put(&m, str_of(second), &two));
	memset(first, 'x', 3); /* the old key may die with the old value */
	assert_int_equal(m.n, 1);
	assert_ptr_equal(map_get(&m, STR("key")), &two);
	assert_ptr_equal(map_next(&m, &i, &key), &two);
	assert_ptr_equal(key.p, second);
}

#define MANY 3000
static char names[MANY][8];

static void name_all(void)
{
	for (int i = 0; i < MANY; i++)
		(void)snprintf(names[i], sizeof(names[i]), "k%d", i);
}

static void many_keys_survive_growth_and_deletion(void **state)
{
	AUTO(map_done) struct map m = MAP_INIT;
	size_t next = 0;

	(void)state;
	name_all();
	for (int i = 0; i < MANY; i++)
		assert_true(map_put(&m, str_of(names[i]), names[i]));
	assert_int_equal(m.n, MANY);
	assert_true(m.n <= m.cap / 4 * 3);
	for (int i = 0; i < MANY; i += 2)
		assert_ptr_equal(map_del(&m, str_of(names[i])), names[i]);
	assert_int_equal(m.n, MANY / 2);
	for (int i = 0; i < MANY; i++)
		assert_ptr_equal(map_get(&m, str_of(names[i])), i % 2 ? names[i] : NULL);
	for (int i = 1; i < MANY; i += 2)
		assert_ptr_equal(map_del(&m, str_of(names[i])), names[i]);
	assert_int_equal(m.n, 0);
	assert_null(map_next(&m, &next, NULL));
}

/* A small full table, keys coming and going: every run of slots is moved about, also across the table's end. */
static void a_churning_map_agrees_with_a_list(void **state)
{
	AUTO(map_done) struct map m = MAP_INIT;
	bool has[40] = { 0 };
	size_t count = 0;
	uint32_t dice = 12345;

	(void)state;
	name_all();
	for (int step = 0; step < 20000; step++) {
		size_t k;

		dice = dice * 1664525 + 1013904223;
		k = (dice >> 16) % ARRAY_LEN(has);
		if (has[k])
			assert_ptr_equal(map_del(&m, str_of(names[k])), names[k]);
		else
			assert_true(map_put(&m, str_of(names[k]), names[k]));
		has[k] = !has[k];
		count = has[k] ? count + 1 : count - 1;
		assert_int_equal(m.n, count);
		for (size_t i = 0; step % 50 == 0 && i < ARRAY_LEN(has); i++)
			assert_ptr_equal(map_get(&m, str_of(names[i])), has[i] ? names[i] : NULL);
	}
}

static void iteration_visits_each_entry_once(void **state)
{
	AUTO(map_done) struct map m = MAP_INIT;
	int seen[100] = { 0 };
	struct str key;
	int *v;

	(void)state;
	name_all();
	for (int i = 0; i < 100; i++)
		assert_true(map_put(&m, str_of(names[i]), &seen[i]));
	for (size_t i = 0; (v = map_next(&m, &i, &key));) {
		(*v)++;
		assert_true(str_is(key, names[v - seen]));
	}
	for (int i = 0; i < 100; i++)
		assert_int_equal(seen[i], 1);
}

static void each_map_has_its_own_seed(void **state)
{
	AUTO(map_done) struct map a = MAP_INIT;
	AUTO(map_done) struct map b = MAP_INIT;

	(void)state;
	assert_true(map_put(&a, STR("x"), &a));
	assert_true(map_put(&b, STR("x"), &b));
	assert_memory_not_equal(a.seed, b.seed, sizeof(a.seed));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_map_has_nothing),
		cmocka_unit_test(what_is_put_is_found),
		cmocka_unit_test(keys_are_bytes),
		cmocka_unit_test(putting_again_replaces_value_and_key),
		cmocka_unit_test(many_keys_survive_growth_and_deletion),
		cmocka_unit_test(a_churning_map_agrees_with_a_list),
		cmocka_unit_test(iteration_visits_each_entry_once),
		cmocka_unit_test(each_map_has_its_own_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
