// SPDX-License-Identifier: Apache-2.0
#include "server/config/init_config.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "sys/fd.h"

#include "base/banned.h"

static void a_file_of_its_own_key_is_left(void **state)
{
	char folder[] = "/tmp/init_config_test.XXXXXX", path[128];
	AUTO(buf_done) struct buf first = BUF_INIT(65536), second = BUF_INIT(65536);
	struct stat st;
	struct err e = { 0 };

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/sub/c.toml", folder);
	assert_int_equal(init_config(path, "native", false, &e), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(fd_read_file(AT_FDCWD, path, 65536, &first, &e), 0);
	assert_int_equal(init_config(path, NULL, false, &e), -1);
	assert_int_equal(e.code, ERR_CONFLICT);
	assert_int_equal(init_config(path, "native", true, &e), 0);
	assert_int_equal(fd_read_file(AT_FDCWD, path, 65536, &second, &e), 0);
	assert_string_not_equal(strstr(buf_z(&first), "\napi_key = "), strstr(buf_z(&second), "\napi_key = "));
	(void)unlink(path);
	*strrchr(path, '/') = '\0';
	(void)rmdir(path);
	(void)rmdir(folder);
}

static size_t count_entries(const char *folder)
{
	struct dirent *entry;
	DIR *d = opendir(folder);
	size_t n = 0;

	assert_non_null(d);
	while ((entry = readdir(d)))
		n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
	(void)closedir(d);
	return n;
}

/* A symlink to nowhere and a folder are there too, and a file appears complete or not at all. */
static void nothing_is_replaced_or_left_over(void **state)
{
	char folder[] = "/tmp/init_config_test.XXXXXX", path[128];
	struct rlimit before, small;
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	struct err e = { 0 };

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/c.toml", folder);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){ 1000, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(init_config(path, NULL, false, &e), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_non_null(strstr(e.msg, path));
	assert_int_equal(count_entries(folder), 0);
	assert_int_equal(symlink("nowhere", path), 0);
	assert_int_equal(init_config(path, NULL, false, &e), -1);
	assert_int_equal(e.code, ERR_CONFLICT);
	assert_non_null(strstr(e.msg, "c.toml' exists; use --force to replace it"));
	assert_int_equal(count_entries(folder), 1);
	assert_int_equal(init_config(folder, NULL, false, &e), -1);
	assert_int_equal(e.code, ERR_CONFLICT);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(chdir(folder), 0);
	assert_int_equal(init_config("c.toml", NULL, false, &e), 0);
	assert_int_equal(init_config("c.toml", NULL, true, &e), 0);
	assert_int_equal(count_entries("."), 1);
	(void)unlink(path);
	assert_int_equal(chdir("/"), 0);
	(void)rmdir(folder);
	(void)signal(SIGXFSZ, handler);
}

static void what_cannot_be_done_is_an_error(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(init_config("/proc/x.toml", "vm", false, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
	assert_int_equal(init_config("/proc/x.toml", NULL, false, &e), -1);
	assert_int_equal(init_config("/proc/x.toml", NULL, true, &e), -1);
	assert_int_equal(init_config("/proc/x/y.toml", NULL, true, &e), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_its_own_key_is_left),
		cmocka_unit_test(nothing_is_replaced_or_left_over),
		cmocka_unit_test(what_cannot_be_done_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
