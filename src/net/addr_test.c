// SPDX-License-Identifier: Apache-2.0
#include "net/test_wire.h"

#include "net/addr.h"

#include "base/banned.h"

static void addresses_are_read_and_written_back(void **state)
{
	static const struct {
		const char *in;
		int family;
		const char *out; /* NULL: as it came in */
	} table[] = {
		{ "127.0.0.1:8080", AF_INET, NULL },
		{ "0.0.0.0:0", AF_INET, NULL },
		{ "255.255.255.255:65535", AF_INET, NULL },
		{ "[::1]:80", AF_INET6, NULL },
		{ "[0:0::1]:080", AF_INET6, "[::1]:80" },
		{ "[::ffff:1.2.3.4]:1", AF_INET6, NULL },
		{ "unix:/run/x.sock", AF_UNIX, NULL },
		{ "unix:relative", AF_UNIX, NULL },
		{ "unix:@abstract", AF_UNIX, NULL },
		{ "unix:/a\nb", AF_UNIX, "unix:/a?b" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		char text[ADDR_TEXT_MAX];
		struct err e = { 0 };
		struct addr a;

		assert_int_equal(sockaddr_parse(str_of(table[i].in), &a, &e), 0);
		assert_int_equal(a.sa.sa_family, table[i].family);
		assert_string_equal(sockaddr_format(&a.sa, a.len, text), table[i].out ? table[i].out : table[i].in);
	}
}

static void what_is_no_numeric_address_is_refused(void **state)
{
	static const struct str table[] = {
		STR(""), STR(":"), STR(":80"), STR("127.0.0.1"), STR("127.0.0.1:"), STR("127.0.0.1:65536"),
		STR("127.0.0.1:-1"), STR("127.0.0.1: 80"), STR("1.2.3:80"), STR("localhost:80"), STR("::1:80"),
		STR("[::1]"), STR("[::1:80"), STR("[]:80"), STR("[127.0.0.1]:80"), STR("127.0.0.1\0:80"),
		STR("[0000:0000:0000:0000:0000:0000:0000:0000:0000:0001]:80"), STR("unix:"), STR("unix:@"),
		STR("unix:/a\0b"),
	};
	char path[256] = "unix:/";

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct addr a = { .len = 77 };
		struct err e = { 0 };

		assert_int_equal(sockaddr_parse(table[i], &a, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		assert_int_equal(a.len, 77);
	}
	memset(path + 6, 'x', 120);
	assert_int_equal(sockaddr_parse(str_of(path), &(struct addr){ 0 }, &(struct err){ 0 }), -1);
}

static void a_path_fits_up_to_its_nul(void **state)
{
	char text[ADDR_TEXT_MAX], path[256] = "unix:/";
	struct err e = { 0 };
	struct addr a;

	(void)state;
	memset(path + 6, 'x', 106);
	assert_int_equal(sockaddr_parse(str_of(path), &a, &e), 0);
	assert_int_equal(a.len, sizeof(struct sockaddr_un));
	assert_string_equal(sockaddr_format(&a.sa, a.len, text), path);
	assert_int_equal(sockaddr_unix(path + 5, &a, &e), 0);
	assert_int_equal(sockaddr_unix("@name", &a, &e), -1);
	assert_int_equal(sockaddr_unix("", &a, &e), -1);
}

static void odd_addresses_have_a_text_too(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr other = { .sa_family = AF_APPLETALK };
	struct sockaddr_in cut = { .sin_family = AF_INET };
	char text[ADDR_TEXT_MAX];

	(void)state;
	assert_string_equal(sockaddr_format((struct sockaddr *)&un, sizeof(sa_family_t), text), "unix:");
	assert_string_equal(sockaddr_format((struct sockaddr *)&un, 0, text), "unknown");
	assert_string_equal(sockaddr_format(&other, sizeof(other), text), "unknown");
	assert_string_equal(sockaddr_format((struct sockaddr *)&cut, 8, text), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_read_and_written_back),
		cmocka_unit_test(what_is_no_numeric_address_is_refused),
		cmocka_unit_test(a_path_fits_up_to_its_nul),
		cmocka_unit_test(odd_addresses_have_a_text_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
