// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "sys/closed_files.h"
#include "sys/tree.h"

#include "base/banned.h"

static const struct {
	const char *path;
	mode_t mode;
	bool is_closed;
} entries[] = {
	{ "open/", 0755, false },       { "open/file", 0644, false },      { "open/mine", 0600, true },
	{ "open/group", 0640, true },   { "open/setuid", 04711, false },   { "open/setuid-closed", 04710, true },
	{ "open/script", 0711, true },  { "open/deep/", 01777, false },    { "open/deep/mine", 0, true },
	{ "closed/", 0700, true },      { "closed/not-told", 0600, false }, { "unlisted/", 0711, true },
	{ "not-entered/", 0744, true },
};

static void make(int dir)
{
	for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
		if (entries[i].path[strlen(entries[i].path) - 1] == '/')
			assert_int_equal(mkdirat(dir, entries[i].path, 0700), 0);
		else
			(void)close(openat(dir, entries[i].path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		assert_int_equal(fchmodat(dir, entries[i].path, entries[i].mode, 0), 0);
	}
	assert_int_equal(symlinkat("mine", dir, "open/link"), 0);
}

static int add_name(const char *path, const struct stat *st, void *arg, struct err *e)
{
	struct buf *names = arg;

	(void)e;
	buf_addf(names, " %s%s ", path, S_ISDIR(st->st_mode) ? "/" : "");
	return strcmp(path, "open/deep/mine") == 0 && names->max == 100 ? 7 : 0;
}

static void find_in(int dir, size_t room, int want, struct buf *names)
{
	struct err e = { 0 };

	*names = BUF_INIT(room);
	if (closed_files_find(dir, add_name, names, &e) != want)
		fail_msg("%s", e.msg);
}

static void what_others_may_not_read_is_found(void **state)
{
	char folder[] = "/tmp/closed_files_test.XXXXXX", word[64];
	AUTO(buf_done) struct buf names = BUF_INIT(1);
	struct err e = { 0 };
	AUTO_FD dir = -1;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: needs root\n");
		skip();
	}
	assert_non_null(mkdtemp(folder));
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make(dir);
	find_in(dir, 4096, 0, &names);
	for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
		(void)snprintf(word, sizeof(word), " %s ", entries[i].path);
		assert_int_equal(strstr(buf_z(&names), word) != NULL, entries[i].is_closed);
	}
	assert_null(strstr(buf_z(&names), "link"));
	buf_done(&names);
	find_in(dir, 100, 7, &names); /* whoever is told can end it */
	assert_int_equal(tree_remove(AT_FDCWD, folder, &e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(what_others_may_not_read_is_found) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
