// SPDX-License-Identifier: Apache-2.0
#include "net/tls_hello.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/buf.h"

#include "base/banned.h"

#define WIRE(lit) ((struct str){ (lit), sizeof(lit) - 1 })
#define NAME "\0\0\0\x0b\0\x09\0\0\x06" "A.test" /* the extension server_name */

static void put_u16(struct buf *b, size_t v)
{
	buf_add_char(b, (char)(v >> 8));
	buf_add_char(b, (char)v);
}

/* The message with these extensions, as one record for each PIECE bytes. */
static void hello(struct buf *out, struct str extensions, bool has_extensions, size_t piece)
{
	AUTO(buf_done) struct buf m = BUF_INIT(64 * 1024);
	AUTO(buf_done) struct buf body = BUF_INIT(64 * 1024);

	buf_addf(&body, "%c%c%032d%c", 3, 3, 0, 0);
	body.p[2 + 32] = '\0'; /* no session */
	body.n = 2 + 32 + 1;
	buf_add(&body, "\0\2\x13\1\1\0", 6);
	if (has_extensions) {
		put_u16(&body, extensions.n);
		buf_add_str(&body, extensions);
	}
	buf_add_char(&m, 1);
	buf_add_char(&m, (char)(body.n >> 16));
	put_u16(&m, body.n & 0xffff);
	buf_add(&m, body.p, body.n);
	for (size_t at = 0; at < m.n; at += piece) {
		size_t n = MIN(piece, m.n - at);

		buf_add(out, "\x16\3\1", 3);
		put_u16(out, n);
		buf_add(out, m.p + at, n);
	}
	assert_false(out->failed || m.failed || body.failed);
}

static void the_name_is_found_in_any_split_of_records(void **state)
{
	static const size_t pieces[] = { 16384, 40, 7, 3, 2 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(64 * 1024);
		const char *why = "";
		struct tls_hello h;

		hello(&b, WIRE("\0\x17\0\0" NAME "\0\x23\0\0"), true, pieces[i]);
		for (size_t n = 0; n < b.n; n++)
			assert_int_equal(tls_hello_parse((struct str){ b.p, n }, &h, &why), 0);
		assert_int_equal(tls_hello_parse(buf_str(&b), &h, &why), 1);
		assert_true(h.has_name);
		assert_false(h.has_encrypted);
		assert_string_equal(h.name, "a.test");
	}
}

static void bytes_behind_the_hello_do_not_count(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(64 * 1024);
	const char *why = "";
	struct tls_hello h;

	(void)state;
	hello(&b, WIRE(NAME), true, 16384);
	buf_add(&b, "\x14\3\3\0\1\1", 6);
	assert_int_equal(tls_hello_parse(buf_str(&b), &h, &why), 1);
	assert_string_equal(h.name, "a.test");
}

static void hellos_without_a_name_and_with_an_encrypted_one_say_so(void **state)
{
	AUTO(buf_done) struct buf old = BUF_INIT(1024);
	AUTO(buf_done) struct buf none = BUF_INIT(1024);
	AUTO(buf_done) struct buf ech = BUF_INIT(1024);
	const char *why = "";
	struct tls_hello h;

	(void)state;
	hello(&old, WIRE(""), false, 16384);
	assert_int_equal(tls_hello_parse(buf_str(&old), &h, &why), 1);
	assert_false(h.has_name);
	hello(&none, WIRE("\0\x17\0\0"), true, 16384);
	assert_int_equal(tls_hello_parse(buf_str(&none), &h, &why), 1);
	assert_false(h.has_name);
	hello(&ech, WIRE("\xfe\x0d\0\1\0" NAME), true, 16384);
	assert_int_equal(tls_hello_parse(buf_str(&ech), &h, &why), 1);
	assert_true(h.has_name && h.has_encrypted);
}

static void broken_hellos_are_refused(void **state)
{
	static const struct str extensions[] = {
		WIRE(NAME NAME),                                   /* two names */
		WIRE("\0\0\0\x11\0\x0f\0\0\6a.test\0\0\3b.c"),      /* two names in one list */
		WIRE("\0\0\0\x0b\0\x09\1\0\6a.test"),              /* another kind of name */
		WIRE("\0\0\0\x0b\0\x09\0\0\7a.test"),              /* longer than its list */
		WIRE("\0\0\0\x0b\0\x08\0\0\6a.test"),              /* a list that is too short */
		WIRE("\0\0\0\5\0\3\0\0\0"),                        /* an empty name */
		WIRE("\0\0\0\0"),
		WIRE("\0\0\0\x0b\0\x09\0\0\6a test"),
		WIRE("\0\0\0\x0b\0\x09\0\0\6a.te\0t"),
		WIRE("\0\x17\0\1"),
		WIRE("\0\x17\0"),
	};
	const char *why = "";
	struct tls_hello h;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(extensions); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(1024);

		hello(&b, extensions[i], true, 16384);
		if (tls_hello_parse(buf_str(&b), &h, &why) != -1)
			fail_msg("case %zu was taken", i);
	}
	assert_int_equal(tls_hello_parse(WIRE("GET / HTTP/1.1\r\n"), &h, &why), -1);
	assert_int_equal(tls_hello_parse(WIRE("\x16\2"), &h, &why), -1);
	assert_int_equal(tls_hello_parse(WIRE("\x16\3\1\0\0"), &h, &why), -1);
	assert_int_equal(tls_hello_parse(WIRE("\x16\3\1\x40\1"), &h, &why), -1);
	assert_int_equal(tls_hello_parse(WIRE("\x16\3\1\0\4\2"), &h, &why), -1);
	assert_int_equal(tls_hello_parse(WIRE("\x16\3\1\0\4\1\1\0\0"), &h, &why), -1); /* 65,536 bytes to come */
}

static void a_hello_in_too_many_records_is_refused(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(64 * 1024);
	const char *why = "";
	struct tls_hello h;

	(void)state;
	hello(&b, WIRE(NAME "\0\x15\0\x10" "0123456789abcdef"), true, 1);
	assert_int_equal(tls_hello_parse(buf_str(&b), &h, &why), -1);
	assert_string_equal(why, "a hello in too many records");
}

static void extensions_have_a_ceiling(void **state)
{
	AUTO(buf_done) struct buf e = BUF_INIT(64 * 1024);
	AUTO(buf_done) struct buf b = BUF_INIT(64 * 1024);
	AUTO(buf_done) struct buf more = BUF_INIT(64 * 1024);
	const char *why = "";
	struct tls_hello h;

	(void)state;
	for (int i = 0; i < 128; i++)
		buf_add(&e, "\0\x17\0\0", 4);
	hello(&b, buf_str(&e), true, 16384);
	assert_int_equal(tls_hello_parse(buf_str(&b), &h, &why), 1);
	buf_add(&e, "\0\x17\0\0", 4);
	hello(&more, buf_str(&e), true, 16384);
	assert_int_equal(tls_hello_parse(buf_str(&more), &h, &why), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_name_is_found_in_any_split_of_records),
		cmocka_unit_test(bytes_behind_the_hello_do_not_count),
		cmocka_unit_test(hellos_without_a_name_and_with_an_encrypted_one_say_so),
		cmocka_unit_test(broken_hellos_are_refused),
		cmocka_unit_test(a_hello_in_too_many_records_is_refused),
		cmocka_unit_test(extensions_have_a_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
