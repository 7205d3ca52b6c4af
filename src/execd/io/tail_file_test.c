// SPDX-License-Identifier: Apache-2.0
#include "execd/io/tail_file.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/own.h"

#include "base/banned.h"

#define MEBI ((size_t)1024 * 1024)

static void what_was_written_is_read(void **state)
{
	struct tail_file k = TAIL_FILE_INIT("/tmp");
	char out[16];

	(void)state;
	tail_file_add(&k, STR("hello "));
	tail_file_add(&k, STR("world"));
	assert_true(k.start == 0 && k.end == 11 && !k.is_cut);
	assert_int_equal(tail_file_read(&k, 6, out, sizeof(out)), 5);
	assert_memory_equal(out, "world", 5);
	assert_int_equal(tail_file_read(&k, 0, out, 3), 3);
	assert_int_equal(tail_file_read(&k, 11, out, sizeof(out)), 0);
	assert_int_equal(tail_file_read(&k, 12, out, sizeof(out)), 0);
	tail_file_done(&k);
}

static void the_oldest_bytes_make_room(void **state)
{
	struct tail_file k = TAIL_FILE_INIT("/tmp");
	char *piece = malloc(MEBI);
	unsigned char got[2];

	(void)state;
	assert_non_null(piece);
	for (unsigned i = 0; i < 66; i++) {
		memset(piece, (int)i, MEBI);
		tail_file_add(&k, (struct str){ piece, MEBI });
	}
	assert_true(k.is_cut && k.end == 66 * MEBI && k.start == 2 * MEBI);
	assert_int_equal(tail_file_read(&k, 0, got, 1), 0);
	assert_int_equal(tail_file_read(&k, 2 * MEBI, got, 1), 1);
	assert_int_equal(got[0], 2);
	assert_int_equal(tail_file_read(&k, 65 * MEBI, got, 1), 1);
	assert_int_equal(got[0], 65);
	assert_int_equal(tail_file_read(&k, 64 * MEBI - 1, got, 2), 1); /* up to where the file begins anew */
	assert_int_equal(got[0], 63);
	tail_file_done(&k);
	free(piece);
}

static void a_full_disk_leaves_no_holes(void **state)
{
	struct rlimit before, small;
	struct tail_file k = TAIL_FILE_INIT("/tmp");
	char out[8];

	(void)state;
	(void)signal(SIGXFSZ, SIG_IGN);
	tail_file_add(&k, STR("0123"));
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = 6;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	tail_file_add(&k, STR("456789"));
	assert_true(k.is_cut && k.start == 10 && k.end == 10);
	assert_int_equal(tail_file_read(&k, 0, out, sizeof(out)), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	tail_file_add(&k, STR("again"));
	assert_int_equal(tail_file_read(&k, 10, out, sizeof(out)), 5);
	assert_memory_equal(out, "again", 5);
	tail_file_done(&k);
}

static void without_a_file_everything_is_cut(void **state)
{
	struct tail_file k = TAIL_FILE_INIT("/tmp");
	struct rlimit before, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	tail_file_add(&k, STR("abc"));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(k.is_cut && k.start == 3 && k.end == 3);
}

/* G11b: the name is the sandbox's to replace, the root is not. */
static void a_directory_that_is_none_is_done_without(void **state)
{
	struct tail_file k = TAIL_FILE_INIT("/proc/none");
	char out[8];

	(void)state;
	if (geteuid() != 0)
		skip(); /* not everybody may make files in the root */
	tail_file_add(&k, STR("abc"));
	assert_int_equal(tail_file_read(&k, 0, out, sizeof(out)), 3);
	assert_memory_equal(out, "abc", 3);
	tail_file_done(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(the_oldest_bytes_make_room),
		cmocka_unit_test(a_full_disk_leaves_no_holes),
		cmocka_unit_test(without_a_file_everything_is_cut),
		cmocka_unit_test(a_directory_that_is_none_is_done_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
