// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/quantity.h"

#include "base/banned.h"

typedef int (*quantity_fn)(struct str text, uint64_t *ret, struct err *e);

struct quantity_case {
	const char *in;
	uint64_t want;
	const char *problem; /* NULL: none */
};

static void check(quantity_fn fn, const char *what, const struct quantity_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct quantity_case *c = &cases[i];
		struct err e = { 0 };
		uint64_t v = 42;
		int r = fn(str_of(c->in), &v, &e);
		char msg[600];

		if (r < 0 && !c->problem)
			fail_msg("%s", e.msg);
		if (!c->problem) {
			assert_int_equal(v, c->want);
			continue;
		}
		(void)snprintf(msg, sizeof(msg), "bad %s '%.64s': %s", what, c->in, c->problem);
		assert_int_equal(r, -1);
		assert_int_equal(e.code, ERR_INVALID);
		assert_string_equal(e.msg, msg);
		assert_int_equal(v, 42);
	}
}

#define LONG_DIGITS "00000000000000000000000000000000000000000000000000000000000000001"

static void cpu_counts_become_thousandths(void **state)
{
	static const struct quantity_case cases[] = {
		{ "500m", 500, NULL },
		{ "500M", 500, NULL },
		{ "0.5", 500, NULL },
		{ ".5", 500, NULL },
		{ "2", 2000, NULL },
		{ "2.", 2000, NULL },
		{ " 2 ", 2000, NULL },
		{ "1.0005", 1001, NULL },
		{ "0.0001", 1, NULL },
		{ "0.1m", 1, NULL },
		{ "2.5m", 3, NULL },
		{ "0.10000000000000000000000000000000000000000000000000", 100, NULL },
		{ "1000000", 1000000000, NULL },
		{ "1000000.0001", 0, "more than a million CPUs" },
		{ "99999999999999999999999", 0, "more than a million CPUs" },
		{ "0", 0, "must be above zero" },
		{ "0.000", 0, "must be above zero" },
		{ "0m", 0, "must be above zero" },
		{ "", 0, "does not begin with a number" },
		{ ".", 0, "does not begin with a number" },
		{ "m", 0, "does not begin with a number" },
		{ "-1", 0, "does not begin with a number" },
		{ "+1", 0, "does not begin with a number" },
		{ "inf", 0, "does not begin with a number" },
		{ "nan", 0, "does not begin with a number" },
		{ "1e3", 0, "the only unit is 'm'" },
		{ "1 m", 0, "the only unit is 'm'" },
		{ "1mm", 0, "the only unit is 'm'" },
		{ "1.2.3", 0, "the only unit is 'm'" },
		{ LONG_DIGITS, 0, "too long" },
	};

	(void)state;
	check(quantity_cpu, "cpu count", cases, ARRAY_LEN(cases));
}

static void memory_sizes_become_bytes(void **state)
{
	static const char unknown[] = "unknown unit; known are b, k, kb, ki, m, mb, mi, g, gb, gi, t, tb and ti";
	static const struct quantity_case cases[] = {
		{ "512Mi", UINT64_C(512) << 20, NULL },
		{ "512mI", UINT64_C(512) << 20, NULL },
		{ "1G", 1000000000, NULL },
		{ "1gb", 1000000000, NULL },
		{ "1Gi", UINT64_C(1) << 30, NULL },
		{ "100kb", 100000, NULL },
		{ "100K", 100000, NULL },
		{ "1ki", 1024, NULL },
		{ "5m", 5000000, NULL }, /* a million, not a thousandth */
		{ "5M", 5000000, NULL },
		{ "5MB", 5000000, NULL },
		{ "2t", UINT64_C(2000000000000), NULL },
		{ "2TB", UINT64_C(2000000000000), NULL },
		{ "2Ti", UINT64_C(2) << 40, NULL },
		{ "17", 17, NULL },
		{ "17b", 17, NULL },
		{ " \t17B\n", 17, NULL },
		{ "0", 0, NULL },
		{ "9223372036854775807", INT64_MAX, NULL },
		{ "8388607Ti", UINT64_C(8388607) << 40, NULL },
		{ "9223372036854775808", 0, "too large" },
		{ "8388608Ti", 0, "too large" },
		{ "18446744073709551616", 0, "too large" },
		{ "16777217Ti", 0, "too large" },
		{ "1.5G", 0, "fractions are not allowed" },
		{ "1.", 0, "fractions are not allowed" },
		{ ".5G", 0, "does not begin with a number" },
		{ "", 0, "does not begin with a number" },
		{ "Mi", 0, "does not begin with a number" },
		{ "-1", 0, "does not begin with a number" },
		{ "1P", 0, unknown },
		{ "1Ei", 0, unknown },
		{ "1 Mi", 0, unknown },
		{ "1Mib", 0, unknown },
		{ "1bb", 0, unknown },
		{ "0x10", 0, unknown },
		{ LONG_DIGITS, 0, "too long" },
	};

	(void)state;
	check(quantity_memory, "memory size", cases, ARRAY_LEN(cases));
}

static void storage_sizes_follow_kubernetes(void **state)
{
	static const char unknown[] = "unknown unit; known are Ki, Mi, Gi, Ti, Pi and Ei";
	static const struct quantity_case cases[] = {
		{ "10Gi", UINT64_C(10) << 30, NULL },
		{ "1000", 1000, NULL },
		{ "1.5Ki", 1536, NULL },
		{ "0.5Ei", UINT64_C(1) << 59, NULL },
		{ "7.999999999999999999Ei", INT64_MAX, NULL },
		{ "7.99999999999999999999999999999Ei", 0, "too large" }, /* rounded up */
		{ "0.1Ki", 103, NULL },
		{ "0.0001", 1, NULL },
		{ "1Ti", UINT64_C(1) << 40, NULL },
		{ "1Pi", UINT64_C(1) << 50, NULL },
		{ "0", 0, NULL },
		{ "8Ei", 0, "too large" },
		{ "16Ei", 0, "too large" },
		{ "9223372036854775807.5", 0, "too large" },
		{ "1.Gi", 0, "no digits after '.'" },
		{ ".5Gi", 0, "does not begin with a number" },
		{ " 1Gi", 0, "does not begin with a number" },
		{ "", 0, "does not begin with a number" },
		{ "1Gi ", 0, unknown },
		{ "1gi", 0, unknown },
		{ "1G", 0, unknown },
		{ "1GiB", 0, unknown },
		{ "1.2.3Gi", 0, unknown },
		{ LONG_DIGITS, 0, "too long" },
	};

	(void)state;
	check(quantity_storage, "storage size", cases, ARRAY_LEN(cases));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpu_counts_become_thousandths),
		cmocka_unit_test(memory_sizes_become_bytes),
		cmocka_unit_test(storage_sizes_follow_kubernetes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
