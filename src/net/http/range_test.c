// SPDX-License-Identifier: Apache-2.0
#include "net/http/range.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/buf.h"

#include "base/banned.h"

struct range_case {
	const char *in;
	uint64_t size;
	enum range_result want;
	uint64_t first, length;
};

static void check(const struct range_case *c)
{
	struct range r = { 0 };
	enum range_result got = range_parse(str_of(c->in), c->size, &r);

	if (got != c->want || (got == RANGE_OK && (r.first != c->first || r.length != c->length)))
		fail_msg("'%s' of %llu: result %d, %llu + %llu", c->in, (unsigned long long)c->size, got,
			 (unsigned long long)r.first, (unsigned long long)r.length);
}

static void one_range_is_cut_from_the_body(void **state)
{
	static const struct range_case cases[] = {
		{ "bytes=0-0", 10, RANGE_OK, 0, 1 },
		{ "bytes=2-5", 10, RANGE_OK, 2, 4 },
		{ "bytes=0-", 10, RANGE_OK, 0, 10 },
		{ "bytes=9-", 10, RANGE_OK, 9, 1 },
		{ "bytes=5-100", 10, RANGE_OK, 5, 5 },
		{ "bytes=-3", 10, RANGE_OK, 7, 3 },
		{ "bytes=-10", 10, RANGE_OK, 0, 10 },
		{ "bytes=-11", 10, RANGE_OK, 0, 10 },
		{ "Bytes=1-2", 10, RANGE_OK, 1, 2 },
		{ " bytes= 1-2 ", 10, RANGE_OK, 1, 2 },
		{ "bytes=007-8", 10, RANGE_OK, 7, 2 },
		{ "bytes=0-18446744073709551615", UINT64_MAX, RANGE_OK, 0, UINT64_MAX },
		{ "bytes=0-18446744073709551615", 10, RANGE_OK, 0, 10 },
		{ "bytes=1-99999999999999999999999", 10, RANGE_OK, 1, 9 },
		{ "bytes=-99999999999999999999999", 10, RANGE_OK, 0, 10 },
		{ "bytes=18446744073709551614-", UINT64_MAX, RANGE_OK, UINT64_MAX - 1, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		check(&cases[i]);
}

static void the_first_range_that_overlaps_is_served(void **state)
{
	static const struct range_case cases[] = {
		{ "bytes=1-2,4-5", 10, RANGE_OK, 1, 2 },
		{ "bytes=4-5, 1-2 ,-1", 10, RANGE_OK, 4, 2 },
		{ "bytes=,1-2,", 10, RANGE_OK, 1, 2 },
		{ "bytes=50-60,1-2", 10, RANGE_OK, 1, 2 },
		{ "bytes=50-60,70-", 10, RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=1-2,x", 10, RANGE_MALFORMED, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		check(&cases[i]);
}

static void other_results_are_told_apart(void **state)
{
	static const struct range_case cases[] = {
		{ "", 10, RANGE_NONE, 0, 0 },
		{ "lines=1-2", 10, RANGE_NONE, 0, 0 },
		{ "bytes", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=,", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=-", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=5", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=5-4", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=a-b", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=1-b", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=--1", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=+1-2", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=1 - 2", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=1-2-3", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes =1-2", 10, RANGE_MALFORMED, 0, 0 },
		{ "=1-2", 10, RANGE_MALFORMED, 0, 0 },
		{ "0-5", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=10-", 10, RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=10-20", 10, RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=99999999999999999999-", 10, RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=-0", 10, RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=0-", 0, RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=-5", 0, RANGE_UNSATISFIABLE, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		check(&cases[i]);
}

static void too_many_ranges_are_malformed(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(1000);
	struct range r;

	(void)state;
	buf_add_str(&b, STR("bytes=0-0"));
	for (unsigned i = 1; i < RANGE_COUNT_MAX; i++)
		buf_add_str(&b, STR(",0-0"));
	assert_int_equal(range_parse(buf_str(&b), 1, &r), RANGE_OK);
	buf_add_str(&b, STR(",0-0"));
	assert_int_equal(range_parse(buf_str(&b), 1, &r), RANGE_MALFORMED);
}

static void content_range_is_written(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(200);

	(void)state;
	assert_true(range_write(&b, (struct range){ 2, 4 }, 10));
	assert_string_equal(buf_z(&b), "bytes 2-5/10");
	buf_clear(&b);
	assert_true(range_write(&b, (struct range){ 0, UINT64_MAX }, UINT64_MAX));
	assert_string_equal(buf_z(&b), "bytes 0-18446744073709551614/18446744073709551615");
	buf_clear(&b);
	assert_true(range_write_unsatisfiable(&b, 0));
	assert_string_equal(buf_z(&b), "bytes */0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_range_is_cut_from_the_body),
		cmocka_unit_test(the_first_range_that_overlaps_is_served),
		cmocka_unit_test(other_results_are_told_apart),
		cmocka_unit_test(too_many_ranges_are_malformed),
		cmocka_unit_test(content_range_is_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
