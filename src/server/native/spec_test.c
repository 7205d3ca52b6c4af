// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "server/native/native_impl.h"
#include "sys/fd.h"

#include "base/banned.h"

static struct string_pair request_env[] = { { "BOTH", "request" }, { "NEW", "a=b" } };
static const char *const entrypoint[] = { "sh", "-c", "true" };

static struct runtime_spec request(size_t n_env)
{
	return (struct runtime_spec){ .id = "ab-12", .image = "x", .execd_token = "secret",
				      .entrypoint = { (const char **)(uintptr_t)entrypoint, 3 }, .env = { request_env, n_env } };
}

static void assert_spec(const struct runtime_spec *spec, const struct native_config *image, const char *want)
{
	char text[4096];
	struct err e = { 0 };
	int fd = native_spec_make(spec, image, &e);
	ssize_t n;

	assert_true(fd >= 0);
	n = pread(fd, text, sizeof(text) - 1, 0);
	assert_true(n > 0);
	text[n] = '\0';
	(void)close(fd);
	assert_string_equal(text, want);
}

static void the_request_stands_above_the_image(void **state)
{
	static const char *env[] = { "PATH=/bin", "BOTH=image", "EMPTY=", "TWICE=1", "TWICE=2=3", "=none", "BARE" };
	const struct native_config image = { .env = { env, ARRAY_LEN(env) }, .workdir = "/app", .user = "app:staff" };
	const struct runtime_spec spec = request(2);

	(void)state;
	assert_spec(&spec, &image,
		    "{\"id\":\"ab-12\",\"entrypoint\":[\"sh\",\"-c\",\"true\"],"
		    "\"env\":{\"PATH\":\"/bin\",\"EMPTY\":\"\",\"TWICE\":\"2=3\",\"BARE\":\"\",\"BOTH\":\"request\",\"NEW\":\"a=b\"},"
		    "\"cwd\":\"/app\",\"user\":\"app:staff\",\"token\":\"secret\"}");
}

static void an_image_that_says_nothing_changes_nothing(void **state)
{
	const struct native_config image = { 0 };
	const struct runtime_spec spec = request(1);
	static const char want[] = "{\"id\":\"ab-12\",\"entrypoint\":[\"sh\",\"-c\",\"true\"],\"env\":{\"BOTH\":\"request\"},\"token\":\"secret\"}";

	(void)state;
	assert_spec(&spec, &image, want);
	assert_spec(&spec, NULL, want);
}

static void a_description_has_a_ceiling(void **state)
{
	AUTO(buf_done) struct buf huge = BUF_INIT((size_t)2 << 20);
	struct runtime_spec spec = request(2);
	struct err e = { 0 };

	(void)state;
	assert_non_null(buf_reserve(&huge, (size_t)1 << 20));
	memset(huge.p, 'x', (size_t)1 << 20);
	buf_commit(&huge, (size_t)1 << 20);
	spec.image = "x";
	request_env[1].value = huge.p;
	assert_int_equal(native_spec_make(&spec, NULL, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	request_env[1].value = "a=b";
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_request_stands_above_the_image),
		cmocka_unit_test(an_image_that_says_nothing_changes_nothing),
		cmocka_unit_test(a_description_has_a_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
