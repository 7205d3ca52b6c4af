// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"

#include "base/banned.h"

#define URL_BARE (BASE64_URL | BASE64_UNPADDED)

static const struct {
	struct str plain;
	const char *text;
	unsigned flags;
} vectors[] = {
	{ { "", 0 }, "", BASE64_STD },
	{ { "f", 1 }, "Zg==", BASE64_STD },
	{ { "fo", 2 }, "Zm8=", BASE64_STD },
	{ { "foo", 3 }, "Zm9v", BASE64_STD },
	{ { "foob", 4 }, "Zm9vYg==", BASE64_STD },
	{ { "fooba", 5 }, "Zm9vYmE=", BASE64_STD },
	{ { "foobar", 6 }, "Zm9vYmFy", BASE64_STD },
	{ { "\xfb\xff\xfe", 3 }, "+//+", BASE64_STD },
	{ { "\xfb\xff\xfe", 3 }, "-__-", BASE64_URL },
	{ { "\xff", 1 }, "_w==", BASE64_URL },
	{ { "\xff", 1 }, "_w", URL_BARE },
	{ { "\0\0", 2 }, "AAA", URL_BARE },
	{ { "f", 1 }, "Zg", BASE64_UNPADDED },
};

static void known_texts_are_encoded_and_decoded(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(64);
		struct err e = { 0 };

		assert_true(base64_encode(&b, vectors[i].plain.p, vectors[i].plain.n, vectors[i].flags));
		assert_string_equal(buf_z(&b), vectors[i].text);
		buf_clear(&b);
		assert_int_equal(base64_decode(&b, str_of(vectors[i].text), vectors[i].flags, &e), 0);
		assert_true(str_eq(buf_str(&b), vectors[i].plain));
	}
}

static void malformed_texts_are_refused(void **state)
{
	static const struct {
		const char *text;
		unsigned flags;
	} cases[] = {
		{ "Z", BASE64_STD },	    { "Zg", BASE64_STD },	  { "Zg=", BASE64_STD },
		{ "Zg===", BASE64_STD },    { "Zm9v=", BASE64_STD },	  { "Zm9v====", BASE64_STD },
		{ "====", BASE64_STD },	    { "Z===", BASE64_STD },	  { "=Zg=", BASE64_STD },
		{ "Zg==Zg==", BASE64_STD }, { "Zm8=Zm9v", BASE64_STD },	  { "Zm 9v", BASE64_STD },
		{ "Zm9v\n", BASE64_STD },   { "\nZm9", BASE64_STD },	  { "Zm9\xc3", BASE64_STD },
		{ "Zh==", BASE64_STD },	    { "Zm9=", BASE64_STD },	  { "Zm-_", BASE64_STD },
		{ "Zm+/", BASE64_URL },	    { "Zg==", BASE64_UNPADDED },  { "Zm8=", URL_BARE },
		{ "Z", URL_BARE },	    { "Zm9vY", URL_BARE },	  { "Zh", URL_BARE },
		{ "Zm9vYmF", URL_BARE },    { "Zg=", BASE64_UNPADDED },	  { "*mFu", BASE64_STD },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(64);
		struct err e = { 0 };

		assert_true(buf_add(&b, "old", 3));
		assert_int_equal(base64_decode(&b, str_of(cases[i].text), cases[i].flags, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		assert_null(strstr(e.msg, "Zm"));
		assert_string_equal(b.p, "old");
	}
}

static void a_nul_in_the_text_is_refused(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(64);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(base64_decode(&b, STR("Zm9\0"), BASE64_STD, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
}

static void the_ceiling_of_the_buffer_holds(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(5);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(base64_decode(&b, STR("Zm9vYmE="), BASE64_STD, &e), 0);
	assert_int_equal(base64_decode(&b, STR("Zg=="), BASE64_STD, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	assert_string_equal(e.msg, "base64 text holds more than 0 bytes");
	buf_clear(&b);
	assert_false(base64_encode(&b, "abcd", 4, BASE64_STD));
	assert_true(b.failed);
	buf_clear(&b);
	assert_false(base64_encode(&b, "", SIZE_MAX, BASE64_STD));
	assert_int_equal(b.n, 0);
}

static void all_lengths_come_back(void **state)
{
	unsigned char bytes[200];
	struct err e = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 151 + 7);
	for (size_t n = 0; n <= sizeof(bytes); n++)
		for (unsigned flags = 0; flags <= URL_BARE; flags++) {
			AUTO(buf_done) struct buf text = BUF_INIT(512);
			AUTO(buf_done) struct buf back = BUF_INIT(200);

			assert_true(base64_encode(&text, bytes, n, flags));
			assert_int_equal(base64_decode(&back, buf_str(&text), flags, &e), 0);
			assert_true(str_eq(buf_str(&back), (struct str){ (const char *)bytes, n }));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_texts_are_encoded_and_decoded),
		cmocka_unit_test(malformed_texts_are_refused),
		cmocka_unit_test(a_nul_in_the_text_is_refused),
		cmocka_unit_test(the_ceiling_of_the_buffer_holds),
		cmocka_unit_test(all_lengths_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
