// SPDX-License-Identifier: Apache-2.0
#include "server/init_config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	assert_int_equal(init_config(path, "docker", false, &e), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(fd_read_file(AT_FDCWD, path, 65536, &first, &e), 0);
	assert_int_equal(init_config(path, NULL, false, &e), -1);
	assert_int_equal(e.code, ERR_CONFLICT);
	assert_int_equal(init_config(path, "docker", true, &e), 0);
	assert_int_equal(fd_read_file(AT_FDCWD, path, 65536, &second, &e), 0);
	assert_string_not_equal(strstr(buf_z(&first), "\napi_key = "), strstr(buf_z(&second), "\napi_key = "));
	(void)unlink(path);
	*strrchr(path, '/') = '\0';
	(void)rmdir(path);
	(void)rmdir(folder);
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
		cmocka_unit_test(what_cannot_be_done_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
