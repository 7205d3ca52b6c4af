// SPDX-License-Identifier: Apache-2.0
#include "net/host_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

#include "base/banned.h"

static void names_are_brought_into_one_form(void **state)
{
	char label[66], longest[260], out[HOST_NAME_LEN_MAX + 1];
	struct err e = { 0 };

	(void)state;
	memset(label, 'a', sizeof(label) - 1);
	label[65] = '\0';
	assert_int_equal(host_name(STR("WWW.A-b_c.Test."), out, &e), 0);
	assert_string_equal(out, "www.a-b_c.test");
	assert_int_equal(host_name((struct str){ label, 63 }, out, &e), 0);
	assert_int_equal(host_name((struct str){ label, 64 }, out, &e), -1);
	for (size_t i = 0; i < sizeof(longest); i++)
		longest[i] = i % 2 ? '.' : 'a';
	assert_int_equal(host_name((struct str){ longest, 253 }, out, &e), 0);
	assert_int_equal(host_name((struct str){ longest, 254 }, out, &e), 0); /* the last one is a dot */
	assert_int_equal(host_name((struct str){ longest, 255 }, out, &e), -1);
	assert_int_equal(host_name(STR("."), out, &e), -1);
	assert_int_equal(host_name(STR(""), out, &e), -1);
	assert_int_equal(host_name(STR("a.."), out, &e), -1);
	assert_int_equal(host_name(STR("a b"), out, &e), -1);
	assert_int_equal(host_name(STR("a\0b"), out, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_brought_into_one_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
