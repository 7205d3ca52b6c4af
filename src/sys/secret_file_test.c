// SPDX-License-Identifier: Apache-2.0
#include "sys/secret_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

struct place {
	char dir[32], file[64];
};

static void place_make(struct place *p)
{
	AUTO_FD fd = -1;

	*p = (struct place){ .dir = "/tmp/secret-file-XXXXXX" };
	assert_non_null(mkdtemp(p->dir));
	(void)snprintf(p->file, sizeof(p->file), "%s/key", p->dir);
	fd = open(p->file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
}

static void place_remove(const struct place *p)
{
	(void)unlink(p->file);
	assert_int_equal(rmdir(p->dir), 0);
}

static void modes_tell_what_others_can_do(void **state)
{
	static const struct {
		mode_t mode;
		enum secret_file_fault private, shared;
	} cases[] = {
		{ 0600, SECRET_FILE_FINE, SECRET_FILE_FINE },         { 0400, SECRET_FILE_FINE, SECRET_FILE_FINE },
		{ 0604, SECRET_FILE_READABLE, SECRET_FILE_READABLE }, { 0644, SECRET_FILE_READABLE, SECRET_FILE_READABLE },
		{ 0602, SECRET_FILE_WRITABLE, SECRET_FILE_WRITABLE }, { 0666, SECRET_FILE_WRITABLE, SECRET_FILE_WRITABLE },
		{ 0611, SECRET_FILE_FINE, SECRET_FILE_FINE },
	};
	struct place p;

	(void)state;
	place_make(&p);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(chmod(p.file, cases[i].mode), 0);
		assert_int_equal(secret_file_look(p.file, SECRET_FILE_PRIVATE), cases[i].private);
		assert_int_equal(secret_file_look(p.file, SECRET_FILE_SHARED), cases[i].shared);
	}
	place_remove(&p);
}

static void a_group_may_read_what_is_for_it_and_roots_is_root(void **state)
{
	struct stat st;
	struct place p;
	bool is_roots;

	(void)state;
	place_make(&p);
	(void)!chown(p.file, (uid_t)-1, 7); /* only root can; everybody else has a group of his own */
	assert_int_equal(stat(p.file, &st), 0);
	is_roots = st.st_gid == 0;
	assert_int_equal(chmod(p.file, 0640), 0);
	assert_int_equal(secret_file_look(p.file, SECRET_FILE_SHARED), SECRET_FILE_FINE);
	assert_int_equal(secret_file_look(p.file, SECRET_FILE_PRIVATE), is_roots ? SECRET_FILE_FINE : SECRET_FILE_READABLE);
	assert_int_equal(chmod(p.file, 0620), 0);
	assert_int_equal(secret_file_look(p.file, SECRET_FILE_SHARED), is_roots ? SECRET_FILE_FINE : SECRET_FILE_WRITABLE);
	if (geteuid() == 0) {
		assert_int_equal(chown(p.file, 0, 0), 0);
		assert_int_equal(chmod(p.file, 0660), 0);
		assert_int_equal(secret_file_look(p.file, SECRET_FILE_PRIVATE), SECRET_FILE_FINE);
	}
	place_remove(&p);
}

static void what_is_no_file_is_fine(void **state)
{
	(void)state;
	assert_int_equal(secret_file_look("/nowhere/key", SECRET_FILE_PRIVATE), SECRET_FILE_FINE);
	assert_int_equal(secret_file_look("/dev/null", SECRET_FILE_PRIVATE), SECRET_FILE_FINE);
	assert_int_equal(secret_file_look("/tmp", SECRET_FILE_PRIVATE), SECRET_FILE_FINE);
}

static void the_words_say_what_to_do(void **state)
{
	char text[SECRET_FILE_TEXT_MAX];

	(void)state;
	secret_file_say(SECRET_FILE_READABLE, "/k", SECRET_FILE_PRIVATE, text);
	assert_string_equal(text, "holds a secret that other users can read: chmod 600 /k");
	secret_file_say(SECRET_FILE_WRITABLE, "/k", SECRET_FILE_SHARED, text);
	assert_string_equal(text, "other users can change it: chmod 640 /k");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modes_tell_what_others_can_do),
		cmocka_unit_test(a_group_may_read_what_is_for_it_and_roots_is_root),
		cmocka_unit_test(what_is_no_file_is_fine),
		cmocka_unit_test(the_words_say_what_to_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
