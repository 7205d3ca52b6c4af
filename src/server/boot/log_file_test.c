// SPDX-License-Identifier: Apache-2.0
#include "server/boot/log_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/log.h"

#include "base/banned.h"

struct fixture {
	char folder[64], path[160];
	struct config_log config;
	struct err e;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	(void)snprintf(f->folder, sizeof(f->folder), "/tmp/log_file_test.XXXXXX");
	if (!mkdtemp(f->folder)) {
		free(f);
		return -1;
	}
	(void)snprintf(f->path, sizeof(f->path), "%s/a/b.log", f->folder);
	f->config = (struct config_log){
		.level = "INFO", .file_enabled = true, .file_path = f->path, .file_max_bytes = 10, .file_backup_count = 2,
	};
	*state = f;
	return 0;
}

static void name_of(const struct fixture *f, int number, char *out, size_t size)
{
	if (number == 0)
		(void)snprintf(out, size, "%s", f->path);
	else
		(void)snprintf(out, size, "%s.%d", f->path, number);
}

static long size_of(const struct fixture *f, int number)
{
	char name[256];
	struct stat st;

	name_of(f, number, name, sizeof(name));
	return stat(name, &st) < 0 ? -1 : (long)st.st_size;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	char name[256];

	for (int i = 0; i < 4; i++) {
		name_of(f, i, name, sizeof(name));
		(void)unlink(name);
	}
	(void)snprintf(name, sizeof(name), "%s/a", f->folder);
	(void)rmdir(name);
	(void)rmdir(f->folder);
	free(f);
	return 0;
}

static void folders_are_made_and_lines_arrive(void **state)
{
	struct fixture *f = *state;
	AUTO(log_file_done) struct log_file l = LOG_FILE_INIT;

	assert_int_equal(log_file_open(&l, &f->config, &f->e), 0);
	log_info("hello");
	assert_true(size_of(f, 0) > 10);
	assert_int_equal(log_file_open(&l, &f->config, &f->e), 0); /* appends */
}

static void a_large_file_is_rotated(void **state)
{
	struct fixture *f = *state;
	AUTO(log_file_done) struct log_file l = LOG_FILE_INIT;

	assert_int_equal(log_file_open(&l, &f->config, &f->e), 0);
	assert_int_equal(log_file_rotate_if_large(&l, &f->e), 0);
	assert_int_equal(size_of(f, 1), -1);
	for (int i = 0; i < 4; i++) {
		log_info("hello");
		assert_int_equal(log_file_rotate_if_large(&l, &f->e), 0);
		assert_int_equal(size_of(f, 0), 0);
	}
	assert_true(size_of(f, 1) > 0);
	assert_true(size_of(f, 2) > 0);
	assert_int_equal(size_of(f, 3), -1);
}

static void without_backups_the_file_begins_anew(void **state)
{
	struct fixture *f = *state;
	AUTO(log_file_done) struct log_file l = LOG_FILE_INIT;

	f->config.file_backup_count = 0;
	assert_int_equal(log_file_open(&l, &f->config, &f->e), 0);
	log_info("hello");
	assert_int_equal(log_file_rotate_if_large(&l, &f->e), 0);
	assert_int_equal(size_of(f, 0), 0);
	assert_int_equal(size_of(f, 1), -1);
}

