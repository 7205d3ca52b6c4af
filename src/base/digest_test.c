// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/digest.h"
#include "base/own.h"

#include "base/banned.h"

#define HEX32 "0123456789abcdef0123456789abcdef"
#define HEX64 HEX32 HEX32
#define HEX128 HEX64 HEX64
/* Of "abc", as FIPS 180-4 says. */
#define ABC_256 "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ABC_512 "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a" \
		"2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"

static void digests_are_written_in_one_way(void **state)
{
	static const struct {
		const char *in;
		uint32_t size; /* 0: it is none */
	} cases[] = {
		{ "sha256:" HEX64, SHA256_SIZE },
		{ "sha512:" HEX128, SHA512_SIZE },
		{ "sha512:" HEX64, 0 },
		{ "sha256:" HEX128, 0 },
		{ "sha512:" HEX128 "0", 0 },
		{ "sha512:" HEX64 HEX32 "0123456789ABCDEF0123456789abcdef", 0 },
		{ "sha512:" HEX64 HEX32 "0123456789abcdefg123456789abcdef", 0 },
		{ "sha384:" HEX64 HEX32, 0 },
		{ "SHA512:" HEX128, 0 },
		{ "sha512-" HEX128, 0 },
		{ "sha512:", 0 },
		{ "sha512", 0 },
		{ "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[DIGEST_TEXT_MAX + 1];
		struct digest d;

		assert_int_equal(digest_parse(str_of(cases[i].in), &d), cases[i].size != 0);
		if (cases[i].size == 0)
			continue;
		assert_int_equal(d.size, cases[i].size);
		assert_true(digest_valid(&d));
		digest_write(&d, text);
		assert_string_equal(text, cases[i].in);
	}
}

static void content_is_told_from_other_content_by_either(void **state)
{
	static const char *const cases[] = { ABC_256, ABC_512 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct digest d, is;
		struct hasher h;

		assert_true(digest_parse(str_of(cases[i]), &d));
		assert_true(digest_is_of(&d, STR("abc")));
		assert_false(digest_is_of(&d, STR("abd")));
		assert_false(digest_is_of(&d, STR("ab")));
		hasher_init(&h, d.size);
		hasher_add(&h, "a", 1);
		hasher_add(&h, "bc", 2);
		hasher_end(&h, &is);
		assert_true(digest_eq(&is, &d));
		d.bytes[d.size - 1] ^= 1; /* each byte counts, the last as well */
		assert_false(digest_is_of(&d, STR("abc")));
		assert_false(digest_eq(&is, &d));
	}
}

static void what_somebody_else_made_is_looked_at(void **state)
{
	struct digest d;

	(void)state;
	assert_true(digest_parse(STR(ABC_256), &d));
	d.bytes[SHA256_SIZE] = 1; /* would make two digests of one */
	assert_false(digest_valid(&d));
	assert_false(digest_is_of(&d, STR("abc")));
	for (uint32_t size = 0; size < 200; size++) {
		d = (struct digest){ .size = size };
		assert_int_equal(digest_valid(&d), size == SHA256_SIZE || size == SHA512_SIZE);
	}
	assert_false(digest_valid(&(struct digest){ .size = UINT32_MAX }));
}

static void no_two_digests_have_one_name(void **state)
{
	unsigned char one[DIGEST_NAME_SIZE], other[DIGEST_NAME_SIZE];
	struct digest d, first_half = { .size = SHA256_SIZE };

	(void)state;
	assert_true(digest_parse(STR(ABC_256), &d));
	digest_name(&d, one);
	assert_memory_equal(one, d.bytes, sizeof(one));
	assert_true(digest_parse(STR(ABC_512), &d));
	digest_name(&d, one);
	sha256(STR(ABC_512), other);
	assert_memory_equal(one, other, sizeof(one));
	memcpy(first_half.bytes, d.bytes, SHA256_SIZE);
	digest_name(&first_half, other);
	assert_memory_not_equal(one, other, sizeof(one));
	d.bytes[SHA512_SIZE - 1] ^= 1;
	digest_name(&d, other);
	assert_memory_not_equal(one, other, sizeof(one));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digests_are_written_in_one_way),
		cmocka_unit_test(content_is_told_from_other_content_by_either),
		cmocka_unit_test(what_somebody_else_made_is_looked_at),
		cmocka_unit_test(no_two_digests_have_one_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
