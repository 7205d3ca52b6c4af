// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "cli/hint.h"
#include "client/opensandbox.h"

#include "base/banned.h"

static void an_error_that_people_can_mend_says_how(void **state)
{
	static const struct {
		enum osb_kind kind;
		int status;
		const char *code, *want; /* a part of the hint; NULL: there is none */
	} cases[] = {
		{ OSB_NETWORK, 0, "INTERNAL_UNKNOWN_ERROR", "osb up" },
		{ OSB_NETWORK, 200, "UNEXPECTED_RESPONSE", NULL },
		{ OSB_TIMEOUT, 0, "TIMEOUT", "--request-timeout" },
		{ OSB_NOT_READY, 0, "READY_TIMEOUT", "osb diagnostics logs" },
		{ OSB_ANSWER, 401, "MISSING_API_KEY", "osb config set connection.api_key" },
		{ OSB_ANSWER, 404, "NATIVE::SANDBOX_NOT_FOUND", "osb sandbox list" },
		{ OSB_ANSWER, 404, "SNAPSHOT_NOT_FOUND", "osb snapshot" },
		{ OSB_ANSWER, 404, "FILE_NOT_FOUND", "osb file search" },
		{ OSB_ANSWER, 404, "NOT_FOUND", NULL },
		{ OSB_ANSWER, 507, "INSUFFICIENT_STORAGE", "disk is full" },
		{ OSB_ANSWER, 400, "SANDBOX::INVALID_PARAMETER", NULL },
		{ OSB_INVALID, 0, "INVALID_ARGUMENT", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct osb_error e = { .kind = cases[i].kind, .http_status = cases[i].status };
		const char *hint;

		(void)snprintf(e.code, sizeof(e.code), "%s", cases[i].code);
		hint = hint_for(&e);
		assert_int_equal(!hint, !cases[i].want);
		if (hint)
			assert_non_null(strstr(hint, cases[i].want));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_that_people_can_mend_says_how),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
