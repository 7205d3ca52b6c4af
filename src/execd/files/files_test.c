// SPDX-License-Identifier: Apache-2.0
/* What needs no file: modes, the pairs of an upload, places; and drafts in a directory of their own. */
#include "execd/files/files.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "execd/env.h"
#include "execd/files/upload_plan.h"
#include "sys/fd.h"

#include "base/banned.h"

static void digits_are_octal(void **state)
{
	static const struct {
		int64_t digits;
		mode_t want;
		bool ok;
	} cases[] = {
		{ 644, 0644, true },  { 755, 0755, true },  { 7, 07, true },       { 0, 0, true },          { 4755, 0755, true },
		{ 17777, 0, false }, { 8, 0, false },     { 649, 0, false },     { 800, 0, false },       { 8644, 0, false }, { 10000, 0, false },
		{ -1, 0, false },     { -644, 0, false },   { INT64_MIN, 0, false }, { INT64_MAX, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		mode_t mode = 0;

		assert_int_equal(mode_from_digits(cases[i].digits, &mode), cases[i].ok);
		assert_int_equal(mode, cases[i].want);
	}
	assert_int_equal(mode_to_digits(S_IFREG | 0600), 600);
	assert_int_equal(mode_to_digits(S_IFREG | 06751), 751);
	assert_int_equal(mode_to_digits(0), 0);
}

static void parts_are_paired_by_their_number(void **state)
{
	static const char *const names[] = { "metadata", "file", "x", "file", "metadata", "FILE", "metadata" };
	static const enum upload_part want[] = { UPLOAD_METADATA, UPLOAD_FILE,  UPLOAD_OTHER,    UPLOAD_FILE,
						 UPLOAD_METADATA, UPLOAD_OTHER, UPLOAD_METADATA };
	static const size_t pairs[] = { 0, 0, 0, 1, 1, 0, 2 };
	struct upload_plan p = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t pair = 0;

		assert_int_equal(upload_plan_next(&p, str_of(names[i]), &pair), want[i]);
		assert_int_equal(pair, pairs[i]);
	}
	assert_int_equal(p.metadata, 3);
	assert_int_equal(p.files, 2);
}

static void an_upload_is_pairs_and_no_more_than_ten_thousand(void **state)
{
	struct upload_plan p = { 0 };
	const char *why = NULL;
	size_t pair;

	(void)state;
	assert_string_equal(upload_plan_fault(&p, &why), "INVALID_FILE_METADATA");
	p.metadata = 1;
	assert_string_equal(upload_plan_fault(&p, &why), "INVALID_FILE_CONTENT");
	p.files = 2;
	assert_string_equal(upload_plan_fault(&p, &why), "INVALID_FILE");
	p.files = 1;
	assert_null(upload_plan_fault(&p, &why));
	p.files = UPLOAD_FILES_MAX;
	assert_int_equal(upload_plan_next(&p, STR("file"), &pair), UPLOAD_TOO_MANY);
	assert_int_equal(upload_plan_next(&p, STR("metadata"), &pair), UPLOAD_METADATA);
}

static void places_are_absolute_and_expanded_unless_they_exist(void **state)
{
	char *items[] = { (char[]){ "HOME=/home/x" }, (char[]){ "D=/usr" }, NULL };
	const struct env env = { .items = items, .n = 2 };
	static const struct {
		const char *sent;
		unsigned flags;
		const char *want;
		enum err_code code;
	} cases[] = {
		{ "/a//b/./../c", PLACE_CLEAN, "/a/c", ERR_NONE },
		{ "/a//b/./../c", 0, "/a//b/./../c", ERR_NONE },
		{ "$D/x", PLACE_CLEAN, "/usr/x", ERR_NONE },
		{ "${D}x", 0, "/usrx", ERR_NONE },
		{ "~", 0, "/home/x", ERR_NONE },
		{ "~/y", 0, "/home/x/y", ERR_NONE },
		{ "/cost$5.txt", 0, "/cost.txt", ERR_NONE },
		{ "$NOT_DEFINED", 0, NULL, ERR_INTERNAL },
		{ "", 0, NULL, ERR_INVALID },
	};
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		struct place at;
		int r = place_find(&env, root, str_of(cases[i].sent), cases[i].flags, &at, &e);

		assert_int_equal(r, cases[i].want ? 0 : -1);
		assert_int_equal(e.code, cases[i].code);
		if (cases[i].want)
			assert_string_equal(at.path, cases[i].want);
	}
}

static void a_draft_shows_when_it_is_kept_and_never_else(void **state)
{
	char path[] = "/tmp/draft-test-XXXXXX";
	AUTO(buf_done) struct buf got = BUF_INIT(100);
	AUTO_FD dir = -1;
	struct err e = { 0 };
	const char *const contents[] = { "first", "second" };

	(void)state;
	assert_non_null(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
		AUTO(draft_done) struct draft d = DRAFT_INIT;
		AUTO(draft_done) struct draft dropped = DRAFT_INIT;

		assert_int_equal(draft_open(&d, dir, &e), 0);
		assert_int_equal(draft_open(&dropped, dir, &e), 0);
		assert_int_equal(fd_write_all(d.fd, contents[i], strlen(contents[i]), &e), 0);
		assert_int_equal(faccessat(dir, "name", F_OK, 0), i == 0 ? -1 : 0);
		assert_int_equal(draft_dress(&d, "name", &(struct attr_ids){ 0 }, 0640, &e), 0);
		assert_int_equal(draft_keep(&d, "name", &e), 0);
	}
	assert_int_equal(fd_read_file(dir, "name", 100, &got, &e), 0);
	assert_string_equal(buf_z(&got), "second");
	assert_int_equal(unlinkat(dir, "name", 0), 0);
	assert_int_equal(rmdir(path), 0); /* nothing else was left */
}

static void where_files_must_have_names_a_draft_has_a_temporary_one(void **state)
{
	char path[] = "/tmp/draft-test-XXXXXX";
	AUTO_FD dir = -1;
	struct err e = { 0 };

	(void)state;
	assert_non_null(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int keeps = 0; keeps < 2; keeps++) {
		AUTO(draft_done) struct draft d = DRAFT_INIT;

		d.dir = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(draft_temp_name(d.temp, &e), 0);
		d.fd = openat(dir, d.temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		assert_true(d.fd >= 0);
		if (keeps)
			assert_int_equal(draft_keep(&d, "name", &e), 0);
	}
	assert_int_equal(unlinkat(dir, "name", 0), 0);
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digits_are_octal),
		cmocka_unit_test(parts_are_paired_by_their_number),
		cmocka_unit_test(an_upload_is_pairs_and_no_more_than_ten_thousand),
		cmocka_unit_test(places_are_absolute_and_expanded_unless_they_exist),
		cmocka_unit_test(a_draft_shows_when_it_is_kept_and_never_else),
		cmocka_unit_test(where_files_must_have_names_a_draft_has_a_temporary_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
