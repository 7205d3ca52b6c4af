// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/hex.h"
#include "base/own.h"
#include "base/sha512.h"

#include "base/banned.h"

static void assert_digest(const unsigned char digest[SHA512_SIZE], const char *want)
{
	char hex[SHA512_HEX_LEN + 1];

	hex_encode(hex, digest, SHA512_SIZE);
	assert_string_equal(hex, want);
}

static void the_vectors_of_nist_are_met(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "",
		  "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
		  "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e" },
		{ "abc",
		  "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
		  "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f" },
		{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
		  "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
		  "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018"
		  "501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned char digest[SHA512_SIZE];

		sha512(str_of(cases[i].in), digest);
		assert_digest(digest, cases[i].want);
	}
}

static void a_million_letters_have_their_digest(void **state)
{
	unsigned char digest[SHA512_SIZE];
	char chunk[1000];
	struct sha512 s;

	(void)state;
	memset(chunk, 'a', sizeof(chunk));
	sha512_init(&s);
	for (int i = 0; i < 1000; i++)
		sha512_add(&s, chunk, sizeof(chunk));
	sha512_end(&s, digest);
	assert_digest(digest, "e718483d0ce769644e2e42c7bc15b4638e1f98b13b2044285632a803afa973eb"
			      "de0ff244877ea60a4cb0432ce577c31beb009c5c2c49aa2e4eadb217ad8cc09b");
}

/* The digest of the digests of 0, 1, 2 ... bytes: each way in which padding can fall is among them. */
static void every_length_of_padding_is_right(void **state)
{
	unsigned char text[300], digest[SHA512_SIZE];
	struct sha512 s;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (unsigned char)i;
	sha512_init(&s);
	for (size_t n = 0; n < sizeof(text); n++) {
		sha512((struct str){ (const char *)text, n }, digest);
		sha512_add(&s, digest, sizeof(digest));
	}
	sha512_end(&s, digest);
	assert_digest(digest, "97248248ab8e9324b9577e93acd92914d32bb25edcacbb91edb75576dea14781"
			      "b5b477c027835c43a08ddc16cbbcd6d067d159897e5c18aa43aeeb2e49811bb3");
}

static void pieces_make_the_same_digest_as_the_whole(void **state)
{
	unsigned char text[300], whole[SHA512_SIZE], pieces[SHA512_SIZE];

	(void)state;
	memset(text, 0x5a, sizeof(text));
	sha512((struct str){ (const char *)text, sizeof(text) }, whole);
	for (size_t first = 0; first <= sizeof(text); first++) {
		struct sha512 s;

		sha512_init(&s);
		sha512_add(&s, text, first);
		sha512_add(&s, text + first, sizeof(text) - first);
		sha512_end(&s, pieces);
		assert_memory_equal(pieces, whole, sizeof(whole));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_vectors_of_nist_are_met),
		cmocka_unit_test(a_million_letters_have_their_digest),
		cmocka_unit_test(every_length_of_padding_is_right),
		cmocka_unit_test(pieces_make_the_same_digest_as_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
