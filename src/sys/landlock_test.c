// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/own.h"
#include "sys/landlock.h"

#include "base/banned.h"

enum { WORKS, UNAVAILABLE, READS_ELSEWHERE, NO_READ, WRITES_READ_ONLY, NO_WRITE, MAKES_FOLDER, FAILED };

static int try_all(const char *folder)
{
	int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC), read_only = openat(dir, "ro", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int writable = openat(dir, "rw", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct landlock_rule rules[] = { { read_only, false }, { writable, true } };
	struct err e = { 0 };
	int k;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return FAILED;
	k = landlock_confine(rules, ARRAY_LEN(rules), &e);
	if (k <= 0)
		return k == 0 ? UNAVAILABLE : FAILED;
	if (openat(dir, "other", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES)
		return READS_ELSEWHERE;
	if (openat(read_only, "file", O_RDONLY | O_CLOEXEC) < 0)
		return NO_READ;
	if (openat(read_only, "file", O_WRONLY | O_CLOEXEC) >= 0 || unlinkat(read_only, "file", 0) == 0)
		return WRITES_READ_ONLY;
	if (openat(writable, "a", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) < 0 || renameat(writable, "a", writable, "b") < 0 ||
	    unlinkat(writable, "b", 0) < 0)
		return NO_WRITE;
	return mkdirat(writable, "c", 0700) == 0 ? MAKES_FOLDER : WORKS;
}

static void only_what_was_named_can_be_opened(void **state)
{
	char folder[] = "/tmp/landlock_test.XXXXXX";
	AUTO_FD dir = -1;
	int status;
	pid_t pid;

	(void)state;
	assert_non_null(mkdtemp(folder));
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0 && mkdirat(dir, "ro", 0700) == 0 && mkdirat(dir, "rw", 0700) == 0);
	(void)close(openat(dir, "ro/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	(void)close(openat(dir, "other", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(try_all(folder));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)unlinkat(dir, "ro/file", 0);
	(void)unlinkat(dir, "other", 0);
	(void)unlinkat(dir, "ro", AT_REMOVEDIR);
	(void)unlinkat(dir, "rw", AT_REMOVEDIR);
	(void)rmdir(folder);
	if (WEXITSTATUS(status) == UNAVAILABLE)
		skip();
	assert_int_equal(WEXITSTATUS(status), WORKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(only_what_was_named_can_be_opened) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
