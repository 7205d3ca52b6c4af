// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/local_file.h"

#include "base/banned.h"

static void files_are_read_up_to_a_limit(void **state)
{
	AUTO(buf_done) struct buf b = BUF_INIT(64);
	char path[] = "/tmp/osb-local-XXXXXX";
	struct err e = { 0 };
	AUTO_FD fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "hello", 5), 5);
	assert_int_equal(local_read(path, 5, &b, &e), 0);
	assert_string_equal(buf_z(&b), "hello");
	buf_clear(&b);
	assert_int_equal(local_read(path, 4, &b, &e), -1);
	assert_int_equal(e.code, ERR_LIMIT);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(local_read(path, 4, &b, &e), -1);
	assert_int_equal(e.code, ERR_NOT_FOUND);
}

static void only_what_is_no_file_is_special(void **state)
{
	char folder[] = "/tmp/osb-local-XXXXXX", path[64];
	struct err e = { 0 };
	AUTO_FD null = -1;

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/file", folder);
	assert_int_equal(local_open_special(path, &e), -1); /* not there: it will be made */
	assert_int_equal(e.code, ERR_NONE);
	assert_int_equal(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
	assert_int_equal(local_open_special(path, &e), -1); /* it will be replaced */
	assert_int_equal(e.code, ERR_NONE);
	null = local_open_special("/dev/null", &e);
	assert_true(null >= 0);
	assert_int_equal(local_open_special(folder, &e), -1);
	assert_int_equal(e.code, ERR_INVALID);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_read_up_to_a_limit),
		cmocka_unit_test(only_what_is_no_file_is_special),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
