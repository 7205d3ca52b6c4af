// SPDX-License-Identifier: Apache-2.0
#include "access/route_token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/err.h"

#include "base/banned.h"

/* 010203, "0123456789abcdef" (unpadded) and "test-secret-bytes" */
#define KEYS "a=AQID,k=MDEyMzQ1Njc4OWFiY2RlZg,z=dGVzdC1zZWNyZXQtYnl0ZXM="

static struct route_keys keys_of(const char *list)
{
	struct route_keys k = { 0 };

	assert_int_equal(route_keys_parse(&k, str_of(list), &(struct err){ 0 }), 0);
	return k;
}

static void signatures_are_what_other_programs_make(void **state)
{
	static const struct {
		char key;
		const char *id;
		unsigned port;
		uint64_t expires;
		const char *text, *want;
	} rows[] = {
		{ 'a', "sb", 42, 0, "0", "8ccd73a1a" },
		{ 'k', "my-sandbox", 8080, 2000000000, "x2qxvk", "58d4200bk" },
		{ 'z', "my-sandbox", 9000, UINT64_MAX, "3w5e11264sgsf", "ce06eeb8z" },
	};
	AUTO(route_keys_done) struct route_keys k = keys_of(KEYS);

	(void)state;
	assert_int_equal(k.n, 3);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char signature[ROUTE_SIGNATURE_LEN + 1], text[ROUTE_EXPIRES_MAX + 1];
		uint64_t back;

		assert_true(route_sign(&k, rows[i].key, str_of(rows[i].id), rows[i].port, rows[i].expires, signature));
		assert_string_equal(signature, rows[i].want);
		assert_int_equal(route_expires_write(rows[i].expires, text), strlen(rows[i].text));
		assert_string_equal(text, rows[i].text);
		assert_true(route_expires_read(str_of(text), &back) && back == rows[i].expires);
		assert_false(route_sign(&k, 'b', str_of(rows[i].id), rows[i].port, rows[i].expires, signature));
		assert_false(route_sign(&k, '-', str_of(rows[i].id), rows[i].port, rows[i].expires, signature));
	}
}

static void times_have_one_spelling(void **state)
{
	static const char *const bad[] = { "", "00", "01", "X2QXVK", "x2qxv-", "3w5e11264sgsg", "zzzzzzzzzzzzz", "10000000000000", " 1" };
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(route_expires_read(str_of(bad[i]), &v));
}

