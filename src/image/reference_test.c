// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/reference.h"

#include "base/banned.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void names_are_completed_as_people_mean_them(void **state)
{
	static const struct {
		const char *in, *registry, *repository, *tag, *whole;
	} cases[] = {
		{ "python", "docker.io", "library/python", "latest", "docker.io/library/python:latest" },
		{ "python:3.12", "docker.io", "library/python", "3.12", "docker.io/library/python:3.12" },
		{ "org/tool", "docker.io", "org/tool", "latest", "docker.io/org/tool:latest" },
		{ "docker.io/python", "docker.io", "library/python", "latest", "docker.io/library/python:latest" },
		{ "index.docker.io/a/b:c", "docker.io", "a/b", "c", "docker.io/a/b:c" },
		{ "GHCR.io/org/tool", "ghcr.io", "org/tool", "latest", "ghcr.io/org/tool:latest" },
		{ "localhost/a", "localhost", "a", "latest", "localhost/a:latest" },
		{ "localhost:5000/a/b:V1_.-", "localhost:5000", "a/b", "V1_.-", "localhost:5000/a/b:V1_.-" },
		{ "[::1]:5000/a", "[::1]:5000", "a", "latest", "[::1]:5000/a:latest" },
		{ "127.0.0.1:1/a__b.c-d--e/f", "127.0.0.1:1", "a__b.c-d--e/f", "latest", "127.0.0.1:1/a__b.c-d--e/f:latest" },
		{ "a@sha256:" HEX, "docker.io", "library/a", "", "docker.io/library/a@sha256:" HEX },
		{ "h.test:80/a:tag@sha256:" HEX, "h.test:80", "a", "tag", "h.test:80/a@sha256:" HEX },
		{ "a@sha512:" HEX HEX, "docker.io", "library/a", "", "docker.io/library/a@sha512:" HEX HEX },
		{ "h.test/a:tag@sha512:" HEX HEX, "h.test", "a", "tag", "h.test/a@sha512:" HEX HEX },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		AUTO(buf_done) struct buf b = BUF_INIT(2000);
		struct err e = { 0 };
		struct reference r;

		assert_int_equal(reference_parse(str_of(cases[i].in), &r, &e), 0);
		assert_string_equal(r.registry, cases[i].registry);
		assert_string_equal(r.repository, cases[i].repository);
		assert_string_equal(r.tag, cases[i].tag);
		assert_int_equal(r.has_digest, strchr(cases[i].in, '@') != NULL);
		assert_true(reference_write(&r, &b));
		assert_string_equal(buf_z(&b), cases[i].whole);
	}
}

static void what_is_no_name_is_refused_with_a_reason(void **state)
{
	static const struct {
		const char *in, *why;
	} cases[] = {
		{ "", "it is empty" },
		{ "https://host.test/a", "without a scheme" },
		{ "Python", "small letters" },
		{ "a/", "ends with '/'" },
		{ "/a", "is no part of a name" },
		{ "a//b", "is no part of a name" },
		{ "a/../b", "is no part of a name" },
		{ "a___b", "is no part of a name" },
		{ "a..b", "is no part of a name" },
		{ "-a", "is no part of a name" },
		{ "a-", "is no part of a name" },
		{ "a b", "is no part of a name" },
		{ "a\r\nb", "is no part of a name" },
		{ "a:", "the tag must begin" },
		{ "a:.x", "the tag must begin" },
		{ "a:x y", "the tag may have" },
		{ "a@md5:0", "the digest must be" },
		{ "a@sha256:" "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef", "the digest must be" },
		{ "a@sha256:" HEX "0", "the digest must be" },
		{ "a@sha256:" HEX HEX, "the digest must be" },
		{ "a@sha512:" HEX, "the digest must be" },
		{ "a@sha512:" HEX HEX "0", "the digest must be" },
		{ "host.test:0/a", "is no registry" },
		{ "host.test:70000/a", "is no registry" },
		{ "host.test:/a", "is no registry" },
		{ "-h.test/a", "is no registry" },
		{ "h..test/a", "is no registry" },
		{ "h.test./a", "is no registry" },
		{ "user@h.test/a", "is no registry" },
		{ "[::1/a:b", "is no registry" },
		{ "[::g]:1/a", "is no registry" },
		{ "h.test/", "there is no name" },
		{ ":tag", "there is no name" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		struct reference r;

		assert_int_equal(reference_parse(str_of(cases[i].in), &r, &e), -1);
		assert_int_equal(e.code, ERR_INVALID);
		if (!strstr(e.msg, cases[i].why))
			fail_msg("'%s': %s", cases[i].in, e.msg);
	}
}

static void every_part_has_a_ceiling(void **state)
{
	char text[1024];
	struct err e = { 0 };
	struct reference r;

	(void)state;
	memset(text, 'a', sizeof(text));
	assert_int_equal(reference_parse((struct str){ text, 247 }, &r, &e), 0); /* with "library/" in front: 255 */
	assert_int_equal(reference_parse((struct str){ text, 248 }, &r, &e), -1);
	text[1] = '/';
	assert_int_equal(reference_parse((struct str){ text, 255 }, &r, &e), 0);
	assert_int_equal(reference_parse((struct str){ text, 256 }, &r, &e), -1);
	text[1] = ':';
	assert_int_equal(reference_parse((struct str){ text, 130 }, &r, &e), 0);
	assert_int_equal(reference_parse((struct str){ text, 131 }, &r, &e), -1);
	assert_int_equal(reference_parse((struct str){ text, sizeof(text) }, &r, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_completed_as_people_mean_them),
		cmocka_unit_test(what_is_no_name_is_refused_with_a_reason),
		cmocka_unit_test(every_part_has_a_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
