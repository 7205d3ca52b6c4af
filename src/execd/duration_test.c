// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* wants the four above first */

#include "base/own.h"
#include "execd/duration.h"

#include "base/banned.h"

static void durations_have_units(void **state)
{
	static const struct {
		const char *in;
		bool ok;
		uint64_t ms;
	} cases[] = {
		{ "0", true, 0 }, { "500ms", true, 500 }, { "1s", true, 1000 }, { "1h15m30.5s", true, 4530500 }, { "+2m", true, 120000 },
		{ "1.25s", true, 1250 }, { ".5s", true, 500 }, { "-1s", true, 0 }, { "900us", true, 0 }, { "1500us", true, 1 },
		{ "3ns", true, 0 }, { "1.0009s", true, 1000 },
		{ "", false, 0 }, { "-", false, 0 }, { "5", false, 0 }, { "s", false, 0 }, { "1.2.3s", false, 0 }, { "1 s", false, 0 },
		{ "1d", false, 0 }, { "1s2", false, 0 }, { "99999999999999999999h", false, 0 }, { "9999999999999999h", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t ms = 0;

		assert_int_equal(duration_ms(str_of(cases[i].in), &ms), cases[i].ok);
		if (cases[i].ok)
			assert_int_equal(ms, cases[i].ms);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(durations_have_units) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
