// SPDX-License-Identifier: Apache-2.0
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <string.h>

#include "base/banned.h"

struct item {
	char name;
	struct list_node at;
};

/* Forwards and backwards, in names. */
static void check(const struct list *l, const char *want)
{
	const struct list_node *last = NULL;
	size_t n = 0;

	for (const struct list_node *at = l->first; at; last = at, at = at->next, n++) {
		assert_ptr_equal(at->prev, last);
		assert_true(n < strlen(want));
		assert_int_equal(LIST_ENTRY(at, struct item, at)->name, want[n]);
	}
	assert_ptr_equal(l->last, last);
	assert_int_equal(n, strlen(want));
	assert_int_equal(l->n, n);
}

static void what_is_put_in_stays_in_order(void **state)
{
	struct item a = { .name = 'a' }, b = { .name = 'b' }, c = { .name = 'c' }, d = { .name = 'd' };
	struct list l = { 0 };

	(void)state;
	check(&l, "");
	list_append(&l, &b.at);
	list_append(&l, &d.at);
	list_prepend(&l, &a.at);
	list_insert(&l, &c.at, &d.at);
	check(&l, "abcd");
	assert_ptr_equal(LIST_FIRST(&l, struct item, at), &a);
	assert_ptr_equal(LIST_LAST(&l, struct item, at), &d);
	assert_ptr_equal(LIST_NEXT(&b, at), &c);
	assert_null(LIST_NEXT(&d, at));
}

static void any_of_them_can_be_removed(void **state)
{
	struct item a = { .name = 'a' }, b = { .name = 'b' }, c = { .name = 'c' };
	struct list l = { 0 };

	(void)state;
	list_append(&l, &a.at);
	list_append(&l, &b.at);
	list_append(&l, &c.at);
	list_remove(&l, &b.at);
	check(&l, "ac");
	list_remove(&l, &c.at);
	check(&l, "a");
	list_append(&l, &b.at);
	list_remove(&l, &a.at);
	check(&l, "b");
	list_remove(&l, &b.at);
	check(&l, "");
	list_append(&l, &b.at);
	check(&l, "b");
}

static void taking_empties_it(void **state)
{
	struct item a = { .name = 'a' }, b = { .name = 'b' };
	struct list l = { 0 };

	(void)state;
	list_append(&l, &a.at);
	list_append(&l, &b.at);
	assert_ptr_equal(LIST_TAKE(&l, struct item, at), &a);
	check(&l, "b");
	assert_ptr_equal(LIST_TAKE(&l, struct item, at), &b);
	check(&l, "");
	assert_null(LIST_TAKE(&l, struct item, at));
}

static void a_walk_may_remove_where_it_is(void **state)
{
	struct item items[] = { { .name = 'a' }, { .name = 'b' }, { .name = 'c' }, { .name = 'd' } };
	struct list l = { 0 };
	unsigned n = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(items); i++)
		list_append(&l, &items[i].at);
	LIST_EACH (struct item, it, &l, at) {
		if (n++ % 2 == 0) {
			list_remove(&l, &it->at);
			memset(it, 0, sizeof(*it));
		}
	}
	assert_int_equal(n, 4);
	check(&l, "bd");
	LIST_EACH (const struct item, it, &l, at)
		n++;
	assert_int_equal(n, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_in_stays_in_order),
		cmocka_unit_test(any_of_them_can_be_removed),
		cmocka_unit_test(taking_empties_it),
		cmocka_unit_test(a_walk_may_remove_where_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
