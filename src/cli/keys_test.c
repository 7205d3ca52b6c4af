// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/own.h"
#include "cli/keys.h"

#include "base/banned.h"

static const struct {
	const char *in, *want;
	enum keys_order order;
	size_t used;
} cases[] = {
	{ "ls\r", "ls\r", KEYS_NONE, 3 },
	{ "~.", "", KEYS_END, 2 },
	{ "ls\r~.more", "ls\r", KEYS_END, 5 },
	{ "ls ~.", "ls ~.", KEYS_NONE, 5 }, /* not at the beginning of a line */
	{ "~/bin\r", "~/bin\r", KEYS_NONE, 6 },
	{ "~~\r", "~\r", KEYS_NONE, 3 },
	{ "~~.", "~.", KEYS_NONE, 3 },
	{ "\r~d", "\r", KEYS_DETACH, 3 },
	{ "\n~?x", "\n", KEYS_HELP, 3 },
	{ "~", "", KEYS_NONE, 1 },
	{ "~\r~.", "~\r", KEYS_END, 4 },
};

static void keys_are_the_same_in_one_piece_and_in_many(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf whole = BUF_INIT(64);
		AUTO(buf_done) struct buf pieces = BUF_INIT(64);
		struct keys a = { 0 }, b = { 0 };
		enum keys_order order = KEYS_NONE;
		size_t used = 0, n = 0, one;

		assert_int_equal(keys_feed(&a, cases[i].in, strlen(cases[i].in), &whole, &used), cases[i].order);
		assert_int_equal(used, cases[i].used);
		assert_string_equal(buf_z(&whole), cases[i].want);
		while (order == KEYS_NONE && n < strlen(cases[i].in)) {
			order = keys_feed(&b, cases[i].in + n, 1, &pieces, &one);
			n += one;
		}
		assert_int_equal(order, cases[i].order);
		assert_int_equal(n, cases[i].used);
		assert_string_equal(buf_z(&pieces), cases[i].want);
	}
}

static void nothing_is_looked_at_when_it_is_off(void **state)
{
	AUTO(buf_done) struct buf out = BUF_INIT(64);
	struct keys k = { .is_off = true };
	size_t used;

	(void)state;
	assert_int_equal(keys_feed(&k, "~.\r~d", 5, &out, &used), KEYS_NONE);
	assert_int_equal(used, 5);
	assert_string_equal(buf_z(&out), "~.\r~d");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_the_same_in_one_piece_and_in_many),
		cmocka_unit_test(nothing_is_looked_at_when_it_is_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
