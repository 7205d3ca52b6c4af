// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "image/challenge.h"

#include "base/banned.h"

static void challenges_are_read_as_the_grammar_says(void **state)
{
	static const struct {
		const char *in;
		bool basic, bearer;
		const char *realm, *service, *scope;
	} cases[] = {
		{ "", false, false, "", "", "" },
		{ "Basic realm=\"x\"", true, false, "", "", "" },
		{ "basic", true, false, "", "", "" },
		{ "Bearer realm=\"https://a.test/token\",service=\"a.test\",scope=\"repository:x:pull,push\"", false, true,
		  "https://a.test/token", "a.test", "repository:x:pull,push" },
		{ "BEARER Realm = https , service=a", false, true, "https", "a", "" },
		{ "Bearer realm=\"a\\\"b\\\\c\"", false, true, "a\"b\\c", "", "" },
		{ "Negotiate, Basic realm=\"x\", Bearer realm=\"y\", Bearer realm=\"z\"", true, true, "y", "", "" },
		{ "Negotiate YWJj==, Basic", true, false, "", "", "" },
		{ "Bearer realm=\"y\", Basic realm=\"x\", charset=\"UTF-8\"", true, true, "y", "", "" },
		{ ", ,Basic realm=\"x\",, Digest realm=\"q\", nonce=\"1,2\"", true, false, "", "", "" },
		{ "Bearer realm=\"y\",realm=\"z\"", false, true, "y", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		struct challenge c;

		if (challenge_parse(str_of(cases[i].in), &c, &e) < 0)
			fail_msg("'%s': %s", cases[i].in, e.msg);
		assert_int_equal(c.has_basic, cases[i].basic);
		assert_int_equal(c.has_bearer, cases[i].bearer);
		assert_string_equal(c.realm, cases[i].realm);
		assert_string_equal(c.service, cases[i].service);
		assert_string_equal(c.scope, cases[i].scope);
	}
}

static void what_is_no_challenge_is_refused(void **state)
{
	static const char *const cases[] = {
		"Bearer", "Bearer realm=\"\"", "Bearer service=\"x\"", "Bearer realm=\"x", "Bearer realm=\"x\\", "Bearer realm=",
		"Bearer realm=\"x\" service=\"y\"", "Bearer realm=\"a\r\nX: y\"", "Bearer realm=\"a\nb\"", "Bearer realm=\"a\rb\"",
		"Bearer realm=\"\x7f\"", "Bearer realm=\"\xc3\xa4\"", "=x", "\"x\"", "Bearer=x", "Basic realm=\"x\"; Bearer",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		struct challenge c;

		if (challenge_parse(str_of(cases[i]), &c, &e) == 0)
			fail_msg("'%s' was taken", cases[i]);
		assert_int_equal(e.code, ERR_INVALID);
	}
	assert_int_equal(challenge_parse((struct str){ "Basic\0x", 7 }, &(struct challenge){ 0 }, &(struct err){ 0 }), -1);
}

static void every_quantity_has_a_ceiling(void **state)
{
	static char text[CHALLENGE_MAX + 100];
	struct challenge c;
	struct err e = { 0 };
	int n = snprintf(text, sizeof(text), "Bearer realm=\"%0*d\"", CHALLENGE_TEXT_MAX, 1);

	(void)state;
	assert_int_equal(challenge_parse((struct str){ text, (size_t)n }, &c, &e), 0);
	assert_int_equal(strlen(c.realm), CHALLENGE_TEXT_MAX);
	n = snprintf(text, sizeof(text), "Bearer realm=\"%0*d\"", CHALLENGE_TEXT_MAX + 1, 1);
	assert_int_equal(challenge_parse((struct str){ text, (size_t)n }, &c, &e), -1);
	n = 0;
	for (int i = 0; i <= CHALLENGE_SCHEMES_MAX; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "Basic, ");
	assert_int_equal(challenge_parse((struct str){ text, (size_t)n }, &c, &e), -1);
	n = snprintf(text, sizeof(text), "Basic a=b");
	for (int i = 0; i <= CHALLENGE_PARAMS_MAX; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", a=b");
	assert_int_equal(challenge_parse((struct str){ text, (size_t)n }, &c, &e), -1);
	memset(text, ' ', sizeof(text));
	assert_int_equal(challenge_parse((struct str){ text, CHALLENGE_MAX }, &c, &e), 0);
	assert_int_equal(challenge_parse((struct str){ text, CHALLENGE_MAX + 1 }, &c, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(challenges_are_read_as_the_grammar_says),
		cmocka_unit_test(what_is_no_challenge_is_refused),
		cmocka_unit_test(every_quantity_has_a_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
