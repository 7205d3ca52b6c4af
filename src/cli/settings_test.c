// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "cli/settings.h"
#include "sys/fd.h"

#include "base/banned.h"

#define NOTHING ((struct settings_flags){ .use_server_proxy = -1 })

struct folder {
	char path[64];
	char file[96];
};

static int make_folder(void **state)
{
	static struct folder f;

	(void)snprintf(f.path, sizeof(f.path), "/tmp/osb-settings-XXXXXX");
	if (!mkdtemp(f.path))
		return -1;
	(void)snprintf(f.file, sizeof(f.file), "%s/config.toml", f.path);
	*state = &f;
	return 0;
}

static int remove_folder(void **state)
{
	struct folder *f = *state;

	(void)unlink(f->file);
	return rmdir(f->path);
}

static void write_file(const struct folder *f, const char *text)
{
	AUTO_FD fd = open(f->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct err e = { 0 };

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text), &e), 0);
}

static const char full[] = "[connection]\napi_key = \"filekey\"\ndomain = \"file:1\"\nprotocol = \"https\"\nrequest_timeout = 7\n"
			   "use_server_proxy = true\n[output]\ncolor = false\n[defaults]\nimage = \"img\"\ntimeout = \"none\"\n";

static void without_anything_there_are_defaults(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1024 * 1024);
	const char *const env[] = { "HOME=/nonexistent", NULL };
	struct settings s;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(settings_load(&NOTHING, env, &a, &s, &e), 0);
	assert_string_equal(s.path, "/nonexistent/.opensandbox/config.toml");
	assert_null(s.api_key);
	assert_null(s.domain);
	assert_string_equal(s.protocol, "http");
	assert_int_equal(s.request_timeout_s, 30);
	assert_false(s.use_server_proxy || s.file_exists);
	assert_true(s.color);
}

static void the_file_is_read(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1024 * 1024);
	struct folder *f = *state;
	struct settings_flags flags = { .config = f->file, .use_server_proxy = -1 };
	const char *const env[] = { NULL };
	struct settings s;
	struct err e = { 0 };

	write_file(f, full);
	assert_int_equal(settings_load(&flags, env, &a, &s, &e), 0);
	assert_string_equal(s.api_key, "filekey");
	assert_string_equal(s.domain, "file:1");
	assert_string_equal(s.protocol, "https");
	assert_int_equal(s.request_timeout_s, 7);
	assert_true(s.use_server_proxy && s.file_exists && !s.color);
	assert_string_equal(s.default_image, "img");
	assert_string_equal(s.default_timeout, "none");
	assert_int_equal(settings_without_file(&flags, env, &a, &s, &e), 0);
	assert_null(s.api_key);
	assert_true(s.color);
}

static void an_option_outranks_the_environment_and_that_the_file(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1024 * 1024);
	struct folder *f = *state;
	struct settings_flags flags = { .config = f->file, .use_server_proxy = -1, .domain = "flag:3", .api_key = "" };
	const char *const env[] = { "OPEN_SANDBOX_DOMAIN=env:2", "OPEN_SANDBOX_API_KEY=envkey", "OPEN_SANDBOX_PROTOCOL=",
				    "OPEN_SANDBOX_REQUEST_TIMEOUT=9", "OPEN_SANDBOX_USE_SERVER_PROXY=Off", NULL };
	struct settings s;
	struct err e = { 0 };

	write_file(f, full);
	assert_int_equal(settings_load(&flags, env, &a, &s, &e), 0);
	assert_string_equal(s.domain, "flag:3");
	assert_string_equal(s.api_key, "envkey");  /* an empty option falls through */
	assert_string_equal(s.protocol, "https");  /* an empty variable, too */
	assert_int_equal(s.request_timeout_s, 9);
	assert_false(s.use_server_proxy);
	flags.use_server_proxy = 1;
	flags.request_timeout_s = 11;
	assert_int_equal(settings_load(&flags, env, &a, &s, &e), 0);
	assert_true(s.use_server_proxy);
	assert_int_equal(s.request_timeout_s, 11);
}

static void odd_variables_are_ignored(void **state)
{
	AUTO(arena_done) struct arena a = ARENA_INIT(1024 * 1024);
	struct folder *f = *state;
	struct settings_flags flags = { .config = f->file, .use_server_proxy = -1 };
	const char *const env[] = { "OPEN_SANDBOX_REQUEST_TIMEOUT=soon", "OPEN_SANDBOX_USE_SERVER_PROXY=maybe", NULL };
	struct settings s;
	struct err e = { 0 };

	write_file(f, full);
	assert_int_equal(settings_load(&flags, env, &a, &s, &e), 0);
	assert_int_equal(s.request_timeout_s, 7);
	assert_true(s.use_server_proxy);
}

static void a_broken_file_is_an_error_that_names_it(void **state)
{
	static const char *const texts[] = { "[connection\n", "[connection]\nrequest_timeout = \"x\"\n", "[connection]\ndomain = 5\n",
					     "[output]\ncolor = 1\n" };
	struct folder *f = *state;
	struct settings_flags flags = { .config = f->file, .use_server_proxy = -1 };
	const char *const env[] = { NULL };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		AUTO(arena_done) struct arena a = ARENA_INIT(1024 * 1024);
		struct settings s;
		struct err e = { 0 };

		write_file(f, texts[i]);
		assert_int_equal(settings_load(&flags, env, &a, &s, &e), -1);
		assert_non_null(strstr(e.msg, f->file));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_anything_there_are_defaults),
		cmocka_unit_test(the_file_is_read),
		cmocka_unit_test(an_option_outranks_the_environment_and_that_the_file),
		cmocka_unit_test(odd_variables_are_ignored),
		cmocka_unit_test(a_broken_file_is_an_error_that_names_it),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
