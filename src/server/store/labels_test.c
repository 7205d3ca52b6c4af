// SPDX-License-Identifier: Apache-2.0
#include "server/store/labels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/err.h"

#include "base/banned.h"

#define A63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void keys_follow_the_rules_of_labels(void **state)
{
	static const struct {
		const char *key;
		bool ok;
	} rows[] = {
		{ "a", true },         { "A-b_c.9", true },  { A63, true },          { "example.com/x", true },
		{ "a-b.c/x", true },   { "", false },        { "-a", false },        { "a-", false },
		{ "a b", false },      { A63 "a", false },   { "/a", false },        { "a/", false },
		{ "A.b/x", false },    { "a..b/x", false },  { "-a/x", false },      { "a-/x", false },
		{ "a/b/c", false },    { "a_b/x", false },   { "\xc3\xa4", false },  { "a=b", false },
	};
	char prefix[260];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if ((label_check_key(str_of(rows[i].key)) == NULL) != rows[i].ok)
			fail_msg("'%s'", rows[i].key);
	memset(prefix, 'a', sizeof(prefix));
	memcpy(prefix + 253, "/x", 3);
	assert_null(label_check_key(str_of(prefix)));
	memcpy(prefix + 253, "a/x", 4);
	assert_non_null(label_check_key(str_of(prefix)));
}

static void values_may_be_empty(void **state)
{
	(void)state;
	assert_null(label_check_value(STR("")));
	assert_null(label_check_value(STR("a.b-c_1")));
	assert_null(label_check_value(STR(A63)));
	assert_non_null(label_check_value(STR(A63 "a")));
	assert_non_null(label_check_value(STR("a b")));
	assert_non_null(label_check_value(STR(".")));
	assert_true(label_is_reserved(STR("opensandbox.io/id")));
	assert_false(label_is_reserved(STR("opensandbox.io")));
}

static void a_patch_adds_replaces_and_deletes(void **state)
{
	struct string_pair pairs[] = { { "a", "1" }, { "b", "2" }, { "c", "3" } };
	struct label_change changes[] = { { "b", NULL }, { "c", "4" }, { "d", "5" }, { "e", NULL } };
	AUTO(labels_free) struct labels *l = NULL;
	AUTO(labels_free) struct labels *to = NULL;
	struct err e = { 0 };

	(void)state;
	l = labels_new(&(struct string_map){ pairs, 3 }, &e);
	assert_non_null(l);
	to = labels_patch(l, changes, 4, &e);
	assert_non_null(to);
	assert_int_equal(to->map.n, 3);
	assert_string_equal(labels_get(to, "a"), "1");
	assert_null(labels_get(to, "b"));
	assert_string_equal(labels_get(to, "c"), "4");
	assert_string_equal(to->map.items[2].key, "d");
	assert_string_equal(labels_get(l, "c"), "3"); /* the old set is as it was */
}

static void there_is_a_ceiling(void **state)
{
	struct label_change changes[LABELS_MAX + 1];
	char names[LABELS_MAX + 1][8];
	AUTO(labels_free) struct labels *none = NULL;
	AUTO(labels_free) struct labels *full = NULL;
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		(void)snprintf(names[i], sizeof(names[i]), "k%zu", i);
		changes[i] = (struct label_change){ names[i], "v" };
	}
	none = labels_new(&(struct string_map){ 0 }, &e);
	full = labels_patch(none, changes, LABELS_MAX, &e);
	assert_non_null(full);
	assert_null(labels_patch(full, &changes[LABELS_MAX], 1, &e));
	assert_int_equal(e.code, ERR_LIMIT);
	labels_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_follow_the_rules_of_labels),
		cmocka_unit_test(values_may_be_empty),
		cmocka_unit_test(a_patch_adds_replaces_and_deletes),
		cmocka_unit_test(there_is_a_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
