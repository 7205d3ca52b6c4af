// SPDX-License-Identifier: Apache-2.0
#include "sys/boot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

#include "base/banned.h"

static void this_boot_has_one_name(void **state)
{
	char boot[BOOT_ID_SIZE], again[BOOT_ID_SIZE];
	struct err e;

	(void)state;
	assert_int_equal(boot_id_read(boot, &e), 0);
	assert_int_equal(boot_id_read(again, &e), 0);
	assert_string_equal(boot, again);
	assert_int_equal(strlen(boot), 36);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(this_boot_has_one_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