static void put(const struct fixture *f, int number, const char *text)
{
	char name[256];
	FILE *out;

	name_of(f, number, name, sizeof(name));
	out = fopen(name, "we");
	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

static void a_file_that_cannot_be_opened_costs_no_backup(void **state)
{
	struct fixture *f = *state;
	AUTO(log_file_done) struct log_file l = LOG_FILE_INIT;
	struct rlimit before, few;
	int next;

	assert_int_equal(log_file_open(&l, &f->config, &f->e), 0);
	put(f, 1, "1");
	put(f, 2, "22");
	log_info("hello");
	next = dup(0);
	(void)close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){ (rlim_t)next, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(log_file_rotate_if_large(&l, &f->e), -1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(size_of(f, 0) > 10);
	assert_int_equal(size_of(f, 1), 1);
	assert_int_equal(size_of(f, 2), 2);
	log_info("this is not lost either");
	assert_int_equal(log_file_rotate_if_large(&l, &f->e), 0);
	assert_int_equal(size_of(f, 0), 0);
	assert_true(size_of(f, 1) > 60);
	assert_int_equal(size_of(f, 2), 1);
}

static void a_gap_left_by_a_rotation_that_stopped_is_filled(void **state)
{
	struct fixture *f = *state;
	AUTO(log_file_done) struct log_file l = LOG_FILE_INIT;

	assert_int_equal(log_file_open(&l, &f->config, &f->e), 0);
	put(f, 2, "22");
	log_info("hello");
	assert_int_equal(log_file_rotate_if_large(&l, &f->e), 0);
	assert_true(size_of(f, 1) > 10);
	assert_int_equal(size_of(f, 2), 2);
}

static void a_backup_that_cannot_be_replaced_is_an_error(void **state)
{
	struct fixture *f = *state;
	AUTO(log_file_done) struct log_file l = LOG_FILE_INIT;
	char name[256], leftover[256];

	assert_int_equal(log_file_open(&l, &f->config, &f->e), 0);
	put(f, 1, "1");
	name_of(f, 2, name, sizeof(name));
	assert_int_equal(mkdir(name, 0700), 0);
	log_info("hello");
	assert_int_equal(log_file_rotate_if_large(&l, &f->e), -1);
	assert_non_null(strstr(f->e.msg, "rotate log '"));
	assert_true(size_of(f, 0) > 10);
	assert_int_equal(size_of(f, 1), 1);
	(void)snprintf(leftover, sizeof(leftover), "%s.new", f->path);
	assert_int_equal(access(leftover, F_OK), -1);
	assert_int_equal(rmdir(name), 0);
}

static void a_file_that_was_moved_is_left_alone(void **state)
{
	struct fixture *f = *state;
	AUTO(log_file_done) struct log_file l = LOG_FILE_INIT;
	char moved[256];

	assert_int_equal(log_file_open(&l, &f->config, &f->e), 0);
	put(f, 1, "1");
	log_info("hello");
	name_of(f, 3, moved, sizeof(moved));
	assert_int_equal(rename(f->path, moved), 0);
	assert_int_equal(log_file_rotate_if_large(&l, &f->e), 0);
	assert_int_equal(size_of(f, 0), 0);
	assert_int_equal(size_of(f, 1), 1);
	assert_int_equal(size_of(f, 2), -1);
	log_info("hello");
	assert_int_equal(rename(f->path, moved), 0);
	put(f, 0, "made by whoever moved it");
	assert_int_equal(log_file_rotate_if_large(&l, &f->e), 0);
	assert_int_equal(size_of(f, 0), 24);
	assert_int_equal(size_of(f, 1), 1);
}

static void without_a_file_nothing_is_rotated(void **state)
{
	struct fixture *f = *state;
	struct log_file l = LOG_FILE_INIT;

	f->config.file_enabled = false;
	assert_int_equal(log_file_open(&l, &f->config, &f->e), 0);
	assert_int_equal(l.fd, -1);
	assert_int_equal(log_file_rotate_if_large(&l, &f->e), 0);
	assert_int_equal(log_file_reopen(&l, &f->e), 0);
	log_file_done(&l);
}

static void what_cannot_be_opened_is_named(void **state)
{
	struct fixture *f = *state;
	struct log_file l = LOG_FILE_INIT;

	f->config.file_path = "/proc/nowhere/x.log";
	assert_int_equal(log_file_open(&l, &f->config, &f->e), -1);
	assert_non_null(strstr(f->e.msg, "/proc/nowhere"));
	f->config.file_path = "/proc";
	assert_int_equal(log_file_open(&l, &f->config, &f->e), -1);
	assert_non_null(strstr(f->e.msg, "open log '/proc'"));
	f->config.level = "loud";
	assert_int_equal(log_file_open(&l, &f->config, &f->e), -1);
	assert_non_null(strstr(f->e.msg, "'loud'"));
}

#define WITH_FILES(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FILES(folders_are_made_and_lines_arrive),
		WITH_FILES(a_large_file_is_rotated),
		WITH_FILES(without_backups_the_file_begins_anew),
		WITH_FILES(a_file_that_cannot_be_opened_costs_no_backup),
		WITH_FILES(a_gap_left_by_a_rotation_that_stopped_is_filled),
		WITH_FILES(a_backup_that_cannot_be_replaced_is_an_error),
		WITH_FILES(a_file_that_was_moved_is_left_alone),
		WITH_FILES(without_a_file_nothing_is_rotated),
		WITH_FILES(what_cannot_be_opened_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
