// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/hex.h"
#include "base/own.h"
#include "base/sha256.h"
#include "base/sha256_impl.h"

#include "base/banned.h"

static void the_vectors_of_nist_are_met(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
		{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
		  "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
		  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char hex[SHA256_HEX_LEN + 1];

		sha256_hex(str_of(cases[i].in), hex);
		assert_string_equal(hex, cases[i].want);
	}
}

static void a_million_letters_have_their_digest(void **state)
{
	unsigned char digest[SHA256_SIZE];
	char chunk[1000], hex[SHA256_HEX_LEN + 1];
	struct sha256 s;

	(void)state;
	memset(chunk, 'a', sizeof(chunk));
	sha256_init(&s);
	for (int i = 0; i < 1000; i++)
		sha256_add(&s, chunk, sizeof(chunk));
	sha256_end(&s, digest);
	hex_encode(hex, digest, sizeof(digest));
	assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void pieces_make_the_same_digest_as_the_whole(void **state)
{
	unsigned char text[300], whole[SHA256_SIZE], pieces[SHA256_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (unsigned char)(i * 7);
	for (size_t n = 0; n <= sizeof(text); n++) {
		struct sha256 s;

		sha256((struct str){ (const char *)text, n }, whole);
		sha256_init(&s);
		for (size_t at = 0, step = 1; at < n; at += step, step = step % 70 + 1) {
			step = MIN(step, n - at);
			sha256_add(&s, text + at, step);
			sha256_add(&s, NULL, 0);
		}
		sha256_end(&s, pieces);
		assert_memory_equal(whole, pieces, sizeof(whole));
	}
}

static void the_state_is_wiped_at_the_end(void **state)
{
	static const struct sha256 zeros;
	unsigned char digest[SHA256_SIZE];
	struct sha256 s;

	(void)state;
	sha256_init(&s);
	sha256_add(&s, "secret", 6);
	sha256_end(&s, digest);
	assert_memory_equal(&s, &zeros, sizeof(s));
}

struct hmac_case {
	struct str key, text;
	const char *want;
};

static void check_hmac(const struct hmac_case *c)
{
	unsigned char digest[SHA256_SIZE];
	char hex[SHA256_HEX_LEN + 1];

	hmac_sha256(c->key, c->text, digest);
	hex_encode(hex, digest, strlen(c->want) / 2); /* one vector is cut to 128 bits */
	assert_string_equal(hex, c->want);
}

static void the_vectors_of_rfc_4231_are_met(void **state)
{
	char key_0b[20], key_aa[131], key_seq[25], dd[50], cd[50];
	const struct hmac_case cases[] = {
		{ { key_0b, 20 }, STR("Hi There"),
		  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
		{ STR("Jefe"), STR("what do ya want for nothing?"),
		  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
		{ { key_aa, 20 }, { dd, 50 }, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
		{ { key_seq, 25 }, { cd, 50 }, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
		{ STR("\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c\x0c"),
		  STR("Test With Truncation"), "a3b6167473100ee06e0c796c2955552b" },
		{ { key_aa, 131 }, STR("Test Using Larger Than Block-Size Key - Hash Key First"),
		  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
		{ { key_aa, 131 },
		  STR("This is a test using a larger than block-size key and a larger than block-size data. "
		      "The key needs to be hashed before being used by the HMAC algorithm."),
		  "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
	};

	(void)state;
	memset(key_0b, 0x0b, sizeof(key_0b));
	memset(key_aa, 0xaa, sizeof(key_aa));
	memset(dd, 0xdd, sizeof(dd));
	memset(cd, 0xcd, sizeof(cd));
	for (size_t i = 0; i < sizeof(key_seq); i++)
		key_seq[i] = (char)(i + 1);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		check_hmac(&cases[i]);
}

static void an_empty_key_and_text_are_fine(void **state)
{
	static const struct hmac_case empty = {
		{ NULL, 0 }, { NULL, 0 }, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"
	};

	(void)state;
	check_hmac(&empty);
}

/* The vectors above are met by whichever way this CPU takes; the other one has to agree. */
static void both_ways_of_adding_blocks_agree(void **state)
{
	unsigned char bytes[17 * SHA256_BLOCK + 1];
	uint32_t plain[8], fast[8], x = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		x = x * 1664525 + 1013904223;
		bytes[i] = (unsigned char)(x >> 24);
	}
	memcpy(plain, bytes, sizeof(plain));
	memcpy(fast, bytes, sizeof(fast));
	if (!sha256_blocks_fast(fast, bytes + 1, 17)) /* at an odd address */
		skip();
	sha256_blocks_plain(plain, bytes + 1, 17);
	assert_memory_equal(plain, fast, sizeof(plain));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways_of_adding_blocks_agree),
		cmocka_unit_test(the_vectors_of_nist_are_met),
		cmocka_unit_test(a_million_letters_have_their_digest),
		cmocka_unit_test(pieces_make_the_same_digest_as_the_whole),
		cmocka_unit_test(the_state_is_wiped_at_the_end),
		cmocka_unit_test(the_vectors_of_rfc_4231_are_met),
		cmocka_unit_test(an_empty_key_and_text_are_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
