// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/random.h"
#include "base/uuid.h"

#include "base/banned.h"

static void texts_have_the_form_of_version_4(void **state)
{
	AUTO(random_pool_done) struct random_pool pool = RANDOM_POOL_INIT;
	struct err e = { 0 };

	(void)state;
	for (int i = 0; i < 200; i++) {
		char id[UUID_LEN + 1];

		assert_int_equal(uuid_text(i % 2 ? &pool : NULL, id, &e), 0);
		assert_int_equal(strlen(id), UUID_LEN);
		assert_int_equal(strspn(id, "0123456789abcdef-"), UUID_LEN);
		assert_true(id[8] == '-' && id[13] == '-' && id[18] == '-' && id[23] == '-');
		assert_int_equal(id[14], '4');
		assert_non_null(strchr("89ab", id[19]));
		assert_true(id_valid(str_of(id)));
	}
}

static void the_short_form_has_no_dashes(void **state)
{
	char a[UUID_HEX_LEN + 1], b[UUID_HEX_LEN + 1];
	struct err e = { 0 };

	(void)state;
	assert_int_equal(uuid_hex32(NULL, a, &e), 0);
	assert_int_equal(uuid_hex32(NULL, b, &e), 0);
	assert_int_equal(strspn(a, "0123456789abcdef"), UUID_HEX_LEN);
	assert_int_equal(strlen(a), UUID_HEX_LEN);
	assert_int_equal(a[12], '4');
	assert_string_not_equal(a, b);
}

static void ids_are_checked_as_security_demands(void **state) /* A2 */
{
	static const char longest[] = "a23456789-123456789-123456789-123456789-123456789-123456789-123";
	static const struct {
		const char *in;
		bool ok;
	} cases[] = {
		{ "3f2b6c1e-9a44-4c1e-8d0b-2f6f1a7c9e10", true },
		{ "a", true },	     { "0", true },	{ "a-", true },	    { "--", false },
		{ longest, true },   { "", false },	{ "-a", false },    { "A", false },
		{ "a_b", false },    { "a.b", false },	{ "../a", false },  { "a/b", false },
		{ "a b", false },    { "a\n", false },	{ "a\x1b[0m", false }, { "\xc3\xa4", false },
		{ "`", false },	     { "{", false },	{ "a:", false },    { "a%00", false },
	};

	(void)state;
	assert_int_equal(strlen(longest), ID_MAX);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(id_valid(str_of(cases[i].in)), cases[i].ok);
	assert_false(id_valid(STR("a23456789-123456789-123456789-123456789-123456789-123456789-1234")));
	assert_false(id_valid(STR("a\0b")));
	assert_false(id_valid((struct str){ 0 }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_have_the_form_of_version_4),
		cmocka_unit_test(the_short_form_has_no_dashes),
		cmocka_unit_test(ids_are_checked_as_security_demands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
