// SPDX-License-Identifier: Apache-2.0
/* The secret in its three places: any of them may be damaged, lost or older (S8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> /* wants the four above first */
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "server/store/store_impl.h"
#include "server/store/test_disk.h"

#include "base/banned.h"

#define FILE_SIZE (STORE_SECRET_SIZE + 8)

static char dir[64];
static unsigned char good[STORE_SECRET_SIZE];
static enum store_fault fault;
static struct err error;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static const char *in_dir(const char *name)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static bool opens(unsigned char out[STORE_SECRET_SIZE])
{
	struct store *s = store_open(dir, &fault, &error);

	if (!s)
		return false;
	assert_int_equal(store_secret(s, out, &error), 0);
	store_close(s);
	return true;
}

static void change(const char *name, const char *sql)
{
	struct connection c = { .path = strdup(in_dir(name)) };

	assert_int_equal(connection_open(&c, &error), 0);
	assert_int_equal(connection_exec(c.db, sql, &error), 0);
	connection_close(&c);
	free(c.path);
}

/* A directory that has served, and its secret. */
static int setup(void **state)
{
	(void)state;
	log_set_fd(-1);
	(void)snprintf(dir, sizeof(dir), "/tmp/secret-test.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_true(opens(good));
	change("db.sqlite", "INSERT INTO meta VALUES ('boot_id', x'31')");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	log_set_fd(2);
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- damages ---- */

static size_t read_secret(unsigned char out[FILE_SIZE + 1])
{
	int fd = open(in_dir("secret"), O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, out, FILE_SIZE + 1);

	(void)close(fd);
	return n < 0 ? 0 : (size_t)n;
}

static void write_secret(const unsigned char *bytes, size_t n)
{
	int fd = open(in_dir("secret"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, bytes, n), n);
	(void)close(fd);
}

static void flip_file(size_t at)
{
	unsigned char bytes[FILE_SIZE + 1];

	assert_int_equal(read_secret(bytes), FILE_SIZE);
	bytes[at] ^= 1;
	write_secret(bytes, FILE_SIZE);
}

static void bad_file(void) { flip_file(3); }
static void bad_check_of_file(void) { flip_file(STORE_SECRET_SIZE + 3); }
static void short_file(void) { assert_int_equal(truncate(in_dir("secret"), 20), 0); }
static void empty_file(void) { assert_int_equal(truncate(in_dir("secret"), 0), 0); }
static void long_file(void) { assert_int_equal(truncate(in_dir("secret"), 10000), 0); }
static void no_file(void) { assert_int_equal(unlink(in_dir("secret")), 0); }
#define OTHER "x'0000000000000000000000000000000000000000000000000000000000000000'"
#define FLIP "UPDATE meta SET value = " OTHER " WHERE name = 'secret'"
#define FLIP_CHECK "UPDATE meta SET value = x'0000000000000000' WHERE name = 'secret_check'"
#define DROP "DELETE FROM meta WHERE name LIKE 'secret%'"
/* Of another directory: its check fits. sha256 of 32 zeros begins like this. */
#define FOREIGN FLIP "; UPDATE meta SET value = x'66687aadf862bd77' WHERE name = 'secret_check'"
static void bad_database(void) { change("db.sqlite", FLIP); }
static void bad_check_of_database(void) { change("db.sqlite", FLIP_CHECK); }
static void not_in_database(void) { change("db.sqlite", DROP); }
static void foreign_database(void) { change("db.sqlite", FOREIGN); }
static void no_database(void) { assert_int_equal(unlink(in_dir("db.sqlite")), 0); }
static void bad_copy(void) { change("copy.sqlite", FLIP); }
static void not_in_copy(void) { change("copy.sqlite", DROP); }
static void no_copy(void) { assert_int_equal(unlink(in_dir("copy.sqlite")), 0); }
static void foreign_copy(void) { change("copy.sqlite", FOREIGN); }
/* Of an earlier version. */
static void unchecked_file(void) { assert_int_equal(truncate(in_dir("secret"), STORE_SECRET_SIZE), 0); }
static void unchecked_database(void) { change("db.sqlite", "DELETE FROM meta WHERE name = 'secret_check'"), no_copy(); }
static void none(void) {}

typedef void damage_fn(void);
static damage_fn *const of_file[] = { none, bad_file, bad_check_of_file, short_file, empty_file, long_file, no_file, unchecked_file };
static damage_fn *const of_database[] = { none, bad_database, bad_check_of_database, not_in_database, no_database };
static damage_fn *const of_copy[] = { none, bad_copy, not_in_copy, no_copy };

static void is_whole_everywhere(void)
{
	damage_fn *const two[][2] = { { no_file, no_database }, { no_file, no_copy }, { no_database, no_copy } };
	unsigned char again[STORE_SECRET_SIZE], bytes[FILE_SIZE + 1];

	assert_int_equal(read_secret(bytes), FILE_SIZE);
	assert_memory_equal(bytes, good, sizeof(good));
	for (size_t i = 0; i < ARRAY_LEN(two); i++) {
		two[i][0](), two[i][1]();
		assert_true(opens(again));
		assert_memory_equal(again, good, sizeof(good));
	}
}

static void one_good_place_is_enough(void **state)
{
	unsigned char again[STORE_SECRET_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(of_file); i++)
		for (size_t k = 0; k < ARRAY_LEN(of_database); k++)
			for (size_t m = 0; m < ARRAY_LEN(of_copy); m++) {
				if (i > 0 && k > 0 && m > 0)
					continue; /* each of them may be the last good one */
				if (i > 0 && k > 0 && of_file[i] == unchecked_file)
					continue;
				of_file[i](), of_database[k](), of_copy[m]();
				if (!opens(again))
					fail_msg("%zu %zu %zu: %s", i, k, m, error.msg);
				assert_memory_equal(again, good, sizeof(good));
				if ((i + k + m) % 4 == 1)
					is_whole_everywhere();
			}
}

static void two_damages_at_a_time_are_mended_from_the_third(void **state)
{
	unsigned char again[STORE_SECRET_SIZE];

	(void)state;
	bad_file(), bad_database();
	assert_true(opens(again));
	assert_memory_equal(again, good, sizeof(good));
	is_whole_everywhere();
}

static void the_file_is_right_where_good_ones_differ(void **state)
{
	unsigned char again[STORE_SECRET_SIZE];

	(void)state;
	foreign_database();
	assert_true(opens(again));
	assert_memory_equal(again, good, sizeof(good));
	foreign_copy();
	foreign_database();
	assert_true(opens(again));
	assert_memory_equal(again, good, sizeof(good));
	is_whole_everywhere();
}

static void those_of_an_earlier_version_get_their_checksum(void **state)
{
	unsigned char again[STORE_SECRET_SIZE];

	(void)state;
	unchecked_file(), unchecked_database();
	assert_true(opens(again));
	assert_memory_equal(again, good, sizeof(good));
	is_whole_everywhere();
}

static void without_a_good_one_the_start_ends_and_changes_nothing(void **state)
{
	static const struct {
		damage_fn *all[3];
	} rows[] = {
		{ { bad_file, bad_database, bad_copy } },        { { no_file, not_in_database, not_in_copy } },
		{ { short_file, not_in_database, no_copy } },    { { bad_file, no_database, no_copy } },
		{ { no_file, bad_check_of_database, no_copy } },
	};
	unsigned char again[STORE_SECRET_SIZE], bytes[FILE_SIZE];

	(void)state;
	memcpy(bytes, good, sizeof(good));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (size_t k = 0; k < 3; k++)
			rows[i].all[k]();
		for (int k = 0; k < 2; k++) {
			assert_false(opens(again));
			assert_int_equal(fault, STORE_DAMAGED);
			assert_non_null(strstr(error.msg, "put it back from a backup"));
		}
		write_secret(good, sizeof(good)); /* which is what the message says */
		assert_true(opens(again));
		assert_memory_equal(again, good, sizeof(good));
		change("db.sqlite", "INSERT OR REPLACE INTO meta VALUES ('boot_id', x'31')");
	}
}

static void a_first_start_that_was_cut_off_is_no_damage(void **state)
{
	unsigned char again[STORE_SECRET_SIZE];

	(void)state;
	no_file(), not_in_database(), not_in_copy();
	change("db.sqlite", "DELETE FROM meta WHERE name = 'boot_id'");
	assert_true(opens(again));
	assert_memory_not_equal(again, good, sizeof(good));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_good_place_is_enough), TEST(two_damages_at_a_time_are_mended_from_the_third),
		TEST(the_file_is_right_where_good_ones_differ), TEST(those_of_an_earlier_version_get_their_checksum),
		TEST(without_a_good_one_the_start_ends_and_changes_nothing), TEST(a_first_start_that_was_cut_off_is_no_damage),
	};

	disk_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
