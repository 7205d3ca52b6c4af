// SPDX-License-Identifier: Apache-2.0
#include "box/preflight_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

#define FIRST 1048576
#define LAST 1074790399

static const struct {
	enum id_file kind;
	const char *text;
	const char *name; /* NULL: none */
	uint64_t first, last;
} rows[] = {
	{ ID_FILE_ACCOUNTS, "", NULL, 0, 0 },
	{ ID_FILE_ACCOUNTS, "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:\n", NULL, 0, 0 },
	{ ID_FILE_ACCOUNTS, "a:x:1048575:0::/:\nb:x:1074790400:0::/:\n", NULL, 0, 0 },
	{ ID_FILE_ACCOUNTS, "a:x:1:0::/:\nb:x:1048576:0::/:\n", "b", FIRST, FIRST },
	{ ID_FILE_ACCOUNTS, "b:x:1074790399", "b", LAST, LAST },
	{ ID_FILE_ACCOUNTS, "g:x:2000000:a,b\n", "g", 2000000, 2000000 },
	{ ID_FILE_ACCOUNTS, "+::::::\n:::\nx\nx:\nx:y\nx:y:\nx:y:-1:\nx:y:0x200000:\nx:y:99999999999999999999:\n", NULL, 0, 0 },
	{ ID_FILE_RANGES, "alice:100000:65536\n", NULL, 0, 0 },
	{ ID_FILE_RANGES, "alice:100000:948576\n", NULL, 0, 0 },
	{ ID_FILE_RANGES, "alice:100000:948577\n", "alice", 100000, FIRST },
	{ ID_FILE_RANGES, "a:100000:65536\nb:1083040:65536\n", "b", 1083040, 1148575 },
	{ ID_FILE_RANGES, "a:1074790400:65536\n", NULL, 0, 0 },
	{ ID_FILE_RANGES, "a:0:4294967295\n", "a", 0, UINT32_MAX - 1 },
	{ ID_FILE_RANGES, "a:4294967295:4294967295\n", NULL, 0, 0 },
	{ ID_FILE_RANGES, "a:2000000:0\na:2000000:\na:2000000\na:2000000:-1\n", NULL, 0, 0 },
	{ ID_FILE_RANGES, "1000:2000000:10", "1000", 2000000, 2000009 },
};

static void claims_are_found_where_they_overlap(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct id_claim c = { 0 };
		bool found = id_claim_find(str_of(rows[i].text), rows[i].kind, FIRST, LAST, &c);

		if (found != (rows[i].name != NULL))
			fail_msg("row %zu: %s", i, rows[i].text);
		if (!found)
			continue;
		assert_true(str_is(c.name, rows[i].name));
		assert_int_equal(c.first, rows[i].first);
		assert_int_equal(c.last, rows[i].last);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claims_are_found_where_they_overlap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
