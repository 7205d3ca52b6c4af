// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/encoding.h"

#include "base/banned.h"

static void texts_are_converted_both_ways(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1024 * 1024);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(encoding_convert("Latin-1", "UTF-8", STR("caf\351"), &b, &e), 0);
	assert_string_equal(buf_z(&b), "caf\303\251");
	buf_clear(&b);
	assert_int_equal(encoding_convert("UTF-8", "UTF-16LE", STR("a\303\251"), &b, &e), 0);
	assert_int_equal(b.n, 4);
	assert_memory_equal(b.p, "a\0\351\0", 4);
	buf_clear(&b);
	assert_int_equal(encoding_convert("latin1", "UTF-8", STR(""), &b, &e), 0);
	assert_int_equal(b.n, 0);
}

static void what_does_not_fit_is_refused(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1024 * 1024);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(encoding_convert("UTF-8", "latin1", STR("x\342\202\254"), &b, &e), -1);
	assert_string_equal(e.msg, "encoding 'latin1': byte 1 is not of that encoding");
	assert_int_equal(encoding_convert("klingon", "UTF-8", STR("x"), &b, &e), -1);
	assert_string_equal(e.msg, "encoding 'klingon' is not known here");
}

static void long_texts_come_in_pieces(void **state)
{
	AUTO(buf_done) struct buf in = BUF_INIT(1024 * 1024), out = BUF_INIT(1024 * 1024);
	struct err e = { 0 };

	(void)state;
	for (int i = 0; i < 100000; i++)
		buf_add_char(&in, '\351');
	assert_int_equal(encoding_convert("latin1", "UTF-8", buf_str(&in), &out, &e), 0);
	assert_int_equal(out.n, 200000);
	assert_true(encoding_is_utf8("UTF8"));
	assert_false(encoding_is_utf8("utf-16"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_converted_both_ways),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(long_texts_come_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