static void keys_are_read_padded_or_not(void **state)
{
	static const char *const bad[] = { "a", "ab=AQID", "A=AQID", "a=", "a=!!!!", "-=AQID", "a=AQID,b", "=AQID" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		AUTO(route_keys_done) struct route_keys k = { 0 };
		struct err e = { 0 };

		assert_int_equal(route_keys_parse(&k, str_of(bad[i]), &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		assert_null(strstr(e.msg, "AQID"));
	}
	{
		AUTO(route_keys_done) struct route_keys k = keys_of(" a=AQIDBA== , a=AQIDBA,, ");

		assert_int_equal(k.n, 1); /* the last one counts */
		assert_int_equal(k.secrets[10].n, 4);
	}
}

static void labels_name_a_port_of_a_sandbox(void **state)
{
	static const struct {
		const char *in, *id; /* NULL: refused */
		unsigned port;
		const char *signature; /* NULL: not signed */
	} rows[] = {
		{ "sb-8080", "sb", 8080, NULL },
		{ "https://sb-8080.gw.example.com:28888", "sb", 8080, NULL },
		{ "http://sb-1", "sb", 1, NULL },
		{ "https://http://sb-1", "sb", 1, NULL },
		{ "sb-8080.gw.example.com:28888", "sb", 8080, NULL },
		{ "sb-08080", "sb", 8080, NULL },
		{ "a-b-80", "a-b", 80, NULL },
		{ "3f2b6c1e-9a44-4c1e-8d0b-2f6f1a7c9e10-44772", "3f2b6c1e-9a44-4c1e-8d0b-2f6f1a7c9e10", 44772, NULL },
		{ "sb-8080-x2qxvk-58d4200bk", "sb", 8080, "58d4200bk" },
		{ "my-sandbox-8080-x2qxvk-58d4200bk.gw", "my-sandbox", 8080, "58d4200bk" },
		{ "sb-65535-3w5e11264sgsf-00000000a", "sb", 65535, "00000000a" },
		{ "a-b-c-08080-x2qxvk-58d4200bk", NULL, 0, NULL }, /* a port with a zero is none of a signed route */
		{ "sb-8080-x2qxvk-58D4200bk", NULL, 0, NULL },
		{ "sb-8080-x2qxvk-58d4200bk1", NULL, 0, NULL },
		{ "sb-8080-0x2qxvk-80", "sb-8080-0x2qxvk", 80, NULL },
		{ "", NULL, 0, NULL },
		{ "sb", NULL, 0, NULL },
		{ "sb-", NULL, 0, NULL },
		{ "-80", NULL, 0, NULL },
		{ "sb-0", NULL, 0, NULL },
		{ "sb-65536", NULL, 0, NULL },
		{ "sb--1", "sb-", 1, NULL }, /* an id that there cannot be */
		{ "sb-8080:28888", NULL, 0, NULL },
		{ "-8080-x2qxvk-58d4200bk", NULL, 0, NULL },
		{ "localhost:80", NULL, 0, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct route_token t;
		struct err e = { 0 };
		int rc = route_read_label(str_of(rows[i].in), &t, &e);

		if (rc != (rows[i].id ? 0 : -1))
			fail_msg("'%s' gave %d", rows[i].in, rc);
		if (rc < 0)
			continue;
		if (!str_is(t.id, rows[i].id) || t.port != rows[i].port || t.is_signed != (rows[i].signature != NULL) ||
		    (t.is_signed && !str_is(t.signature, rows[i].signature)))
			fail_msg("'%s' was read as '%.*s' %u", rows[i].in, STR_ARG(t.id), t.port);
	}
}

static void paths_keep_their_bytes(void **state)
{
	static const struct {
		const char *in, *id;
		unsigned port;
		bool is_signed;
		const char *rest, *plain_rest;
	} rows[] = {
		{ "/sb/80", "sb", 80, false, "", "" },
		{ "/sb/80/", "sb", 80, false, "/", "/" },
		{ "/sb/80/a%2Fb//c", "sb", 80, false, "/a%2Fb//c", "/a%2Fb//c" },
		{ "/my-sandbox/8080/x2qxvk/58d4200bk", "my-sandbox", 8080, true, "", "/x2qxvk/58d4200bk" },
		{ "/my-sandbox/8080/x2qxvk/58d4200bk/a/../b", "my-sandbox", 8080, true, "/a/../b", "/x2qxvk/58d4200bk/a/../b" },
		{ "/sb/80/00/58d4200bk", "sb", 80, false, "/00/58d4200bk", "/00/58d4200bk" },
		{ "/sb/80/x/58d4200b", "sb", 80, false, "/x/58d4200b", "/x/58d4200b" },
		{ "/sb/080/x", NULL, 0, false, NULL, NULL },
		{ "/sb/0", NULL, 0, false, NULL, NULL },
		{ "/sb", NULL, 0, false, NULL, NULL },
		{ "/", NULL, 0, false, NULL, NULL },
		{ "//80", NULL, 0, false, NULL, NULL },
		{ "sb/80", NULL, 0, false, NULL, NULL },
		{ "", NULL, 0, false, NULL, NULL },
		{ "*", NULL, 0, false, NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct route_token t;
		struct err e = { 0 };
		int rc = route_read_path(str_of(rows[i].in), &t, &e);

		if (rc != (rows[i].id ? 0 : -1))
			fail_msg("'%s' gave %d", rows[i].in, rc);
		if (rc < 0)
			continue;
		if (!str_is(t.id, rows[i].id) || t.port != rows[i].port || t.is_signed != rows[i].is_signed ||
		    !str_is(t.rest, rows[i].rest) || !str_is(t.plain_rest, rows[i].plain_rest))
			fail_msg("'%s' was read as '%.*s' %u '%.*s'", rows[i].in, STR_ARG(t.id), t.port, STR_ARG(t.rest));
	}
}

static void access_is_what_the_contract_says(void **state)
{
	static const struct {
		const char *token, *header, *route; /* NULL: none */
		bool has_keys;
		uint64_t now;
		enum access_verdict want;
	} rows[] = {
		{ "", NULL, NULL, false, 1, ACCESS_OK },
		{ "", "wrong", "sb-1-zz-00000000a", false, 1, ACCESS_OK },
		{ "tok", "tok", NULL, false, 1, ACCESS_OK },
		{ "tok", " tok\t", "sb-1-zz-00000000a", true, 1, ACCESS_OK },
		{ "tok", "toc", "my-sandbox-8080-x2qxvk-58d4200bk", true, 1, ACCESS_TOKEN_MISMATCH },
		{ "tok", "", "my-sandbox-8080-x2qxvk-58d4200bk", true, 1, ACCESS_TOKEN_MISMATCH },
		{ "tok", NULL, NULL, true, 1, ACCESS_UNSIGNED },
		{ "tok", NULL, "my-sandbox-8080", true, 1, ACCESS_UNSIGNED },
		{ "tok", NULL, "my-sandbox-8080-x2qxvk-58d4200bk", false, 1, ACCESS_NO_KEYS },
		{ "tok", NULL, "my-sandbox-8080-x2qxvk-58d4200bk", true, 2000000000, ACCESS_OK },
		{ "tok", NULL, "my-sandbox-8080-x2qxvk-58d4200bk", true, 2000000001, ACCESS_EXPIRED },
		{ "tok", NULL, "my-sandbox-8080-x2qxvk-58d4200bq", true, 1, ACCESS_UNKNOWN_KEY },
		{ "tok", NULL, "my-sandbox-8080-x2qxvk-58d4200ba", true, 1, ACCESS_MISMATCH },
		{ "tok", NULL, "my-sandbox-8081-x2qxvk-58d4200bk", true, 1, ACCESS_MISMATCH },
		{ "tok", NULL, "my-sandbax-8080-x2qxvk-58d4200bk", true, 1, ACCESS_MISMATCH },
		{ "tok", NULL, "my-sandbox-8080-x2qxvl-58d4200bk", true, 1, ACCESS_MISMATCH },
		{ "tok", NULL, "my-sandbox-9000-3w5e11264sgsf-ce06eeb8z", true, UINT64_MAX, ACCESS_OK },
	};
	AUTO(route_keys_done) struct route_keys keys = keys_of(KEYS);
	struct route_keys none = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct route_token t = { 0 };
		struct access_request rq = { .has_token = rows[i].header != NULL, .token = str_of(rows[i].header) };
		enum access_verdict v;

		if (rows[i].route) {
			assert_int_equal(route_read_label(str_of(rows[i].route), &t, &(struct err){ 0 }), 0);
			rq.route = &t;
		}
		v = access_check(str_of(rows[i].token), &rq, rows[i].has_keys ? &keys : &none, rows[i].now);
		if (v != rows[i].want)
			fail_msg("row %zu: %s", i, access_text(v));
	}
	assert_int_equal(access_status(ACCESS_NO_KEYS), 503);
	assert_int_equal(access_status(ACCESS_EXPIRED), 401);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signatures_are_what_other_programs_make),
		cmocka_unit_test(times_have_one_spelling),
		cmocka_unit_test(keys_are_read_padded_or_not),
		cmocka_unit_test(labels_name_a_port_of_a_sandbox),
		cmocka_unit_test(paths_keep_their_bytes),
		cmocka_unit_test(access_is_what_the_contract_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
